package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/testweb"
	"github.com/orbweaver/orbweaver/testweb/gen"
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

// A third agent comes while two crawl: it takes over its hosts with what is known
// of them. Nothing is missed, nothing is fetched twice, and no host is asked too
// early by the one who takes it over.
func TestClusterJoin(t *testing.T) {
	for _, replicas := range []string{"1", "2"} {
		t.Run("replicas="+replicas, func(t *testing.T) {
			const delay = 40 * time.Millisecond
			made, err := gen.New(gen.Plain(31, 15))
			if err != nil {
				t.Fatal(err)
			}
			truth, err := made.Reachable(gen.Bounds{Seeds: []gen.Seed{{}}, Robots: true})
			if err != nil {
				t.Fatal(err)
			}
			web := serve(t, testweb.Config{Origin: made, Truth: truth, Promise: testweb.Promise{HostDelay: delay}})
			dir := t.TempDir()
			var addrs []string
			for range 3 {
				addrs = append(addrs, port(t))
			}
			home := func(i int) string { return filepath.Join(dir, fmt.Sprint("a", i+1)) }
			begin := func(i int, more ...string) *process {
				args := flags(t, web, home(i), "--quiet", "--scope", "any", "--delay", delay.String(), "--ip-delay", "0", "--site-delay", "0",
					"--name", fmt.Sprint("a", i+1), "--listen", addrs[i], "--join", addrs[0], "--replicas", replicas)
				return start(t, append(append(args, more...), made.URL(0, 0))...)
			}
			ps := []*process{begin(0, "--agents", "2"), begin(1, "--agents", "2")}
			for end := time.Now().Add(time.Minute); web.Report().Origin.Fetched < 60; {
				if time.Now().After(end) {
					t.Fatalf("%d pages after a minute\n%s", web.Report().Origin.Fetched, events(t, home(0)))
				}
				time.Sleep(20 * time.Millisecond)
			}
			before := web.Report().Origin.Fetched
			ps = append(ps, begin(2))
			pages := make([]float64, len(ps))
			for i, p := range ps {
				if !ended(p, 3*time.Minute) {
					t.Fatalf("a%d does not end:\n%s\n%s", i+1, tail(p.out.String()), events(t, home(i)))
				}
				if code := p.code(); code != 0 {
					t.Fatalf("a%d: exit code %d\n%s\n%s", i+1, code, tail(p.out.String()), events(t, home(i)))
				}
				s := summary(t, home(i))
				pages[i] = s["pages"].(float64)
				if left := s["urls_queued"].(float64); left != 0 || s["stop_reason"] != "finished" {
					t.Errorf("a%d: %v URLs left, %v", i+1, left, s["stop_reason"])
				}
				if got := s["urls_finished"].(float64) + s["urls_sent"].(float64); got != s["urls_unique"] {
					t.Errorf("a%d: %v URLs finished or sent, %v accepted", i+1, got, s["urls_unique"])
				}
				verify(t, home(i))
			}
			noViolations(t, web)
			r := web.Report()
			if r.Origin.Missed > 0 || r.Origin.Twice > 0 || r.Origin.Beyond > 0 {
				t.Errorf("%d pages missed (%v), %d fetched twice, %d beyond", r.Origin.Missed, r.Origin.MissedURLs, r.Origin.Twice, r.Origin.Beyond)
			}
			taken := eventsOf(t, home(2), "hosts-taken")
			if pages[2] == 0 || sum(taken, "hosts") == 0 || sum(taken, "keys") == 0 {
				t.Errorf("a3 fetched %v pages, and was told of %v hosts and %v keys", pages[2], sum(taken, "hosts"), sum(taken, "keys"))
			}
			t.Logf("%d pages before a3 came, %d in all; a3 fetched %v and took %v hosts with %v keys", before, r.Origin.Fetched, pages[2], sum(taken, "hosts"), sum(taken, "keys"))
		})
	}
}
