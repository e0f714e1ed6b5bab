// Package lines answers: how does a log of lines stay whole when the process or the machine dies?
//
//	Add -> buffer -> Flush -> file -> Sync
//	Open: cut an incomplete last line, and what follows a hole
//	OpenWithCopy: each line also in another form, in a second file
//
// Invariants:
//   - A file consists of complete lines. If a crash leaves an incomplete last line, the next Open removes it.
//   - A copy has the same lines in the same order. The first file alone decides: OpenWithCopy makes the copy agree.
//   - After its first error a File writes nothing more, so that it has no gap. Flush, Sync, Close and Err return that
//     error.
//
// The lines contain no zero byte. A File is safe for concurrent use.
package lines

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// appendBytes is how many bytes a File buffers before it writes them.
const appendBytes = 64 << 10

// ErrClosed is the error of a File after Close.
var ErrClosed = errors.New("the log is closed")

// logError adds the log's name to an error. If the error is of package os and has the same name, it is not repeated.
// Without an error it returns nil.
func logError(name string, err error) error {
	if err == nil {
		return nil
	}
	if p, ok := err.(*os.PathError); ok && p.Path == name {
		return fmt.Errorf("log %s: %s: %w", name, p.Op, p.Err)
	}
	return fmt.Errorf("log %s: %w", name, err)
}

// A File is a file to which lines are appended.
type File struct {
	name     string
	file     disk.File
	unsynced int64
	copy     *lineCopy // nil: there is none

	mu   sync.Mutex // guards the fields below; held across the write, which must keep the order of the lines
	buf  []byte
	size int64 // of the file, without buf
	err  error
}

// Open opens a file of lines for appending. It creates the file and its directory if they are missing. It removes
// an incomplete last line, and everything from the first zero byte on: lines contain no zeros, so a zero byte is a hole
// that a power failure left. The lines that remain are on the disk when Open returns: a process that was killed
// may have left some of them in the page cache only.
//
// unsynced is more bytes than the caller adds between two calls of Sync: a power failure can leave holes in them. A
// caller that adds more may keep lines after a hole.
func Open(fs disk.FS, name string, unsynced int64) (*File, error) {
	if err := fs.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, logError(name, err)
	}
	file, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, logError(name, err)
	}
	size, err := cutTornLine(file, unsynced)
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = fs.SyncDir(filepath.Dir(name)) // or a power failure could remove a new file
	}
	if err != nil {
		file.Close()
		return nil, logError(name, err)
	}
	return &File{name: name, file: file, unsynced: unsynced, size: size}, nil
}

// cutTornLine truncates file after its last newline, or after the last newline before its first hole. It moves the
// write position there, and returns it. It looks for holes in the last unsynced bytes.
func cutTornLine(file disk.File, unsynced int64) (int64, error) {
	st, err := file.Stat()
	if err != nil {
		return 0, err
	}
	end := st.Size()
	hole, err := firstZero(file, max(end-unsynced, 0), end)
	if err != nil {
		return 0, err
	}
	keep, err := lastEnd(file, hole)
	if err != nil {
		return 0, err
	}
	if keep < end {
		if err := file.Truncate(keep); err != nil {
			return 0, err
		}
	}
	return file.Seek(keep, io.SeekStart)
}

// lastEnd returns the position behind the last newline before end, 0 if there is none.
func lastEnd(file io.ReaderAt, end int64) (int64, error) {
	buf := make([]byte, 4096)
	for end > 0 {
		n := min(end, int64(len(buf)))
		if _, err := file.ReadAt(buf[:n], end-n); err != nil && err != io.EOF {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return end + int64(i+1) - n, nil
		}
		end -= n
	}
	return 0, nil
}

// Durable returns the position behind the last complete line of a file of lines to which a File may append meanwhile.
// All lines before it are on the disk: neither a power failure nor Open takes them. The file must be open for writing,
// because some systems sync no other.
func Durable(file disk.File) (end int64, err error) {
	st, err := file.Stat()
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return 0, err
	}
	return lastEnd(file, st.Size())
}

// firstZero returns the position of the first zero byte in [from, end), or end if there is none.
func firstZero(file disk.File, from, end int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for from < end {
		n := min(end-from, int64(len(buf)))
		if _, err := file.ReadAt(buf[:n], from); err != nil && err != io.EOF {
			return 0, err
		}
		if i := bytes.IndexByte(buf[:n], 0); i >= 0 {
			return from + int64(i), nil
		}
		from += n
	}
	return end, nil
}

// Add lets fn append one line, newline included, to the buffer. It writes the buffer if it is full. After an error of
// the log it does nothing.
func (f *File) Add(fn func([]byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return
	}
	from := len(f.buf)
	f.buf = fn(f.buf)
	if f.copy != nil {
		f.copy.add(f.buf[from : len(f.buf)-1])
	}
	if len(f.buf) >= appendBytes {
		f.flush()
	}
}

// flush writes the lines, and after them those of the copy. The caller holds mu.
func (f *File) flush() {
	if f.err != nil || len(f.buf) == 0 {
		return
	}
	if _, err := f.file.Write(f.buf); err != nil {
		f.err = logError(f.name, err)
		return
	}
	f.size += int64(len(f.buf))
	f.buf = f.buf[:0]
	if cap(f.buf) > 4*appendBytes {
		f.buf = nil
	}
	if f.copy != nil {
		f.copy.to.flush()
		f.err = f.copy.to.err
	}
}

// Size returns the length of the file with all lines that were added.
func (f *File) Size() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.size + int64(len(f.buf))
}

// Name returns the name under which the file was opened.
func (f *File) Name() string { return f.name }

// Tail returns a reader of the last bytes of the file, as many as the argument unsynced of Open. whole is false if the
// reader begins within a line. Call it before Add.
func (f *File) Tail() (r io.Reader, whole bool) {
	from := max(f.size-f.unsynced, 0)
	return io.NewSectionReader(f.file, from, f.size-from), from == 0
}

// Flush hands all lines to the operating system. It returns the first error of the log.
func (f *File) Flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flush()
	return f.err
}

// Sync flushes and waits until all lines are on the disk, so that they survive a power failure. Other goroutines may
// add lines meanwhile. It returns the first error of the log.
func (f *File) Sync() error {
	if err := f.Flush(); err != nil {
		return err
	}
	err := logError(f.name, f.file.Sync())
	if err == nil && f.copy != nil {
		err = f.copy.sync(f)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = cmp.Or(f.err, err)
	return f.err
}

// Err returns the first error of the log, or nil.
func (f *File) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// Close syncs and closes the log. A second Close does nothing.
func (f *File) Close() error {
	err := f.Sync()
	if errors.Is(err, ErrClosed) {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	err = cmp.Or(err, logError(f.name, f.file.Close()))
	if c := f.copy; c != nil {
		if f.err != nil {
			c.to.buf = nil // the file does not have these lines
		}
		err = cmp.Or(err, c.to.Close())
	}
	f.err = ErrClosed
	return err
}
