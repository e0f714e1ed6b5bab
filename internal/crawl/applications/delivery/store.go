package delivery

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A Store has the Logs of a crawl's applications. Its methods are safe for concurrent use. A nil Store has no Logs.
type Store struct {
	fs           disk.FS
	dir          string
	segmentBytes int64

	mu   sync.Mutex // guards the fields below
	logs map[string]*Log
	gone map[string]bool // names of Logs that have ended and whose files are not deleted yet
}

// segmentBytes is the length at which a Log begins its next file.
const segmentBytes = 16 << 20

// Open opens the Logs in dir. The directory need not exist.
func Open(fsys disk.FS, dir string) (*Store, error) { return open(fsys, dir, segmentBytes) }

func open(fsys disk.FS, dir string, segment int64) (*Store, error) {
	s := &Store{fs: fsys, dir: dir, segmentBytes: segment, logs: map[string]*Log{},
		gone: map[string]bool{}}
	entries, err := fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if s.logs[e.Name()], err = openLog(fsys, filepath.Join(dir, e.Name()), segment); err != nil {
			s.Close() // the first error says more
			return nil, err
		}
	}
	return s, nil
}

// Log returns the Log with a name, or nil.
func (s *Store) Log(name string) *Log {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs[name]
}

// Create returns the Log with a name, and creates it if there is none. The name must be valid for a file.
func (s *Store) Create(name string) (*Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.logs[name]; l != nil {
		return l, nil
	}
	if err := s.delete(name); err != nil {
		return nil, err
	}
	if err := s.fs.MkdirAll(s.dir, 0o755); err != nil {
		return nil, err
	}
	l, err := openLog(s.fs, filepath.Join(s.dir, name), s.segmentBytes)
	if err == nil {
		err = errors.Join(s.fs.SyncDir(s.dir), s.fs.SyncDir(filepath.Dir(s.dir)))
	}
	if err != nil {
		return nil, fmt.Errorf("pages of %s: %w", name, err)
	}
	s.logs[name] = l
	return l, nil
}

// Keep deletes the Logs whose names keep does not have. After an error, the next call deletes their files.
func (s *Store) Keep(keep func(name string) bool) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.logs {
		if keep(name) {
			continue
		}
		l.end()
		delete(s.logs, name)
		s.gone[name] = true
	}
	var errs []error
	for name := range s.gone {
		errs = append(errs, s.delete(name))
	}
	return errors.Join(errs...)
}

// delete deletes the files of a Log that has ended. The caller holds mu.
func (s *Store) delete(name string) error {
	if !s.gone[name] {
		return nil
	}
	if err := s.fs.RemoveAll(filepath.Join(s.dir, name)); err != nil {
		return fmt.Errorf("delete the pages of %s: %w", name, err)
	}
	delete(s.gone, name)
	return nil
}

// Names returns the names of the Logs.
func (s *Store) Names() (names []string) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.logs))
}

// all returns the Logs.
func (s *Store) all() (logs []*Log) {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.logs))
}

// Flush hands all lines to the operating system, so that they survive a kill of the process.
func (s *Store) Flush() (err error) {
	for _, l := range s.all() {
		err = errors.Join(err, l.flush())
	}
	return err
}

// Sync makes all lines durable. Other goroutines may append meanwhile.
func (s *Store) Sync() (err error) {
	for _, l := range s.all() {
		err = errors.Join(err, l.sync())
	}
	return err
}

// Syncing is told that a sync of the owner's journal begins, which calls Sync. The owner calls durable when all records
// so far are durable. From then on Read returns the lines that were there at the call of Syncing.
func (s *Store) Syncing() (durable func()) {
	logs := s.all()
	ends := make([]int64, len(logs))
	for i, l := range logs {
		ends[i] = l.end64()
	}
	return func() {
		for i, l := range logs {
			l.publish(ends[i])
		}
	}
}

// Close closes the files.
func (s *Store) Close() (err error) {
	for _, l := range s.all() {
		err = errors.Join(err, l.close())
	}
	return err
}
