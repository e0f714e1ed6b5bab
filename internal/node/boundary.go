package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/classify/builtin"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/near"
)

const (
	boundaryDir = "state/boundary"
	// pagesAtOnce bounds the pages of one call.
	pagesAtOnce = 100
)

// BoundaryContents sends a page to the agent where it belongs: X4 (a topic-partitioned crawler), section 4 of its
// paper.
const BoundaryContents = "contents"

// BoundaryURLs leaves a page at the agent that has fetched it, and sends its links to the agents of its category: X4,
// section 7.
const BoundaryURLs = "urls"

// The values of Cluster.ContentHash.
const (
	// ContentExact is the digest of a page's payload. It is the default.
	ContentExact = "exact"
	// ContentNear is the least hash of the page's shingles. Near-duplicates probably have the same one.
	ContentNear = "near"
)

// ContentHashes returns the values of Cluster.ContentHash that are not empty.
func ContentHashes() []string { return []string{ContentExact, ContentNear} }

// Boundaries returns the values of Cluster.Boundary that are not empty.
func Boundaries() []string { return []string{BoundaryContents, BoundaryURLs} }

// CheckBoundary returns an *input.Error if agents with this partition cannot treat boundary pages so. An empty boundary
// is the partition's default.
func CheckBoundary(partition, how string) error {
	switch {
	case how == "":
		return nil
	case !slices.Contains(Boundaries(), how):
		return input.Errorf("--boundary %s: this version knows %s", how, strings.Join(Boundaries(), " and "))
	case how == BoundaryURLs && partition != PartitionTopic:
		return input.Errorf("--boundary %s: with --partition %s links go by their hosts; leave it out, or give "+
			"--partition %s", how, partition, PartitionTopic)
	case partition != PartitionHash && partition != PartitionTopic:
		return input.Errorf("--boundary %s: with --partition %s pages do not move; leave it out, or give "+
			"--partition %s or %s", how, partition, PartitionTopic, PartitionHash)
	}
	return nil
}

// CheckContentHash returns an *input.Error if agents with this partition and boundary cannot hash contents so. An empty
// hash is ContentExact.
func CheckContentHash(partition, boundary, hash string) error {
	switch {
	case hash == "" || hash == ContentExact:
		return nil
	case hash != ContentNear:
		return input.Errorf("--content-hash %s: this version knows %s and %s", hash, ContentExact, ContentNear)
	case partition != PartitionHash || boundary != BoundaryContents:
		return input.Errorf("--content-hash %s: only with --partition %s --boundary %s a hash moves pages; give both",
			hash, PartitionHash, BoundaryContents)
	}
	return nil
}

// boundary returns Boundary, or the default of the partition if it is empty.
func (c *Cluster) boundary() string {
	if c.Boundary == "" && c.byPages() {
		return BoundaryContents
	}
	return c.Boundary
}

// builtInTopics is the classifier of the program's model of topics.
var builtInTopics = sync.OnceValue(func() *classify.Classifier {
	c, err := classify.New(builtin.Topics(), builtin.Languages())
	if err != nil {
		panic(err) // both models are in the program
	}
	return c
})

// classifier returns Classifier, or the default if it is nil.
func (c *Cluster) classifier() *classify.Classifier {
	if c.Classifier == nil {
		return builtInTopics()
	}
	return c.Classifier
}

// movesPages reports whether fetched pages move to the agents where they belong.
func (c *Cluster) movesPages() bool { return c != nil && c.boundary() == BoundaryContents }

// checkTopic returns an *input.Error if the crawl cannot be divided by topic.
func (c *Config) checkTopic() error {
	switch {
	case !c.Cluster.byPages():
		return nil
	case c.Crawl.HostPageLimit > 0:
		return input.Errorf("--host-page-limit %d: with --partition %s no agent counts the pages of the others; "+
			"leave it out", c.Crawl.HostPageLimit, PartitionTopic)
	}
	return nil
}

// boundaryPages are the pages that this agent has fetched and others are to have. It implements cluster.Boundary.
type boundaryPages struct {
	*boundary.Store // nil: links alone travel
	a               *Agent
	near            bool                 // the least hash of a page's shingles says where it belongs
	classifier      *classify.Classifier // nil: the hash of a page says where it belongs
	names           []string             // of the categories
	numbers         map[string]uint16    // of the categories, from 1
	byView          atomic.Pointer[categoriesOf]
	memories        sync.Pool // of *readMemory
}

// categoriesOf are the agents of the categories by a view.
type categoriesOf struct {
	view *placement.View
	*placement.Categories
	own *strategy.Own // of this agent
}

// A readMemory is the memory for reading one page.
type readMemory struct {
	text     []byte
	scratch  classify.Scratch
	shingles near.Scratch
}

// openBoundary opens the store of boundary pages if pages move. If they do not, no page of an earlier run may wait.
func (a *Agent) openBoundary() (err error) {
	if err := a.checkNoPageWaits(); err != nil {
		return err
	}
	switch c := a.cfg.Cluster; {
	case c.movesPages():
		if a.boundary, err = boundary.Open(a.fs, a.dir(boundaryDir),
			boundary.Config{Level: a.cfg.Archive.Level, Now: a.now}); err != nil {
			return err
		}
		a.onClose(a.boundary.Close)
	case !c.byPages():
		return nil
	}
	p := &boundaryPages{Store: a.boundary, a: a, near: a.cfg.Cluster.ContentHash == ContentNear}
	p.memories.New = func() any { return new(readMemory) }
	if a.cfg.Cluster.byPages() {
		p.classifier, p.numbers = a.cfg.Cluster.classifier(), map[string]uint16{}
		p.names = categoriesBy(p.classifier)
		for i, name := range p.names {
			p.numbers[name] = uint16(1 + i)
		}
	}
	a.others.Boundary, a.others.Pages = p, p
	return nil
}

// checkNoPageWaits returns an *input.Error if pages do not move and an earlier run, in which they did, has left some.
func (a *Agent) checkNoPageWaits() error {
	if a.cfg.Cluster.movesPages() {
		return nil
	}
	files, err := a.fs.ReadDir(filepath.Join(a.dir(boundaryDir), "archive"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(files) > 0:
		return input.Errorf("the pages in %s wait for other agents of a crawl with --boundary %s; resume with "+
			"--boundary %s until it ends, or start again with --overwrite", a.dir(boundaryDir), BoundaryContents,
			BoundaryContents)
	}
	return nil
}

// categoriesBy returns the categories that pages can have: those of the model, and the pages that have none.
func categoriesBy(c *classify.Classifier) []string {
	return append(slices.Clone(c.Categories()), classify.Unclassifiable)
}

// Topics returns the categories of each agent if agents of capacity 1 with these names, and no others, divide pages by
// topic. The cluster's own Name and Capacity have no effect.
func (c *Cluster) Topics(names []string) map[string][]string {
	agents, categories := make([]placement.Owner, len(names)), categoriesBy(c.classifier())
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
func (p *boundaryPages) ByPages() bool { return p.classifier != nil }

// Sort implements cluster.Boundary. A page whose payload has no digest (see warc.Digests) stays where it is, but
// an empty one has no category. A page without shingles has the hash of its payload.
func (p *boundaryPages) Sort(x *warc.Exchange, text func([]byte) ([]byte, error)) (to link.Destination, ok bool,
	err error) {
	digest, _, ok, err := warc.Digests(x)
	switch {
	case err != nil:
		return to, false, err
	case !ok && p.classifier != nil && isEmpty(x):
		to.Category = p.numbers[classify.Unclassifiable]
		return to, true, nil
	case !ok:
		return to, false, nil
	}
	to.Hash = binary.BigEndian.Uint64(digest[:])
	if p.classifier == nil && !p.near {
		return to, true, nil
	}
	m := p.memories.Get().(*readMemory)
	defer p.memories.Put(m)
	if m.text, err = text(m.text[:0]); err != nil {
		return to, false, err
	}
	if p.near {
		if h, ok := m.shingles.LeastHash(m.text); ok {
			to.Hash = h
		}
		return to, true, nil
	}
	to.Category = p.numbers[p.classifier.Classify(m.text, &m.scratch).Category]
	return to, true, nil
}

// isEmpty reports that a response is whole and has no payload.
func isEmpty(x *warc.Exchange) bool {
	return x.Response != nil && x.HTTP && x.Truncated == "" && x.HeadLen > 0 && int64(x.HeadLen) == x.Response.Size()
}

// Keeper implements cluster.Boundary.
func (p *boundaryPages) Keeper(to link.Destination) (agent string, mine bool) {
	owners := p.a.membership.owners()
	if owners == nil {
		return "", false
	}
	if to.Category == 0 || int(to.Category) > len(p.numbers) {
		agent = owners.Owner(to.Hash).Name
	} else {
		agent = p.in(owners).Owner(int(to.Category)-1, to.Hash)
	}
	return agent, agent == p.a.membership.cfg.Name
}

// Category implements cluster.Boundary.
func (p *boundaryPages) Category(to link.Destination) string {
	if p.classifier == nil || to.Category == 0 || int(to.Category) > len(p.numbers) {
		return ""
	}
	return p.names[to.Category-1]
}

// Categories implements cluster.Boundary.
func (p *boundaryPages) Categories() (names []string) {
	view := p.a.membership.owners()
	if p.classifier == nil || view == nil {
		return nil
	}
	for _, number := range slices.Compact(p.in(view).Of(p.a.membership.cfg.Name)) {
		names = append(names, p.names[number])
	}
	return names
}

// in returns which agents have the categories in a view.
func (p *boundaryPages) in(view *placement.View) *categoriesOf {
	if c := p.byView.Load(); c != nil && c.view == view {
		return c
	}
	c := &categoriesOf{view: view, Categories: placement.NewCategories(len(p.numbers), view.Agents())}
	// No text tells which pages have no category, so nobody looks for them.
	shares := make([]float64, len(p.classifier.Categories()))
	for _, category := range c.Of(p.a.membership.cfg.Name) {
		if category < len(shares) {
			shares[category] += 1 / float64(c.Parts())
		}
	}
	c.own = &strategy.Own{Shares: shares}
	p.byView.Store(c)
	return c
}

// own returns which categories belong to this agent now, for strategies. It returns nil if the agent does not know yet.
func (a *Agent) own() *strategy.Own {
	p, ok := a.others.Boundary.(*boundaryPages)
	if !ok || p.classifier == nil {
		return nil
	}
	view := a.membership.owners()
	if view == nil {
		return nil
	}
	return p.in(view).own
}

// pages takes the pages that another agent sends.
func (c *membership) pages(ctx context.Context, from rpc.Caller, pages *rpc.PageReader) (err error) {
	var durable []func() error
	for err == nil {
		var page link.Link
		if page, err = pages.Next(); err != nil {
			break
		}
		var wait func() error
		if wait, err = c.a.cluster.TakePage(ctx, from.Name, page, pages); err == nil {
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
	case errors.Is(err, crawl.ErrNotRunning), errors.Is(err, cluster.ErrNotKeeper):
		return rpc.ErrAgain
	case errors.Is(err, crawl.ErrImport):
		return fmt.Errorf("%w: %w", rpc.ErrMalformed, err)
	}
	return err
}

// Send implements cluster.Boundary.
func (p *boundaryPages) Send(ctx context.Context, agent string, pages []link.Link) error {
	c := p.a.membership
	to, ok := c.members.Agent(agent)
	if !ok {
		return fmt.Errorf("agent %q is gone", agent)
	}
	peer := c.members.To(to)
	pages, err := p.unknown(ctx, peer, pages)
	if err != nil || len(pages) == 0 {
		return err
	}
	calls := make([]rpc.SentPage, len(pages))
	for i, page := range pages {
		at, _ := page.Stored()
		calls[i] = rpc.SentPage{Link: page.WithoutStored().AppendTo(nil), Size: at.To - at.From,
			Open: func() (io.ReadCloser, error) { return p.Read(at) }}
	}
	err = peer.Pages(ctx, calls)
	if errors.Is(err, rpc.ErrMalformed) || errors.Is(err, rpc.ErrStored) {
		err = fmt.Errorf("%w: %w", crawl.ErrImport, err)
	}
	return err
}

// unknown returns those of the pages that the agent does not have. Others may have fetched them, too.
func (p *boundaryPages) unknown(ctx context.Context, to *rpc.Peer, pages []link.Link) (left []link.Link,
	err error) {
	fs := make([]rpc.Fingerprint, len(pages))
	for i, page := range pages {
		fs[i] = rpc.Fingerprint(p.a.others.Durable.Fingerprint(cluster.DurableKey(page)))
	}
	known, err := to.Known(ctx, fs)
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
