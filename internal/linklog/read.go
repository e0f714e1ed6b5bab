package linklog

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/lines"
)

var errNoTarget = errors.New("a link without a target")

// Damage counts what Read could not read.
type Damage struct {
	// Lines is how many lines are not lines of a link log. Files is how many compressed files end early or are damaged;
	// the lines before the damage are read.
	Lines, Files int64
	// First says where the first damage is, and what it is.
	First string
}

func (d *Damage) note(n *int64, format string, args ...any) {
	if *n++; d.First == "" {
		d.First = fmt.Sprintf(format, args...)
	}
}

// Any reports that there is damage.
func (d *Damage) Any() bool { return d.Lines+d.Files > 0 }

// Read calls fn for each line of the link logs in the crawl directories dirs, in the order of dirs, files and lines.
// The page is valid until fn returns. Read skips and counts what is damaged. A crawl that writes to its link log may be
// running: its last line is read only if it is complete. An error is one of the disk, or the first of fn.
func Read(fsys disk.FS, dirs []string, fn func(p *PageLine) error) (d Damage, err error) {
	files, err := allFiles(fsys, dirs)
	for i := 0; err == nil && i < len(files); i++ {
		err = readFile(fsys, files[i], &d, all, fn)
	}
	return d, err
}

func allFiles(fsys disk.FS, dirs []string) (files []string, err error) {
	for _, dir := range dirs {
		more, err := Files(fsys, dir)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	return files, nil
}

// A part says what is read of the lines of a file.
type part int

const (
	all               part = iota
	heads                  // no links
	headsAndRedirects      // only the links of lines that have a Redirect
)

// readFile calls fn for each line of a file.
func readFile(fsys disk.FS, name string, d *Damage, what part, fn func(p *PageLine) error) error {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if base, open := strings.CutSuffix(name, openSuffix); open && errors.Is(err, fs.ErrNotExist) {
		name = base + gzSuffix // the crawl has finished the file meanwhile
		f, err = fsys.OpenFile(name, os.O_RDONLY, 0)
	}
	if err != nil {
		return fmt.Errorf("link log: %w", err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(name, gzSuffix) {
		z, err := gzip.NewReader(bufio.NewReaderSize(f, 256<<10))
		if err != nil {
			d.note(&d.Files, "%s: %v", name, err)
			return nil
		}
		in = z
	}
	r := lines.NewReader(in, 256<<10, maxLine)
	var p PageLine
	for n := uint64(1); ; n++ {
		line, err := r.Next()
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF && !strings.HasSuffix(name, gzSuffix):
			return nil
		case errors.Is(err, bufio.ErrTooLong):
			d.note(&d.Lines, "%s, line %d: longer than %d bytes", name, n, maxLine)
			continue
		case err != nil && strings.HasSuffix(name, gzSuffix) && !isPathError(err):
			d.note(&d.Files, "%s, line %d: %v", name, n, err)
			return nil
		case err != nil:
			return fmt.Errorf("link log: %w", err)
		}
		head := what == heads || what == headsAndRedirects && !bytes.Contains(line, redirectKind)
		if err := p.parse(line, head); err != nil {
			d.note(&d.Lines, "%s, line %d: %v", name, n, err)
			continue
		}
		p.line = n
		if err := fn(&p); err != nil {
			return err
		}
	}
}

// redirectKind is in each line with a link of the kind Redirect.
var redirectKind = []byte(`"` + Redirect + `"`)

func isPathError(err error) bool {
	_, ok := errors.AsType[*fs.PathError](err)
	return ok
}

var errLine = errors.New("not a line of a link log")
