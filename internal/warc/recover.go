package warc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Recovered reports the files that were not finished when the last process ended, and what Open did with them.
type Recovered struct {
	Files []RecoveredFile
}

// A RecoveredFile is a file that Open found as NAME.open.
type RecoveredFile struct {
	File    string // final name, without directory
	Bytes   int64  // kept: complete records only. Zero: Open removed the file
	Cut     int64  // bytes removed at the end
	Records int    // kept, including the warcinfo record
	Reason  string // why the cut was needed; empty without a cut
}

// Valid maps the name of each recovered file to its number of valid bytes. A file that is not in the map was
// finished before and is complete.
func (r Recovered) Valid() map[string]int64 {
	m := make(map[string]int64, len(r.Files))
	for _, f := range r.Files {
		m[f.File] = f.Bytes
	}
	return m
}

// warcName matches the name of a WARC file; group 1 is its serial number.
var warcName = regexp.MustCompile(`-\d{17}-(\d{5,9})-.*\.warc\.gz(\.open)?$`)

// recoverDir repairs every unfinished file of a crawl directory. serial is the next free serial number.
func recoverDir(fsys disk.FS, dir string) (rec Recovered, serial int, err error) {
	if err := sweep(fsys, runsDir(dir)); err != nil {
		return rec, 0, err
	}
	entries, err := fsys.ReadDir(archiveDir(dir))
	if err != nil {
		return rec, 0, err
	}
	final := make(map[string]bool)
	for _, e := range entries {
		final[e.Name()] = true
		if m := warcName.FindStringSubmatch(e.Name()); m != nil {
			n, _ := strconv.Atoi(m[1]) // at most nine digits, so it fits
			serial = max(serial, n+1)
		}
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), openSuffix)
		if !ok || !strings.HasSuffix(name, warcSuffix) {
			continue
		}
		if final[name] {
			return rec, 0, fmt.Errorf("recover %s: %s: %w: move one of the two away", e.Name(), name, fs.ErrExist)
		}
		f, err := recoverFile(fsys, dir, name)
		if err != nil {
			return rec, 0, fmt.Errorf("recover %s: %w", e.Name(), err)
		}
		rec.Files = append(rec.Files, f)
	}
	return rec, serial, nil
}

// sweep removes temporary files that a crash left behind.
func sweep(fsys disk.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".tmp" || strings.HasPrefix(ext, ".part") {
			if err := fsys.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// recoverFile truncates NAME.open after its last complete record, rebuilds its index and gives it its final name. If
// the process is killed meanwhile, NAME.open remains and the next Open repairs it.
func recoverFile(fsys disk.FS, dir, name string) (rf RecoveredFile, err error) {
	rf.File = name
	final := filepath.Join(archiveDir(dir), name)
	lines := runs{fs: fsys, dir: runsDir(dir)}
	if err := lines.discard(name); err != nil {
		return rf, err
	}
	f, err := fsys.OpenFile(final+openSuffix, os.O_RDWR, 0)
	if err != nil {
		return rf, err
	}
	defer func() {
		if f != nil {
			f.Close() // the error that is returned says more
		}
	}()
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return rf, err
	}
	captures, err := scanWhole(f, name, &rf, &lines)
	if err != nil {
		return rf, err
	}
	rf.Cut = size - rf.Bytes
	if captures == 0 {
		rf.Cut, rf.Bytes, rf.Records = size, 0, 0
		if err := lines.discard(name); err != nil {
			return rf, err
		}
		if err := fsys.Remove(final + openSuffix); err != nil {
			return rf, err
		}
		return rf, fsys.SyncDir(archiveDir(dir))
	}
	if rf.Cut > 0 {
		if err := f.Truncate(rf.Bytes); err != nil {
			return rf, err
		}
	}
	if err := f.Sync(); err != nil {
		return rf, err
	}
	err = f.Close()
	f = nil
	if err != nil {
		return rf, err
	}
	if err := lines.finish(name); err != nil {
		return rf, err
	}
	if err := fsys.Rename(final+openSuffix, final); err != nil {
		return rf, err
	}
	return rf, fsys.SyncDir(archiveDir(dir))
}

// scanWhole reads the file up to the first incomplete record and collects the index lines of the complete ones. It
// counts the records that are not warcinfo. An error means that the disk failed, not that the file is damaged.
func scanWhole(f io.Reader, name string, rf *RecoveredFile, lines *runs) (captures int, err error) {
	r := NewReader(f)
	m := lineMaker{name: name, whole: true}
	emit := func(line []byte) error { return lines.put(name, line) }
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return captures, m.flush(emit)
		}
		if err == nil && (!rec.Gzip || rec.Offset != rf.Bytes) {
			err = &DamageError{rec.Offset, "the record was not written by this program"}
		}
		if err == nil {
			_, err = m.read(r, rec, emit)
		}
		if errors.Is(err, ErrDamaged) {
			rf.Reason = err.Error()
			return captures, m.flush(emit)
		}
		if err != nil {
			return captures, err
		}
		rf.Bytes = rec.Offset + rec.Length
		rf.Records++
		if rec.Type() != "warcinfo" {
			captures++
		}
	}
}
