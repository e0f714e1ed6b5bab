package parse

import (
	"fmt"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// enter adds a link with a key of the test's choice, as note does.
func enter(t testing.TB, p *Page, url string, key link.Key, hop byte) (int, int) {
	t.Helper()
	must.Get(p.work.urls.Resolve([]byte(url)))(t)
	i, found := p.work.table.find(key, hop, len(p.Links), p)
	if found == isNew {
		p.Links = append(p.Links, Link{Key: key, Hop: hop})
	} else {
		p.work.urls.Cut(len(p.Links))
	}
	return i, found
}

// The table against a map: random links, in pages of all sizes one after the other.
func TestTableAgainstMap(t *testing.T) {
	r := testseed.Rand(t)
	var p Page
	for _, size := range []int{10, 1000, 5, 300, 0, 5000, 200} {
		p.reset(Input{}, Options{})
		at := map[string]int{}
		for range size {
			hop := "LE"[r.IntN(2)]
			url := fmt.Sprintf("http://a.example/%d", r.IntN(1+size/2))
			name := string(hop) + url
			i, found := enter(t, &p, url, link.KeyOf(weburl.MustParse(url)), hop)
			want, known := at[name]
			if !known {
				want = len(at)
				at[name] = want
			}
			if i != want || (found == isKnown) != known || found == isCrowd {
				t.Fatalf("%s: got index %d, result %d; want index %d, known %v", name, i, found, want, known)
			}
			if r.IntN(500) == 0 {
				p.work.table.fill(p.Links)
			}
		}
	}
}

// Of URLs with the same key, a few are kept apart, and more cost nothing.
func TestURLsOfOneKey(t *testing.T) {
	var p Page
	p.reset(Input{}, Options{})
	key := link.Key{Host: 1, Path: 2}
	for i := range 20 {
		want := isNew
		if i >= maxCrowd {
			want = isCrowd
		}
		if _, found := enter(t, &p, fmt.Sprintf("http://a.example/%d", i), key, 'L'); found != want {
			t.Errorf("URL %d: got %d, want %d", i, found, want)
		}
	}
	if i, found := enter(t, &p, "http://a.example/3", key, 'L'); i != 3 || found != isKnown {
		t.Errorf("the fourth URL again: got index %d, result %d, want 3, isKnown", i, found)
	}
}
