package crawl

import (
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
)

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

func (c *Crawler) span(now time.Time) []byte {
	return state.AppendSpan(nil, c.Tally.Started(), c.Elapsed(now), now)
}

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
			c.fatal = errors.Join(c.Log.Flush(), c.Events.Flush(), c.Skipped.Flush(), c.LinkLog.Flush())
			c.synced = now
		}
	case c.syncing == nil && c.checkpointDue():
		// A checkpoint goes before a sync. On a disk that needs longer than SyncEvery for a sync, a
		// sync would always be under way.
		c.fatal = c.beginCheckpoint(all())
		c.synced, c.committed, c.dirty, c.urgent = now, now, false, false
	case c.syncing == nil && (now.Sub(c.synced) >= c.cfg.SyncEvery || c.cluster.WantsSync() && !now.Before(c.ackAt())):
		c.batch.add(state.Span, c.span(now))
		if c.append(); c.fatal != nil {
			return
		}
		c.fatal = c.beginSync()
		c.synced, c.committed, c.dirty, c.urgent = now, now, false, false
	case !now.Before(c.commitAt()):
		c.batch.add(state.Span, c.span(now)) // even if only the seen-set has links to write
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
	durable  func()     // tells the Cluster and Near
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
	cluster, near, pages := c.cluster.Syncing(), c.nearSyncing(), c.Delivery.Syncing()
	durable := func() {
		cluster()
		near()
		pages()
	}
	return &syncing{j, held, c.accepted, durable, make(chan error, 1)}, nil
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

// nearSyncing tells Near that a sync of the journal begins, and returns what to call when it has ended.
func (c *Crawler) nearSyncing() (durable func()) {
	if c.Near == nil {
		return func() {}
	}
	return c.Near.Syncing()
}
