package handoff

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/orbweaver/orbweaver/internal/store/journal"
)

// Run compacts sources that have sent enough, until ctx ends. Sources reports the damage that it
// finds. Any other error is an error of the disk.
func (s *Store) Run(ctx context.Context) error {
	for {
		for _, o := range s.all() {
			o.mu.Lock()
			wants := o.wants()
			o.mu.Unlock()
			if !wants {
				continue
			}
			if err := s.compact(ctx, o); ctx.Err() != nil {
				return nil
			} else if err != nil && !errors.Is(err, ErrDamaged) {
				return err
			}
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// compact replaces the records of a source by a shorter equivalent. Append and Sync may run at
// the same time; an Import makes it start again. A crash at any instant leaves either the
// old files or the new ones.
func (s *Store) compact(ctx context.Context, o *source) error {
	for {
		yielded, err := s.tryCompact(ctx, o)
		if yielded && ctx.Err() == nil {
			continue // and waits until no urgent call waits for work
		}
		if err != nil && !errors.Is(err, ErrDamaged) {
			return fmt.Errorf("compact replica of %v: %w", o.id, err)
		}
		return err
	}
}

// tryCompact compacts, unless an urgent call wants to use the files.
func (s *Store) tryCompact(ctx context.Context, o *source) (yielded bool, err error) {
	select {
	case s.work <- struct{}{}:
		defer func() { <-s.work }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	s.mu.Lock()
	s.yield = cancel
	yielded = s.urgent > 0
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.yield = nil
		s.mu.Unlock()
	}()
	if yielded {
		return true, nil
	}
	err = s.compactNow(inner, o)
	return inner.Err() != nil && errors.Is(err, context.Canceled), err
}

func (s *Store) compactNow(ctx context.Context, o *source) error {
	c, _, err := o.begin()
	if c == nil || err != nil {
		if err == nil {
			o.mu.Lock()
			defer o.mu.Unlock()
			err = o.usable()
		}
		return err
	}
	w := snapshotWriter{c: c, limit: s.cfg.PartBytes}
	err = s.reduce(ctx, func(fn func(byte, []byte) error) error { return c.Replay(false, fn) }, w.put, false)
	if err == nil {
		err = w.finish()
	}
	w.abandon()
	if err != nil {
		c.Abandon()
	} else if err = c.Finish(); err == nil {
		err = o.adopt(c, w.bytes)
	}
	if isDamage(err) {
		return o.harm(err)
	}
	return err
}

// reduce reads records from replay and passes the resulting state to put. With salvage, it also
// passes the state before damage.
func (s *Store) reduce(ctx context.Context, replay func(func(byte, []byte) error) error,
	put func(Kind, []byte) error, salvage bool) error {
	r := newReduction(ctx, s.fs, filepath.Join(s.dir, sortDir)+string(filepath.Separator), s.cfg.MemoryBytes)
	defer r.close()
	damage := replay(r.record)
	if damage != nil && !(salvage && isDamage(damage)) {
		return damage
	}
	if err := r.tell(put); err != nil {
		return err
	}
	return damage
}

// isDamage reports whether err means damage in a source's files, not a failure of the disk.
func isDamage(err error) bool {
	return errors.Is(err, journal.ErrDamaged) || errors.Is(err, ErrRecord)
}

// A snapshotWriter writes the state of a source into the parts of a checkpoint.
type snapshotWriter struct {
	c     *journal.Checkpoint
	limit int64               // of a part's bytes
	w     *journal.PartWriter // nil: no part is open
	bytes uint64              // of the closed parts
}

func (w *snapshotWriter) put(k Kind, payload []byte) (err error) {
	if w.w != nil && w.w.Bytes() >= w.limit {
		if err := w.endPart(); err != nil {
			return err
		}
	}
	if w.w == nil {
		if w.w, err = w.c.NewPart(); err != nil {
			return err
		}
	}
	return w.w.Append(byte(k), payload)
}

func (w *snapshotWriter) endPart() error {
	if w.w == nil {
		return nil
	}
	if err := w.w.Close(nil); err != nil {
		return err
	}
	w.bytes += uint64(w.w.Bytes())
	w.w = nil
	return nil
}

// finish completes the parts and writes the snapshot's only record.
func (w *snapshotWriter) finish() error {
	if err := w.endPart(); err != nil {
		return err
	}
	return w.c.Append(byte(kindVersion), binary.AppendUvarint([]byte{recordsVersion}, w.bytes))
}

// abandon removes an incomplete part.
func (w *snapshotWriter) abandon() {
	if w.w != nil {
		w.w.Abandon()
	}
}
