package cluster

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Others are the parts that an agent of a cluster needs in addition.
type Others struct {
	Peers    Peers
	Outbox   *outbox.Outbox
	Durable  *Durable // nil: no agent asks which URLs this one has
	Copies   *Copies  // nil: replication is off
	Contents Contents // nil: contents are not compared with those of other agents
	Boundary Boundary // nil: pages and links are divided by their hosts alone
	// PageBox holds the pages for other agents. It is apart from Outbox, because an agent acknowledges a page when
	// the page's links have arrived: links must not wait behind pages. Nil: an agent keeps the pages that it has
	// fetched.
	PageBox *outbox.Outbox
	Names   Names  // nil: it is not known what archives have
	Counter uint64 // of this agent: handoff.Source.Counter
	Leases  Leases // nil: no leases; otherwise the Frontier's Config has them, too
	// Captures returns what another agent's archive has of a URL, see visit.Sharing. Nil: no agent is asked. Safe for
	// concurrent use.
	Captures func(ctx context.Context, u weburl.URL) (r io.ReadCloser, agent string, err error)
	// Right reports whether visits may begin now. Nil: always. If it no longer does, call Clustered.CutAll, and
	// Clustered.Resume when it does again. Safe for concurrent use.
	Right func(now time.Time) bool
	// PeekOwner is the Placement's Owner for a question that must not have consequences: if the owner is not known,
	// nobody is asked for it. Nil: Owner itself. Safe for concurrent use.
	PeekOwner func(host string) (agent string, mine bool)
	// WaitsFor says in words what this agent waits for; "": nothing. Nil: it is not known. Safe for concurrent use.
	WaitsFor func() string
	// Uncollected says in words which pages applications have still to collect from this agent; "": none. Nil: there
	// are none. Safe for concurrent use.
	Uncollected func() string
	// TellLeft tells the other agents that this one leaves for good with its archive. It returns nil if that is durable
	// at each of them. Nil: no agent needs to know. Safe for concurrent use; ctx bounds the wait.
	TellLeft func(ctx context.Context) error
	// Ending reports that this agent has agreed to end the crawl together with the others. Nil:
	// never. Safe for concurrent use.
	Ending func() bool
}

// base is what all parts of a Clustered work with.
type base struct {
	Others
	loop *crawl.Loop
	run  *run.Run // of loop
}

// Clustered is the Cluster of an agent that crawls together with others.
type Clustered struct {
	*base
	ranges   *ranges
	counts   *pageCounts
	remote   remote
	shipping *shipping
	tenants  tenants
	permits  permits
	recalls  recalls
	exports  exports
	fresh    []link.Key // accepted since the last sync; see found
}

// New returns the Cluster of an agent with these parts.
func New(others Others) *Clustered {
	b := &base{Others: others}
	cl := &Clustered{base: b, ranges: &ranges{base: b, handed: map[uint64]handed{}},
		counts: &pageCounts{base: b, of: map[string][]pageCount{}}}
	cl.shipping = &shipping{base: b, counts: cl.counts}
	cl.recalls = recalls{open: map[link.Key]*question{}, asking: map[turn]bool{}, stale: true}
	cl.tenants.init()
	cl.tenants.blocks = true // an earlier run may have left blocked hosts
	return cl
}

// Join returns what this agent's crawl loop asks the cluster.
func (cl *Clustered) Join() crawl.Cluster {
	c := crawl.Cluster{Owners: cl, Turns: cl, Links: cl, Records: cl, Moves: cl, Sharing: cl}
	if cl.Contents != nil {
		c.Contents = cl
	}
	if cl.Boundary != nil {
		c.Boundary = cl
	}
	return c
}

// Bind implements crawl.Turns.
func (cl *Clustered) Bind(loop *crawl.Loop) []crawl.Obstacle {
	cl.loop, cl.run = loop, loop.Run
	return []crawl.Obstacle{lostHosts{cl}, spentShare{cl}}
}

func (cl *Clustered) Owner(host string) (agent string, mine bool) {
	return cl.Peers.Owner(host)
}

// Peek implements crawl.Owners.
func (cl *Clustered) Peek(host string) (agent string, mine bool) {
	if cl.PeekOwner != nil {
		return cl.PeekOwner(host)
	}
	return cl.Peers.Owner(host)
}

// PagesElsewhere implements crawl.Owners.
func (cl *Clustered) PagesElsewhere(host string) int64 { return cl.counts.elsewhere(host) }

// Keys implements ledger.Cluster.
func (cl *Clustered) Keys() ledger.Keys { return cl.ranges.keys() }

// Prepare implements ledger.Cluster.
func (cl *Clustered) Prepare() { cl.ranges.flush() }

// Capture implements visit.Sharing.
func (cl *Clustered) Capture(ctx context.Context, u weburl.URL) (r io.ReadCloser, agent string, err error) {
	if cl.Captures == nil {
		return nil, "", nil
	}
	cl.exports.onWay.await(ctx, link.KeyOf(u))
	return cl.Captures(ctx, u)
}

// Spread implements visit.Sharing.
func (cl *Clustered) Spread() bool { return cl.Boundary != nil }

// owns reports whether this agent crawls a host.
func (b *base) owns(host string) bool {
	_, mine := b.Peers.Owner(host)
	return mine
}

func (cl *Clustered) Class(key link.Key, l link.Link) crawl.Class {
	switch {
	case isForeign(key, l):
		return crawl.Outgoing
	case key != cl.ranges.ownKey(l.Key()): // given away meanwhile
		return crawl.Passed
	}
	return crawl.Own
}

func (cl *Clustered) Accepted(class crawl.Class, number uint64, l link.Link, enc []byte) error {
	if class == crawl.Own {
		cl.found(l.Key())
		cl.shipping.copyAccept(number, link.HostKey(l.URL.Host()), enc)
		return nil
	}
	cl.shipping.countOutgoing()
	return cl.post(number, l, 0, enc)
}

// Finished implements ledger.Finisher. Finishes of earlier runs have keys in the seen-set already.
func (cl *Clustered) Finished(f *state.Finish, before bool) {
	if before {
		return
	}
	if f.Imported() {
		cl.shipping.copyName(f)
		return
	}
	if !f.IsRobots() {
		cl.ranges.noteDone(f.Link.Key())
		cl.tenants.newlyDone(link.HostKey(f.Link.URL.Host()))
		cl.finishedHere(f.Link.Key())
		cl.kept(f)
	}
	cl.shipping.copyFinish(f)
}

func (cl *Clustered) Rests(st frontier.HostState, now time.Time) {
	delete(cl.tenants.given, link.HostKey(st.Host)) // tell the host's next owner
	cl.shipping.copyClock(st, now)
}

func (cl *Clustered) Committed(time.Time) {
	cl.shipping.copyCommitted()
	if cl.loop.Config.AckWritten {
		cl.remote.due, cl.remote.unsynced = append(cl.remote.due, cl.remote.unsynced...), nil
	}
}

func (cl *Clustered) Syncing() (durable func()) {
	receipts := slices.Concat(cl.remote.unsynced, cl.freshDurable(), cl.keptDurable())
	epoch := cl.shipping.closed()
	cl.remote.unsynced = nil
	cl.remote.syncing += len(receipts)
	forgetPages := cl.forgetPages()
	return func() {
		forgetPages()
		cl.remote.due = append(cl.remote.due, receipts...)
		cl.remote.syncing -= len(receipts)
		cl.shipping.synced = max(cl.shipping.synced, epoch)
	}
}

// Kinds implements ledger.Participant.
func (cl *Clustered) Kinds() []ledger.Kind {
	return []ledger.Kind{
		{Kind: state.Absent, Name: "absent"},
		{Kind: state.Handed, Name: "handed"},
		{Kind: state.HostPages, Name: "pages of a host"},
	}
}

// Save implements ledger.Participant.
func (cl *Clustered) Save(put func(kind byte, p []byte) error, _ time.Time) error {
	return cmp.Or(cl.ranges.putHanded(put), cl.counts.put(put), cl.tenants.put(put))
}

// Load implements ledger.Participant.
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

// Pending implements crawl.Links. If the host of a link was handed over later, the link goes to the new owner. If the
// link is finished on another agent, it is dropped there.
func (cl *Clustered) Pending(number uint64, l link.Link, enc []byte, outgoing bool) (mine, again bool, err error) {
	if outgoing {
		page, whole, err := cl.requeuePage(number, enc)
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
	cl.remote.pagesBefore = cl.loop.Tally.Pages()
	cl.shipping.beginCopies()
}

func (cl *Clustered) Deliver(work context.Context, now time.Time) (wake time.Time) {
	if cl.sendReceipts(now) {
		wake = now
	}
	if work.Err() != nil { // the run is over
		return wake
	}
	return earlier(wake, cl.shipping.shipOut(work, now))
}

func (cl *Clustered) WantsSync() bool {
	return len(cl.remote.unsynced) > 0 && !cl.loop.Config.AckWritten
}

// Outgoing implements crawl.Links.
func (cl *Clustered) Outgoing() int64 { return cl.Outbox.Len() + cl.pagesOut() }

func (cl *Clustered) Status(now time.Time) crawl.ClusterStatus {
	waits := ""
	if cl.WaitsFor != nil {
		waits = cl.WaitsFor()
	}
	return crawl.ClusterStatus{Waits: waits, Leaving: cl.leavesAfter(now), Outgoing: cl.Outgoing(),
		Received: cl.remote.received, Copying: cl.shipping.copying(),
		CopyLagS: cl.shipping.lag(now).Seconds(), Leases: cl.leaseCounts(), Moves: cl.moves(),
		Contents: cl.contentCounts(), Boundary: cl.exportCounts(), Categories: cl.categories()}
}

// Ended tells what was shipped to heirs. Call it after the run.
func (cl *Clustered) Ended() { cl.shipping.tellCopies() }

// earlier returns the earlier of two times; zero stands for none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
