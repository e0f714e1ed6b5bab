package gen

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/publicsuffix"

	"github.com/orbweaver/orbweaver/testweb"
)

var _ testweb.Origin = (*Web)(nil)

func newWeb(t testing.TB, s Spec) *Web {
	t.Helper()
	w, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func get(t testing.TB, w *Web, host int64, target string, gz bool) (body []byte, r testweb.Reply) {
	t.Helper()
	out, r := w.Answer(nil, testweb.Query{Host: host, Target: target, Gzip: gz})
	head := string(out[:r.HeadLen])
	if !strings.HasSuffix(head, "\r\n\r\n") || strings.Count(head, "\r\n\r\n") != 1 {
		t.Fatalf("head %q", head)
	}
	return out[r.HeadLen:], r
}

func TestGzipIsIdentity(t *testing.T) {
	w := newWeb(t, Spec{Hosts: 5000, PagesMean: 30})
	rng := rand.New(rand.NewPCG(1, 2))
	var plain, packed int
	for range 2000 {
		h := rng.Int64N(w.Hosts())
		p := rng.Int64N(w.Pages(h))
		target := w.Target(h, p)
		want, r := get(t, w, h, target, false)
		if r.Page != p || r.Status != 200 {
			t.Fatalf("%s: %+v, want page %d", target, r, p)
		}
		z, _ := get(t, w, h, target, true)
		zr, err := gzip.NewReader(bytes.NewReader(z))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(zr)
		if err != nil {
			t.Fatalf("host %d page %d: %v", h, p, err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("host %d page %d: gzip and identity differ", h, p)
		}
		plain, packed = plain+len(want), packed+len(z)
	}
	t.Logf("mean %d bytes, ratio %.2f", plain/2000, float64(plain)/float64(packed))
}

func TestNames(t *testing.T) {
	w := newWeb(t, Spec{Hosts: 1 << 40})
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range int64(10000) {
		h := i
		if i > 1000 {
			h = rng.Int64N(w.Hosts())
		}
		name, site := w.Name(h)
		if got, ok := w.Find(name); !ok || got != h {
			t.Fatalf("Find(%s) = %d %v, want %d", name, got, ok, h)
		}
		if want, err := publicsuffix.EffectiveTLDPlusOne(name); err != nil || site != want {
			t.Fatalf("site of %s: %s, want %s", name, site, want)
		}
	}
}

// hrefs are the links of a page as x/net/html finds them.
func hrefs(t testing.TB, page []byte) (list []string) {
	t.Helper()
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return list
		case html.StartTagToken:
			tok := z.Token()
			for _, a := range tok.Attr {
				if tok.Data == "a" && a.Key == "href" {
					list = append(list, a.Val)
				}
			}
		}
	}
}

func header(head []byte, name string) string {
	_, rest, _ := strings.Cut(string(head), "\r\n"+name+": ")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}
