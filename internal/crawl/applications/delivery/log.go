package delivery

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/lines"
)

const (
	segmentSuffix = ".jsonl"
	ackName       = "acknowledged"
	// unsynced is more bytes than a crawl adds to a Log between two syncs, see lines.Open.
	unsynced = 32 << 20
)

// A Log has the lines that one application has still to collect. Its methods are safe for concurrent use, but only one
// goroutine may append.
type Log struct {
	fs           disk.FS
	dir          string
	segmentBytes int64

	ackMu sync.Mutex // held while the acknowledged position is written; taken before mu

	mu       sync.Mutex // guards the fields below; held while files are written and created
	segments []int64    // positions of the first lines of the files, ascending
	file     *lines.File
	full     []*lines.File // files before it that were not synced since their last line
	waiting  []span        // lines that are not acknowledged
	acked    int64
	durable  int64         // Read returns the lines before
	changed  chan struct{} // closed when durable or the end of the Log changes
	over     bool          // the Log was deleted or closed
}

// A span is the place of a line: from its first byte to the one after its newline.
type span struct{ from, to int64 }

// A Line is a line with the position of the next one.
type Line struct {
	Next int64
	Text []byte // without the newline
}

func openLog(fsys disk.FS, dir string, segment int64) (*Log, error) {
	l := &Log{fs: fsys, dir: dir, segmentBytes: segment, changed: make(chan struct{})}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	b, err := disk.ReadFile(fsys, filepath.Join(dir, ackName), 64)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		if l.acked, err = strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err != nil || l.acked < 0 {
			return nil, fmt.Errorf("%s: %q is not a position", filepath.Join(dir, ackName), b)
		}
	}
	if err := l.openSegments(); err != nil {
		return nil, err
	}
	l.durable = l.endLocked()
	return l, nil
}

// openSegments opens the last file and reads where the lines of all files are.
func (l *Log) openSegments() error {
	entries, err := l.fs.ReadDir(l.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if digits, ok := strings.CutSuffix(e.Name(), segmentSuffix); ok {
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n >= 0 {
				l.segments = append(l.segments, n)
			}
		}
	}
	slices.Sort(l.segments)
	if len(l.segments) == 0 {
		return l.begin(l.acked)
	}
	for i, from := range l.segments {
		f, err := lines.Open(l.fs, l.path(from), unsynced)
		if err != nil {
			return err
		}
		if err := l.scan(from, f.Size()); err != nil {
			f.Close()
			return err
		}
		if i == len(l.segments)-1 {
			l.file = f
		} else if err := f.Close(); err != nil {
			return err
		}
	}
	if l.endLocked() < l.acked { // an old copy of the directory was restored
		return errors.Join(l.file.Close(), l.begin(l.acked))
	}
	return nil
}

// scan adds the lines of a file that are not acknowledged.
func (l *Log) scan(from, size int64) error {
	if from+size <= l.acked {
		return nil
	}
	f, err := l.fs.OpenFile(l.path(from), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	r := lines.NewReader(io.NewSectionReader(f, 0, size), 64<<10, 0)
	for at := from; ; {
		_, err := r.Next()
		if err == io.EOF {
			return nil // the file ends with a newline
		}
		if err != nil && err != bufio.ErrTooLong {
			return err
		}
		n := int64(r.Size())
		if at >= l.acked {
			l.waiting = append(l.waiting, span{at, at + n})
		}
		at += n
	}
}

func (l *Log) path(from int64) string {
	return filepath.Join(l.dir, fmt.Sprintf("%020d", from)+segmentSuffix)
}

// begin begins a file. The caller holds mu.
func (l *Log) begin(from int64) error {
	f, err := lines.Open(l.fs, l.path(from), unsynced)
	if err != nil {
		return err
	}
	l.file, l.segments = f, append(l.segments, from)
	return nil
}

// endLocked returns the position after the last line. The caller holds mu.
func (l *Log) endLocked() int64 { return l.segments[len(l.segments)-1] + l.file.Size() }

func (l *Log) end64() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.endLocked()
}

// Append adds a line; fn appends its text without a newline.
func (l *Log) Append(fn func([]byte) []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	if l.file.Size() >= l.segmentBytes {
		end := l.endLocked()
		full := l.file
		if err := full.Flush(); err != nil {
			return err
		}
		if err := l.begin(end); err != nil {
			return err
		}
		l.full = append(l.full, full)
	}
	from := l.endLocked()
	l.file.Add(func(b []byte) []byte { return append(fn(b), '\n') })
	l.waiting = append(l.waiting, span{from, l.endLocked()})
	return l.file.Err()
}

func (l *Log) flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	return l.file.Flush()
}

func (l *Log) sync() error {
	l.mu.Lock()
	full, file, over := l.full, l.file, l.over
	l.full = nil
	l.mu.Unlock()
	if over {
		return nil
	}
	for _, f := range full {
		if err := f.Close(); err != nil { // it syncs
			return err
		}
	}
	err := file.Sync()
	if errors.Is(err, lines.ErrClosed) { // the Log was deleted meanwhile, or another sync has closed the full file
		return nil
	}
	return err
}

// publish lets Read return the lines before end.
func (l *Log) publish(end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if end > l.durable && !l.over {
		l.durable = end
		l.wake()
	}
}

// wake closes the channel of Changed. The caller holds mu.
func (l *Log) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Changed returns a channel that is closed when Read may return more, or when the Log has ended. Get it before Read.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Waiting returns the number of lines that are not acknowledged, durable or not.
func (l *Log) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// readBytes bounds the text that Read returns, unless one line is longer.
const readBytes = 4 << 20

// Read returns up to max durable lines from a position on, and at most 4 MiB of them, but at least one if there is
// one. A position before the first line that is not acknowledged means that line.
func (l *Log) Read(from int64, max int) ([]Line, error) {
	l.mu.Lock()
	i, _ := slices.BinarySearchFunc(l.waiting, from, func(s span, at int64) int { return cmp.Compare(s.from, at) })
	var parts [][]span // those of one file each
	bytes, file := int64(0), -1
	for n := 0; n < max && i < len(l.waiting); n, i = n+1, i+1 {
		s := l.waiting[i]
		if bytes += s.to - s.from; s.to > l.durable || bytes > readBytes && n > 0 {
			break
		}
		if k := l.fileOf(s.from); k != file || len(parts) == 0 {
			file, parts = k, append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], s)
	}
	segments := slices.Clone(l.segments)
	l.mu.Unlock()
	var out []Line
	for _, p := range parts {
		k, found := slices.BinarySearch(segments, p[0].from)
		if !found {
			k--
		}
		var err error
		if out, err = l.read(out, segments[k], p); err != nil {
			return out, err
		}
	}
	return out, nil
}

// fileOf returns the index of the file that has the line at a position. The caller holds mu.
func (l *Log) fileOf(from int64) int {
	k, found := slices.BinarySearch(l.segments, from)
	if !found {
		k--
	}
	return k
}

// read appends the lines of a part of a file. A file that is not there any more was acknowledged meanwhile.
func (l *Log) read(out []Line, base int64, part []span) ([]Line, error) {
	f, err := l.fs.OpenFile(l.path(base), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer f.Close()
	first := part[0].from
	b := make([]byte, part[len(part)-1].to-first)
	if _, err := f.ReadAt(b, first-base); err != nil {
		return out, fmt.Errorf("read %s: %w", l.path(base), err)
	}
	for _, s := range part {
		out = append(out, Line{s.to, bytes.TrimSuffix(b[s.from-first:s.to-first], []byte{'\n'})})
	}
	return out, nil
}

// Each calls fn with all lines that the files still have, also acknowledged ones: at least those of the last seconds
// before a crash. Call it before Append.
func (l *Log) Each(fn func(text []byte) error) error {
	for _, from := range l.segments {
		f, err := l.fs.OpenFile(l.path(from), os.O_RDONLY, 0)
		if err != nil {
			return err
		}
		r := lines.NewReader(f, 64<<10, math.MaxInt)
		for err == nil {
			var line []byte
			if line, err = r.Next(); err == nil {
				err = fn(line)
			}
		}
		f.Close() // it was only read
		if err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
	}
	return nil
}

// Acknowledge records that the application has collected all lines before a position. It is durable when it returns. A
// position after the last durable line means the end of that line, and one within a line means its beginning.
func (l *Log) Acknowledge(position int64) error {
	l.ackMu.Lock()
	defer l.ackMu.Unlock()
	l.mu.Lock()
	position = min(position, l.durable)
	n := 0
	for n < len(l.waiting) && l.waiting[n].to <= position {
		n++
	}
	over := l.over
	at := l.acked
	if n > 0 {
		at = l.waiting[n-1].to
	}
	l.mu.Unlock()
	if n == 0 || over {
		return nil
	}
	if err := disk.WriteFile(l.fs, filepath.Join(l.dir, ackName), strconv.AppendInt(nil, at, 10)); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked = at
	l.waiting = append(l.waiting[:0:0], l.waiting[n:]...)
	return l.trim()
}

// trim deletes the files whose lines are all acknowledged, except for the last two, which Each needs. The caller holds
// mu.
func (l *Log) trim() error {
	for len(l.segments) > 2 && l.segments[1] <= l.acked {
		if err := l.fs.Remove(l.path(l.segments[0])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		l.segments = l.segments[1:]
	}
	return nil
}

// end ends the Log, whose files are deleted next.
func (l *Log) end() {
	l.close() // the lines do not matter any more
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = nil
	l.wake()
}

func (l *Log) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return nil
	}
	l.over = true
	var err error
	for _, f := range l.full {
		err = errors.Join(err, f.Close())
	}
	return errors.Join(err, l.file.Close())
}
