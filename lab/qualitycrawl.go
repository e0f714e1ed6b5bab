package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A crawlSpec configures a crawl of a linkWeb by agents of this crawler.
type crawlSpec struct {
	dir     string
	hosts   *division
	agents  int
	active  int // hosts that each agent keeps ready
	workers int // of each agent
	of      func(host string) int
	seed    uint64
}

// qualityDelay is the delay per host, the default of a crawl.
const qualityDelay = 2 * time.Second

// A pageFetching is a fetch in progress.
type pageFetching struct {
	page  uint32
	agent int
	end   time.Time
}

// A linkCrawl simulates agents in virtual time. Each has a frontier.
type linkCrawl struct {
	crawlSpec
	web       *linkWeb
	frontiers []*frontier.Frontier
	owner     []int // agent, by host
	known     known
	depth     []int32 // links from a seed, by page
	busy      []int   // fetches in progress, by agent
	fetching  []pageFetching
	arrived   [][]link.Link // links of one page, by agent
	hops      string
	fetched   []uint32
}

// crawled returns the order in which the agents request the pages. Each link passes through the
// frontier of the agent that owns its host. A fetch takes fetchTime. A link reaches another
// agent without a delay.
func (w *linkWeb) crawled(ctx context.Context, s crawlSpec, seeds []uint32) (fetched []uint32, err error) {
	c := &linkCrawl{
		crawlSpec: s, web: w, known: make(known, w.g.Nodes()), depth: make([]int32, w.g.Nodes()),
		owner: make([]int, s.hosts.hosts()), busy: make([]int, s.agents), arrived: make([][]link.Link, s.agents),
	}
	for h, name := range s.hosts.names {
		c.owner[h] = s.of(name)
	}
	defer func() {
		for _, f := range c.frontiers {
			err = errors.Join(err, f.Close())
		}
	}()
	for i := range s.agents {
		f, err := frontier.Open(disk.OS, filepath.Join(s.dir, fmt.Sprintf("quality-%d", i)),
			frontier.Config{HostDelay: qualityDelay, Active: s.active, NoAddresses: true, Seed: s.seed})
		if err != nil {
			return nil, err
		}
		c.frontiers = append(c.frontiers, f)
	}
	if err := c.arrive(seeds, 0); err != nil {
		return nil, err
	}
	now := time.Unix(1e9, 0)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		wake, err := c.begin(now)
		if err != nil {
			return nil, err
		}
		if len(c.fetching) > 0 && (wake.IsZero() || c.fetching[0].end.Before(wake)) {
			wake = c.fetching[0].end
		}
		if wake.IsZero() {
			return c.fetched, nil
		}
		now = wake
		if err := c.end(now); err != nil {
			return nil, err
		}
	}
}

// begin starts the fetches of all due pages, as far as the agents have workers. wake is the
// time at which the next page is due; zero means none.
func (c *linkCrawl) begin(now time.Time) (wake time.Time, err error) {
	for i, f := range c.frontiers {
		for c.busy[i] < c.workers {
			t, next, ok := f.Next(now)
			if !ok {
				if err := f.Err(); err != nil {
					return wake, err
				}
				if !next.IsZero() && !next.After(now) {
					continue // the frontier can read more from disk
				}
				if !next.IsZero() && (wake.IsZero() || next.Before(wake)) {
					wake = next
				}
				break
			}
			page, err := strconv.ParseUint(t.Link.URL.Path()[1:], 10, 32)
			if err != nil {
				return wake, fmt.Errorf("page of %s: %w", t.Link.URL, err)
			}
			c.fetched = append(c.fetched, uint32(page))
			c.fetching = append(c.fetching, pageFetching{uint32(page), i, now.Add(fetchTime)})
			c.busy[i]++
		}
	}
	return wake, nil
}

// end ends the fetches whose time has come.
func (c *linkCrawl) end(now time.Time) error {
	for len(c.fetching) > 0 && !c.fetching[0].end.After(now) {
		f := c.fetching[0]
		c.fetching = c.fetching[1:]
		c.busy[f.agent]--
		if err := c.frontiers[f.agent].Done(c.hosts.names[c.hosts.host[f.page]], frontier.Done{}, now); err != nil {
			return err
		}
		if err := c.arrive(c.web.g.Out(f.page), c.depth[f.page]+1); err != nil {
			return err
		}
	}
	return nil
}

// arrive gives the links of pages to the agents that own their hosts, shuffled as in a crawl.
func (c *linkCrawl) arrive(pages []uint32, depth int32) error {
	if len(c.hops) < int(depth) {
		c.hops = strings.Repeat("L", 2*int(depth))
	}
	c.known.add(pages, func(p uint32) {
		c.depth[p] = depth
		a := c.owner[c.hosts.host[p]]
		c.arrived[a] = append(c.arrived[a], link.Link{URL: c.hosts.urls[p], Hops: c.hops[:depth]})
	})
	for a, ls := range c.arrived {
		if len(ls) == 0 {
			continue
		}
		if order := frontier.Scramble(ls); order != nil {
			apart := make([]link.Link, len(ls))
			for i, from := range order {
				apart[i] = ls[from]
			}
			ls = apart
		}
		if err := c.frontiers[a].Push(ls); err != nil {
			return err
		}
		c.arrived[a] = c.arrived[a][:0]
	}
	return nil
}
