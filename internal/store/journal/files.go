package journal

import (
	"errors"
	"fmt"
	iofs "io/fs"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Files are the files that hold a journal's records. A caller that needs the parts in an order of its own reads the
// files one by one. A fn has the contract of Replay.
type Files struct {
	fs     disk.FS
	dir    string
	l      listing
	closed bool // all segments have successors, so none may have a torn tail
	st     Stats
}

// List returns the files of the journal in dir. If dir holds no journal, there are none, and no error.
func List(fs disk.FS, dir string) (*Files, error) {
	l, err := list(fs, dir)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return nil, fmt.Errorf("replay %s: %w", dir, err)
	}
	return &Files{fs: fs, dir: dir, l: l}, nil
}

// Snapshot calls fn for each record of the newest snapshot, without those of its parts.
func (f *Files) Snapshot(fn func(kind byte, payload []byte) error) error {
	if f.st.Snapshot = f.l.newest(); f.st.Snapshot == 0 {
		return nil
	}
	s := scanOptions{typ: typeSnapshot, number: f.st.Snapshot}
	_, err := scan(f.fs, snapshotName(f.dir, f.st.Snapshot), s, &f.st, fn)
	return f.wrap(err)
}

// Parts returns the parts of the newest snapshot, in its order.
func (f *Files) Parts() ([]Part, error) { return f.l.parts(f.fs, f.dir) }

// Part calls fn for each record of p.
func (f *Files) Part(p Part, fn func(kind byte, payload []byte) error) error {
	return f.wrap(p.scan(f.fs, f.dir, &f.st, fn))
}

// Segments calls fn for each record after the snapshot. last reports that the record is in the last segment.
func (f *Files) Segments(fn func(last bool, kind byte, payload []byte) error) error {
	segs, err := f.l.live(f.dir)
	prev := int64(-1)
	for i, n := range segs {
		last := i == len(segs)-1
		s := scanOptions{typ: typeSegment, number: n, last: last && !f.closed, prev: prev}
		prev, err = scan(f.fs, segmentName(f.dir, n), s, &f.st, func(kind byte, p []byte) error {
			return fn(last, kind, p)
		})
		if err != nil {
			break
		}
		f.st.Segments++
	}
	return f.wrap(err)
}

// replay reads the files in the order of Replay.
func (f *Files) replay(skip func(Part) bool, fn func(kind byte, payload []byte) error) error {
	if err := f.Snapshot(fn); err != nil {
		return err
	}
	ps, err := f.Parts()
	if err != nil {
		return f.wrap(err)
	}
	for _, p := range ps {
		if skip != nil && skip(p) {
			continue
		}
		if err := f.Part(p, fn); err != nil {
			return err
		}
	}
	return f.Segments(func(_ bool, kind byte, p []byte) error { return fn(kind, p) })
}

func (f *Files) wrap(err error) error {
	if err != nil {
		err = fmt.Errorf("replay %s: %w", f.dir, err)
	}
	return err
}
