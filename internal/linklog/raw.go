package linklog

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/lines"
)

// LogName returns the name of a file of Files, which stays the same when the file is finished: NAME.jsonl, without a
// folder.
func LogName(file string) string {
	base := filepath.Base(file)
	return strings.TrimSuffix(strings.TrimSuffix(base, ".open"), ".gz")
}

// Raw has the lines of a file of a link log, as they are.
type Raw struct {
	io.Reader
	// Finished means that the file gets no more lines.
	Finished bool
	file     disk.File
}

// OpenRaw opens a file of Files. If the file is not finished, Raw has its complete lines, which are on the disk: no
// crash takes them. If the file is damaged from its beginning on, IsDamage says so of the error. The caller closes it.
func OpenRaw(fsys disk.FS, name string) (*Raw, error) {
	if base, open := strings.CutSuffix(name, openSuffix); open {
		f, err := fsys.OpenFile(name, os.O_RDWR, 0)
		if err == nil {
			end, err := lines.Durable(f)
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
			return &Raw{io.NewSectionReader(f, 0, end), false, f}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		name = base + gzSuffix // the crawl has finished the file meanwhile
	}
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bufio.NewReaderSize(f, 256<<10))
	if err == io.EOF { // the file is empty
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Raw{z, true, f}, nil
}

// Close closes the file.
func (r *Raw) Close() error { return r.file.Close() }

// IsDamage reports that err is about the content of a compressed file, and not about the disk.
func IsDamage(err error) bool {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	return corrupt || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, io.ErrUnexpectedEOF)
}
