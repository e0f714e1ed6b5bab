package consensus

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// keepSnapshots is the number of snapshots on disk. If the newest one is damaged, the one before it and the log are
// enough, because the log keeps the entries since.
const keepSnapshots = 2

// A snapshotStore is a raft.SnapshotStore with one file a snapshot. Safe for concurrent use.
type snapshotStore struct {
	fs       disk.FS
	dir      string
	health   *health
	log      *logStore
	stopping <-chan struct{} // closed: the writing of a snapshot ends

	mu     sync.Mutex // guards newest
	newest raft.SnapshotMeta
}

// latest returns the newest snapshot, or zeros.
func (s *snapshotStore) latest() raft.SnapshotMeta {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

func snapshotName(dir string, index, term uint64) string {
	return filepath.Join(dir, fmt.Sprintf("snapshot-%020d-%020d", index, term))
}

// parseSnapshotName is the reverse of snapshotName.
func parseSnapshotName(base string) (index, term uint64, ok bool) {
	s, ok := strings.CutPrefix(base, "snapshot-")
	if !ok || len(s) != 41 || s[20] != '-' {
		return 0, 0, false
	}
	index, err := strconv.ParseUint(s[:20], 10, 64)
	term, err2 := strconv.ParseUint(s[21:], 10, 64)
	return index, term, err == nil && err2 == nil
}

// clean removes what a crash left of an unfinished snapshot.
func (s *snapshotStore) clean() error {
	_, tmp, err := numbered(s.fs, s.dir, "snapshot-")
	for _, name := range tmp {
		err = errors.Join(err, s.fs.Remove(name))
	}
	return err
}

// names returns the names of the snapshots, the newest one first.
func (s *snapshotStore) names() ([]string, error) {
	es, err := s.fs.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range es {
		if _, _, ok := parseSnapshotName(e.Name()); ok {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names, nil
}

// List implements raft.SnapshotStore. It returns the newest snapshot, which is the only one that raft may use.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	names, err := s.names()
	if err != nil || len(names) == 0 {
		return nil, err
	}
	meta, r, err := s.Open(names[0])
	if err != nil {
		return nil, err
	}
	return []*raft.SnapshotMeta{meta}, r.Close()
}

// Open implements raft.SnapshotStore. The reader fails at the end of the data if the checksum is wrong.
func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	name := filepath.Join(s.dir, id)
	f, err := s.fs.OpenFile(name, os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) { // a newer one has replaced it
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, s.health.fail(err)
	}
	meta, r, err := readSnapshot(f, id)
	if err != nil {
		return nil, nil, s.health.fail(errors.Join(err, f.Close()))
	}
	r.health = s.health
	return meta, r, nil
}

func appendSnapshotHead(dst []byte, index, term uint64, configuration []byte, at uint64) []byte {
	start := len(dst)
	dst = append(dst, snapshotMagic...)
	for _, n := range []uint64{index, term, at} {
		dst = le.AppendUint64(dst, n)
	}
	dst = le.AppendUint32(dst, uint32(len(configuration)))
	dst = append(dst, configuration...)
	return le.AppendUint32(dst, checksum(dst[start:]))
}

func appendSnapshotTail(dst []byte, size int64, sum uint32) []byte {
	start := len(dst)
	dst = le.AppendUint64(dst, uint64(size))
	dst = le.AppendUint32(dst, sum)
	return le.AppendUint32(dst, checksum(dst[start:]))
}

func readSnapshot(f disk.File, id string) (*raft.SnapshotMeta, *snapshotReader, error) {
	damaged := func(off int64, reason string) error { return &DamageError{f.Name(), off, reason} }
	i, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	var fixed [snapshotHead]byte
	if _, err := f.ReadAt(fixed[:], 0); err != nil && err != io.EOF {
		return nil, nil, err
	}
	n := int64(le.Uint32(fixed[32:]))
	data := snapshotHead + n + 4
	switch {
	case string(fixed[:7]) != snapshotMagic[:7] || n > maxConfiguration || data+snapshotTail > i.Size():
		return nil, nil, damaged(0, "it is not a snapshot")
	case fixed[7] != snapshotMagic[7]:
		return nil, nil, fmt.Errorf("%s has format version %d; use a program that reads it, this one reads version %d",
			f.Name(), fixed[7], snapshotMagic[7])
	}
	head, tail := make([]byte, data), make([]byte, snapshotTail)
	size := i.Size() - data - snapshotTail
	if _, err := f.ReadAt(head, 0); err != nil && err != io.EOF {
		return nil, nil, err
	}
	if _, err := f.ReadAt(tail, data+size); err != nil && err != io.EOF {
		return nil, nil, err
	}
	index, term, _ := parseSnapshotName(id)
	switch {
	case checksum(head[:data-4]) != le.Uint32(head[data-4:]):
		return nil, nil, damaged(0, "the checksum of the header is wrong")
	case checksum(tail[:12]) != le.Uint32(tail[12:]) || le.Uint64(tail) != uint64(size):
		return nil, nil, damaged(data+size, "its end is missing")
	case le.Uint64(head[8:]) != index || le.Uint64(head[16:]) != term:
		return nil, nil, damaged(8, "its name says another entry")
	}
	if _, err := f.Seek(data, io.SeekStart); err != nil {
		return nil, nil, err
	}
	meta := &raft.SnapshotMeta{Version: 1, ID: id, Index: index, Term: term, Size: size,
		Configuration:      raft.DecodeConfiguration(head[snapshotHead : data-4]), // cannot fail: the checksum is right
		ConfigurationIndex: le.Uint64(head[24:])}
	return meta, &snapshotReader{file: f, left: size, want: le.Uint32(tail[8:])}, nil
}

// A snapshotReader reads the data of a snapshot.
type snapshotReader struct {
	file   disk.File
	health *health
	left   int64
	sum    uint32
	want   uint32
}

func (r *snapshotReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		if r.sum != r.want {
			return 0, r.health.fail(&DamageError{r.file.Name(), 0, "the checksum of the data is wrong"})
		}
		return 0, io.EOF
	}
	n, err := r.file.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	r.sum = crc32.Update(r.sum, castagnoli, p[:n])
	if err == io.EOF {
		if err = nil; r.left > 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, r.health.fail(err)
}

func (r *snapshotReader) Close() error { return r.file.Close() }

var errStopping = errors.New("the coordinator stops")

func (s *snapshotStore) Create(_ raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	at uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	if err := s.health.err(); err != nil {
		return nil, err
	}
	name := snapshotName(s.dir, index, term)
	f, err := s.fs.OpenFile(name+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, s.health.fail(err)
	}
	k := &sink{store: s, name: name, file: f, w: bufio.NewWriterSize(f, 256<<10), index: index}
	_, err = k.w.Write(appendSnapshotHead(nil, index, term, raft.EncodeConfiguration(configuration), at))
	if err != nil {
		return nil, errors.Join(s.health.fail(err), k.Cancel())
	}
	return k, nil
}

// A sink writes a snapshot. It appears under its name when it is complete and durable.
// It implements raft.SnapshotSink.
type sink struct {
	store *snapshotStore
	name  string
	file  disk.File
	w     *bufio.Writer
	index uint64
	size  int64
	sum   uint32
	done  bool
}

func (k *sink) ID() string { return filepath.Base(k.name) }

func (k *sink) Write(p []byte) (int, error) {
	select {
	case <-k.store.stopping:
		return 0, errStopping
	default:
	}
	n, err := k.w.Write(p)
	k.size += int64(n)
	k.sum = crc32.Update(k.sum, castagnoli, p[:n])
	return n, k.store.health.fail(err)
}

func (k *sink) Cancel() error {
	if k.done {
		return nil
	}
	k.done = true
	return errors.Join(k.file.Close(), k.store.fs.Remove(k.name+".tmp"))
}

func (k *sink) Close() error {
	if k.done {
		return nil
	}
	k.done = true
	s := k.store
	_, err := k.w.Write(appendSnapshotTail(nil, k.size, k.sum))
	if err == nil {
		err = k.w.Flush()
	}
	if err == nil {
		err = k.file.Sync()
	}
	if err = errors.Join(err, k.file.Close()); err != nil {
		return s.health.fail(errors.Join(err, s.fs.Remove(k.name+".tmp")))
	}
	if err = s.fs.Rename(k.name+".tmp", k.name); err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	if err == nil {
		err = s.prune()
	}
	return s.health.fail(err)
}

func closeIf(c io.Closer) error {
	if c == nil {
		return nil
	}
	return c.Close()
}

// prune removes all but the newest snapshots, and tells the log which entries they need.
func (s *snapshotStore) prune() error {
	names, err := s.names()
	if err != nil {
		return err
	}
	pruned := len(names) > keepSnapshots
	for len(names) > keepSnapshots {
		if err := s.fs.Remove(filepath.Join(s.dir, names[len(names)-1])); err != nil {
			return err
		}
		names = names[:len(names)-1]
	}
	keep, newest := uint64(1), raft.SnapshotMeta{}
	if len(names) > 0 {
		meta, r, err := s.Open(names[0])
		if err = errors.Join(err, closeIf(r)); err != nil {
			return err
		}
		newest = *meta
	}
	if len(names) == keepSnapshots {
		oldest, _, _ := parseSnapshotName(names[len(names)-1])
		keep = oldest + 1
	}
	s.mu.Lock()
	s.newest = newest
	s.mu.Unlock()
	s.log.retain(keep, newest.Index, newest.Term)
	if !pruned {
		return nil
	}
	return s.fs.SyncDir(s.dir)
}
