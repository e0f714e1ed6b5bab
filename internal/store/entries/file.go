package entries

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/frames"
)

// ErrEntry reports an entry that cannot be read: torn, damaged or never written.
var ErrEntry = errors.New("damaged entry")

// Shape is the shape of the entries in a file.
type Shape struct {
	// Magic begins the file: 8 bytes, the last of which is the version.
	Magic string
	// Head is the length of the part of fixed length, and MaxTail the greatest one of the part behind it.
	Head, MaxTail int
}

// Encode appends an entry to b. The tail has at least one byte.
func (s Shape) Encode(b, head, tail []byte) []byte {
	from := len(b)
	b = append(append(append(b, make([]byte, frames.Head)...), head...), tail...)
	frames.Seal(b[from:])
	return b
}

// Decode reads the entry at the beginning of b, and returns its head and tail in one. n is its length with frame.
func (s Shape) Decode(b []byte) (data []byte, n int, err error) {
	if len(b) < frames.Head {
		return nil, 0, ErrEntry
	}
	size := frames.Size(b)
	if size <= int64(frames.Head+s.Head) || size > int64(min(len(b), s.longest())) {
		return nil, 0, ErrEntry
	}
	if data, err = frames.Payload(b[:size]); err != nil {
		return nil, 0, ErrEntry
	}
	return data, int(size), nil
}

// longest returns the length of the longest entry.
func (s Shape) longest() int { return frames.Head + s.Head + s.MaxTail }

// A file has entries one after the other. One goroutine owns it.
type file struct {
	Shape
	f    disk.File
	size int64 // length of the part without a torn entry
	buf  []byte
}

// errVersion reports a file that another version of the program wrote, or a damaged one.
var errVersion = errors.New("another version of this program wrote it, or it is damaged")

// openFile opens the file name in dir, or creates it.
func openFile(fs disk.FS, dir, name string, s Shape) (*file, error) {
	l := &file{Shape: s}
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	l.f = f
	head := make([]byte, len(s.Magic))
	n, err := f.ReadAt(head, 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
	case n == len(head) && string(head) == s.Magic:
		l.size, err = int64(len(head)), nil
	case n == len(head) && !blank(head):
		err = fmt.Errorf("%s: %w: continue with the program that wrote it, or remove %s", name, errVersion, dir)
	default: // a crash cut the header off
		if err = l.begin(); err == nil {
			err = fs.SyncDir(dir)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

func blank(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// begin writes an empty file.
func (l *file) begin() error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	if err := l.write([]byte(l.Magic)); err != nil {
		return err
	}
	return l.f.Sync()
}

// write appends b.
func (l *file) write(b []byte) error {
	if _, err := l.f.Seek(l.size, io.SeekStart); err != nil {
		return err
	}
	n, err := l.f.Write(b)
	if err == nil {
		l.size += int64(n)
	}
	return err
}

// at reads the entry at offset off. data is valid until the next call.
func (l *file) at(off int64) (data []byte, err error) {
	if off < int64(len(l.Magic)) || off >= l.size {
		return nil, ErrEntry
	}
	if cap(l.buf) < l.longest() {
		l.buf = make([]byte, l.longest())
	}
	b := l.buf[:min(int64(l.longest()), l.size-off)]
	n, err := l.f.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	data, _, err = l.Decode(b[:n])
	return data, err
}

// each calls fn for the entries between two offsets. It returns the end of the last one, and skips
// damaged data between two entries.
func (l *file) each(from, to int64, fn func(off int64, data []byte) error) (end int64, err error) {
	r := bufio.NewReaderSize(io.NewSectionReader(l.f, from, max(0, to-from)), 256<<10)
	end = from
	for at := from; at < to; {
		b, err := r.Peek(l.longest())
		if err != nil && !errors.Is(err, io.EOF) {
			return end, err
		}
		data, n, err := l.Decode(b)
		if err != nil {
			r.Discard(1) // cannot fail: Peek has read these bytes
			at++
			continue
		}
		if err := fn(at, data); err != nil {
			return end, err
		}
		r.Discard(n) // cannot fail: Peek has read these bytes
		at += int64(n)
		end = at
	}
	return end, nil
}

// length returns the length of the file on disk.
func (l *file) length() (int64, error) {
	info, err := l.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// cut removes everything after end.
func (l *file) cut(end int64) error {
	l.size = end
	return l.f.Truncate(end)
}
