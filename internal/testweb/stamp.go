package testweb

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A stamp is what tells whether a file or a folder has changed since.
type stamp struct {
	name string
	dir  bool
	size int64
	mod  time.Time
	info fs.FileInfo // to tell one file from another of the same name; nil: there is none
	// open says that the time was too close to the reading: a file system may
	// give another change the same time.
	open bool
}

// coarsest is the coarsest resolution of a file system's times (that of FAT).
const coarsest = 2 * time.Second

func stampOf(name string, st fs.FileInfo) stamp {
	recent := time.Since(st.ModTime()) < coarsest
	return stamp{name: name, dir: st.IsDir(), size: st.Size(), mod: st.ModTime(), info: st, open: recent}
}

// holds reports whether the file or folder is as it was.
func (s *stamp) holds() bool {
	st, err := os.Stat(s.name)
	if err != nil {
		return s.info == nil
	}
	return s.info != nil && !s.open && os.SameFile(s.info, st) && st.IsDir() == s.dir &&
		st.Size() == s.size && st.ModTime().Equal(s.mod)
}

// stamps are what the answer to a path below the folder rests on, apart from
// the file that is found: the path itself, and the folder that it lies in, or
// the nearest one there is. Folders change when a name in them comes or goes.
func (m *mount) stamps(rest string) []stamp {
	name, ok := clean(rest)
	if !ok || m.Dir == "" {
		return nil
	}
	full := filepath.Join(m.Dir, filepath.FromSlash(name))
	if st, err := os.Stat(full); err == nil {
		return []stamp{stampOf(full, st)}
	}
	for dir := full; dir != m.Dir && len(dir) > len(m.Dir); {
		dir = filepath.Dir(dir)
		if st, err := os.Stat(dir); err == nil {
			return []stamp{{name: full}, stampOf(dir, st)}
		}
	}
	return []stamp{{name: full}}
}

// current reports whether the file is what the folder would answer now.
func (f *file) current() bool {
	for i := range f.rests {
		if !f.rests[i].holds() {
			return false
		}
	}
	return true
}

// recent reports whether the file changed within the second of now. Another
// change in that second would have the same Last-Modified, so it is left out
// (RFC 9110, 8.8.2.2).
func (f *file) recent(now time.Time) bool { return f.modified.Unix() >= now.Unix() }

// etagOf is the ETag of a content.
func etagOf(b []byte) string {
	const hex = "0123456789abcdef"
	sum := sha256.Sum256(b)
	tag := []byte{'"'}
	for _, c := range sum[:8] {
		tag = append(tag, hex[c>>4], hex[c&15])
	}
	return string(append(tag, '"'))
}
