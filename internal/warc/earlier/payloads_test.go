package earlier

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha1"
	"encoding/base32"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// told keeps what the operator is told.
type told struct{ text string }

func (n *told) Note(text string) { n.text += text + "\n" }

func digest(body string) [20]byte { return sha1.Sum([]byte(body)) }

func spelled(body string) string {
	d := digest(body)
	return base32.StdEncoding.EncodeToString(d[:])
}

// line returns an index line of a response with a body.
func line(url, time, body string) string {
	return fmt.Sprintf(`example)/ %s {"url": "%s", "mime": "text/html", "status": "200", "digest": "%s", `+
		`"length": "9", "offset": "0", "filename": "A-20260101000000000-00000-x.warc.gz"}`+"\n",
		time, url, spelled(body))
}

func newDisk(t testing.TB, files map[string]string) *testdisk.Mem {
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/new/state", 0o755))
	for name, text := range files {
		must.Do(t, mem.MkdirAll(filepath.Dir(name), 0o755))
		must.Do(t, disk.WriteFile(mem, name, []byte(text)))
	}
	for _, dir := range []string{"/", "/new", "/new/state"} {
		must.Do(t, mem.SyncDir(dir))
	}
	return mem
}

func open(fs disk.FS, paths ...string) (*Payloads, Read, string, error) {
	p := New(Config{FS: fs, Dir: "/new", Paths: paths, LeastBytes: 3, MemoryBytes: 1 << 20})
	p.sort = 4000
	var n told
	r, err := p.Open(context.Background(), &n)
	return p, r, n.text, err
}

// found returns what Find says of a body that came without chunk sizes.
func found(t testing.TB, p *Payloads, body string) string {
	o, ok, err := p.Find(digest(body), digest(body), int64(len(body)))
	must.Do(t, err)
	if !ok {
		return ""
	}
	return o.URL + " " + o.Date.Format(time.RFC3339)
}

// TestLines checks which lines of an index count.
func TestLines(t *testing.T) {
	with := func(key, value, body string) string {
		return strings.Replace(line("http://a.example/"+body, "20260101000000", body), key, value, 1)
	}
	long := "http://a.example/" + strings.Repeat("x", maxURL)
	index := line("http://a.example/", "20260101000000", "first") +
		line("http://b.example/", "20250101000000", "first") + // the oldest counts
		line("http://c.example/", "20270101000000", "first") +
		with(`"200"`, `404`, "error") + // a number, as some programs write it
		with(spelled("hex"), fmt.Sprintf("sha1:%x", digest("hex")), "hex") +
		with(spelled("lower"), strings.ToLower(spelled("lower")), "lower") +
		with(`"text/html"`, `"warc/revisit"`, "revisit") +
		with(`, "status": "200"`, "", "resource") +
		with(`"url": "http:`, `"url": "urn:`, "urn") +
		with(`"length"`, `"truncated": "length", "length"`, "cut body") +
		line(long, "20260101000000", "long") +
		"\n CDX N b a\n!meta 0 {}\n" +
		// bad ones
		"no line\n" + with(`{"url`, `{url`, "nojson") + with("20260101000000", "20261301000000", "month") +
		with("20260101000000", "2026", "year") + with(spelled("other"), "sha256:abc", "other") +
		with(spelled("short"), "ABC", "short") + with(spelled("alien"), strings.Repeat("1", 32), "alien") +
		"x 20260101000000 {\"url\": \"" + strings.Repeat("y", 3<<20) + "\"}\n" +
		strings.TrimSuffix(line("http://a.example/end", "20260101000000", "end"), "\n")
	var zipped bytes.Buffer
	for _, part := range []string{index[:100], index[100:]} { // members, as ZipNum has them
		z := gzip.NewWriter(&zipped)
		z.Write([]byte(part))
		must.Do(t, z.Close())
	}
	for name, text := range map[string]string{"plain": index, "gzip": zipped.String()} {
		mem := newDisk(t, map[string]string{"/old/all.cdxj": text})
		p, r, notes, err := open(mem, "/old/all.cdxj")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for body, want := range map[string]string{
			"first": "http://b.example/ 2025-01-01T00:00:00Z", "error": "http://a.example/error 2026-01-01T00:00:00Z",
			"hex": "http://a.example/hex 2026-01-01T00:00:00Z", "lower": "http://a.example/lower 2026-01-01T00:00:00Z",
			"revisit": "", "resource": "", "urn": "", "cut body": "", "long": "", "nojson": "", "month": "", "year": "",
			"other": "", "short": "", "alien": "", "end": "", "none": "",
		} {
			if got := found(t, p, body); got != want {
				t.Errorf("%s: %q: %q, want %q", name, body, got, want)
			}
		}
		want := Read{Built: true, Payloads: 4, Lines: 20, PassedOver: 5, Bad: 9, Bytes: r.Bytes}
		if r != want || r.Bytes == 0 {
			t.Errorf("%s: %+v, want %+v", name, r, want)
		}
		if want := "/old/all.cdxj: 9 lines of 20 lines cannot be read and are left out; the first is line 15 of " +
			"all.cdxj: not a sort key, a time and an object"; !strings.Contains(notes, want) {
			t.Errorf("%s: told %q, want %q", name, notes, want)
		}
		if _, ok, err := p.Find(digest("first"), digest("first"), 2); ok || err != nil {
			t.Errorf("a body below the least: %t, %v", ok, err)
		}
		must.Do(t, p.Close())
		if found(t, p, "first") != "" {
			t.Error("found after Close")
		}
	}
}

// TestRefused: what cannot be an earlier crawl is a mistake of the configuration.
func TestRefused(t *testing.T) {
	mem := newDisk(t, map[string]string{
		"/bad": "one\ntwo\n", "/crawl.warc": "WARC/1.1\r\n", "/empty/x": "", "/new/indexes/index.cdxj": "",
		"/zip": "\x1f\x8b\x08 no gzip", "/good": line("http://a.example/", "20260101000000", "body"),
	})
	for path, want := range map[string]string{
		"/none": "dedup-from /none: no such file or directory; give the directory of an earlier crawl, its store, " +
			"its WACZ, or a",
		"/empty":      "dedup-from /empty: the directory has no index",
		"/bad":        "none of 2 lines is of a response that could be used; the first bad line is line 1 of bad:",
		"/crawl.warc": "is a WARC file, not its index",
		"/new":        "is in the directory of this crawl",

		"/new/indexes/index.cdxj": "is in the directory of this crawl",
		"/zip":                    "dedup-from /zip: gzip: invalid header",
	} {
		err := Check(mem, "/new", []string{"/good", path}, false)
		if err == nil {
			_, _, _, err = open(mem, "/good", path)
		}
		if _, ok := errors.AsType[*input.ConfigError](err); !ok || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// A path may lead into the directory of the crawl by a link, and a pipe can be read only once.
func TestRefusedByLink(t *testing.T) {
	root := t.TempDir()
	own := filepath.Join(root, "new")
	must.Do(t, os.MkdirAll(filepath.Join(own, "indexes"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(own, "indexes", "index.cdxj"), nil, 0o644))
	must.Do(t, os.Symlink(own, filepath.Join(root, "link")))
	for path, want := range map[string]string{
		filepath.Join(root, "link"):                          "is in the directory of this crawl",
		filepath.Join(root, "link", "indexes", "index.cdxj"): "is in the directory of this crawl",
		os.DevNull: "is neither a directory nor a regular file",
	} {
		if err := Check(disk.OS, own, []string{path}, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// TestAgain: a later run finds the table, or reads the earlier crawls again if they have changed.
func TestAgain(t *testing.T) {
	index := line("http://a.example/", "20260101000000", "body")
	mem := newDisk(t, map[string]string{"/old": index, "/other": line("http://b.example/", "20260101000000", "more")})
	p, r, _, err := open(mem, "/old")
	must.Do(t, errors.Join(err, p.Close()))
	if !r.Built {
		t.Error("nothing was read")
	}
	again := func(what string, built bool, want string, paths ...string) *Payloads {
		t.Helper()
		p, r, notes, err := open(mem, paths...)
		must.Do(t, err)
		if r.Built != built || !strings.Contains(notes, want) || found(t, p, "body") == "" {
			t.Errorf("%s: %+v, told %q", what, r, notes)
		}
		must.Do(t, p.Close())
		return p
	}
	again("unchanged", false, "", "/old")
	again("another", true, "other earlier crawls are named", "/old", "/other")
	must.Do(t, disk.WriteFile(mem, "/old", []byte(index+line("http://a.example/2", "20260101000000", "second"))))
	again("changed", true, "the earlier crawl /old has changed", "/old", "/other")
	must.Do(t, mem.Remove("/other"))
	again("missing", false, "the earlier crawl /other cannot be read any more; what was read of it still counts",
		"/old", "/other")
	must.Do(t, Check(mem, "/new", []string{"/other"}, true))
	name := "/new/" + Folder + "/" + tableName
	b := must.Get(disk.ReadFile(mem, name, 1<<20))(t)
	must.Do(t, disk.WriteFile(mem, name, b[:len(b)-1]))
	again("damaged", true, "damaged", "/old")
	must.Do(t, disk.WriteFile(mem, name, b[:len(b)-1]))
	if _, _, _, err := open(mem, "/other"); err == nil {
		t.Error("a damaged table, and no earlier crawl")
	}
	again("repaired", true, "damaged", "/old")
	if _, _, _, err := open(mem, "/other"); err == nil {
		t.Error("another crawl, which is not there")
	}
	again("after a mistake", false, "", "/old")
}

// TestKilled ends the work before every operation of the disk, with and without loss of power. The next run has all.
func TestKilled(t *testing.T) {
	var index strings.Builder
	for i := range 300 {
		index.WriteString(line(fmt.Sprintf("http://a.example/%d", i), "20260101000000", fmt.Sprint("body ", i)))
	}
	files := map[string]string{"/old": index.String()}
	for n := int64(1); ; n++ {
		mem := newDisk(t, files)
		faulty := testdisk.NewFaulty(mem, testdisk.FailFrom(n, syscall.ENOSPC))
		p, r, _, err := open(faulty, "/old")
		if err == nil {
			if _, changes := faulty.Calls(); n < 20 || n <= changes || r.Payloads != 300 {
				t.Fatalf("%d operations, %+v", changes, r)
			}
			must.Do(t, p.Close())
			return
		}
		if _, ok := errors.AsType[*input.ConfigError](err); !ok && !disk.IsFull(err) {
			t.Fatalf("operation %d: %v", n, err)
		}
		for _, after := range []*testdisk.Mem{mem.Clone(), mem.Crash(uint64(n))} {
			p, r, _, err := open(after, "/old")
			must.Do(t, err)
			if r.Payloads != 300 || found(t, p, "body 7") == "" || found(t, p, "body 299") == "" {
				t.Fatalf("after operation %d: %+v", n, r)
			}
			must.Do(t, p.Close())
			entries := must.Get(after.ReadDir("/new/" + Folder))(t)
			if len(entries) != 1 {
				t.Fatalf("after operation %d: files are left: %v", n, entries)
			}
		}
	}
}

// calls is a context that is done after some questions.
type calls struct {
	context.Context
	left int
}

func (c *calls) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestStopped(t *testing.T) {
	index := strings.Repeat(line("http://a.example/", "20260101000000", "body"), 3000)
	mem := newDisk(t, map[string]string{"/old": index})
	p := New(Config{FS: mem, Dir: "/new", Paths: []string{"/old"}, MemoryBytes: 1 << 20})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := p.Open(ctx, &told{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if found(t, p, "body") != "" {
		t.Error("found before the crawls are read")
	}
	// The end comes within a line without an end.
	mem = newDisk(t, map[string]string{"/old": index + strings.Repeat("x", 1<<20)})
	p = New(Config{FS: mem, Dir: "/new", Paths: []string{"/old"}, MemoryBytes: 1 << 20})
	if _, err := p.Open(&calls{Context: context.Background(), left: 3002}, &told{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestFraming archives a body in one way and then, in another crawl, in each way. A revisit record can be replayed: its
// header fits the bytes of the original. With the index of another program, a response in another framing is archived
// in full.
func TestFraming(t *testing.T) {
	const body = "<html><p>the very same content</p></html>"
	chunked := func(size int) string {
		var b strings.Builder
		for s := body; s != ""; s = s[min(size, len(s)):] {
			fmt.Fprintf(&b, "%x\r\n%s\r\n", min(size, len(s)), s[:min(size, len(s))])
		}
		return b.String() + "0\r\n\r\n"
	}
	heads := []string{"Content-Length: 41", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"}
	wires := []string{body, chunked(7), chunked(16)}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	write := func(w *warc.Writer, url string, kind int, at time.Time) warc.Written {
		head := "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + heads[kind] + "\r\n\r\n"
		return must.Get(w.Write(&warc.Exchange{URL: url, Began: at, HTTP: true, HeadLen: len(head),
			Response: warc.Bytes(head + wires[kind]), Metadata: []warc.Field{{Name: "via", Value: url}}}))(t)
	}
	for first := range wires {
		for _, foreign := range []bool{false, true} {
			dir, next := t.TempDir(), t.TempDir()
			w, _, err := warc.Open(warc.Config{Dir: dir})
			must.Do(t, err)
			write(w, "http://a.example/", first, at)
			must.Do(t, w.Close())
			must.Do(t, warc.BuildIndex(nil, dir))
			path := dir
			if foreign {
				path = filepath.Join(dir, "indexes", "index.cdxj")
			} else {
				must.Do(t, disk.WriteFile(disk.OS, filepath.Join(dir, "crawl.yaml"), []byte("{}\n")))
			}
			must.Do(t, disk.OS.MkdirAll(filepath.Join(next, "state"), 0o755))
			p := New(Config{FS: disk.OS, Dir: next, Paths: []string{path}, MemoryBytes: 1 << 20})
			_, err = p.Open(context.Background(), &told{})
			must.Do(t, err)
			w, _, err = warc.Open(warc.Config{Dir: next, Earlier: p, RevisitBytes: -1})
			must.Do(t, err)
			for kind := range wires {
				url := fmt.Sprintf("http://b.example/%d", kind)
				done := write(w, url, kind, at.Add(time.Hour))
				if want := kind == first || !foreign; done.Earlier != want || done.Revisit != want {
					t.Errorf("stored as %d, then %d, foreign %t: %+v", first, kind, foreign, done)
				}
			}
			must.Do(t, errors.Join(w.Close(), warc.BuildIndex(nil, next)))
			for kind := range wires {
				url := fmt.Sprintf("http://b.example/%d", kind)
				l := must.Get(warc.Lookup(nil, warc.Place{Dir: next}, url))(t)[0]
				rec, f, err := warc.OpenRecord(nil, next, l)
				must.Do(t, err)
				if rec.Type() != "revisit" {
					must.Do(t, f.Close())
					continue
				}
				ref := rec.Reference()
				head, err := rec.HTTPHead()
				must.Do(t, err)
				original, g, err := warc.OpenOriginal(nil, warc.Places(next, dir), ref)
				must.Do(t, err)
				theirs, err := original.HTTPHead()
				must.Do(t, err)
				coded := func(h []byte) bool { return bytes.Contains(h, []byte("\nTransfer-Encoding: chunked")) }
				if coded(head) != coded(theirs) {
					t.Errorf("stored as %d, then %d: the headers are\n%s\n%s", first, kind, theirs, head)
				}
				date := rec.Header.Value("WARC-Refers-To-Date")
				if ref.URL != "http://a.example/" || date != "2026-01-02T03:04:05Z" {
					t.Errorf("the original is %s of %s", ref.URL, date)
				}
				must.Do(t, errors.Join(f.Close(), g.Close()))
			}
			must.Do(t, p.Close())
		}
	}
}

// FuzzLine reads any line. What is found has a URL and a date that WARC can write.
func FuzzLine(f *testing.F) {
	f.Add([]byte(line("http://a.example/", "20260101000000", "body")), true)
	f.Add([]byte(`a 20260101000000 {"url":"https://x/","status":200,"digest":"sha-1:`+spelled("x")+`"}`), false)
	f.Fuzz(func(t *testing.T, b []byte, ours bool) {
		var e, again entry
		if e.parse(b, ours) != nil {
			return
		}
		rec := e.appendTo(nil)
		if e.url == "" || len(e.url) > maxURL || e.date.Year() > 9999 || !again.setValue(rec[20:]) ||
			again.url != e.url || !again.date.Equal(e.date) || again.kind != e.kind ||
			cmp.Compare(len(rec), 20+valueHead) != 1 {
			t.Fatalf("%+v, %+v", e, again)
		}
	})
}
