package crawl

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Recovered has the counts that Recover found.
type Recovered struct {
	// Pending includes the links of blocked hosts.
	Accepted, Finished, Pending int64
	// Repeated counts the finishes whose WARC record, line in crawl.log, or held-back links a power
	// failure has destroyed. Their URLs are pending again.
	Repeated int64
	// Lost is the number of held-back links that may be lost, and whose pages are not known.
	Lost int64
}

// Recover rebuilds seen-set, frontier, robots cache and counts from the journal in dir. Call it
// before Seed and Run. intact reports whether a WARC file still has all bytes up to end, because a
// power failure can destroy records of finished URLs.
//
// It reads the journal twice: first to learn which accepts are finished, then to queue the others in
// their order.
func (c *Crawler) Recover(fs disk.FS, dir string, intact func(file string, end int64) bool,
	now time.Time) (Recovered, error) {
	var r Recovered
	c.Journal.EndWith(c.mark)
	states := c.states()
	g := ledger{done: roaring64.New(), states: states, verdict: all(), missing: c.Seen.Missing}
	g.verdict.intact = intact
	tail, err := c.Log.Tail()
	if err != nil {
		return r, err
	}
	g.lines.tail, g.lines.recent = tail, c.Journal.Unsure()
	first := true
	if _, err := journal.ReplayWithout(fs, dir, anyPart, func(kind byte, p []byte) (err error) {
		g.lines.records++
		if first {
			first = false
			c.id, err = decodeCrawl(kind, p)
			return err
		}
		if kind == kindDrop {
			host, d, err := decodeDrop(p)
			if err == nil {
				c.noteDrop(host, d)
			}
			return err
		}
		if kind == kindHanded || kind == kindAbsent {
			return c.cluster.Load(kind, p)
		}
		return g.read(kind, p)
	}); err != nil {
		return r, err
	}
	counts := g.close()
	r.Repeated, r.Lost = g.repeated, g.gone
	c.fs, c.dir = fs, dir
	if first {
		c.id = newID()
		c.batch.add(kindCrawl, appendCrawl(nil, c.id))
		c.append()
	}
	if err := c.bindSeen(g.last); err != nil {
		return r, err
	}
	c.holding.open = g.open
	verdict := counts
	delays := map[string]time.Duration{}
	touch := func(host string, d time.Duration) {
		if d > 0 { // Hush covers the other hosts
			delays[host] = max(delays[host], d)
		}
	}
	if f, ok := c.planner.(Forgetter); ok {
		for host, d := range c.drops.of {
			f.Forget(host, d.at)
		}
	}
	var keys []weburl.Key
	var batch []weburl.Link
	var numbers []uint64
	push := func() error {
		err := c.Frontier.PushAt(batch, numbers)
		batch, numbers = batch[:0], numbers[:0]
		return err
	}
	// pending queues a link that is not finished. The last run may have ended during a request to
	// the host, without a record. So Hush below makes every host with pending links wait.
	pending := func(l weburl.Link, number uint64) error {
		if g.done.Contains(number) {
			return nil
		}
		if c.dropped(l.URL.Host(), number) {
			return c.Frontier.PushWithdrawn([]frontier.Waiting{{Link: l, Number: number}})
		}
		if away, err := c.cluster.Away(l, number); away || err != nil {
			return err
		}
		batch, numbers = append(batch, l), append(numbers, number)
		if len(batch) == 1024 {
			return push()
		}
		return nil
	}
	// outward queues a link for its owner, another agent, in the outbox.
	outward := func(number uint64, enc []byte) error {
		if g.done.Contains(number) {
			return nil
		}
		l, _, err := weburl.DecodeLink(enc)
		if err != nil {
			return err
		}
		if c.dropped(l.URL.Host(), number) {
			return c.Frontier.PushWithdrawn([]frontier.Waiting{{Link: l, Number: number}})
		}
		return c.cluster.Requeue(number, enc)
	}
	var sent []uint64
	// The keys that the seen-set has on disk need not be read: those of the complete parts.
	restored := func(p journal.Part) bool {
		kind, _, last, err := parseLabel(p.Label)
		if _, ok := c.cluster.Keys().Finish(weburl.Key{}); ok { // finishes have keys in the seen-set, too
			last++
		}
		return err == nil && kind == kindKeys && last <= c.Seen.Mark()
	}
	lists := false
	var tally pieces
	blocked := map[string]struct{}{}
	var past pastClock
	_, err = journal.ReplayWithout(fs, dir, restored, func(kind byte, p []byte) error {
		switch kind {
		case kindForeign, kindPassed:
			c.Tally.Accepted(1)
			c.accepted++
			if err := c.restoreAccepted(kind, p); err != nil {
				return err
			}
			return outward(c.accepted, p)
		case kindOutward:
			number, enc, err := splitPending(p)
			if err != nil {
				return err
			}
			return outward(number, enc)
		case kindSent:
			var err error
			var returned bool
			if sent, returned, err = decodeSent(sent[:0], p, c.accepted); err == nil {
				c.countSent(int64(len(sent)), returned)
			}
			return err
		case kindAccept:
			l, _, err := weburl.DecodeLink(p)
			if err != nil {
				return err
			}
			c.Tally.Accepted(1)
			if l.Hops == "" {
				c.Tally.Found(1)
			}
			if c.Queries != nil {
				c.Queries.Admit(l.URL)
			}
			c.accepted++
			if err := c.restoreAccepted(kind, p); err != nil {
				return err
			}
			return pending(l, c.accepted)
		case kindPending:
			number, enc, err := splitPending(p)
			if err != nil {
				return err
			}
			l, _, err := weburl.DecodeLink(enc)
			if err != nil {
				return err
			}
			return pending(l, number)
		case kindNumber:
			n, _ := binary.Uvarint(p) // the ledger has checked it
			c.accepted = n
			return nil
		case kindList:
			lists = lists || c.accepted >= c.Seen.Mark()
			return nil
		case kindDone, kindCrawl, kindHeld, kindDrop, kindHanded, kindAbsent:
			return nil // the ledger has read it
		case kindFinish:
			f, err := decodeFinish(p)
			if err != nil {
				return err
			}
			if !f.began.IsZero() && f.began.Unix() > 0 {
				touch(f.link.URL.Host(), f.delay)
				past.saw(f.began.Add(f.took))
			}
			if verdict.lost(&f) {
				return nil
			}
			c.count(&f)
			if k, ok := c.cluster.Keys().Finish(f.link.URL.Key()); ok && f.flags&flagRobots == 0 &&
				c.accepted >= c.Seen.Mark() {
				if err := c.restoreSeen(append(keys[:0], k)); err != nil {
					return err
				}
			}
			c.planned = c.planned || len(f.state) > 0
			if states.isLast(&f) {
				return c.restoreState(f.link, f.state, now, touch)
			}
			return nil
		case kindState:
			c.planned = true
			l, state, err := decodeState(p)
			if err != nil || c.planner == nil || states.has(l.URL.Key()) {
				return err
			}
			return c.restoreState(l, state, now, touch)
		case kindHost:
			st, err := frontier.DecodeHostState(p)
			if err != nil {
				return err
			}
			past.hosts = append(past.hosts, st)
			if st.Blocked {
				blocked[st.Host] = struct{}{}
			} else {
				delete(blocked, st.Host)
			}
			if st.Delay > 0 {
				delays[st.Host] = max(delays[st.Host], st.Delay)
			}
			return nil
		case kindRobots:
			if verdict.doubtful() { // its sitemaps' links may be lost: fetch it again
				return nil
			}
			e, err := robots.DecodeEntry(p)
			if err != nil {
				return err
			}
			c.Robots.Restore(e)
			return nil
		case kindKeys, kindForeignKeys, kindDoneKeys:
			var err error
			if keys, err = decodeKeys(keys[:0], p); err != nil {
				return err
			}
			return c.restoreSeen(keys)
		case kindTally:
			whole, err := tally.add(p)
			if err != nil || whole == nil {
				return err
			}
			return c.Tally.Decode(whole)
		case kindSpan:
			started, took, written, err := decodeSpan(p)
			if err != nil {
				return err
			}
			if !written.IsZero() {
				past.saw(written)
			}
			if !started.IsZero() {
				c.Tally.Start(started)
			}
			c.earlier = took
			return nil
		case kindQueries:
			if len(p)%12 != 0 {
				return errRecord
			}
			for ; len(p) > 0 && c.Queries != nil; p = p[12:] {
				c.Queries.Restore(binary.BigEndian.Uint64(p), binary.BigEndian.Uint32(p[8:]))
			}
			return nil
		case kindDigest:
			digest, o, err := decodeOriginal(p)
			if err != nil {
				return err
			}
			c.Archive.RememberRecord(digest, o)
			return nil
		case kindAgain:
			l, err := c.tookBack(p)
			if err == nil {
				states.passAgain(l.URL.Key())
			}
			return err
		case kindFailed:
			c.failures.again = append(c.failures.again, slices.Clone(p))
			return nil
		case kindSeed:
			u, err := weburl.Parse(string(p))
			if err != nil {
				return err
			}
			c.widen(u)
			return nil
		}
		return fmt.Errorf("%w: kind %q", errRecord, kind)
	})
	if err == nil {
		err = push()
	}
	if err == nil {
		err = c.restoreLists(lists)
	}
	if err != nil {
		return r, err
	}
	past.restore(c.Frontier, now)
	names := slices.Sorted(maps.Keys(blocked))
	c.blocked.Store(&names)
	if c.accepted > 0 {
		c.Frontier.Hush(now)
	}
	for host, d := range delays {
		c.Frontier.Touched(host, d, now)
	}
	sum := c.Tally.Summary(0, "")
	r.Accepted, r.Finished, r.Pending = sum.Unique, sum.Finished, c.Pending()
	if r.Pending > 0 || c.remembered > 0 {
		c.nextSlot = now.Add(c.cfg.ResumeWait)
	}
	if r.Lost > 0 {
		c.Events.Write("seen-lost", report.F("links", r.Lost))
		for range r.Lost {
			c.Tally.Skipped(reasonLost)
		}
	}
	if r.Repeated > 0 || r.Lost > 0 || verdict.doubtful() {
		// A power failure has destroyed what these finishes refer to. But the next recovery could
		// take them for valid: their WARC file may grow past their ends or be deleted, and so may
		// the files of the seen-set. So a checkpoint removes these finishes from the journal now.
		c.holding.mute = true // no mark may confirm these finishes
		if err := c.beginCheckpoint(counts); err != nil {
			return r, err
		}
		if err := c.endCheckpoint(true); err != nil {
			return r, err
		}
		c.holding.mute = false
	}
	c.cluster.Recovered()
	return r, nil
}

func newID() (id keyset.Crawl) {
	rand.Read(id[:])
	return id
}

// count counts a finish of an earlier run.
func (c *Crawler) count(f *finish) {
	c.Tally.Add(visitOf(f))
	c.noteFailed(f)
	c.Tally.Found(int64(f.found))
	c.Tally.Retried(int64(f.tries))
	for _, s := range f.skips {
		for range s.n {
			c.Tally.Skipped(s.reason)
		}
	}
	if f.file != "" && f.code > 0 && f.flags&(flagDuplicate|flagTruncated) == 0 {
		c.Archive.Remember(f.digest, f.link.URL.String(), f.began)
	}
}

// urgentCommitEvery bounds how long a server's demand for fewer requests is only in memory. A kill
// may repeat a fetch, but must not make the crawl disregard a Retry-After.
const urgentCommitEvery = 5 * time.Millisecond

// commitAt returns the time of the next write of the journal.
func (c *Crawler) commitAt() time.Time {
	if c.urgent {
		return c.committed.Add(min(urgentCommitEvery, c.cfg.CommitEvery))
	}
	return c.committed.Add(c.cfg.CommitEvery)
}

// ackAt returns the time of the next sync for callers that wait for one.
func (c *Crawler) ackAt() time.Time { return c.synced.Add(c.cfg.CommitEvery) }

// save writes the journal when it is due. The journal's Before writes archive and logs first, so
// that the journal never has a finish without its record.
func (c *Crawler) save(now time.Time) {
	if c.fatal != nil {
		return
	}
	if c.fatal = c.endSync(false); c.fatal != nil {
		return
	}
	switch {
	case !c.dirty && !(c.syncing == nil && c.Seen.WantsSync()):
		// The journal needs no write, but a log may have buffered lines or an error.
		if now.Sub(c.synced) >= c.cfg.SyncEvery {
			c.fatal = errors.Join(c.Log.Flush(), c.Events.Flush(), c.Skipped.Flush())
			c.synced = now
		}
	case c.syncing == nil && c.checkpointDue():
		// A checkpoint goes before a sync. On a disk that needs longer than SyncEvery for a sync, a
		// sync would always be under way.
		c.fatal = c.beginCheckpoint(all())
		c.synced, c.committed, c.dirty, c.urgent = now, now, false, false
	case c.syncing == nil && (now.Sub(c.synced) >= c.cfg.SyncEvery || c.cluster.WantsSync() && !now.Before(c.ackAt())):
		c.batch.add(kindSpan, c.span(now))
		if c.append(); c.fatal != nil {
			return
		}
		c.fatal = c.beginSync()
		c.synced, c.committed, c.dirty, c.urgent = now, now, false, false
	case !now.Before(c.commitAt()):
		c.batch.add(kindSpan, c.span(now)) // even if only the seen-set has links to write
		if c.append(); c.fatal != nil {
			return
		}
		c.fatal = c.Journal.Commit()
		c.cluster.Committed(now)
		c.committed, c.urgent = now, false
	}
	if c.fatal == nil {
		c.fatal = c.endCheckpoint(false)
	}
}

// checkpointDue reports that the journal has grown by as much as the last checkpoint wrote.
func (c *Crawler) checkpointDue() bool {
	return c.checkpoint == nil && !c.reading &&
		c.Journal.SinceSnapshot() > max(c.cfg.SnapshotBytes, c.snapSize)
}

// A syncing is an fsync in progress, while the crawl continues.
type syncing struct {
	journal  *journal.Syncing
	seen     *keyset.Syncing
	accepted uint64
	durable  func()     // tells the Cluster
	done     chan error // buffered: sending never blocks
}

// run does the slow work: it syncs the held-back links of the seen-set, then archive and logs, and
// then the journal, which refers to all of them.
func (s *syncing) run() error {
	if err := s.seen.Run(); err != nil {
		return err
	}
	return s.journal.Run()
}

// startSync writes what endSync will report as durable.
func (c *Crawler) startSync() (*syncing, error) {
	if c.cluster.Prepare(); c.fatal != nil {
		return nil, c.fatal
	}
	j, err := c.Journal.BeginSync()
	if err != nil {
		return nil, err
	}
	held, err := c.Seen.BeginSync()
	if err != nil {
		return nil, fmt.Errorf("seen: %w", err)
	}
	c.cluster.Committed(c.cfg.Now())
	return &syncing{j, held, c.accepted, c.cluster.Syncing(), make(chan error, 1)}, nil
}

// noteSync processes the result of a sync.
func (c *Crawler) noteSync(s *syncing, err error) error {
	if err := c.Journal.EndSync(s.journal, err); err != nil {
		return err
	}
	if err := c.Seen.EndSync(s.seen, err, s.accepted); err != nil {
		return err
	}
	s.durable()
	return nil
}

// beginSync starts to make the journal durable.
func (c *Crawler) beginSync() error {
	s, err := c.startSync()
	if err != nil {
		return err
	}
	c.syncing = s
	go func() {
		s.done <- s.run()
		c.tell(func(time.Time) {})
	}()
	return nil
}

// endSync processes the end of the running sync if it has ended. With wait it waits for the end.
// Without a running sync it does nothing.
func (c *Crawler) endSync(wait bool) error {
	s := c.syncing
	if s == nil {
		return nil
	}
	over, err := ended(s.done, wait)
	if !over {
		return nil
	}
	c.syncing = nil
	return c.noteSync(s, err)
}

// sync makes the journal durable before it returns.
func (c *Crawler) sync() error {
	if err := c.markAnyway(); err != nil {
		return err
	}
	s, err := c.startSync()
	if err != nil {
		return err
	}
	return c.noteSync(s, s.run())
}
