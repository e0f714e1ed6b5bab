package strategy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/recent"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/parse"
)

// The words of the two categories of the tests' model. Each text has words that all texts have.
const (
	seaWords = "ship harbour whale "
	airWords = "plane airport cloud "
	allWords = "the of and to in "
)

func repeated(words string) string { return strings.Repeat(words+allWords, 10) }

// seaAndAir is a model of the categories AIR, LAND and SEA.
func seaAndAir(t testing.TB, kind string) *classify.Classifier {
	t.Helper()
	var texts []classify.Text
	for range 5 {
		texts = append(texts, classify.Text{Category: "SEA", Text: repeated(seaWords)},
			classify.Text{Category: "AIR", Text: repeated(airWords)},
			classify.Text{Category: "LAND", Text: repeated("train station hill ")})
	}
	m, err := classify.Train(texts, classify.Training{Kind: kind, Features: classify.Words})
	must.Do(t, err)
	c, err := classify.New(m, nil)
	must.Do(t, err)
	return c
}

func focused(t testing.TB, e Evidence) *Focused {
	t.Helper()
	f, err := OpenFocused(FocusedConfig{
		Classifier: seaAndAir(t, classify.Logistic), Topics: []string{"sea"}, Evidence: e,
	})
	must.Do(t, err)
	return f
}

// TestFocusedMistakes: a topic must be a category, and the model must give probabilities.
func TestFocusedMistakes(t *testing.T) {
	c := seaAndAir(t, classify.Bayes)
	for _, topics := range [][]string{nil, {"fire"}, {"sea", "fire"}, {"sea", "air", "Land"}} {
		if _, err := OpenFocused(FocusedConfig{Classifier: c, Topics: topics}); !errors.Is(err, ErrTopic) {
			t.Errorf("topics %q: %v", topics, err)
		}
	}
	_, err := OpenFocused(FocusedConfig{Classifier: c, Topics: []string{"fire"}})
	if want := `"fire" is not a category of the model`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	_, err = OpenFocused(FocusedConfig{Classifier: seaAndAir(t, classify.Rocchio), Topics: []string{"sea"}})
	if !errors.Is(err, ErrNoChances) {
		t.Errorf("rocchio: %v", err)
	}
	f, err := OpenFocused(FocusedConfig{Classifier: c, Topics: []string{"Sea", "SEA", "air"}})
	if err != nil || !strings.HasPrefix(f.Terms(), "AIR,SEA by the model") || f.now.Load().base != 2.0/3 {
		t.Errorf("%v, %+v", err, f)
	}
}

// pageWith is an HTML page of one text with a link to each URL, whose anchor text is the map's value.
func pageWith(t testing.TB, url, text string, links ...[2]string) *visit.Page {
	t.Helper()
	body := "<title>T</title><p>" + text + "</p>"
	for _, l := range links {
		body += fmt.Sprintf("<a href=%q>%s</a> ", l[0], l[1])
	}
	p := &visit.Page{Link: link.Link{URL: mustURL(t, url)}, Status: 200, Body: []byte(body), Parsed: new(parse.Page)}
	parse.Parse(parse.Input{URL: p.Link.URL, ContentType: "text/html", Body: p.Body}, parse.Options{Texts: true},
		p.Parsed)
	return p
}

// follow returns the levels of the links of a page.
func (f *Focused) follow(t testing.TB, p *visit.Page) (levels []uint8) {
	t.Helper()
	for _, l := range p.Parsed.Links {
		link := link.Link{URL: l.URL, Hops: p.Link.Hops + "L"}
		if c := f.Follow(p, &link); c != visit.Take {
			t.Errorf("%s: choice %d, want Take", l.URL, c)
		}
		levels = append(levels, link.Level)
	}
	return levels
}

// TestFocusedEvidence: each kind of evidence alone raises a link that it is for, lowers one that it is against, and
// leaves one of which it says nothing in the middle.
func TestFocusedEvidence(t *testing.T) {
	const a, b = "http://a.example/", "http://b.example/"
	middle := levelOf(0)
	level := func(f *Focused, text, url, anchor string) uint8 {
		return f.follow(t, pageWith(t, a, text, [2]string{url, anchor}))[0]
	}
	for _, c := range []struct {
		name        string
		kind        Evidence
		with, other func(f *Focused) uint8
	}{
		{"page", FromPage,
			func(f *Focused) uint8 { return level(f, repeated(seaWords), b, "whale") },
			func(f *Focused) uint8 { return level(f, repeated(airWords), b+"whale", "whale") }},
		{"anchor", FromAnchor,
			func(f *Focused) uint8 { return level(f, repeated(airWords), b+"plane", "A whale") },
			func(f *Focused) uint8 { return level(f, repeated(seaWords), b+"ship", "A plane") }},
		{"URL", FromURL,
			func(f *Focused) uint8 { return level(f, repeated(airWords), b+"the/whale.html?ship", "plane") },
			func(f *Focused) uint8 { return level(f, repeated(seaWords), b+"Airport_Cloud", "ship") }},
		{"host", FromHost, func(f *Focused) uint8 {
			for range 20 {
				level(f, repeated(airWords), b, "") // another host of another topic
				f.follow(t, pageWith(t, b, repeated(seaWords), [2]string{"/plane", ""}))
			}
			return level(f, repeated(airWords), b+"plane", "plane")
		}, func(f *Focused) uint8 {
			for range 20 {
				level(f, repeated(seaWords), b, "")
				f.follow(t, pageWith(t, b, repeated(airWords), [2]string{"/ship", ""}))
			}
			return level(f, repeated(seaWords), b+"ship", "ship")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			with, other := c.with(focused(t, c.kind)), c.other(focused(t, c.kind))
			none := focused(t, c.kind)
			got := level(none, "too short", b+"1", "other words")
			if with <= middle || other >= middle || got != middle {
				t.Errorf("for it: level %d; against it: %d; nothing: %d; the middle is %d", with, other, got, middle)
			}
		})
	}
}

// TestFocusedKeeps: redirects and embedded files have the level of their page, and a page without a category passes on
// half of its odds.
func TestFocusedKeeps(t *testing.T) {
	f := focused(t, AllEvidence)
	for _, hop := range []string{"R", "E"} {
		l := link.Link{URL: mustURL(t, "http://b.example/"), Hops: "L" + hop}
		p := &visit.Page{Link: link.Link{Level: 7}}
		if f.Follow(p, &l); l.Level != 7 {
			t.Errorf("%s: level %d, want that of the page, 7", hop, l.Level)
		}
	}
	top := link.Link{URL: mustURL(t, "http://b.example/"), Hops: "M"}
	p := &visit.Page{Link: link.Link{URL: top.URL, Level: levels}} // a robots.txt with a sitemap
	if f.Follow(p, &top); top.Level != levelOf(0) {
		t.Errorf("a sitemap has level %d, want %d", top.Level, levelOf(0))
	}
	short := pageWith(t, "http://a.example/", "short", [2]string{"http://b.example/", ""})
	short.Link.Level = levels
	if got := f.follow(t, short)[0]; got != levelOf(oddsOfLevel(levels)/2) || got <= levelOf(0) || got >= levels {
		t.Errorf("the link of a short page of the top level has level %d", got)
	}
	for l := uint8(1); l <= levels; l++ {
		if got := levelOf(oddsOfLevel(l)); got != l {
			t.Errorf("level %d becomes %d", l, got)
		}
	}
	if f.SeedLevel() != levelOf(100) || levelOf(-100) != 1 {
		t.Errorf("seeds %d, highest %d, lowest %d", f.SeedLevel(), levelOf(100), levelOf(-100))
	}
}

// ownPages are Pages that the test sets.
type ownPages struct{ own *Own }

func (p *ownPages) Own() *Own { return p.own }

// TestFocusedOwnCategories: without topics an agent wants the categories that it has now. What it knows of hosts is of
// these. If it has none, all or an equal part of each, links are equal.
func TestFocusedOwnCategories(t *testing.T) {
	const a, b = "http://a.example/", "http://b.example/"
	var pages ownPages
	f, err := OpenFocused(FocusedConfig{Classifier: seaAndAir(t, classify.Logistic), Pages: &pages})
	if err != nil || !strings.HasPrefix(f.Terms(), "own categories by the model ") {
		t.Fatalf("%v, %+v", err, f)
	}
	middle := levelOf(0)
	has := func(air, land, sea float64) { pages.own = &Own{[]float64{air, land, sea}} }
	levels := func() (sea, air uint8) {
		of := func(words string) uint8 {
			return f.follow(t, pageWith(t, a, repeated(words), [2]string{b, "A " + strings.Fields(words)[0]}))[0]
		}
		return of(seaWords), of(airWords)
	}
	for _, c := range []struct {
		name           string
		air, land, sea float64
		want           int // 1: the sea first, -1: the air first, 0: equal
	}{
		{"nothing known yet", -1, 0, 0, 0},
		{"the sea", 0, 0, 1, 1},
		{"the air", 1, 0, 0, -1},
		{"a third of the sea", 0, 0, 1.0 / 3, 1},
		{"the sea and half of the land", 0, 0.5, 1, 1},
		{"none", 0, 0, 0, 0},
		{"all", 1, 1, 1, 0},
		{"half of each", 0.5, 0.5, 0.5, 0},
	} {
		if c.air >= 0 {
			has(c.air, c.land, c.sea)
		}
		sea, air := levels()
		if got := int(sea) - int(air); got*c.want < 0 || (got == 0) != (c.want == 0) || got == 0 && sea != middle {
			t.Errorf("%s: the links of the sea have level %d, those of the air %d", c.name, sea, air)
		}
	}
	has(0, 0, 1)
	levels()
	if f.all.all != 2 {
		t.Errorf("%g pages are counted, want 2 of the present interest", f.all.all)
	}
	has(0, 0, 1) // the agents have changed, but not the categories of this one
	if levels(); f.all.all != 4 {
		t.Errorf("%g pages are counted, want 4: the categories are the same", f.all.all)
	}
	late := f.now.Load()
	has(1, 0, 0)
	f.interest()
	if f.learn(late, "a.example", 1); f.all.all != 0 || f.hosts.Len() > 0 {
		t.Errorf("%g pages and %d hosts are counted by an earlier interest", f.all.all, f.hosts.Len())
	}
}

// TestFocusedPassed: pages that go to other agents count for their hosts.
func TestFocusedPassed(t *testing.T) {
	const a, b = "http://a.example/", "http://b.example/"
	f := focused(t, FromHost)
	for i := range 20 {
		f.Passed(pageWith(t, b, repeated(airWords)))
		f.follow(t, pageWith(t, fmt.Sprintf("http://c%d.example/", i), repeated(seaWords), [2]string{a, ""}))
	}
	links := f.follow(t, pageWith(t, a, repeated(seaWords), [2]string{b, ""}, [2]string{"http://new.example/", ""}))
	if links[0] >= links[1] || f.of("b.example").all != 20 {
		t.Errorf("a link to the host of passed pages has level %d, one to a new host %d", links[0], links[1])
	}
}

// TestFocusedHostsBounded: the crawl keeps a bounded number of hosts, and a host that comes again its counts.
func TestFocusedHostsBounded(t *testing.T) {
	f := focused(t, FromHost)
	f.hosts = recent.New[string, hostTopics](10)
	for i := range 100 {
		f.learn(f.now.Load(), fmt.Sprintf("h%d.example", i), 1)
		f.learn(f.now.Load(), "often.example", 0)
		if n := f.hosts.Len(); n > 10 {
			t.Fatalf("%d hosts", n)
		}
	}
	if h := f.of("often.example"); h.all != 100 || f.of("h0.example").all != 0 || f.all.all != 200 {
		t.Errorf("%+v, %+v, %+v", h, f.of("h0.example"), f.all)
	}
}

// TestFocusedIsConcurrent: workers follow links at the same time.
func TestFocusedIsConcurrent(t *testing.T) {
	f := focused(t, AllEvidence)
	f.hosts = recent.New[string, hostTopics](4)
	var g sync.WaitGroup
	for i := range 8 {
		g.Go(func() {
			for j := range 20 {
				f.follow(t, pageWith(t, fmt.Sprintf("http://h%d.example/", (i+j)%10), repeated(seaWords),
					[2]string{"http://b.example/", "whale"}, [2]string{"/c", "plane"}))
			}
		})
	}
	g.Wait()
	if f.all.all != 160 {
		t.Errorf("%g pages", f.all.all)
	}
}

var _ visit.Reader = (*Focused)(nil)

// TestFocusedStory: the links of pages of the sea come before those of the air, and in a page those whose words are of
// the sea.
// All pages are fetched in the end.
func TestFocusedStory(t *testing.T) {
	page := func(words string, links ...string) *doc {
		d := &doc{html: "<title>T</title><p>" + repeated(words) + "</p>"}
		for i := 0; i < len(links); i += 2 {
			d.html += fmt.Sprintf("<a href=%q>%s</a> ", links[i], links[i+1])
		}
		return d
	}
	docs := map[string]*doc{
		"http://a.example/":     page("", "/air", "A plane", "/sea", "A ship", "/none", "Others"),
		"http://a.example/air":  page(airWords, "/air/1", "Others", "/air/2", "The whale"),
		"http://a.example/sea":  page(seaWords, "/sea/1", "Others", "/sea/2", "The cloud", "/sea/3", "A harbour"),
		"http://a.example/none": page(""),
	}
	for _, name := range []string{"air/1", "air/2", "sea/1", "sea/2", "sea/3"} {
		docs["http://a.example/"+name] = page("")
	}
	var order []string
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, docs, func(Place) (visit.Strategy, error) { return focused(t, FromPage|FromAnchor), nil },
			"http://a.example/")
		w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {
			if stop != crawl.Finished {
				t.Errorf("%s", stop)
			}
		})
		for _, a := range w.web.asked {
			order = append(order, strings.TrimPrefix(a.url, "http://a.example"))
		}
	})
	want := []string{"/robots.txt", "/", "/sea", "/sea/3", "/sea/1", "/none", "/sea/2", "/air", "/air/2", "/air/1"}
	if !slices.Equal(order, want) {
		t.Errorf("order (-want +got):\n%s", cmp.Diff(want, order))
	}
}

// BenchmarkFocused follows the 50 links of a page of 500 words.
func BenchmarkFocused(b *testing.B) {
	f := focused(b, AllEvidence)
	var links [][2]string
	for i := range 50 {
		links = append(links, [2]string{fmt.Sprintf("http://h%d.example/some/page-%d.html", i, i),
			"A ship in the harbour"})
	}
	p := pageWith(b, "http://a.example/", strings.Repeat(repeated(seaWords), 6), links...)
	p.Header = fetch.Header{}
	for b.Loop() {
		p.Memo = nil
		f.follow(b, p)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
}
