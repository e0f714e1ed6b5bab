package crawl

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
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

// Seed accepts the crawl's seeds, and the sitemaps that the configuration names. The seeds in bare were given without a
// scheme. URLs known from an earlier run change nothing. Call it after Recover and before Run.
func (n *Intake) Seed(us []weburl.URL, bare map[weburl.URL]bool) error {
	var ls visit.Links
	for _, u := range us {
		n.visits.Links.Judge(&ls, n.seedLink(u, bare[u]), link.KeyOf(u))
	}
	for _, u := range n.limits.cfg.Sitemaps.Named {
		l := visit.NamedSitemap(u, us)
		n.cluster.direct(&l)
		n.visits.Links.Judge(&ls, l, link.KeyOf(u))
	}
	n.takeAll(&ls)
	// The next run must know in any case that this run existed and may have sent requests.
	n.run.Fail(n.ledger.Secure())
	return n.run.Err()
}

// Requisites accepts the files that a page in the archive needs, if the page is in the crawl's scope. Those that are
// known change nothing. Call it after Recover and before Run, and Secure after the last page.
func (n *Intake) Requisites(page link.Link, files []parse.Link) error {
	if n.run.Failed() || !n.visits.Links.Scope.Judge(page).In {
		return n.run.Err()
	}
	var ls visit.Links
	for _, f := range files {
		l := visit.Child(page, f.URL, f.Hop)
		if n.visits.Links.Scope.BoundsHostDepth() && f.URL.Host() == page.URL.Host() {
			l.SetHostDepth(page.Depth()) // the record does not tell it; this is the most that it can be
		}
		n.cluster.direct(&l)
		n.visits.Links.Judge(&ls, l, f.Key)
	}
	n.takeAll(&ls)
	n.run.Fail(n.ledger.Append())
	return n.run.Err()
}

// Secure makes durable what Requisites has accepted.
func (n *Intake) Secure() error {
	n.run.Fail(n.ledger.Secure())
	return n.run.Err()
}

// AddSeeds accepts seeds like Seed, while Run runs. It returns what has become of each, in their order. They are
// durable when it returns. The caller has extended the scope. The error is ErrEnding if the agents are ending the run.
// Safe for concurrent use; ctx bounds the wait (ErrUnderWay).
func (n *Intake) AddSeeds(ctx context.Context, seeds []NewSeed) (fates []SeedFate, err error) {
	_, err = n.run.Command(ctx, "seed", fmt.Sprintf("%d URLs", len(seeds)), func(time.Time) (string, error) {
		if n.cluster.Ending() {
			return "", ErrEnding
		}
		links := make([]link.Link, len(seeds))
		for i, s := range seeds {
			links[i] = n.seedLink(s.URL, s.Bare)
		}
		fates = n.add(links)
		return "", secure(n.run, n.ledger)
	})
	return fates, err
}

func (n *Intake) add(seeds []link.Link) []SeedFate {
	var ls visit.Links
	fates := make([]SeedFate, len(seeds))
	n.seeding = map[link.Key]bool{}
	for i, l := range seeds {
		found := len(ls.Found)
		n.visits.Links.Judge(&ls, l, l.Key())
		if fates[i] = SeedKnown; len(ls.Found) == found {
			fates[i] = SeedExcluded
		}
	}
	n.run.Stir()
	n.take(&ls)
	for i, l := range seeds {
		k := l.Key()
		switch isNew, open := n.seeding[k]; {
		case fates[i] == SeedExcluded:
		case isNew:
			fates[i] = SeedNew
			n.seeding[k] = false // the same URL once more is known
		case !open && n.seen.Holds():
			fates[i] = SeedTaken
		}
	}
	n.seeding = nil
	return fates
}

// seedLink returns the link of a seed.
func (n *Intake) seedLink(u weburl.URL, bare bool) link.Link {
	l := link.Link{URL: u, Seed: u.Host()}
	if r, ok := n.strategy.(visit.Reader); ok {
		l.Level = r.SeedLevel()
	}
	if bare {
		l.SetBare()
	}
	n.cluster.direct(&l)
	return l
}

// SeedAgent returns the other agent that accepts a seed of a host. It is "" if this agent does, or if the owner of the
// host is not known: then the seed waits here for its owner. Safe for concurrent use.
func (n *Intake) SeedAgent(host string) string {
	owner, mine := n.cluster.peek(host)
	if mine {
		return ""
	}
	return strings.Clone(owner)
}

// An AppURL is a URL for an application. Bare says that it was given without a scheme. Priority is from 0 to 15; URLs
// with a higher one come first among those of the application.
type AppURL struct {
	URL      weburl.URL
	Bare     bool
	Priority uint8
}

// Feed accepts URLs for an application. They are durable when it returns, at this agent or on the way to the agents of
// their hosts. The fates are those of AddSeeds, in the order of urls. The error is applications.ErrUnknown if the
// application is not defined at this agent, and ErrEnding if the agents are ending the run. Safe for concurrent use;
// ctx bounds the wait (ErrUnderWay).
func (n *Intake) Feed(ctx context.Context, app string, urls []AppURL) (fates []SeedFate, err error) {
	_, err = n.run.Command(ctx, "feed", app, func(time.Time) (string, error) {
		a := n.apps.Of(app)
		switch {
		case a == nil:
			return "", fmt.Errorf("application %q: %w", app, applications.ErrUnknown)
		case n.cluster.Ending():
			return "", ErrEnding
		}
		seeds := make([]link.Link, len(urls))
		for i, u := range urls {
			seeds[i] = n.appLink(a, u)
		}
		fates = n.add(seeds)
		return "", secure(n.run, n.ledger)
	})
	return fates, err
}

// appLink returns the link of a URL that is fed to an application.
func (n *Intake) appLink(a *visit.Application, u AppURL) link.Link {
	l := link.Link{URL: u.URL, Seed: u.URL.Host(), Level: min(u.Priority, 15)}
	if u.Bare {
		l.SetBare()
	}
	l.SetApp(a.Name, "")
	n.cluster.direct(&l)
	return l
}

// SeedAgain accepts the first 10,000 failed seeds once more if no seed has given a page in any
// run of the crawl, because the operator may have changed flags. Call it after
// Recover and before Run.
func (n *Intake) SeedAgain() error {
	again := n.failures.Again()
	for _, enc := range again {
		// Both records are in one batch: only Accept may append it, after its own record.
		n.ledger.Add(state.Again, enc)
		l, err := n.failures.TakeBack(enc)
		if err != nil {
			return err
		}
		n.origins.ForgetHost(l.URL.Host()) // the tries of its origin are counted anew, too
		n.origins.Record(l.URL.Host())
		n.plan.Retry(l.URL)
		var aux []byte
		aux, n.stamped = n.gate.Stamp(enc, n.stamped[:0])
		key := n.ledger.Keys().Of(l.Key(), false)
		if err := n.Accept([]keyset.Item{{Key: key, Aux: aux}}); err != nil {
			return err
		}
	}
	if len(again) > 0 {
		n.run.Fail(n.ledger.Secure())
	}
	return n.run.Err()
}
