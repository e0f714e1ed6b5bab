package lines

import (
	"errors"
	"hash/maphash"
	"io"
	"math"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A Form is another form of lines.
type Form interface {
	// Append appends a line in this form to dst, with a newline. The line has none. For equal lines it appends the
	// same. It may append nothing.
	Append(dst, line []byte) []byte
}

// A lineCopy has the lines of a File in another form. The mu of the File guards it.
type lineCopy struct {
	to     *File
	form   Form
	synced int64 // length of the copy at its last sync
}

// OpenWithCopy is Open for a file of which another one, copyName, has each line in another form. OpenWithCopy compares
// the last lines of both, as many as Tail has, and makes the copy agree from there on. It does not find damage before
// them. Flush writes the lines to both. OpenWithCopy makes a missing copy anew. If the file itself is missing or empty,
// somebody has removed it, and the copy keeps its lines.
func OpenWithCopy(fs disk.FS, name string, unsynced int64, copyName string, form Form) (*File, error) {
	f, err := Open(fs, name, unsynced)
	if err != nil {
		return nil, err
	}
	to, err := Open(fs, copyName, unsynced)
	if err != nil {
		return nil, errors.Join(err, f.file.Close())
	}
	f.copy = &lineCopy{to: to, form: form}
	from, err := f.copy.agree(f)
	if err = logError(copyName, err); err == nil {
		err = f.copy.fill(f, from)
	}
	if err != nil {
		return nil, errors.Join(err, f.file.Close(), to.file.Close())
	}
	return f, nil
}

func (c *lineCopy) add(line []byte) { c.to.buf = c.form.Append(c.to.buf, line) }

// sync syncs the copy before it has as many bytes since the last time as Open searches for holes. It need not do so
// each time, because a power failure takes nothing of the copy that f does not have.
func (c *lineCopy) sync(f *File) error {
	f.mu.Lock()
	due := c.to.size-c.synced >= f.unsynced/2
	if due {
		c.synced = c.to.size
	}
	f.mu.Unlock()
	if !due {
		return nil
	}
	return logError(c.to.name, c.to.file.Sync())
}

// agree looks for the last line of the copy that f has, too, and removes the lines of the copy after it. It returns the
// position in f behind that line.
func (c *lineCopy) agree(f *File) (from int64, err error) {
	if f.size == 0 {
		return 0, nil
	}
	seed := maphash.MakeSeed()
	ends := map[uint64]int64{} // positions in f behind its last lines, by the key of their copies
	var text []byte
	key := keys(seed)
	err = f.eachLast(func(line []byte, end int64) {
		if text = c.form.Append(text[:0], line); len(text) > 0 {
			ends[key(text[:len(text)-1])] = end
		}
	})
	if err != nil {
		return 0, err
	}
	keep := int64(0)
	key = keys(seed)
	err = c.to.eachLast(func(line []byte, end int64) {
		if at, ok := ends[key(line)]; ok {
			keep, from = end, at
		}
	})
	if err != nil || keep == c.to.size {
		return from, err
	}
	if err := c.to.file.Truncate(keep); err != nil {
		return 0, err
	}
	c.to.size = keep
	if _, err := c.to.file.Seek(keep, io.SeekStart); err != nil {
		return 0, err
	}
	return from, c.to.file.Sync() // or a power failure could bring the removed lines back, below new ones
}

// fill gives the copy the lines of f from a position on.
func (c *lineCopy) fill(f *File, from int64) error {
	r := NewReader(io.NewSectionReader(f.file, from, f.size-from), appendBytes, math.MaxInt)
	for c.to.err == nil {
		line, err := r.Next()
		if err == io.EOF {
			c.to.flush()
			break
		}
		if err != nil {
			return logError(f.name, err)
		}
		if c.add(line); len(c.to.buf) >= appendBytes {
			c.to.flush()
		}
	}
	return c.to.err
}

// keys returns a function that returns the key of the next line. Equal lines in a row have different keys.
func keys(seed maphash.Seed) func(line []byte) uint64 {
	var last, equal uint64
	return func(line []byte) uint64 {
		sum := maphash.Bytes(seed, line)
		if equal++; sum != last {
			last, equal = sum, 0
		}
		return sum + equal
	}
}

// eachLast calls fn with the last whole lines of the file, as many as Tail has, and the positions behind them.
func (f *File) eachLast(fn func(line []byte, end int64)) error {
	tail, whole := f.Tail()
	r := NewReader(tail, appendBytes, math.MaxInt)
	for end := max(f.size-f.unsynced, 0); ; whole = true {
		line, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if end += int64(r.Size()); whole {
			fn(line, end)
		}
	}
}
