// Package boundary answers: which agent keeps a fetched page, and how does the page get there?
//
//	visit -> Pages.Sort, Keeper -> Store.Write -> a WARC file; the journal refers to the page
//	outbox -> Pages.Send -> another agent's Taker, which acknowledges the page -> Store.Release
//	  -> the file is removed, once no page in it waits
//
// X4, a topic-partitioned crawler (paper, section 1), calls a page that does not belong to the agent that fetched it a
// boundary page. The agents of a cluster send such pages to each other if they divide pages by content.
//
// Invariants: a page is in a Store from Write until Release. Flush and Sync make pages survive a kill and a power
// failure, as with the archive. A Store knows the pages of an earlier run only when the caller has named them with
// Hold: the journal says which pages still wait. Tidy then removes files without such pages.
//
// The records are those of the archive, so the receiver archives what the server sent, with the date and the address
// of the fetch. Memory: some 100 octets for each file.
package boundary

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/near"
)

// AtOnce bounds the pages of one call.
const AtOnce = 100

// Pages says which agent keeps a page, and sends pages there. It implements cluster.Boundary. Safe for concurrent use.
type Pages struct {
	cfg      Config
	names    []string          // of the categories
	numbers  map[string]uint16 // of the categories, from 1
	byView   atomic.Pointer[categoriesOf]
	memories sync.Pool // of *readMemory
}

// Config configures Pages.
type Config struct {
	Store *Store // nil: links alone travel
	// Classifier says by its category where a page belongs. Nil: a hash of the page says it.
	Classifier *classify.Classifier
	// Near: the hash is the least one of the page's shingles. Else it is that of its payload.
	Near    bool
	Members *members.Members
	Owners  Owners
	Asker   Asker
}

// Owners are the agents that pages are divided among.
type Owners interface {
	// Load returns them by the view that this agent applied last, or nil before the first view.
	Load() *placement.View
}

// An Asker asks other agents about pages.
type Asker interface {
	// HasPages asks an agent which of the pages it has.
	HasPages(ctx context.Context, to *rpc.Peer, pages []link.Link) ([]bool, error)
}

// categoriesOf are the agents of the categories by a view.
type categoriesOf struct {
	view *placement.View
	*placement.Categories
	own *Own // of this agent
}

// An Own is how much of each category of pages this agent keeps, like a strategy.Own. It never changes.
type Own struct{ Shares []float64 }

// A readMemory is the memory for reading one page.
type readMemory struct {
	text     []byte
	scratch  classify.Scratch
	shingles near.Scratch
}

// New returns the Pages of an agent.
func New(cfg Config) *Pages {
	p := &Pages{cfg: cfg}
	p.memories.New = func() any { return new(readMemory) }
	if cfg.Classifier != nil {
		p.names, p.numbers = categoriesBy(cfg.Classifier), map[string]uint16{}
		for i, name := range p.names {
			p.numbers[name] = uint16(1 + i)
		}
	}
	return p
}

// categoriesBy returns the categories that pages can have: those of the model, and the pages that have none.
func categoriesBy(c *classify.Classifier) []string {
	return append(slices.Clone(c.Categories()), classify.Unclassifiable)
}

// Topics returns the categories of each agent if agents of capacity 1 with these names, and no others, divide pages by
// their categories.
func Topics(c *classify.Classifier, names []string) map[string][]string {
	agents, categories := make([]placement.Owner, len(names)), categoriesBy(c)
	for i, name := range names {
		agents[i] = placement.Owner{Name: name, Capacity: 1}
	}
	divided, topics := placement.NewCategories(len(categories), agents), map[string][]string{}
	for _, name := range names {
		for _, number := range slices.Compact(divided.Of(name)) {
			topics[name] = append(topics[name], categories[number])
		}
	}
	return topics
}

// ByPages implements cluster.Boundary.
func (p *Pages) ByPages() bool { return p.cfg.Classifier != nil }

// Sort implements cluster.Boundary. A page whose payload has no digest (see warc.Digests) stays where it is, but
// an empty one has no category. A page without shingles has the hash of its payload.
func (p *Pages) Sort(x *warc.Exchange, text func([]byte) ([]byte, error)) (to link.Destination, ok bool,
	err error) {
	digest, _, ok, err := warc.Digests(x)
	switch {
	case err != nil:
		return to, false, err
	case !ok && p.cfg.Classifier != nil && isEmpty(x):
		to.Category = p.numbers[classify.Unclassifiable]
		return to, true, nil
	case !ok:
		return to, false, nil
	}
	to.Hash = binary.BigEndian.Uint64(digest[:])
	if p.cfg.Classifier == nil && !p.cfg.Near {
		return to, true, nil
	}
	m := p.memories.Get().(*readMemory)
	defer p.memories.Put(m)
	if m.text, err = text(m.text[:0]); err != nil {
		return to, false, err
	}
	if p.cfg.Near {
		if h, ok := m.shingles.LeastHash(m.text); ok {
			to.Hash = h
		}
		return to, true, nil
	}
	to.Category = p.numbers[p.cfg.Classifier.Classify(m.text, &m.scratch).Category]
	return to, true, nil
}

// isEmpty reports that a response is whole and has no payload.
func isEmpty(x *warc.Exchange) bool {
	return x.Response != nil && x.HTTP && x.Truncated == "" && x.HeadLen > 0 && int64(x.HeadLen) == x.Response.Size()
}

// Keeper implements cluster.Boundary.
func (p *Pages) Keeper(to link.Destination) (agent string, mine bool) {
	owners := p.cfg.Owners.Load()
	if owners == nil {
		return "", false
	}
	if to.Category == 0 || int(to.Category) > len(p.numbers) {
		agent = owners.Owner(to.Hash).Name
	} else {
		agent = p.in(owners).Owner(int(to.Category)-1, to.Hash)
	}
	return agent, agent == p.cfg.Members.Self.Name
}

// Category implements cluster.Boundary.
func (p *Pages) Category(to link.Destination) string {
	if p.cfg.Classifier == nil || to.Category == 0 || int(to.Category) > len(p.numbers) {
		return ""
	}
	return p.names[to.Category-1]
}

// Categories implements cluster.Boundary.
func (p *Pages) Categories() (names []string) {
	view := p.cfg.Owners.Load()
	if p.cfg.Classifier == nil || view == nil {
		return nil
	}
	for _, number := range slices.Compact(p.in(view).Of(p.cfg.Members.Self.Name)) {
		names = append(names, p.names[number])
	}
	return names
}

// in returns which agents have the categories in a view.
func (p *Pages) in(view *placement.View) *categoriesOf {
	if c := p.byView.Load(); c != nil && c.view == view {
		return c
	}
	c := &categoriesOf{view: view, Categories: placement.NewCategories(len(p.numbers), view.Agents())}
	// No text tells which pages have no category, so nobody looks for them.
	shares := make([]float64, len(p.cfg.Classifier.Categories()))
	for _, category := range c.Of(p.cfg.Members.Self.Name) {
		if category < len(shares) {
			shares[category] += 1 / float64(c.Parts())
		}
	}
	c.own = &Own{Shares: shares}
	p.byView.Store(c)
	return c
}

// Own returns which categories belong to this agent now, or nil if it does not know yet or pages have none. As long as
// the agents stay the same, it returns the same pointer. A nil Pages does not know.
func (p *Pages) Own() *Own {
	if p == nil || p.cfg.Classifier == nil {
		return nil
	}
	view := p.cfg.Owners.Load()
	if view == nil {
		return nil
	}
	return p.in(view).own
}

// Send implements cluster.Boundary.
func (p *Pages) Send(ctx context.Context, agent string, pages []link.Link) error {
	to, err := p.cfg.Members.Peer(agent)
	if err != nil {
		return err
	}
	if pages, err = p.unknown(ctx, to, pages); err != nil || len(pages) == 0 {
		return err
	}
	if err = send(ctx, to, p.cfg.Store, pages); errors.Is(err, rpc.ErrMalformed) || errors.Is(err, errStored) {
		err = fmt.Errorf("%w: %w", crawl.ErrImport, err)
	}
	return err
}

// unknown returns those of the pages that the agent does not have. Others may have fetched them, too.
func (p *Pages) unknown(ctx context.Context, to *rpc.Peer, pages []link.Link) (left []link.Link, err error) {
	known, err := p.cfg.Asker.HasPages(ctx, to, pages)
	if err != nil {
		return nil, err
	}
	for i, page := range pages {
		if !known[i] {
			left = append(left, page)
		}
	}
	return left, nil
}
