package testweb

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestFolderFollowsItsFiles: the server serves changed files at once, with new validators.
func TestFolderFollowsItsFiles(t *testing.T) {
	dir := t.TempDir()
	w := serving(t, Config{Gzip: true, Folders: []Folder{{Host: "a.example", Dir: dir, Listing: true}}})
	c := client(t, w)
	// The two versions of each file have the same length and the same time, as on a file system with coarse times.
	// A time in the future counts as recent, however slow the machine is.
	recent, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	put := func(name, text string, at time.Time) {
		t.Helper()
		write(t, dir, name, text)
		must.Do(t, os.Chtimes(filepath.Join(dir, name), at, at))
	}
	want := func(path string, status int, part string, header ...string) *http.Response {
		t.Helper()
		res, body := get(t, c, "http://a.example"+path, header...)
		if res.StatusCode != status || !strings.Contains(body, part) {
			t.Errorf("%s %q: got %d %q, want %d with %q", path, header, res.StatusCode, body, status, part)
		}
		return res
	}
	want("/page.html", 404, "")
	put("page.html", "first "+strings.Repeat("text ", 99), recent)
	first := want("/page.html", 200, "first")
	put("page.html", "other "+strings.Repeat("text ", 99), recent)
	other := want("/page.html", 200, "other", "If-None-Match", first.Header.Get("Etag"))
	if other.Header.Get("Etag") == first.Header.Get("Etag") {
		t.Errorf("both versions have the ETag %s", other.Header.Get("Etag"))
	}
	if m := first.Header.Get("Last-Modified") + other.Header.Get("Last-Modified"); m != "" {
		t.Errorf("the time of the file is recent, but there is a Last-Modified: %s", m)
	}
	want("/page.html", 304, "", "If-None-Match", `"x", W/`+other.Header.Get("Etag"))
	want("/page.html", 200, "\x1f\x8b", "If-None-Match", other.Header.Get("Etag"), "Accept-Encoding", "gzip")
	put("page.html", "older "+strings.Repeat("text ", 99), past)
	older := want("/page.html", 200, "older", "If-None-Match", other.Header.Get("Etag"))
	if got, want := older.Header.Get("Last-Modified"), past.UTC().Format(http.TimeFormat); got != want {
		t.Errorf("Last-Modified %q, want %q", got, want)
	}
	want("/page.html", 304, "", "If-Modified-Since", older.Header.Get("Last-Modified"))
	want("/page.html", 304, "", "If-None-Match", older.Header.Get("Etag"), "If-Modified-Since",
		"Mon, 02 Jan 2006 15:04:05 GMT")
	want("/page.html", 200, "older", "If-Modified-Since", past.Add(-time.Hour).UTC().Format(http.TimeFormat))
	// Files with the same content have the same ETag, even if their times differ.
	put("page.html", "older "+strings.Repeat("text ", 99), past.Add(time.Minute))
	want("/page.html", 304, "", "If-None-Match", older.Header.Get("Etag"))
	want("/page.html", 200, "older", "If-Modified-Since", older.Header.Get("Last-Modified"))

	// Other files and directories on which the response to a path depends.
	var packed bytes.Buffer
	z := gzipWriter(&packed)
	z.Write([]byte("unpacked"))
	z.Close()
	want("/sub/deep/notes.txt", 404, "")
	put("sub/deep/notes.txt.gz", packed.String(), recent)
	want("/sub/deep/notes.txt", 200, "unpacked")
	put("sub/deep/notes.txt", "plain", recent)
	want("/sub/deep/notes.txt", 200, "plain")
	want("/sub/deep/", 200, "notes.txt")
	put("sub/deep/index.html", "index", recent)
	want("/sub/deep/", 200, "index")
	must.Do(t, os.RemoveAll(filepath.Join(dir, "sub", "deep")))
	want("/sub/deep/", 404, "")
	want("/sub/deep/notes.txt", 404, "")
	put("sub/deep", "a file", recent)
	want("/sub/deep", 200, "a file")
}

// TestFolderIsKept: a file that has not changed for a while is read only once.
func TestFolderIsKept(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "page.html")
	write(t, dir, "page.html", "text")
	old := time.Now().Add(-time.Hour)
	for _, n := range []string{name, dir} {
		must.Do(t, os.Chtimes(n, old, old))
	}
	m, err := newMount(Folder{Host: "a.example", Dir: dir}, newFileCache(0), false)
	must.Do(t, err)
	for _, path := range []string{"/page.html", "/none.html"} {
		m.find(path)
		key := "a.example / " + path
		kept := m.cache.get(key)
		if m.find(path); kept == nil || m.cache.get(key) != kept {
			t.Errorf("%s was read twice", path)
		}
	}
}
