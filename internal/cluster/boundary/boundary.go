// Package boundary answers: which agent keeps a fetched page, and how does the page get there?
//
//	visit -> Exports.Export: Pages.Sort, Keeper -> Store.Write -> a WARC file; the journal refers to the page
//	outbox -> Exports.Send: Pages.Send -> Exports.TakePage of another agent, which acknowledges the page
//	  -> Store.Release -> the file is removed, once no page in it waits
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
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/cluster/known"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/near"
)

// AtOnce bounds the pages of one call.
const AtOnce = 100

// Pages says which agent keeps a page, and sends pages there. It implements Division. Safe for concurrent use.
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
	Known   *known.Durable // asks which pages another agent has; nil without Store
}

// Owners are the agents that pages are divided among.
type Owners interface {
	// Load returns them by the view that this agent applied last, or nil before the first view.
	Load() *placement.View
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

func (p *Pages) ByPages() bool { return p.cfg.Classifier != nil }

// Sort implements Division. A page whose payload has no digest (see warc.Digests) stays where it is, but
// an empty one has no category. A page without shingles has the hash of its payload.
func (p *Pages) Sort(x *warc.Exchange, text func([]byte) (prose, main []byte, err error)) (to link.Destination,
	ok bool, err error) {
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
	var main []byte
	if m.text, main, err = text(m.text[:0]); err != nil {
		return to, false, err
	}
	if p.cfg.Near {
		if h, ok := m.shingles.LeastHash(m.text); ok {
			to.Hash = h
		}
		return to, true, nil
	}
	to.Category = p.numbers[p.cfg.Classifier.Classify(m.text, main, &m.scratch).Category]
	return to, true, nil
}

// isEmpty reports that a response is whole and has no payload.
func isEmpty(x *warc.Exchange) bool {
	return x.Response != nil && x.HTTP && x.Truncated == "" && x.HeadLen > 0 && int64(x.HeadLen) == x.Response.Size()
}

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

func (p *Pages) Category(to link.Destination) string {
	if p.cfg.Classifier == nil || to.Category == 0 || int(to.Category) > len(p.numbers) {
		return ""
	}
	return p.names[to.Category-1]
}

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
	keys := make([]link.Key, len(pages))
	for i, page := range pages {
		keys[i] = DurableKey(page)
	}
	has, err := p.cfg.Known.Ask(ctx, to, keys)
	if err != nil {
		return nil, err
	}
	for i, page := range pages {
		if !has[i] {
			left = append(left, page)
		}
	}
	return left, nil
}

// PageKey returns the key in the seen-set of a page that this agent has. No host has its host part.
func PageKey(k link.Key) link.Key {
	return link.Key{Host: k.Host ^ 0x8cb92ba72f3d8dd7, Path: k.Path}
}

// VersionKey returns the key in the seen-set of a version of a page that this agent has: the page's key if URLs are
// fetched once.
func VersionKey(l link.Link) link.Key {
	k := PageKey(link.KeyOf(l.URL))
	if v, ok := l.Version(); ok {
		k.Path ^= v
	}
	return k
}

// DurableKey returns the key in a known.Durable of a page that this agent has by a link. It contains the Refetches:
// when a page of a lost archive is fetched again and this agent has it already, the page must be sent all the same.
// Only then this agent ships the name for that time, which its heirs need if this archive is lost, too.
func DurableKey(l link.Link) link.Key {
	k := VersionKey(l)
	k.Path ^= uint64(l.Refetches()) * 0xa0761d6478bd642f
	return k
}

const (
	// pageChunk is how much of a page is sent in one message.
	pageChunk = 64 << 10
	// maxPage bounds the records of a page in octets.
	maxPage = 1 << 40
)

// Call sends pages to the agent that keeps them: of each the encoding of its link, and its WARC records in parts. The
// answer means that they are durable there.
var Call = rpc.Stream[pb.PagesRequest, pb.PagesResponse]{Call: rpc.CallPages}

// A Taker keeps pages of other agents: Exports.
type Taker interface {
	// TakePage takes a page that agent from sends. It reads records to their end, unless it has the page already. When
	// durable returns nil, the page is durable. After an ErrNotKeeper or a crawl.ErrNotRunning the page comes again. A
	// crawl.ErrImport means that the records are no page.
	TakePage(ctx context.Context, from string, page link.Link, records io.Reader) (durable func() error, err error)
}

// ErrNotKeeper reports a page that belongs to another agent by this agent's view.
var ErrNotKeeper = errors.New("the page belongs to another agent")

// Serve makes a server take the pages that other agents send, before it runs.
func Serve(s *rpc.Server, t Taker) {
	Call.Serve(s, func(ctx context.Context, from rpc.Caller, receive func() (*pb.PagesRequest, error)) (
		*pb.PagesResponse, error) {
		pages := &pageReader{receive: receive}
		err := takeAll(ctx, from.Name, pages, t)
		return &pb.PagesResponse{Count: uint32(pages.n)}, err
	})
}

// takeAll takes the pages of a call.
func takeAll(ctx context.Context, from string, pages *pageReader, t Taker) (err error) {
	var durable []func() error
	for err == nil {
		var page link.Link
		if page, err = pages.next(); err != nil {
			break
		}
		var wait func() error
		if wait, err = t.TakePage(ctx, from, page, pages); err == nil {
			durable = append(durable, wait)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	// Even after an error, the pages before it are taken. If they come again, they are known.
	for _, wait := range durable {
		if err == nil {
			err = wait()
		}
	}
	switch {
	case errors.Is(err, crawl.ErrNotRunning), errors.Is(err, ErrNotKeeper):
		return rpc.ErrAgain
	case errors.Is(err, crawl.ErrImport):
		return fmt.Errorf("%w: %w", rpc.ErrMalformed, err)
	}
	return err
}

// errStored reports a stored page that cannot be read.
var errStored = errors.New("a stored page cannot be read")

// send sends pages of a Store to the agent that keeps them. Without an error they are durable there. The agent holds
// the sender back if it is slower.
func send(ctx context.Context, to *rpc.Peer, from *Store, pages []link.Link) error {
	return Call.Ask(ctx, to, func(send func(*pb.PagesRequest) error) error {
		buf := make([]byte, pageChunk)
		for _, page := range pages {
			if err := sendPage(send, from, page, buf); err != nil {
				return err
			}
		}
		return nil
	}, func(r *pb.PagesResponse) error {
		if int(r.Count) != len(pages) {
			return rpc.Malformedf("%d of %d pages acknowledged", r.Count, len(pages))
		}
		return nil
	})
}

func sendPage(send func(*pb.PagesRequest) error, from *Store, page link.Link, buf []byte) error {
	at, _ := page.Stored()
	r, err := from.Read(at)
	if err != nil {
		return fmt.Errorf("%w: %w", errStored, err)
	}
	defer r.Close()
	size := at.To - at.From
	m := &pb.PagesRequest{Link: page.WithoutStored().AppendTo(nil), Size: uint64(size)}
	for left := size; left > 0; m = new(pb.PagesRequest) {
		m.Records = buf[:min(left, int64(len(buf)))]
		if _, err := io.ReadFull(r, m.Records); err != nil {
			return fmt.Errorf("%w: %w", errStored, err)
		}
		left -= int64(len(m.Records))
		if err := send(m); err != nil {
			return err
		}
	}
	return nil
}

// A pageReader reads the pages of a call, one after the other.
type pageReader struct {
	receive func() (*pb.PagesRequest, error) // io.EOF after the last one
	chunk   []byte
	left    int64 // octets of the page that were not received
	n       int
}

// next skips the rest of the present page and returns the link of the next one. The error is io.EOF after the last
// page. An error of a page is an rpc.ErrMalformed.
func (p *pageReader) next() (found link.Link, err error) {
	if _, err := io.Copy(io.Discard, p); err != nil {
		return found, err
	}
	m, err := p.receive()
	if err != nil {
		return found, err
	}
	found, n, err := link.Decode(m.Link)
	switch _, ok := found.Destination(); {
	case err != nil || n != len(m.Link) || found.URL.IsZero():
		return found, rpc.Malformedf("link of page %d", p.n)
	case !ok:
		return found, rpc.Malformedf("page %d has no destination", p.n)
	case m.Size == 0 || m.Size > maxPage:
		return found, rpc.Malformedf("page %d of %d octets", p.n, m.Size)
	}
	p.n++
	p.left = int64(m.Size)
	return found, p.take(m)
}

// take takes a part of the page.
func (p *pageReader) take(m *pb.PagesRequest) error {
	if len(m.Records) == 0 || int64(len(m.Records)) > p.left {
		return rpc.Malformedf("%d octets of page %d, which has %d left", len(m.Records), p.n-1, p.left)
	}
	p.chunk, p.left = m.Records, p.left-int64(len(m.Records))
	return nil
}

// Read reads the WARC records of the page.
func (p *pageReader) Read(b []byte) (int, error) {
	if len(p.chunk) == 0 {
		if p.left == 0 {
			return 0, io.EOF
		}
		m, err := p.receive()
		switch {
		case errors.Is(err, io.EOF):
			return 0, rpc.Malformedf("page %d ends %d octets early", p.n-1, p.left)
		case err != nil:
			return 0, err
		case len(m.Link) > 0 || m.Size > 0:
			return 0, rpc.Malformedf("page %d begins before page %d has ended", p.n, p.n-1)
		}
		if err := p.take(m); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.chunk)
	p.chunk = p.chunk[n:]
	return n, nil
}
