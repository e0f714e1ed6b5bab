package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A page that belongs to another agent (X4, a topic-partitioned crawler: paper, section 1) waits like a link of
// another agent's host:
//
//	Export: stored -> B in the journal, with the URL's finish -> PageBox -> Boundary.Send -> S in the journal
//	  -> synced -> the store forgets the page
//	other agent: TakePage: archived, read -> a finish and the links in one batch -> durable, links safe -> answer
//
// The record B has the page's destination and its place in the store. It has no key: the page is sent as often as the
// URL is fetched, unless the receiver says before that it has the page (see Durable). The receiver asks its seen-set
// for the URL's page key, so a page that comes again is acknowledged and dropped.
//
// If links alone travel, the page stays at the agent that has fetched it. A link gets its page's category and its own
// host as its destination, and goes the way of other links; its key in the seen-set contains the category. So a URL
// is sent once for each category whose pages link to it, and of a category's agents one fetches it.

// Boundary divides pages by their content. Safe for concurrent use.
type Boundary interface {
	// Sort returns where the page of x, or if links alone travel its links, belong. ok is false if they belong to the
	// agent that has fetched it. text appends the text that a reader of the page sees.
	Sort(x *warc.Exchange, text func([]byte) ([]byte, error)) (to link.Destination, ok bool, err error)
	// ByPages reports that pages alone are divided: each agent crawls any host, and keeps the links of its pages.
	ByPages() bool
	// Category returns the name of a destination's category, or "" if pages have none.
	Category(to link.Destination) string
	// Categories returns the names of the categories whose pages, or some of them, belong to this agent.
	Categories() []string
	// Keeper returns the agent that keeps the pages of a destination. mine reports that it is this agent. If agent is
	// empty and mine is false, it is not known yet.
	Keeper(to link.Destination) (agent string, mine bool)
	// Send sends stored pages to an agent. It returns nil when they are durable there. After an error the crawl sends
	// them again. A crawl.ErrImport means that one of them may not be readable.
	Send(ctx context.Context, agent string, pages []link.Link) error
}

// A PageStore has the pages for other agents: a boundary.Store. Safe for concurrent use.
type PageStore interface {
	Write(x *warc.Exchange) (link.Stored, error)
	Hold(at link.Stored) (whole bool, err error)
	Read(at link.Stored) (io.ReadCloser, error)
	Whole(at link.Stored) bool
	Release(pages []link.Stored) error
	Waiting() int64
}

// exports is the state of pages on their way. It implements crawl.Boundary and visit.Sharing.
type exports struct {
	*base
	ranges   *ranges
	shipping *shipping
	receipts *receipts
	links    *links

	pages, pagesAgain int64                       // pages of other agents in this run: taken, and known already
	pagesDamaged      int64                       // pages for others that could not be read, and are fetched again
	pagesRefused      int64                       // pages that other agents refused
	from              map[string]report.PagesFrom // the pages that were taken, by the agents that have sent them

	arrived []link.Stored // other agents have them; the journal's records of that are not synced

	onWay onWay

	mu     sync.Mutex // guards taking
	taking map[link.Key]chan struct{}
}

func (x *exports) Export(_ context.Context, l link.Link, of *warc.Exchange,
	text func([]byte) ([]byte, error)) (page link.Link, category string, away bool, err error) {
	to, ok, err := x.Boundary.Sort(of, text)
	if err != nil || !ok {
		return page, "", false, err
	}
	category = x.Boundary.Category(to)
	if x.PageBox == nil { // links alone travel
		l.SetDestination(to)
		return l, category, false, nil
	}
	if _, mine := x.Boundary.Keeper(to); mine {
		return page, category, false, nil
	}
	at, err := x.Pages.Write(of)
	if err != nil {
		return page, category, false, err
	}
	l.SetDestination(to)
	l.SetStored(at)
	return l, category, true, nil
}

// depart queues a page that Export has stored. The batch with its accept has the finish of its URL, too.
func (x *exports) depart(number uint64, page link.Link, enc []byte) error {
	x.shipping.countPage()
	x.onWay.begins(link.KeyOf(page.URL))
	to, err := x.wayOfPage(number, enc)
	if err != nil || to.Way == outbox.Wait {
		return errors.Join(err, x.PageBox.PushLoose(number, enc))
	}
	return x.PageBox.Push(to.Agent, number, 0, enc)
}

// wayOfPage returns the destination of a page in the outbox. A page whose host was dropped was fetched before that.
func (x *exports) wayOfPage(_ uint64, enc []byte) (to outbox.To, err error) {
	l, _, err := link.Peek(enc)
	d, ok := l.Destination()
	if err != nil || !ok {
		return to, fmt.Errorf("page from the outbox: %w", link.ErrDamaged)
	}
	switch agent, mine := x.Boundary.Keeper(d); {
	case mine:
		return outbox.To{}, nil
	case agent == "":
		return outbox.To{Way: outbox.Wait}, nil
	default:
		return outbox.To{Agent: agent}, nil
	}
}

// pagesOut returns the number of pages that wait for other agents.
func (b *base) pagesOut() int64 {
	if b.PageBox == nil {
		return 0
	}
	return b.PageBox.Len()
}

// outgoing returns the number of links and pages that wait for other agents.
func (b *base) outgoing() int64 { return b.Outbox.Len() + b.pagesOut() }

// pagesChanged tells that other agents may keep the pages now.
func (x *exports) pagesChanged() {
	if x.PageBox != nil {
		x.PageBox.Changed()
	}
}

// sendPages sends pages to other agents.
func (x *exports) sendPages(work context.Context, now time.Time) (wake time.Time) {
	if x.PageBox == nil || x.run.Fail(x.PageBox.Route(routeSlice, x.wayOfPage)) {
		return time.Time{}
	}
	x.PageBox.Linger(x.linger())
	if x.PageBox.Loose() {
		wake = now
	}
	for !x.run.Failed() {
		b, next, err := x.PageBox.Next(now, x.wayOfPage)
		if x.run.Fail(err) {
			return wake
		}
		if b == nil {
			return run.Earlier(wake, next)
		}
		pages, err := pagesOf(b)
		if x.run.Fail(err) {
			return wake
		}
		x.run.Go(func() {
			results := x.deliver(work, b.Agent, pages)
			x.run.Tell(func(now time.Time) { x.pagesSent(b, pages, results, now) })
		})
	}
	return wake
}

// pagesOf returns the pages of a batch.
func pagesOf(b *outbox.Batch) (pages []link.Link, err error) {
	for rest := b.Links; len(rest) > 0; {
		l, n, err := link.Decode(rest)
		if err != nil {
			return nil, fmt.Errorf("page from the outbox: %w", err)
		}
		pages, rest = append(pages, l), rest[n:]
	}
	return pages, nil
}

// Results of sending a page, besides those of Boundary.Send.
var (
	errPageDamaged = errors.New("the stored page cannot be read")
	errPageRefused = errors.New("the agent where the page belongs refuses it")
)

// deliver sends pages to the agent that keeps them, or takes them if that is this one by now. It returns a result for
// each page: nil if the page is durable at an agent.
func (x *exports) deliver(work context.Context, agent string, pages []link.Link) []error {
	results := make([]error, len(pages))
	err := x.deliverTo(work, agent, pages)
	for i := range pages {
		if results[i] = err; !errors.Is(err, crawl.ErrImport) {
			continue // all have the same result
		}
		one := x.deliverOne(work, agent, pages[i])
		if results[i] = one; awaits(one) {
			err = one // the agent does not answer any more
		}
	}
	return results
}

func (x *exports) deliverTo(work context.Context, agent string, pages []link.Link) error {
	if agent == "" {
		return x.takePagesBack(work, pages)
	}
	return x.Boundary.Send(work, agent, pages)
}

// deliverOne is deliver for one page of a batch that was refused. If the agent refuses a page that is whole here, this
// agent keeps it. If it cannot read the page either, nobody keeps it.
func (x *exports) deliverOne(work context.Context, agent string, page link.Link) error {
	err := x.deliverTo(work, agent, []link.Link{page})
	if !errors.Is(err, crawl.ErrImport) {
		return err
	}
	at, _ := page.Stored()
	if !x.Pages.Whole(at) {
		return errPageDamaged
	}
	durable, kept := x.takeStored(work, page, x.takePage)
	if kept == nil {
		kept = durable()
	}
	if kept != nil && !errors.Is(kept, crawl.ErrImport) {
		return kept
	}
	x.loop.Events.Write("page-not-taken", report.F("url", page.URL.String()), report.F("agent", agent),
		report.F("kept", kept == nil), report.F("error", err.Error()))
	return errPageRefused
}

// awaits reports whether a page with this result is sent again.
func awaits(err error) bool {
	return err != nil && !errors.Is(err, errPageDamaged) && !errors.Is(err, errPageRefused)
}

// pagesSent records the results of sending a batch of pages.
func (x *exports) pagesSent(b *outbox.Batch, pages []link.Link, results []error, now time.Time) {
	x.run.Stir()
	first := slices.IndexFunc(results, awaits)
	if first >= 0 && !slices.ContainsFunc(results, func(err error) bool { return !awaits(err) }) {
		x.links.tellPush(b, inPages, results[first])
		x.PageBox.Done(b, false, now)
		return
	}
	x.links.tellPush(b, inPages, nil)
	x.PageBox.Done(b, true, now)
	var sent, stayed []uint64 // numbers of pages at the other agent, and of those that this agent ends itself
	for i, page := range pages {
		at, _ := page.Stored()
		switch err := results[i]; {
		case awaits(err):
			if x.run.Fail(x.PageBox.PushLoose(b.Numbers[i], page.AppendTo(nil))) {
				return
			}
			continue
		case errors.Is(err, errPageDamaged):
			x.pagesDamaged++
			if x.fetchAgain(page); x.run.Failed() {
				return
			}
			stayed = append(stayed, b.Numbers[i])
		case errors.Is(err, errPageRefused):
			x.pagesRefused++
			stayed = append(stayed, b.Numbers[i])
		case b.Agent == "":
			stayed = append(stayed, b.Numbers[i])
		default:
			sent = append(sent, b.Numbers[i])
		}
		x.shipping.pageArrived(b.Numbers[i])
		x.onWay.ends(link.KeyOf(page.URL))
		x.arrived = append(x.arrived, at)
	}
	if len(sent) > 0 {
		x.run.Fail(x.loop.Ledger.EndOutgoing(sent, false))
	}
	if len(stayed) > 0 {
		x.run.Fail(x.loop.Ledger.EndOutgoing(stayed, true))
	}
}

// fetchAgain queues the URL of a stored page that cannot be read. The caller ends the page.
func (x *exports) fetchAgain(page link.Link) {
	at, _ := page.Stored()
	l := page.AsLink()
	enc := l.AppendTo(nil)
	again := x.loop.Ledger.AcceptUnlisted(state.Accept, enc)
	x.shipping.copyAccept(again, link.HostKey(l.URL.Host()), enc)
	if x.run.Fail(x.loop.Frontier.PushAt([]link.Link{l}, []uint64{again})) {
		return
	}
	x.loop.Events.Write("page-damaged", report.F("url", l.URL.String()), report.F("file", at.File))
}

// byPages reports that every agent may crawl any host.
func (b *base) byPages() bool { return b.Boundary != nil && b.Boundary.ByPages() }

func (x *exports) Direct(seed *link.Link) { x.direct(seed) }

// direct says where a seed begins if every agent may crawl any host: a hash of its host tells the agent.
func (b *base) direct(seed *link.Link) {
	if b.byPages() {
		seed.SetDestination(link.Destination{Hash: link.HostKey(seed.URL.Host())})
	}
}

func (x *exports) Capture(ctx context.Context, u weburl.URL) (r io.ReadCloser, agent string, err error) {
	x.onWay.await(ctx, link.KeyOf(u))
	return x.Archives.Capture(ctx, u)
}

// owns reports whether this agent crawls a host.
func (b *base) owns(host string) bool {
	_, mine := b.Placement.Owner(host)
	return mine
}

func (x *exports) Keeps(to link.Destination) bool {
	_, mine := x.Boundary.Keeper(to)
	return mine
}

// directed returns the agent that gets a link with a destination.
func (b *base) directed(l link.Link) (agent string, mine, ok bool) {
	if b.Boundary == nil {
		return "", false, false
	}
	to, ok := l.Destination()
	if ok {
		agent, mine = b.Boundary.Keeper(to)
	}
	return agent, mine, ok
}

// forgetPages gives up stored pages that other agents have, when the journal tells so durably.
func (x *exports) forgetPages() (durable func()) {
	pages := x.arrived
	if x.arrived = nil; len(pages) == 0 {
		return func() {}
	}
	return func() { x.run.Fail(x.Pages.Release(pages)) }
}

// requeuePage queues a page of an earlier run. whole is false if a power failure has destroyed the page: then its URL
// must be fetched again.
func (x *exports) requeuePage(number uint64, enc []byte) (page, whole bool, err error) {
	l, _, err := link.Peek(enc)
	at, page := l.Stored()
	if err != nil || !page {
		return false, true, err
	}
	if x.PageBox == nil {
		return true, false, nil
	}
	at.File = strings.Clone(at.File)
	if whole, err = x.Pages.Hold(at); err == nil && whole {
		err = x.PageBox.PushLoose(number, enc)
	}
	return true, whole, err
}

// TakePage implements boundary.Taker. It reads records to their end, unless this agent has the page already. After
// durable has returned nil, the page can only be lost with this machine's archive. With replication, its links are safe
// even then. Safe for concurrent use. The error is a boundary.ErrNotKeeper, a run.ErrNotRunning, a crawl.ErrImport, or
// of reading records. After an error, the page may come again.
func (x *exports) TakePage(ctx context.Context, from string, page link.Link, records io.Reader) (
	durable func() error, err error) {
	to, ok := page.Destination()
	if !ok || x.PageBox == nil {
		return nil, fmt.Errorf("%w: the link of a page has no destination", crawl.ErrImport)
	}
	if _, mine := x.Boundary.Keeper(to); !mine {
		return nil, boundary.ErrNotKeeper
	}
	return x.takePage(ctx, from, page, records)
}

// takePage does the work of TakePage. It does not ask which agent keeps the page.
func (x *exports) takePage(ctx context.Context, from string, page link.Link, records io.Reader) (
	durable func() error, err error) {
	to, _ := page.Destination()
	found := page.AsLink()
	if v, ok := page.Version(); ok {
		found.SetVersion(v)
	}
	key, generation := boundary.VersionKey(found), x.Durable.Now()
	free, err := x.claimPage(ctx, key)
	if err != nil {
		return nil, err
	}
	defer free()
	done := make(chan error, 1)
	if known, err := x.knowsPage(ctx, found, done); err != nil || known {
		return x.wait(ctx, done, boundary.DurableKey(found), generation), err
	}
	imported, err := x.loop.Import(ctx, from, found, x.Boundary.Category(to), records)
	if err != nil {
		return nil, err
	}
	if err := x.run.Do(ctx, "page", func(now time.Time) { // until it is over, the page must not be taken twice
		if x.run.Stopping() {
			imported.Abandon()
			done <- run.ErrNotRunning
			return
		}
		x.run.Stir()
		if !x.loop.Settle(imported, now) {
			imported.Abandon()
			done <- run.ErrNotRunning
			return
		}
		x.tookPage(from, imported.Size())
		x.ranges.notePage(found)
		if x.byPages() { // links to it that are found later lead to a known URL
			own := x.ranges.ownKey(link.KeyOf(found.URL))
			x.run.Fail(x.loop.Ledger.Learn([]ledger.Ranged{{Host: own.Host, Paths: keyset.PathsOf(own.Path)}}))
		}
		x.receipts.whenFinishesSafe(func(time.Time) { done <- nil })
	}); err != nil {
		imported.Abandon()
		return nil, err
	}
	return x.wait(ctx, done, boundary.DurableKey(found), generation), nil
}

// claimPage waits until no other call takes the page. free ends this call.
func (x *exports) claimPage(ctx context.Context, key link.Key) (free func(), err error) {
	for {
		x.mu.Lock()
		other := x.taking[key]
		if other == nil {
			mine := make(chan struct{})
			if x.taking == nil {
				x.taking = map[link.Key]chan struct{}{}
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

// knowsPage reports whether this agent has the page of link. Then done tells when the page is durable and the heirs can
// name it. If this agent has fetched the page, its finish names it. But that waits until other agents have pages of
// this one, and they may wait for the answer to this call. So the name is shipped alone.
func (x *exports) knowsPage(ctx context.Context, link link.Link, done chan error) (known bool, err error) {
	stopping := false
	err = x.run.Do(ctx, "page", func(time.Time) {
		if stopping = x.run.Stopping(); stopping {
			return
		}
		if known = x.ranges.hasKey(boundary.VersionKey(link)); known {
			x.pagesAgain++
			x.shipping.shipName(link)
			x.receipts.whenFinishesSafe(func(time.Time) { done <- nil })
		}
	})
	if stopping && err == nil {
		err = run.ErrNotRunning
	}
	return known, err
}

// wait returns a function that waits for done. After it, the page with a key is durable.
func (x *exports) wait(ctx context.Context, done chan error, key link.Key, generation uint64) func() error {
	return func() error {
		select {
		case err := <-done:
			if err == nil {
				x.Durable.Add(key, generation)
			}
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-x.run.Ended():
		}
		select {
		case err := <-done:
			return err
		default:
			return run.ErrNotRunning
		}
	}
}

// takePagesBack takes pages that this agent has stored for another one and keeps itself by now.
func (x *exports) takePagesBack(ctx context.Context, pages []link.Link) (err error) {
	var durable []func() error
	for _, page := range pages {
		var wait func() error
		if wait, err = x.takeStored(ctx, page, x.TakePage); err != nil {
			break
		}
		durable = append(durable, wait)
	}
	for _, wait := range durable {
		err = errors.Join(err, wait())
	}
	return err
}

// takeStored takes a stored page with TakePage or takePage.
func (x *exports) takeStored(ctx context.Context, page link.Link, take func(ctx context.Context, from string,
	page link.Link, records io.Reader) (func() error, error)) (durable func() error, err error) {
	at, _ := page.Stored()
	r, err := x.Pages.Read(at)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", crawl.ErrImport, err)
	}
	durable, err = take(ctx, "itself", page, r)
	return durable, errors.Join(err, r.Close())
}

// exportCounts returns the counts of pages on their way, or nil if pages do not move.
func (x *exports) exportCounts() *report.Boundary {
	if x.PageBox == nil {
		return nil
	}
	return &report.Boundary{Waiting: x.Pages.Waiting(), Taken: x.pages, Again: x.pagesAgain,
		Damaged: x.pagesDamaged, Refused: x.pagesRefused, From: x.pagesFrom()}
}

// categories returns the categories of this agent without counts.
func (x *exports) categories() (list []report.Category) {
	if x.Boundary == nil {
		return nil
	}
	for _, name := range x.Boundary.Categories() {
		list = append(list, report.Category{Name: name, Here: true})
	}
	return list
}
