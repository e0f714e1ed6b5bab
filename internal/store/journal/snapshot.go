package journal

import (
	"cmp"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"slices"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// snapshotFrame is the size in bytes at which the records of a snapshot or part are written as one frame.
const snapshotFrame = 256 << 10

// A Checkpoint is a snapshot while it is being written. It replaces all batches that were appended before Begin.
// Between Begin and Adopt, another goroutine than the owner of the Journal may use it, while the owner goes on to
// append.
type Checkpoint struct {
	fs     disk.FS
	dir    string
	number uint64
	tmp    string
	since  int64 // bytes of the segments that it replaces
	fileWriter
	parts []Part // the parts to which it will refer
	made  int    // parts created for it, abandoned ones included
}

// Begin syncs and closes the current segment, starts the next one, and creates a Checkpoint of everything before it.
// The caller must Adopt or Abandon the Checkpoint before the next Begin.
func (j *Journal) Begin() (*Checkpoint, error) {
	if err := j.rotate(); err != nil {
		return nil, err
	}
	c := &Checkpoint{fs: j.fs, dir: j.dir, number: j.number, tmp: snapshotName(j.dir, j.number) + ".tmp",
		since: j.since}
	if err := c.create(c.fs, c.tmp, typeSnapshot, c.number); err != nil {
		c.Abandon()
		return nil, fmt.Errorf("snapshot %d: %w", c.number, err)
	}
	return c, nil
}

// Files returns the files that the Checkpoint replaces.
func (c *Checkpoint) Files() (*Files, error) {
	l, err := list(c.fs, c.dir)
	later := func(n uint64) bool { return n >= c.number }
	l.segments = slices.DeleteFunc(l.segments, later)
	l.snapshots = slices.DeleteFunc(l.snapshots, later)
	return &Files{fs: c.fs, dir: c.dir, l: l, closed: true}, err
}

// Replay calls fn for each record that the Checkpoint replaces, like the function Replay. If recent is true, it leaves
// out the previous snapshot and its parts.
func (c *Checkpoint) Replay(recent bool, fn func(kind byte, payload []byte) error) error {
	f, err := c.Files()
	if err != nil {
		return err
	}
	if recent {
		return f.Segments(func(_ bool, kind byte, p []byte) error { return fn(kind, p) })
	}
	return f.replay(nil, fn)
}

// Finish completes the snapshot and makes it durable, but not yet valid: pass its result to Adopt.
func (c *Checkpoint) Finish() error {
	if c.made > 0 { // the names of the parts must be durable before the name of the snapshot
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

// Abandon deletes the Checkpoint and its new parts. The files that it would have replaced stay.
func (c *Checkpoint) Abandon() {
	c.close()
	_ = c.fs.Remove(c.tmp) // best effort; Open removes the file too
	for i := range c.made {
		_ = c.fs.Remove(partName(c.dir, c.number, uint32(i))) // best effort; Open removes the file too
	}
}

// Adopt makes a finished Checkpoint the newest snapshot and deletes the files that it replaces. If a crash interrupts
// it, Replay returns either the old or the new state. err is the result of Finish; if it is not nil, Adopt returns it
// and changes nothing. Only the owner of the Journal may call Adopt.
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
		return fmt.Errorf("snapshot %d: delete the replaced files: %w", c.number, err)
	}
	return nil
}

// rotate syncs and closes the current segment and starts the next one.
func (j *Journal) rotate() error {
	if err := j.Sync(); err != nil {
		return err
	}
	old, size := j.file, j.size
	if err := j.create(j.number+1, size); err != nil {
		if j.file != old {
			_ = old.Close() // it is synced; the caller needs create's error
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
	err    error // the first error of a write; kept because a caller of Append may ignore it
}

func (w *fileWriter) create(fs disk.FS, name string, typ byte, number uint64) error {
	f, err := fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	*w = fileWriter{f: f, number: number, buf: appendFileHeader(nil, typ, number, 0)}
	return w.flush()
}

// close closes the file of a snapshot or part that is not finished.
func (w *fileWriter) close() {
	if w.f != nil {
		_ = w.f.Close() // the content is not needed
		w.f = nil
	}
}

// Append adds a record. It writes to the file only when a frame of 256 KiB is full. The first error is final.
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

// Bytes returns the length of the file so far, including what is still in RAM.
func (w *fileWriter) Bytes() int64 { return w.off + int64(len(w.buf)) }

// batch writes the buffered records as one frame.
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

// finish writes the remaining records, the frame of parts and the end; then it syncs and closes the file.
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
	err = cmp.Or(err, w.f.Close())
	w.f = nil
	return err
}

// sweep deletes the files that the newest snapshot replaces and the remains of an interrupted Checkpoint.
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
