package spare

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"sort"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// keysName is the file with the keys of the pages in a folder. It is made anew in each run.
const keysName = "pages.keys"

// keySize is the size of a key: host and path, big-endian.
const keySize = 16

// keys are the keys of pages in a file, sorted.
type keys struct {
	name string
	n    int64
}

// ErrNotRead reports copies that Read has not read yet, or is reading.
var ErrNotRead = errors.New("the copies are not read yet")

// Has reports which of these pages the copies in a folder have. The error is ErrNotRead before Read, and after a change
// of the folder since.
func (s *Store) Has(of string, pages []link.Key) (has []bool, err error) {
	f, err := s.tryOpen(of)
	if err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	has = make([]bool, len(pages))
	if len(f.copies) == 0 || f.given {
		return has, nil
	}
	if f.keys == nil {
		return nil, ErrNotRead
	}
	r, err := s.fs.OpenFile(f.keys.name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	for i, k := range pages {
		if has[i], err = f.keys.has(r, k); err != nil {
			break
		}
	}
	return has, errors.Join(err, r.Close())
}

// readTries bounds the attempts to read a folder. After them Has reports that it has no page.
const readTries = 5

// Read reads the copies in a folder for Has, unless it has done so: all bytes of all of them. damaged names the copies
// that do not have their digest; they are set aside.
func (s *Store) Read(ctx context.Context, of string) (damaged []string, err error) {
	f, err := s.open(of)
	if err != nil {
		return nil, err
	}
	defer f.mu.Unlock()
	if f.keys != nil || len(f.copies) == 0 || f.given {
		return nil, nil
	}
	if damaged, err = s.index(ctx, of, f); err != nil && ctx.Err() == nil {
		f.tries++
		f.given = f.tries >= readTries
	}
	f.count()
	return damaged, err
}

// index makes the keys of a folder.
func (s *Store) index(ctx context.Context, of string, f *folder) (damaged []string, err error) {
	sorted := extsort.New(s.fs, s.path(of, keysName), s.memory, ctx)
	defer func() { err = errors.Join(err, sorted.Close()) }()
	for name, c := range f.copies {
		file := s.path(of, archiveDir, name)
		sum, err := s.digest(ctx, file)
		if err != nil {
			return damaged, err
		}
		if sum != c.Digest {
			damaged = append(damaged, name)
			if err := s.fs.Rename(file, s.path(of, name+damagedSuffix)); err != nil {
				return damaged, err
			}
			delete(f.copies, name)
			continue
		}
		if err := s.each(ctx, file, sorted.Push); err != nil {
			return damaged, err
		}
	}
	k := &keys{name: s.path(of, keysName)}
	err = disk.WriteStream(s.fs, k.name, func(w io.Writer) error {
		var last []byte
		return sorted.Each(func(rec []byte) error {
			if bytes.Equal(rec, last) {
				return nil
			}
			last = append(last[:0], rec...)
			k.n++
			_, err := w.Write(rec)
			return err
		})
	})
	if err == nil {
		f.keys = k
	}
	return damaged, err
}

// each calls fn for the key of each page that a WARC file has a record of.
func (s *Store) each(ctx context.Context, name string, fn func(key []byte) error) (err error) {
	file, err := s.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	kinds := []string{"response", "revisit", "resource", "metadata"}
	var key [keySize]byte
	for r := warc.NewReader(stoppable{ctx, file}); ; {
		rec, err := r.Next()
		if err == io.EOF || errors.Is(err, warc.ErrDamaged) { // the bytes are those that the agent has written
			return nil
		}
		if err != nil {
			return err
		}
		u, err := weburl.Parse(rec.URL())
		if err != nil || !slices.Contains(kinds, rec.Type()) {
			continue
		}
		k := link.KeyOf(u)
		binary.BigEndian.PutUint64(key[:], k.Host)
		binary.BigEndian.PutUint64(key[8:], k.Path)
		if err := fn(key[:]); err != nil {
			return err
		}
	}
}

// has reports whether the file has a key.
func (k *keys) has(r io.ReaderAt, page link.Key) (bool, error) {
	var err error
	at := func(i int) (x link.Key) {
		var b [keySize]byte
		if _, e := r.ReadAt(b[:], int64(i)*keySize); e != nil && err == nil {
			err = e
		}
		return link.Key{Host: binary.BigEndian.Uint64(b[:]), Path: binary.BigEndian.Uint64(b[8:])}
	}
	i := sort.Search(int(k.n), func(i int) bool {
		x := at(i)
		return x.Host > page.Host || x.Host == page.Host && x.Path >= page.Path
	})
	return i < int(k.n) && at(i) == page && err == nil, err
}

// A stoppable is a reader whose reads fail when its context is done.
type stoppable struct {
	ctx context.Context
	io.Reader
}

func (r stoppable) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// DigestOf returns what Append must know of a file. It reads r to its end.
func DigestOf(name string, r io.Reader) (File, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	return File{name, n, [sha256.Size]byte(h.Sum(nil))}, err
}
