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

// Recovered is what Open found of files that were being written when the
// process ended.
type Recovered struct {
	Files []RecoveredFile
}

// A RecoveredFile was called NAME.open.
type RecoveredFile struct {
	File    string // final name, without directory
	Bytes   int64  // what is left: whole records. Zero: the file is gone
	Cut     int64  // bytes of a torn tail taken away
	Records int    // left, the warcinfo record too
	Reason  string // what was wrong where the cut is; empty without a cut
}

// Valid says how many bytes of each recovered file are there. Files that are
// not in it were finished before and are whole.
func (r Recovered) Valid() map[string]int64 {
	m := make(map[string]int64, len(r.Files))
	for _, f := range r.Files {
		m[f.File] = f.Bytes
	}
	return m
}

// warcName finds time and serial in the name of a WARC file.
var warcName = regexp.MustCompile(`-\d{17}-(\d{5,9})-.*\.warc\.gz(\.open)?$`)

// recoverDir repairs every open file of a crawl directory and says which
// serial number comes next.
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
			n, _ := strconv.Atoi(m[1]) // nine digits at most
			serial = max(serial, n+1)
		}
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), openSuffix)
		if !ok || !strings.HasSuffix(name, warcSuffix) {
			continue
		}
		if final[name] {
			return rec, 0, fmt.Errorf("%s: %w beside its .open file", name, fs.ErrExist)
		}
		f, err := recoverFile(fsys, dir, name)
		if err != nil {
			return rec, 0, fmt.Errorf("recover %s: %w", e.Name(), err)
		}
		rec.Files = append(rec.Files, f)
	}
	return rec, serial, nil
}

// sweep removes what a crash left of files that were to be replaced whole.
func sweep(fsys disk.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".tmp" || ext == ".part" {
			if err := fsys.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// recoverFile cuts NAME.open behind its last whole record, rebuilds its index
// and gives it its name. A crash in the midst of it leaves NAME.open.
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
			f.Close() // the first error says more
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

// scanWhole reads the file up to the first record that is not whole, and
// gathers the index lines of the others. It counts the records that are no
// warcinfo. Errors are of the disk.
func scanWhole(f io.Reader, name string, rf *RecoveredFile, lines *runs) (captures int, err error) {
	r := NewReader(f)
	var buf []byte
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return captures, nil
		}
		if err == nil && (!rec.Gzip || rec.Offset != rf.Bytes) {
			err = &DamageError{rec.Offset, "no record of ours"}
		}
		var l Line
		var ok bool
		if err == nil {
			l, ok, err = lineOf(rec, name)
		}
		if err == nil {
			err = r.Finish()
		}
		if err == nil && (rec.Shared || string(rec.tail) != recordEnd) {
			err = &DamageError{rec.Offset, "record without its end"}
		}
		if errors.Is(err, ErrDamaged) {
			rf.Reason = err.Error()
			return captures, nil
		}
		if err != nil {
			return captures, err
		}
		rf.Bytes = rec.Offset + rec.Length
		rf.Records++
		if rec.Type() != "warcinfo" {
			captures++
		}
		if ok {
			l.Length = rec.Length
			buf = l.AppendTo(buf[:0])
			if err := lines.put(name, buf); err != nil {
				return captures, err
			}
		}
	}
}
