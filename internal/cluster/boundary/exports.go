package boundary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/known"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A page that belongs to another agent (X4, a topic-partitioned crawler: paper, section 1) waits like a link of
// another agent's host:
//
//	Export: stored -> B in the journal, with the URL's finish -> Box -> Division.Send -> S in the journal
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

// A Division divides pages by their content: a Pages. Safe for concurrent use.
type Division interface {
	// Sort returns where the page of x, or if links alone travel its links, belong. ok is false if they belong to the
	// agent that has fetched it. text appends the text that a reader of the page sees. main is the main part of it,
	// or empty.
	Sort(x *warc.Exchange, text func([]byte) (prose, main []byte, err error)) (to link.Destination, ok bool, err error)
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

// A PageStore has the pages for other agents: a Store. Safe for concurrent use.
type PageStore interface {
	Write(x *warc.Exchange) (link.Stored, error)
	Hold(at link.Stored) (whole bool, err error)
	Read(at link.Stored) (io.ReadCloser, error)
	Whole(at link.Stored) bool
	Release(pages []link.Stored) error
	Waiting() int64
}

// Heirs are the agents that have what this one knows, in case that this machine is lost.
type Heirs interface {
	// CountPage notes that a page waits for another agent, and PageArrived that it does no more: the finishes of that
	// time name pages that may be on this machine alone.
	CountPage()
	PageArrived(number uint64)
	// CopyAccept ships an accepted link.
	CopyAccept(number, host uint64, enc []byte)
	// ShipName ships the name of a page that the archive has.
	ShipName(l link.Link)
	// WhenFinishesSafe calls then when all finishes so far are durable, and nothing can undo them.
	WhenFinishesSafe(then func(now time.Time))
}

// Peers are the other agents.
type Peers interface {
	// Boot returns the number of an agent's last start; 0 if the agent is gone.
	Boot(agent string) uint64
}

// Keys are the keys of pages in the seen-set.
type Keys interface {
	HasKey(key link.Key) bool
	NotePage(l link.Link)       // this agent has the page
	OwnKey(k link.Key) link.Key // of a URL that this agent crawls
}

// Links are the links for other agents. Pages wait in the same way, in an outbox of their own.
type Links interface {
	// TellPages writes an event when batches of pages to an agent begin to fail, and when one arrives again.
	TellPages(b *outbox.Batch, err error)
	// Linger returns how long links and pages are gathered now.
	Linger() time.Duration
}

// ExportParts are what Exports work with.
type ExportParts struct {
	Loop     *crawl.Loop // nil until the loop has all of its parts
	Division Division    // nil: nothing is divided by contents
	Pages    PageStore   // has the pages for other agents; nil without Division
	// Box holds the pages for other agents. Nil: links alone travel, or nothing.
	Box *outbox.Outbox
	// Kept holds the pages that other agents have, until the saved states of these agents have them. Nil: states are
	// not saved.
	Kept     *outbox.Kept
	Peers    Peers
	Durable  *known.Durable
	Archives Archives // nil: other agents are not asked what their archives have
	Heirs    Heirs
	Keys     Keys
	Links    Links
}

// Archives has what other agents have archived. Safe for concurrent use.
type Archives interface {
	// Capture returns what another agent's archive has of a URL; see visit.Sharing.
	Capture(ctx context.Context, u weburl.URL) (r io.ReadCloser, agent string, err error)
}

// Exports are the pages on their way between agents. They implement visit.Boundary and visit.Sharing. The dispatcher
// owns them; methods that are safe for concurrent use say so.
type Exports struct {
	ExportParts

	pages, pagesAgain int64                       // pages of other agents in this run: taken, and known already
	pagesDamaged      int64                       // pages for others that could not be read, and are fetched again
	pagesRefused      int64                       // pages that other agents refused
	from              map[string]report.PagesFrom // the pages that were taken, by the agents that have sent them

	arrived []link.Stored // other agents have them; the journal's records of that are not synced

	onWay onWay

	mu     sync.Mutex // guards taking
	taking map[link.Key]chan struct{}
}

func (x *Exports) Export(_ context.Context, l link.Link, of *warc.Exchange,
	text func([]byte) (prose, main []byte, err error)) (page link.Link, category string, away bool, err error) {
	to, ok, err := x.Division.Sort(of, text)
	if err != nil || !ok {
		return page, "", false, err
	}
	category = x.Division.Category(to)
	if x.Box == nil { // links alone travel
		l.SetDestination(to)
		return l, category, false, nil
	}
	if _, mine := x.Division.Keeper(to); mine {
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

// Depart queues a page that Export has stored. The batch with its accept has the finish of its URL, too.
func (x *Exports) Depart(number uint64, page link.Link, enc []byte) error {
	x.Heirs.CountPage()
	x.onWay.begins(link.KeyOf(page.URL))
	to, err := x.wayOfPage(number, enc)
	if err != nil || to.Way == outbox.Wait {
		return errors.Join(err, x.Box.PushLoose(number, enc))
	}
	return x.Box.Push(to.Agent, number, 0, enc)
}

// wayOfPage returns the destination of a page in the outbox. A page whose host was dropped was fetched before that.
func (x *Exports) wayOfPage(_ uint64, enc []byte) (to outbox.To, err error) {
	l, _, err := link.Peek(enc)
	d, ok := l.Destination()
	if err != nil || !ok {
		return to, fmt.Errorf("page from the outbox: %w", link.ErrDamaged)
	}
	switch agent, mine := x.Division.Keeper(d); {
	case mine:
		return outbox.To{}, nil
	case agent == "":
		return outbox.To{Way: outbox.Wait}, nil
	default:
		return outbox.To{Agent: agent}, nil
	}
}

// Changed tells that other agents may keep the pages now.
func (x *Exports) Changed() {
	if x.Box != nil {
		x.Box.Changed()
	}
}

// routeSlice bounds the pages that the dispatcher routes in one turn.
const routeSlice = 256

// Send sends pages to other agents.
func (x *Exports) Send(work context.Context, now time.Time) (wake time.Time) {
	if x.Box == nil || x.Loop.Run.Fail(x.Box.Route(routeSlice, x.wayOfPage)) {
		return time.Time{}
	}
	x.Box.Linger(x.Links.Linger())
	if x.Box.Loose() {
		wake = now
	}
	for !x.Loop.Run.Failed() {
		b, next, err := x.Box.Next(now, x.wayOfPage)
		if x.Loop.Run.Fail(err) {
			return wake
		}
		if b == nil {
			return run.Earlier(wake, next)
		}
		pages, err := pagesOf(b)
		if x.Loop.Run.Fail(err) {
			return wake
		}
		boot := x.Peers.Boot(b.Agent)
		x.Loop.Run.Go(func() {
			results := x.deliver(work, b.Agent, pages)
			x.Loop.Run.Tell(func(now time.Time) { x.pagesSent(b, boot, pages, results, now) })
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

// Results of sending a page, besides those of Division.Send.
var (
	errPageDamaged = errors.New("the stored page cannot be read")
	errPageRefused = errors.New("the agent where the page belongs refuses it")
)

// deliver sends pages to the agent that keeps them, or takes them if that is this one by now. It returns a result for
// each page: nil if the page is durable at an agent.
func (x *Exports) deliver(work context.Context, agent string, pages []link.Link) []error {
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

func (x *Exports) deliverTo(work context.Context, agent string, pages []link.Link) error {
	if agent == "" {
		return x.takePagesBack(work, pages)
	}
	return x.Division.Send(work, agent, pages)
}

// deliverOne is deliver for one page of a batch that was refused. If the agent refuses a page that is whole here, this
// agent keeps it. If it cannot read the page either, nobody keeps it.
func (x *Exports) deliverOne(work context.Context, agent string, page link.Link) error {
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
	x.Loop.Events.Write("page-not-taken", report.F("url", page.URL.String()), report.F("agent", agent),
		report.F("kept", kept == nil), report.F("error", err.Error()))
	return errPageRefused
}

// awaits reports whether a page with this result is sent again.
func awaits(err error) bool {
	return err != nil && !errors.Is(err, errPageDamaged) && !errors.Is(err, errPageRefused)
}

// pagesSent records the results of sending a batch of pages to an agent, whose start before the sending had the number
// boot.
func (x *Exports) pagesSent(b *outbox.Batch, boot uint64, pages []link.Link, results []error, now time.Time) {
	x.Loop.Run.Stir()
	first := slices.IndexFunc(results, awaits)
	if first >= 0 && !slices.ContainsFunc(results, func(err error) bool { return !awaits(err) }) {
		x.Links.TellPages(b, results[first])
		x.Box.Done(b, false, now)
		return
	}
	x.Links.TellPages(b, nil)
	x.Box.Done(b, true, now)
	var sent, stayed []uint64 // numbers of pages at the other agent, and of those that this agent ends itself
	for i, page := range pages {
		at, _ := page.Stored()
		switch err := results[i]; {
		case awaits(err):
			if x.Loop.Run.Fail(x.Box.PushLoose(b.Numbers[i], page.AppendTo(nil))) {
				return
			}
			continue
		case errors.Is(err, errPageDamaged):
			x.pagesDamaged++
			if x.fetchAgain(page); x.Loop.Run.Failed() {
				return
			}
			stayed = append(stayed, b.Numbers[i])
		case errors.Is(err, errPageRefused):
			x.pagesRefused++
			stayed = append(stayed, b.Numbers[i])
		case b.Agent == "":
			stayed = append(stayed, b.Numbers[i])
		case x.Kept != nil:
			if x.Loop.Run.Fail(x.Kept.Add(b.Agent, boot, b.Numbers[i], page.AppendTo(nil))) {
				return
			}
			x.Heirs.PageArrived(b.Numbers[i])
			x.onWay.ends(link.KeyOf(page.URL))
			continue
		default:
			sent = append(sent, b.Numbers[i])
		}
		x.Heirs.PageArrived(b.Numbers[i])
		x.onWay.ends(link.KeyOf(page.URL))
		x.arrived = append(x.arrived, at)
	}
	if len(sent) > 0 {
		x.Loop.Run.Fail(x.Loop.Ledger.EndOutgoing(sent, false))
	}
	if len(stayed) > 0 {
		x.Loop.Run.Fail(x.Loop.Ledger.EndOutgoing(stayed, true))
	}
}

// Settle ends the pages that the saved states of other agents have, and sends those again that an agent has lost.
func (x *Exports) Settle(saved map[string]outbox.Saved) error {
	if x.Kept == nil {
		return nil
	}
	return x.Kept.Settle(saved, func(e outbox.Entry) error {
		page, _, err := link.Decode(e.Link)
		if err != nil {
			return fmt.Errorf("page that was sent: %w", err)
		}
		at, _ := page.Stored()
		x.arrived = append(x.arrived, at)
		return x.Loop.Ledger.EndOutgoing([]uint64{e.Number}, false)
	}, func(e outbox.Entry) error { return x.Box.PushLoose(e.Number, e.Link) })
}

// fetchAgain queues the URL of a stored page that cannot be read. The caller ends the page.
func (x *Exports) fetchAgain(page link.Link) {
	at, _ := page.Stored()
	l := page.AsLink()
	enc := l.AppendTo(nil)
	again := x.Loop.Ledger.AcceptUnlisted(state.Accept, enc)
	x.Heirs.CopyAccept(again, link.HostKey(l.URL.Host()), enc)
	if x.Loop.Run.Fail(x.Loop.Frontier.PushAt([]link.Link{l}, []uint64{again})) {
		return
	}
	x.Loop.Events.Write("page-damaged", report.F("url", l.URL.String()), report.F("file", at.File))
}

func (x *Exports) Direct(seed *link.Link) { Direct(x.Division, seed) }

// Direct says where a seed begins if every agent may crawl any host: a hash of its host tells the agent. A nil Division
// changes nothing.
func Direct(d Division, seed *link.Link) {
	if d != nil && d.ByPages() {
		seed.SetDestination(link.Destination{Hash: link.HostKey(seed.URL.Host())})
	}
}

func (x *Exports) Capture(ctx context.Context, u weburl.URL) (r io.ReadCloser, agent string, err error) {
	x.onWay.await(ctx, link.KeyOf(u))
	return x.Archives.Capture(ctx, u)
}

func (x *Exports) Keeps(to link.Destination) bool {
	_, mine := x.Division.Keeper(to)
	return mine
}

// Forget gives up stored pages that other agents have, when the journal tells so durably.
func (x *Exports) Forget() (durable func()) {
	pages := x.arrived
	if x.arrived = nil; len(pages) == 0 {
		return func() {}
	}
	return func() { x.Loop.Run.Fail(x.Pages.Release(pages)) }
}

// Requeue queues a page of an earlier run. whole is false if a power failure has destroyed the page: then its URL
// must be fetched again.
func (x *Exports) Requeue(number uint64, enc []byte) (page, whole bool, err error) {
	l, _, err := link.Peek(enc)
	at, page := l.Stored()
	if err != nil || !page {
		return false, true, err
	}
	if x.Box == nil {
		return true, false, nil
	}
	at.File = strings.Clone(at.File)
	if whole, err = x.Pages.Hold(at); err == nil && whole {
		err = x.Box.PushLoose(number, enc)
	}
	return true, whole, err
}

// Counts returns the counts of pages on their way, or nil if pages do not move.
func (x *Exports) Counts() *report.Boundary {
	if x.Box == nil {
		return nil
	}
	return &report.Boundary{Waiting: x.Pages.Waiting(), Taken: x.pages, Again: x.pagesAgain,
		Damaged: x.pagesDamaged, Refused: x.pagesRefused, From: x.pagesFrom()}
}

// Categories returns the categories of this agent without counts.
func (x *Exports) Categories() (list []report.Category) {
	if x.Division == nil {
		return nil
	}
	for _, name := range x.Division.Categories() {
		list = append(list, report.Category{Name: name, Here: true})
	}
	return list
}

// pagesFrom returns the counts of took, by agent.
func (x *Exports) pagesFrom() []report.PagesFrom {
	return slices.SortedFunc(maps.Values(x.from), func(a, b report.PagesFrom) int {
		return strings.Compare(a.Agent, b.Agent)
	})
}
