package testweb

import (
	"math"
	"net/netip"
	"sync/atomic"
)

// maxRest is the longest rest after a view, as a multiple of the delay.
const maxRest = 10

// A run is a series of requests of one client to the hosts of a group that may be a view: a page that a browser shows,
// with its files. The log shows neither where a view begins nor where it ends. So a request belongs to the run of the
// request before it if a browser asks for a file (see isFile), unless the run has lasted too long, or the host was busy
// (429 or 503). It comes without a delay. Every other request begins a run. Before it the hosts rest: for the delay
// times the square root of the requests of the last run, and at most ten times the delay.
//
// A host whose robots.txt has a Crawl-delay has no runs: each request keeps that delay.
type run struct {
	longest  int64 // nanoseconds that a run may last
	began    int64
	requests int64
	client   netip.Addr
	busy     bool
	none     bool // robots.txt has a Crawl-delay
}

// newRun returns the run of a group that has no request yet; nil: no views are promised.
func (p *Promise) newRun() *run {
	if p.Views <= 0 {
		return nil
	}
	return &run{longest: int64(p.Views)}
}

// isFile reports whether a browser asks for a file of a page. A crawler's own request has no Sec-Fetch-Dest, and that
// for the page itself has "document".
func isFile(dest string) bool { return dest != "" && dest != "document" }

// takes reports whether a request belongs to the run.
func (v *run) takes(s *span) bool {
	return v != nil && !v.none && s.file && !v.busy && v.requests > 0 && s.client == v.client &&
		s.begin-v.began < v.longest
}

// rest returns how long the hosts rest after the run, for a delay in nanoseconds.
func (v *run) rest(delay int64) int64 {
	if v == nil || v.none || v.requests < 2 {
		return delay
	}
	return int64(float64(delay) * min(math.Sqrt(float64(v.requests)), maxRest))
}

// due returns how long the gap before a request has to be, and how a shorter gap is called. It adds the request to its
// run. The caller holds mu.
func (g *group) due(t *tracker, s *span) (delay int64, kind violationKind) {
	v := g.run
	if v.takes(s) {
		v.requests++
		if g.kind == byHost {
			t.views.note(v.requests)
		}
		return 0, tooSoon
	}
	if delay = v.rest(g.promised); delay > g.promised {
		kind = noRest
	}
	g.begins(s)
	return delay, kind
}

// begins makes a request the first one of a run.
func (g *group) begins(s *span) {
	if v := g.run; v != nil {
		v.began, v.requests, v.client, v.busy = s.begin, 1, s.client, false
	}
}

// copy returns a run for a snapshot.
func (v *run) copy() *run {
	if v == nil {
		return nil
	}
	c := *v
	return &c
}

// viewCounts counts the runs of hosts with more than one request.
type viewCounts struct{ views, files, most atomic.Int64 }

// note counts the last one of the requests of a run.
func (c *viewCounts) note(requests int64) {
	if requests == 2 {
		c.views.Add(1)
	}
	c.files.Add(1)
	for most := c.most.Load(); requests > most && !c.most.CompareAndSwap(most, requests); most = c.most.Load() {
	}
}

func (c *viewCounts) reset() {
	c.views.Store(0)
	c.files.Store(0)
	c.most.Store(0)
}

// A ViewReport counts what the judge took for views: requests to a host that came without a delay, because a browser
// asked for files of a page.
type ViewReport struct {
	Views int64 `json:"views"`
	Files int64 `json:"files"` // without the first request of each view
	Most  int64 `json:"most"`  // the most requests of a view
}

func (t *tracker) reportViews(pending *tracker) *ViewReport {
	if t.promised().Views <= 0 {
		return nil
	}
	a, b := &t.views, &pending.views
	return &ViewReport{Views: a.views.Load() + b.views.Load(), Files: a.files.Load() + b.files.Load(),
		Most: max(a.most.Load(), b.most.Load())}
}
