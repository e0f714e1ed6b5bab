package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A smallWeb is two hosts with pages that link to each other, over connections in memory. /N links
// to /2N+1, /2N+2 and to the other host. Every fifth page is large, every sixth has the same
// content as others.
type smallWeb struct {
	torn bool // a power failure may have taken the log's last lines

	mu sync.Mutex // guards at
	at map[string][]time.Time
}

const smallPages = 12

func (w *smallWeb) urls() []string {
	var us []string
	for _, h := range []string{"a.example", "b.example"} {
		us = append(us, "http://"+h+"/")
		for i := 1; i < smallPages; i++ {
			us = append(us, fmt.Sprintf("http://%s/%d", h, i))
		}
	}
	return us
}

func (w *smallWeb) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		in := bufio.NewReader(there)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			w.mu.Lock()
			u := "http://" + r.Host + r.RequestURI
			w.at[u] = append(w.at[u], time.Now())
			w.mu.Unlock()
			n := 0
			fmt.Sscanf(r.RequestURI, "/%d", &n)
			var b strings.Builder
			status := 200
			switch {
			case r.RequestURI == "/robots.txt":
				status = 404
			case n > 0 && n%6 == 0:
				b.WriteString("the same everywhere, and long enough to be worth a revisit record")
			default:
				fmt.Fprintf(&b, "<!-- %s -->", u)
				for _, k := range []int{2*n + 1, 2*n + 2} {
					if k < smallPages {
						fmt.Fprintf(&b, `<a href="/%d">x</a>`, k)
					}
				}
				fmt.Fprintf(&b, `<a href="http://b.example/">b</a><a href="http://a.example/%d">a</a>`,
					(n+1)%(smallPages-1)+1)
				if n%5 == 4 {
					rng := rand.New(rand.NewPCG(uint64(n), 1))
					for range 20000 {
						b.WriteByte(byte('a' + rng.IntN(26)))
					}
				}
			}
			if _, err := fmt.Fprintf(there, "HTTP/1.1 %d X\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s",
				status, b.Len(), b.String()); err != nil {
				return
			}
		}
	}()
	return here, nil
}

func (w *smallWeb) config(t testing.TB, fs disk.FS) Config {
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("192.0.2.1 a.example\n192.0.2.2 b.example\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Dir: "/crawl", Seeds: []string{"http://a.example/"}, Contact: "ops@example.org", FS: fs}
	cfg.DNS.HostsFile, cfg.DNS.Servers = hosts, []string{"192.0.2.53"}
	cfg.Fetch.AllowPrivate, cfg.Fetch.Dial = true, w.dial
	cfg.Fetch.SpillBytes = 4096
	cfg.Scope.Scope = scope.Any
	cfg.Frontier.HostDelay, cfg.Frontier.MemoryBytes, cfg.Frontier.SegmentBytes = 100*time.Millisecond, 1, 1024
	cfg.Crawl.SnapshotBytes = 4096
	cfg.Archive.MaxBytes = 16 << 10
	return cfg
}

// life opens, runs and closes an agent. It returns the first error.
func life(cfg Config) (res Result, err error) {
	a, err := Open(cfg)
	if err != nil {
		return res, err
	}
	res, err = a.Run(context.Background())
	return res, errors.Join(err, a.Close())
}

// opened opens an agent, and closes it when the test ends.
func opened(t *testing.T, cfg Config) *Agent {
	t.Helper()
	a, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// runApart runs fn beside the run of an agent, which it stops then.
func runApart(t *testing.T, cfg Config, fn func(a *Agent)) {
	t.Helper()
	a, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := a.Run(ctx); ended <- err }()
	time.Sleep(time.Millisecond)
	fn(a)
	cancel()
	if err := errors.Join(<-ended, a.Close()); err != nil {
		t.Error(err)
	}
}

// goOn finishes the crawl after a failure and checks the result.
func (w *smallWeb) goOn(t *testing.T, cfg Config, broke time.Time) {
	t.Helper()
	_, err := cfg.FS.Stat("/crawl/crawl.yaml")
	cfg.Resume = err == nil
	res, err := life(cfg)
	if err != nil {
		t.Fatalf("with room again: %v", err)
	}
	if res.Stop != crawl.Finished || res.Summary.Queued != 0 {
		t.Fatalf("stop %s, %d queued", res.Stop, res.Summary.Queued)
	}
	urls := w.urls()
	if int(res.Summary.Finished) != len(urls) || int(res.Summary.Unique) != len(urls) ||
		int(res.Summary.Pages) != len(urls) {
		t.Errorf("%d finished, %d unique, %d pages; want %d", res.Summary.Finished, res.Summary.Unique,
			res.Summary.Pages, len(urls))
	}
	for _, u := range urls {
		at := w.at[u]
		if len(at) == 0 {
			t.Errorf("%s was never asked for", u)
		}
		for _, early := range at[:max(len(at)-1, 0)] {
			if lost := broke.Sub(early); lost > 300*time.Millisecond {
				t.Errorf("%s was fetched %s before the disk failed, and again", u, lost)
			}
		}
	}
	w.checkFiles(t, cfg.FS)
}

// checkFiles reads the whole directory. Every record must be complete, every page in the index, and
// every log line must have twelve columns.
func (w *smallWeb) checkFiles(t *testing.T, fs disk.FS) {
	t.Helper()
	entries, err := fs.ReadDir("/crawl/archive")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := disk.ReadFile(fs, "/crawl/archive/"+e.Name(), 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		r, err := warc.Verify(bytes.NewReader(b))
		if err != nil || !r.OK() || strings.HasSuffix(e.Name(), ".open") {
			t.Errorf("%s: %v %+v", e.Name(), err, r)
		}
	}
	for _, u := range w.urls() {
		lines, err := warc.Lookup(fs, warc.Place{Dir: "/crawl"}, u)
		if err != nil || len(lines) == 0 {
			t.Errorf("%s: %d captures in the index, %v", u, len(lines), err)
		}
	}
	b, err := disk.ReadFile(fs, "/crawl/logs/crawl.log", 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	logged := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		l, err := report.ReadLine(line)
		if err != nil {
			t.Error(err)
		}
		logged[l.URL] = true
	}
	for _, u := range w.urls() {
		if !logged[u] && !w.torn {
			t.Errorf("%s is not in crawl.log", u)
		}
	}
	for _, name := range []string{"summary.json", "hosts.csv"} {
		if _, err := fs.Stat("/crawl/reports/" + name); err != nil {
			t.Error(err)
		}
	}
}

func newSmallWeb() *smallWeb { return &smallWeb{at: map[string][]time.Time{}} }

// TestDiskFaults makes operations that change the disk fail, one in each crawl: with a full disk from then on, or once
// with an I/O error. For each kind of operation in each folder, the gate has the disk full from the first one on, and
// lets the last one fail. The soak does both at all operations.
func TestDiskFaults(t *testing.T) {
	for _, begun := range []bool{false, true} {
		name := "new"
		if begun {
			name = "resumed"
		}
		t.Run(name, func(t *testing.T) {
			var kinds []string // of the operations, in their order
			first, last := map[string]int{}, map[string]int{}
			synctest.Test(t, func(t *testing.T) {
				w := newSmallWeb()
				faulty := testdisk.NewFaulty(testdisk.NewMem(), nil)
				cfg := w.config(t, faulty)
				w.begin(t, cfg, faulty, begun)
				faulty.Break(func(c testdisk.Call) testdisk.Fault {
					if c.Op.Changes() {
						kind := fmt.Sprint(c.Op, " ", filepath.Dir(c.Name))
						if _, ok := first[kind]; !ok {
							first[kind] = len(kinds)
						}
						last[kind] = len(kinds)
						kinds = append(kinds, kind)
					}
					return testdisk.Fault{}
				})
				w.goOn(t, cfg, time.Now())
			})
			t.Logf("%d operations of %d kinds", len(kinds), len(first))
			for i, kind := range kinds {
				n := int64(i + 1)
				for fault, chosen := range map[string]int{"full": first[kind], "broken": last[kind]} {
					if i != chosen && !testtier.Soak() {
						continue
					}
					t.Run(fmt.Sprintf("%s-at-%d", fault, n), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { faultAt(t, n, begun, fault == "full") })
					})
				}
			}
		})
	}
}

// begin crawls a few pages if there must be an earlier run, and returns the number of operations so
// far.
func (w *smallWeb) begin(t *testing.T, cfg Config, faulty *testdisk.Faulty, begun bool) int64 {
	t.Helper()
	if begun {
		cfg.Crawl.PageLimit = 9
		if res, err := life(cfg); err != nil || res.Stop != crawl.PageLimit || res.Summary.Pages != 9 {
			t.Fatalf("%s after %d pages, %v", res.Stop, res.Summary.Pages, err)
		}
	}
	_, changes := faulty.Calls()
	return changes
}

func faultAt(t *testing.T, n int64, begun, full bool) {
	w := newSmallWeb()
	faulty := testdisk.NewFaulty(testdisk.NewMem(), nil)
	cfg := w.config(t, faulty)
	n += w.begin(t, cfg, faulty, begun)
	var failed testdisk.Call
	var broke time.Time
	hook := testdisk.FailAt(n, syscall.EIO)
	if full {
		hook = testdisk.FailFrom(n, syscall.ENOSPC)
	}
	faulty.Break(func(c testdisk.Call) testdisk.Fault {
		if c.Change == n {
			failed, broke = c, time.Now()
		}
		return hook(c)
	})
	again := cfg
	again.Resume = begun
	_, err := life(again)
	switch {
	case failed.Op == "": // this run had fewer operations
	case full && !disk.IsFull(err):
		t.Errorf("%s %s failed: %v; want an error that says that the disk is full", failed.Op, failed.Name, err)
	case !full && err == nil && !harmless(failed):
		t.Errorf("%s %s failed, without an error", failed.Op, failed.Name)
	case !full && err != nil && !errors.Is(err, syscall.EIO):
		t.Errorf("%s %s failed: %v; want the disk's error", failed.Op, failed.Name, err)
	}
	faulty.Heal()
	if err == nil {
		broke = time.Now()
		w.checkFiles(t, faulty)
	}
	w.goOn(t, cfg, broke)
	if t.Failed() {
		t.Logf("%s %s at %d; %v", failed.Op, failed.Name, n, err)
	}
}

// harmless reports whether a single failure may go unnoticed: the next start deletes the file
// again.
func harmless(c testdisk.Call) bool {
	return c.Op == testdisk.OpRemove && strings.Contains(c.Name, "spill")
}

// TestDiskFull limits the disk to a number of bytes.
func TestDiskFull(t *testing.T) {
	for _, room := range []int64{0, 100, 1000, 5000, 20_000, 50_000, 80_000} {
		t.Run(fmt.Sprint(room), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSmallWeb()
				faulty := testdisk.NewFaulty(testdisk.NewMem(), testdisk.FullAfter(room))
				cfg := w.config(t, faulty)
				_, err := life(cfg)
				if !disk.IsFull(err) {
					t.Errorf("error %v", err)
				}
				// Without more space nothing gets worse.
				again := cfg
				_, serr := faulty.Stat("/crawl/crawl.yaml")
				again.Resume = !errors.Is(serr, fs.ErrNotExist)
				if _, err := life(again); err == nil {
					t.Error("a full disk took a whole crawl")
				}
				broke := time.Now()
				faulty.Heal()
				w.goOn(t, cfg, broke)
			})
		})
	}
}

// As soon as a run without seeds can continue the crawl, its seeds are on disk, whenever the agent
// is killed.
func TestKilledWhileBegun(t *testing.T) {
	const seed = "http://a.example/"
	left := 0
	for n, opened := int64(1), false; !opened; n++ {
		synctest.Test(t, func(t *testing.T) {
			mem := testdisk.NewMem()
			if err := mem.MkdirAll("/crawl/state", 0o755); err != nil {
				t.Fatal(err)
			}
			// The seeds of a run that was killed before there was a crawl.
			if err := disk.WriteFile(mem, "/crawl/state/seeds.txt", []byte("http://b.example/\n")); err != nil {
				t.Fatal(err)
			}
			dead := errors.New("killed")
			cfg := newSmallWeb().config(t, testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
				if c.Change >= n {
					return testdisk.Fault{Err: dead}
				}
				return testdisk.Fault{}
			}))
			a, err := Open(cfg)
			if opened = err == nil; opened {
				_ = a.Close() // Close fails because of the disk
			} else if !errors.Is(err, dead) {
				t.Fatal(err)
			}
			if _, err := mem.Stat("/crawl/crawl.yaml"); err != nil {
				return
			}
			left++
			if b, err := disk.ReadFile(mem, "/crawl/state/seeds.txt", 1000); err != nil || string(b) != seed+"\n" {
				t.Errorf("killed at operation %d there is a crawl of %q, %v", n, b, err)
			}
		})
	}
	if left < 10 {
		t.Errorf("only %d kills left a crawl", left)
	}
}
