package gen

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/publicsuffix"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

var _ testweb.Origin = (*Web)(nil)

func newWeb(t testing.TB, s Spec) *Web {
	t.Helper()
	w, err := New(s)
	must.Do(t, err)
	return w
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

// hrefs returns the links that x/net/html finds on a page.
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
