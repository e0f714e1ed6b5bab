package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/cluster/known"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Others are the parts that an agent of a cluster needs in addition.
type Others struct {
	Placement Placement
	Exchange  Exchange
	Outbox    *outbox.Outbox
	Durable   *known.Durable     // nil: no agent asks which URLs this one has
	Copies    *Copies            // nil: replication is off
	Contents  Contents           // nil: contents are not compared with those of other agents
	Boundary  boundary.Division  // nil: pages and links are divided by their hosts alone
	Pages     boundary.PageStore // has the pages for other agents; nil without Boundary
	// PageBox holds the pages for other agents. It is apart from Outbox, because an agent acknowledges a page when
	// the page's links have arrived: links must not wait behind pages. Nil: an agent keeps the pages that it has
	// fetched.
	PageBox *outbox.Outbox
	// Kept and KeptPages hold the links and pages that other agents have, until these agents' saved states have them.
	// Nil: states are not saved.
	Kept, KeptPages *outbox.Kept
	Names           Names             // nil: it is not known what archives have
	Counter         uint64            // of this agent: handoff.Source.Counter
	Leases          Leases            // nil: no leases; otherwise the Frontier's Config has them, too
	Archives        boundary.Archives // nil: other agents are not asked what their archives have
	Coordinators    Coordinators      // nil: no coordinators assign hosts
	End             End               // nil: the agents do not end together, and applications collect no pages
}

// base is what all parts of a Clustered work with.
type base struct {
	Others
	loop *crawl.Loop
	run  *run.Run // of loop
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

// byPages reports that every agent may crawl any host.
func (b *base) byPages() bool { return b.Boundary != nil && b.Boundary.ByPages() }

// owns reports whether this agent crawls a host.
func (b *base) owns(host string) bool {
	_, mine := b.Placement.Owner(host)
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

// Clustered is the Cluster of an agent that crawls together with others. Each of its parts uses those before it
// alone. It implements crawl.Moves, crawl.Owners, crawl.Turns, ledger.Cluster and ledger.Participant.
type Clustered struct {
	*base
	ranges   *ranges           // keys in the seen-set
	counts   *pageCounts       // pages of hosts
	shipping *shipping         // records for heirs
	receipts *receipts         // what waits for a sync, or for heirs
	links    *links            // links on their way
	tenants  *tenants          // hosts that move
	recalls  *recalls          // a strategy's questions
	exports  *boundary.Exports // pages for other agents
	contents *sameContents     // pages with the content of others
	leaving  *leaving          // how this agent leaves
	Permits  *Permits          // of visits

	ration      ration
	pagesBefore int64   // of earlier runs
	rested      *uint64 // the activity when no work was left here; nil: never
}

// New returns the Cluster of an agent with these parts.
func New(others Others) *Clustered {
	b := &base{Others: others}
	r := &ranges{base: b, handed: map[uint64]handed{}}
	n := &pageCounts{base: b, of: map[string][]pageCount{}}
	s := &shipping{base: b, counts: n}
	d := &receipts{base: b, ranges: r, shipping: s}
	l := &links{base: b, shipping: s, receipts: d}
	t := newTenants(b, r, n, s, d, l)
	return &Clustered{base: b, ranges: r, counts: n, shipping: s, receipts: d, links: l, tenants: t,
		exports: &boundary.Exports{ExportParts: boundary.ExportParts{Division: others.Boundary, Pages: others.Pages,
			Box: others.PageBox, Kept: others.KeptPages, Peers: others.Exchange,
			Durable: others.Durable, Archives: others.Archives, Keys: r, Links: l,
			Heirs: struct {
				*shipping
				*receipts
			}{s, d}}},
		recalls: &recalls{base: b, ranges: r, tenants: t, open: map[link.Key]*question{}, asking: map[turn]bool{},
			stale: true},
		contents: &sameContents{base: b, shipping: s, receipts: d},
		leaving:  &leaving{base: b, counts: n, receipts: d, links: l, tenants: t},
		Permits:  &Permits{base: b}}
}

// Join returns what this agent's crawl loop asks the cluster.
func (cl *Clustered) Join() crawl.Cluster {
	c := crawl.Cluster{Owners: cl, Turns: cl, Moves: cl}
	if cl.Archives != nil {
		c.Sharing = cl.exports
	}
	if cl.Contents != nil {
		c.Contents = cl.contents
	}
	if cl.Boundary != nil {
		c.Boundary = cl.exports
	}
	return c
}

var _ interface {
	ledger.Cluster
	ledger.Sealer
	ledger.Syncer
} = (*Clustered)(nil)

func (cl *Clustered) Bind(loop *crawl.Loop) []crawl.Obstacle {
	cl.loop, cl.run, cl.exports.Loop = loop, loop.Run, loop
	loop.Ledger.Join(cl)
	return []crawl.Obstacle{lostHosts{&cl.Others}, spentShare{loop, &cl.ration}}
}

func (cl *Clustered) Owner(host string) (agent string, mine bool) {
	return cl.Placement.Owner(host)
}

func (cl *Clustered) Peek(host string) (agent string, mine bool) {
	if cl.Coordinators != nil {
		return cl.Coordinators.Peek(host)
	}
	return cl.Placement.Owner(host)
}

func (cl *Clustered) PagesElsewhere(host string) int64 { return cl.counts.elsewhere(host) }

func (cl *Clustered) Keys() ledger.Keys { return cl.ranges.keys() }

func (cl *Clustered) Prepare() { cl.ranges.flush() }

func (cl *Clustered) MayVisit(t *frontier.Task, now time.Time) bool {
	return cl.tenants.mayVisit(t, now)
}

func (cl *Clustered) SendAway(w frontier.Waiting) (sent bool, err error) {
	return cl.tenants.sendAway(w)
}

func (cl *Clustered) Carry(l link.Link, take func() ([]byte, error)) (taken bool, err error) {
	return cl.tenants.carry(l, take)
}

func (cl *Clustered) Recall(l link.Link) (taken bool) { return cl.recalls.ask(l) }

func (cl *Clustered) Permit(host string) *visit.Permit { return cl.Permits.of(host) }

// Leave starts to hand all hosts to other agents. The run ends when that is done, at the latest after within. The
// applications have the time collect to collect the pages of this agent. The caller must remove this agent from the
// view of the Placement. Leave returns when the handoff has started. The error is run.ErrNotRunning if the run has
// ended or stops. Safe for concurrent use while Run runs.
func (cl *Clustered) Leave(ctx context.Context, within, collect time.Duration) error {
	return cl.leaving.begin(ctx, within, collect)
}

// Stay cancels Leave. Hosts already handed over stay with the other agents; this agent
// continues with those that the Placement leaves it. It reports whether this agent was leaving.
// Safe for concurrent use while Run runs.
func (cl *Clustered) Stay(ctx context.Context) (was bool, err error) { return cl.leaving.cancel(ctx) }

// Receive accepts links from another agent. It returns when they are as durable as links that
// this agent finds: in the synced journal (see Config.AckWritten), or in the files in which
// the seen-set holds links back. Receive counts links out of scope and drops them. It passes
// on links that a third agent owns; hops is how often they were passed on before. Safe for
// concurrent use, also before Run. It blocks until the dispatcher has accepted the links or
// ctx is done. After an error, the caller does not know which links were accepted, and may
// send the same links again.
func (cl *Clustered) Receive(ctx context.Context, links []link.Link, hops int) error {
	return cl.links.fromAgent(ctx, links, hops)
}

// Refetch accepts links of this agent that fetch pages again, as Receive does. If every agent may crawl any host, each
// goes to the agent where a seed of its host begins, so that several agents do not fetch the same page.
func (cl *Clustered) Refetch(ctx context.Context, links []link.Link) error {
	return cl.links.again(ctx, links)
}

// Seal implements ledger.Sealer. The records for heirs belong to the open epoch, which Committed closes.
func (cl *Clustered) Seal(b *ledger.Batch) error {
	if err := b.EachAccept(cl.accepted); err != nil {
		return err
	}
	b.EachFinish(cl.finished)
	for _, st := range b.Hosts() {
		delete(cl.tenants.given, link.HostKey(st.Host)) // tell the host's next owner
		cl.shipping.copyClock(st, cl.loop.Config.Clock.Now())
	}
	return nil
}

// accepted puts an accepted link on its way: to the heir of its host, or to the agent that crawls it.
func (cl *Clustered) accepted(kind byte, number uint64, enc []byte) error {
	l, _, err := link.Peek(enc)
	if err != nil {
		return fmt.Errorf("accepted link: %w", err)
	}
	if kind == state.Accept {
		cl.receipts.found(l.Key())
		cl.shipping.CopyAccept(number, link.HostKey(l.URL.Host()), enc)
		return nil
	}
	if _, page := l.Stored(); page && cl.PageBox != nil {
		return cl.exports.Depart(number, l, enc)
	}
	cl.shipping.countOutgoing()
	return cl.links.post(number, l, 0, enc)
}

// finished notes the finish of a URL for other agents.
func (cl *Clustered) finished(f *state.Finish) {
	switch {
	case f.Imported():
		cl.shipping.copyName(f)
	default:
		if !f.IsRobots() {
			cl.ranges.noteDone(f.Link.Key())
			cl.tenants.newlyDone(link.HostKey(f.Link.URL.Host()))
			cl.recalls.finishedHere(f.Link.Key())
			cl.receipts.noteKept(f)
		}
		cl.shipping.copyFinish(f)
	}
	if f.First != nil {
		cl.contents.archived(f.Body, *f.First)
	}
}

func (cl *Clustered) Committed() {
	cl.shipping.copyCommitted()
	cl.receipts.committed()
}

func (cl *Clustered) Syncing() (durable func()) {
	synced, forgetPages := cl.receipts.beginSync(), cl.exports.Forget()
	return func() {
		forgetPages()
		synced()
	}
}

func (cl *Clustered) Lost() { cl.receipts.forget() }

func (cl *Clustered) Kinds() []ledger.Kind {
	return []ledger.Kind{
		{Kind: state.Absent, Name: "absent"},
		{Kind: state.Handed, Name: "handed"},
		{Kind: state.HostPages, Name: "pages of a host"},
	}
}

func (cl *Clustered) Save(put func(kind byte, p []byte) error, _ time.Time) error {
	if err := cl.ranges.putHanded(put); err != nil {
		return err
	}
	if err := cl.counts.put(put); err != nil {
		return err
	}
	return cl.tenants.put(put)
}

func (cl *Clustered) Load(kind byte, p []byte) error {
	switch kind {
	case state.Handed:
		host, h, err := decodeHanded(p)
		if err == nil {
			cl.ranges.handed[host] = h
		}
		return err
	case state.HostPages:
		host, c, err := decodePages(p)
		if err == nil {
			cl.counts.count(host, c)
		}
		return err
	}
	host, l, err := state.DecodeList(p)
	if err == nil {
		cl.tenants.absent(host, func(s *keyset.Paths) { s.Add(l) })
	}
	return err
}

// Pending implements ledger.Cluster. A link of another agent waits to be sent again. A link of this agent goes to the
// new owner if its host was handed over later, and to the agent that has finished it, which drops it.
func (cl *Clustered) Pending(number uint64, l link.Link, enc []byte, outgoing bool) (mine, again bool, err error) {
	if outgoing {
		page, whole, err := cl.exports.Requeue(number, enc)
		if page || err != nil {
			return page && !whole, page && !whole, err
		}
		return false, false, cl.Outbox.PushLoose(number, enc)
	}
	k := l.Key()
	h, handed := cl.ranges.handed[k.Host]
	e := cl.tenants.elsewhere[k.Host]
	if handed && number <= h.last || e != nil && e.Has(keyset.WholeKey, k.Path) {
		// PushLoose does not send: the link leaves when it is routed after the replay.
		return false, false, cl.Outbox.PushLoose(number, l.AppendTo(nil))
	}
	return true, false, nil
}

func (cl *Clustered) Recovered() {
	cl.pagesBefore = cl.loop.Tally.Pages()
	cl.tenants.before = cl.loop.Ledger.Accepted()
	cl.shipping.beginCopies()
}

func (cl *Clustered) Tick(work context.Context, now time.Time) (wake time.Time) {
	if cl.run.Halted() && cl.shipping.lingering.IsZero() || cl.run.Failed() {
		return time.Time{}
	}
	cl.links.begin()
	if wake = cl.links.routeSome(now); cl.run.Failed() {
		return time.Time{}
	}
	wake = run.Earlier(wake, cl.recalls.askStates(work, now, cl.resting))
	wake = run.Earlier(wake, cl.leaving.goOn(work, now, cl.settled))
	wake = run.Earlier(wake, cl.tenants.settleIn(work, now))
	wake = run.Earlier(wake, cl.exports.Send(work, now))
	return run.Earlier(wake, cl.links.send(work, now))
}

func (cl *Clustered) Deliver(work context.Context, now time.Time) (wake time.Time) {
	if cl.receipts.deliver(now) {
		wake = now
	}
	if work.Err() != nil { // the run is over
		return wake
	}
	return run.Earlier(wake, cl.shipping.shipOut(work, now))
}

func (cl *Clustered) Outgoing() int64 { return cl.outgoing() }

func (cl *Clustered) Status(now time.Time) crawl.ClusterStatus {
	waits := ""
	if cl.Coordinators != nil {
		waits = cl.Coordinators.Waits()
	}
	if cl.Others.End != nil && waits == "" {
		waits = cl.Others.End.Unclaimed()
	}
	return crawl.ClusterStatus{Waits: waits, Leaving: cl.leaving.waitsFor(now), Outgoing: cl.Outgoing(),
		Received: cl.links.received, Copying: cl.shipping.copying(),
		CopyLagS: cl.shipping.lag(now).Seconds(), Leases: cl.Permits.counts(cl.pagesBefore), Moves: cl.tenants.moves(),
		Contents: cl.contents.counts(), Boundary: cl.exports.Counts(), Categories: cl.exports.Categories()}
}

// TellShipped writes the event about what was shipped to heirs. It reports whether this agent has left, and the heirs
// have all that it knows. Call it after the run.
func (cl *Clustered) TellShipped() (left bool) {
	cl.shipping.tellCopies()
	return cl.shipping.have(cl.leaving.state.told)
}

// Settle is told which states of the other agents are saved. It ends the links and pages that these states have, and
// sends those again that an agent has lost. Only the dispatcher calls it, before this agent's own state is saved: what
// it leaves is listed there.
func (cl *Clustered) Settle(saved map[string]outbox.Saved) error {
	if cl.Kept == nil {
		return nil
	}
	before := cl.Outgoing()
	err := errors.Join(cl.links.settle(saved), cl.exports.Settle(saved))
	if cl.Outgoing() != before { // else a state that is saved every few seconds would look like work
		cl.run.Stir()
	}
	return err
}

// CountKept counts the links as sent that other agents have and that this agent's state lists. Call it after the run.
func (cl *Clustered) CountKept() { cl.loop.Tally.Sent(cl.Kept.Len() + cl.KeptPages.Len()) }

// ViewChanged tells the Crawler that the answers of the Placement may have changed. It returns when
// the dispatcher knows, or when the run has ended. Safe for concurrent use.
func (cl *Clustered) ViewChanged() {
	cl.run.Tell(func(time.Time) {
		if cl.Outgoing() > 0 {
			cl.run.Stir()
		}
		cl.Outbox.Changed()
		cl.exports.Changed()
		cl.receipts.forget()
		cl.shipping.newHeirs()
		cl.tenants.resettle()
		cl.recalls.stale = cl.loop.Sharer != nil
		cl.loop.Frontier.ReviewAside()
	})
}

// Assigned tells the Crawler that the owners of hosts may be known now, and were not before. It costs as
// much as the links that wait for the owners. If a host gets another owner, call ViewChanged.
// Otherwise Assigned is like ViewChanged.
func (cl *Clustered) Assigned(hosts ...string) {
	cl.run.Tell(func(time.Time) {
		cl.run.Stir()
		for _, host := range hosts {
			cl.Outbox.Assigned(link.HostKey(host))
			if cl.tenants.held[host] != nil {
				cl.tenants.unhold(host)
			}
		}
		cl.tenants.blocks = cl.tenants.blocks || len(cl.loop.Gate.BlockedHosts()) > 0
		cl.recalls.stale = cl.loop.Sharer != nil
	})
}

// Unanswered tells the Crawler that Assigned was not called for some hosts whose owner is not known, and that the
// Placement is to be asked for them again. Otherwise it is like ViewChanged. It costs as much as all links that wait
// for an owner.
func (cl *Clustered) Unanswered() {
	cl.run.Tell(func(time.Time) {
		cl.run.Stir()
		cl.Outbox.Changed()
		for host, w := range cl.tenants.held {
			if len(w.open) == 0 { // nobody is asked
				cl.tenants.unhold(host)
			}
		}
		cl.tenants.blocks = true
	})
}
