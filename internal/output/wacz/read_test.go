package wacz

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testarchive"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// packed returns a WACZ with n pages.
func packed(t testing.TB, n int) (path string) {
	t.Helper()
	responses := map[string]string{}
	for i := range n {
		responses[fmt.Sprintf("http://a.example/%04d", i)] = fmt.Sprintf("text/html\n<title>%d</title>page %d", i, i)
	}
	dir := testarchive.Write(t, responses)
	files, err := filepath.Glob(filepath.Join(dir, "archive", "*"))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "x.wacz")
	if _, err := Write(context.Background(), Config{WARCs: files, Out: path, Software: "test 1"}); err != nil {
		t.Fatal(err)
	}
	return path
}

// noTemporary is for a WACZ that has an index.
func noTemporary() (string, error) { return "", errors.New("an index is made") }

// text returns the text of a page of an archive.
func text(ctx context.Context, a *Archive, url string) (string, error) {
	c, ok, err := a.Nearest(weburl.MustParse(url), time.Unix(0, 0))
	if err != nil || !ok {
		return "", errors.Join(err, fmt.Errorf("found: %v", ok))
	}
	m, err := a.Open(ctx, c)
	if err != nil {
		return "", err
	}
	defer m.Close()
	b, err := io.ReadAll(m.Body)
	return string(b), err
}

// opened returns the archive of a WACZ.
func opened(t testing.TB, name string, tmp func() (string, error)) (*Archive, error) {
	f := NewFS(disk.OS)
	t.Cleanup(func() { f.Close() })
	p, _, err := f.Add(context.Background(), name, tmp)
	return f.Archive([]warc.Place{p}, nil), err
}

// TestRead: a WACZ reads like a crawl directory, with both kinds of indexes.
func TestRead(t *testing.T) {
	for _, n := range []int{3, 2000} {
		a, err := opened(t, packed(t, n), noTemporary)
		must.Do(t, err)
		for i := range n {
			if i > 2 && i%97 != 0 {
				continue
			}
			got, err := text(t.Context(), a, fmt.Sprintf("http://a.example/%04d", i))
			if err != nil || got != fmt.Sprintf("<title>%d</title>page %d", i, i) {
				t.Fatalf("page %d: %q, %v", i, got, err)
			}
		}
		pages, _, err := a.Pages(t.Context(), captures.Query{Max: n + 1})
		if err != nil || len(pages) != n {
			t.Errorf("%d pages, %v", len(pages), err)
		}
	}
}

// repack writes a WACZ anew. change may return nil for an entry to leave out.
func repack(t testing.TB, path string, change func(h *zip.FileHeader, b []byte) []byte, more ...string) string {
	t.Helper()
	from := must.Get(zip.OpenReader(path))(t)
	defer from.Close()
	to := filepath.Join(t.TempDir(), "y.wacz")
	f := must.Get(os.Create(to))(t)
	z := zip.NewWriter(f)
	add := func(h zip.FileHeader, b []byte) {
		w := must.Get(z.CreateHeader(&h))(t)
		must.Get(w.Write(b))(t)
	}
	for _, e := range from.File {
		r := must.Get(e.Open())(t)
		h := zip.FileHeader{Name: e.Name, Method: e.Method}
		if b := change(&h, must.Get(io.ReadAll(r))(t)); b != nil {
			add(h, b)
		}
	}
	for _, name := range more {
		add(zip.FileHeader{Name: name}, []byte("more"))
	}
	must.Do(t, z.Close())
	must.Do(t, f.Close())
	return to
}

// TestForeign: what other programs write and what an attacker writes has a clear outcome.
func TestForeign(t *testing.T) {
	path := packed(t, 600)
	same := func(_ *zip.FileHeader, b []byte) []byte { return b }
	without := func(name string) func(*zip.FileHeader, []byte) []byte {
		return func(h *zip.FileHeader, b []byte) []byte {
			if strings.HasPrefix(h.Name, name) {
				return nil
			}
			return b
		}
	}
	index := func(from, to string) func(h *zip.FileHeader, b []byte) []byte {
		return func(h *zip.FileHeader, b []byte) []byte {
			if h.Name == "indexes/index.idx" {
				return bytes.ReplaceAll(b, []byte(from), []byte(to))
			}
			return b
		}
	}
	for name, c := range map[string]struct {
		change func(h *zip.FileHeader, b []byte) []byte
		more   []string
		want   string // of the error; empty: the page is there
	}{
		"more entries": {same, []string{"../x", "/etc/passwd", "archive/../../x", "archive/sub/x.warc.gz", "a\\b",
			"fuzzy.json", "archive/.."}, ""},
		"compressed":   {func(h *zip.FileHeader, b []byte) []byte { h.Method = zip.Deflate; return b }, nil, ""},
		"no index":     {without("indexes/"), nil, ""},
		"two indexes":  {same, []string{"indexes/b.idx", "indexes/b.cdx.gz"}, ""},
		"no manifest":  {without("datapackage.json"), nil, "has no datapackage.json"},
		"two manifest": {same, []string{"datapackage.json"}, `two entries are called "datapackage.json"`},
		"two archives": {same, []string{"archive/x", "archive/x"}, `two entries are called "archive/x"`},
		"no JSON": {func(h *zip.FileHeader, b []byte) []byte {
			if h.Name == "datapackage.json" {
				return []byte("{")
			}
			return b
		}, nil, "not JSON"},
		"no archive": {without("archive/"), nil, "file does not exist"},
		"outside":    {index(`"offset": `, `"offset": 9999999`), nil, "damaged ZipNum index"},
		"negative":   {index(`"offset": `, `"offset": -1`), nil, "damaged ZipNum index"},
		"no entries": {func(h *zip.FileHeader, b []byte) []byte { return nil }, nil, "has no datapackage.json"},
	} {
		to := repack(t, path, c.change, c.more...)
		a, err := opened(t, to, func() (string, error) { return t.TempDir(), nil })
		got := ""
		if err == nil {
			got, err = text(t.Context(), a, "http://a.example/0333")
		}
		switch {
		case c.want == "" && (err != nil || got != "<title>333</title>page 333"):
			t.Errorf("%s: %q, %v", name, got, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got the error %v, want one with %q", name, err, c.want)
		}
	}
	f := must.Get(os.Open(repack(t, path, func(h *zip.FileHeader, b []byte) []byte {
		if h.Name == "datapackage.json" {
			return append(b, ' ')
		}
		return b
	})))(t)
	defer f.Close()
	if w, err := Open(f, must.Get(f.Stat())(t).Size()); err != nil || !w.Unsealed {
		t.Errorf("another digest: %v", err)
	}
	for _, b := range [][]byte{nil, []byte("x"), []byte("PK\x05\x06"), bytes.Repeat([]byte("PK\x05\x06"), 20000)} {
		if _, err := Open(bytes.NewReader(b), int64(len(b))); !errors.Is(err, ErrNoWACZ) {
			t.Errorf("%.20q: %v", b, err)
		}
	}
}

// TestBombs: a compressed entry cannot take more memory than the bound, whatever its size is said to be.
func TestBombs(t *testing.T) {
	path := packed(t, 3)
	bomb := make([]byte, maxUnpacked+1)
	to := repack(t, path, func(h *zip.FileHeader, b []byte) []byte {
		if strings.HasPrefix(h.Name, "archive/") {
			h.Method = zip.Deflate
			return bomb
		}
		return b
	})
	a := must.Get(opened(t, to, noTemporary))(t)
	_, err := text(t.Context(), a, "http://a.example/0001")
	_, ok := errors.AsType[*warc.UnreadableError](err)
	if !ok || !strings.Contains(err.Error(), "compressed in the ZIP") {
		t.Errorf("got %v", err)
	}
	// A file that says that it has four thousand million entries.
	b := must.Get(os.ReadFile(path))(t)
	at := bytes.LastIndex(b, []byte("PK\x05\x06"))
	locator := append([]byte("PK\x06\x07\x00\x00\x00\x00"), make([]byte, 12)...)
	end := append([]byte("PK\x06\x06"), make([]byte, 52)...)
	for i := range 8 {
		end[32+i] = 0x7f
	}
	for i := range 8 {
		locator[8+i] = byte(at >> (8 * i))
	}
	many := bytes.Join([][]byte{b[:at], end, locator, b[at:]}, nil)
	if _, err := Open(bytes.NewReader(many), int64(len(many))); err == nil ||
		!strings.Contains(err.Error(), "entries, and at most 1048576 are read") {
		t.Errorf("many entries: %v", err)
	}
}

// server serves a folder and counts the requests.
func server(t *testing.T, dir string, change func(w http.ResponseWriter, r *http.Request) bool) (string, *[]string) {
	var ranges []string
	files := http.FileServer(http.Dir(dir))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		if change == nil || !change(w, r) {
			files.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, &ranges
}

// TestRemote: the first page of a large WACZ behind HTTP takes six requests, a second one of another part of the
// archive three.
func TestRemote(t *testing.T) {
	path := packed(t, 20_000)
	url, ranges := server(t, filepath.Dir(path), nil)
	a, err := opened(t, url+"/x.wacz", noTemporary)
	must.Do(t, err)
	for _, c := range []struct{ page, most int }{{10_000, 6}, {15_000, 3}, {15_000, 0}} {
		*ranges = (*ranges)[:min(len(*ranges), 1)] // with the request that opened the file
		if c.page != 10_000 {
			*ranges = nil
		}
		got, err := text(t.Context(), a, fmt.Sprintf("http://a.example/%04d", c.page))
		if err != nil || got != fmt.Sprintf("<title>%d</title>page %d", c.page, c.page) {
			t.Fatalf("%q, %v", got, err)
		}
		if len(*ranges) > c.most {
			t.Errorf("page %d: %d requests, want at most %d: %q", c.page, len(*ranges), c.most, *ranges)
		}
	}
}

// TestRemoteFaults: servers that do not do as they should have a clear error.
func TestRemoteFaults(t *testing.T) {
	path := packed(t, 20_000)
	size := must.Get(os.Stat(path))(t).Size()
	n := 0
	for name, c := range map[string]struct {
		change func(w http.ResponseWriter, r *http.Request) bool
		want   string // of the error; empty: none
	}{
		"no ranges": {func(w http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("Range")
			return false
		}, "does not send parts"},
		"missing": {func(w http.ResponseWriter, r *http.Request) bool {
			http.NotFound(w, r)
			return true
		}, "answered 404 Not Found"},
		"redirects": {func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/x.wacz" {
				r.URL.Path = "/x.wacz"
				return false
			}
			http.Redirect(w, r, "/there", http.StatusFound)
			return true
		}, ""},
		"a loop": {func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, "/x.wacz", http.StatusFound)
			return true
		}, "more than 5 redirects"},
		"compressed": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Encoding", "gzip")
			return false
		}, "compresses parts"},
		"another part": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Range", "bytes 0-9/10000000")
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, "0123456789")
			return true
		}, "another part"},
		"too much": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", size-1, size))
			w.WriteHeader(http.StatusPartialContent)
			return true
		}, "not the part that was asked for"},
		"a short answer": {func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", size-100, size-1, size))
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, "0123456789")
			return true
		}, "unexpected EOF"},
		"changed": {func(w http.ResponseWriter, r *http.Request) bool {
			n++
			w.Header().Set("ETag", fmt.Sprintf("%q", fmt.Sprint(n)))
			return false
		}, "has changed"},
		"another host": {func(w http.ResponseWriter, r *http.Request) bool {
			panic(http.ErrAbortHandler)
		}, "EOF"},
	} {
		url, _ := server(t, filepath.Dir(path), c.change)
		a, err := opened(t, url+"/x.wacz", noTemporary)
		if err == nil {
			_, err = text(t.Context(), a, "http://a.example/5000")
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got the error %v, want one with %q", name, err, c.want)
		}
	}
	url, _ := server(t, filepath.Dir(path), nil)
	noIndex := repack(t, path, func(h *zip.FileHeader, b []byte) []byte {
		if strings.HasPrefix(h.Name, "indexes/") {
			return nil
		}
		return b
	})
	must.Do(t, os.Rename(noIndex, filepath.Join(filepath.Dir(path), "y.wacz")))
	if _, err := opened(t, url+"/y.wacz", noTemporary); err == nil || !strings.Contains(err.Error(), "so download it") {
		t.Errorf("without an index: %v", err)
	}
	user := strings.Replace(url, "http://", "http://user:secret@", 1) + "/none.wacz"
	if _, err := opened(t, user, noTemporary); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("with a password: %v", err)
	}
}

// TestRemoteReads: reads of any place and length, in a file that is larger than the cache, give its bytes.
func TestRemoteReads(t *testing.T) {
	dir := t.TempDir()
	b := make([]byte, (maxBlocks+100)*blockSize+123)
	for i := range b {
		b[i] = byte(i * i >> 9)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "x"), b, 0o644))
	url, ranges := server(t, dir, nil)
	r := must.Get(openRemote(t.Context(), url+"/x"))(t)
	if got := must.Get(io.ReadAll(io.NewSectionReader(r, 0, r.size)))(t); !bytes.Equal(got, b) {
		t.Error("other bytes")
	}
	if len(*ranges) > 25 { // 38 MB, at most 4 MiB each
		t.Errorf("%d requests", len(*ranges))
	}
	if len(r.blocks) > maxBlocks || r.recent.Len() != len(r.blocks) {
		t.Errorf("%d blocks are kept", len(r.blocks))
	}
	for i := range 300 {
		at, n := i*i*7919%len(b), i*517%300_000
		got := make([]byte, n)
		k, err := r.ReadAt(got, int64(at))
		if want := b[at:min(at+n, len(b))]; !bytes.Equal(got[:k], want) || (err == io.EOF) != (k < n) {
			t.Fatalf("%d bytes at %d: %d, %v", n, at, k, err)
		}
	}
	if _, err := r.ReadAt(nil, -1); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

// FuzzOpen: whatever the bytes are, opening, listing and reading end with an outcome.
func FuzzOpen(f *testing.F) {
	small, large := packed(f, 2), packed(f, 300)
	for _, path := range []string{small, large} {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("PK\x05\x06"))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		if _, err := w.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		fsys := NewFS(disk.OS)
		fsys.files["x.wacz"] = w
		a := fsys.Archive(warc.Places("x.wacz"), nil)
		pages, _, err := a.Pages(t.Context(), captures.Query{Max: 10})
		if err != nil {
			return
		}
		for _, p := range pages {
			if m, err := a.Open(t.Context(), p.Newest); err == nil {
				io.Copy(io.Discard, io.LimitReader(m.Body, 1<<20))
				m.Close()
			}
		}
	})
}

// TestDamagedIndex: a byte of an index is wrong. Another index is made of the WARC files, and all pages are found.
func TestDamagedIndex(t *testing.T) {
	for _, c := range []struct {
		n     int
		entry string
	}{{3, "index.cdx"}, {2000, "index.cdx.gz"}, {2000, "index.idx"}} {
		name := packed(t, c.n)
		z := must.Get(zip.OpenReader(name))(t)
		b := must.Get(os.ReadFile(name))(t)
		for _, e := range z.File {
			if e.Name == "indexes/"+c.entry {
				b[must.Get(e.DataOffset())(t)+int64(e.CompressedSize64)/2] ^= 0x11
			}
		}
		must.Do(t, z.Close())
		must.Do(t, os.WriteFile(name, b, 0o644))
		f := NewFS(disk.OS)
		t.Cleanup(func() { f.Close() })
		p, file, err := f.Add(t.Context(), name, func() (string, error) { return t.TempDir(), nil })
		must.Do(t, err)
		if w := file.Warnings(); !file.Renewed || len(w) != 1 || !strings.Contains(w[0], "its index is damaged") {
			t.Errorf("%s: renewed %t, warnings %q", c.entry, file.Renewed, w)
		}
		a := f.Archive([]warc.Place{p}, nil)
		for i := range 3 {
			got, err := text(t.Context(), a, fmt.Sprintf("http://a.example/%04d", i))
			if want := fmt.Sprintf("<title>%d</title>page %[1]d", i); err != nil || got != want {
				t.Errorf("%s: page %d is %q, %v", c.entry, i, got, err)
			}
		}
	}
}
