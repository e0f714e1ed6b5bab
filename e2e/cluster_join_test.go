package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// eventsOf are the events of a kind that an agent has written.
func eventsOf(t *testing.T, dir, kind string) (es []map[string]any) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "logs", "events.jsonl"))
	if err != nil {
		return nil
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var e map[string]any
		if json.Unmarshal(in.Bytes(), &e) == nil && e["event"] == kind {
			es = append(es, e)
		}
	}
	return es
}

// sum adds a number of events up.
func sum(es []map[string]any, field string) (n float64) {
	for _, e := range es {
		if v, ok := e[field].(float64); ok {
			n += v
		}
	}
	return n
}

// A band is a cluster on loopback whose agents come and go.
type band struct {
	t        *testing.T
	web      *testweb.Web
	made     *gen.Web
	dir      string
	delay    time.Duration // of a host
	addrs    []string
	replicas string
	ps       []*process   // of each agent the last one; nil: lost for good
	left     map[int]bool // agents that leave for good
}

const bandDelay = 20 * time.Millisecond

func newBand(t *testing.T, seed uint64, agents int, replicas string) *band {
	t.Helper()
	return bandOf(t, gen.Plain(seed, 15), bandDelay, agents, replicas)
}

func bandOf(t *testing.T, web gen.Spec, delay time.Duration, agents int, replicas string) *band {
	t.Helper()
	made, err := gen.New(web)
	if err != nil {
		t.Fatal(err)
	}
	truth, err := made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true})
	if err != nil {
		t.Fatal(err)
	}
	b := &band{t: t, made: made, dir: t.TempDir(), delay: delay, replicas: replicas, ps: make([]*process, agents)}
	b.web = serve(t, testweb.Config{
		Origin: made, Truth: truth, LogEntries: 1 << 17, Promise: testweb.Promise{HostDelay: delay},
	})
	for range agents {
		b.addrs = append(b.addrs, port(t))
	}
	return b
}

func (b *band) home(i int) string { return filepath.Join(b.dir, fmt.Sprint("a", i+1)) }

// begin starts an agent.
func (b *band) begin(i int, more ...string) {
	b.t.Helper()
	args := flags(b.t, b.web, b.home(i), "--quiet", "--scope", "any", "--delay", b.delay.String(), "--ip-delay", "0",
		"--site-delay", "0",
		"--name", fmt.Sprint("a", i+1), "--listen", b.addrs[i], "--replicas", b.replicas)
	for k, addr := range b.addrs {
		if k != i || k == 0 {
			args = append(args, "--join", addr)
		}
	}
	b.ps[i] = start(b.t, append(args, more...)...)
}

// seed is where the crawl begins.
func (b *band) seed() string { return b.made.URL(0, 0) }

// await waits until the web has been asked for so many pages.
func (b *band) await(pages int64) {
	b.t.Helper()
	b.awaitFor(pages, 2*time.Minute)
}

func (b *band) awaitFor(pages int64, patience time.Duration) {
	b.t.Helper()
	for end := time.Now().Add(patience); b.web.Report().Origin.Fetched < pages; {
		if time.Now().After(end) {
			b.t.Fatalf("%d pages after %s\n%s", b.web.Report().Origin.Fetched, patience, events(b.t, b.home(0)))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// stop ends an agent by SIGTERM.
func (b *band) stop(i int) {
	b.t.Helper()
	b.ps[i].cmd.Process.Signal(syscall.SIGTERM)
	if !ended(b.ps[i], time.Minute) {
		b.t.Fatalf("a%d does not stop", i+1)
	}
	if code := b.ps[i].code(); code != 11 {
		b.t.Fatalf("a%d: exit code %d\n%s", i+1, code, tail(b.ps[i].out.String()))
	}
}

// finish waits for the end of all, and holds them to the truth; twice is how many
// pages may be fetched twice. It returns how many pages each has.
func (b *band) finish(twice int64) (pages []float64) {
	t := b.t
	t.Helper()
	for i, p := range b.ps {
		if p == nil {
			continue
		}
		if !ended(p, 3*time.Minute) {
			t.Fatalf("a%d does not end:\n%s\n%s", i+1, tail(p.out.String()), events(t, b.home(i)))
		}
		if code := p.code(); code != 0 {
			t.Fatalf("a%d: exit code %d\n%s\n%s", i+1, code, tail(p.out.String()), events(t, b.home(i)))
		}
		s := summary(t, b.home(i))
		pages = append(pages, s["pages"].(float64))
		reason := "finished"
		if b.left[i] {
			reason = "left"
		}
		if left := s["urls_queued"].(float64); left != 0 || s["stop_reason"] != reason {
			t.Errorf("a%d: %v URLs left, %v", i+1, left, s["stop_reason"])
		}
		if got := s["urls_finished"].(float64) + s["urls_sent"].(float64); got != s["urls_unique"] {
			t.Errorf("a%d: %v URLs finished or sent, %v accepted", i+1, got, s["urls_unique"])
		}
		if s["pages"] != 0.0 { // else it came too late, and has no archive
			verify(t, b.home(i))
		}
	}
	noViolations(t, b.web)
	r := b.web.Report()
	if r.Origin.Missed > 0 || r.Origin.Twice > twice || r.Origin.Beyond > 0 {
		t.Errorf("%d pages missed (%v), %d fetched twice, %d beyond", r.Origin.Missed, r.Origin.MissedURLs,
			r.Origin.Twice, r.Origin.Beyond)
	}
	t.Logf("%d pages, %d fetched twice; by agents %v", r.Origin.Fetched, r.Origin.Twice, pages)
	return pages
}

// A third agent comes while two crawl: it takes over its hosts with what is known
// of them. Nothing is missed, nothing is fetched twice, and no host is asked too
// early by the one who takes it over.
func TestClusterJoin(t *testing.T) {
	for _, replicas := range []string{"1", "2"} {
		t.Run("replicas="+replicas, func(t *testing.T) {
			b := newBand(t, 31, 3, replicas)
			b.begin(0, "--agents", "2", b.seed())
			b.begin(1, "--agents", "2", b.seed())
			b.await(60)
			b.begin(2, b.seed())
			pages := b.finish(0)
			taken := eventsOf(t, b.home(2), "hosts-taken")
			if pages[2] == 0 || sum(taken, "hosts") == 0 || sum(taken, "keys") == 0 {
				t.Errorf("a3 fetched %v pages, and was told of %v hosts and %v keys", pages[2],
					sum(taken, "hosts"), sum(taken, "keys"))
			}
			t.Logf("a3 took %v hosts with %v keys", sum(taken, "hosts"), sum(taken, "keys"))
		})
	}
}

// One of three is stopped, or killed, is away until the others have gone on with
// its hosts, and comes back with what it knew then. Of what a killed one had
// fetched in its last moments the others know nothing.
func TestClusterReturn(t *testing.T) {
	for _, kill := range []bool{false, true} {
		t.Run(fmt.Sprintf("kill=%v", kill), func(t *testing.T) {
			b := newBand(t, 32, 3, "2")
			for i := range 3 {
				b.begin(i, "--agents", "3", "--api", "127.0.0.1:0", b.seed())
			}
			b.await(150)
			var at time.Time
			var untold time.Duration
			if kill {
				untold = b.untold(1)
				at, _ = b.ps[1].kill()
			} else {
				b.stop(1)
			}
			inherited := func(i int) int { return len(eventsOf(t, b.home(i), "inherited")) }
			for end := time.Now().Add(time.Minute); inherited(0)+inherited(2) < 2; {
				if time.Now().After(end) {
					t.Fatalf("nobody goes on with a2's hosts\n%s", events(t, b.home(0)))
				}
				time.Sleep(50 * time.Millisecond)
			}
			b.await(b.web.Report().Origin.Fetched + 100)
			b.begin(1, "--resume")
			b.finish(b.web.Report().Origin.Reachable)
			b.repeats(at, untold)
			if taken := eventsOf(t, b.home(1), "hosts-taken"); sum(taken, "keys") == 0 {
				t.Error("nothing was told to the one that came back")
			}
		})
	}
}

// untold is for how long an agent has had something that no other has been told.
func (b *band) untold(i int) time.Duration {
	b.t.Helper()
	var s struct {
		Lag float64 `json:"copies_lag_s"`
	}
	answer := crawl(context.Background(), b.t, "ctl", "--dir", b.home(i), "status").must(b.t, 0)
	if err := json.Unmarshal([]byte(answer.stdout), &s); err != nil {
		b.t.Fatalf("status of a%d: %v\n%s", i+1, err, answer.stdout)
	}
	return time.Duration(s.Lag * float64(time.Second))
}

// repeats fails the test unless each page that was answered twice was answered
// first in the last second before a kill, or in the time for which the killed
// agent had not been able to tell the others, and again after the kill.
func (b *band) repeats(kill time.Time, untold time.Duration) {
	b.t.Helper()
	const asking = 200 * time.Millisecond   // ctl takes its time before the kill
	const underWay = 500 * time.Millisecond // the web takes its time to answer
	last, n, oldest := map[string]testweb.Entry{}, 0, time.Duration(0)
	log := b.web.Log()
	if r := b.web.Report(); int64(len(log)) != r.Requests {
		b.t.Fatalf("%d of %d requests in the log", len(log), r.Requests)
	}
	for _, e := range log {
		if e.Aborted || e.Broken || strings.HasSuffix(e.URL, "/robots.txt") {
			continue
		}
		if old, ok := last[e.URL]; ok {
			n++
			before := kill.Sub(old.Ended)
			oldest = max(oldest, before)
			if kill.IsZero() || before < -underWay || before > max(time.Second, untold+asking) || e.Began.Before(kill) {
				b.t.Errorf("%s: answered at %v and again at %v", e.URL, old.Ended, e.Began)
			}
		}
		last[e.URL] = e
	}
	b.t.Logf("%d pages answered twice, the oldest %v before the kill; untold for %v", n, oldest, untold)
}

// All of three are stopped and started again, one after the other.
func TestClusterRolling(t *testing.T) {
	b := newBand(t, 33, 3, "2")
	for i := range 3 {
		b.begin(i, "--agents", "3", b.seed())
	}
	for i := range 3 {
		b.await(int64(150 + 200*i))
		b.stop(i)
		b.begin(i, "--resume")
	}
	b.finish(0)
}

// One of three leaves for good: the others have its links and know what it has
// fetched, though nobody has a copy. The last one cannot leave.
func TestClusterLeave(t *testing.T) {
	b := newBand(t, 34, 3, "1")
	b.left = map[int]bool{1: true}
	for i := range 3 {
		b.begin(i, "--agents", "3", "--api", "127.0.0.1:0", b.seed())
	}
	b.await(200)
	answer := crawl(context.Background(), t, "ctl", "--dir", b.home(1), "leave").must(t, 0)
	if !strings.Contains(answer.stdout, "2 others") {
		t.Errorf("ctl leave: %s", answer.stdout)
	}
	if !ended(b.ps[1], time.Minute) {
		t.Fatalf("a2 does not leave:\n%s", events(t, b.home(1)))
	}
	at := b.web.Report().Origin.Fetched
	pages := b.finish(0)
	told := eventsOf(t, b.home(1), "gave-all")
	if len(told) != 1 || sum(told, "hosts") == 0 || sum(told, "links") == 0 || sum(told, "keys") == 0 ||
		sum(told, "left") != 0 {
		t.Errorf("a2 has told: %v", told)
	}
	t.Logf("left with %v pages when there were %d: %v", pages[1], at, told)
}
