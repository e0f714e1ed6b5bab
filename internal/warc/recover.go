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
	File   string // final name, without directory
	Bytes  int64  // kept: complete records only. Zero: Open removed the file
	Cut    int64  // bytes removed at the end
	Read   int64  // bytes of complete records that Open has read; the sorted runs of the index tell of those before
	Reason string // why the cut was needed; empty without a cut
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

// warcName matches the name of a WARC file. Group 1 is the time at which it was begun, group 2 its serial number.
var warcName = regexp.MustCompile(`-(\d{17})-(\d{5,9})-.*\.warc\.gz(\.open)?$`)

// IsFileName reports whether a WARC file has a name as a Writer gives it. Other programs have similar names.
func IsFileName(name string) bool {
	return warcName.MatchString(name) && !strings.HasSuffix(name, openSuffix)
}

// recoverDir repairs every unfinished file of a crawl directory. serial is the next free serial number.
func recoverDir(fsys disk.FS, dir string) (rec Recovered, serial int, err error) {
	if err := sweep(fsys, runsDir(dir)); err != nil {
		return rec, 0, err
	}
	files, err := Files(fsys, dir)
	if err != nil {
		return rec, 0, err
	}
	final := make(map[string]bool)
	for _, f := range files {
		final[f.Name] = final[f.Name] || !f.Open
		if m := warcName.FindStringSubmatch(f.Name); m != nil {
			n, _ := strconv.Atoi(m[2]) // at most nine digits, so it fits
			serial = max(serial, n+1)
		}
	}
	for _, f := range files {
		if !f.Open {
			continue
		}
		if final[f.Name] {
			return rec, 0, fmt.Errorf("recover %s: %s: %w: move one of the two away", filepath.Base(f.Path), f.Name,
				fs.ErrExist)
		}
		r, err := recoverFile(fsys, dir, f)
		if err != nil {
			return rec, 0, fmt.Errorf("recover %s: %w", filepath.Base(f.Path), err)
		}
		rec.Files = append(rec.Files, r)
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

// recoverFile truncates NAME.open after its last complete record, completes its index and gives it its final name. It
// reads only the records that follow those of the sorted runs. If the process is killed meanwhile, NAME.open remains
// and the next Open repairs it.
func recoverFile(fsys disk.FS, dir string, file File) (rf RecoveredFile, err error) {
	name, folder := file.Name, filepath.Dir(file.Path)
	rf.File = name
	f, err := fsys.OpenFile(file.Path, os.O_RDWR, 0)
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
		err = f.Sync() // the runs that are written below are of records on the disk
	}
	if err != nil {
		return rf, err
	}
	lines := runs{fs: fsys, dir: runsDir(dir)}
	number, from, err := covered(fsys, dir, name)
	if err != nil {
		return rf, err
	}
	captures, err := lines.scan(f, name, number, from, &rf)
	if err == nil && captures == 0 && number > 0 { // the file lacks what the runs tell
		number = 0
		captures, err = lines.scan(f, name, 0, 0, &rf)
	}
	if err != nil {
		return rf, err
	}
	rf.Cut = size - rf.Bytes
	if captures == 0 {
		rf.Cut, rf.Bytes, rf.Read = size, 0, 0
		if err := lines.discard(name, 0); err != nil {
			return rf, err
		}
		if err := fsys.Remove(file.Path); err != nil {
			return rf, err
		}
		return rf, fsys.SyncDir(folder)
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
	if err := fsys.Rename(file.Path, filepath.Join(folder, name)); err != nil {
		return rf, err
	}
	return rf, fsys.SyncDir(folder)
}

// covered returns how many of the first runs of an unfinished WARC file tell of records that are on the disk, and where
// the last of these records begins. It leaves out the runs of earlier programs, which did not sync the records first,
// and the last run of a file, which is written anew.
func covered(fsys disk.FS, dir, name string) (number int, from int64, err error) {
	for ; ; number++ {
		last, err := lastRecord(fsys, filepath.Join(runsDir(dir), runName(name, number)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return number, from, nil
		case errors.Is(err, errNoRun):
			return 0, 0, nil
		case err != nil:
			return 0, 0, err
		}
		from = max(from, last)
	}
}

// errNoRun means that a file of index lines is damaged.
var errNoRun = errors.New("not a run of index lines")

// lastRecord returns the highest offset in a file of index lines.
func lastRecord(fsys disk.FS, path string) (last int64, err error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	s := source(f, path)
	for err = s.next(); err == nil; err = s.next() {
		l, err := ParseLine(s.line)
		if err != nil {
			return 0, errNoRun
		}
		last = max(last, l.Offset)
	}
	switch {
	case err == io.EOF && last > 0:
		return last, nil
	case err == io.EOF || errors.Is(err, errLongLine) || errors.Is(err, io.ErrUnexpectedEOF):
		err = errNoRun
	}
	return 0, err
}

// scan reads the file from a record on, up to the first incomplete record. It collects the index lines of the complete
// ones, but not that of the first one if runs of the given number tell of it. It counts the records that are not
// warcinfo. An error means that the disk failed, not that the file is damaged.
func (r *runs) scan(f io.ReadSeeker, name string, number int, from int64, rf *RecoveredFile) (captures int, err error) {
	if err := r.discard(name, number); err != nil {
		return 0, err
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return 0, err
	}
	rf.Bytes, rf.Reason = from, ""
	rd := NewReaderAt(f, from)
	m := lineMaker{name: name, whole: true}
	known := number > 0
	emit := func(line []byte) error {
		if known {
			known = false
			return nil
		}
		return r.put(name, line)
	}
	for {
		rec, err := rd.Next()
		if err == io.EOF {
			break
		}
		if err == nil && (!rec.Gzip || rec.Offset != rf.Bytes) {
			err = &DamageError{rec.Offset, "the record was not written by this program"}
		}
		if err == nil {
			_, err = m.read(rd, rec, emit)
		}
		if errors.Is(err, ErrDamaged) {
			rf.Reason = err.Error()
			break
		}
		if err != nil {
			return captures, err
		}
		rf.Bytes = rec.Offset + rec.Length
		if rec.Type() != "warcinfo" {
			captures++
		}
	}
	rf.Read = rf.Bytes - from
	return captures, m.flush(emit)
}
