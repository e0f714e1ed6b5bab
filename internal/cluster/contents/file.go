package contents

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// A Digest is the SHA-1 of a payload.
type Digest = [20]byte

// A Page is a page with a content.
type Page struct {
	URL string
	// Date is the date of its record, to the millisecond.
	Date time.Time
}

const (
	fileName  = "first"
	fileMagic = "OWFIRST\x02"
	entryHead = 4 + 2 + 20 + 8
	// MaxURL is the longest URL of a page, in octets.
	MaxURL = 4096
	// maxMillis is the end of the year 9999, the last date that WARC can write.
	maxMillis = 253402300799999
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errEntry reports an entry that cannot be read: torn, damaged or never written.
var errEntry = errors.New("damaged entry")

// An entry is a content and its first page, as the file has them.
type entry struct {
	digest Digest
	page   Page
}

// appendTo encodes e.
func (e *entry) appendTo(b []byte) []byte {
	from := len(b)
	b = append(b, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(e.page.URL)))
	b = append(b, e.digest[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(e.page.Date.UnixMilli()))
	b = append(b, e.page.URL...)
	binary.LittleEndian.PutUint32(b[from:], crc32.Checksum(b[from+4:], castagnoli))
	return b
}

// decodeEntry reads the entry at the beginning of b. n is its length.
func decodeEntry(b []byte) (e entry, n int, err error) {
	if len(b) < entryHead {
		return e, 0, errEntry
	}
	n = entryHead + int(binary.LittleEndian.Uint16(b[4:]))
	if n == entryHead || n > entryHead+MaxURL || n > len(b) ||
		crc32.Checksum(b[4:n], castagnoli) != binary.LittleEndian.Uint32(b) {
		return e, 0, errEntry
	}
	e.digest = Digest(b[6:])
	ms := int64(binary.LittleEndian.Uint64(b[26:]))
	if ms < 0 || ms > maxMillis {
		return e, 0, errEntry
	}
	e.page = Page{URL: string(b[entryHead:n]), Date: time.UnixMilli(ms).UTC()}
	return e, n, nil
}

// CheckPage returns an error for a page that cannot be in a Table.
func CheckPage(p Page) error {
	switch ms := p.Date.UnixMilli(); {
	case p.URL == "":
		return errors.New("page without a URL")
	case len(p.URL) > MaxURL:
		return fmt.Errorf("URL of %d octets, at most %d", len(p.URL), MaxURL)
	case ms < 0 || ms > maxMillis:
		return fmt.Errorf("date %d ms", ms)
	}
	return nil
}

// A file stores the first pages of contents. One goroutine owns it.
type file struct {
	fs   disk.FS
	name string
	f    disk.File
	size int64 // length of the part without a torn entry
	buf  []byte
}

// openFile opens the file in dir, or creates it.
func openFile(fs disk.FS, dir string) (*file, error) {
	l := &file{fs: fs, name: filepath.Join(dir, fileName)}
	f, err := fs.OpenFile(l.name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	l.f = f
	head := make([]byte, len(fileMagic))
	n, err := f.ReadAt(head, 0)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
	case n == len(head) && string(head) == fileMagic:
		l.size, err = int64(len(head)), nil
	case n == len(head) && !blank(head):
		err = fmt.Errorf("%s: another version of this program wrote it, or it is damaged: "+
			"continue with the program that wrote it, or remove %s; "+
			"then pages with known contents are archived in full once more", l.name, dir)
	default: // a crash cut the header off
		err = l.begin(dir)
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
func (l *file) begin(dir string) error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	if err := l.write([]byte(fileMagic)); err != nil {
		return err
	}
	if err := l.f.Sync(); err != nil {
		return err
	}
	return l.fs.SyncDir(dir)
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

// at reads the entry at offset off.
func (l *file) at(off int64) (e entry, err error) {
	if off < int64(len(fileMagic)) || off >= l.size {
		return e, errEntry
	}
	if cap(l.buf) < entryHead+MaxURL {
		l.buf = make([]byte, entryHead+MaxURL)
	}
	b := l.buf[:min(entryHead+MaxURL, l.size-off)]
	n, err := l.f.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return e, err
	}
	e, _, err = decodeEntry(b[:n])
	return e, err
}

// each calls fn for the entries between two offsets. It returns the end of the last one, and skips
// damaged data between two entries.
func (l *file) each(from, to int64, fn func(off int64, e *entry) error) (end int64, err error) {
	r := bufio.NewReaderSize(io.NewSectionReader(l.f, from, max(0, to-from)), 256<<10)
	end = from
	for at := from; at < to; {
		b, err := r.Peek(entryHead + MaxURL)
		if err != nil && !errors.Is(err, io.EOF) {
			return end, err
		}
		e, n, err := decodeEntry(b)
		if err != nil {
			r.Discard(1) // cannot fail: Peek has read these bytes
			at++
			continue
		}
		if err := fn(at, &e); err != nil {
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
