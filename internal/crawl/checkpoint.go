package crawl

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
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

	states lastStates
	keys   Keys // from the start of the checkpoint
}

// put appends a record.
func (k *checkpoint) put(kind byte, p []byte) error {
	k.bytes += int64(len(p))
	return k.Append(kind, p)
}

// beginCheckpoint starts a checkpoint. counts decides which finishes of the journal count.
func (c *Crawler) beginCheckpoint(counts verdict) error {
	// The seen-set's files must contain all that the journal has when Begin syncs it.
	if err := c.sync(); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	j, err := c.Journal.Begin()
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	k := &checkpoint{Checkpoint: j, began: time.Now(), done: make(chan error, 1), states: lastStates{},
		keys: c.cluster.Keys().Freeze()}
	if err := c.putSmall(k); err != nil {
		k.Abandon()
		return fmt.Errorf("checkpoint: %w", err)
	}
	c.checkpoint = k
	go func() {
		err := k.merge(c.Archive, c.Robots, counts)
		if err != nil {
			k.Abandon()
		} else {
			err = k.Finish()
		}
		k.done <- err
	}()
	return nil
}

// ended returns the result of work that sends it to done. With wait it blocks until the work is
// over.
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

// endCheckpoint puts the running checkpoint into service if it is ready. With wait it blocks
// until it is. Without a running checkpoint it does nothing.
func (c *Crawler) endCheckpoint(wait bool) error {
	k := c.checkpoint
	if k == nil {
		return nil
	}
	over, err := ended(k.done, wait)
	if !over {
		return nil
	}
	c.checkpoint = nil
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if err := c.Journal.Adopt(k.Checkpoint, nil); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	c.snapSize = k.bytes
	c.Events.Write("checkpoint", report.F("bytes", c.snapSize), report.F("took_ms", time.Since(k.began).Milliseconds()))
	return nil
}

// putSmall writes the state that the dispatcher owns.
func (c *Crawler) putSmall(k *checkpoint) error {
	if err := k.put(kindCrawl, appendCrawl(nil, c.id)); err != nil {
		return err
	}
	if c.holding.open {
		if err := k.put(kindHeld, c.holding.encode(c.Seen)); err != nil {
			return err
		}
	}
	now := c.cfg.Now() // one time for the span and the pauses: the clock may have been set since the last visit
	if err := k.put(kindSpan, c.span(now)); err != nil {
		return err
	}
	if err := k.put(kindNumber, binary.AppendUvarint(nil, c.accepted)); err != nil {
		return err
	}
	for _, u := range c.widened {
		if err := k.put(kindSeed, []byte(u.String())); err != nil {
			return err
		}
	}
	var buf []byte
	if err := c.putTally(k.put); err != nil {
		return err
	}
	c.skipped = c.skipped[:0] // are counted with it
	for _, enc := range c.failures.again {
		if err := k.put(kindFailed, enc); err != nil {
			return err
		}
	}
	if c.Queries != nil {
		buf = buf[:0]
		c.Queries.Each(func(path uint64, n uint32) error {
			buf = binary.BigEndian.AppendUint64(buf, path)
			buf = binary.BigEndian.AppendUint32(buf, n)
			return nil
		})
		if err := k.put(kindQueries, buf); err != nil {
			return err
		}
	}
	c.forgetDrops()
	for host, d := range c.drops.of {
		if err := k.put(kindDrop, appendDrop(nil, host, d)); err != nil {
			return err
		}
	}
	if err := c.cluster.Save(k.put); err != nil {
		return err
	}
	for _, host := range *c.blocked.Load() { // one that was given away is not in the frontier
		buf = frontier.HostState{Host: host, Blocked: true}.AppendTo(buf[:0])
		if err := k.put(kindHost, buf); err != nil {
			return err
		}
	}
	return c.Frontier.EachHost(now, func(st frontier.HostState) error {
		st.Blocked = c.isBlocked(st.Host) // and not held for another reason
		buf = st.AppendTo(buf[:0])
		return k.put(kindHost, buf)
	})
}

// putTally writes the counts in pieces, as putPieces does. The counts of a million hosts are
// large, and encoding them as a whole would take much memory.
func (c *Crawler) putTally(put func(kind byte, p []byte) error) error {
	var buf []byte
	return c.Tally.EachPiece(tallyPiece, func(piece []byte, last bool) error {
		more := byte(1)
		if last {
			more = 0
		}
		buf = append(append(buf[:0], more), piece...)
		return put(kindTally, buf)
	})
}

// merge writes the other state. It runs beside the dispatcher: it reads files that do not
// change any more, and calls parts that are safe for concurrent use.
func (k *checkpoint) merge(a *warc.Writer, rc *robots.Cache, counts verdict) error {
	var buf []byte
	if err := a.EachRemembered(func(digest [20]byte, o warc.Original) error {
		buf = appendOriginal(buf[:0], digest, o)
		return k.put(kindDigest, buf)
	}); err != nil {
		return err
	}
	// A payload that was remembered after the checkpoint began may not be synced yet. But a payload
	// that the snapshot recognizes must exist after a crash.
	if err := a.Sync(); err != nil {
		return err
	}
	if err := rc.Each(func(e robots.Entry) error {
		buf = e.AppendTo(buf[:0])
		return k.put(kindRobots, buf)
	}); err != nil {
		return err
	}
	return k.mergeLinks(counts)
}

// putDone adds the key that stands for a finish, if it counts.
func (k *checkpoint) putDone(kind byte, p []byte, counts *verdict, a *assembly) error {
	if _, ok := k.keys.Finish(weburl.Key{}); !ok || kind != kindFinish {
		return nil
	}
	f, err := decodeFinish(p)
	if err != nil || counts.lost(&f) || f.flags&flagRobots != 0 {
		return err
	}
	key, _ := k.keys.Finish(f.link.URL.Key())
	return a.done(key)
}

// mergeLinks writes the parts.
func (k *checkpoint) mergeLinks(counts verdict) error {
	g := ledger{done: roaring64.New(), states: k.states, verdict: counts}
	before := uint64(0) // the last accept of the snapshot before
	if err := k.ReplayWithout(false, anyPart, func(kind byte, p []byte) error {
		err := g.read(kind, p)
		if kind == kindNumber {
			before = g.last
		}
		return err
	}); err != nil {
		return err
	}
	parts, err := k.Parts()
	if err != nil {
		return err
	}
	a := assembly{Checkpoint: k.Checkpoint, kept: roaring64.New()}
	defer a.abandon()
	if err := a.carryPending(parts, g.done); err != nil {
		return err
	}
	number := before
	if err := k.Replay(true, func(kind byte, p []byte) error {
		left := kindOutward
		switch kind {
		case kindAccept:
			left = kindPending
		case kindForeign, kindPassed:
		default:
			return nil
		}
		if number++; g.done.Contains(number) {
			return nil
		}
		return a.pending(left, number, p)
	}); err != nil {
		return err
	}
	if err := a.endPending(); err != nil {
		return err
	}
	if err := a.carryKeys(parts, int64(number-before)*16); err != nil {
		return err
	}
	at, done := before, counts
	if err := k.ReplayWithout(false, anyPart, func(kind byte, p []byte) error {
		switch kind {
		case kindFinish, kindState:
			if err := k.putDone(kind, p, &done, &a); err != nil {
				return err
			}
			return k.putState(kind, p, &counts)
		case kindAgain:
			return k.putState(kind, p, &counts)
		case kindAccept, kindForeign, kindPassed:
			at++
			key, ok, err := k.keys.Accept(kind, at, p)
			if err != nil || !ok {
				return err
			}
			return a.key(key, kind == kindForeign)
		case kindKeys, kindDoneKeys, kindList:
			return a.keysRecord(kind, p)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := a.endKeys(number); err != nil {
		return err
	}
	k.bytes += a.bytes
	g.done.And(a.kept)
	return putPieces(kindDone, appendRuns(nil, g.done), donePiece, k.put)
}
