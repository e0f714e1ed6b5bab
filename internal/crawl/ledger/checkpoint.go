package ledger

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A checkpoint replaces the journal by a shorter equivalent: a snapshot with parts. The
// dispatcher writes the small state (counts, hosts, paths) at one instant. The state that
// grows with the crawl is in parts: the keys of all URLs, and the pending links in the order
// in which they were accepted. A goroutine beside the dispatcher makes the parts from the
// files that the checkpoint replaces. It takes over a part of the last snapshot that is still
// good.
//
//	segments: accepts -> keys -> K parts
//	segments: accepts without finishes -> P parts
//	P parts of the snapshot before, of which much is finished -> P parts
//	finishes of what the other P parts hold -> X
//
// So the crawl goes on while its state is written, and the cost of a checkpoint is
// proportional to what has happened since the last one.
type checkpoint struct {
	*journal.Checkpoint
	began time.Time
	bytes int64
	done  chan error // result of the merge; has space, so that sending never blocks

	accepted uint64 // number of accepts before it
	keys     Keys   // from the start of the checkpoint
}

// put appends a record.
func (k *checkpoint) put(kind byte, p []byte) error {
	k.bytes += int64(len(p))
	return k.Append(kind, p)
}

// beginCheckpoint starts a checkpoint. counts decides which finishes of the journal count.
func (l *Ledger) beginCheckpoint(counts verdict) error {
	// The seen-set's files must contain all that the journal has when Begin syncs it.
	if err := cmp.Or(l.sync(), l.run.Err()); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	j, err := l.journal.Begin()
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	k := &checkpoint{Checkpoint: j, began: time.Now(), done: make(chan error, 1), accepted: l.accepted,
		keys: l.Keys().Freeze()}
	now := l.cfg.Clock.Now() // one time for the span and the pauses: the clock may have been set since the last visit
	if err := l.putSmall(k, now); err != nil {
		k.Abandon()
		return fmt.Errorf("checkpoint: %w", err)
	}
	l.checkpoint = k
	go func() {
		err := k.merge(counts, now, &merge{History: state.NewHistory(l.spool(0)), ledger: l})
		if err != nil {
			k.Abandon()
		} else {
			err = k.Finish()
		}
		k.done <- err
	}()
	return nil
}

// ended returns the result of work that sends it to done. With wait it blocks until the work is over.
func ended(done <-chan error, wait bool) (over bool, err error) {
	if wait {
		return true, <-done
	}
	select {
	case err = <-done:
		return true, err
	default:
		return false, nil
	}
}

// Checkpoint begins a checkpoint, unless one is in progress, or a Transfer reads the files that it would replace.
func (l *Ledger) Checkpoint() (begun bool, err error) {
	if err := l.run.Err(); err != nil {
		return false, err
	}
	if l.checkpoint != nil || l.reading {
		return false, nil
	}
	if err := l.endSync(true); err != nil {
		return false, err
	}
	return true, l.beginCheckpoint(all())
}

// endCheckpoint puts the running checkpoint into service if it is ready. With wait it blocks
// until it is. Without a running checkpoint it does nothing.
func (l *Ledger) endCheckpoint(wait bool) error {
	k := l.checkpoint
	if k == nil {
		return nil
	}
	over, err := ended(k.done, wait)
	if !over {
		return nil
	}
	l.checkpoint = nil
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := l.journal.Adopt(k.Checkpoint, nil); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	l.snapSize = k.bytes
	l.events.Write("checkpoint", report.F("bytes", l.snapSize), report.F("took_ms", time.Since(k.began).Milliseconds()))
	return nil
}

// putSmall writes the state that the dispatcher owns.
func (l *Ledger) putSmall(k *checkpoint, now time.Time) error {
	if err := k.put(state.Crawl, state.AppendCrawl(nil, l.id)); err != nil {
		return err
	}
	if l.holding.open {
		if err := k.put(state.Held, l.holding.encode(l.seen)); err != nil {
			return err
		}
	}
	if err := k.put(state.Number, binary.AppendUvarint(nil, l.accepted)); err != nil {
		return err
	}
	for _, p := range l.small {
		if err := p.Save(k.put, now); err != nil {
			return err
		}
	}
	return nil
}

// merge writes the other state. It runs beside the dispatcher: it reads files that do not
// change any more, and calls parts that are safe for concurrent use.
func (k *checkpoint) merge(counts verdict, now time.Time, m *merge) error {
	for _, p := range m.ledger.beside {
		if err := p.Save(k.put, now); err != nil {
			return err
		}
	}
	return k.mergeLinks(counts, m)
}

// A merge writes the parts of a checkpoint while it reads what the checkpoint replaces.
type merge struct {
	*state.History
	assembly
	ledger *Ledger // only what never changes
	keys   Keys    // from the start of the checkpoint
	counts verdict
	states lastStates
	pages  []link.Key // reused memory
}

func (m *merge) accept(kind byte, p []byte) error {
	if err := m.Accept(kind, p); err != nil {
		return err
	}
	key, ok, err := m.keys.Accept(kind, m.Last, p)
	if err != nil || !ok {
		return err
	}
	return m.key(key, kind == state.Outgoing)
}

func (m *merge) finish(_ byte, p []byte) error {
	f, err := state.DecodeFinish(p)
	if err != nil || m.counts.next(&f) || f.IsRobots() {
		return err
	}
	if err := m.Finish(f.Number); err != nil {
		return err
	}
	m.pages = pageKeys(m.pages[:0], m.keys, &f)
	for _, k := range m.pages {
		if err := m.key(k, true); err != nil {
			return err
		}
	}
	if k, ok := doneKey(m.keys, &f); ok {
		if err := m.done(k); err != nil {
			return err
		}
	}
	return m.states.add(m.Later, &f)
}

func (m *merge) again(_ byte, p []byte) error {
	l, _, err := link.Peek(p)
	if err != nil {
		return err
	}
	return m.states.addAgain(m.Later, l)
}

func (m *merge) told(_ byte, p []byte) error { return m.states.addTold(m.Later, p) }

func (m *merge) visited(kind byte, p []byte) error { return m.Later.Add(kind, inSnapshot, p) }

// mergeLinks writes the parts, and the states of a Planner.
func (k *checkpoint) mergeLinks(counts verdict, m *merge) (err error) {
	m.assembly = assembly{Checkpoint: k.Checkpoint, kept: roaring64.New()}
	m.counts, m.keys, m.states = counts, k.keys, lastStates{}
	defer func() {
		m.abandon()
		err = errors.Join(err, m.Later.Close())
	}()
	files, err := k.Files()
	if err != nil {
		return err
	}
	one := m.ledger.ownOnly(table.Checkpoint(m))
	if err := files.Snapshot(one); err != nil {
		return err
	}
	parts, err := state.PartsOf(files)
	if err != nil {
		return err
	}
	if err := m.carryKeys(files, parts, int64(k.accepted-m.Before)*16); err != nil {
		return err
	}
	if err := files.Segments(func(_ bool, kind byte, p []byte) error { return one(kind, p) }); err != nil {
		return err
	}
	if err := m.endKeys(m.Last); err != nil {
		return err
	}
	for _, p := range parts {
		if err := m.carryPending(files, p, m.History); err != nil {
			return err
		}
	}
	if err := m.EachLater(m.pending, func(kind byte, number uint64, p []byte) error {
		l, planned, err := m.states.last(kind, number, p)
		if err != nil || planned == nil {
			return err
		}
		return k.put(state.Visited, state.AppendVisited(nil, l, planned))
	}); err != nil {
		return err
	}
	if err := m.endPending(); err != nil {
		return err
	}
	k.bytes += m.bytes
	m.Done.And(m.kept)
	return state.PutPieces(state.Done, state.AppendRuns(nil, m.Done), donePiece, k.put)
}
