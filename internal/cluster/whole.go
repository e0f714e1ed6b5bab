package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/report"
)

// After a restart, for hosts that get another heir, and for an heir that has lost its replica, the
// agent ships all that the journal says about the hosts again. It reads the journal's files while
// the crawl continues. It ships the pending links first. When the heirs have them, and the links of
// all pages finished before are safe, it ships the keys of all other URLs as finishes. The journal does
// not have the text of these URLs. So the agent ships those that its archive has at the end; see Names. After a
// restart it ships them before the keys: no agent may have the names of the last pages before it. Otherwise the
// loss of this machine in between would lose pages that the heirs take for finished and cannot name.
// New records are shipped meanwhile as always. Old and new records may arrive in any order: a finished
// link stays finished. If the view changes before the end, the agent begins again.
//
// The previous heir keeps its replica. If the owner dies, the previous heir sends the links on to
// the next owner, and tells it the finished URLs when asked.

// whole is the state of shipping the whole state of own hosts to their heirs.
type whole struct {
	last    Heirs           // the heirs that have the whole state; nil: none
	lacking bool            // the heirs lack the state of an earlier run: no finish may be shipped, see epoch
	unnamed bool            // the heirs may lack names of pages of an earlier run
	anew    map[string]bool // agents that need the whole state again
	reading bool            // a telling is in progress
	untold  bool            // records had no heir: the next heirs need the whole state
	nth     uint64          // number of the telling; records of earlier ones do not count
	out     int64           // records of it that heirs must still get
	records int64
}

var (
	errOldView = errors.New("the view has changed")
	errOver    = errors.New("the crawl is over")
)

const (
	// tellBytes is the number of bytes queued in one turn of the dispatcher. tellAhead bounds the
	// queued records.
	tellBytes = 64 << 10
	tellAhead = 20_000
	tellWait  = 10 * time.Millisecond
)

// tellWhole starts to ship the whole state if an heir needs it.
func (s *shipping) tellWhole(work context.Context) {
	w := &s.whole
	untold := w.untold && s.heirs.Heir(0) != ""
	switch {
	case w.reading: // the earlier telling ends soon if it has the wrong heirs
		return
	case w.last == nil && !w.lacking && !untold: // the crawl began with these heirs
		w.last = s.heirs
		return
	case w.last == s.heirs && len(w.anew) == 0 && !untold:
		return
	}
	files, err := s.loop.Ledger.Transfer()
	if s.run.Fail(err); files == nil {
		return
	}
	w.reading, w.out, w.records = true, 0, 0
	w.nth++
	if untold {
		// The heirs may be the same as before. But they lack what this agent accepted while it had
		// no heir.
		w.last, w.untold = nil, false
	}
	t := telling{
		ship: s, files: files, nth: w.nth, before: w.last, heirs: s.heirs, anew: w.anew, old: w.unnamed,
		last: s.begun(), began: s.loop.Config.Clock.Now(),
	}
	w.anew = map[string]bool{}
	s.run.Go(func() {
		err := t.run(work)
		s.run.Tell(func(now time.Time) { s.toldWhole(&t, err, now) })
	})
}

// toldWhole processes the end of a telling.
func (s *shipping) toldWhole(t *telling, err error, now time.Time) {
	w := &s.whole
	w.reading = false
	switch {
	case err == nil && t.nth == w.nth:
		w.last = t.heirs
		if t.heirs.Heir(0) == "" {
			return // there is no second copy: the next loss loses all
		}
		s.loop.Events.Write("shipped-whole", report.F("records", w.records),
			report.F("took_ms", now.Sub(t.began).Milliseconds()))
		return
	case err != nil && !errors.Is(err, errOldView) && !errors.Is(err, errOver):
		s.run.Fail(fmt.Errorf("ship anew: %w", err))
	}
	for agent := range t.anew { // they still need it
		w.anew[agent] = true
	}
	w.untold = w.untold || t.before == nil
}

// have reports whether these are the present heirs, and have all that this agent knows.
func (s *shipping) have(heirs Heirs) bool {
	w := &s.whole
	return s.Copies != nil && heirs != nil && heirs == s.Placement.Heirs() && heirs.Heir(0) != "" && heirs == w.last &&
		!w.reading && !w.untold && len(w.anew) == 0 && s.copying() == 0
}

// toldPending records that the heirs have all pending links.
func (s *shipping) toldPending() {
	if s.whole.lacking {
		s.whole.lacking = false
		s.epochs[0].copies-- // beginCopies has counted the earlier run there
	}
}

// A telling reads the journal and queues the whole state for the heirs.
type telling struct {
	ship   *shipping
	files  *ledger.Transfer
	nth    uint64
	before Heirs // the heirs that had the whole state before
	heirs  Heirs
	anew   map[string]bool
	old    bool   // the heirs may lack names of pages of an earlier run: names come before keys
	last   uint64 // the last epoch with records in the files
	began  time.Time

	arena []byte
	ends  []int
	hosts []uint64
}

// wanted reports whether an heir needs the state of a host.
func (t *telling) wanted(host uint64) bool {
	heir := t.heirs.Heir(host)
	return heir != "" && (t.before == nil || t.anew[heir] || t.before.Heir(host) != heir)
}

func (t *telling) run(ctx context.Context) error {
	err := errors.Join(t.tell(ctx), t.files.Close())
	t.ship.run.Tell(func(time.Time) { t.files.Release() }) // names need not delay a checkpoint
	if err == nil && !t.old {
		err = t.names(ctx)
	}
	if err != nil {
		return err
	}
	return t.await(ctx, arrived)
}

// arrived reports that the heirs have all records of the telling so far.
func arrived(s *shipping) bool { return s.whole.out == 0 }

// tell ships what the journal says.
func (t *telling) tell(ctx context.Context) error {
	r := reading{files: t.files, wanted: t.wanted,
		put: func(r *handoff.Record, host uint64) error { return t.put(ctx, r, host) }}
	if err := r.pending(t.began); err != nil {
		return err
	}
	if err := t.flush(ctx); err != nil {
		return err
	}
	if err := t.await(ctx, arrived); err != nil {
		return err
	}
	if err := t.do(ctx, t.ship.toldPending); err != nil {
		return err
	}
	if t.old {
		if err := t.oldNames(ctx); err != nil {
			return err
		}
	}
	// No finish is shipped before the links of its page are safe and the page is with its agent, as in turn.
	if err := t.await(ctx, func(s *shipping) bool { return s.arrived >= t.last }); err != nil {
		return err
	}
	// The counts come before the keys: an heir that gets only a part must not fetch too many pages.
	var counts []byte
	if err := t.do(ctx, func() { counts = t.ship.counts.allPages(t.wanted) }); err != nil {
		return err
	}
	if err := putAll(counts, r.put); err != nil {
		return err
	}
	if err := r.finished(); err != nil {
		return err
	}
	return t.flush(ctx)
}

// oldNames ships the names, and waits until the heirs have them.
func (t *telling) oldNames(ctx context.Context) error {
	if err := t.names(ctx); err != nil {
		return err
	}
	if err := t.await(ctx, arrived); err != nil {
		return err
	}
	return t.do(ctx, func() { t.ship.whole.unnamed = false })
}

// put collects a record.
func (t *telling) put(ctx context.Context, r *handoff.Record, host uint64) error {
	t.arena = r.AppendTo(t.arena)
	t.ends, t.hosts = append(t.ends, len(t.arena)), append(t.hosts, host)
	if len(t.arena) < tellBytes {
		return nil
	}
	return t.flush(ctx)
}

// flush queues the collected records, and waits until there is space for more.
func (t *telling) flush(ctx context.Context) error {
	err := t.do(ctx, func() {
		s, from := t.ship, 0
		w := &s.whole
		for i, end := range t.ends {
			if !s.run.Failed() {
				w.out++
				w.records++
				s.run.Fail(s.ship(w.nth<<countBits|countsWhole, t.hosts[i], t.arena[from:end]))
			}
			from = end
		}
	})
	t.arena, t.ends, t.hosts = t.arena[:0], t.ends[:0], t.hosts[:0]
	if err != nil {
		return err
	}
	return t.await(ctx, func(*shipping) bool { return t.ship.Copies.Out.Len() < tellAhead })
}

// do lets the dispatcher call f, if the view is still the same.
func (t *telling) do(ctx context.Context, f func()) error {
	result := make(chan error, 1)
	if !t.ship.run.Tell(func(time.Time) {
		if t.nth != t.ship.whole.nth {
			result <- errOldView
			return
		}
		f()
		result <- nil
	}) || ctx.Err() != nil {
		return errOver
	}
	return <-result
}

// await waits until yes returns true on the dispatcher.
func (t *telling) await(ctx context.Context, yes func(*shipping) bool) error {
	for {
		done := false
		if err := t.do(ctx, func() { done = yes(t.ship) }); err != nil || done {
			return err
		}
		if !clock.Pause(ctx, tellWait) {
			return errOver
		}
	}
}
