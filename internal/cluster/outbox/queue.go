package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/frames"
)

// fileBytes is the size at which another file is begun, so that old files can be deleted. It is a
// variable, so that tests need only a few links.
var fileBytes int64 = 32 << 20

// A Queue holds entries, first in, first out: head, then the files, then tail. Head and tail are in
// RAM. One goroutine owns a Queue. Its files are not for recovery.
type Queue struct {
	dir   *folder
	chunk func() int // the maximum size of head, and of tail

	n     int64
	head  []byte
	from  int // offset in head
	files []*file
	tail  []byte
}

// OpenQueue returns an empty Queue with its files in dir. It deletes the content of dir. The Queue takes at most about
// memory octets of RAM, but at least two pieces of 4 KiB.
func OpenQueue(fs disk.FS, dir string, memory int64) (*Queue, error) {
	d, err := openFolder(fs, dir)
	if err != nil {
		return nil, err
	}
	return &Queue{dir: d, chunk: func() int { return int(max(memory/2, 4<<10)) }}, nil
}

// Len returns the number of entries.
func (q *Queue) Len() int64 { return q.n }

// Push appends an entry. The entry is queued even if Push returns an error, which is one of the disk.
func (q *Queue) Push(number uint64, hops int, link []byte) error {
	q.n++
	q.tail = appendEntry(q.tail, number, hops, link)
	if len(q.tail) < q.chunk() {
		return nil
	}
	if q.from == len(q.head) && len(q.files) == 0 {
		q.head, q.from, q.tail = q.tail, 0, q.head[:0]
		return nil
	}
	return q.spill()
}

// Peek returns the first entry. It is valid until Pop or Push. ok is false if there is none.
func (q *Queue) Peek() (e Entry, ok bool, err error) {
	if q.from == len(q.head) {
		if err := q.load(); err != nil {
			return e, false, err
		}
	}
	if q.from == len(q.head) {
		return e, false, nil
	}
	if e, err = decodeEntry(q.head[q.from:]); err != nil {
		return e, false, err
	}
	return e, true, nil
}

// Pop removes the entry that Peek has returned.
func (q *Queue) Pop() {
	e, err := decodeEntry(q.head[q.from:])
	if err != nil {
		panic("outbox: Pop without Peek")
	}
	q.from += e.size
	q.n--
}

// Close deletes the files.
func (q *Queue) Close() error {
	var errs []error
	for _, f := range q.files {
		errs = append(errs, f.remove())
	}
	q.files = nil
	return errors.Join(errs...)
}

// load fills head with the next entries.
func (q *Queue) load() (err error) {
	for q.from == len(q.head) && len(q.files) > 0 {
		f := q.files[0]
		q.from = 0
		if q.head, err = f.read(q.head[:0], f.at); err != nil {
			return err
		}
		f.at += frames.Head + int64(len(q.head))
		if f.at == f.end {
			q.files = q.files[1:]
			if err := f.remove(); err != nil {
				return err
			}
		}
	}
	if q.from == len(q.head) {
		q.head, q.from, q.tail = q.tail, 0, q.head[:0]
	}
	return nil
}

// restore puts a batch back before all other entries.
func (q *Queue) restore(b *Batch) {
	var front []byte
	from := 0
	for i, end := range b.ends {
		front = appendEntry(front, b.Numbers[i], b.Hops, b.Links[from:end])
		from = end
	}
	q.head, q.from = append(front, q.head[q.from:]...), 0
	q.n += int64(len(b.Numbers))
}

// spill writes tail to the last file. After an error, tail is still in RAM. The next spill writes it to another file.
func (q *Queue) spill() error {
	if n := len(q.files); n == 0 || q.files[n-1].full() {
		f, err := q.dir.create()
		if err != nil {
			return err
		}
		if n > 1 { // the first one is being read
			if err := q.files[n-1].close(); err != nil {
				q.files = append(q.files, f)
				return err
			}
		}
		q.files = append(q.files, f)
	}
	last := len(q.files) - 1
	f := q.files[last]
	if err := f.write(q.tail); err != nil {
		if f.end == 0 {
			q.files = q.files[:last]
			_ = f.remove() // the error of the write says more
		}
		return err
	}
	q.tail = q.tail[:0]
	return nil
}

// A folder makes files with different names in one directory.
type folder struct {
	fs   disk.FS
	dir  string
	made uint64
}

// openFolder creates a directory, or deletes its content.
func openFolder(fs disk.FS, dir string) (*folder, error) {
	if err := fs.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return &folder{fs: fs, dir: dir}, nil
}

func (d *folder) create() (*file, error) {
	d.made++
	name := filepath.Join(d.dir, "out-"+strconv.FormatUint(d.made, 10))
	f, err := d.fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return &file{fs: d.fs, name: name, f: f}, nil
}

// A file is a sequence of blocks:
//
//	4  length, big-endian
//	8  XXH64 of the rest, big-endian
//	n  entries
type file struct {
	fs     disk.FS
	name   string
	f      disk.File // nil: closed
	end    int64     // the offset of writing
	broken bool      // a write failed: the bytes after end are not known, so nothing may follow them

	at   int64 // in a Queue: the offset of reading
	live int64 // in a store: the octets of blocks that are in use
}

// full reports whether the next block must go to another file.
func (f *file) full() bool { return f.broken || f.end >= fileBytes }

// write appends a block.
func (f *file) write(p []byte) error {
	if _, err := f.f.Write(frames.Append(make([]byte, 0, frames.Head+len(p)), p)); err != nil {
		f.broken = true
		return fmt.Errorf("outbox: %w", err)
	}
	f.end += int64(frames.Head + len(p))
	return nil
}

// read appends the block at an offset to dst.
func (f *file) read(dst []byte, at int64) ([]byte, error) {
	if f.f == nil {
		var err error
		if f.f, err = f.fs.OpenFile(f.name, os.O_RDONLY, 0); err != nil {
			return dst, fmt.Errorf("outbox: %w", err)
		}
	}
	dst, err := frames.Read(f.f, at, f.end, dst)
	if errors.Is(err, frames.ErrDamaged) {
		err = ErrDamaged
	}
	if err != nil {
		err = fmt.Errorf("outbox: %s: %w", f.name, err)
	}
	return dst, err
}

func (f *file) close() error {
	if f.f == nil {
		return nil
	}
	err := f.f.Close()
	f.f = nil
	return err
}

func (f *file) remove() error { return errors.Join(f.close(), f.fs.Remove(f.name)) }

// An Entry is a link in the outbox, or a record in a Queue.
//
//	uvarint  number
//	1        hops
//	uvarint  length of the link's encoding, and as many octets
type Entry struct {
	Number uint64
	Hops   int
	Link   []byte
	size   int // of the encoding
}

func appendEntry(dst []byte, number uint64, hops int, link []byte) []byte {
	dst = binary.AppendUvarint(dst, number)
	dst = append(dst, byte(hops))
	dst = binary.AppendUvarint(dst, uint64(len(link)))
	return append(dst, link...)
}

func decodeEntry(b []byte) (e Entry, err error) {
	number, n := binary.Uvarint(b)
	if n <= 0 || n >= len(b) {
		return e, ErrDamaged
	}
	size, m := binary.Uvarint(b[n+1:])
	if m <= 0 || size > uint64(len(b)-n-1-m) {
		return e, ErrDamaged
	}
	from := n + 1 + m
	to := from + int(size)
	return Entry{number, int(b[n]), b[from:to:to], to}, nil
}
