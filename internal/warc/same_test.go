package warc

import (
	"strings"
	"testing"
	"time"
)

// lazy is a Body that is not in memory.
type lazy struct{ b Bytes }

func (l lazy) Size() int64                             { return l.b.Size() }
func (l lazy) ReadAt(p []byte, off int64) (int, error) { return l.b.ReadAt(p, off) }
func (lazy) Bytes() ([]byte, bool)                     { return nil, false }

// TestPayloadDigest checks that PayloadDigest returns the digest that Write returns, and tells which payloads may be
// revisits.
func TestPayloadDigest(t *testing.T) {
	for i, x := range everyKind() {
		dir := t.TempDir()
		w, _, err := Open(testConfig(dir))
		must(t, err)
		digest, ok, err := PayloadDigest(x)
		must(t, err)
		outside := *x
		if b, is := x.Response.(Bytes); is {
			outside.Response = lazy{b}
		}
		if d, o, err := PayloadDigest(&outside); d != digest || o != ok || err != nil {
			t.Errorf("%d: in memory %x %v, not in memory %x %v %v", i, digest, ok, d, o, err)
		}
		from := Original{URL: "http://elsewhere.example/", Date: testTime.Add(-time.Hour)}
		same := *x
		same.Same = &from
		done, err := w.Write(&same)
		if err == nil {
			err = w.Close() // so that checkWritten can read the record
		}
		must(t, err)
		if ok && (done.PayloadDigest != digest || !done.Revisit || done.Original != from) {
			t.Errorf("%d: PayloadDigest %x, but written as %+v", i, digest, done)
		}
		if !ok && done.Revisit {
			t.Errorf("%d: a revisit, although PayloadDigest is not ok: %+v", i, done)
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
	must(t, err)
	defer w.Close()
	write := func(url string, same *Original) Written {
		t.Helper()
		x := page(url, "HTTP/1.1 200 OK\nContent-Type: text/html", strings.Repeat("a page ", 9))
		x.Same = same
		done, err := w.Write(x)
		must(t, err)
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
