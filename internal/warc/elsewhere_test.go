package warc

import (
	"errors"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A past knows one payload of an earlier crawl, or fails.
type past struct {
	of  Original
	err error
	n   int64 // the size of the last payload
}

func (p *past) Find(_, _ [20]byte, size int64) (Original, bool, error) {
	p.n = size
	return p.of, p.err == nil, p.err
}

// TestEarlier: a payload of an earlier crawl becomes a revisit, but not if this archive has it, and not where other
// records or an application may refer to the record.
func TestEarlier(t *testing.T) {
	p := &past{of: Original{URL: "http://old.example/", Date: testTime.Truncate(1e9)}}
	cfg := testConfig(t.TempDir())
	cfg.Earlier = p
	w, _, err := Open(cfg)
	must.Do(t, err)
	defer w.Close()
	text := strings.Repeat("a page ", 9)
	write := func(url string, set func(x *Exchange)) Written {
		t.Helper()
		x := page(url, "HTTP/1.1 200 OK\nContent-Type: text/html", text)
		if set != nil {
			set(x)
		}
		return must.Get(w.Write(x))(t)
	}
	for range 2 { // a revisit is not remembered as an original
		if done := write("http://a.example/1", nil); !done.Earlier || !done.Revisit || done.Original != p.of {
			t.Errorf("%+v", done)
		}
	}
	if p.n != int64(len(text)) {
		t.Errorf("asked for a payload of %d bytes", p.n)
	}
	if done := write("http://old.example/", func(x *Exchange) { x.Own = true }); !done.Earlier {
		t.Errorf("a page with Own, of the same URL: %+v", done)
	}
	if done := write("http://a.example/2", func(x *Exchange) { x.Truncated = "time" }); done.Revisit {
		t.Errorf("a page that is cut off: %+v", done)
	}
	same := Original{URL: "http://b.example/", Date: testTime}
	if done := write("http://a.example/3", func(x *Exchange) { x.Same = &same }); !done.Revisit || done.Earlier {
		t.Errorf("a page with Same: %+v", done)
	}
	if done := write("http://a.example/4", func(x *Exchange) { x.Own = true }); done.Revisit || done.Earlier {
		t.Errorf("a page with Own, of another URL: %+v", done)
	}
	if done := write("http://a.example/5", nil); !done.Revisit || done.Earlier ||
		done.Original.URL != "http://a.example/4" {
		t.Errorf("a page that this archive has: %+v", done)
	}
	text = "another page"
	if done := write("http://a.example/6", func(x *Exchange) { x.Here = true }); done.Revisit || done.Earlier {
		t.Errorf("a page with Here: %+v", done)
	}
	p.err = errors.New("the disk fails")
	if _, err := w.Write(page("http://a.example/7", "HTTP/1.1 200 OK", "one more")); !errors.Is(err, p.err) {
		t.Errorf("error %v, want %v", err, p.err)
	}
}
