package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// appendBytes is how many bytes a log buffers before it writes them.
const appendBytes = 64 << 10

var errClosed = errors.New("the log is closed")

// logError adds the log's name to an error. If the error is of package os and has the same name, it is not repeated.
func logError(name string, err error) error {
	if p, ok := err.(*os.PathError); ok && p.Path == name {
		return fmt.Errorf("log %s: %s: %w", name, p.Op, p.Err)
	}
	return fmt.Errorf("log %s: %w", name, err)
}

// An appender is a file to which lines are appended.
type appender struct {
	name string
	file disk.File

	mu  sync.Mutex // guards the fields below; held across the write, which must keep the order of the lines
	buf []byte
	err error
}

// repairBytes is how far from the end of a log openLines looks for zeros, which a power failure can leave in place of
// lines. It is more than a log writes between two syncs.
const repairBytes = 8 << 20

// openLines opens a file of lines for appending. It creates the file and its directory if they are missing. It removes
// an incomplete last line, and everything from the first zero byte on: lines contain no zeros, so a zero byte is a hole
// that a power failure left. The lines that remain are on the disk when openLines returns: a process that was killed
// may have left some of them in the page cache only.
func openLines(fs disk.FS, name string) (*appender, error) {
	if err := fs.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, logError(name, err)
	}
	file, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, logError(name, err)
	}
	err = cutTornLine(file)
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
	return &appender{name: name, file: file}, nil
}

// cutTornLine truncates file after its last newline, or after the last newline before its first hole. It moves the
// write position there.
func cutTornLine(file disk.File) error {
	st, err := file.Stat()
	if err != nil {
		return err
	}
	end := st.Size()
	hole, err := firstZero(file, max(end-repairBytes, 0), end)
	if err != nil {
		return err
	}
	buf := make([]byte, 4096)
	for keep := hole; ; {
		n := min(keep, int64(len(buf)))
		if n > 0 {
			if _, err := file.ReadAt(buf[:n], keep-n); err != nil && err != io.EOF {
				return err
			}
			if i := bytes.LastIndexByte(buf[:n], '\n'); i < 0 {
				keep -= n
				continue
			} else {
				keep += int64(i+1) - n
			}
		}
		if keep < end {
			if err := file.Truncate(keep); err != nil {
				return err
			}
		}
		_, err := file.Seek(keep, io.SeekStart)
		return err
	}
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

// add lets fn append one line, newline included, to the buffer. It writes the buffer if it is full. After an error of
// the log it does nothing.
func (a *appender) add(fn func([]byte) []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return
	}
	a.buf = fn(a.buf)
	if len(a.buf) >= appendBytes {
		a.flush()
	}
}

func (a *appender) flush() {
	if a.err != nil || len(a.buf) == 0 {
		return
	}
	if _, err := a.file.Write(a.buf); err != nil {
		a.err = logError(a.name, err)
		return
	}
	a.buf = a.buf[:0]
	if cap(a.buf) > 4*appendBytes {
		a.buf = nil
	}
}

// Flush hands all lines to the operating system. It returns the first error of the log.
func (a *appender) Flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flush()
	return a.err
}

// Sync flushes and waits until all lines are on the disk, so that they survive a power failure. Other goroutines may
// add lines meanwhile. It returns the first error of the log.
func (a *appender) Sync() error {
	if err := a.Flush(); err != nil {
		return err
	}
	err := a.file.Sync()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && a.err == nil {
		a.err = logError(a.name, err)
	}
	return a.err
}

// Err returns the first error of the log, or nil.
func (a *appender) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Close syncs and closes the log. A second Close does nothing.
func (a *appender) Close() error {
	err := a.Sync()
	if errors.Is(err, errClosed) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if cerr := a.file.Close(); cerr != nil && err == nil {
		err = logError(a.name, cerr)
	}
	a.err = errClosed
	return err
}
