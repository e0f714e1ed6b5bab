package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestSummary compares what a person reads at each kind of end with a golden file. None is longer than 28 lines.
func TestSummary(t *testing.T) {
	full := report.Summary{
		Pages: 9754, Fetched: 13_000, Bytes: 73_000_000, DurationS: 113, PagesPerS: 86.3,
		Hosts: 231, PageHosts: 200, Queued: 32_064,
		Duplicates: 398, Truncated: 1, Denied: 12,
		Errors: map[string]int64{"dns": 4, "timeout-connect": 8, "tls": 1, "connect": 2, "broken": 1, "bad-response": 1,
			"proxy": 3, "timeout-idle": 2},
		Status: map[string]int64{"200": 9754, "404": 2000, "301": 100, "302": 50, "500": 3, "-5": 3, "410": 2, "451": 1,
			"503": 7},
		Skipped: map[string]int64{"outOfScope": 3204, "robotsTxt": 12, "tooDeep": 7,
			"trapCalendar": 3, "trapURLLength": 2,
			"news": 1},
		ByRule: map[string]map[string]int64{"tooDeep": {"b.example/docs/": 4}},
		Failing: report.Failing{Hosts: []report.HostErrors{{Host: "a.example", Errors: 12},
			{Host: "b.example", Errors: 3}}},
	}
	few := report.Summary{Pages: 1, Fetched: 1, Bytes: 20, DurationS: 1, PagesPerS: 1, Hosts: 1, PageHosts: 1,
		Queued: 1}
	whole := few
	whole.Queued = 0
	agent := full
	agent.Exchange = &report.Exchange{Links: 12_345, LinksPerPage: 1.27, Bytes: 4_000_000}
	agent.Moves = &report.Moves{Claimed: 3, Given: 1}
	none := report.Summary{Queued: 1}
	seed := must.Get(weburl.Parse("http://a.example/"))(t)
	refused := &crawl.FailedSeed{URL: seed, Code: report.CodeConnect, Kind: "connect",
		Cause: "dial tcp 192.0.2.1:80: connect: connection refused"}
	left := report.Summary{Fetched: 3, Unkept: 3, Bytes: 20, DurationS: 1, Hosts: 1}
	output := stdout
	closed := &display{resumable: true}
	closed.closed.Store(&output)
	var out strings.Builder
	for _, c := range []struct {
		name string
		d    *display
		dir  string
		r    node.Result
	}{
		{"finished", &display{resumable: true}, defaultDir, node.Result{Stop: crawl.Finished, Summary: whole}},
		{"demo", &display{}, "d", node.Result{Stop: crawl.Finished, Summary: whole}},
		{"nothing", &display{resumable: true}, "d", node.Result{Stop: crawl.Finished}},
		{"signal", &display{resumable: true}, "a b", node.Result{Stop: crawl.Signal, Summary: full}},
		{"page limit", &display{resumable: true, pageLimit: 9754}, "d",
			node.Result{Stop: crawl.PageLimit, Summary: full}},
		{"size limit", &display{resumable: true, sizeLimit: 15}, "d", node.Result{Stop: crawl.SizeLimit, Summary: few}},
		{"time limit", &display{resumable: true}, "d", node.Result{Stop: crawl.TimeLimit, Summary: few}},
		{"output closed", closed, "d", node.Result{Stop: crawl.OutputClosed, Summary: few}},
		{"no connection", &display{resumable: true}, "d", node.Result{Stop: crawl.TimeLimit, Summary: none,
			EmptyArchive: true, Standstill: crawl.Standstill{Last: refused, Waited: "a.example"}}},
		{"no agent answers", &display{resumable: true, agent: "a1"}, "d", node.Result{Stop: crawl.Signal, Summary: none,
			EmptyArchive: true, Standstill: crawl.Standstill{Waited: "an agent of the cluster that answers"}}},
		{"nothing kept", &display{resumable: true}, "d",
			node.Result{Stop: crawl.Finished, Summary: left, EmptyArchive: true}},
		{"blocked", &display{resumable: true}, "d", node.Result{Stop: crawl.OnlyBlocked, Summary: few}},
		{"blocked by an order", &display{resumable: true}, "d", node.Result{Stop: crawl.OnlyBlocked, Summary: few,
			Barred: node.Barred{ByOrders: true, Blacklist: "black.txt"}}},
		{"blacklisted", &display{resumable: true}, "d", node.Result{Stop: crawl.OnlyBlocked, Summary: few,
			Barred: node.Barred{Blacklist: "black.txt"}}},
		{"agent stops", &display{resumable: true, agent: "a1"}, "d",
			node.Result{Stop: crawl.Signal, Summary: agent, Others: []string{"a2", "a3"}}},
		{"agents finish", &display{resumable: true, agent: "a1"}, "d",
			node.Result{Stop: crawl.Finished, Summary: whole}},
		{"agent leaves", &display{resumable: true, agent: "a1"}, "d",
			node.Result{Stop: crawl.Left, Summary: whole, Others: []string{"a2"}}},
	} {
		var text strings.Builder
		c.d.out = &text
		must.Do(t, c.d.summary(c.dir, c.r))
		if n := strings.Count(text.String(), "\n"); n > 28 {
			t.Errorf("%s: %d lines", c.name, n)
		}
		for line := range strings.Lines(text.String()) {
			if n := utf8.RuneCountInString(line); n > 81 && !strings.HasPrefix(line, "  http") { // a cause may be long
				t.Errorf("%s: a line of %d columns: %s", c.name, n-1, line)
			}
		}
		fmt.Fprintf(&out, "=== %s\n%s", c.name, text.String())
	}
	const golden = "testdata/summary.txt"
	if *update {
		must.Do(t, os.WriteFile(golden, []byte(out.String()), 0o644))
	}
	want := must.Get(os.ReadFile(golden))(t)
	if d := cmp.Diff(string(want), out.String()); d != "" {
		t.Errorf("%s: -want +got\n%s", golden, d)
	}
}

// The progress of a crawl in a pause says so. Its time limit counts only this run, and stands still.
func TestPausedProgress(t *testing.T) {
	now := time.Now()
	d := &display{timeLimit: time.Minute}
	s := &crawl.Status{At: clock.Stamp{Time: now}, Elapsed: time.Hour, Pages: 3,
		Live: crawl.Live{TimeLeft: 20 * time.Second}}
	p := d.snapshot(s, false)
	if p.State != "" || p.Ran != 40*time.Second {
		t.Errorf("state %q, ran for %s", p.State, p.Ran)
	}
	line := func() string {
		var out strings.Builder
		report.NewProgress(&out, report.Plain, nil).Show(d.snapshot(s, false), now)
		return out.String()
	}
	if got := line(); !strings.Contains(got, "time limit in 20") {
		t.Errorf("progress %q", got)
	}
	s.Paused, s.WaitsFor = true, "the operator, who has paused the crawl"
	if got := line(); !strings.Contains(got, "paused: ") || strings.Contains(got, "time limit") ||
		!strings.Contains(got, "waiting for the operator") {
		t.Errorf("progress in a pause %q", got)
	}
	s.Stop = crawl.Signal
	if p := d.snapshot(s, false); p.State != "stopping" {
		t.Errorf("a stop during a pause: state %q", p.State)
	}
}
