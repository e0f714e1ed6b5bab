package journal

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"slices"

	"github.com/orbweaver/orbweaver/disk"
)

// snapshotFrame is the size at which a snapshot's records are closed into a
// frame.
const snapshotFrame = 256 << 10

// A Checkpoint is a snapshot in the making. Between Begin and Adopt another
// goroutine than the Journal's owner may write it, while the owner goes on to
// append: it replaces what had been appended when it was begun.
type Checkpoint struct {
	fs     disk.FS
	dir    string
	number uint64
	tmp    string
	since  int64 // bytes of the segments that it replaces
	f      disk.File
	w      snapshotWriter
}

// Begin syncs and closes the current segment and starts the next one and a
// Checkpoint of all before it. One at a time may be in the making.
func (j *Journal) Begin() (*Checkpoint, error) {
	if err := j.rotate(); err != nil {
		return nil, err
	}
	c := &Checkpoint{fs: j.fs, dir: j.dir, number: j.number, tmp: snapshotName(j.dir, j.number) + ".tmp", since: j.since}
	f, err := j.fs.OpenFile(c.tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("snapshot %d: %w", c.number, err)
	}
	c.f = f
	c.w = snapshotWriter{f: f, number: c.number}
	c.w.buf = appendFileHeader(c.w.buf, typeSnapshot, c.number, 0)
	if err := c.w.flush(); err != nil {
		c.Abandon()
		return nil, fmt.Errorf("snapshot %d: %w", c.number, err)
	}
	return c, nil
}

// Append adds a record.
func (c *Checkpoint) Append(kind byte, payload []byte) error { return c.w.append(kind, payload) }

// Replay gives fn the records that the Checkpoint replaces, like the function
// of this name. With recent, those of the snapshot before it are left out.
func (c *Checkpoint) Replay(recent bool, fn func(kind byte, payload []byte) error) error {
	l, err := list(c.fs, c.dir)
	if err != nil {
		return err
	}
	before := func(n uint64) bool { return n >= c.number }
	l.segments = slices.DeleteFunc(l.segments, before)
	l.snapshots = slices.DeleteFunc(l.snapshots, before)
	var st Stats
	return l.replay(c.fs, c.dir, replaying{closed: true, recent: recent}, &st, fn)
}

// Finish completes the file and makes it durable.
func (c *Checkpoint) Finish() error {
	err := c.w.finish()
	if cerr := c.f.Close(); err == nil {
		err = cerr
	}
	c.f = nil
	if err != nil {
		c.Abandon()
		return fmt.Errorf("snapshot %d: %w", c.number, err)
	}
	return nil
}

// Abandon gives a Checkpoint up that is not finished: what it would have
// replaced stays.
func (c *Checkpoint) Abandon() {
	if c.f != nil {
		_ = c.f.Close() // nothing of it counts
		c.f = nil
	}
	_ = c.fs.Remove(c.tmp) // best effort; Open removes it too
}

// Adopt puts a finished Checkpoint in the place of what it replaces, which is
// deleted: a crash at any instant leaves the old or the new state to Replay.
// err is what Finish said.
func (j *Journal) Adopt(c *Checkpoint, err error) error {
	if err == nil {
		err = j.fs.Rename(c.tmp, snapshotName(j.dir, c.number))
		if err != nil {
			c.Abandon()
			err = fmt.Errorf("snapshot %d: %w", c.number, err)
		}
	}
	if err != nil {
		return err
	}
	if err := j.fs.SyncDir(j.dir); err != nil {
		return fmt.Errorf("snapshot %d: %w", c.number, err)
	}
	j.since -= c.since
	l, err := list(j.fs, j.dir)
	if err == nil {
		err = j.sweep(l)
	}
	if err != nil {
		return fmt.Errorf("snapshot %d: delete what it replaces: %w", c.number, err)
	}
	return nil
}

// rotate starts the next segment.
func (j *Journal) rotate() error {
	if err := j.Sync(); err != nil {
		return err
	}
	old, size := j.file, j.size
	if err := j.create(j.number+1, size); err != nil {
		if j.file != old {
			_ = old.Close() // synced; create's error is the one to report
		}
		return j.fail(fmt.Errorf("rotate journal: %w", err))
	}
	j.since += size
	if err := old.Close(); err != nil {
		return j.fail(fmt.Errorf("rotate journal: %w", err))
	}
	return nil
}

type snapshotWriter struct {
	f      disk.File
	number uint64
	off    int64 // of buf in the file
	buf    []byte
	sum    count
	err    error // of a write, which the caller of append may have dropped
}

func (w *snapshotWriter) append(kind byte, payload []byte) error {
	if w.err != nil {
		return w.err
	}
	if len(payload) > MaxBatch-snapshotFrame-16 {
		w.err = fmt.Errorf("append: %w (%d bytes, limit %d)", ErrTooLarge, len(payload), MaxBatch)
		return w.err
	}
	if len(w.buf) == 0 {
		w.buf = append(w.buf, make([]byte, frameHead)...)
	}
	w.buf = appendRecord(w.buf, kind, payload)
	w.sum.records++
	w.sum.bytes += uint64(len(payload))
	if len(w.buf) >= snapshotFrame {
		return w.batch()
	}
	return nil
}

// batch writes the frame in buf.
func (w *snapshotWriter) batch() error {
	if len(w.buf) == 0 {
		return w.err
	}
	w.sum.batches++
	sealFrame(w.buf, frameBatch, w.number, w.off, 0)
	return w.flush()
}

func (w *snapshotWriter) flush() error {
	if w.err != nil {
		return w.err
	}
	n, err := w.f.Write(w.buf)
	w.off += int64(n)
	w.err, w.buf = err, w.buf[:0]
	return err
}

func (w *snapshotWriter) finish() error {
	if err := w.batch(); err != nil {
		return err
	}
	w.buf = w.sum.appendTo(append(w.buf, make([]byte, frameHead)...))
	sealFrame(w.buf, frameEnd, w.number, w.off, 0)
	if err := w.flush(); err != nil {
		return err
	}
	return w.f.Sync()
}

// sweep deletes what the newest snapshot replaces and what a Checkpoint that was
// interrupted left.
func (j *Journal) sweep(l listing) error {
	gone := l.tmp
	for _, n := range l.snapshots {
		if n < l.newest() {
			gone = append(gone, snapshotName(j.dir, n))
		}
	}
	for _, n := range l.segments {
		if n < l.newest() {
			gone = append(gone, segmentName(j.dir, n))
		}
	}
	if len(gone) == 0 {
		return nil
	}
	for _, name := range gone {
		if err := j.fs.Remove(name); err != nil && !errors.Is(err, iofs.ErrNotExist) {
			return err
		}
	}
	return j.fs.SyncDir(j.dir)
}
