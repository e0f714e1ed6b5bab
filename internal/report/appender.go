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

// appendBytes is how much a log holds back at most.
const appendBytes = 64 << 10

var errClosed = errors.New("log is closed")

// An appender is a file of lines that grows.
type appender struct {
	name string
	file disk.File

	mu  sync.Mutex // guards what follows; held across the write, which must keep the order of the lines
	buf []byte
	err error
}

// repairBytes is how far back a power failure can have left zeros where lines
// were: more than is written between two syncs.
const repairBytes = 8 << 20

// openLines opens a file of lines for appending, makes it and its folder where
// they are missing, cuts a last line that is not whole, and what a power
// failure left behind a hole: lines hold no zeros.
func openLines(fs disk.FS, name string) (*appender, error) {
	if err := fs.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, fmt.Errorf("log %s: %w", name, err)
	}
	file, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log %s: %w", name, err)
	}
	err = cutTornLine(file)
	if err == nil {
		err = fs.SyncDir(filepath.Dir(name)) // a new file is lost with its name
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("log %s: %w", name, err)
	}
	return &appender{name: name, file: file}, nil
}

// cutTornLine truncates file behind the last newline before its hole, if there
// is one, or its end, and goes there.
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

// firstZero finds the first zero byte in a stretch of file; its end without one.
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

// add lets fn append one line, newline included.
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
		a.err = fmt.Errorf("log %s: %w", a.name, err)
		return
	}
	a.buf = a.buf[:0]
	if cap(a.buf) > 4*appendBytes {
		a.buf = nil
	}
}

// Flush hands all lines to the operating system. Its error is the log's first one.
func (a *appender) Flush() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flush()
	return a.err
}

// Sync is Flush, and the lines would survive a power failure. Lines are added
// meanwhile.
func (a *appender) Sync() error {
	if err := a.Flush(); err != nil {
		return err
	}
	err := a.file.Sync()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("log %s: %w", a.name, err)
	}
	return a.err
}

// Err is the first error, if any.
func (a *appender) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Close is Sync and the end of the log. A second Close does nothing.
func (a *appender) Close() error {
	err := a.Sync()
	if errors.Is(err, errClosed) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if cerr := a.file.Close(); cerr != nil && err == nil {
		err = fmt.Errorf("log %s: %w", a.name, cerr)
	}
	a.err = errClosed
	return err
}
