package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// fileBytes is the size at which a queue begins another file, so that read files can be deleted. It
// is a variable, so that tests need only a few links.
var fileBytes int64 = 64 << 20

// A queue has links, first in, first out: head, then the files, then tail.
type queue struct {
	o     *Outbox
	agent string
	loose bool
	open  bool // loose, and may get more links

	again    *Batch // is sent before all other links
	due      time.Time
	failures int

	head  []byte
	from  int // offset in head
	files []*file
	tail  []byte
}

func (q *queue) empty() bool {
	return q.from == len(q.head) && len(q.files) == 0 && len(q.tail) == 0
}

func (q *queue) push(number uint64, hops int, link []byte) error {
	q.tail = appendEntry(q.tail, number, hops, link)
	if len(q.tail) < q.o.chunk() {
		return nil
	}
	if q.from == len(q.head) && len(q.files) == 0 {
		q.head, q.from, q.tail = q.tail, 0, q.head[:0]
		return nil
	}
	return q.spill()
}

// peek returns the first entry. It is valid until pop.
func (q *queue) peek() (e entry, ok bool, err error) {
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

// pop removes the entry that peek has returned.
func (q *queue) pop() {
	e, err := decodeEntry(q.head[q.from:])
	if err != nil {
		panic("outbox: pop without peek")
	}
	q.from += e.size
}

// load fills head with the next entries.
func (q *queue) load() (err error) {
	for q.from == len(q.head) && len(q.files) > 0 {
		f := q.files[0]
		q.from = 0
		if q.head, err = f.read(q.head[:0]); err != nil {
			return err
		}
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

// batch takes links from the front, as long as they have the same number of hops.
func (q *queue) batch(keep func(number uint64, link []byte) bool) (*Batch, error) {
	b := &Batch{Agent: q.agent, q: q}
	for len(b.Numbers) < q.o.cfg.BatchLinks {
		e, ok, err := q.peek()
		if err != nil {
			q.restore(b)
			return nil, err
		}
		if !ok {
			break
		}
		if keep != nil && !keep(e.number, e.link) {
			q.pop()
			q.o.n--
			continue
		}
		if len(b.Numbers) > 0 && (e.hops != b.Hops || len(b.Links)+len(e.link) > q.o.cfg.BatchBytes) {
			break
		}
		b.Hops = e.hops
		b.Numbers = append(b.Numbers, e.number)
		b.Links = append(b.Links, e.link...)
		b.ends = append(b.ends, len(b.Links))
		q.pop()
	}
	if len(b.Numbers) == 0 {
		return nil, nil
	}
	return b, nil
}

// restore puts a batch back before all other links.
func (q *queue) restore(b *Batch) {
	q.again = nil
	var front []byte
	from := 0
	for i, end := range b.ends {
		front = appendEntry(front, b.Numbers[i], b.Hops, b.Links[from:end])
		from = end
	}
	q.head, q.from = append(front, q.head[q.from:]...), 0
}

// discard deletes the files.
func (q *queue) discard() error {
	var errs []error
	for _, f := range q.files {
		errs = append(errs, f.remove())
	}
	q.files = nil
	return errors.Join(errs...)
}

// spill writes tail to the last file. After an error, tail is still in RAM. The next spill writes it to another file.
func (q *queue) spill() error {
	if n := len(q.files); n == 0 || q.files[n-1].broken || q.files[n-1].end >= fileBytes {
		f, err := q.o.create()
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
		if f.broken = true; f.end == 0 {
			q.files = q.files[:last]
			_ = f.remove() // the error of the write says more
		}
		return err
	}
	q.tail = q.tail[:0]
	return nil
}

// A file is a sequence of blocks:
//
//	4  length, big-endian
//	8  XXH64 of the rest, big-endian
//	n  entries
type file struct {
	fs      disk.FS
	name    string
	f       disk.File // nil: closed
	at, end int64     // offsets of reading and writing
	broken  bool      // a write failed: the bytes after end are not known, so nothing may follow them
}

const blockHeader = 12

func (o *Outbox) create() (*file, error) {
	o.files++
	name := filepath.Join(o.dir, "out-"+strconv.FormatUint(o.files, 10))
	f, err := o.fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return &file{fs: o.fs, name: name, f: f}, nil
}

func (f *file) write(p []byte) error {
	b := make([]byte, blockHeader, blockHeader+len(p))
	binary.BigEndian.PutUint32(b, uint32(len(p)))
	binary.BigEndian.PutUint64(b[4:], xxhash.Sum64(p))
	if _, err := f.f.Write(append(b, p...)); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	f.end += int64(blockHeader + len(p))
	return nil
}

// read appends the next block to dst. After an error, the next call reads the same block.
func (f *file) read(dst []byte) ([]byte, error) {
	if f.f == nil {
		var err error
		if f.f, err = f.fs.OpenFile(f.name, os.O_RDONLY, 0); err != nil {
			return dst, fmt.Errorf("outbox: %w", err)
		}
	}
	var head [blockHeader]byte
	if err := f.readAt(head[:], f.at); err != nil {
		return dst, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > f.end-f.at-blockHeader {
		return dst, fmt.Errorf("outbox: %s: %w", f.name, ErrDamaged)
	}
	from := len(dst)
	dst = slices.Grow(dst, int(n))[:from+int(n)]
	if err := f.readAt(dst[from:], f.at+blockHeader); err != nil {
		return dst[:from], err
	}
	if xxhash.Sum64(dst[from:]) != binary.BigEndian.Uint64(head[4:]) {
		return dst[:from], fmt.Errorf("outbox: %s: %w", f.name, ErrDamaged)
	}
	f.at += blockHeader + n
	return dst, nil
}

func (f *file) readAt(p []byte, at int64) error {
	if _, err := io.ReadFull(io.NewSectionReader(f.f, at, int64(len(p))), p); err != nil {
		return fmt.Errorf("outbox: %s: %w", f.name, err)
	}
	return nil
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
