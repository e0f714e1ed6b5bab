package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// limitWeb returns a web whose crawl takes a while: a host of n pages that answer within wait.
func limitWeb(t *testing.T, n int, wait time.Duration) *testweb.Web {
	return serve(t, testweb.Config{Sites: []testweb.Site{{
		Host: "many.example", Handler: site("many.example", n), Rules: []testweb.Rule{{Wait: wait}},
	}}})
}

func TestLimits(t *testing.T) {
	weighs(t, 2)
	const pages = 400
	for _, c := range []struct {
		name  string
		flags []string
		code  int
		stop  string
		holds func(a *ledger) error
	}{
		{"pages", []string{"--page-limit", "7"}, 12, "page-limit", func(a *ledger) error {
			if a.sum.Pages != 7 {
				return fmt.Errorf("%d pages, want 7", a.sum.Pages)
			}
			return nil
		}},
		{"bytes", []string{"--size-limit", "3kB"}, 14, "size-limit", func(a *ledger) error {
			if a.sum.Bytes < 3000 || a.sum.Bytes > 4000 {
				return fmt.Errorf("%d bytes, want a little more than 3000", a.sum.Bytes)
			}
			return nil
		}},
		{"time", []string{"--time-limit", "600ms"}, 15, "time-limit", func(a *ledger) error {
			if a.sum.DurationS < 0.6 || a.sum.DurationS > 60 {
				return fmt.Errorf("%g s, want 0.6 or a little more", a.sum.DurationS)
			}
			return nil
		}},
		{"none", []string{"--depth", "2"}, 0, "finished", func(a *ledger) error {
			if a.sum.Pages != 7 {
				return fmt.Errorf("%d pages, want the 7 of three levels", a.sum.Pages)
			}
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			web := limitWeb(t, pages, 0)
			dir := t.TempDir()
			r := crawl(context.Background(), t, flags(t, web, dir,
				append(c.flags, "--delay", "20ms", "http://many.example/")...)...).must(t, c.code)
			a := audit(t, dir)
			a.servedAlike(t, web)
			verify(t, dir)
			if a.sum.StopReason != c.stop || !strings.Contains(r.stdout, c.stop) {
				t.Errorf("stopped by %q, want %q; it said\n%s", a.sum.StopReason, c.stop, r.stdout)
			}
			if err := c.holds(a); err != nil {
				t.Error(err)
			}
			if c.code == 0 {
				return
			}
			if a.sum.Queued == 0 || !strings.Contains(r.stdout, "crawl --resume") ||
				!strings.Contains(r.stdout, "--dir "+dir) {
				t.Errorf("%d URLs queued, and nothing says how to go on:\n%s", a.sum.Queued, r.stdout)
			}
			// The limit holds for all runs together. Without it the crawl continues to its end.
			more := []string{"crawl", "--resume", "--dir", dir, "--delay", "0"}
			if c.name == "pages" || c.name == "bytes" {
				crawl(context.Background(), t, more...).must(t, c.code)
				if err := c.holds(audit(t, dir)); err != nil {
					t.Errorf("resumed: %v", err)
				}
			}
			crawl(context.Background(), t, append(more, "--page-limit", "0", "--size-limit", "0")...).must(t, 0)
			a = audit(t, dir)
			verify(t, dir)
			if n := web.Report().Hosts["many.example"].Pages; n != pages || a.sum.Pages != pages {
				t.Errorf("%d pages served, %d in the summary, want %d", n, a.sum.Pages, pages)
			}
			if twice := web.Report().Repeated; twice != 0 {
				t.Errorf("%d pages were fetched twice", twice)
			}
		})
	}
}

// begin starts the program and returns when the web has received n requests.
func begin(t *testing.T, web *testweb.Web, n int64, args ...string) *process {
	t.Helper()
	p := start(t, args...)
	for end := time.Now().Add(time.Minute); ; {
		if r := web.Report(); r.Requests+r.Active >= n {
			return p
		}
		if !p.lives(5*time.Millisecond) || time.Now().After(end) {
			t.Fatalf("the web was not asked %d times; the program said\n%s", n, p.out.String())
		}
	}
}

func TestSignals(t *testing.T) {
	weighs(t, 1)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			web := limitWeb(t, 60, 400*time.Millisecond)
			dir := t.TempDir()
			p := begin(t, web, 3, flags(t, web, dir, "--delay", "10ms", "http://many.example/")...)
			p.cmd.Process.Signal(sig)
			if code := p.code(); code != 11 {
				t.Fatalf("exit code %d, want 11; it said\n%s", code, p.out.String())
			}
			if r := web.Report(); r.Hosts["many.example"].Aborted != 0 {
				t.Errorf("what was in flight did not end: %+v", r.Hosts["many.example"])
			}
			a := audit(t, dir)
			a.servedAlike(t, web)
			verify(t, dir)
			if a.sum.StopReason != "signal" || a.sum.Queued == 0 {
				t.Errorf("stopped by %q with %d URLs queued", a.sum.StopReason, a.sum.Queued)
			}
		})
	}
}

func TestSecondSignal(t *testing.T) {
	weighs(t, 1)
	web := limitWeb(t, 60, 2*time.Minute)
	dir := t.TempDir()
	// The first requests are for robots.txt and a page that takes its time.
	p := begin(t, web, 2, flags(t, web, dir, "--delay", "10ms", "http://many.example/")...)
	p.cmd.Process.Signal(syscall.SIGINT)
	p.says(t, "press Ctrl-C again to exit at once")
	if !p.lives(300*time.Millisecond) || web.Report().Active == 0 {
		t.Fatalf("the program did not wait for the request under way; it said\n%s", p.out.String())
	}
	p.cmd.Process.Signal(syscall.SIGINT)
	if !ended(p, time.Minute) {
		t.Fatalf("the program waits for the request after the second signal; it said\n%s", p.out.String())
	}
	if code := p.code(); code != 13 {
		t.Errorf("exit code %d, want 13; it said\n%s", code, p.out.String())
	}
	web.WaitIdle(time.Minute)
	if r := web.Report().Hosts["many.example"]; r.Aborted == 0 {
		t.Errorf("no request was aborted: the program waited for its end: %+v", r)
	}
	if s := p.out.String(); !strings.Contains(s, "--resume") {
		t.Errorf("it said\n%s", s)
	}
	// The directory is neither locked nor damaged.
	crawl(context.Background(), t, "crawl", "--resume", "--dir", dir, "--time-limit", "200ms",
		"--max-time", "1s").must(t, 15)
	verify(t, dir)
}

// If a state file differs from what was written, the run ends, names the file, and changes nothing.
func TestBrokenState(t *testing.T) {
	weighs(t, 1)
	dir := t.TempDir()
	crawl(context.Background(), t, "crawl", "--dir", dir, "--retries", "0",
		"--quiet", "http://127.0.0.1:1/").must(t, 16)
	files, err := filepath.Glob(filepath.Join(dir, "state", "journal", "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no journal: %v", err)
	}
	for _, name := range files {
		b := must.Get(os.ReadFile(name))(t)
		b[0] ^= 1
		must.Do(t, os.WriteFile(name, b, 0o644))
	}
	got := crawl(context.Background(), t, "crawl", "--resume", "--dir", dir).must(t, 17)
	if !strings.Contains(got.stderr, filepath.Join("state", "journal")) {
		t.Errorf("it said\n%s", got.stderr)
	}
}
