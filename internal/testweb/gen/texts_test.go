package gen

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// words are texts in four categories. Each word of a text names its category.
func someTexts() (texts []Text) {
	for c := range 4 {
		for i := range 5 {
			texts = append(texts, Text{fmt.Sprintf("C%d", c),
				strings.Repeat(strings.Repeat(fmt.Sprintf("c%dt%d & ", c, i), 20)+"\n\n--\n", 3)})
		}
	}
	return texts
}

func textWeb(t *testing.T, s TextSpec) *TextWeb {
	t.Helper()
	w := must.Get(FromTexts(s, someTexts()))(t)
	return w
}

var titledLinks = regexp.MustCompile(`href="([^"]*)">([^<]*)<`)

// TestTextPages: the HTML of each page has the links that Links tells, with the titles of their pages, and words of the
// page's category alone, at least minWords of them.
func TestTextPages(t *testing.T) {
	for _, slugs := range []bool{false, true} {
		w := textWeb(t, TextSpec{Seed: 3, Pages: 500, Hosts: 20, Slugs: slugs})
		for page := range w.Pages() {
			u := w.URL(page)
			if p, ok := w.Page(u); !ok || p != page {
				t.Fatalf("%s is page %d, %t; want %d", u, p, ok, page)
			}
			html := string(w.AppendPage(nil, page))
			text, list, _ := strings.Cut(html, "<ul>")
			prefix := "c" + w.Categories(page)[0][1:] + "t"
			n := strings.Count(text, prefix)
			if others := len(regexp.MustCompile(`c\dt\d`).FindAllString(text, -1)); n != others || 2*n < minWords {
				t.Fatalf("%s of %s: %d words of the category, %d in all", u, w.Categories(page), n, others)
			}
			var got []uint32
			for _, m := range titledLinks.FindAllStringSubmatch(list, -1) {
				to, ok := w.Page(m[1])
				if !ok || m[2] != w.title(uint32(to)) {
					t.Fatalf("%s: the link %q with the text %q", u, m[1], m[2])
				}
				got = append(got, uint32(to))
			}
			if want := w.Links(page); !slices.Equal(got, want) || slices.Contains(want, uint32(page)) {
				t.Fatalf("%s: links %v, want %v", u, got, want)
			}
			if slices.Sort(got); len(slices.Compact(slices.Clone(got))) < len(got) {
				t.Fatalf("%s: a link twice: %v", u, got)
			}
		}
	}
}

// TestGenericAnchors: with generic anchors, the pages have the same links, texts and titles as without, but the title
// of a page stands before the link.
func TestGenericAnchors(t *testing.T) {
	s := TextSpec{Seed: 3, Pages: 300, Hosts: 20}
	titled := textWeb(t, s)
	s.Generic = true
	generic := textWeb(t, s)
	link := regexp.MustCompile(`<li>(.*) (<a href="[^"]*">)([^<]*)</a>`)
	seen := map[string]int{}
	for page := range titled.Pages() {
		html := string(generic.AppendPage(nil, page))
		for _, m := range link.FindAllStringSubmatch(html, -1) {
			seen[m[3]]++
		}
		html, want := link.ReplaceAllString(html, "<li>$2$1</a>"), string(titled.AppendPage(nil, page))
		if html != want {
			t.Fatalf("page %d: %s\nwant %s", page, html, want)
		}
	}
	for _, text := range genericAnchors {
		if seen[text] < 100 || len(seen) != len(genericAnchors) {
			t.Errorf("anchor texts %v", seen)
		}
	}
}

// TestFromTexts: all pages can be reached; the shares are those of the Spec; a seed gives one web.
func TestFromTexts(t *testing.T) {
	s := TextSpec{Seed: 1, Pages: 20_000, Hosts: 300, Locality: 0.7, Mix: 0.3}
	w, again := textWeb(t, s), textWeb(t, s)
	s.Seed = 2
	other := textWeb(t, s)
	if w.Pages() != 20_000 || w.Hosts() != 300 {
		t.Fatalf("%d pages, %d hosts", w.Pages(), w.Hosts())
	}
	found, err := w.web.Reachable(Bounds{Seeds: []Seed{{0, 0}}})
	if err != nil || found.Reachable() != 20_000 {
		t.Errorf("%d pages can be reached, %v", found.Reachable(), err)
	}
	links, same, main, differ := 0, 0, 0, 0
	for host := range w.Hosts() {
		by := map[string]int{}
		for page := w.web.division.first[host]; page < w.web.division.first[host+1]; page++ {
			by[w.categories(page)[0]]++
			html := string(w.AppendPage(nil, int64(page)))
			if html != string(again.AppendPage(nil, int64(page))) {
				t.Fatalf("page %d is another one with the same seed", page)
			}
			if html != string(other.AppendPage(nil, int64(page))) {
				differ++
			}
			for _, to := range w.Links(int64(page)) {
				links++
				if w.categories(to)[0] == w.categories(page)[0] {
					same++
				}
			}
		}
		if most := 0; w.web.division.first[host] < w.web.division.first[host+1] {
			for _, n := range by {
				most = max(most, n)
			}
			main += most
		} else {
			t.Errorf("host %d has no page", host)
		}
	}
	if got := float64(same) / float64(links); math.Abs(got-0.7) > 0.01 {
		t.Errorf("locality %.3f, want 0.7", got)
	}
	if got := float64(main) / 20_000; math.Abs(got-0.7) > 0.03 {
		t.Errorf("%.3f of the pages have their host's main category, want 0.7", got)
	}
	if got := float64(links) / 20_000; math.Abs(got-12) > 0.6 {
		t.Errorf("%.2f links a page, want 12", got)
	}
	if differ < 19_900 {
		t.Errorf("only %d pages differ with another seed", differ)
	}
	truth := w.Truth()
	n := 0
	truth.Each(func(host, page int64) {
		want := int64(w.web.division.first[host]) + page
		if p, ok := w.Page(truth.URL(host, page)); !ok || p != want || !truth.Has(host, page) {
			t.Fatalf("page %d of host %d is %s", page, host, truth.URL(host, page))
		}
		n++
	})
	if n != 20_000 || truth.Reachable() != 20_000 || truth.Has(0, -1) || truth.Has(300, 0) {
		t.Errorf("%d pages, %d reachable", n, truth.Reachable())
	}
}

// TestFromArticles: the links are those of the articles, without missing ones, itself and repetitions. An article to
// which no link leads is not reachable.
func TestFromArticles(t *testing.T) {
	all := []Article{
		{ID: 7, Title: "Tom & Jerry", Topics: []string{"Art", "Life"}, Links: []int{9, 9, 7, 1000, 8},
			Text: "A cat\nA mouse"},
		{ID: 8, Title: "Cat", Topics: []string{"Life"}, Links: []int{7}, Text: "An animal"},
		{ID: 9, Title: "Mouse", Text: "An animal"},
		{ID: 10, Title: "Lonely", Topics: []string{"Art"}, Links: []int{7}, Text: "No link leads here"},
	}
	w := must.Get(FromArticles(all, TextSpec{Hosts: 2}))(t)
	seed, ok := w.Page(w.Seeds()[0])
	if !ok || w.Title(seed) != "Tom & Jerry" || !slices.Equal(w.Categories(seed), []string{"Art", "Life"}) {
		t.Fatalf("the seed is %q, %v", w.Title(seed), w.Categories(seed))
	}
	var titles []string
	for _, to := range w.Links(seed) {
		titles = append(titles, w.Title(int64(to)))
	}
	if !slices.Equal(titles, []string{"Mouse", "Cat"}) || !slices.Equal(w.Names(), []string{"Art", "Life"}) {
		t.Errorf("links %q, topics %q", titles, w.Names())
	}
	html := string(w.AppendPage(nil, seed))
	if !strings.Contains(html, "<title>Tom &amp; Jerry</title>\n<p>A cat</p>\n<p>A mouse</p>\n<ul>") {
		t.Errorf("%s", html)
	}
	if truth := w.Truth(); truth.Reachable() != 3 {
		t.Errorf("%d articles can be reached, want 3", truth.Reachable())
	}
	for _, how := range []TextSpec{{Hosts: 5}, {Hosts: -1}} {
		if _, err := FromArticles(all, how); err == nil {
			t.Errorf("%+v: no error", how)
		}
	}
	if _, err := FromArticles(append(all, all[0]), TextSpec{}); err == nil {
		t.Error("an id twice: no error")
	}
}

// TestTextAnswer: what is no page is a 404, and a HEAD has no body.
func TestTextAnswer(t *testing.T) {
	w := textWeb(t, TextSpec{Pages: 50, Hosts: 5})
	ask := func(q testweb.Query) (string, testweb.Reply) {
		b, r := w.Answer([]byte("before"), q)
		s, ok := strings.CutPrefix(string(b), "before")
		if !ok || !strings.HasSuffix(s[:r.HeadLen], "\r\n\r\n") {
			t.Errorf("%+v: %q, %+v", q, b, r)
		}
		return s, r
	}
	page, r := ask(testweb.Query{Target: "/1"})
	if r.Page != 1 || r.Status != 200 || page[r.HeadLen:] != string(w.AppendPage(nil, 1)) {
		t.Errorf("%+v: %s", r, page)
	}
	if s, h := ask(testweb.Query{Target: "/1", Head: true, Close: true}); len(s) != h.HeadLen || h.Page != 1 ||
		!strings.Contains(s, "\r\nConnection: close\r\n") {
		t.Errorf("%q", s)
	}
	if s, r := ask(testweb.Query{Target: "/robots.txt"}); r.Page != -1 || r.Status != 200 ||
		!strings.HasSuffix(s, "User-agent: *\nDisallow:\n") {
		t.Errorf("%q", s)
	}
	for _, target := range []string{"", "x", "/0", "/01", "/9999", "/-1", "/a-1", "/1/", "/1?x", "*"} {
		if _, r := ask(testweb.Query{Target: target}); r.Status != 404 || r.Page != -1 {
			t.Errorf("%q: %+v", target, r)
		}
	}
	for name, want := range map[string]bool{"n0.example": true, "n4.example": true, "n5.example": false,
		"n.example": false, "n01.example": false, "n-1.example": false, "x0.example": false, "n0.test": false,
		"n99999999999.example": false, "n4294967296.example": false} {
		if _, ok := w.Find(name); ok != want {
			t.Errorf("Find(%q) is %t", name, ok)
		}
	}
	if a := w.Host(4).Addr; !a.IsLoopback() || a == w.Host(3).Addr {
		t.Errorf("address %s", a)
	}
}

func TestTextErrors(t *testing.T) {
	for _, s := range []TextSpec{{Pages: -1}, {Pages: 5, Hosts: 6}, {Links: 1}, {Locality: 2}, {Mix: 2}, {Local: 2}} {
		if _, err := FromTexts(s, someTexts()); err == nil {
			t.Errorf("%+v: no error", s)
		}
	}
	for _, texts := range [][]Text{nil, someTexts()[:1], {{"A", "one"}, {"B", "--"}}} {
		if _, err := FromTexts(TextSpec{Pages: 10}, texts); !errors.Is(err, ErrTexts) {
			t.Errorf("%v: %v", texts, err)
		}
	}
	// Short texts, and no page to link to but itself.
	w, err := FromTexts(TextSpec{Pages: 1}, []Text{{"A", "one"}, {"B", "two"}})
	if err != nil || len(w.Links(0)) > 0 || strings.Count(string(w.AppendPage(nil, 0)), "<p>") < minWords {
		t.Errorf("%v", err)
	}
}

// BenchmarkTextAnswer serves pages of a web of a million.
func BenchmarkTextAnswer(b *testing.B) {
	w, err := FromTexts(TextSpec{}, someTexts())
	must.Do(b, err)
	var buf []byte
	page := int64(0)
	for b.Loop() {
		page = (page + 7919) % w.Pages()
		host, n := w.web.division.place(uint32(page))
		buf, _ = w.Answer(buf[:0], testweb.Query{Host: host, Target: w.target(host, n)})
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
}
