package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/dns"
)

// playBeside opens a story given as text and runs fn beside the crawl. It returns when both have ended.
func playBeside(t *testing.T, text string, fs disk.FS, fn func(w *world, stop func())) (*world, error) {
	t.Helper()
	s := parsed(t, text)
	w := s.opened(t, fs)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end := w.running(ctx)
	fn(w, cancel)
	_, err := end()
	return w, errors.Join(err, w.close())
}

const slowedWeb = `
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ 429 retry-after=100 | 200 /1 nofollow:/2
http://a.example/1
`

func TestIdleCrawlFlushesItsLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		_, err := playBeside(t, slowedWeb, mem, func(w *world, _ func()) {
			time.Sleep(10 * time.Second)
			w.Events.Write("a word in between")
			time.Sleep(2 * time.Second)
			b, err := disk.ReadFile(mem, crawlDir+"/logs/events.jsonl", 1<<20)
			if err != nil || !strings.Contains(string(b), "a word in between") {
				t.Errorf("after two idle seconds: %q, %v", b, err)
			}
		})
		must.Do(t, err)
	})
}

// A log that cannot be written ends the crawl, whether it is busy or idle.
func TestLogErrorsEndTheCrawl(t *testing.T) {
	for _, name := range []string{"crawl.log", "events.jsonl", "skipped.jsonl"} {
		for _, at := range []time.Duration{0, 10 * time.Second} {
			bubble(t, fmt.Sprint(name, " at ", at), func(t *testing.T) {
				began := time.Now()
				fs := testdisk.NewFaulty(testdisk.NewMem(), func(c testdisk.Call) testdisk.Fault {
					if c.Op == testdisk.OpWrite && strings.HasSuffix(c.Name, name) && time.Since(began) >= at {
						return testdisk.Fault{Err: syscall.ENOSPC}
					}
					return testdisk.Fault{}
				})
				_, err := playBeside(t, slowedWeb, fs, func(w *world, _ func()) {})
				if !disk.IsFull(err) {
					t.Errorf("error %v", err)
				}
			})
		}
	}
}

// The answers of zeroTTL expire at once.
type zeroTTL struct {
	crawl.Resolver
	asked atomic.Int64
}

func (z *zeroTTL) Lookup(ctx context.Context, host string) (dns.Answer, error) {
	a, err := z.Resolver.Lookup(ctx, host)
	a.Expires = time.Now().Add(-time.Second)
	z.asked.Add(1)
	return a, err
}

func TestAddressThatExpiresAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parsed(t, "ip-delay 3s\nseed http://a.example/\nseed http://b.example/\ndns a.example 192.0.2.1\n"+
			"dns b.example 192.0.2.1\nhttp://a.example/ /1\nhttp://a.example/1\n")
		z := &zeroTTL{}
		s.with = func(p *crawl.Parts) error {
			z.Resolver, p.DNS = p.DNS, z
			return nil
		}
		w := s.opened(t, testdisk.NewMem())
		ran(t)(w.Run(t.Context()))
		if n := len(s.web.Told()); z.asked.Load() > int64(2*n) || n != 5 {
			t.Errorf("%d look-ups for %d requests", z.asked.Load(), n)
		}
		s.check(t, w)
	})
}

// TestManyOverQuota finishes a long queue of a host that has reached its page limit, while another
// host is visited in time.
func TestManyOverQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		b.WriteString("host-page-limit 1\nseed http://a.example/\nseed http://b.example/\ndns a.example 192.0.2.1\n" +
			"dns b.example 192.0.2.2\nhttp://b.example/\nhttp://a.example/")
		for i := range 5000 {
			fmt.Fprintf(&b, " /%d", i)
		}
		w, err := playBeside(t, b.String()+"\n", testdisk.NewMem(), func(w *world, _ func()) {})
		must.Do(t, err)
		sum := w.Tally.Summary(0, "")
		want := map[string]int64{"200": 2, "-5003": 5000}
		if diff := cmp.Diff(want, sum.Status); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	})
}

// TestManyDeadNames has more names without an answer than concurrent look-ups. The host whose
// address is known does not wait for them.
func TestManyDeadNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		b.WriteString("retries -1\ndelay 1s\nseed http://a.example/\ndns a.example 192.0.2.1\nhttp://a.example/ /1 /2")
		for i := range 1000 {
			fmt.Fprintf(&b, " http://x%d.example/", i)
		}
		b.WriteString("\nhttp://a.example/1\nhttp://a.example/2\n")
		for i := range 1000 {
			fmt.Fprintf(&b, "dns x%d.example timeout\n", i)
		}
		s := parsed(t, b.String())
		w := s.opened(t, testdisk.NewMem())
		finished(t)(w.Run(t.Context()))
		want := "0s     a.example/robots.txt\n1s     a.example/\n2s     a.example/1\n3s     a.example/2\n"
		if diff := cmp.Diff(want, s.web.Requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		s.check(t, w)
	})
}

// TestQueriesOverRuns finds a path's queries in two runs. They count as in one run.
func TestQueriesOverRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		const text = "seed http://a.example/\ndns a.example 192.0.2.1\nhttp://a.example/ /p?1 /p?2 /p?3\n" +
			"http://a.example/p?3 /p?4 /p?5 /p?6\n"
		s := parsed(t, text)
		for range 2 { // the second run has nothing to do but to remember
			w := s.opened(t, mem)
			finished(t)(w.Run(t.Context()))
			counts := map[uint32]int{}
			w.Queries.Each(func(_ uint64, n uint32) error { counts[n]++; return nil })
			if diff := cmp.Diff(map[uint32]int{6: 1}, counts); diff != "" {
				t.Errorf("paths by queries (-want +got):\n%s", diff)
			}
			must.Do(t, w.close())
		}
	})
}
