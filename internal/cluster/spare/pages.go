package spare

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/warc"
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

// Has reports which of these pages the copies in a folder have. The first call, and each after a change of the
// folder, reads all copies. damaged names the copies that do not have their digest; they are set aside.
func (s *Store) Has(of string, pages []weburl.Key) (has []bool, damaged []string, err error) {
	f, err := s.open(of)
	if err != nil {
		return nil, nil, err
	}
	defer f.mu.Unlock()
	has = make([]bool, len(pages))
	if len(f.copies) == 0 {
		return has, nil, nil
	}
	if f.keys == nil {
		if damaged, err = s.index(of, f); err != nil {
			return nil, damaged, fmt.Errorf("copies of %s: %w", of, err)
		}
	}
	r, err := s.fs.OpenFile(f.keys.name, os.O_RDONLY, 0)
	if err != nil {
		return nil, damaged, err
	}
	for i, k := range pages {
		if has[i], err = f.keys.has(r, k); err != nil {
			break
		}
	}
	return has, damaged, errors.Join(err, r.Close())
}

// index reads the copies of a folder, and makes its keys.
func (s *Store) index(of string, f *folder) (damaged []string, err error) {
	sorted := extsort.New(s.fs, s.path(of, keysName), s.memory, nil)
	defer func() { err = errors.Join(err, sorted.Close()) }()
	for name, c := range f.copies {
		file := s.path(of, archiveDir, name)
		sum, err := s.digest(file)
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
		if err := s.each(file, sorted.Push); err != nil {
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
func (s *Store) each(name string, fn func(key []byte) error) (err error) {
	file, err := s.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	kinds := []string{"response", "revisit", "resource", "metadata"}
	var key [keySize]byte
	for r := warc.NewReader(file); ; {
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
		k := u.Key()
		binary.BigEndian.PutUint64(key[:], k.Host)
		binary.BigEndian.PutUint64(key[8:], k.Path)
		if err := fn(key[:]); err != nil {
			return err
		}
	}
}

// has reports whether the file has a key.
func (k *keys) has(r io.ReaderAt, page weburl.Key) (bool, error) {
	var err error
	at := func(i int) (x weburl.Key) {
		var b [keySize]byte
		if _, e := r.ReadAt(b[:], int64(i)*keySize); e != nil && err == nil {
			err = e
		}
		return weburl.Key{Host: binary.BigEndian.Uint64(b[:]), Path: binary.BigEndian.Uint64(b[8:])}
	}
	i := sort.Search(int(k.n), func(i int) bool {
		x := at(i)
		return x.Host > page.Host || x.Host == page.Host && x.Path >= page.Path
	})
	return i < int(k.n) && at(i) == page && err == nil, err
}

// DigestOf returns what Append must know of a file. It reads r to its end.
func DigestOf(name string, r io.Reader) (File, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	return File{name, n, [sha256.Size]byte(h.Sum(nil))}, err
}
