package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
)

// everyKind is a web with each kind of response.
const everyKind = `
http://a.example/robots.txt robots=User-agent:_*;Disallow:_/no
http://a.example/ /1 /2 /no /to /twice /404 /410 /500 /503 /429 /cut /drip /empty /large /same/1 /same/2 /304
http://a.example/1 /3 /4 http://b.example/ http://c.example/ http://gone.example/ http://down.example/
http://a.example/2 /5 /6 /same/3 /same/4 /to/nowhere /loop
http://a.example/3 prose=40 /7 /8
http://a.example/4 prose=50 /9
http://a.example/5 prose=60
http://a.example/6 noise=9000
http://a.example/7 noise=5000
http://a.example/8 noise=20000
http://a.example/9 x-robots-tag=nofollow /10
http://a.example/to 301 to=/moved
http://a.example/moved prose=10
http://a.example/twice 302 to=/to
http://a.example/to/nowhere 302 to=mailto:x
http://a.example/loop 307 to=/loop
http://a.example/410 410
http://a.example/500 500 | 500 | 200 prose=9
http://a.example/503 503 retry-after=2 | 200 prose=8
http://a.example/429 429 retry-after=1 | 429 | 429 | 429 | 429 | 429
http://a.example/cut cut prose=30
http://a.example/drip drip=1s size=200
http://a.example/empty 204
http://a.example/large size=40000
http://a.example/same/1 same
http://a.example/same/2 same
http://a.example/same/3 same
http://a.example/same/4 404 same
http://a.example/304 304
http://b.example/robots.txt 404
http://b.example/ /1 /2 /3 /reset /hang http://a.example/same/1
http://b.example/1 noise=7000 /4
http://b.example/2 same
http://b.example/3 noise=20000 /5
http://b.example/4 etag=x /6
http://b.example/5 500
http://b.example/6 /7 noise=3000
http://b.example/7 /8 noise=3000
http://b.example/8 same
http://b.example/reset reset
http://b.example/hang hang
http://c.example/robots.txt 500
http://c.example/ /1
`

// noNames is a name server that knows no name.
func noNames(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		b := make([]byte, 512)
		for {
			n, err := there.Read(b)
			if err != nil || n < 12 {
				return
			}
			b[2], b[3] = b[2]|0x80, 0x83 // a reply: no such name
			if _, err := there.Write(b[:n]); err != nil {
				return
			}
		}
	}()
	return here, nil
}

// TestCountsAgree crawls a web with every kind of response, and kills the crawl at twenty random operations: of the
// disk, of its segments, and of the store. With every second seed the store fails, too, and the power is cut at some of
// the kills. At the end crawl.log, the indexes, the Parquet tables, the manifests, the records themselves and the
// summary have the same counts.
func TestCountsAgree(t *testing.T) {
	const most = 20
	for seed := range uint64(testtier.Rounds(2, 200)) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 40))
			w, mem := &smallWeb{Web: textweb.Parse(t, everyKind)}, testdisk.NewMem()
			hosts := filepath.Join(t.TempDir(), "names")
			must.Do(t, os.WriteFile(hosts, []byte("192.0.2.1 a.example\n192.0.2.2 b.example\n192.0.2.3 c.example\n"+
				"192.0.2.4 down.example\n"), 0o644))
			sim := teststore.NewSim(seed, teststore.Traits{})
			if seed%2 == 1 {
				sim.Fail(teststore.Faults{Delay: 100 * time.Millisecond, Busy: 0.05, Broken: 0.03, LostRequest: 0.03,
					LostAnswer: 0.03, Lying: 0.02, Torn: 0.02, TornAnswer: 0.03})
			}
			kills, where, torn := 0, map[string]int{}, false
			for {
				var dead atomic.Bool
				store := &mortalStore{Sim: sim, dies: func() { dead.Store(true) }}
				at, part := int64(1<<40), "/crawl/"
				if kills < most && seed > 0 {
					switch rng.IntN(3) {
					case 0:
						at = 1 + rng.Int64N(700) // any operation
					case 1:
						at, part = 1+rng.Int64N(50), "/crawl/crawl-data/"
					case 2:
						store.last, part = 1+rng.Int64N(25), "store"
					}
				}
				seen := int64(0)
				faulty := testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
					if c.Change > 0 && strings.HasPrefix(c.Name, part) {
						seen++
					}
					if dead.Load() || seen >= at {
						dead.Store(true)
						return testdisk.Fault{Err: errKilled}
					}
					return testdisk.Fault{}
				})
				cfg := roomConfig(t, w, faulty, store)
				cfg.Links, cfg.SegmentTables = true, "all"
				cfg.DNS.HostsFile, cfg.DNS.Dial = hosts, noNames
				cfg.Fetch.MaxBody, cfg.Fetch.TotalTimeout = 30_000, 20*time.Second
				cfg.Crawl.Retries, cfg.Crawl.RetryWait = 1, 3*time.Second
				cfg.Resume = resumes(mem)
				res, err := life(cfg)
				if err == nil && (res.Stop != crawl.Finished || dead.Load()) {
					t.Errorf("seed %d: after %d kills: %s", seed, kills, res.Stop)
				}
				if err == nil && (kills >= most || seed == 0) {
					break
				} else if err == nil {
					continue // the commits at the end are killed, too
				}
				if !errors.Is(err, errKilled) {
					t.Fatalf("seed %d: after %d kills: %v", seed, kills, err)
				}
				kills++
				time.Sleep(time.Second) // no process starts in the millisecond in which another one has ended
				where[part]++
				if seed%2 == 1 && rng.IntN(3) == 0 {
					mem, torn = mem.Crash(rng.Uint64()), true
				}
			}
			t.Logf("seed %d: kills %v, the power was cut: %v", seed, where, torn)
			what := fmt.Sprintf("seed %d, %d kills", seed, kills)
			judge{t, withStore(t, mem, sim), what, map[capture]int64{}, kills, torn}.count()
		})
	}
}
