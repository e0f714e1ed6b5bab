package crawl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A NewSeed is a seed for a running crawl. Bare says that it was given without a scheme.
type NewSeed struct {
	URL  weburl.URL
	Bare bool
}

// A SeedFate is what has become of a NewSeed.
type SeedFate uint8

const (
	// SeedNew is accepted. It waits in the queue of this agent, or for its transfer to the agent of its host.
	SeedNew SeedFate = iota + 1
	// SeedKnown was accepted before, as a seed or as a link of a page.
	SeedKnown
	// SeedTaken is as durable as the others. The seen-set has not answered yet whether it was known.
	SeedTaken
	// SeedExcluded matches an exclude pattern of the scope.
	SeedExcluded
)

// AddSeeds accepts seeds like Seed, while Run runs. It returns what has become of each, in their order. They are
// durable when it returns. The caller has extended the scope. Safe for concurrent use; ctx bounds the wait
// (ErrUnderWay).
func (c *Crawler) AddSeeds(ctx context.Context, seeds []NewSeed) (fates []SeedFate, err error) {
	_, err = c.run.Command(ctx, "seed", fmt.Sprintf("%d URLs", len(seeds)), func(time.Time) (string, error) {
		links := make([]link.Link, len(seeds))
		for i, s := range seeds {
			links[i] = c.seedLink(s.URL, s.Bare)
		}
		fates = c.addSeeds(links)
		return "", c.secure()
	})
	return fates, err
}

func (c *Crawler) addSeeds(seeds []link.Link) []SeedFate {
	var ls visit.Links
	fates := make([]SeedFate, len(seeds))
	c.seeding = map[link.Key]bool{}
	for i, l := range seeds {
		n := len(ls.Found)
		c.visits.Links.Judge(&ls, l, l.Key())
		if fates[i] = SeedKnown; len(ls.Found) == n {
			fates[i] = SeedExcluded
		}
	}
	c.run.Stir()
	c.intake(&ls)
	for i, l := range seeds {
		k := l.Key()
		switch isNew, open := c.seeding[k]; {
		case fates[i] == SeedExcluded:
		case isNew:
			fates[i] = SeedNew
			c.seeding[k] = false // the same URL once more is known
		case !open && c.Seen.Holds():
			fates[i] = SeedTaken
		}
	}
	c.seeding = nil
	return fates
}

// seedLink returns the link of a seed.
func (c *Crawler) seedLink(u weburl.URL, bare bool) link.Link {
	l := link.Link{URL: u, Seed: u.Host()}
	if r, ok := c.Strategy.(visit.Reader); ok {
		l.Level = r.SeedLevel()
	}
	if bare {
		l.SetBare()
	}
	c.Cluster.direct(&l)
	return l
}

// Amend puts what operators have changed of the scope in force. Links found from now on are judged by it. The error
// names a pattern that is wrong. Safe for concurrent use, also before Run.
func (c *Crawler) Amend(a scope.Amendment) error { return c.Scope.Amend(a) }

// SeedAgent returns the other agent that accepts a seed of a host. It is "" if this agent does, or if the owner of the
// host is not known: then the seed waits here for its owner. Safe for concurrent use.
func (c *Crawler) SeedAgent(host string) string {
	owner, mine := c.Cluster.peek(host)
	if mine {
		return ""
	}
	return strings.Clone(owner)
}
