package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A page that belongs to another agent (X4, a topic-partitioned crawler: paper, section 1) waits like a link of
// another agent's host:
//
//	Export: stored -> Depart: B in the journal, with the URL's finish -> outbox -> Peers.Push -> S in the journal
//	  -> synced -> the store forgets the page
//	other agent: TakePage: archived, read -> a finish and the links in one batch -> durable, links safe -> answer
//
// The record B has the page's destination and its place in the store. It has no key: the page is sent as often as the
// URL is fetched. The receiver asks its seen-set for the URL's page key, so a page that comes again is acknowledged
// and dropped.

// Boundary divides pages by their content. Safe for concurrent use.
type Boundary interface {
	// Sort returns where the page of x belongs. ok is false if it belongs to the agent that has fetched it. decoded
	// returns its body without codings.
	Sort(x *warc.Exchange, decoded func() ([]byte, error)) (to weburl.Destination, ok bool, err error)
	// Keeper returns the agent that keeps the pages of a destination. mine reports that it is this agent. If agent is
	// empty and mine is false, it is not known yet.
	Keeper(to weburl.Destination) (agent string, mine bool)
	// Write stores a page, see boundary.Store, as do the methods below.
	Write(x *warc.Exchange) (weburl.Stored, error)
	Hold(at weburl.Stored) (whole bool, err error)
	Read(at weburl.Stored) (io.ReadCloser, error)
	Release(pages []weburl.Stored) error
	Waiting() int64
}

// exports is the state of pages on their way.
type exports struct {
	arrived []weburl.Stored // other agents have them; the journal's records of that are not synced

	mu     sync.Mutex // guards taking
	taking map[weburl.Key]chan struct{}
}

// pageKey returns the key in the seen-set of a page that another agent has fetched. No host has its host part.
func pageKey(k weburl.Key) weburl.Key {
	return weburl.Key{Host: k.Host ^ 0x8cb92ba72f3d8dd7, Path: k.Path}
}

// Export implements crawl.Cluster.
func (cl *Clustered) Export(_ context.Context, l weburl.Link, x *warc.Exchange,
	decoded func() ([]byte, error)) (page weburl.Link, away bool, err error) {
	if cl.Boundary == nil {
		return page, false, nil
	}
	to, ok, err := cl.Boundary.Sort(x, decoded)
	if err != nil || !ok {
		return page, false, err
	}
	if _, mine := cl.Boundary.Keeper(to); mine {
		return page, false, nil
	}
	at, err := cl.Boundary.Write(x)
	if err != nil {
		return page, false, err
	}
	l.SetDestination(to)
	l.SetStored(at)
	return l, true, nil
}

// Depart implements crawl.Cluster.
func (cl *Clustered) Depart(page weburl.Link) error {
	enc := page.AppendTo(nil)
	number := cl.loop.Accept(crawl.Passed, enc)
	cl.countOutgoing()
	return cl.post(number, page, 0, enc)
}

// ownerOf returns the agent that gets a link, or the page that it stands for.
func (cl *Clustered) ownerOf(l weburl.Link) (agent string, mine bool) {
	if cl.Boundary != nil {
		if to, ok := l.Destination(); ok {
			return cl.Boundary.Keeper(to)
		}
	}
	return cl.Peers.Owner(l.URL.Host())
}

// pagesIn returns the places of the pages among encoded links.
func (cl *Clustered) pagesIn(links []byte) (pages []weburl.Stored) {
	if cl.Boundary == nil {
		return nil
	}
	for rest := links; len(rest) > 0; {
		l, n, err := weburl.PeekLink(rest)
		if cl.loop.Fail(err) {
			return nil
		}
		if at, ok := l.Stored(); ok {
			at.File = string([]byte(at.File))
			pages = append(pages, at)
		}
		rest = rest[n:]
	}
	return pages
}

// forgetPages gives up stored pages that other agents have, when the journal tells so durably.
func (cl *Clustered) forgetPages() (durable func()) {
	pages := cl.exports.arrived
	if cl.exports.arrived = nil; len(pages) == 0 {
		return func() {}
	}
	return func() { cl.loop.Fail(cl.Boundary.Release(pages)) }
}

// requeuePage queues a page of an earlier run. whole is false if a power failure has destroyed the page: then its URL
// must be fetched again.
func (cl *Clustered) requeuePage(number uint64, enc []byte) (page, whole bool, err error) {
	l, _, err := weburl.PeekLink(enc)
	at, page := l.Stored()
	if err != nil || !page {
		return false, true, err
	}
	if cl.Boundary == nil {
		return true, false, nil
	}
	at.File = string([]byte(at.File))
	if whole, err = cl.Boundary.Hold(at); err == nil && whole {
		err = cl.Outbox.PushLoose(number, enc)
	}
	return true, whole, err
}

// ErrNotKeeper reports a page that belongs to another agent by this agent's view.
var ErrNotKeeper = errors.New("the page belongs to another agent")

// TakePage takes a page that another agent has fetched, from its WARC records. It reads records to their end, unless
// this agent has the page already. When durable returns nil, the loss of this machine loses the page only if it loses
// the archive, and with replication none of the page's links. Safe for concurrent use. The error is an ErrNotKeeper, a
// crawl.ErrNotRunning, a crawl.ErrImport, or of reading records; after it, the page may come again.
func (cl *Clustered) TakePage(ctx context.Context, from string, page weburl.Link, records io.Reader) (
	durable func() error, err error) {
	to, ok := page.Destination()
	if !ok || cl.Boundary == nil {
		return nil, fmt.Errorf("%w: the link of a page has no destination", crawl.ErrImport)
	}
	if _, mine := cl.Boundary.Keeper(to); !mine {
		return nil, ErrNotKeeper
	}
	link := page.AsLink()
	key := pageKey(link.URL.Key())
	free, err := cl.claimPage(ctx, key)
	if err != nil {
		return nil, err
	}
	defer free()
	done := make(chan error, 1)
	if known, err := cl.knowsPage(ctx, key, done); err != nil || known {
		return cl.wait(ctx, done), err
	}
	imported, err := cl.loop.Import(ctx, from, link, records)
	if err != nil {
		return nil, err
	}
	settled := make(chan struct{})
	if err := cl.loop.Post(ctx, func(now time.Time) {
		defer close(settled)
		if cl.loop.Stopping() {
			done <- crawl.ErrNotRunning
			return
		}
		cl.loop.Stir()
		cl.loop.Settle(imported, now)
		cl.remote.pages++
		cl.tenants.done = append(cl.tenants.done, key)
		cl.whenFinishesSafe(func() { done <- nil })
	}); err != nil {
		return nil, err
	}
	<-settled // the dispatcher has it; until then the page must not be taken twice
	return cl.wait(ctx, done), nil
}

// claimPage waits until no other call takes the page. free ends this call.
func (cl *Clustered) claimPage(ctx context.Context, key weburl.Key) (free func(), err error) {
	x := &cl.exports
	for {
		x.mu.Lock()
		other := x.taking[key]
		if other == nil {
			mine := make(chan struct{})
			if x.taking == nil {
				x.taking = map[weburl.Key]chan struct{}{}
			}
			x.taking[key] = mine
			x.mu.Unlock()
			return func() {
				x.mu.Lock()
				delete(x.taking, key)
				x.mu.Unlock()
				close(mine)
			}, nil
		}
		x.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// knowsPage reports whether this agent has the page. Then done tells when the page is durable.
func (cl *Clustered) knowsPage(ctx context.Context, key weburl.Key, done chan error) (known bool, err error) {
	stopping := false
	err = cl.loop.Ask(ctx, "page", func() {
		if stopping = cl.loop.Stopping(); stopping {
			return
		}
		if known = cl.hasKey(key); known {
			cl.remote.pagesAgain++
			cl.whenFinishesSafe(func() { done <- nil })
		}
	})
	if stopping && err == nil {
		err = crawl.ErrNotRunning
	}
	return known, err
}

// hasKey reports whether the seen-set has a key.
func (cl *Clustered) hasKey(key weburl.Key) bool {
	if slices.Contains(cl.tenants.done, key) {
		return true
	}
	if !cl.loop.Seen.MayHave(key) {
		return false
	}
	paths := cl.rangeOf(key.Host)
	return paths.Has(64, key.Path)
}

// wait returns a function that waits for done.
func (cl *Clustered) wait(ctx context.Context, done chan error) func() error {
	return func() error {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-cl.loop.Ended():
		}
		select {
		case err := <-done:
			return err
		default:
			return crawl.ErrNotRunning
		}
	}
}

// takePagesBack takes pages that this agent has stored for another one and keeps itself by now.
func (cl *Clustered) takePagesBack(ctx context.Context, pages []weburl.Link) (err error) {
	var durable []func() error
	for _, page := range pages {
		at, _ := page.Stored()
		var r io.ReadCloser
		if r, err = cl.Boundary.Read(at); err != nil {
			break
		}
		wait, takeErr := cl.TakePage(ctx, "itself", page, r)
		if err = errors.Join(takeErr, r.Close()); err != nil {
			break
		}
		durable = append(durable, wait)
	}
	for _, wait := range durable {
		err = errors.Join(err, wait())
	}
	return err
}

// exportCounts returns the counts of pages on their way, or nil if pages do not move.
func (cl *Clustered) exportCounts() *report.Boundary {
	if cl.Boundary == nil {
		return nil
	}
	return &report.Boundary{Waiting: cl.Boundary.Waiting(), Taken: cl.remote.pages, Again: cl.remote.pagesAgain}
}
