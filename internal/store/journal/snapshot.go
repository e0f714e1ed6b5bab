package journal

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"slices"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// snapshotFrame is the size at which the records of a snapshot or part are
// closed into a frame.
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
	fileWriter
	parts []Part // what it stands on
	made  int    // parts of its own, given up ones too
}

// Begin syncs and closes the current segment and starts the next one and a
// Checkpoint of all before it. One at a time may be in the making.
func (j *Journal) Begin() (*Checkpoint, error) {
	if err := j.rotate(); err != nil {
		return nil, err
	}
	c := &Checkpoint{fs: j.fs, dir: j.dir, number: j.number, tmp: snapshotName(j.dir, j.number) + ".tmp", since: j.since}
	if err := c.create(c.fs, c.tmp, typeSnapshot, c.number); err != nil {
		c.Abandon()
		return nil, fmt.Errorf("snapshot %d: %w", c.number, err)
	}
	return c, nil
}

// Replay gives fn the records that the Checkpoint replaces, like the function
// of this name. With recent, those of the snapshot before it are left out.
func (c *Checkpoint) Replay(recent bool, fn func(kind byte, payload []byte) error) error {
	return c.ReplayWithout(recent, nil, fn)
}

// ReplayWithout is Replay without the parts that skip names.
func (c *Checkpoint) ReplayWithout(recent bool, skip func(Part) bool, fn func(kind byte, payload []byte) error) error {
	l, err := c.replaced()
	if err != nil {
		return err
	}
	var st Stats
	return l.replay(c.fs, c.dir, replaying{closed: true, recent: recent, skip: skip}, &st, fn)
}

// replaced is what lay in the directory before c was begun.
func (c *Checkpoint) replaced() (listing, error) {
	l, err := list(c.fs, c.dir)
	later := func(n uint64) bool { return n >= c.number }
	l.segments = slices.DeleteFunc(l.segments, later)
	l.snapshots = slices.DeleteFunc(l.snapshots, later)
	return l, err
}

// Finish completes the files and makes them durable.
func (c *Checkpoint) Finish() error {
	if c.made > 0 { // their names must last before the snapshot's
		if err := c.fs.SyncDir(c.dir); err != nil {
			c.Abandon()
			return fmt.Errorf("snapshot %d: %w", c.number, err)
		}
	}
	if err := c.finish(c.parts); err != nil {
		c.Abandon()
		return fmt.Errorf("snapshot %d: %w", c.number, err)
	}
	return nil
}

// Abandon gives a Checkpoint up that is not finished: what it would have
// replaced stays.
func (c *Checkpoint) Abandon() {
	c.close()
	_ = c.fs.Remove(c.tmp) // best effort; Open removes it too
	for i := range c.made {
		_ = c.fs.Remove(partName(c.dir, c.number, uint32(i))) // likewise
	}
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

// A fileWriter writes a snapshot or a part.
type fileWriter struct {
	f      disk.File // nil: closed
	number uint64
	off    int64 // of buf in the file
	buf    []byte
	sum    count
	err    error // of a write, which the caller of Append may have dropped
}

func (w *fileWriter) create(fs disk.FS, name string, typ byte, number uint64) error {
	f, err := fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	*w = fileWriter{f: f, number: number, buf: appendFileHeader(nil, typ, number, 0)}
	return w.flush()
}

// close gives up what is not finished.
func (w *fileWriter) close() {
	if w.f != nil {
		_ = w.f.Close() // nothing of it counts
		w.f = nil
	}
}

// Append adds a record.
func (w *fileWriter) Append(kind byte, payload []byte) error {
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

// Bytes is how long the file is so far.
func (w *fileWriter) Bytes() int64 { return w.off + int64(len(w.buf)) }

// batch writes the frame in buf.
func (w *fileWriter) batch() error {
	if len(w.buf) == 0 {
		return w.err
	}
	w.sum.batches++
	sealFrame(w.buf, frameBatch, w.number, w.off, 0)
	return w.flush()
}

func (w *fileWriter) flush() error {
	if w.err != nil {
		return w.err
	}
	n, err := w.f.Write(w.buf)
	w.off += int64(n)
	w.err, w.buf = err, w.buf[:0]
	return err
}

// finish writes the end, syncs and closes.
func (w *fileWriter) finish(parts []Part) error {
	err := w.batch()
	at := int64(0)
	if err == nil && len(parts) > 0 {
		at = w.off
		w.buf = append(w.buf, make([]byte, frameHead)...)
		for i := range parts {
			w.buf = parts[i].appendTo(w.buf)
		}
		sealFrame(w.buf, frameParts, w.number, w.off, 0)
		err = w.flush()
	}
	if err == nil {
		w.buf = appendEnd(append(w.buf, make([]byte, frameHead)...), w.sum, at)
		sealFrame(w.buf, frameEnd, w.number, w.off, 0)
		err = w.flush()
	}
	if err == nil {
		err = w.f.Sync()
	}
	if cerr := w.f.Close(); err == nil {
		err = cerr
	}
	w.f = nil
	return err
}

// sweep deletes what the newest snapshot replaces and what a Checkpoint that
// was interrupted left.
func (j *Journal) sweep(l listing) error {
	gone := l.tmp
	stray, err := l.strayParts(j.fs, j.dir)
	if err != nil {
		return err
	}
	gone = append(gone, stray...)
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
