package boundary

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// fileBytes is the size at which a file is finished. A file is removed as a whole, so its size bounds the disk that
// acknowledged pages take.
const fileBytes = 64 << 20

// A Store keeps pages for other agents. Safe for concurrent use.
type Store struct {
	fs  disk.FS
	dir string
	w   *warc.Writer

	mu      sync.Mutex     // guards the fields below; held while a file is removed
	waiting map[string]int // pages by file
	current string         // the file that was written last
}

// StoreConfig tunes a Store.
type StoreConfig struct {
	// Level is the compression level of the records, as in warc.Config.
	Level int
	// Clock tells the time for names of files. Nil means clock.System.
	Clock clock.Clock

	fileBytes int64 // for tests; 0 means the constant
}

// Open opens the Store in dir and repairs the files of an earlier run.
func Open(fsys disk.FS, dir string, cfg StoreConfig) (*Store, error) {
	cfg.fileBytes = cmp.Or(cfg.fileBytes, fileBytes)
	w, _, err := warc.Open(warc.Config{Dir: dir, FS: fsys, Prefix: "boundary", Level: cfg.Level, Clock: cfg.Clock,
		MaxBytes: cfg.fileBytes, RevisitBytes: -1})
	if err != nil {
		return nil, err
	}
	return &Store{fs: fsys, dir: dir, w: w, waiting: map[string]int{}}, nil
}

// Write stores the records of an exchange. It returns when they are in memory; see Flush and Sync.
func (s *Store) Write(x *warc.Exchange) (link.Stored, error) {
	done, err := s.w.Write(x)
	if err != nil {
		return link.Stored{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[done.File]++
	s.current = done.File
	return link.Stored{File: done.File, From: done.Offset, To: done.End}, nil
}

// Hold names a page of an earlier run that still waits. It reports whether the Store has the whole page: a power
// failure may have destroyed it.
func (s *Store) Hold(at link.Stored) (whole bool, err error) {
	if filepath.Base(at.File) != at.File {
		return false, nil
	}
	info, err := s.fs.Stat(filepath.Join(s.dir, "archive", at.File))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("boundary pages: %w", err)
	case info.Size() < at.To:
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[at.File]++
	return true, nil
}

// Tidy removes the files of earlier runs without a page that Hold has named.
func (s *Store) Tidy() error {
	entries, err := s.fs.ReadDir(filepath.Join(s.dir, "archive"))
	if err != nil {
		return fmt.Errorf("boundary pages: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".warc.gz") && s.waiting[name] == 0 && name != s.current {
			if err := s.remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// Read opens the records of a page. The caller closes the reader.
func (s *Store) Read(at link.Stored) (io.ReadCloser, error) {
	if err := s.w.Flush(); err != nil {
		return nil, err
	}
	f, err := warc.OpenWARC(s.fs, s.dir, at.File)
	if err != nil {
		return nil, fmt.Errorf("boundary page: %w", err)
	}
	return page{io.NewSectionReader(f, at.From, at.To-at.From), f}, nil
}

type page struct {
	io.Reader
	io.Closer
}

// Whole reports whether the records of a page can be read.
func (s *Store) Whole(at link.Stored) bool {
	r, err := s.Read(at)
	if err != nil {
		return false
	}
	defer r.Close()
	records := warc.NewReader(r)
	for n := 0; ; n++ {
		rec, err := records.Next()
		if errors.Is(err, io.EOF) {
			return n > 0
		}
		if err == nil {
			_, err = io.Copy(io.Discard, rec)
		}
		if err != nil {
			return false
		}
	}
}

// Release gives up pages that other agents have. When the last page of a file is released, the file is removed.
// Call it when the journal tells durably that the pages have arrived.
func (s *Store) Release(pages []link.Stored) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range pages {
		if n := s.waiting[at.File]; n > 0 {
			s.waiting[at.File] = n - 1
		}
	}
	for name, n := range s.waiting {
		if n == 0 && name != s.current {
			if err := s.remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a file. If the Writer has not finished it yet, the file stays until the next Release. The caller
// holds mu.
func (s *Store) remove(name string) error {
	switch err := warc.Remove(s.fs, s.dir, name); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("boundary pages: %w", err)
	}
	delete(s.waiting, name)
	return nil
}

// Waiting returns the number of pages that wait.
func (s *Store) Waiting() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.waiting {
		n += int64(k)
	}
	return n
}

// Flush hands everything written so far to the operating system.
func (s *Store) Flush() error {
	if s == nil {
		return nil
	}
	return s.w.Flush()
}

// Sync waits until everything written so far is on the disk.
func (s *Store) Sync() error {
	if s == nil {
		return nil
	}
	return s.w.Sync()
}

// Close finishes the current file, and removes the files of which no page waits.
func (s *Store) Close() error {
	if err := s.w.Close(); err != nil {
		return err
	}
	s.mu.Lock()
	s.current = ""
	s.mu.Unlock()
	return s.Release(nil)
}
