package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Stats describes what a Replay has read.
type Stats struct {
	Snapshot uint64 // number of the snapshot, 0 if there is none
	Segments int    // 0 means that dir holds no journal
	Batches  int64
	Records  int64
	Bytes    int64 // sum of the payload lengths
	// Torn is the number of bytes that a crash left unusable at the end of the last segment, TornFile the name of
	// that segment. Torn is 0 if there are none.
	Torn     int64
	TornFile string
}

// Replay calls fn for each record: first those of the newest snapshot, then those of its parts, then those of the
// segments after it. Within a file the order is that of appending. payload is valid until fn returns. If fn returns an
// error, Replay stops and returns that error. Replay changes nothing on disk. If dir holds no journal, there are no
// records and no error.
//
// If bytes cannot be read, the error is a *DamageError. Replay has then called fn for the records before them.
func Replay(fs disk.FS, dir string, fn func(kind byte, payload []byte) error) (Stats, error) {
	return ReplayWithout(fs, dir, nil, fn)
}

// ReplayWithout is Replay without the parts for which skip returns true. A nil skip skips none.
func ReplayWithout(
	fs disk.FS, dir string, skip func(Part) bool, fn func(kind byte, payload []byte) error,
) (Stats, error) {
	f, err := List(fs, dir)
	if err != nil {
		return Stats{}, err
	}
	err = f.replay(skip, fn)
	return f.st, err
}

// A listing holds the files of a journal's directory, in ascending order.
type listing struct {
	segments, snapshots []uint64
	partNames, tmp      []string
}

func list(fs disk.FS, dir string) (listing, error) {
	var l listing
	es, err := fs.ReadDir(dir)
	if err != nil {
		return l, err
	}
	for _, e := range es {
		name := e.Name()
		if n, ok := number(name, "journal-"); ok {
			l.segments = append(l.segments, n)
		} else if n, ok := number(name, "snapshot-"); ok && n > 0 {
			l.snapshots = append(l.snapshots, n)
		} else if _, _, ok := partNumber(name); ok {
			l.partNames = append(l.partNames, filepath.Join(dir, name))
		} else if base := name[:max(0, len(name)-len(".tmp"))]; base+".tmp" == name {
			if _, ok := number(base, "snapshot-"); ok {
				l.tmp = append(l.tmp, filepath.Join(dir, name))
			}
		}
	}
	slices.Sort(l.segments)
	slices.Sort(l.snapshots)
	return l, nil
}

// newest returns the number of the newest snapshot, 0 if there is none.
func (l listing) newest() uint64 {
	if len(l.snapshots) == 0 {
		return 0
	}
	return l.snapshots[len(l.snapshots)-1]
}

// live returns the segments that a Replay reads. A missing segment is a *DamageError.
func (l listing) live(dir string) ([]uint64, error) {
	first := max(l.newest(), firstSegment)
	segs := l.segments
	for len(segs) > 0 && segs[0] < first {
		segs = segs[1:]
	}
	missing := first + uint64(len(segs))
	for i, n := range segs {
		if n != first+uint64(i) {
			missing = first + uint64(i)
			break
		}
	}
	// The segment of the same number is created before the snapshot, so it must exist.
	if missing < first+uint64(len(segs)) || len(segs) == 0 && l.newest() > 0 {
		return nil, &DamageError{File: segmentName(dir, missing), Reason: "segment is missing"}
	}
	return segs, nil
}

// scanOptions tells how to read a file.
type scanOptions struct {
	typ    byte
	number uint64
	last   bool  // the last segment: a torn tail is not damage
	prev   int64 // size of the previous segment, -1 if it was not read
	part   *Part // nil, or the part that the file must be
	// unsure is set to the number of records that no later frame calls durable. Nil: nobody asks.
	unsure *int64
}

// A scanner reads one file frame by frame.
type scanner struct {
	scanOptions
	name string
	f    disk.File
	r    *bufio.Reader
	size int64
	off  int64 // of the next frame
	head [fileHeader]byte
	body []byte
	sum  count
	end  bool  // the end frame was read
	at   int64 // offset of the frame of parts; 0: none so far

	unsureFrames []unsureFrame // the frames that no later frame calls durable; only if unsure is set
}

// An unsureFrame is a frame that may not have been durable when the file was last written.
type unsureFrame struct {
	end     int64 // offset behind it
	records uint64
}

// noteUnsure counts the records of the frame that ends at end. synced is the durable prefix that its header names.
func (s *scanner) noteUnsure(synced, end int64, records uint64) {
	n := 0
	for n < len(s.unsureFrames) && s.unsureFrames[n].end <= synced {
		*s.unsure -= int64(s.unsureFrames[n].records)
		n++
	}
	s.unsureFrames = append(s.unsureFrames[n:], unsureFrame{end, records})
	*s.unsure += int64(records)
}

// scan reads a file, calls fn for each record, and adds to st. fn may be nil. good is the length of the prefix that
// consists of whole frames.
func scan(fs disk.FS, name string, how scanOptions, st *Stats, fn func(byte, []byte) error) (good int64, err error) {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	s := scanner{scanOptions: how, name: name, f: f, r: bufio.NewReaderSize(f, 256<<10), size: fi.Size()}
	whole, err := s.header()
	for err == nil && whole && s.off < s.size {
		if whole, err = s.frame(st, fn); !whole && err == nil {
			err = s.provenDamage()
		}
	}
	if err != nil {
		return s.off, err
	}
	if s.typ != typeSegment && !s.end {
		return s.off, s.damage("the end of the %s is missing", s.kind())
	}
	if s.part != nil && (s.sum != s.part.sum || s.size != s.part.Bytes) {
		return s.off, s.damage("the file is not the part to which the snapshot refers")
	}
	if !whole {
		if !s.last {
			return s.off, s.damage("no whole frame, in a segment that was closed")
		}
		st.Torn, st.TornFile = s.size-s.off, name
	}
	return s.off, nil
}

func (s *scanner) damage(format string, args ...any) error {
	return &DamageError{File: s.name, Offset: s.off, Reason: fmt.Sprintf(format, args...)}
}

// header reads the header of the file. whole is false if the header is torn.
func (s *scanner) header() (whole bool, err error) {
	n, err := io.ReadFull(s.r, s.head[:min(fileHeader, s.size)])
	if err != nil {
		return false, fmt.Errorf("read %s: %w", s.name, err)
	}
	prev, err := parseFileHeader(s.head[:n], s.typ, s.number)
	switch {
	case err == nil:
	case errors.Is(err, ErrVersion):
		return false, fmt.Errorf("%s: %w", s.name, err)
	// A file of header size or less can be torn: nothing is appended before the header is synced.
	case s.last && s.size <= fileHeader:
		return false, nil
	default:
		return false, s.damage("%v", err)
	}
	if s.typ == typeSegment && s.prev >= 0 && uint64(s.prev) != prev {
		return false, s.damage("the previous segment has %d bytes; it had %d when it was closed", s.prev, prev)
	}
	s.off = fileHeader
	return true, nil
}

// frame reads the next frame. whole is false if the bytes at s.off are not a whole frame.
func (s *scanner) frame(st *Stats, fn func(byte, []byte) error) (whole bool, err error) {
	if s.end {
		return false, s.damage("%d bytes after the end of the %s", s.size-s.off, s.kind())
	}
	if s.at > 0 && s.size-s.off != frameHead+endBody {
		return false, s.damage("no end frame after the frame of parts")
	}
	if s.size-s.off < frameHead {
		return false, nil
	}
	if _, err := io.ReadFull(s.r, s.head[:frameHead]); err != nil {
		return false, fmt.Errorf("read %s: %w", s.name, err)
	}
	h, ok := parseFrame(s.head[:frameHead], s.number, s.off)
	if !ok || int64(h.length) > s.size-s.off-frameHead {
		return false, nil
	}
	if h.length > MaxBatch {
		return false, s.damage("a frame of %d bytes, limit %d", h.length, MaxBatch)
	}
	if cap(s.body) < int(h.length) {
		s.body = make([]byte, max(h.length, 4096))
	}
	s.body = s.body[:h.length]
	if _, err := io.ReadFull(s.r, s.body); err != nil {
		return false, fmt.Errorf("read %s: %w", s.name, err)
	}
	if crc32.Checksum(s.body, castagnoli) != h.crc {
		return false, nil
	}
	before := s.sum.records
	switch h.typ {
	case frameEnd:
		err = s.finish()
	case frameParts:
		err = s.partsFrame()
	default:
		err = s.batch(st, fn)
	}
	if err != nil {
		return true, err
	}
	s.off += frameHead + int64(h.length)
	if s.unsure != nil {
		s.noteUnsure(int64(h.synced), s.off, s.sum.records-before)
	}
	return true, nil
}

// batch calls fn for each record of s.body, after it has checked that all of them are well formed.
func (s *scanner) batch(st *Stats, fn func(byte, []byte) error) error {
	records := int64(0)
	for rest := s.body; len(rest) > 0; records++ {
		var ok bool
		if _, _, rest, ok = nextRecord(rest); !ok {
			return s.damage("record %d of the batch is malformed", records)
		}
	}
	bytes := int64(0)
	for rest := s.body; len(rest) > 0; {
		var kind byte
		var payload []byte
		kind, payload, rest, _ = nextRecord(rest)
		bytes += int64(len(payload))
		if fn == nil {
			continue
		}
		if err := fn(kind, payload); err != nil {
			return fmt.Errorf("%s at byte %d: %w", s.name, s.off, err)
		}
	}
	s.sum.batches++
	s.sum.records += uint64(records)
	s.sum.bytes += uint64(bytes)
	st.Batches++
	st.Records += records
	st.Bytes += bytes
	return nil
}

// partsFrame checks a frame of parts and remembers its offset. listing.parts reads its content.
func (s *scanner) partsFrame() error {
	if _, ok := parseParts(s.body); !ok || s.typ != typeSnapshot {
		return s.damage("a malformed frame of parts")
	}
	s.at = s.off
	return nil
}

// finish checks an end frame.
func (s *scanner) finish() error {
	if s.typ == typeSegment {
		return s.damage("a segment contains an end frame")
	}
	if want := appendEnd(nil, s.sum, s.at); string(want) != string(s.body) {
		return s.damage("the totals in the end frame differ from the %d records read", s.sum.records)
	}
	s.end = true
	return nil
}

// kind returns the word for the type of the file.
func (s *scanner) kind() string {
	return [...]string{typeSegment: "segment", typeSnapshot: "snapshot", typePart: "part"}[s.typ]
}

// knownHeader returns an error if head is not a valid header of this file.
func (s *scanner) knownHeader(head []byte) error {
	_, err := parseFileHeader(head, s.typ, s.number)
	switch {
	case errors.Is(err, ErrVersion):
		return fmt.Errorf("%s: %w", s.name, err)
	case err != nil:
		return s.damage("%v", err)
	}
	return nil
}

// frameAt reads the frame at off, without moving the reader.
func (s *scanner) frameAt(off int64) (typ byte, body []byte, err error) {
	if off < fileHeader || off > s.size-frameHead {
		return 0, nil, s.damage("no frame at byte %d", off)
	}
	if _, err := s.f.ReadAt(s.head[:frameHead], off); err != nil {
		return 0, nil, fmt.Errorf("read %s: %w", s.name, err)
	}
	h, ok := parseFrame(s.head[:frameHead], s.number, off)
	if !ok || int64(h.length) > s.size-off-frameHead || h.length > MaxBatch {
		return 0, nil, s.damage("no whole frame")
	}
	body = make([]byte, h.length)
	if _, err := s.f.ReadAt(body, off+frameHead); err != nil {
		return 0, nil, fmt.Errorf("read %s: %w", s.name, err)
	}
	if crc32.Checksum(body, castagnoli) != h.crc {
		return 0, nil, s.damage("no whole frame")
	}
	return h.typ, body, nil
}

// provenDamage returns a *DamageError if a frame after s.off says that the bytes at s.off had been on disk. It returns
// nil if there is no such frame: then the bytes are a torn tail.
func (s *scanner) provenDamage() error {
	const chunk = 64 << 10
	buf := make([]byte, chunk+frameHead-1)
	for at := s.off + 1; at+frameHead <= s.size; at += chunk {
		n, err := s.f.ReadAt(buf[:min(int64(len(buf)), s.size-at)], at)
		if err != nil && err != io.EOF {
			return fmt.Errorf("read %s: %w", s.name, err)
		}
		for i := 0; i+frameHead <= n; i++ {
			// Check the cheap condition first: could this frame be a proof?
			synced := binary.LittleEndian.Uint64(buf[i+8:])
			if synced <= uint64(s.off) || synced > math.MaxInt64 || int64(synced) > at+int64(i) {
				continue
			}
			if _, ok := parseFrame(buf[i:n], s.number, at+int64(i)); ok {
				return s.damage(
					"no whole frame, but the frame at byte %d says that the first %d bytes had been on disk",
					at+int64(i), synced)
			}
		}
	}
	return nil
}
