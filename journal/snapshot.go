package journal

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"os"

	"github.com/orbweaver/orbweaver/disk"
)

// snapshotFrame is the size at which a snapshot's records are closed into a
// frame.
const snapshotFrame = 256 << 10

// Snapshot replaces all that was appended so far by what write appends: the
// records from which the same state can be rebuilt. It syncs and closes the
// current segment, starts the next one, writes the snapshot beside it and only
// then deletes what that replaces, so that a crash at any instant leaves the
// old or the new state to Replay.
//
// An error of write or of the disk under the snapshot leaves the Journal
// usable with the old snapshot and all segments; Err tells that from a failed
// Journal.
func (j *Journal) Snapshot(write func(append func(kind byte, payload []byte) error) error) error {
	if err := j.rotate(); err != nil {
		return err
	}
	tmp := snapshotName(j.dir, j.number) + ".tmp"
	err := j.writeSnapshot(tmp, write)
	if err == nil {
		err = j.fs.Rename(tmp, snapshotName(j.dir, j.number))
	}
	if err != nil {
		_ = j.fs.Remove(tmp) // best effort; Open removes it too
		return fmt.Errorf("snapshot %d: %w", j.number, err)
	}
	if err := j.fs.SyncDir(j.dir); err != nil {
		return fmt.Errorf("snapshot %d: %w", j.number, err)
	}
	j.since = 0
	l, err := list(j.fs, j.dir)
	if err == nil {
		err = j.sweep(l)
	}
	if err != nil {
		return fmt.Errorf("snapshot %d: delete what it replaces: %w", j.number, err)
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

func (j *Journal) writeSnapshot(name string, write func(func(byte, []byte) error) error) error {
	f, err := j.fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	w := snapshotWriter{f: f, number: j.number}
	w.buf = appendFileHeader(w.buf, typeSnapshot, j.number, 0)
	err = w.flush()
	if err == nil {
		err = write(w.append)
	}
	if err == nil {
		err = w.finish()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
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

// sweep deletes what the newest snapshot replaces and what a Snapshot that was
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
