// Package spare answers: which archive files of other agents does this agent have copies of, and which pages do they
// have?
//
//	another agent's finished file -> Append, part after part -> NAME.part -> digest -> fsync -> NAME: a copy
//	a lost agent's copies         -> Read -> the keys of their pages, sorted, on disk -> Has: are these pages there?
//
// The copies of an agent's files have a folder of their own, DIR/AGENT-INSTANCE:
//
//	archive/NAME   a copy; so tools read the folder like a crawl directory
//	NAME.sha256    its digest, in the form that sha256sum -c reads
//	NAME.part      the beginning of a file
//	NAME.damaged   a copy that lost its digest
//	pages.keys     the keys of the pages in all copies, 16 bytes each
//
// A copy counts only if its bytes have its digest: Read reads all copies of an agent before Has answers.
//
// A Store is safe for concurrent use. No method holds more than some parts in memory.
package spare

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

const (
	// Suffix ends the name of an archive file that is copied.
	Suffix = ".warc.gz"
	// MaxName bounds the name of a file.
	MaxName = 200

	archiveDir = "archive"

	partSuffix, sumSuffix, damagedSuffix = ".part", ".sha256", ".damaged"
)

// A File is a finished archive file.
type File struct {
	Name   string // without a directory
	Size   int64
	Digest [sha256.Size]byte
}

// ErrName reports a name that no archive file has.
var ErrName = errors.New("not the name of an archive file")

// CheckName returns an ErrName if an archive file cannot have the name.
func CheckName(name string) error {
	if len(name) > MaxName || !strings.HasSuffix(name, Suffix) || name == Suffix || disk.SafeName(name) != name {
		return fmt.Errorf("%w: %.40q", ErrName, name)
	}
	return nil
}

// A Store keeps the copies in a directory.
type Store struct {
	fs     disk.FS
	dir    string
	memory int // for sorting keys

	mu      sync.Mutex // guards folders
	folders map[string]*folder
}

// A folder has the copies of one agent's files.
type folder struct {
	files, bytes atomic.Int64 // of copies

	mu     sync.Mutex // guards the fields below; locked during each method of the Store
	copies map[string]File
	keys   *keys // of the pages; nil: not known
	tries  int   // failed attempts to read the copies
	given  bool  // they cannot be read
}

// count counts the copies. f.mu is held.
func (f *folder) count() {
	n := int64(0)
	for _, c := range f.copies {
		n += c.Size
	}
	f.files.Store(int64(len(f.copies)))
	f.bytes.Store(n)
}

// New returns the Store of a directory, which need not exist. Sorting the keys of pages takes about memory bytes.
func New(fs disk.FS, dir string, memory int) *Store {
	return &Store{fs: fs, dir: dir, memory: memory, folders: map[string]*folder{}}
}

// Folder returns the name of the folder with the copies of an agent's files.
func Folder(agent string, instance [16]byte) string {
	return fmt.Sprintf("%s-%x", disk.SafeName(agent), instance[:4])
}

// folder returns a folder.
func (s *Store) folder(of string) *folder {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.folders[of]
	if f == nil {
		f = &folder{}
		s.folders[of] = f
	}
	return f
}

// open returns a folder, locked.
func (s *Store) open(of string) (*folder, error) {
	f := s.folder(of)
	f.mu.Lock()
	return f, s.know(of, f)
}

// tryOpen is open. Its error is ErrNotRead if Read reads the folder.
func (s *Store) tryOpen(of string) (*folder, error) {
	f := s.folder(of)
	if !f.mu.TryLock() {
		return nil, ErrNotRead
	}
	return f, s.know(of, f)
}

// know reads which copies a folder has, unless it is known. After an error the folder is not locked.
func (s *Store) know(of string, f *folder) error {
	if f.copies != nil {
		return nil
	}
	copies, err := s.list(of)
	if err != nil {
		f.mu.Unlock()
		return err
	}
	f.copies = copies
	f.count()
	return nil
}

// list reads which copies a folder has.
func (s *Store) list(of string) (map[string]File, error) {
	copies := map[string]File{}
	entries, err := s.fs.ReadDir(s.path(of, archiveDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if CheckName(e.Name()) != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return nil, err
		}
		c := File{Name: e.Name(), Size: info.Size()}
		text, err := disk.ReadFile(s.fs, s.path(of, c.Name+sumSuffix), 1<<10)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if sum, _, _ := strings.Cut(string(text), " "); len(sum) == hex.EncodedLen(len(c.Digest)) {
			if _, err := hex.Decode(c.Digest[:], []byte(sum)); err == nil {
				copies[c.Name] = c
			}
		}
	}
	return copies, nil
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// Folders returns the names of all folders.
func (s *Store) Folders() (names []string, err error) {
	entries, err := s.fs.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Files returns the copies in a folder, in no order.
func (s *Store) Files(of string) (list []File, err error) {
	f, err := s.open(of)
	if err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.copies)), nil
}

// Append appends data to the part of a file that is there, and returns how many bytes are there then. If offset is not
// their number, it appends nothing: the sender continues where the bytes end. When all bytes are there, and have the
// digest, the copy is durable. If they do not have it, Append returns 0, and the sender begins again.
func (s *Store) Append(of string, file File, offset int64, data []byte) (have int64, err error) {
	if err := CheckName(file.Name); err != nil {
		return 0, err
	}
	f, err := s.open(of)
	if err != nil {
		return 0, err
	}
	defer f.mu.Unlock()
	if c, ok := f.copies[file.Name]; ok && c == file {
		return c.Size, nil
	}
	if err := s.fs.MkdirAll(s.path(of, archiveDir), 0o755); err != nil {
		return 0, err
	}
	part := s.path(of, file.Name+partSuffix)
	have, err = s.grow(part, file, offset, data)
	if err != nil || have < file.Size {
		return have, err
	}
	sum, err := s.digest(context.Background(), part)
	if err != nil {
		return 0, err
	}
	if sum != file.Digest {
		return 0, s.fs.Remove(part)
	}
	line := fmt.Sprintf("%x  %s/%s\n", file.Digest, archiveDir, file.Name)
	if err := disk.WriteFile(s.fs, s.path(of, file.Name+sumSuffix), []byte(line)); err != nil {
		return 0, err
	}
	if err := s.fs.Rename(part, s.path(of, archiveDir, file.Name)); err != nil {
		return 0, err
	}
	for _, dir := range []string{s.path(of, archiveDir), s.path(of), s.dir} {
		if err := s.fs.SyncDir(dir); err != nil {
			return 0, err
		}
	}
	f.copies[file.Name], f.keys, f.tries, f.given = file, nil, 0, false
	f.count()
	return file.Size, nil
}

// grow appends data to a part, and syncs it when it is complete.
func (s *Store) grow(part string, file File, offset int64, data []byte) (have int64, err error) {
	w, err := s.fs.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	if have, err = w.Seek(0, io.SeekEnd); err != nil {
		return 0, err
	}
	if have > file.Size { // of an earlier file with this name
		if err := w.Truncate(0); err != nil {
			return 0, err
		}
		return 0, nil
	}
	if offset == have && len(data) > 0 && have+int64(len(data)) <= file.Size {
		n, err := w.Write(data)
		if err != nil {
			return 0, errors.Join(err, w.Truncate(have))
		}
		have += int64(n)
	}
	if have == file.Size {
		err = w.Sync()
	}
	return have, err
}

// digest returns the digest of a file.
func (s *Store) digest(ctx context.Context, name string) (sum [sha256.Size]byte, err error) {
	r, err := s.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return sum, err
	}
	h := sha256.New()
	_, err = io.Copy(h, stoppable{ctx, r})
	return [sha256.Size]byte(h.Sum(nil)), errors.Join(err, r.Close())
}

// Drop removes a folder.
func (s *Store) Drop(of string) error {
	f, err := s.open(of)
	if err != nil {
		return err
	}
	defer f.mu.Unlock()
	f.copies, f.keys, f.tries, f.given = nil, nil, 0, false
	f.count()
	return s.fs.RemoveAll(s.path(of))
}

// Count returns the number of copies in all folders and their bytes. It does not wait for Read.
func (s *Store) Count() (files, bytes int64, err error) {
	folders, err := s.Folders()
	for _, of := range folders {
		f, e := s.tryOpen(of)
		if e == nil {
			f.mu.Unlock()
		} else if !errors.Is(e, ErrNotRead) {
			return files, bytes, e
		}
		f = s.folder(of)
		files, bytes = files+f.files.Load(), bytes+f.bytes.Load()
	}
	return files, bytes, err
}
