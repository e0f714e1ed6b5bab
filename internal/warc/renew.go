package warc

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/lines"
)

// A Renewal tells which WARC files of a crawl directory have index lines with the key hops or via. It holds new lines
// of the files whose lines in the index are of an older version of this program, or of another program, and lack keys
// that their records tell.
type Renewal struct {
	// Told has all WARC files of the index. It is true for those of which a line, in the index or in Path, tells how
	// the crawl came to the URL. So a line of such a file that has neither hops nor via is that of a seed.
	Told map[string]bool
	Path string // the file with the new lines, sorted; empty if no file needed them
	Read int    // how many WARC files were read
}

// sampledLines is how many captures of a WARC file are read to find out whether its records tell more than its index
// lines. The first capture of a file of a crawl is mostly a robots.txt, which has a path.
const sampledLines = 100

var errEnough = errors.New("enough is known")

// Renew reads the WARC files of p whose index lines all lack the keys hops and via, although their records tell them.
// It changes nothing in p.Dir. If there is such a file, it calls tmp for the name of an empty directory, which the
// caller removes. Its memory is bounded, apart from the names of the WARC files. progress is called with the bytes that
// were read, and that will be read in all. An error of progress ends Renew. A file that is missing or damaged keeps the
// lines that it has. A nil fsys means the machine's filesystem.
func Renew(fsys disk.FS, p Place, tmp func() (string, error),
	progress func(done, total int64) error) (*Renewal, error) {
	fsys = cmp.Or(fsys, disk.OS)
	r := &Renewal{Told: map[string]bool{}}
	if err := r.renew(fsys, p, tmp, progress); err != nil {
		return nil, fmt.Errorf("index of %s: %w", p.Dir, err)
	}
	return r, nil
}

func (r *Renewal) renew(fsys disk.FS, p Place, tmp func() (string, error),
	progress func(done, total int64) error) error {
	for _, path := range p.Indexes() {
		if err := r.scan(fsys, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var old []string
	m := meter{report: progress}
	for name, told := range r.Told {
		if told {
			continue
		}
		size, better, err := betterTold(fsys, p.Dir, name)
		if err != nil {
			return err
		}
		if better {
			old = append(old, name)
			m.total += size
		}
	}
	if len(old) == 0 {
		return nil
	}
	slices.Sort(old)
	dir, err := tmp()
	if err != nil {
		return err
	}
	q := sorting(fsys, dir)
	defer q.Close() // the caller removes the files
	var s Supplement
	for _, name := range old {
		if err := (rest{file: File{Name: name}}).index(fsys, p.Dir, q, &m, &s); err != nil {
			return err
		}
		r.Told[name] = true
	}
	r.Read = len(old)
	r.Path = filepath.Join(dir, "renewed")
	return disk.WriteStream(fsys, r.Path, func(w io.Writer) error { return writeLines(q, w) })
}

// scan notes the WARC files of an index. It passes over lines that it cannot read.
func (r *Renewal) scan(fsys disk.FS, path string) error {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for in := lines.NewReader(f, mergeBuf, lineLimit); ; {
		line, err := in.Next()
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case errors.Is(err, bufio.ErrTooLong):
			continue
		case err != nil:
			return err
		}
		if name := fileOf(line); name != "" && !r.Told[name] {
			r.Told[name] = bytes.Contains(line, []byte(`, "hops": "`)) || bytes.Contains(line, []byte(`, "via": "`))
		}
	}
}

// fileOf returns the filename of an index line; empty if it cannot be read.
func fileOf(line []byte) string {
	const key = `"filename": `
	i := bytes.LastIndex(line, []byte(key))
	if i < 0 {
		return ""
	}
	value, ok := bytes.CutSuffix(bytes.TrimSpace(line[i+len(key):]), []byte{'}'})
	var name string
	if !ok || json.Unmarshal(value, &name) != nil {
		return ""
	}
	return name
}

// betterTold reports whether a WARC file has a record that tells how the crawl came to its URL.
func betterTold(fsys disk.FS, dir, name string) (size int64, better bool, err error) {
	f, err := OpenWARC(fsys, dir, name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	n := 0
	err = Index(f, name, func(line []byte) error {
		l, err := ParseLine(line)
		if better = err == nil && l.Hops+l.Via != ""; better || n == sampledLines {
			return errEnough
		}
		n++
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) && !errors.Is(err, ErrDamaged) {
		return 0, false, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	return info.Size(), better, nil
}
