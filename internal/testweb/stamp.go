package testweb

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// A stamp tells whether a file or a directory has changed since the stamp was taken.
type stamp struct {
	name string
	dir  bool
	size int64
	mod  time.Time
	info fs.FileInfo // identifies the file, even if another has the same name; nil: there was none
	// tooRecent means that the file changed shortly before the stamp was taken. A file system may give a later change
	// the same time, so the stamp is never valid.
	tooRecent bool
}

// coarsest is the coarsest resolution of a file system's times, that of FAT.
const coarsest = 2 * time.Second

func stampOf(name string, st fs.FileInfo) stamp {
	recent := time.Since(st.ModTime()) < coarsest
	return stamp{name: name, dir: st.IsDir(), size: st.Size(), mod: st.ModTime(), info: st, tooRecent: recent}
}

// unchanged reports whether the file or directory has not changed.
func (s *stamp) unchanged() bool {
	st, err := os.Stat(s.name)
	if err != nil {
		return s.info == nil
	}
	return s.info != nil && !s.tooRecent && os.SameFile(s.info, st) && st.IsDir() == s.dir &&
		st.Size() == s.size && st.ModTime().Equal(s.mod)
}

// stamps returns stamps of the path rest itself and, if it does not exist, of the nearest existing directory above it.
// A directory changes if a name in it is added or removed. The stamp of the file that find returns is not among them.
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

// current reports whether the file still is what the folder would serve.
func (f *file) current() bool {
	for i := range f.dependsOn {
		if !f.dependsOn[i].unchanged() {
			return false
		}
	}
	return true
}

// recent reports whether the file changed within the current second. Another change in that second would have the same
// Last-Modified, so the response leaves it out (RFC 9110, 8.8.2.2).
func (f *file) recent(now time.Time) bool { return f.modified.Unix() >= now.Unix() }

// etagOf returns the ETag of a content.
func etagOf(b []byte) string {
	const hex = "0123456789abcdef"
	sum := sha256.Sum256(b)
	tag := []byte{'"'}
	for _, c := range sum[:8] {
		tag = append(tag, hex[c>>4], hex[c&15])
	}
	return string(append(tag, '"'))
}
