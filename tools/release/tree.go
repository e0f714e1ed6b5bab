package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// An entry is a file or, if its name ends in a slash, a folder.
type entry struct {
	name  string
	body  []byte
	mode  int64
	owner int // user and group
}

// A tree gathers the files of an archive. The first error of its methods stays until it is packed.
type tree struct {
	entries []entry
	err     error
}

func (t *tree) add(name, body string, mode int64) {
	t.entries = append(t.entries, entry{name: name, body: []byte(body), mode: mode})
}

// copy adds a file of the disk.
func (t *tree) copy(name, from string, mode int64) {
	b, err := os.ReadFile(from)
	t.err = errors.Join(t.err, err)
	t.add(name, string(b), mode)
}

func (t *tree) folder(name string, mode int64, owner int) {
	t.entries = append(t.entries, entry{name: name, mode: mode, owner: owner})
}

// tar returns the tree with its entries in the order of their names, and with the folders above them.
func (t *tree) tar(at time.Time) ([]byte, error) {
	all := map[string]entry{}
	for _, e := range t.entries {
		all[e.name] = e
	}
	for _, e := range t.entries {
		for i, c := range strings.TrimSuffix(e.name, "/") {
			if dir := e.name[:i+1]; c == '/' && all[dir].name == "" {
				all[dir] = entry{name: dir, mode: 0o755}
			}
		}
	}
	names := slices.Sorted(maps.Keys(all))
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range names {
		e := all[name]
		h := &tar.Header{Name: name, Mode: e.mode, Size: int64(len(e.body)), ModTime: at, Uid: e.owner, Gid: e.owner,
			Typeflag: tar.TypeReg, Format: tar.FormatGNU}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.body); err != nil {
			return nil, err
		}
	}
	err := errors.Join(t.err, w.Close())
	return out.Bytes(), err
}

func (t *tree) tarGz(at time.Time) ([]byte, error) {
	b, err := t.tar(at)
	if err != nil {
		return nil, err
	}
	return gz(b)
}
