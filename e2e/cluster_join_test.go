package e2e

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// eventsOf returns the events of a kind that an agent has written.
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

// sum adds up a number in events.
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
	truth    *gen.Truth
	dir      string
	delay    time.Duration // of a host
	addrs    []string
	replicas string
	scope    string       // empty: any
	with     []string     // more flags of all agents
	ps       []*process   // the last process of each agent; nil: lost for good
	left     map[int]bool // agents that leave for good
}

const bandDelay = 20 * time.Millisecond

func newBand(t *testing.T, seed uint64, agents int, replicas string) *band {
	t.Helper()
	return bandOf(t, gen.Plain(seed, 15), bandDelay, agents, replicas)
}

func bandOf(t *testing.T, web gen.Spec, delay time.Duration, agents int, replicas string) *band {
	t.Helper()
	made := must.Get(gen.New(web))(t)
	truth := must.Get(made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true}))(t)
	b := &band{t: t, made: made, truth: truth, dir: t.TempDir(), delay: delay, replicas: replicas,
		ps: make([]*process, agents)}
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
	b.beginAs(orbweaver, i, more...)
}

// beginAs starts an agent with this program.
func (b *band) beginAs(program string, i int, more ...string) {
	b.t.Helper()
	args := flags(b.t, b.web, b.home(i), "--quiet", "--scope", cmp.Or(b.scope, "any"), "--delay", b.delay.String(),
		"--ip-delay", "0",
		"--site-delay", "0",
		"--name", fmt.Sprint("a", i+1), "--listen", b.addrs[i], "--replicas", b.replicas)
	for k, addr := range b.addrs {
		if k != i || k == 0 {
			args = append(args, "--join", addr)
		}
	}
	if program != orbweaver { // an earlier version does not know the flags, and has neither on
		args = slices.DeleteFunc(args, func(arg string) bool {
			return arg == "--no-requisites" || arg == "--no-sitemaps"
		})
	}
	b.ps[i] = startCommand(b.t, exec.Command(program, append(append(args, b.with...), more...)...))
}

// seed returns the URL at which the crawl begins.
func (b *band) seed() string { return b.made.URL(0, 0) }

// await waits until the web has received a number of requests for pages.
func (b *band) await(pages int64) {
	b.t.Helper()
	b.awaitFor(pages, 2*time.Minute)
}

// awaitMore waits until the web has received as many more requests for pages.
func (b *band) awaitMore(pages int64) {
	b.t.Helper()
	b.await(b.web.Report().Origin.Fetched + pages)
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

// finish waits for the end of all agents and compares the crawl with the truth. twice is the
// largest number of pages that may be fetched twice. It returns how many pages each agent has.
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
		if s["pages"] != 0.0 { // otherwise the agent came too late and has no archive
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

// status returns the status of an agent, or nil if it does not answer.
func (b *band) status(i int) map[string]any {
	var s struct {
		Agents []struct{ Status map[string]any }
	}
	answer := crawl(context.Background(), b.t, "ctl", "--dir", b.home(i), "status", "--json", "--agent",
		fmt.Sprint("a", i+1))
	if answer.code != 0 || json.Unmarshal([]byte(answer.stdout), &s) != nil || len(s.Agents) != 1 {
		return nil
	}
	return s.Agents[0].Status
}
