package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// An agent ships what it journals about its hosts to their heirs: the agents that own the hosts
// when this one is gone (package handoff). So losing a machine and its disk loses no URL.
//
//	accept -> journal -> Out -> durable at the host's heir: safe
//	finish -> journal -> Waiting, until the links of the page are safe -> Out
//
// A link of an own host is safe when the host's heir has it durably. A link that another agent
// crawls is safe when that agent has it. An heir that has a finish takes the page for done. So a
// finish is shipped only when three conditions hold: every link accepted before it is safe, the
// seen-set has answered all links that it held back then, and the page's record in the archive is
// synced. Otherwise a power failure could lose a record of a page that the others take for done. If
// this machine is lost, other agents know each accepted link, or find it again. Only pages whose
// finish was not shipped yet are fetched again.
//
// The accepts and finishes between two writes of the journal form an epoch. An epoch counts what is
// not safe. A finish waits for its epoch and the epochs before it. The agent need not look at
// single links for that, and a slow peer delays only finishes.
//
// The queues do not survive the process. After a restart, and when hosts get new heirs, the agent
// ships all that it knows of the hosts again; see whole.

// A Shipper sends records to heirs, and tells the other agents when there are no more. Safe for concurrent use.
type Shipper interface {
	// Ship sends count concatenated encodings of handoff.Records to an agent. It returns nil when
	// they are durable there. number counts the batches to an agent from 1; a failed batch may
	// come again with its number. The error is ErrNotWhole if the agent lacks the batches before.
	// records is valid until Ship returns.
	Ship(ctx context.Context, agent string, number uint64, records []byte, count int) error
	// TellLeft tells the other agents that this one leaves for good with its archive. It returns nil if that is durable
	// at each of them. ctx bounds the wait.
	TellLeft(ctx context.Context) error
}

// ErrNotWhole reports a batch for a replica that the agent does not have.
var ErrNotWhole = errors.New("the agent lacks the records that were shipped before")

// Copies configures replication: shipping the records of own hosts to their heirs.
type Copies struct {
	Shipper
	// Out holds the records to ship, Waiting the finishes that must not be shipped yet. Only the
	// Crawler uses them.
	Out     *outbox.Outbox
	Waiting *outbox.Queue
}

// SyncEvery is how often an agent with replicas syncs, as a finish is shipped only when it is synced. It is
// also how long records for an heir are gathered after a batch: fewer calls, and fewer syncs at the heir.
const SyncEvery = time.Second / 4

// epochsMax bounds the number of epochs that are not over. At this number, the last one continues
// until an earlier one is over.
const epochsMax = 4096

// arenaMax bounds the memory for staged records that is reused.
const arenaMax = 16 << 20

// The low bits of a record's number say which count it belongs to.
const (
	countsCopy  = iota // accepts of an epoch
	countsEnd          // finishes of an epoch
	countsWhole        // records of a whole state
	countsNothing
	countBits = 2
)

// shipping is the state of replication. The dispatcher owns it.
type shipping struct {
	*base
	counts *pageCounts

	epochs   []epoch // oldest first; the last one is open
	first    uint64  // id of epochs[0]
	safeTo   uint64  // the last epoch that is safe, with all before it
	synced   uint64  // the last epoch whose records are synced, the archive's too
	released uint64  // the last epoch of which, and of all before it, no page's links depend on this machine
	arrived  uint64  // the last epoch whose finishes may be shipped: its pages are with their agents, too

	arena  []byte // records that are not written to the journal yet
	staged []stagedRecord

	heirs Heirs // nil: unknown
	lanes map[string]*shipLane
	whole whole

	lingering time.Time         // until when a stop waits
	heldFiles []keyset.HeldFile // reused memory

	records, octets int64 // shipped
	longest         time.Duration
	sum             time.Duration // of the lags of the epochs that are over
	over            int64         // number of epochs that are over
}

type stagedRecord struct {
	number uint64
	host   uint64
	end    int // offset in arena
}

// A shipLane is the state of shipping to one agent.
type shipLane struct {
	last    uint64        // number of the last batch
	batch   *outbox.Batch // the last batch while it is under way
	failing bool
}

// beginCopies starts replication with the records of an earlier run, whose heirs are not known.
func (s *shipping) beginCopies() {
	if s.Copies == nil {
		return
	}
	s.first, s.lanes, s.whole.anew = 1, map[string]*shipLane{}, map[string]bool{}
	if s.loop.Ledger.Accepted() > 0 {
		s.whole.lacking, s.whole.unnamed = true, true
		s.epochs = append(s.epochs, epoch{from: 1, began: s.loop.Config.Clock.Now(), closed: true,
			away: int(s.Outbox.Len()), pages: int(s.pagesOut()), copies: 1, held: s.lastHeld()})
		s.synced = s.first
	}
	s.epochs = append(s.epochs, epoch{from: s.loop.Ledger.Accepted() + 1})
}

// stage keeps a record until the journal is written.
func (s *shipping) stage(counts int, r *handoff.Record, host uint64) {
	e := s.openEpoch()
	switch counts {
	case countsCopy:
		e.copies++
	case countsEnd:
		e.ends++
	}
	s.arena = r.AppendTo(s.arena)
	s.staged = append(s.staged, stagedRecord{s.now()<<countBits | uint64(counts), host, len(s.arena)})
}

// CopyAccept ships an accept. Number 0 stands for a link that may be known already.
func (s *shipping) CopyAccept(number, host uint64, enc []byte) {
	if s.Copies != nil {
		s.stage(countsCopy, &handoff.Record{Kind: handoff.Accept, Number: number, Link: enc}, host)
	}
}

// copyKnown ships the keys of URLs of a host that are finished already.
func (s *shipping) copyKnown(host uint64, l keyset.List) {
	if s.Copies == nil {
		return
	}
	for part := range slices.Chunk(l.Paths, handoff.MaxPaths) {
		s.stage(countsCopy, &handoff.Record{Kind: handoff.Known, Host: host, Width: uint8(l.Width), Paths: part}, host)
	}
}

// copyFinish ships a finish when that is allowed.
func (s *shipping) copyFinish(f *state.Finish) {
	if s.Copies == nil || f.IsRobots() || f.Number == 0 && len(f.State) == 0 ||
		f.Dropped() && !s.owns(f.Link.URL.Host()) {
		return
	}
	found := f.Link
	found.Via = ""
	r := handoff.Record{Kind: handoff.Finish, Number: f.Number, Link: found.AppendTo(nil)}
	if f.File != "" {
		r.Disposition = handoff.Archived
	}
	if f.IsPage() {
		r.Pages = s.counts.ownPages(found.URL.Host())
	}
	if len(f.State) <= handoff.MaxState {
		r.State = f.State
	}
	s.stage(countsEnd, &r, link.HostKey(found.URL.Host()))
}

// copyState ships a Planner's state that another agent had.
func (s *shipping) copyState(p *planned) {
	if s.Copies != nil {
		r := handoff.Record{Kind: handoff.Finish, Link: p.link.AppendTo(nil), State: p.state}
		s.stage(countsCopy, &r, link.HostKey(p.link.URL.Host()))
	}
}

// copyClock ships how long a host must rest.
func (s *shipping) copyClock(st frontier.HostState, now time.Time) {
	if s.Copies != nil {
		s.stage(countsNothing, clockRecord(st, now), link.HostKey(st.Host))
	}
}

// countOutgoing counts an accepted link that another agent owns.
func (s *shipping) countOutgoing() {
	if s.Copies != nil {
		s.openEpoch().away++
	}
}

// CountPage counts a page that another agent keeps.
func (s *shipping) CountPage() {
	if s.Copies != nil {
		s.openEpoch().pages++
	}
}

// PageArrived marks a page as delivered. CountPage has counted it.
func (s *shipping) PageArrived(number uint64) {
	if i := s.epochOf(number); i >= 0 && s.epochs[i].pages > 0 {
		s.epochs[i].pages--
	}
}

// leavesFor records that another agent must get a link that was accepted as an own one.
func (s *shipping) leavesFor(number uint64) {
	if i := s.epochOf(number); i >= 0 {
		s.epochs[i].away++
	}
}

// arrivedElsewhere marks links as delivered or abandoned. leavesFor or countOutgoing has counted
// each of them.
func (s *shipping) arrivedElsewhere(numbers ...uint64) {
	for _, n := range numbers {
		if i := s.epochOf(n); i >= 0 && s.epochs[i].away > 0 {
			s.epochs[i].away--
		}
	}
}

// intakeSafely is intake for links whose sender will forget them. It ships the links that the
// seen-set holds back as if they were new. That is safe, because a finished link stays finished.
func (s *shipping) intakeSafely(ls *visit.Links) {
	if s.Copies == nil {
		s.loop.Intake(ls)
		return
	}
	ever := s.loop.Seen.Stats().EverHeld
	if s.loop.Intake(ls); s.run.Failed() || s.loop.Seen.Stats().EverHeld == ever {
		return
	}
	ls.EachOwn(func(k link.Key, enc []byte) { s.CopyAccept(0, k.Host, enc) })
}

// copyCommitted queues the records that are now in the journal.
func (s *shipping) copyCommitted() {
	if len(s.epochs) == 0 || s.run.Failed() || s.epochs[len(s.epochs)-1].began.IsZero() {
		return
	}
	from := 0
	for _, r := range s.staged {
		rec := s.arena[from:r.end]
		from = r.end
		var err error
		if r.number&(1<<countBits-1) == countsEnd {
			err = s.Copies.Waiting.Push(r.number, 0, rec)
		} else {
			err = s.ship(r.number, r.host, rec)
		}
		if err != nil {
			s.run.Fail(err)
			return
		}
	}
	if s.staged = s.staged[:0]; cap(s.arena) > arenaMax {
		s.arena = nil
	}
	s.arena = s.arena[:0]
	if len(s.epochs) < epochsMax {
		e := &s.epochs[len(s.epochs)-1]
		e.closed, e.held = true, s.lastHeld()
		s.epochs = append(s.epochs, epoch{from: s.loop.Ledger.Accepted() + 1})
	}
}

// heldFiles is a range of file numbers.
type heldFiles struct{ first, last uint64 }

// held returns the first and the last file in which the seen-set holds links back, or zero.
func (s *shipping) held() (h heldFiles) {
	if !s.loop.Seen.Holds() {
		return h
	}
	s.heldFiles = s.loop.Seen.Held(s.heldFiles[:0])
	for _, f := range s.heldFiles {
		if h.first == 0 || f.Num < h.first {
			h.first = f.Num
		}
		h.last = max(h.last, f.Num)
	}
	if h.last == 0 { // it is in no file yet
		h = heldFiles{math.MaxInt64, math.MaxInt64}
	}
	return h
}

func (s *shipping) lastHeld() uint64 { return s.held().last }

// ship queues a record for its host's heir.
func (s *shipping) ship(number, host uint64, rec []byte) error {
	if s.heirs == nil {
		return s.Copies.Out.PushLoose(number, rec)
	}
	heir := s.heirs.Heir(host)
	if heir == "" {
		s.whole.untold = true
		s.shipped(number)
		return nil
	}
	return s.Copies.Out.Push(heir, number, 0, rec)
}

// shipped records that a record has reached its heir, or that there is no heir.
func (s *shipping) shipped(number uint64) {
	id := number >> countBits
	switch number & (1<<countBits - 1) {
	case countsCopy:
		if e := s.epoch(id); e != nil {
			e.copies--
		}
	case countsEnd:
		if e := s.epoch(id); e != nil {
			e.ends--
		}
	case countsWhole:
		if id == s.whole.nth {
			s.whole.out--
		}
	}
}

// turn releases what has become safe, and forgets the epochs that are over.
func (s *shipping) turn(now time.Time) error {
	s.safeTo, s.released = max(s.safeTo, s.first-1), max(s.released, s.first-1)
	for e := s.epoch(s.safeTo + 1); e != nil && e.closed && e.safe(); e = s.epoch(s.safeTo + 1) {
		s.safeTo++
	}
	for e := s.epoch(s.released + 1); e != nil && e.closed && s.released < s.synced; e = s.epoch(s.released + 1) {
		switch {
		case e.until > 0:
		case e.held == 0:
			e.until = s.released + 1
		default:
			if h := s.held(); h.last == 0 || h.first > e.held {
				e.until = s.now() // its answers are in this epoch or before
			}
		}
		if e.until == 0 || !s.safe(e.until) {
			break
		}
		s.released++
	}
	s.arrived = max(s.arrived, s.first-1)
	for e := s.epoch(s.arrived + 1); e != nil && s.arrived < s.released && e.pages == 0; e = s.epoch(s.arrived + 1) {
		s.arrived++
	}
	over := func(e *epoch) bool { return e.closed && e.safe() && e.pages == 0 && e.ends == 0 }
	for len(s.epochs) > 1 && over(&s.epochs[0]) {
		if b := s.epochs[0].began; !b.IsZero() {
			lag := now.Sub(b)
			s.sum, s.over, s.longest = s.sum+lag, s.over+1, max(s.longest, lag)
		}
		s.epochs = s.epochs[1:]
		s.first++
	}
	for range routeSlice {
		e, more, err := s.releasable()
		if err != nil || !more {
			return err
		}
		host, err := hostOf(e.Link)
		if err == nil {
			err = s.ship(e.Number, host, e.Link)
		}
		if s.Copies.Waiting.Pop(); err != nil {
			return err
		}
	}
	return nil
}

// releasable returns the first finish that waits, if it may be shipped now.
func (s *shipping) releasable() (e outbox.Entry, ok bool, err error) {
	e, ok, err = s.Copies.Waiting.Peek()
	return e, ok && e.Number>>countBits <= s.arrived, err
}

// hostOf returns the host of a record.
func hostOf(rec []byte) (uint64, error) {
	r, _, err := handoff.Decode(rec, nil)
	if err != nil {
		return 0, fmt.Errorf("record to be shipped: %w", err)
	}
	return r.Host, nil
}

// newHeirs processes a change of the view.
func (s *shipping) newHeirs() {
	if s.Copies == nil {
		return
	}
	if heirs := s.Placement.Heirs(); heirs != s.heirs {
		s.heirs = heirs
		s.whole.nth++ // the telling in progress has the wrong heirs
		s.Copies.Out.Changed()
	}
}

// shipOut ships the records that may go. wake is the time of the next work; zero means not before
// an answer arrives.
func (s *shipping) shipOut(work context.Context, now time.Time) (wake time.Time) {
	if s.Copies == nil || s.run.Failed() {
		return time.Time{}
	}
	out := s.Copies.Out
	if s.heirs == nil {
		if s.newHeirs(); s.heirs == nil {
			return time.Time{}
		}
	}
	if s.run.Fail(s.turn(now)) || s.run.Fail(out.Route(routeSlice, s.heirOf)) {
		return time.Time{}
	}
	if _, more, err := s.releasable(); s.run.Fail(err) || more || out.Loose() {
		wake = now
	}
	if s.tellWhole(work); s.run.Failed() {
		return wake
	}
	out.Linger(min(s.Linger(), SyncEvery))
	for {
		b, next, err := out.Next(now, s.heirOf)
		switch {
		case err != nil:
			s.run.Fail(err)
			return wake
		case b == nil:
			return run.Earlier(wake, next)
		}
		l := s.lanes[b.Agent]
		if l == nil {
			l = &shipLane{}
			s.lanes[b.Agent] = l
		}
		if l.batch != b {
			l.last++
			l.batch = b
		}
		number := l.last
		s.run.Go(func() {
			err := s.Copies.Ship(work, b.Agent, number, b.Links, len(b.Numbers))
			s.run.Tell(func(now time.Time) { s.hasShipped(b, l, err, now) })
		})
	}
}

// heirOf returns the destination of a record: its heir.
func (s *shipping) heirOf(number uint64, rec []byte) (outbox.To, error) {
	host, err := hostOf(rec)
	if err != nil {
		return outbox.To{}, err
	}
	if heir := s.heirs.Heir(host); heir != "" {
		return outbox.To{Agent: heir}, nil
	}
	s.whole.untold = true
	s.shipped(number)
	return outbox.To{Way: outbox.Gone}, nil
}

// hasShipped records the result of shipping a batch.
func (s *shipping) hasShipped(b *outbox.Batch, l *shipLane, err error, now time.Time) {
	switch {
	case err == nil:
		for _, n := range b.Numbers {
			s.shipped(n)
		}
		s.records += int64(len(b.Numbers))
		s.octets += int64(len(b.Links))
		if l.batch = nil; l.failing {
			s.loop.Events.Write("ship-again", report.F("agent", b.Agent))
		}
		l.failing = false
	case errors.Is(err, ErrNotWhole):
		l.last, l.batch = 0, nil
		s.whole.anew[b.Agent] = true
		s.whole.nth++
	case !l.failing && !s.run.Stopping():
		l.failing = true
		s.loop.Events.Write("ship-failed", report.F("agent", b.Agent), report.F("records", len(b.Numbers)),
			report.F("error", err))
	}
	s.Copies.Out.Done(b, err == nil, now)
}

// lingerTime bounds how long a stop waits until other agents have this agent's links and finishes,
// because they may soon continue with its hosts.
const lingerTime = 2 * time.Second

// lingers reports whether a stop must wait for that.
func (s *shipping) lingers(now time.Time) bool {
	if s.Copies == nil || s.heirs == nil || s.copying() == 0 {
		return false
	}
	if s.lingering.IsZero() {
		s.lingering = now.Add(lingerTime)
	}
	return now.Before(s.lingering)
}

// copying returns the number of records that wait to be sent to heirs.
func (s *shipping) copying() int64 {
	if s.Copies == nil {
		return 0
	}
	return s.Copies.Out.Len() + s.Copies.Waiting.Len() + int64(len(s.staged))
}

// lag returns the age of the oldest epoch that is not safe.
func (s *shipping) lag(now time.Time) time.Duration {
	if len(s.epochs) == 0 || s.epochs[0].began.IsZero() {
		return 0
	}
	return max(now.Sub(s.epochs[0].began), 0)
}

// tellCopies writes the event at the end of a run about what was shipped.
func (s *shipping) tellCopies() {
	if s.Copies == nil || s.over == 0 {
		return
	}
	s.loop.Events.Write("shipped", report.F("records", s.records), report.F("bytes", s.octets),
		report.F("left", s.copying()),
		report.F("lag_ms", (s.sum/time.Duration(s.over)).Milliseconds()),
		report.F("longest_lag_ms", s.longest.Milliseconds()))
}
