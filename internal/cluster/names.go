package cluster

import (
	"context"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// When an agent is lost with its disk, its archive is lost, and no agent fetches its pages again. So its
// heirs must be able to name these pages. A replica names the URLs that the owner's archive has. The owner ships
// a Finish when it finishes a page, and a Named when it archives another agent's page or ships its whole state.
// TakeOver writes the names to a list, and ships them on as lost, so that they can be named after a second loss, too.
// A name that was shipped on tells whose archive it was in. The agent may be back by then, with its archive: others
// have taken it for lost because it was away.

// Names knows of which URLs this agent's archive has records, and keeps lists of the URLs that lost
// archives had. Safe for concurrent use.
type Names interface {
	// Each calls fn for each URL that has a record in this agent's archive, and for each URL of the lists,
	// with lost set. archive names the lost archive; empty: that is not known. The link has the URL and its
	// Refetches. A URL may come more than once. URLs of which the archive gets a record meanwhile may be missing.
	// Each reads files, and returns the first error of the disk or of fn.
	Each(fn func(l link.Link, lost bool, archive string) error) error
	// List begins the lists that a lost agent leaves: that of its archive, and those of the lists that it had. whole is
	// false if its archive is not lost: then only the latter.
	List(lost handoff.Source) (list List, whole bool, err error)
}

// A List is a set of lists in the making, one for each lost archive. One goroutine uses it.
type List interface {
	// Add adds a URL with its Refetches to the list of an archive; see handoff.Source.Archive. l is valid only until
	// Add returns.
	Add(l link.Link, archive string) error
	// Commit makes the lists durable. A URL that an earlier list of the same archive has stays in it.
	Commit() error
	// Close ends the use of the lists. Without a Commit before, it leaves no trace.
	Close() error
}

// copyName ships the name of an imported page that the archive has got. The agent that has fetched the page ships the
// finish of its URL, and has no record of it.
func (s *shipping) copyName(f *state.Finish) {
	if f.File != "" {
		s.ShipName(f.Link)
	}
}

// ShipName ships the name of a page that the archive has.
func (s *shipping) ShipName(l link.Link) {
	if s.Copies == nil {
		return
	}
	r := handoff.Record{Kind: handoff.Named, Disposition: handoff.Archived, Link: nameOf(l).AppendTo(nil)}
	s.stage(countsCopy, &r, link.HostKey(l.URL.Host()))
}

// nameOf returns what names a page of an archive.
func nameOf(l link.Link) (name link.Link) {
	name.URL = l.URL
	name.SetRefetches(l.Refetches())
	return name
}

// namesAtOnce is the number of names after which names looks whether the view is still the same.
const namesAtOnce = 1 << 12

// names ships the names of the URLs that the archive has, and of those that lost archives had.
func (t *telling) names(ctx context.Context) error {
	if t.ship.Names == nil {
		return nil
	}
	var encoded []byte
	n := 0
	err := t.ship.Names.Each(func(l link.Link, lost bool, archive string) error {
		if n++; n%namesAtOnce == 0 {
			if err := t.do(ctx, func() {}); err != nil {
				return err
			}
		}
		host := link.HostKey(l.URL.Host())
		if !t.wanted(host) {
			return nil
		}
		encoded = l.AppendTo(encoded[:0])
		r := handoff.Record{Kind: handoff.Named, Disposition: handoff.Archived, Link: encoded}
		if lost {
			r.Disposition, r.Archive = handoff.Lost, archive
		}
		return t.put(ctx, &r, host)
	})
	if err != nil {
		return err
	}
	return t.flush(ctx)
}
