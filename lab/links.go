package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// Links answers: how many links, and how many bytes, do agents send to each other for each page?
//
// It compares at the same fill, the share of the web's pages that are fetched: at the beginning of a
// crawl most links are new, at its end all are known. A model compares ways to send fewer links;
// real crawls measure the one that the agents use.
type Links struct {
	// Agents lists the numbers of agents of the crawls. Empty means 2, 4, 8 and 16, with --quick 2
	// and 4.
	Agents []int
	// Hosts is the number of hosts of the web. Zero means 1,500, with --quick 100.
	Hosts int64
	// Bandwidth is the bandwidth of each agent's line, in bytes per second. Zero means 500,000.
	Bandwidth int64
	Again     string
}

// ErrLinks reports that crawls of the same web did not fetch the same number of pages.
var ErrLinks = errors.New("the crawls fetched different numbers of pages")

// linksFills are the shares of the web's pages at which the crawls are compared.
var linksFills = []float64{0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 1}

func (x *Links) defaults(quick bool) {
	if quick {
		def(&x.Hosts, 100)
		if x.Agents == nil {
			x.Agents = []int{2, 4}
		}
	}
	def(&x.Hosts, 1500)
	def(&x.Bandwidth, 500_000)
	if x.Agents == nil {
		x.Agents = []int{2, 4, 8, 16}
	}
}

// A LinksPoint is what agents have sent to each other up to a fill.
type LinksPoint struct {
	Agents int     `json:"agents"`
	Fill   float64 `json:"fill"`
	Pages  float64 `json:"pages"`
	// Per fetched page.
	Links  float64            `json:"links_per_page"`
	Keys   float64            `json:"keys_per_page"`
	Bytes  float64            `json:"bytes_per_page"`
	ByCall map[string]float64 `json:"bytes_per_page_by_call"`
}

// A LinksRun is a crawl with a number of agents to the end.
type LinksRun struct {
	Agents int `json:"agents"`
	costs
	Points []LinksPoint `json:"points"`
}

// Run implements Experiment.
func (x *Links) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	y.defaults(t.Quick)
	done := t.step("model of the remedies")
	model, sizes, err := y.model(ctx, t)
	if err != nil {
		return nil, err
	}
	done("%d remedies", len(linksRemedies))
	var runs []LinksRun
	for _, n := range y.Agents {
		done := t.step("%d agents", n)
		stop := t.alive("crawling")
		r, err := y.crawl(ctx, t, n)
		stop()
		if err != nil {
			return nil, fmt.Errorf("%d agents: %w", n, err)
		}
		if len(runs) > 0 && runs[0].Pages != r.Pages {
			return nil, fmt.Errorf("%w: %d and %d", ErrLinks, runs[0].Pages, r.Pages)
		}
		done("%s pages, %.2f links, %.2f keys and %.0f bytes a page", humanize.Comma(r.Pages), r.Overhead, r.Keys,
			r.Exchanged)
		runs = append(runs, r)
	}
	return y.result(t, model, sizes, runs), nil
}

// crawl lets n agents crawl the web to the end.
func (x *Links) crawl(ctx context.Context, t *Trial, n int) (r LinksRun, err error) {
	spec := WebSpec{Spec: linksWeb(t.Seed, x.Hosts), Shape: testweb.Shape{BytesPerSecond: x.Bandwidth}}
	c := agentGroup{agents: n, webs: n, spec: spec}
	err = c.together(ctx, t, func(all []*scaled) error {
		r = LinksRun{Agents: n, costs: costsOf(all)}
		for _, fill := range linksFills {
			r.Points = append(r.Points, pointAt(all, fill, float64(r.Pages)))
		}
		return nil
	})
	return r, err
}

func linksWeb(seed uint64, hosts int64) gen.Spec {
	s := gen.Plain(seed, hosts)
	s.PagesMean = scalingPages
	return s
}

// pointAt returns what the agents had sent when they had fetched a share of all pages.
func pointAt(all []*scaled, fill, pages float64) LinksPoint {
	at := func(when time.Time) (p LinksPoint) {
		p.ByCall = map[string]float64{}
		for _, a := range all {
			a.until(when, &p)
		}
		return p
	}
	low, high := all[0].progress[0].at, time.Time{}
	for _, a := range all {
		if last := a.progress[len(a.progress)-1].at; last.After(high) {
			high = last
		}
	}
	high = high.Add(time.Minute) // by then, the summary counts
	p := at(high)
	for range 40 {
		middle := low.Add(high.Sub(low) / 2)
		if q := at(middle); q.Pages >= fill*pages {
			high, p = middle, q
		} else {
			low = middle
		}
	}
	p.Agents, p.Fill = len(all), fill
	p.Links, p.Keys, p.Bytes = p.Links/p.Pages, p.Keys/p.Pages, p.Bytes/p.Pages
	for call := range p.ByCall {
		p.ByCall[call] /= p.Pages
	}
	return p
}

// until adds the agent's counts at a time to p.
func (a *scaled) until(when time.Time, p *LinksPoint) {
	now := a.at(when)
	p.Pages += now.pages
	p.Links += now.Links
	p.Keys += now.Keys
	p.Bytes += now.Bytes
	for call, n := range now.ByCall {
		p.ByCall[call] += n
	}
}

// counted are an agent's counts at a time.
type counted struct {
	pages, received        float64
	Links, Keys, Bytes     float64
	ByCall, Calls, Answers map[string]float64
}

// at returns the agent's counts at a time, interpolated between two lines of progress, or the last
// one and the summary.
func (a *scaled) at(when time.Time) counted {
	end := paged{pages: a.summary.Pages, bytes: a.summary.Bytes}
	if a.summary.Exchange != nil {
		end.sent = *a.summary.Exchange
	}
	if n := len(a.progress); n > 0 {
		end.at = a.progress[n-1].at.Add(time.Second)
	}
	var before paged
	after := end
	i, _ := slices.BinarySearchFunc(a.progress, when, func(p paged, when time.Time) int { return p.at.Compare(when) })
	if i < len(a.progress) {
		after = a.progress[i]
	}
	if i > 0 {
		before = a.progress[i-1]
	}
	share := 1.0
	if d := after.at.Sub(before.at); !before.at.IsZero() && d > 0 {
		share = min(1, float64(when.Sub(before.at))/float64(d))
	}
	at := func(from, to int64) float64 { return float64(from) + share*float64(to-from) }
	each := func(from, to map[string]int64) map[string]float64 {
		m := map[string]float64{}
		for call := range merged(from, to) {
			m[call] = at(from[call], to[call])
		}
		return m
	}
	b, e := before.sent, after.sent
	return counted{
		pages: at(before.pages, after.pages), received: at(before.bytes, after.bytes),
		Links: at(b.Links, e.Links), Keys: at(b.Keys, e.Keys), Bytes: at(b.Bytes, e.Bytes),
		ByCall: each(b.ByCall, e.ByCall), Calls: each(b.Calls, e.Calls), Answers: each(b.Answers, e.Answers),
	}
}

// merged has the keys of both.
func merged(a, b map[string]int64) map[string]int64 {
	m := map[string]int64{}
	maps.Copy(m, b)
	maps.Copy(m, a)
	return m
}
