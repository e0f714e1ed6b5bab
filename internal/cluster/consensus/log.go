package consensus

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A logStore is a raft.LogStore in segment files. The index of its records is in RAM. Each call that changes it is
// durable when it returns. Safe for concurrent use.
//
// After the first failure of the disk it changes nothing any more, and GetLog no longer fails: see (*health).fail.
type logStore struct {
	fs     disk.FS
	dir    string
	limit  int64 // the size at which the next batch begins a new segment
	health *health

	writing turn       // one call at a time changes the log
	mu      sync.Mutex // guards the fields below, and those of the segments; never held across a call of the disk
	segs    []*segment
	keep    uint64 // entries from here on stay on disk, unless all entries are deleted
	base    head   // index and term of the last entry in the newest snapshot
	grown   int64  // bytes of records since the newest snapshot
}

// A segment is one file with consecutive entries.
type segment struct {
	name string
	file disk.File
	recs []head // never empty, except while the first batch is written
	size int64
}

func (g *segment) first() uint64 { return g.recs[0].index }
func (g *segment) last() head    { return g.recs[len(g.recs)-1] }

func segmentName(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("log-%020d", first))
}

// numbered returns the numbers in the names of dir that start with prefix, and the names that end with ".tmp".
func numbered(fs disk.FS, dir, prefix string) (ns []uint64, tmp []string, err error) {
	es, err := fs.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range es {
		s, ok := strings.CutPrefix(e.Name(), prefix)
		if !ok {
			continue
		}
		if strings.HasSuffix(s, ".tmp") {
			tmp = append(tmp, filepath.Join(dir, e.Name()))
		} else if n, err := strconv.ParseUint(s, 10, 64); err == nil && len(s) == 20 {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	return ns, tmp, nil
}

// openLog reads all records of the log in dir. It cuts off what a crash has torn at the end.
func openLog(fs disk.FS, dir string, limit int64, h *health) (*logStore, error) {
	s := &logStore{fs: fs, dir: dir, limit: limit, health: h, writing: newTurn()}
	ns, _, err := numbered(fs, dir, "log-")
	if err != nil {
		return nil, err
	}
	for i, n := range ns {
		err := s.openSegment(n, i == len(ns)-1)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *logStore) openSegment(first uint64, newest bool) error {
	g := &segment{name: segmentName(s.dir, first)}
	var err error
	if g.file, err = s.fs.OpenFile(g.name, os.O_RDWR, 0o644); err != nil {
		return err
	}
	torn, err := g.scan(first, newest)
	if err == nil && len(s.segs) > 0 && len(g.recs) > 0 {
		if want := s.segs[len(s.segs)-1].last().index + 1; first != want {
			err = &DamageError{g.name, 0, fmt.Sprintf("it starts with entry %d; the segment before it ends before %d",
				first, want)}
		}
	}
	switch {
	case err == nil && len(g.recs) == 0: // a crash came before the first batch was synced
		if err = errors.Join(g.file.Close(), s.fs.Remove(g.name)); err == nil {
			err = s.fs.SyncDir(s.dir)
		}
		return err
	case err == nil && torn:
		if err = g.file.Truncate(g.size); err == nil {
			err = g.file.Sync()
		}
	}
	if err == nil {
		_, err = g.file.Seek(g.size, io.SeekStart)
	}
	if err != nil {
		return errors.Join(err, g.file.Close())
	}
	s.segs = append(s.segs, g)
	return nil
}

// scan fills g from its file. torn reports that bytes follow which a crash left unusable. Only the newest segment may
// have them.
func (g *segment) scan(first uint64, newest bool) (torn bool, err error) {
	r := &windowReader{file: g.file}
	b, err := r.at(0, segmentHead)
	if err != nil {
		return false, err
	}
	if err := parseSegmentHead(b, first); err != nil {
		if later, lerr := g.later(0); lerr != nil || !newest || later {
			return false, errors.Join(lerr, &DamageError{g.name, 0, err.Error()})
		}
		return true, nil
	}
	for g.size = segmentHead; ; {
		b, err := r.record(g.size)
		if err != nil {
			return false, err
		}
		h, ok := parseRecord(b, g.size)
		if want := first + uint64(len(g.recs)); ok && h.index != want {
			return false, &DamageError{g.name, g.size, fmt.Sprintf("entry %d stands where %d belongs", h.index, want)}
		}
		if !ok {
			end, err := g.file.Seek(0, io.SeekEnd)
			if err != nil || end == g.size {
				return false, err
			}
			later, err := g.later(g.size)
			if err == nil && (later || !newest) {
				err = &DamageError{g.name, g.size, "the bytes are not an entry, although they have been on disk"}
			}
			return true, err
		}
		g.recs = append(g.recs, h)
		g.size += h.size
	}
}

// later reports whether a record behind off says that the byte at off has been on disk.
func (g *segment) later(off int64) (bool, error) {
	r := &windowReader{file: g.file}
	for at := off; ; at++ {
		b, err := r.at(at, 4)
		if err != nil || len(b) < 4 {
			return false, err
		}
		if le.Uint32(b) != recordMagic {
			continue
		}
		if b, err = r.record(at); err != nil {
			return false, err
		}
		if h, ok := parseRecord(b, at); ok && h.synced > off {
			return true, nil
		}
	}
}

// A windowReader reads pieces of a file that lie close to each other.
type windowReader struct {
	file disk.File
	buf  []byte
	from int64
}

// at returns n bytes at off, or less if the file ends before. They are valid until the next call.
func (r *windowReader) at(off int64, n int) ([]byte, error) {
	if off < r.from || off+int64(n) > r.from+int64(len(r.buf)) {
		r.from = off
		if cap(r.buf) < max(n, 64<<10) {
			r.buf = make([]byte, max(n, 64<<10))
		}
		r.buf = r.buf[:cap(r.buf)]
		k, err := r.file.ReadAt(r.buf, off)
		r.buf = r.buf[:k]
		if err != nil && err != io.EOF {
			return nil, err
		}
	}
	b := r.buf[off-r.from:]
	return b[:min(n, len(b))], nil
}

// record returns the bytes of the record at off, as its head tells their number.
func (r *windowReader) record(off int64) ([]byte, error) {
	b, err := r.at(off, recordHead)
	if err != nil {
		return nil, err
	}
	return r.at(off, int(recordSize(b)))
}

func (s *logStore) FirstIndex() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segs) == 0 {
		return 0, nil
	}
	return s.segs[0].first(), nil
}

func (s *logStore) LastIndex() (uint64, error) {
	h := s.tail()
	return h.index, nil
}

// tail returns the newest record, or zeros.
func (s *logStore) tail() (h head) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.segs); n > 0 {
		h = s.segs[n-1].last()
	}
	return h
}

// find returns where entry index is. The caller holds mu.
func (s *logStore) find(index uint64) (*segment, head, bool) {
	for i := len(s.segs) - 1; i >= 0; i-- {
		if g := s.segs[i]; index >= g.first() {
			k := index - g.first()
			if k >= uint64(len(g.recs)) {
				break
			}
			return g, g.recs[k], true
		}
	}
	return nil, head{}, false
}

// GetLog implements raft.LogStore. If the log begins behind the newest snapshot, GetLog returns the last entry of the
// snapshot without its data. Raft needs its term: the leader sends the first entry of the log again if it has not got
// the response, and raft then asks the log for the entry before. A leader never sends the entry without data, because
// it first looks for the entry before it.
func (s *logStore) GetLog(index uint64, l *raft.Log) error {
	for {
		s.mu.Lock()
		g, h, ok := s.find(index)
		base := s.base
		s.mu.Unlock()
		if !ok && index == base.index && index > 1 {
			*l = raft.Log{Index: index, Term: base.term, Type: raft.LogNoop}
			return nil
		}
		if !ok {
			if s.health.err() != nil {
				*l = raft.Log{Index: index, Type: raft.LogNoop}
				return nil
			}
			return raft.ErrLogNotFound
		}
		b := make([]byte, h.size)
		_, err := g.file.ReadAt(b, h.off)
		if err == nil || err == io.EOF {
			if got, ok := parseRecord(b, h.off); ok && got == h {
				return decodeEntry(b, l)
			}
			err = &DamageError{g.name, h.off, fmt.Sprintf("entry %d cannot be read", index)}
		}
		s.mu.Lock()
		_, again, ok := s.find(index)
		s.mu.Unlock()
		if ok && again == h {
			s.health.fail(err)
			*l = raft.Log{Index: index, Term: h.term, Type: raft.LogNoop}
			return nil
		} // else it was deleted meanwhile
	}
}

// decodeEntry fills l from a record that parseRecord accepts. l keeps b.
func decodeEntry(b []byte, l *raft.Log) error {
	b = b[recordHead:]
	*l = raft.Log{Index: le.Uint64(b), Term: le.Uint64(b[8:]), Type: raft.LogType(b[16]), Data: b[entryHead:]}
	if at := int64(le.Uint64(b[17:])); at != 0 {
		l.AppendedAt = time.Unix(0, at)
	}
	return nil
}

// term returns the term of entry index, or 0 if the log does not have it.
func (s *logStore) term(index uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, h, _ := s.find(index)
	return h.term
}

func (s *logStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. The entries follow the last one of the log. If the log is empty, the first may
// have any index.
func (s *logStore) StoreLogs(ls []*raft.Log) error {
	s.writing.begin()
	defer s.writing.end()
	if err := s.health.err(); err != nil {
		return err
	}
	if len(ls) == 0 {
		return nil
	}
	next := ls[0].Index
	if last := s.tail().index; last > 0 {
		next = last + 1
	}
	for _, l := range ls {
		if l.Index != next || len(l.Data) > maxEntry {
			return fmt.Errorf("store entry %d with %d bytes: the next entry is %d, and entries have at most %d bytes",
				l.Index, len(l.Data), next, maxEntry)
		}
		next++
	}
	g, fresh, err := s.open(ls[0].Index)
	if err != nil {
		return s.health.fail(err)
	}
	synced := g.size
	if fresh {
		synced = 0 // the header is not synced yet
	}
	var b []byte
	var recs []head
	for _, l := range ls {
		off := g.size + int64(len(b))
		b = appendRecord(b, l, off, synced)
		recs = append(recs, head{off, g.size + int64(len(b)) - off, l.Index, l.Term, synced})
	}
	if _, err = g.file.Write(b); err == nil {
		err = g.file.Sync()
	}
	if err == nil && fresh {
		err = s.fs.SyncDir(s.dir)
	}
	if err != nil {
		if fresh {
			err = errors.Join(err, g.file.Close())
		}
		return s.health.fail(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.recs = append(g.recs, recs...)
	g.size += int64(len(b))
	s.grown += int64(len(b))
	if fresh {
		s.segs = append(s.segs, g)
	}
	return nil
}

// open returns the segment for a batch that starts with entry first. fresh reports that it is new.
func (s *logStore) open(first uint64) (g *segment, fresh bool, err error) {
	s.mu.Lock()
	if n := len(s.segs); n > 0 {
		g = s.segs[n-1]
	}
	s.mu.Unlock()
	if g != nil && g.size < s.limit {
		return g, false, nil
	}
	g = &segment{name: segmentName(s.dir, first)}
	if g.file, err = s.fs.OpenFile(g.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644); err != nil {
		return nil, false, err
	}
	b := appendSegmentHead(nil, first)
	if _, err = g.file.Write(b); err != nil {
		return nil, false, errors.Join(err, g.file.Close())
	}
	g.size = int64(len(b))
	return g, true, nil
}

// DeleteRange implements raft.LogStore. It deletes entries from the end of the log, or whole segments from its
// beginning: entries in the same segment as a later one stay, and so do those that the older snapshot needs.
func (s *logStore) DeleteRange(from, to uint64) error {
	s.writing.begin()
	defer s.writing.end()
	if err := s.health.err(); err != nil {
		return err
	}
	s.mu.Lock()
	keep := s.keep
	s.mu.Unlock()
	var err error
	if to >= s.tail().index {
		err = s.deleteFrom(from)
	} else {
		err = s.deleteTo(min(to, keep-1))
	}
	return s.health.fail(err)
}

// deleteTo deletes the segments whose entries are all at most to, the oldest one first.
func (s *logStore) deleteTo(to uint64) error {
	for {
		s.mu.Lock()
		if len(s.segs) < 2 || s.segs[0].last().index > to {
			s.mu.Unlock()
			return nil
		}
		g := s.segs[0]
		s.segs = s.segs[1:]
		s.mu.Unlock()
		if err := s.remove(g); err != nil {
			return err
		}
	}
}

// deleteFrom deletes all entries from index from on, the newest segment first. So a crash leaves no gap.
func (s *logStore) deleteFrom(from uint64) error {
	for {
		s.mu.Lock()
		n := len(s.segs)
		if n == 0 || s.segs[n-1].last().index < from {
			s.mu.Unlock()
			return nil
		}
		g := s.segs[n-1]
		if from <= g.first() {
			s.segs = s.segs[:n-1]
			s.mu.Unlock()
			if err := s.remove(g); err != nil {
				return err
			}
			continue
		}
		k := from - g.first()
		size := g.recs[k].off
		g.recs, g.size = g.recs[:k:k], size
		s.mu.Unlock()
		if err := g.file.Truncate(size); err != nil {
			return err
		}
		if err := g.file.Sync(); err != nil {
			return err
		}
		_, err := g.file.Seek(size, io.SeekStart)
		return err
	}
}

// remove deletes the file of g, durably: the order of removals survives a crash.
func (s *logStore) remove(g *segment) error {
	if err := errors.Join(g.file.Close(), s.fs.Remove(g.name)); err != nil {
		return err
	}
	return s.fs.SyncDir(s.dir)
}

// IsMonotonic implements raft.MonotonicLogStore: the log has no gaps.
func (s *logStore) IsMonotonic() bool { return true }

// retain keeps the entries from index keep on, and counts the bytes of the log behind the newest snapshot, whose last
// entry has this index and term.
func (s *logStore) retain(keep, newest, term uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep, s.base, s.grown = keep, head{index: newest, term: term}, 0
	for _, g := range s.segs {
		for _, h := range g.recs {
			if h.index > newest {
				s.grown += h.size
			}
		}
	}
}

// bytes returns how much the log has grown since the newest snapshot.
func (s *logStore) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grown
}

func (s *logStore) close() error {
	s.writing.begin()
	defer s.writing.end()
	var errs []error
	for _, g := range s.segs {
		errs = append(errs, g.file.Close())
	}
	s.segs = nil
	return errors.Join(errs...)
}
