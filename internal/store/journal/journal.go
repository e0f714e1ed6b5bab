// Package journal answers: what had this crawl accepted and finished when it stopped, even by a kill or power failure?
//
//	Append(batch) -> buffer -> Commit: write(2) -> Sync: fsync
//	Replay: newest snapshot -> the segments after it -> fn(kind, payload)
//
// A batch is a slice of records. Replay returns all records of a batch or none. It returns the batches in the order
// in which they were appended, and stops at the first batch that a crash cut off. Batches that Commit wrote survive
// the death of the process. Batches that Sync wrote survive the death of the machine. The caller defines the kinds and
// payloads. One goroutine owns a Journal. The package starts no goroutines.
//
// # Files
//
// A segment, journal-%08d.log, only grows. A snapshot, snapshot-%08d.log of number N, holds the state before the first
// frame of segment N, as batches that the caller wrote. Once it exists, segments and snapshots of smaller numbers are
// deleted.
//
// Large pieces of that state are stored in parts, part-%08d-%04d.log of number N and an index. Later snapshots may
// refer to an existing part instead of writing it again. A part to which the newest snapshot does not refer is deleted.
// Numbers are little-endian. Checksums are CRC-32C.
//
//	file header, 36 bytes
//	 0  8  magic "owjrnl\r\n"
//	 8  2  version, 1
//	10  1  type: 1 segment, 2 snapshot, 3 part
//	11  5  zero
//	16  8  number, as in the file's name; in a part, plus its index times 2^40
//	24  8  in a segment, size of the previous segment when it was closed, 0 if
//	       there was none; in other files 0
//	32  4  checksum of the preceding 32 bytes
//
//	frame, 24 bytes and a body
//	 0  4  length of the body, at most 64 MiB
//	 4  4  checksum of the body
//	 8  8  bytes of this file that were on disk (fsync) when the frame was made
//	16  1  type: 1 batch, 2 end of a snapshot or part, 3 parts of a snapshot
//	17  3  zero
//	20  4  checksum of the preceding 20 bytes, XOR the frame's offset in the file,
//	       XOR both halves of the file's number times 0x9e3779b1, all modulo 2^32
//	24     body
//
//	body of a batch: its records, one after the other
//	 0  1  kind
//	 1  v  length of the payload, unsigned varint
//	       payload
//
//	body of a frame of parts: for each part, in the order in which Replay reads them
//	 0  8  number and index, as in the part's header
//	 8  8  size of the file in bytes
//	16 24  batches, records and payload bytes, as in the part's end
//	40  v  length of the label, unsigned varint
//	       label, which the caller defines
//
//	body of the end, which is the last frame of the file
//	 0  8  number of batches in the file
//	 8  8  number of records in the file
//	16  8  sum of the payload lengths in bytes
//	24  8  offset of the frame of parts, 0 if there is none
//
// # Damage
//
// A crash can tear only bytes that were never synced, at the end of the last segment. Replay stops there and counts
// the torn bytes; Open cuts them off. All other unreadable bytes are a DamageError. The third field of a frame tells
// the two apart: if a readable frame after the bad bytes says that they had been on disk, they have changed since. No
// function ever skips bad bytes and goes on.
package journal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Config tunes a Journal. The zero Config is valid.
type Config struct {
	// BufferBytes is the amount of batches in RAM at which Append calls Commit. Zero means 1 MiB.
	BufferBytes int
	References  References // nil: batches refer to no other file
}

// References are the files that batches refer to: the archive and the logs. If a method returns an error, the
// Journal stops.
type References interface {
	// Flush is called before every write of batches. It writes the files.
	Flush() error
	// Sync is called before every fsync of batches, after Flush. Syncing.Run calls it, perhaps on another goroutine
	// than the owner's.
	Sync() error
}

// A Record is one entry of a batch. The caller defines both fields.
type Record struct {
	Kind    byte
	Payload []byte
}

// A Journal appends to the last segment of a directory. After a failed write it is unknown which bytes reached the
// disk. Every later call therefore returns that first error and writes nothing. To recover, Close the Journal, remove
// the cause (for example make room) and Open it again: no committed batch is lost.
type Journal struct {
	fs  disk.FS
	dir string
	cfg Config

	file   disk.File
	number uint64 // of the current segment
	size   int64  // of the segment, as far as it is written
	synced int64  // the durable prefix of the segment
	since  int64  // bytes of the segments between the newest snapshot and this one
	buf    []byte // whole frames that follow size
	err    error  // the first error
	last   func() (r Record, ok bool)
	sure   int64 // records of the segment before those that may not have been durable when Open found them
}

// Open prepares the journal in dir for appending and creates it if there is none. It cuts off a torn tail, removes the
// remains of an interrupted snapshot, deletes files that the newest snapshot replaced, and syncs the last segment. Of
// the segments it reads only the last one; only Replay finds damage in the others. The caller must hold the lock of
// the directory.
func Open(fs disk.FS, dir string, cfg Config) (*Journal, error) {
	if cfg.BufferBytes <= 0 {
		cfg.BufferBytes = 1 << 20
	}
	j := &Journal{fs: fs, dir: dir, cfg: cfg}
	if err := j.open(); err != nil {
		if j.file != nil {
			_ = j.file.Close() // nothing was appended to it
		}
		return nil, fmt.Errorf("open journal %s: %w", dir, err)
	}
	return j, nil
}

func (j *Journal) open() error {
	if err := j.fs.MkdirAll(j.dir, 0o755); err != nil {
		return err
	}
	if err := j.fs.SyncDir(filepath.Dir(filepath.Clean(j.dir))); err != nil {
		return err
	}
	l, err := list(j.fs, j.dir)
	if err != nil {
		return err
	}
	// The name of the snapshot must be durable before the files that it replaced are deleted.
	if err := j.fs.SyncDir(j.dir); err != nil {
		return err
	}
	if err := j.sweep(l); err != nil {
		return err
	}
	segs, err := l.live(j.dir)
	if err != nil {
		return err
	}
	if len(segs) == 0 {
		return j.create(firstSegment, 0)
	}
	prev := int64(-1)
	for _, n := range segs[:len(segs)-1] {
		fi, err := j.fs.Stat(segmentName(j.dir, n))
		if err != nil {
			return err
		}
		prev = fi.Size()
		j.since += prev
	}
	return j.reopen(segs[len(segs)-1], prev)
}

// create starts segment number and makes its header and its name durable.
func (j *Journal) create(number uint64, prev int64) error {
	f, err := j.fs.OpenFile(segmentName(j.dir, number), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	j.file, j.number = f, number
	_, err = f.Write(appendFileHeader(nil, typeSegment, number, uint64(prev)))
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = j.fs.SyncDir(j.dir)
	}
	j.size, j.synced = fileHeader, fileHeader
	return err
}

// reopen continues segment number after its last whole frame.
func (j *Journal) reopen(number uint64, prev int64) error {
	var st Stats
	unsure := int64(0)
	how := scanOptions{typ: typeSegment, number: number, last: true, prev: prev, unsure: &unsure}
	good, err := scan(j.fs, segmentName(j.dir, number), how, &st, nil)
	if err != nil {
		return err
	}
	j.sure = st.Records - unsure
	if good < fileHeader {
		return j.create(number, max(prev, 0))
	}
	f, err := j.fs.OpenFile(segmentName(j.dir, number), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	j.file, j.number = f, number
	if st.Torn > 0 {
		if err := f.Truncate(good); err != nil {
			return err
		}
	}
	if _, err := f.Seek(good, io.SeekStart); err != nil {
		return err
	}
	if err := f.Sync(); err != nil { // a killed process may have left the data in the page cache only
		return err
	}
	j.size, j.synced = good, good
	return nil
}

// Append adds a batch. After a crash, Replay returns all of its records or none. Append copies the records into the
// buffer. It writes only if the buffer exceeds Config.BufferBytes. An empty batch has no effect. A batch over MaxBatch
// is ErrTooLarge and does not stop the Journal.
func (j *Journal) Append(batch []Record) error {
	if j.err != nil {
		return j.err
	}
	if len(batch) == 0 {
		return nil
	}
	if err := j.add(batch); err != nil {
		return err
	}
	if len(j.buf) >= j.cfg.BufferBytes {
		return j.Commit()
	}
	return nil
}

// EndWith sets a function that may supply a closing record for each write. The Journal calls last before every write,
// after References.Flush. If ok is true, it writes r as a batch of its own after all other batches. If a replay later
// finds r, it has also found all batches before r. Nil turns this off.
func (j *Journal) EndWith(last func() (r Record, ok bool)) { j.last = last }

// add puts a batch into the buffer as one frame.
func (j *Journal) add(batch []Record) error {
	n := 0
	for i := range batch {
		n += 11 + len(batch[i].Payload)
	}
	if n > MaxBatch {
		return fmt.Errorf("append %d records: %w (%d bytes, limit %d)", len(batch), ErrTooLarge, n, MaxBatch)
	}
	start := len(j.buf)
	j.buf = append(j.buf, make([]byte, frameHead)...)
	for i := range batch {
		j.buf = appendRecord(j.buf, batch[i].Kind, batch[i].Payload)
	}
	sealFrame(j.buf[start:], frameBatch, j.number, j.size+int64(start), j.synced)
	return nil
}

// sealFrame writes the header of frame b, whose body is in place. The frame starts at byte off of file number.
func sealFrame(b []byte, typ byte, number uint64, off, synced int64) {
	body := b[frameHead:]
	frame{uint32(len(body)), crc32.Checksum(body, castagnoli), uint64(synced), typ}.put(b, number, off)
}

// Commit writes all appended batches to the file. They then survive the death of the process.
func (j *Journal) Commit() error {
	if j.err != nil || len(j.buf) == 0 {
		return j.err
	}
	if j.cfg.References != nil {
		if err := j.cfg.References.Flush(); err != nil {
			return j.fail(err)
		}
	}
	if j.last != nil {
		if r, ok := j.last(); ok {
			if err := j.add([]Record{r}); err != nil {
				return j.fail(err)
			}
		}
	}
	n, err := j.file.Write(j.buf)
	j.size += int64(n)
	if err == nil && n < len(j.buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return j.fail(fmt.Errorf("commit journal: %w", err))
	}
	const keep = 4 << 20 // do not keep the memory of a rare huge batch
	if j.buf = j.buf[:0]; cap(j.buf) > j.cfg.BufferBytes+keep {
		j.buf = nil
	}
	return nil
}

// Sync commits, and blocks until all appended batches would survive a power failure.
func (j *Journal) Sync() error {
	s, err := j.BeginSync()
	if err != nil {
		return err
	}
	return j.EndSync(s, s.Run())
}

// A Syncing is a Sync in progress. An fsync takes time. Meanwhile the owner of the Journal may call Append and Commit,
// but not Begin, Sync or Close.
type Syncing struct {
	file  disk.File // nil: nothing to sync
	size  int64
	first References
}

// BeginSync commits. The batches committed so far are durable after Syncing.Run has succeeded and EndSync was called.
func (j *Journal) BeginSync() (*Syncing, error) {
	if err := j.Commit(); err != nil {
		return nil, err
	}
	if j.synced == j.size {
		return &Syncing{}, nil
	}
	return &Syncing{file: j.file, size: j.size, first: j.cfg.References}, nil
}

// Run calls References.Sync and fsync; it blocks for both. Any goroutine may call it, once.
func (s *Syncing) Run() error {
	if s.file == nil {
		return nil
	}
	if s.first != nil {
		if err := s.first.Sync(); err != nil {
			return err
		}
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("sync journal: %w", err)
	}
	return nil
}

// EndSync records the result of a Syncing. err is the result of Run; if it is not nil, the Journal stops.
func (j *Journal) EndSync(s *Syncing, err error) error {
	switch {
	case err != nil:
		return j.fail(err)
	case s.file != nil:
		j.synced = s.size
	}
	return nil
}

func (j *Journal) fail(err error) error {
	j.err = err
	return err
}

// Sure returns how many records at the front of the last segment an fsync is known to have covered when Open found
// them. Of the files that Config.References has written for the records after them, a power failure may have lost some
// bytes. All records of earlier files were covered.
func (j *Journal) Sure() int64 { return j.sure }

// SegmentBytes returns the size of the current segment in bytes, including the buffer in RAM.
func (j *Journal) SegmentBytes() int64 { return j.size + int64(len(j.buf)) }

// SinceSnapshot returns how many bytes a Replay would read in addition to the snapshot. The caller uses it to decide
// when to write the next snapshot.
func (j *Journal) SinceSnapshot() int64 { return j.since + j.SegmentBytes() }

// Close syncs all appended batches and closes the file. If the Journal has failed, it only closes the file. It returns
// the first error. A second Close does nothing.
func (j *Journal) Close() error {
	if errors.Is(j.err, ErrClosed) {
		return nil
	}
	err := j.Sync()
	if cerr := j.file.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("close journal: %w", cerr)
	}
	j.err, j.buf = ErrClosed, nil
	return err
}
