// Package journal answers: what had this crawl accepted and finished when it
// stopped, however it stopped?
//
//	Append(batch) -> buffer -> Commit: write(2) -> Sync: fsync
//	Replay: newest snapshot -> the segments after it -> fn(kind, payload)
//
// A batch is a slice of records, and Replay gives all of its records or none.
// What Commit wrote survives the death of the process, what Sync wrote that of
// the machine, and Replay gives a prefix of what was appended, in its order,
// that has all of that. Kinds and payloads belong to the caller. One goroutine
// owns a Journal; it starts none of its own.
//
// # Files
//
// A segment journal-%08d.log is only appended to. snapshot-%08d.log of number
// N holds, in batches as the caller wrote them, the state before the first
// frame of segment N; segments and snapshots of smaller numbers are then
// deleted. What of that state is large stands in parts, part-%08d-%04d.log of
// number N and an index, which later snapshots may take over as they are; a
// part that the newest snapshot does not name is deleted. Numbers are
// little-endian, checksums are CRC-32C.
//
//	file header, 36 bytes
//	 0  8  magic "owjrnl\r\n"
//	 8  2  version, 2
//	10  1  type: 1 segment, 2 snapshot, 3 part
//	11  5  zero
//	16  8  number, as in the file's name; of a part plus its index times 2^40
//	24  8  segment: size of the segment before it when that was closed, 0 if
//	       there was none; others: 0
//	32  4  checksum of the 32 bytes before
//
//	frame, 24 bytes and a body
//	 0  4  length of the body, at most 64 MiB
//	 4  4  checksum of the body
//	 8  8  bytes of this file that were on disk (fsync) when the frame was made
//	16  1  type: 1 batch, 2 end of a snapshot or part, 3 parts of a snapshot
//	17  3  zero
//	20  4  checksum of the 20 bytes before, XOR the frame's offset in the file,
//	       XOR both halves of the file's number times 0x9e3779b1, all modulo 2^32
//	24     body
//
//	body of a batch: its records, one after the other
//	 0  1  kind
//	 1  v  length of the payload, unsigned varint
//	       payload
//
//	body of the parts, in the order in which Replay reads them, for each
//	 0  8  number and index, as in the part's header
//	 8  8  size of the file
//	16 24  as in the part's end
//	40  v  length of the label, unsigned varint
//	       label, which is the caller's
//
//	body of the end: four 8-byte numbers, the batches, records and payload
//	bytes of the file, and where its frame of parts begins, 0 for none. Nothing
//	follows it.
//
// # Damage
//
// A crash can tear only what was never synced, at the end of the last segment:
// Replay stops there and counts it, Open cuts it off. Anything else that
// cannot be read is a DamageError. The two are told apart by the frames'
// third field: a readable frame behind the bad bytes that says that those had
// been on disk means that they changed since. Nothing is ever skipped.
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

// Config tunes a Journal. The zero Config is good.
type Config struct {
	// BufferBytes is how much Append keeps in RAM before it commits by
	// itself. Zero means 1 MiB.
	BufferBytes int
	// Before is called ahead of every write of batches, so that what they
	// speak of (the archive, the logs) is written first. Its error stops the
	// Journal. Nil does nothing.
	Before func() error
	// BeforeSync is called ahead of every fsync of batches, after Before.
	BeforeSync func() error
}

// A Record is one entry of a batch.
type Record struct {
	Kind    byte
	Payload []byte
}

// A Journal appends to the last segment of a directory. After the first error
// of a write it does nothing any more but to repeat that error, since nobody
// knows what reached the disk; Close it, make room and Open it again: no batch
// that was committed is lost.
type Journal struct {
	fs  disk.FS
	dir string
	cfg Config

	file   disk.File
	number uint64 // of the segment
	size   int64  // of the segment on disk
	synced int64  // as much of it survives a power failure
	since  int64  // bytes of the segments between the newest snapshot and this one
	buf    []byte // whole frames that follow size
	err    error  // the first one
	last   func() (r Record, ok bool)
}

// Open makes dir's journal ready for appending, or a new one in dir. It cuts a
// torn tail off, finishes or removes what a crash left of a snapshot and syncs
// the last segment. It reads that segment only; damage elsewhere is found by
// Replay.
func Open(fs disk.FS, dir string, cfg Config) (*Journal, error) {
	if cfg.BufferBytes <= 0 {
		cfg.BufferBytes = 1 << 20
	}
	j := &Journal{fs: fs, dir: dir, cfg: cfg}
	if err := j.open(); err != nil {
		if j.file != nil {
			_ = j.file.Close() // nothing of ours is in it
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
	// The snapshot's name must last before what it replaces goes.
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

// create starts segment number and makes it durable, header and name.
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

// reopen goes on at the end of the last whole frame of segment number.
func (j *Journal) reopen(number uint64, prev int64) error {
	var st Stats
	good, err := scan(j.fs, segmentName(j.dir, number), scanning{typ: typeSegment, number: number, last: true, prev: prev}, &st, nil)
	if err != nil {
		return err
	}
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
	if err := f.Sync(); err != nil { // a killed process may have left it in the page cache
		return err
	}
	j.size, j.synced = good, good
	return nil
}

// Append adds a batch, all of whose records survive or none. It copies them
// into the buffer and writes only when that is full. An empty batch is
// nothing.
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

// EndWith has last asked, ahead of every write and after Config.Before, for a
// record to write behind all others, a batch of its own: a batch before it was
// written whole if it is there.
func (j *Journal) EndWith(last func() (r Record, ok bool)) { j.last = last }

// add puts a batch into the buffer.
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

// sealFrame writes the header of a frame whose body is in place.
func sealFrame(b []byte, typ byte, number uint64, off, synced int64) {
	body := b[frameHead:]
	frame{uint32(len(body)), crc32.Checksum(body, castagnoli), uint64(synced), typ}.put(b, number, off)
}

// Commit writes what was appended: it survives the death of the process.
func (j *Journal) Commit() error {
	if j.err != nil || len(j.buf) == 0 {
		return j.err
	}
	if j.cfg.Before != nil {
		if err := j.cfg.Before(); err != nil {
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
	const keep = 4 << 20 // a rare giant batch does not stay in RAM
	if j.buf = j.buf[:0]; cap(j.buf) > j.cfg.BufferBytes+keep {
		j.buf = nil
	}
	return nil
}

// Sync commits, and returns when it survives the death of the machine.
func (j *Journal) Sync() error {
	s, err := j.BeginSync()
	if err != nil {
		return err
	}
	return j.EndSync(s, s.Run())
}

// A Syncing is a Sync on its way: disks take their time, in which the
// Journal's owner may append and commit, but not Begin, Sync or Close.
type Syncing struct {
	file   disk.File // nil: there is nothing to do
	size   int64
	before func() error
}

// BeginSync commits what EndSync will have made durable.
func (j *Journal) BeginSync() (*Syncing, error) {
	if err := j.Commit(); err != nil {
		return nil, err
	}
	if j.synced == j.size {
		return &Syncing{}, nil
	}
	return &Syncing{file: j.file, size: j.size, before: j.cfg.BeforeSync}, nil
}

// Run does what takes time: Config.BeforeSync and fsync. It may be called by
// another goroutine than the Journal's owner.
func (s *Syncing) Run() error {
	if s.file == nil {
		return nil
	}
	if s.before != nil {
		if err := s.before(); err != nil {
			return err
		}
	}
	if err := s.file.Sync(); err != nil {
		return fmt.Errorf("sync journal: %w", err)
	}
	return nil
}

// EndSync takes note of a Syncing that has run with this error.
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

// Err is the error that stopped the Journal, or nil.
func (j *Journal) Err() error { return j.err }

// SegmentBytes is the size of the current segment with what is still in RAM.
func (j *Journal) SegmentBytes() int64 { return j.size + int64(len(j.buf)) }

// SinceSnapshot is how many bytes a Replay would read besides the snapshot: the
// measure of when to make the next one.
func (j *Journal) SinceSnapshot() int64 { return j.since + j.SegmentBytes() }

// Close syncs what was appended, unless the Journal has failed, and closes the
// file. It returns the first error of all.
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
