package earlier

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/gzip"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A source is one earlier crawl: a crawl directory, or a CDXJ file.
type source struct {
	Path  string
	Files []file
	// Ours says that Path is a crawl directory of this program.
	Ours bool

	Lines, Usable, Revisits, Others, Bad int64
	// Refused describes the first bad line.
	Refused string
}

// A file is an index.
type file struct {
	Name     string
	Size     int64
	Modified int64 // Unix nanoseconds
}

const remedy = "give the directory of an earlier crawl, its store, its WACZ, or a CDXJ file"

// A Shower is an FS that finds the indexes of crawls in stores, of segments, and of packages of files (WACZ). It
// returns none for other names. ours says that the indexes are of this program.
type Shower interface {
	Indexes(name string) (paths []string, ours bool, err error)
}

// find lists the files of a source. If there is none, the error is an *input.ConfigError.
func find(fsys disk.FS, path string) (*source, error) {
	s := &source{Path: path}
	if in, ok := fsys.(Shower); ok {
		names, ours, err := in.Indexes(path)
		if err != nil {
			return nil, refused(path, err)
		}
		if len(names) > 0 {
			s.Ours = ours
			return s, s.take(fsys, names)
		}
	}
	info, err := fsys.Stat(path)
	if err != nil {
		return nil, refused(path, err)
	}
	if !info.IsDir() && !info.Mode().IsRegular() { // it is read twice
		return nil, input.Errorf("{dedup-from} %s is neither a directory nor a regular file; "+remedy, path)
	}
	if !info.IsDir() {
		s.Files = []file{{path, info.Size(), info.ModTime().UnixNano()}}
		return s, nil
	}
	if s.Ours, err = crawldir.HoldsCrawl(fsys, path); err != nil {
		return nil, refused(path, err)
	}
	names, err := warc.IndexFiles(fsys, path)
	if err != nil {
		return nil, refused(path, err)
	}
	if err := s.take(fsys, names); err != nil {
		return nil, err
	}
	if len(s.Files) == 0 {
		return nil, input.Errorf("{dedup-from} %s: the directory has no index (indexes/index.cdxj); "+
			"make it with \"orbweaver warc index\", or "+remedy, path)
	}
	return s, nil
}

// take adds the files of indexes.
func (s *source) take(fsys disk.FS, names []string) error {
	for _, name := range names {
		info, err := fsys.Stat(name)
		if err != nil {
			return refused(name, err)
		}
		s.Files = append(s.Files, file{name, info.Size(), info.ModTime().UnixNano()})
	}
	return nil
}

// refused returns an *input.ConfigError for an error of a path.
func refused(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return input.Errorf("{dedup-from} %s: %v; "+remedy, path, err)
}

// Check returns an *input.ConfigError if the earlier crawls cannot be read. dir is the crawl directory of this crawl. A
// resumed crawl whose table is there needs no earlier crawl.
func Check(fsys disk.FS, dir string, paths []string, resumed bool) error {
	if resumed {
		if _, err := fsys.Stat(filepath.Join(dir, Folder, tableName)); err == nil {
			return nil
		}
	}
	for _, path := range paths {
		if within(path, dir) { // to begin the crawl anew would remove it
			return input.Errorf("{dedup-from} %s is in the directory of this crawl, which finds its own duplicates; "+
				"leave it out, or "+remedy, path)
		}
		s, err := find(fsys, path)
		if err != nil {
			return err
		}
		for _, f := range s.Files {
			if err := f.check(fsys); err != nil {
				return err
			}
		}
	}
	return nil
}

// within reports whether path is the directory dir or below it, also by symbolic links.
func within(path, dir string) bool {
	for _, p := range spellings(path) {
		for _, d := range spellings(dir) {
			if below, err := filepath.Rel(d, p); err == nil && filepath.IsLocal(below) {
				return true
			}
		}
	}
	return false
}

// spellings returns an absolute path, as it is given and without symbolic links.
func spellings(path string) (all []string) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	all = append(all, abs)
	if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
		all = append(all, real)
	}
	return all
}

// check reads the beginning of a file.
func (f file) check(fsys disk.FS) error {
	r, err := f.open(fsys, context.Background())
	if err != nil {
		return err
	}
	defer r.Close()
	b, err := r.Peek(8)
	if err != nil && err != io.EOF {
		return refused(f.Name, err)
	}
	if bytes.HasPrefix(b, []byte("WARC/")) {
		return input.Errorf("{dedup-from} %s is a WARC file, not its index; "+remedy, f.Name)
	}
	return nil
}

// A stream is an index that is being read. at is the position in its file.
type stream struct {
	*bufio.Reader
	file disk.File
	stop extsort.Stop
	at   int64
}

// raw is the bytes of the file of a stream.
type raw struct{ *stream }

func (r raw) Read(p []byte) (int, error) {
	if err := r.stop.Err(); err != nil {
		return 0, err
	}
	n, err := r.file.Read(p)
	r.at += int64(n)
	return n, err
}

// open opens an index, plain or gzip. The error of stop ends its reading, also within a long line.
func (f file) open(fsys disk.FS, stop extsort.Stop) (*stream, error) {
	opened, err := fsys.OpenFile(f.Name, os.O_RDONLY, 0)
	if err != nil {
		return nil, refused(f.Name, err)
	}
	s := &stream{file: opened, stop: stop}
	s.Reader = bufio.NewReaderSize(raw{s}, 256<<10)
	if b, err := s.Peek(2); err == nil && b[0] == 0x1f && b[1] == 0x8b {
		unzipped, err := gzip.NewReader(s.Reader)
		if err != nil {
			opened.Close() // the first error says more
			return nil, refused(f.Name, err)
		}
		s.Reader = bufio.NewReaderSize(unzipped, 64<<10)
	}
	return s, nil
}

func (s *stream) Close() error { return s.file.Close() }
