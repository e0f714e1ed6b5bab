package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
)

// commitAt returns the time of the next write of the journal. A server's demand for fewer requests is
// written in the same turn of the crawl loop: a kill may repeat a fetch, but must not make the crawl disregard
// a Retry-After.
func (l *Ledger) commitAt() time.Time {
	if l.urgent {
		return l.committed
	}
	return l.committed.Add(l.cfg.CommitEvery)
}

// Due returns when Save has work next; zero means not before there are records.
func (l *Ledger) Due() (at time.Time) {
	due := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if l.dirty {
		due(l.commitAt())
	}
	if l.syncing == nil && l.seen.WantsSync() {
		due(l.synced.Add(l.cfg.SyncEvery))
	}
	if l.syncing == nil && l.answers {
		due(l.synced.Add(l.cfg.CommitEvery)) // others wait for the sync
	}
	return at
}

// Save writes the journal when it is due, unless the run has failed. The journal's Before writes archive and logs
// first, so that the journal never has a finish without its record.
func (l *Ledger) Save(now time.Time) error {
	if l.run.Failed() {
		return nil
	}
	if err := l.Append(); err != nil { // each turn of the dispatcher ends with an empty batch
		return err
	}
	if err := l.endSync(false); err != nil || l.run.Failed() {
		return err
	}
	if err := l.write(now); err != nil {
		return err
	}
	if l.run.Failed() { // of the cluster, which was told
		return nil
	}
	return l.endCheckpoint(false)
}

// write writes, syncs or replaces the journal if that is due.
func (l *Ledger) write(now time.Time) error {
	switch {
	case !l.dirty && !(l.syncing == nil && l.seen.WantsSync()):
		// The journal needs no write, but a log may have buffered lines or an error.
		if now.Sub(l.synced) >= l.cfg.SyncEvery {
			l.synced = now
			return flush(l.logs)
		}
	case l.syncing == nil && l.checkpointDue():
		// A checkpoint goes before a sync. On a disk that needs longer than SyncEvery for a sync, a
		// sync would always be under way.
		err := l.beginCheckpoint(all())
		l.synced, l.committed, l.dirty, l.urgent = now, now, false, false
		return err
	case l.syncing == nil && (now.Sub(l.synced) >= l.cfg.SyncEvery ||
		l.answers && now.Sub(l.synced) >= l.cfg.CommitEvery): // others wait for the sync
		l.batch.add(state.Span, l.crawl.Span(now))
		if err := l.Append(); err != nil {
			return err
		}
		err := l.beginSync()
		l.synced, l.committed, l.dirty, l.urgent = now, now, false, false
		return err
	case !now.Before(l.commitAt()):
		l.batch.add(state.Span, l.crawl.Span(now)) // even if only the seen-set has links to write
		if err := l.Append(); err != nil {
			return err
		}
		err := l.journal.Commit()
		l.tellCommitted()
		l.committed, l.urgent = now, false
		return err
	}
	return nil
}

// tellCommitted tells the cluster that all records so far are written.
func (l *Ledger) tellCommitted() {
	if l.cluster != nil {
		l.cluster.Committed()
	}
}

// flush writes the lines of all logs, also after an error.
func flush(logs []Log) (err error) {
	for _, log := range logs {
		err = errors.Join(err, log.Flush())
	}
	return err
}

// checkpointDue reports that the journal has grown by as much as the last checkpoint wrote.
func (l *Ledger) checkpointDue() bool {
	return l.checkpoint == nil && !l.reading &&
		l.journal.SinceSnapshot() > max(l.cfg.SnapshotBytes, l.snapSize)
}

// A syncing is an fsync in progress, while the crawl continues.
type syncing struct {
	journal  *journal.Syncing
	seen     *keyset.Syncing
	accepted uint64
	told     []func()   // tell the syncers that the records are durable
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

// startSync writes what endSync will report as durable. The present batch is empty.
func (l *Ledger) startSync() (*syncing, error) {
	if l.cluster != nil {
		l.cluster.Prepare()
	}
	if err := l.run.Err(); err != nil {
		return nil, err
	}
	j, err := l.journal.BeginSync()
	if err != nil {
		return nil, err
	}
	held, err := l.seen.BeginSync()
	if err != nil {
		return nil, fmt.Errorf("seen: %w", err)
	}
	l.tellCommitted()
	l.answers = false
	var told []func()
	for _, p := range l.syncers {
		told = append(told, p.Syncing())
	}
	return &syncing{j, held, l.accepted, told, make(chan error, 1)}, nil
}

// noteSync processes the result of a sync.
func (l *Ledger) noteSync(s *syncing, err error) error {
	if err := l.journal.EndSync(s.journal, err); err != nil {
		return err
	}
	if err := l.seen.EndSync(s.seen, err, s.accepted); err != nil {
		return err
	}
	for _, f := range s.told {
		f()
	}
	return nil
}

// beginSync starts to make the journal durable.
func (l *Ledger) beginSync() error {
	s, err := l.startSync()
	if err != nil {
		return err
	}
	l.syncing = s
	go func() {
		s.done <- s.run()
		l.run.Tell(func(time.Time) {})
	}()
	return nil
}

// endSync processes the end of the running sync if it has ended. With wait it waits for the end.
// Without a running sync it does nothing.
func (l *Ledger) endSync(wait bool) error {
	s := l.syncing
	if s == nil {
		return nil
	}
	over, err := ended(s.done, wait)
	if !over {
		return nil
	}
	l.syncing = nil
	return l.noteSync(s, err)
}

// Secure makes all records so far durable before it returns.
func (l *Ledger) Secure() error {
	if err := l.Append(); err != nil {
		return err
	}
	if err := l.endSync(true); err != nil {
		return err
	}
	return l.sync()
}

// sync makes the journal durable before it returns. No other sync may be in progress.
func (l *Ledger) sync() error {
	if err := cmp.Or(l.run.Err(), l.Append()); err != nil {
		return err
	}
	if err := l.markAnyway(); err != nil {
		return err
	}
	s, err := l.startSync()
	if err != nil {
		return err
	}
	return l.noteSync(s, s.run())
}

// End saves all at the end of a run, after its last visit. It calls deliver when all records are durable. Without work
// for the next run it leaves a short journal.
func (l *Ledger) End(deliver func()) error {
	err := l.endSync(true)
	if err == nil {
		err = l.end(deliver)
	}
	if l.checkpoint != nil { // an error came first
		<-l.checkpoint.done
		l.checkpoint.Abandon()
		l.checkpoint = nil
	}
	return err
}

func (l *Ledger) end(deliver func()) error {
	if err := l.run.Err(); err != nil {
		return err
	}
	if err := l.sync(); err != nil {
		return err
	}
	if deliver(); l.run.Failed() {
		return l.run.Err()
	}
	if l.dirty {
		if err := l.sync(); err != nil {
			return err
		}
	}
	if err := l.endCheckpoint(true); err != nil {
		return err
	}
	if l.journal.SinceSnapshot() <= l.snapSize/4 && !l.crawl.Unsaved() {
		return nil
	}
	// This lets the next run begin quickly, and saves what no finish record contains.
	if err := l.beginCheckpoint(all()); err != nil {
		return err
	}
	return l.endCheckpoint(true)
}

// Cut calls take while the journal's folder is at rest: all records so far are durable, the seen-set holds no link
// back, and nothing writes a checkpoint. finish is called before: it finishes the files to which the records refer. ok
// is false if the journal's files are in use, or if links are held back; then a later call may succeed.
func (l *Ledger) Cut(finish, take func() error) (ok bool, err error) {
	if l.reading || l.checkpoint != nil || l.run.Stopping() {
		return false, l.run.Err()
	}
	if err := l.Flush(); err != nil || l.seen.Holds() {
		return false, err
	}
	if err := finish(); err != nil {
		return false, err
	}
	if err := l.Secure(); err != nil || l.run.Failed() {
		return false, cmp.Or(err, l.run.Err())
	}
	return true, take()
}
