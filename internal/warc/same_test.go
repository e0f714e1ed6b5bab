package warc

import (
	"bytes"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/message"
)

// lazy is a Body that is not in memory.
type lazy struct{ b Bytes }

func (l lazy) Size() int64                             { return l.b.Size() }
func (l lazy) ReadAt(p []byte, off int64) (int, error) { return l.b.ReadAt(p, off) }
func (lazy) Bytes() ([]byte, bool)                     { return nil, false }

// TestDigests checks that Digests returns the digests that Write returns, and tells which payloads may be revisits.
func TestDigests(t *testing.T) {
	for i, x := range everyKind() {
		dir := t.TempDir()
		w, _, err := Open(testConfig(dir))
		must.Do(t, err)
		body, digest, ok, err := Digests(x)
		must.Do(t, err)
		outside := *x
		if b, is := x.Response.(Bytes); is {
			outside.Response = lazy{b}
		}
		if b, d, o, err := Digests(&outside); d != digest || b != body || o != ok || err != nil {
			t.Errorf("%d: in memory %x %v, not in memory %x %v %v", i, digest, ok, d, o, err)
		}
		from := Original{URL: "http://elsewhere.example/", Date: testTime.Add(-time.Hour)}
		if ok && body != digest {
			from.Stored = digest
		}
		same := *x
		same.Same = &from
		done, err := w.Write(&same)
		if err == nil {
			err = w.Close() // so that checkWritten can read the record
		}
		must.Do(t, err)
		if ok && (done.PayloadDigest != digest || done.BodyDigest != body || !done.Revisit ||
			done.Original.URL != from.URL || (done.Original.Stored == digest) != (body != digest)) {
			t.Errorf("%d: digest %x, but written as %+v", i, digest, done)
		}
		if !ok && done.Revisit {
			t.Errorf("%d: a revisit, although Digests is not ok: %+v", i, done)
		}
		if x.NotModified != nil || x.Response == nil || x.Response.Size() == 0 {
			continue
		}
		rec := checkWritten(t, dir, done, x.URL)
		if ok && (rec.Type() != "revisit" || rec.Header.Value("WARC-Profile") != ProfileIdentical ||
			rec.Header.Value("WARC-Refers-To-Target-URI") != from.URL ||
			rec.Header.Value("WARC-Refers-To-Date") != string(appendDate(nil, from.Date)) ||
			rec.Header.Value("WARC-Refers-To") != "") {
			t.Errorf("%d: got the header %v, want a revisit of %s", i, rec.Header, from.URL)
		}
	}
}

// TestSameIsNotRemembered: a revisit of a page in another archive must not become an original in this one.
func TestSameIsNotRemembered(t *testing.T) {
	w, _, err := Open(testConfig(t.TempDir()))
	must.Do(t, err)
	defer w.Close()
	write := func(url string, same *Original) Written {
		t.Helper()
		x := page(url, "HTTP/1.1 200 OK\nContent-Type: text/html", strings.Repeat("a page ", 9))
		x.Same = same
		done, err := w.Write(x)
		must.Do(t, err)
		return done
	}
	if !write("http://a.example/1", &Original{URL: "http://b.example/", Date: testTime}).Revisit {
		t.Error("a page with Same is not a revisit")
	}
	if write("http://a.example/2", nil).Revisit {
		t.Error("a revisit of a payload that this archive does not hold")
	}
	x := page("http://a.example/4", "HTTP/1.1 200 OK\nContent-Type: text/html", strings.Repeat("a page ", 9))
	x.Own = true
	if done, err := w.Write(x); err != nil || done.Revisit {
		t.Errorf("a page with Own is a revisit of another URL: %+v %v", done, err)
	}
	x = page("http://a.example/2", "HTTP/1.1 200 OK\nContent-Type: text/html", strings.Repeat("a page ", 9))
	x.Own = true
	if done, err := w.Write(x); err != nil || !done.Revisit {
		t.Errorf("a page with Own is not a revisit of its own URL: %+v %v", done, err)
	}
	if done := write("http://a.example/3", nil); !done.Revisit || done.Original.URL != "http://a.example/2" {
		t.Errorf("want a revisit of http://a.example/2, got %+v", done)
	}
}

// TestFraming: a body is the same however the server has cut it into chunks. The revisit names the digest of its
// original as stored, and its header fits the bytes of the original, so that any reader gets the body of both.
func TestFraming(t *testing.T) {
	const plain = "HTTP/1.1 200 OK\nX-A: b\nContent-Length: 41"
	const coded = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nX-A: b"
	const content = "<html><p>the very same content</p></html>"
	kinds := []func(url string) *Exchange{
		func(url string) *Exchange { return page(url, plain, content) },
		func(url string) *Exchange { return page(url, coded, chunked(content, 7)) },
		func(url string) *Exchange { return page(url, coded, chunked(content, 16)) },
	}
	for first := range kinds {
		for _, memory := range []bool{true, false} {
			for _, restart := range []bool{true, false} {
				dir := t.TempDir()
				w, _, err := Open(testConfig(dir))
				must.Do(t, err)
				var original Written
				for i := range kinds {
					kind := (first + i) % len(kinds)
					x := kinds[kind](fmt.Sprintf("http://a.example/%d", kind))
					if !memory {
						x.Response = lazy{x.Response.(Bytes)}
					}
					body, stored, ok, err := Digests(x)
					must.Do(t, err)
					done, err := w.Write(x)
					must.Do(t, err)
					if !ok || body != sha1.Sum([]byte(content)) || done.BodyDigest != body || done.Revisit != (i > 0) {
						t.Fatalf("first %d, then %d: %+v", first, kind, done)
					}
					if i == 0 {
						if original = done; done.PayloadDigest != stored || (stored == body) != (kind == 0) {
							t.Fatalf("%d: %+v", kind, done)
						}
					} else if done.PayloadDigest != original.PayloadDigest ||
						done.Original.Place() != original.Original.Place() || done.Original.ID != original.Original.ID {
						t.Errorf("first %d, then %d: %+v is no revisit of %+v", first, kind, done, original)
					}
					if restart { // the next run gets what is remembered
						again, _, err := Open(testConfig(t.TempDir()))
						must.Do(t, err)
						must.Do(t, w.EachRemembered(func(digest [20]byte, o Original) error {
							again.RememberRecord(digest, o)
							return nil
						}))
						w.table, again.table = again.table, w.table
						must.Do(t, again.Close())
					}
				}
				for i := range kinds {
					found, err := w.Find(fmt.Sprintf("http://a.example/%d", i))
					must.Do(t, err)
					if len(found) != 1+min(1, (i-first+len(kinds))%len(kinds)) {
						t.Fatalf("first %d, %d: found %+v", first, i, found)
					}
					r, err := w.OpenCapture(found)
					must.Do(t, err)
					_, wire, size, err := ReadCapture(r)
					must.Do(t, err)
					b, err := io.ReadAll(wire)
					must.Do(t, err)
					must.Do(t, r.Close())
					end, _ := headEnd(b)
					h := message.ReadHead(b[:end])
					body, _, err := h.Content(t.Context(), bytes.NewReader(b[end:]), 0)
					must.Do(t, err)
					got, err := io.ReadAll(body)
					if chunks, _ := h.Transfer(); err != nil || string(got) != content || size != int64(len(b)) ||
						chunks != (first > 0) || h.Header.Get("X-A") != "b" ||
						chunks && h.Header.Get("Content-Length") != "" {
						t.Errorf("first %d, %d: %q, %v", first, i, b, err)
					}
				}
				must.Do(t, w.Close())
				f, err := OpenWARC(nil, dir, original.File)
				must.Do(t, err)
				if rep, err := new(Verifier).Verify(f); err != nil || rep.Errors+rep.Warnings > 0 {
					t.Errorf("%v %+v", err, rep)
				}
				must.Do(t, f.Close())
			}
		}
	}
}

// TestFramingElsewhere: the same if the original is in the archive of another agent.
func TestFramingElsewhere(t *testing.T) {
	const plain, content = "HTTP/1.1 200 OK\nContent-Length: 5", "hello"
	const coded = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked"
	kinds := []*Exchange{
		page("http://a.example/0", plain, content), page("http://a.example/1", coded, chunked(content, 2)),
		page("http://a.example/2", coded, chunked(content, 4)),
	}
	for i := range kinds {
		w, _, err := Open(testConfig(t.TempDir()))
		must.Do(t, err)
		original, err := w.Write(kinds[i])
		must.Do(t, errors.Join(err, w.Close()))
		for k := range kinds {
			dir := t.TempDir()
			w, _, err := Open(testConfig(dir))
			must.Do(t, err)
			x := *kinds[k]
			from := original.Original
			from.ID = [16]byte{} // no agent tells it
			x.Same = &from
			done, err := w.Write(&x)
			must.Do(t, errors.Join(err, w.Close()))
			rec := checkWritten(t, dir, done, x.URL)
			head := rec.Header.Value("test-content")
			h := message.ReadHead([]byte(head))
			chunks, _ := h.Transfer()
			if rec.Type() != "revisit" || done.PayloadDigest != original.PayloadDigest || chunks != (i > 0) ||
				strings.Contains(head, "X-Orig-") != ((i > 0) != (k > 0)) {
				t.Errorf("%d, a revisit of %d: %v\n%s", k, i, rec.Header, head)
			}
		}
	}
}

// A chunked body that is broken, or that has another transfer coding, counts as it is stored.
func TestBrokenFraming(t *testing.T) {
	for _, x := range []*Exchange{
		page("http://a.example/", "HTTP/1.1 200 OK\nTransfer-Encoding: chunked", "5\r\nhello\r\nxx"),
		page("http://a.example/", "HTTP/1.1 200 OK\nTransfer-Encoding: gzip, chunked", chunked("hello", 9)),
		page("http://a.example/", "HTTP/1.1 200 OK\nTransfer-Encoding: gzip\nTransfer-Encoding: chunked",
			chunked("hello", 9)),
		page("http://a.example/", "HTTP/1.0 200 OK\nTransfer-Encoding: chunked", chunked("hello", 9)),
		page("http://a.example/", "HTTP/1.1 200 OK\nContent-Encoding: chunked", chunked("hello", 9)),
	} {
		if body, stored, ok, err := Digests(x); err != nil || !ok || body != stored {
			t.Errorf("%q: %x, %x, %v, %v", x.Response, body, stored, ok, err)
		}
	}
}
