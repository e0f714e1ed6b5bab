package fetch

import (
	"fmt"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Buffers are pooled by power of two, from 1 KiB to 4 MiB. Larger ones are left to the garbage
// collector.
const (
	minBufferBits = 10
	maxBufferBits = 22
)

var buffers [maxBufferBits - minBufferBits + 1]sync.Pool

// firstBuffer is the size of a response's first buffer in bytes.
const firstBuffer = 32 << 10

// buffer is a pooled slice. len(b) is its full size.
type buffer struct{ b []byte }

// newBuffer returns a buffer of at least size bytes with arbitrary content.
func newBuffer(size int) *buffer {
	class := bits.Len(uint(max(size, 1)-1)) - minBufferBits
	class = max(class, 0)
	if class >= len(buffers) {
		return &buffer{make([]byte, size)}
	}
	if b, ok := buffers[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{make([]byte, 1<<(class+minBufferBits))}
}

// release returns b to its pool. A nil b has no effect.
func (b *buffer) release() {
	if b == nil {
		return
	}
	class := bits.Len(uint(len(b.b)-1)) - minBufferBits
	if class >= 0 && class < len(buffers) && len(b.b) == 1<<(class+minBufferBits) {
		buffers[class].Put(b)
	}
}

// Wire holds every byte of a response as it came: header and transfer-coded body. It leaves out
// interim (1xx) responses, empty lines before the status line, and bytes after the end of the
// message. It is in memory, or partly in an unnamed file. Reading is safe for concurrent use. Do
// not read after Response.Release.
type Wire struct {
	buf    *buffer // holds bytes base to base+n
	n      int
	base   int64 // number of bytes in file
	file   disk.File
	remove string // the file's name, if it could not be removed while open
	spill  *spill
	watch  *Watch // nil: the fetch is not watched

	announced int // total bytes that the server has announced; 0: unknown
}

// spill is where a Fetcher's large responses go.
type spill struct {
	fs    disk.FS
	dir   string
	bytes int // maximum bytes of one response in memory
	next  atomic.Int64
}

// Size returns the number of bytes.
func (w *Wire) Size() int64 { return w.base + int64(w.n) }

// Bytes returns all bytes if they are all in memory. Otherwise ok is false.
func (w *Wire) Bytes() (b []byte, ok bool) {
	if w.base > 0 || w.buf == nil {
		return nil, w.base == 0
	}
	return w.buf.b[:w.n:w.n], true
}

func (w *Wire) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("read response at %d: the offset is negative", off)
	}
	if off < w.base {
		part := p[:min(int64(len(p)), w.base-off)]
		if n, err = w.file.ReadAt(part, off); n < len(part) {
			return n, fmt.Errorf("read spilled response: %w", noEOF(err))
		}
		off += int64(n)
	}
	if k := off - w.base; n < len(p) && k < int64(w.n) {
		n += copy(p[n:], w.buf.b[k:w.n])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func noEOF(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// room returns free space for the next read. It enlarges the memory up to the spill limit, and then
// writes it to the file. Within a header (head) it only enlarges the memory. A slow response has at
// most firstBuffer for its body.
func (w *Wire) room(head bool) ([]byte, error) {
	limit, slow := w.spill.bytes, w.watch.isSlow()
	if slow {
		limit = firstBuffer
	}
	switch {
	case w.buf == nil:
		w.hold(newBuffer(firstBuffer))
	case slow && !head && len(w.buf.b) > firstBuffer:
		if err := w.flush(); err != nil {
			return nil, err
		}
		w.buf.release()
		w.hold(newBuffer(firstBuffer))
	case w.n < len(w.buf.b):
	case w.base == 0 && (head || 2*len(w.buf.b) <= limit):
		size := max(2*len(w.buf.b), min(w.announced, limit))
		if slow && head && !w.watch.mayGrow(int64(size-len(w.buf.b))) {
			return nil, errNoMemory
		}
		w.grow(size)
	default:
		if err := w.flush(); err != nil {
			return nil, err
		}
	}
	return w.buf.b[w.n:], nil
}

// reserve records the size that the server has announced, header included. The memory grows to that
// size, within limits, once the first buffer is full. So a server that announces much and sends
// little gets no more memory.
func (w *Wire) reserve(size int64) {
	w.announced = int(min(size, int64(w.spill.bytes), 512<<10))
}

func (w *Wire) grow(size int) {
	b := newBuffer(size)
	copy(b.b, w.buf.b[:w.n])
	w.buf.release()
	w.hold(b)
}

// hold makes b the memory in use.
func (w *Wire) hold(b *buffer) {
	w.buf = b
	if w.watch != nil {
		w.watch.held.Store(int64(len(b.b)))
	}
}

func (w *Wire) flush() error {
	if w.file == nil {
		name := fmt.Sprintf("fetch-%d-%d.spill", os.Getpid(), w.spill.next.Add(1))
		name = filepath.Join(w.spill.dir, name)
		file, err := w.spill.fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return fmt.Errorf("spill response: %w", err)
		}
		w.file = file
		// An unnamed file needs no cleaning up after a crash.
		if w.spill.fs.Remove(name) != nil {
			w.remove = name
		}
	}
	if _, err := w.file.Write(w.buf.b[:w.n]); err != nil {
		return fmt.Errorf("spill response: %w", err)
	}
	w.base += int64(w.n)
	w.n = 0
	return nil
}

// cut drops the bytes after size. It reaches back into the last read only.
func (w *Wire) cut(size int64) { w.n = int(max(min(size-w.base, int64(w.n)), 0)) }

// drop removes the first k bytes. All bytes must be in memory.
func (w *Wire) drop(k int) {
	if k > 0 {
		w.n = copy(w.buf.b, w.buf.b[k:w.n])
	}
}

func (w *Wire) release() {
	w.buf.release()
	w.buf, w.n, w.base = nil, 0, 0
	if w.file != nil {
		w.file.Close() // its content is not needed again
		if w.remove != "" {
			w.spill.fs.Remove(w.remove) // a leftover file only takes space
		}
		w.file, w.remove = nil, ""
	}
}
