package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	iofs "io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Stats says what a Replay read.
type Stats struct {
	Snapshot uint64 // the number of the snapshot, 0 for none
	Segments int    // 0 means that there is no journal
	Batches  int64
	Records  int64
	Bytes    int64 // of payloads
	// Torn is how many bytes at the end of the last segment a crash left
	// unusable, and TornFile its name.
	Torn     int64
	TornFile string
}

// Replay gives fn the records of the newest snapshot, of the parts that it
// stands on, and then those of the segments after it, in the order in which
// they were appended. A payload is
// valid until fn returns; an error of fn ends the Replay. It changes nothing
// on disk. A dir without a journal gives no records and no error.
//
// The error for bytes that cannot be read is a *DamageError; fn has had the
// records before them.
func Replay(fs disk.FS, dir string, fn func(kind byte, payload []byte) error) (Stats, error) {
	return ReplayWithout(fs, dir, nil, fn)
}

// ReplayWithout is Replay without the parts that skip names.
func ReplayWithout(fs disk.FS, dir string, skip func(Part) bool, fn func(kind byte, payload []byte) error) (Stats, error) {
	var st Stats
	l, err := list(fs, dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return st, nil
	}
	if err == nil {
		err = l.replay(fs, dir, replaying{skip: skip}, &st, fn)
	}
	if err != nil {
		return st, fmt.Errorf("replay %s: %w", dir, err)
	}
	return st, nil
}

// A replaying says which part of a journal is to be read.
type replaying struct {
	closed bool // all segments have successors, so that none has a torn tail
	recent bool // without the snapshot
	skip   func(Part) bool
}

func (l listing) replay(fs disk.FS, dir string, how replaying, st *Stats, fn func(byte, []byte) error) error {
	segs, err := l.live(dir)
	if err != nil {
		return err
	}
	if st.Snapshot = l.newest(); st.Snapshot > 0 && !how.recent {
		s := scanning{typ: typeSnapshot, number: st.Snapshot}
		if _, err := scan(fs, snapshotName(dir, st.Snapshot), s, st, fn); err != nil {
			return err
		}
		ps, err := l.parts(fs, dir)
		if err != nil {
			return err
		}
		for i := range ps {
			if how.skip != nil && how.skip(ps[i]) {
				continue
			}
			if err := ps[i].scan(fs, dir, st, fn); err != nil {
				return err
			}
		}
	}
	prev := int64(-1)
	for i, n := range segs {
		s := scanning{typ: typeSegment, number: n, last: !how.closed && i == len(segs)-1, prev: prev}
		if prev, err = scan(fs, segmentName(dir, n), s, st, fn); err != nil {
			return err
		}
		st.Segments++
	}
	return nil
}

// A listing is what lies in a journal's directory, in ascending order.
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

// newest is the number of the newest snapshot, 0 for none.
func (l listing) newest() uint64 {
	if len(l.snapshots) == 0 {
		return 0
	}
	return l.snapshots[len(l.snapshots)-1]
}

// live returns the segments that a Replay reads. None may be missing.
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
	// A snapshot is never older than its segment.
	if missing < first+uint64(len(segs)) || len(segs) == 0 && l.newest() > 0 {
		return nil, &DamageError{File: segmentName(dir, missing), Reason: "segment is missing"}
	}
	return segs, nil
}

// A scanning says how a file is to be read.
type scanning struct {
	typ    byte
	number uint64
	last   bool  // a torn tail is no damage
	prev   int64 // size of the segment before, -1 where that was not read
	part   *Part // that the file is to be
}

// A scanner reads one file frame by frame.
type scanner struct {
	scanning
	name string
	f    disk.File
	r    *bufio.Reader
	size int64
	off  int64 // of the next frame
	head [fileHeader]byte
	body []byte
	sum  count
	end  bool  // the end of a snapshot or part was read
	at   int64 // of its frame of parts; 0: none
}

// scan reads a file, gives fn its records (a nil fn wants none), adds to st,
// and returns how many bytes from the start are whole frames.
func scan(fs disk.FS, name string, how scanning, st *Stats, fn func(byte, []byte) error) (good int64, err error) {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	s := scanner{scanning: how, name: name, f: f, r: bufio.NewReaderSize(f, 256<<10), size: fi.Size()}
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
		return s.off, s.damage("%s without its end", s.kind())
	}
	if s.part != nil && (s.sum != s.part.sum || s.size != s.part.Bytes) {
		return s.off, s.damage("not the part that the snapshot stands on")
	}
	if !whole {
		if !s.last {
			return s.off, s.damage("no whole frame")
		}
		st.Torn, st.TornFile = s.size-s.off, name
	}
	return s.off, nil
}

func (s *scanner) damage(format string, args ...any) error {
	return &DamageError{File: s.name, Offset: s.off, Reason: fmt.Sprintf(format, args...)}
}

// header reads the file's header; whole is false where it is torn.
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
	// A segment is nothing but its header until that is synced.
	case s.last && s.size <= fileHeader:
		return false, nil
	default:
		return false, s.damage("%v", err)
	}
	if s.typ == typeSegment && s.prev >= 0 && uint64(s.prev) != prev {
		return false, s.damage("the segment before has %d bytes and had %d", s.prev, prev)
	}
	s.off = fileHeader
	return true, nil
}

// frame reads the next frame; whole is false where the bytes are none.
func (s *scanner) frame(st *Stats, fn func(byte, []byte) error) (whole bool, err error) {
	if s.end {
		return false, s.damage("%d bytes behind the end of the %s", s.size-s.off, s.kind())
	}
	if s.at > 0 && s.size-s.off != frameHead+endBody {
		return false, s.damage("no end behind the frame of parts")
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
		return false, s.damage("a frame of %d bytes", h.length)
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
	return true, nil
}

// batch gives fn the records of s.body once all of them are known to be well formed.
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

// partsFrame reads a snapshot's frame of parts only for its place: who wants the
// parts asks listing.parts.
func (s *scanner) partsFrame() error {
	if _, ok := parseParts(s.body); !ok || s.typ != typeSnapshot {
		return s.damage("a malformed frame of parts")
	}
	s.at = s.off
	return nil
}

func (s *scanner) finish() error {
	if s.typ == typeSegment {
		return s.damage("the end of a snapshot in a segment")
	}
	if want := appendEnd(nil, s.sum, s.at); string(want) != string(s.body) {
		return s.damage("the end counts other records than these %d", s.sum.records)
	}
	s.end = true
	return nil
}

// kind names what is read.
func (s *scanner) kind() string {
	return [...]string{typeSegment: "segment", typeSnapshot: "snapshot", typePart: "part"}[s.typ]
}

// knownHeader says what is wrong with a file's header.
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

// frameAt reads the frame at off, out of turn.
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

// provenDamage looks behind the bytes at s.off, which are no frame, for a frame
// that says that they had been on disk.
func (s *scanner) provenDamage() error {
	const chunk = 64 << 10
	buf := make([]byte, chunk+frameHead-1)
	for at := s.off + 1; at+frameHead <= s.size; at += chunk {
		n, err := s.f.ReadAt(buf[:min(int64(len(buf)), s.size-at)], at)
		if err != nil && err != io.EOF {
			return fmt.Errorf("read %s: %w", s.name, err)
		}
		for i := 0; i+frameHead <= n; i++ {
			// The cheap question first: what frame could be the proof?
			synced := binary.LittleEndian.Uint64(buf[i+8:])
			if synced <= uint64(s.off) || synced > math.MaxInt64 || int64(synced) > at+int64(i) {
				continue
			}
			if _, ok := parseFrame(buf[i:n], s.number, at+int64(i)); ok {
				return s.damage("no whole frame, although the frame at byte %d says that all up to byte %d had been on disk", at+int64(i), synced)
			}
		}
	}
	return nil
}
