package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/cost"
	"github.com/orbweaver/orbweaver/internal/quantity"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// The ways in which agents divide the work in the part crawls.
const (
	wayAlone      = "alone"
	wayRendezvous = "rendezvous"
	waySites      = "sites"
	wayTwoLevel   = "two-level"
	// noLine follows the name of a way without a limit of the bandwidth, and paperLine that of a way whose line gives
	// the paper's speed of an agent.
	noLine    = " without a line"
	paperLine = " at the paper's speed"
)

// The kinds of messages, by the paper's kinds of overhead (5.1). The two kinds of set-up are times.
const (
	kindHosts      = cost.Sending
	kindPartition  = cost.Partition
	kindExchange   = cost.Exchange
	kindReplicas   = cost.Replicas
	kindHeartbeats = cost.Heartbeats
	kindTransport  = cost.Transport
)

var overheadKinds = []string{kindHosts, kindPartition, kindExchange, kindReplicas, kindHeartbeats, kindTransport}

// kindOf returns the kind of a call's requests.
func kindOf(call string) string {
	switch call {
	case "discover":
		return kindHosts
	case "push", "known":
		return kindExchange
	case "ship":
		return kindReplicas
	case "transport":
		return kindTransport
	}
	return kindHeartbeats // gossip, follow, pulse, lease and others, whose number depends on the time
}

// spent returns the bytes of each kind that an agent has sent, and received from the coordinator. Answers
// of other agents are counted by those.
func spent(e *counted) map[string]float64 {
	kinds := map[string]float64{}
	for call, n := range e.ByCall {
		kinds[kindOf(call)] += n
	}
	for call, n := range e.Answers {
		switch call {
		case "follow":
			kinds[kindPartition] += n
		case "discover":
			kinds[kindHosts] += n
		}
	}
	return kinds
}

// messages returns the calls to the coordinator, and those to other agents.
func messages(e *counted) (coordinator, agents float64) {
	for call, n := range e.Calls {
		switch call {
		case "discover", "follow", "finish", "status":
			coordinator += n
		default:
			agents += n
		}
	}
	return coordinator, agents
}

// A TwoLevelCrawl is a crawl of a number of agents, up to the largest number of pages.
type TwoLevelCrawl struct {
	Way    string `json:"way"`
	Agents int    `json:"agents"`
	// Joined is the time from the start of an agent until it has met the others, and Begun until it
	// belongs to the roster and begins; in seconds, as means of the agents.
	Joined float64 `json:"joined_s"`
	Begun  float64 `json:"begun_s"`
	Hosts  int64   `json:"hosts"`
	// HostBytes and HostCalls are the bytes and the calls between agents and coordinator, for each of Hosts.
	HostBytes float64 `json:"coordinator_bytes_per_host"`
	HostCalls float64 `json:"coordinator_calls_per_host"`
	// Coordinator is the processor time of the coordinator.
	Coordinator float64 `json:"coordinator_cpu_us_per_page,omitempty"`
	costs
}

// A TwoLevelPoint is a crawl up to a number of pages.
type TwoLevelPoint struct {
	Way    string  `json:"way"`
	Agents int     `json:"agents"`
	Pages  float64 `json:"pages"`
	// Speed is the number of pages a second of an agent, since the first agent had a page.
	Speed float64 `json:"pages_per_s"`
	// Received are the bytes from the web, and Kinds those of the messages, for each page.
	Received float64            `json:"received_bytes_per_page"`
	Kinds    map[string]float64 `json:"message_bytes_per_page"`
	Links    float64            `json:"links_per_page"`
	// Coordinator and Others are the calls to the coordinator and to other agents, for each page.
	Coordinator float64 `json:"coordinator_calls_per_page"`
	Others      float64 `json:"agent_calls_per_page"`
}

// one crawls once, and adds the crawl and its points.
func (x *TwoLevel) one(ctx context.Context, t *Trial, r *twoLevelRun, way string, n int) error {
	return t.crawling(fmt.Sprintf("%s, %d agents", way, n), func() (string, error) {
		c, ps, err := x.crawlOne(ctx, t, way, n)
		if err != nil {
			return "", err
		}
		r.crawls, r.points = append(r.crawls, c), append(r.points, ps...)
		last := ps[len(ps)-1]
		return fmt.Sprintf("%.1f pages/s each, %.2f links a page", last.Speed, last.Links), nil
	})
}

// crawl runs the crawls of all ways and numbers of agents.
func (x *TwoLevel) crawl(ctx context.Context, t *Trial, r *twoLevelRun) error {
	if err := x.one(ctx, t, r, wayAlone, 1); err != nil {
		return err
	}
	for _, n := range x.Agents {
		for _, way := range projectedWays {
			if err := x.one(ctx, t, r, way, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// speed measures, once all agents crawl, their speed with full and two-level coverage, which take turns (figure 7).
// Lines have half of the bandwidth, so that the processors do not decide.
func (x *TwoLevel) speed(ctx context.Context, t *Trial, r *twoLevelRun) error {
	s := x.Timed
	s.Agents, s.Bandwidth = x.Agents, quantity.Bandwidth(x.Bandwidth/2)
	for run := 1; run <= s.Runs; run++ {
		for _, n := range x.Agents {
			for _, way := range []string{waySites, wayTwoLevel} {
				err := t.crawling(fmt.Sprintf("%s, %d agents, run %d", way, n, run), func() (string, error) {
					one := ScalingRun{Kind: way, Agents: n, Run: run}
					err := s.crawl(ctx, t, &one, func(c *agentGroup) {
						c.spec.PageBytes, c.flags = x.PageBytes, keepNothing
						c.way(way)
					})
					r.speeds = append(r.speeds, one)
					return fmt.Sprintf("%.1f pages/s each, %.2f %% of the line", one.PagesPerS, percent*one.Line), err
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// keepNothing leaves the archives empty.
var keepNothing = []string{"--keep", "application/x-none"}

// fast runs the crawls of one agent without a line, and with one that gives the paper's speed.
func (x *TwoLevel) fast(ctx context.Context, t *Trial, r *twoLevelRun) error {
	y := *x
	for _, line := range []string{noLine, paperLine} {
		for _, way := range []string{wayAlone, wayRendezvous, waySites} {
			if err := y.one(ctx, t, r, way+line, 1); err != nil {
				return err
			}
		}
		alone := point(r.points, wayAlone+noLine, 1, x.common())
		y.Bandwidth = int64(alone.Received * cost.Paper().Single)
	}
	return nil
}

// crawlOne crawls once.
func (x *TwoLevel) crawlOne(ctx context.Context, t *Trial, way string, n int) (r TwoLevelCrawl, ps []TwoLevelPoint,
	err error) {
	kind, free := strings.CutSuffix(way, noLine)
	kind = strings.TrimSuffix(kind, paperLine)
	most := x.share(n)
	web := gen.Plain(t.Seed, max(100, x.Pages[len(x.Pages)-1]/scalingPages*2)) // no crawl ends by itself
	web.PagesMean, web.PageBytes = scalingPages, x.PageBytes
	c := agentGroup{agents: n, webs: n, spec: WebSpec{Spec: web}, flags: keepNothing}
	c.pages = most + most/50 // some more than most, because a line of progress comes each second
	if !free {
		c.spec.Shape = testweb.Shape{BytesPerSecond: x.Bandwidth}
	}
	c.way(kind)
	err = c.together(ctx, t, func(all []*scaled) error {
		r = TwoLevelCrawl{Way: way, Agents: n, costs: costsOf(all)}
		if c.coordinator != nil {
			r.Coordinator = float64(c.coordinator.cpu().Microseconds()) / float64(r.Pages)
		}
		for _, a := range all {
			r.Hosts += int64(a.summary.Hosts)
			if kind == wayAlone {
				continue
			}
			joined, begun, err := a.setUp()
			if err != nil {
				return err
			}
			r.Joined, r.Begun = r.Joined+joined.Seconds()/float64(n), r.Begun+begun.Seconds()/float64(n)
		}
		for _, a := range all {
			end := a.at(time.Now())
			kinds := spent(&end)
			calls, _ := messages(&end)
			r.HostBytes += (kinds[kindHosts] + kinds[kindPartition]) / float64(r.Hosts)
			r.HostCalls += calls / float64(r.Hosts)
		}
		for _, pages := range x.Pages {
			if pages > most {
				break
			}
			p, err := reckonAt(all, float64(pages))
			if err != nil {
				return err
			}
			p.Way = way
			ps = append(ps, p)
		}
		return nil
	})
	return r, ps, err
}

// way sets how the agents divide the work.
func (c *agentGroup) way(way string) {
	switch way {
	case wayAlone:
		c.agents = 0
	case waySites:
		c.coordinated = true
	case wayTwoLevel:
		c.coordinated = true
		c.flags = append(c.flags, "--coverage", "two-level")
	}
}

// setUp returns how long after its start an agent has met the others, and begins to crawl.
func (a *scaled) setUp() (joined, begun time.Duration, err error) {
	over := false
	err = eachLine(a.dir, "events.jsonl", func(line []byte) error {
		var e struct {
			Time   time.Time
			Event  string
			Agents []string
		}
		if err := json.Unmarshal(line, &e); err != nil || over {
			return err
		}
		switch e.Event {
		case "joined":
			joined = e.Time.Sub(a.process.began)
		case "view": // of all agents, at the last
			if begun == 0 || len(e.Agents) > 1 {
				begun = e.Time.Sub(a.process.began)
			}
			over = len(e.Agents) == a.summary.Exchange.Agents
		}
		return nil
	})
	return max(joined, 0), max(begun, 0), err
}

// reckonAt returns the crawl up to a number of pages, interpolated between lines of progress.
func reckonAt(all []*scaled, pages float64) (r TwoLevelPoint, err error) {
	sum := func(when time.Time) (fetched float64) {
		for _, a := range all {
			fetched += a.at(when).pages
		}
		return fetched
	}
	first, last := time.Time{}, time.Time{}
	for _, a := range all {
		for _, p := range a.progress {
			if p.pages > 0 && (first.IsZero() || p.at.Before(first)) {
				first = p.at
			}
			if p.at.After(last) {
				last = p.at
			}
		}
	}
	if first.IsZero() || sum(last) < pages {
		return r, fmt.Errorf("%w: %.0f of %.0f", ErrTwoLevel, sum(last), pages)
	}
	low, high := first, last
	for range 40 {
		if middle := low.Add(high.Sub(low) / 2); sum(middle) >= pages {
			high = middle
		} else {
			low = middle
		}
	}
	return reckon(all, pages, first, high, sum(first)), nil
}

// ErrTwoLevel reports a crawl that ended before it had the pages to be compared.
var ErrTwoLevel = errors.New("the crawl has too few pages")

// reckon sums up the agents at a time.
func reckon(all []*scaled, pages float64, first, at time.Time, before float64) (r TwoLevelPoint) {
	r = TwoLevelPoint{Agents: len(all), Pages: pages, Kinds: map[string]float64{}}
	if d := at.Sub(first).Seconds(); d > 0 {
		r.Speed = (pages - before) / d / float64(len(all))
	}
	for _, a := range all {
		p := a.at(at)
		r.Received += p.received
		r.Links += p.Links
		for kind, n := range spent(&p) {
			r.Kinds[kind] += n
		}
		c, o := messages(&p)
		r.Coordinator, r.Others = r.Coordinator+c, r.Others+o
	}
	for kind := range r.Kinds {
		r.Kinds[kind] /= pages
	}
	r.Received, r.Links = r.Received/pages, r.Links/pages
	r.Coordinator, r.Others = r.Coordinator/pages, r.Others/pages
	return r
}

// A CoverageRun is a crawl to the end of a web with pages that only other hosts link to.
type CoverageRun struct {
	Way         string  `json:"way"`
	Crosslinked float64 `json:"crosslinked"`
	// Reachable pages can be found, by links of any pages; Within by links within hosts.
	Reachable int64 `json:"reachable"`
	Within    int64 `json:"reachable_within_hosts"`
	Fetched   int64 `json:"fetched"`
	costs
}

// coverageShares are the shares of the pages that only other hosts link to.
var coverageShares = []float64{0.05, 0.1, 0.2}

// coverageAgents is the number of agents of the part coverage.
const coverageAgents = 3

// cover crawls webs to their end.
func (x *TwoLevel) cover(ctx context.Context, t *Trial) (runs []CoverageRun, err error) {
	shares := coverageShares
	if t.Quick {
		shares = shares[len(shares)-1:]
	}
	for _, share := range shares {
		spec := plainWeb(t.Seed, x.Hosts)
		spec.Crosslinked, spec.PageBytes = share, 3000
		first := len(runs)
		for _, way := range []string{wayRendezvous, waySites, wayTwoLevel} {
			r := CoverageRun{Way: way, Crosslinked: share}
			err := t.crawling(fmt.Sprintf("coverage, %.0f %%, %s", percent*share, way), func() (string, error) {
				c := agentGroup{agents: coverageAgents, webs: 1,
					spec: WebSpec{Spec: spec, Truth: true, TwoLevel: way == wayTwoLevel}}
				c.way(way)
				err := c.together(ctx, t, func(all []*scaled) error {
					r.costs = costsOf(all)
					w, err := all[0].web.report(ctx)
					if err == nil {
						r.Fetched, r.Reachable = w.Origin.Fetched, w.Origin.Reachable
					}
					return err
				})
				return fmt.Sprintf("%s pages", humanize.Comma(r.Fetched)), err
			})
			if err != nil {
				return nil, err
			}
			runs = append(runs, r)
		}
		// The web of the last way, two-level, counts the pages that can be reached within hosts; the others count all.
		all, within := runs[first].Reachable, runs[len(runs)-1].Reachable
		for i := range runs[first:] {
			runs[first+i].Reachable, runs[first+i].Within = all, within
		}
	}
	return runs, nil
}
