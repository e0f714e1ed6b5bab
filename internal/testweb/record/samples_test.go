package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// sampleFiles returns the WARC files of the sample collection.
func sampleFiles(t testing.TB) []string {
	t.Helper()
	needSamples(t)
	var all []string
	for _, pattern := range []string{"*.warc", "*.warc.gz"} {
		names := must.Get(filepath.Glob(filepath.Join(samples, "*", pattern)))(t)
		all = append(all, names...)
	}
	return all
}

// TestSamples: for each URL in files of other programs, a client gets the payload that package warc reads from the
// record. Nearly all responses are sent as recorded.
func TestSamples(t *testing.T) {
	urls, same := 0, 0
	for _, name := range sampleFiles(t) {
		a, err := Open([]string{name}, Config{})
		if errors.Is(err, ErrNothing) {
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		b := must.Get(os.ReadFile(name))(t)
		rd := warc.NewReader(bytes.NewReader(b))
		for {
			rec, err := rd.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			l := locate(rec.URL())
			if rec.Type() != "response" || l.why != "" {
				continue
			}
			n, _ := a.Find(l.host)
			c, _, found := a.find(n, l.origin, l.target)
			if !found || c.head() != placeOf(0, rec.Offset) {
				continue // the Archive serves another capture of the URL
			}
			urls++
			recorded, err := io.ReadAll(rec)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			again, err := warc.At(bytes.NewReader(b), rec.Offset)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, r := a.Answer(nil, testweb.Query{Host: n, Secure: l.secure, Target: l.target})
			if bytes.Equal(got, recorded) {
				same++
			}
			if g, w := payloadOf(t, got), want(t, again); g != w {
				t.Errorf("%s: %s: the client's payload differs from the record's: %+v, %.300q",
					filepath.Base(name), rec.URL(), r, got)
			}
		}
		t.Logf("%s: %+v", filepath.Base(name), a.Summary())
		a.Close()
	}
	if urls != 509 || same != 490 {
		t.Errorf("got %d URLs, %d of them sent as recorded, want 509 and 490", urls, same)
	}
}

// want returns the hash of the payload that package warc reads from a record.
func want(t *testing.T, rec *warc.Record) [20]byte {
	t.Helper()
	in := must.Get(rec.Payload(t.Context()))(t)
	return sum(t, in)
}

// payloadOf returns the hash of the payload that a client reads from a response.
func payloadOf(t *testing.T, response []byte) [20]byte {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(response)), nil)
	if err != nil {
		t.Fatalf("%v: %.300q", err, response)
	}
	in := bufio.NewReader(resp.Body)
	if magic, _ := in.Peek(2); resp.Header.Get("Content-Encoding") == "gzip" && len(magic) == 2 && magic[0] == 0x1f {
		z := must.Get(gzip.NewReader(in))(t)
		return sum(t, z)
	}
	return sum(t, in)
}

func sum(t *testing.T, in io.Reader) [20]byte {
	t.Helper()
	h := sha1.New()
	if _, err := io.Copy(h, in); err != nil {
		t.Error(err)
	}
	return [20]byte(h.Sum(nil))
}

// FuzzOpen: any file can be read without harm, and its seeds can then be requested.
func FuzzOpen(f *testing.F) {
	f.Add([]byte(response("http://a.example/", ok("home"))))
	f.Add([]byte(zipped(response("http://a.example/", ok("home")), rec("revisit", "http://a.example/2", date,
		"WARC-Refers-To-Target-URI: http://a.example/\r\n", "HTTP/1.1 200 OK\r\n\r\n"))))
	f.Add([]byte(response("http://a.example/robots.txt", ok("User-agent: *\nDisallow: /*a*$\n")) +
		"WARC/1.1\r\nContent-Length: 9\r\n\r\n"))
	f.Add([]byte(response("https://a.example/x",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")))
	f.Fuzz(func(t *testing.T, b []byte) {
		name := filepath.Join(t.TempDir(), "x.warc")
		must.Do(t, os.WriteFile(name, b, 0o644))
		a, err := Open([]string{name}, Config{MaxResponse: 1 << 20})
		if err != nil {
			return
		}
		defer a.Close()
		for _, u := range a.Seeds() {
			l := locate(u)
			n, found := a.Find(l.host)
			if !found {
				t.Fatalf("seed %q: there is no such host", u)
			}
			for _, q := range []testweb.Query{{}, {Head: true}, {Close: true}, {Gzip: true, Head: true, Close: true}} {
				q.Host, q.Secure, q.Target = n, l.secure, l.target
				out, r := a.Answer(nil, q)
				if r.Status < 200 || r.HeadLen > len(out) || q.Head && r.HeadLen != len(out) ||
					!bytes.HasSuffix(out[:r.HeadLen], []byte("\n")) {
					t.Errorf("seed %q, %+v: got %+v, %q", u, q, r, out)
				}
			}
		}
	})
}

// FuzzMend: a repaired response has a header with an end, and repairing it again changes nothing.
func FuzzMend(f *testing.F) {
	for _, s := range []string{
		ok("hello"), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"HTTP/2 200\r\ncontent-length: 3\ncontent-encoding: gzip\r\n\r\nhello", "HTTP/1.0 200",
		"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nContent-Length: 3\r\ntransfer-encoding: chunked\r\n\r\nhello",
	} {
		f.Add([]byte(s), false, false)
		f.Add([]byte(s), true, true)
	}
	f.Fuzz(func(t *testing.T, b []byte, cut, askedClose bool) {
		if _, isHTTP, _ := parseStatus(b[:min(40, len(b))]); !isHTTP {
			return
		}
		m := message{b: bytes.Clone(b), cut: cut, askedClose: askedClose}
		m.mend()
		if end, whole := headEnd(m.b); !whole || end != m.body || m.short && m.closes {
			t.Fatalf("%q: header of %d bytes, body at %d, %+v", m.b, end, m.body, m)
		}
		again := message{b: bytes.Clone(m.b), cut: cut, askedClose: askedClose}
		again.mend()
		if !bytes.Equal(again.b, m.b) || again.short != m.short || again.closes != m.closes {
			t.Errorf("%q\nbecame %q\n  then %q", b, m.b, again.b)
		}
	})
}
