package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A death is an unclean end of a run. Connections opened until the next run began belonged to the
// dead run.
type death struct {
	at, next time.Time
}

// A process is a running crawl.
type process struct {
	cmd  *exec.Cmd
	out  output
	done chan struct{} // closed when it has ended
}

// output is the text that a process has written. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startCommand(t, exec.Command(orbweaver, args...))
}

// startCommand is start for a command that becomes the binary.
func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	must.Do(t, p.cmd.Start())
	go func() {
		defer close(p.done)
		p.cmd.Wait() // code returns the exit code later
	}()
	t.Cleanup(func() { p.kill() })
	return p
}

// says waits until the running process has written text.
func (p *process) says(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(p.out.String(), text); {
		if time.Now().After(end) {
			t.Fatalf("the program has not said %q; it said\n%s", text, tail(p.out.String()))
		}
		p.lives(5 * time.Millisecond)
	}
}

// lives waits for d, and reports whether the process still runs.
func (p *process) lives(d time.Duration) bool {
	select {
	case <-p.done:
		return false
	case <-time.After(d):
		return true
	}
}

// kill sends kill -9. at is the last time at which the process was alive. killed is false if the
// process had ended before.
func (p *process) kill() (at time.Time, killed bool) {
	p.cmd.Process.Kill()
	at = time.Now()
	<-p.done
	return at, p.cmd.ProcessState.ExitCode() == -1
}

// code waits for the end.
func (p *process) code() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// The crawl is killed three times while it fetches, and continues. All pages are fetched, the archive is valid, and a
// run after the last one has nothing to do. TestKilled and the simulation judge how many pages are fetched twice.
func TestKilledOnce(t *testing.T) {
	weighs(t, 2)
	b := bandOf(t, gen.Plain(38, 15), bandDelay, 1, "1")
	b.begin(0, b.seed())
	all := b.truth.Reachable()
	for _, pages := range []int64{all / 5, all * 2 / 5, all * 3 / 5} {
		b.await(pages)
		if _, killed := b.ps[0].kill(); !killed {
			t.Fatalf("the crawl had ended before %d pages:\n%s", pages, tail(b.ps[0].out.String()))
		}
		b.ps[0] = start(t, "crawl", "--resume", "--dir", b.home(0), "--quiet")
	}
	b.finish(all)
	if n := begun(t, b.home(0)); n != 4 {
		t.Errorf("%d runs have begun, want 4", n)
	}
	before := b.web.Report().Requests
	crawl(t.Context(), t, "crawl", "--resume", "--dir", b.home(0), "--quiet").must(t, 0)
	if n := b.web.Report().Requests - before; n > 0 {
		t.Errorf("%d requests after the crawl was over", n)
	}
}

// The crawl is killed at twenty random instants. It continues each time and ends as if there had
// been no kill.
func TestKilled(t *testing.T) {
	weighs(t, 4)
	const (
		kills = 20
		delay = 8 * time.Millisecond
		// span is the time in which most kills happen. Sixteen halves of it are less than the time
		// of the largest host with that delay, so that the kills hit a working crawl.
		span = 3000 * time.Millisecond
	)
	rng := testseed.Rand(t)
	within := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

	web, tr := knownWeb(t, testweb.Promise{HostDelay: delay, AddrDelay: delay / 4, SiteDelay: delay / 4})
	dir := filepath.Join(t.TempDir(), "crawl")
	args := flags(t, web, dir, append([]string{"--delay", delay.String(), "--quiet"}, testweb.DebianSeeds()...)...)
	resume := []string{"crawl", "--resume", "--dir", dir, "--quiet"}

	var deaths []death
	die := func(p *process, what string) bool {
		at, killed := p.kill()
		if killed {
			deaths = append(deaths, death{at, time.Now()})
			t.Logf("kill %2d, %s: %d pages so far", len(deaths), what, web.Report().Pages)
		} else if c := p.code(); c != 0 && c != 11 {
			t.Fatalf("%s: exit code %d\n%s", what, c, tail(p.out.String()))
		}
		return killed
	}
	for n := 0; len(deaths) < kills; n++ {
		if n > 3*kills {
			t.Fatalf("%d runs, %d kills: the crawl is over too early", n, len(deaths))
		}
		p := start(t, args...)
		switch n % 10 {
		case 3, 8: // while it starts and recovers
			d := within(150 * time.Millisecond)
			p.lives(d)
			die(p, fmt.Sprintf("%v after the start", d))
		case 4: // while it stops after SIGTERM
			d, more := within(span), within(200*time.Millisecond)
			if p.lives(d) {
				p.cmd.Process.Signal(syscall.SIGTERM)
				p.lives(more)
			}
			die(p, fmt.Sprintf("%v after SIGTERM at %v", more, d))
		case 6: // stopped by SIGTERM, without a kill
			d, runs := within(span), begun(t, dir)
			if p.lives(d) {
				p.cmd.Process.Signal(syscall.SIGTERM)
			}
			// If a signal arrives in the milliseconds before main handles it, the kernel ends the
			// process. Then the run has not begun.
			if c := p.code(); c != 11 && c != 0 && !(c == -1 && begun(t, dir) == runs) {
				t.Fatalf("exit code %d after SIGTERM at %v, want 11\n%s", c, d, tail(p.out.String()))
			}
			t.Logf("SIGTERM after %v, exit code %d", d, p.code())
		default:
			d := within(span)
			p.lives(d)
			die(p, fmt.Sprintf("%v after the start", d))
		}
		if _, err := os.Stat(filepath.Join(dir, "crawl.yaml")); err == nil {
			args = resume // otherwise the kill came before the crawl began
		}
	}
	// The last kills come when everything is fetched, while the crawl writes index and reports. So
	// the last run has only that to do.
	for range 2 {
		p := start(t, resume...)
		for p.lives(time.Millisecond) && !stopped(t, dir) {
		}
		d := within(60 * time.Millisecond)
		p.lives(d)
		die(p, fmt.Sprintf("%v into the conclusion", d))
	}
	before := web.Report().Requests
	crawl(context.Background(), t, resume...).must(t, 0)
	if n := web.Report().Requests; n != before {
		t.Errorf("%d requests after the crawl was over", n-before)
	}

	again := repeats(t, web.Log(), deaths)
	total := int64(0)
	for u, n := range again {
		if !strings.HasSuffix(u, "/robots.txt") {
			total += int64(n)
		}
	}
	served(t, web, total)
	a := auditKilled(t, dir, func(u string) bool {
		if strings.HasSuffix(u, "/robots.txt") {
			// The URL is fetched for two origins if http's robots.txt redirects to https's. Then
			// repeats cannot tell which line a kill removed. So this bounds the number of
			// responses.
			return true
		}
		host, err := hostOf(u)
		return err == nil && !tr.hosts[host] || again[u] > 0 // names without an address never reach the server
	})
	a.repeatedEnds(t, deaths)
	a.covers(t, tr)
	a.judged(t)
	if n := int64(tr.Count(http.StatusOK)); a.sum.Pages != n || a.sum.Unique != int64(len(tr.Pages)+len(tr.Denied)) {
		t.Errorf("summary: %d pages and %d URLs, want %d and %d", a.sum.Pages, a.sum.Unique, n,
			len(tr.Pages)+len(tr.Denied))
	}
}

// begun counts the runs of a crawl that have opened its directory.
func begun(t *testing.T, dir string) (runs int) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "logs", "events.jsonl"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte(`"event":"started"`)) + bytes.Count(b, []byte(`"event":"resumed"`))
}

// stopped reports whether the last run has written that its crawl is finished.
func stopped(t *testing.T, dir string) bool {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(dir, "logs", "events.jsonl")))(t)
	i := max(bytes.LastIndex(b, []byte(`"event":"resumed"`)), 0)
	return bytes.Contains(b[i:], []byte(`"event":"stopped"`))
}

// repeats compares the server's log with the guarantee for a kill. If a URL (or a robots.txt) had
// two responses, the first ended less than a second before a kill, or was in progress then, and the
// second began after that kill. It returns the repeated URLs with their numbers of responses.
func repeats(t *testing.T, log []testweb.Entry, deaths []death) map[string]int {
	t.Helper()
	again, cost, wrong := map[string]int{}, make([]int, len(deaths)), &most{t: t}
	oldest, which := time.Duration(0), ""
	last := map[string]testweb.Entry{}
	moved := map[string]int{} // robots.txt targets of redirects from http, by URL
	// The server may read requests of the killed run late. So a request belongs to a run by its
	// connection. For the first request of a connection, the time decides: a new run takes longer
	// to make its own.
	const startUp = 30 * time.Millisecond
	opened := map[int64]time.Time{}
	for _, e := range log {
		if _, ok := opened[e.Conn]; !ok {
			opened[e.Conn] = e.Began
		}
		if e.Aborted || e.Broken {
			continue
		}
		if host, ok := strings.CutPrefix(e.URL, "http://"); ok && strings.HasSuffix(host, "/robots.txt") &&
			e.Status == http.StatusMovedPermanently {
			moved["https://"+host]++
		}
		old, ok := last[e.URL]
		last[e.URL] = e
		if !ok {
			continue
		}
		i := slices.IndexFunc(deaths, func(d death) bool { return d.next.Add(startUp).After(opened[old.Conn]) })
		switch {
		case moved[e.URL] > 0: // one response for each origin
			moved[e.URL]--
		case i >= 0 && !deaths[i].at.After(e.Began) && deaths[i].at.Sub(old.Ended) <= time.Second:
			again[e.URL]++
			cost[i]++
			if d := deaths[i].at.Sub(old.Ended); d > oldest {
				oldest, which = d, fmt.Sprintf("%s, kill %d", e.URL, i+1)
			}
		default:
			wrong.errorf("%s: answered at %v and again at %v", e.URL, old.Ended, e.Began)
		}
	}
	wrong.done("answered twice without a kill's being to blame")
	total := 0
	for _, n := range cost {
		total += n
	}
	t.Logf("fetched twice because of a kill: %d in all, at most %d a kill, %s; the oldest %v before the kill (%s)",
		total, slices.Max(cost), strings.Trim(fmt.Sprint(cost), "[]"), oldest, which)
	return again
}

// repeatedEnds checks URLs with two lines in crawl.log. It fails the test unless a kill came
// between the lines, less than a second after the first: that line's journal record was not written
// yet.
func (a *ledger) repeatedEnds(t *testing.T, deaths []death) {
	t.Helper()
	last, wrong, n := map[string]time.Time{}, &most{t: t}, 0
	for _, l := range a.lines {
		old, ok := last[l.URL]
		if last[l.URL] = l.Time; !ok || strings.HasSuffix(l.Hops, "P") {
			continue
		}
		n++
		if !slices.ContainsFunc(deaths, func(d death) bool {
			return d.at.Before(l.Time.Add(time.Millisecond)) && d.at.After(old) && d.at.Sub(old) < time.Second
		}) {
			wrong.errorf("crawl.log ends %s at %v and at %v, and no kill is to blame", l.URL, old, l.Time)
		}
	}
	wrong.done("two lines")
	t.Logf("crawl.log: %d lines because of a kill", n)
}
