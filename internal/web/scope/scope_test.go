package scope

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func urls(raw ...string) (us []weburl.URL) {
	for _, r := range raw {
		us = append(us, weburl.MustParse(r))
	}
	return us
}

func mustNew(t testing.TB, cfg Config, seeds ...string) *Scope {
	t.Helper()
	s := must.Get(New(cfg, urls(seeds...)))(t)
	return s
}

func linkOf(raw, hops string) link.Link {
	return link.Link{URL: weburl.MustParse(raw), Hops: hops}
}

func depth(n int) *int { return &n }

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		kind  Kind
		seeds string
		in    string
		out   string
	}{
		{Page, "http://a.example/x https://b.example/",
			"http://a.example/x https://b.example/",
			"http://a.example/ http://a.example/x?y https://a.example/x"},
		{Prefix, "http://a.example/docs/intro.html http://p.example:8080/v1/",
			"http://a.example/docs/ https://a.example/docs/x/y?z http://www.a.example/docs/intro.html " +
				"http://p.example:8080/v1/x https://p.example:8080/v1/",
			"http://a.example/ http://a.example/docs http://a.example/docsx/y http://b.a.example/docs/ " +
				"http://a.example:81/docs/ http://p.example/v1/"},
		{Prefix, "https://www.a.example",
			"https://www.a.example/x http://a.example/", "http://b.example/ https://w.a.example/"},
		{Host, "http://www.a.example/docs/",
			"http://a.example/ https://www.a.example/x http://a.example:8080/",
			"http://b.a.example/ http://example/ http://wwwa.example/"},
		{Host, "http://www.com/ http://[::1]:80/ http://127.0.0.1:8000/",
			"http://www.com/x http://[::1]/ http://127.0.0.1/", "http://com/ http://127.0.0.2/"},
		{Domain, "http://www.a.co.uk/ https://alice.github.io/",
			"http://a.co.uk/ https://x.y.a.co.uk/ https://alice.github.io/x http://z.alice.github.io/",
			"http://b.co.uk/ http://co.uk/ https://bob.github.io/ http://github.io/"},
		{Any, "http://a.example/", "http://a.example/ https://b.example:81/x", ""},
	} {
		s := mustNew(t, Config{Scope: c.kind}, strings.Fields(c.seeds)...)
		for _, in := range strings.Fields(c.in) {
			if got := s.Judge(linkOf(in, "L")); got != (Judgement{In: true}) {
				t.Errorf("%v of %s: %s: got %+v, want in", c.kind, c.seeds, in, got)
			}
		}
		for _, out := range strings.Fields(c.out) {
			if got := s.Judge(linkOf(out, "L")); got != (Judgement{Reason: OutOfScope}) {
				t.Errorf("%v of %s: %s: got %+v, want outOfScope", c.kind, c.seeds, out, got)
			}
		}
	}
}

// deep returns l with a depth in its host.
func deep(l link.Link, n int) link.Link {
	l.SetHostDepth(n)
	return l
}

func TestRules(t *testing.T) {
	const a = "http://a.example"
	today := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		cfg  Config
		l    link.Link
		want Reason
	}{
		{"no URL", Config{}, link.Link{}, OutOfScope},
		{"zero configuration", Config{}, linkOf(a+"/x", "LLLLLLLL"), ""},
		{"exclude", Config{Exclude: []string{`x$`, `\.gif`}}, linkOf(a+"/b.gif?c", "L"), Excluded},
		{"exclude, no match", Config{Exclude: []string{`x$`, `\.gif`}}, linkOf(a+"/b.png", "L"), ""},
		{"exclude a seed", Config{Exclude: []string{`/x`}}, linkOf(a+"/x", ""), Excluded},
		{"exclude an embed", Config{Exclude: []string{`ads\.`}}, linkOf("http://ads.example/x", "LE"), Excluded},
		{"exclude with its own flag", Config{Exclude: []string{`(?i)GIF`, `JPG`}}, linkOf(a+"/jpg", "L"), ""},
		{"include", Config{Include: []string{`/docs/`, `/faq/`}}, linkOf(a+"/faq/1", "L"), ""},
		{"include, no match", Config{Include: []string{`/docs/`, `/faq/`}}, linkOf(a+"/x", "L"), NotIncluded},
		{"include, a seed", Config{Include: []string{`/docs/`}}, linkOf(a+"/x", ""), ""},
		{"include, an embed", Config{Include: []string{`/docs/`}}, linkOf(a+"/logo.png", "LE"), ""},
		{"exclude before include", Config{Include: []string{`x`}, Exclude: []string{`x`}}, linkOf(a+"/x", "L"),
			Excluded},
		{"depth", Config{Depth: depth(2)}, linkOf(a+"/x", "LRLE"), ""},
		{"too deep", Config{Depth: depth(2)}, linkOf(a+"/x", "LMX"), TooDeep},
		{"depth 0", Config{Depth: depth(0)}, linkOf(a+"/x", "L"), TooDeep},
		{"depth 0, an embed", Config{Depth: depth(0)}, linkOf("http://cdn.example/x", "E"), ""},
		{"deep in its host", Config{HostDepth: depth(1)}, deep(linkOf(a+"/x", "LLLL"), 1), ""},
		{"too deep in its host", Config{HostDepth: depth(1)}, deep(linkOf(a+"/x", "LLLL"), 2), TooDeepInHost},
		{"too deep in its host, an embed", Config{HostDepth: depth(1)}, deep(linkOf(a+"/x", "LLE"), 2), ""},
		{"depth before host depth", Config{Depth: depth(1), HostDepth: depth(1)}, deep(linkOf(a+"/x", "LL"), 2),
			TooDeep},
		{"inferred", Config{Depth: depth(1)}, linkOf(a+"/", "LI"), ""},
		{"inferred, out of scope", Config{}, linkOf("http://b.example/", "EI"), OutOfScope},
		{"long URL", Config{}, linkOf(a+"/"+strings.Repeat("x", weburl.MaxLength), "L"), TrapURLLength},
		{"longest URL", Config{MaxURLLength: 20}, linkOf(a+"/xyz", "L"), ""},
		{"longer URL", Config{MaxURLLength: 20}, linkOf(a+"/xyzw", "L"), TrapURLLength},
		{"long URL, guard off", Config{MaxURLLength: -1}, linkOf(a+"/"+strings.Repeat("x", 5000), "L"), ""},
		{"long seed", Config{MaxURLLength: 20}, linkOf(a+"/xyzw", ""), ""},
		{"many segments", Config{}, linkOf(a+"/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21", "L"),
			TrapPathLength},
		{"not too many segments", Config{}, linkOf(a+"/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/", "L"), ""},
		{"many segments, guard off", Config{MaxPathSegments: -1},
			linkOf(a+"/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21", "L"), ""},
		{"repeated", Config{}, linkOf(a+"/x/css/css/css/css/y", "L"), TrapRepeatedSegments},
		{"repeated thrice", Config{}, linkOf(a+"/x/css/css/css/y", "L"), ""},
		{"repeated pair", Config{}, linkOf(a+"/p/q/p/q/p/q/p/q/", "L"), TrapRepeatedSegments},
		{"repeated, guard off", Config{MaxRepeatedSegments: -1}, linkOf(a+"/p/q/p/q/p/q/p/q/", "L"), ""},
		{"many arguments", Config{MaxQueryArgs: 3}, linkOf(a+"/?a&b&c&d", "L"), TrapQueryArgs},
		{"not too many arguments", Config{MaxQueryArgs: 3}, linkOf(a+"/?a&b&c", "L"), ""},
		{"calendar", Config{Today: today}, linkOf(a+"/2041/07/", "L"), TrapCalendar},
		{"calendar without today", Config{}, linkOf(a+"/2041/07/", "L"), ""},
		{"scope before traps", Config{MaxURLLength: 10, Today: today}, linkOf("http://elsewhere.example/2041/07/", "L"),
			OutOfScope},
		{"prerequisite", Config{Exclude: []string{`.`}}, linkOf("http://elsewhere.example/robots.txt", "LP"), ""},
	} {
		s := mustNew(t, c.cfg, a+"/")
		if got, want := s.Judge(c.l), (Judgement{In: c.want == "", Reason: c.want}); got != want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, want)
		}
	}
}

func TestRole(t *testing.T) {
	for _, c := range []struct {
		hops, via string
		in        bool
	}{
		{"", "", true},
		{"R", "", true},   // a seed's redirect
		{"RRR", "", true}, // a seed's chain of redirects
		{"LR", "", false}, // a page's redirect out of the limits
		{"RL", "", false},
		{"E", "http://a.example/", true},
		{"LLE", "http://a.example/", true},
		{"RE", "http://a.example/", true},
		{"LER", "http://cdn.example/", true}, // an embed's redirect
		{"LRE", "http://a.example/", true},
		{"LEE", "http://a.example/style.css", true},    // a font of a style within the limits
		{"LEE", "http://cdn.example/style.css", false}, // a font of a style outside of them
		{"LEE", "no URL", false},
		{"LEER", "http://a.example/", false},
		{"LEL", "http://cdn.example/frame", false}, // a link in a frame outside of the limits
		{"M", "", false},
		{"X", "", false},
		{"LP", "", true},
		{"Z", "", false},
	} {
		s := mustNew(t, Config{}, "http://a.example/")
		l := linkOf("http://elsewhere.example/x", c.hops)
		l.Via = c.via
		if got := s.Judge(l); got.In != c.in {
			t.Errorf("hops %q via %q: got %+v, want in: %v", c.hops, c.via, got, c.in)
		}
	}
}

// A sitemap must be on a host of the crawl, also if only a part of the host is. Its entries are a link deeper.
func TestSitemapRole(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		url  string
		want Reason
	}{
		{Config{}, "http://a.example/sitemap.xml", ""},
		{Config{}, "http://cdn.example/sitemap.xml", OutOfScope},
		{Config{Scope: Prefix}, "https://www.a.example/sitemap.xml", ""},
		{Config{Scope: Page}, "http://a.example/sitemap.xml", ""},
		{Config{Scope: Page}, "http://cdn.example/sitemap.xml", OutOfScope},
		{Config{Scope: Domain}, "http://x.a.example/sitemap.xml", ""},
		{Config{Include: []string{"/docs/"}}, "http://a.example/sitemap.xml", ""},
		{Config{Exclude: []string{"map"}}, "http://a.example/sitemap.xml", Excluded},
		{Config{Depth: depth(2)}, "http://a.example/sitemap.xml", ""},
		{Config{Depth: depth(1)}, "http://a.example/sitemap.xml", TooDeep},
		{Config{HostDepth: depth(1)}, "http://a.example/sitemap.xml", TooDeepInHost},
		{Config{Accept: func(link.Link) bool { return false }}, "http://a.example/sitemap.xml", Rejected},
		{Config{MaxURLLength: 10}, "http://a.example/sitemap.xml", TrapURLLength},
	} {
		s := mustNew(t, c.cfg, "http://a.example/docs/")
		l := linkOf(c.url, "M")
		l.Seed = "a.example"
		l.SetHostDepth(1)
		l.SetSitemap(false)
		if got := s.Judge(l); got.Reason != c.want {
			t.Errorf("%+v: %s: got %q, want %q\n%s", c.cfg, c.url, got.Reason, c.want,
				strings.Join(s.Explain(l), "\n"))
		}
	}
}

func TestRedirectedSeed(t *testing.T) {
	for _, c := range []struct {
		kind    Kind
		in, out string
	}{
		{Page, "https://b.example/en/index.html", "https://b.example/en/"},
		{Prefix, "https://b.example/en/x", "https://b.example/de/x"},
		{Host, "http://www.b.example/de/x", "http://x.b.example/"},
		{Domain, "http://x.b.example/", "http://c.example/"},
	} {
		s := mustNew(t, Config{Scope: c.kind}, "http://a.example/")
		if s.Judge(linkOf(c.in, "RL")).In {
			t.Errorf("%v: %s is in before the redirect is known", c.kind, c.in)
		}
		for range 2 {
			s.AddSeed(weburl.MustParse("https://b.example/en/index.html"))
		}
		s.AddSeed(weburl.URL{})
		if got := s.Judge(linkOf(c.in, "RL")); !got.In {
			t.Errorf("%v: %s: got %+v, want in", c.kind, c.in, got)
		}
		if got := s.Judge(linkOf(c.out, "RL")); got.Reason != OutOfScope {
			t.Errorf("%v: %s: got %+v, want outOfScope", c.kind, c.out, got)
		}
	}
}

// A wide crawl has many seeds on one host. A directory makes the directories below it superfluous.
func TestPrefixesAreJoined(t *testing.T) {
	s := newSeeds()
	for _, raw := range []string{"http://a.example/x/y/", "http://a.example/x/z/", "http://a.example/x/",
		"http://a.example/x/w/v"} {
		s.add(Prefix, weburl.MustParse(raw))
	}
	if got, want := fmt.Sprint(s.hosts["a.example"]), "[{ /x/}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want []string
	}{
		{Config{Scope: 17}, []string{"scope Kind(17)", "use page, prefix, host, domain or any"}},
		{Config{Depth: depth(-1)}, []string{"depth -1", "omit it for no limit"}},
		{Config{Exclude: []string{`a`, `x(b`}}, []string{"exclude 2 of 2", `"x(b"`, "missing closing )", `\(`}},
		{Config{Include: []string{`*.html`}}, []string{"include 1 of 1", `"*.html"`, "at character 1", `.*`}},
		{Config{Exclude: []string{`é(?=b)`}}, []string{`"é(?=b)"`, "at character 2", "lookaheads"}},
		{Config{Exclude: []string{`a[b`}, Include: []string{`c)`}},
			[]string{"exclude 1 of 1", "at character 2", "include 1 of 1", `"c)"`}},
		{Config{Exclude: []string{`a{2,1}`}}, []string{"invalid repeat count at character 2"}},
	} {
		_, err := New(c.cfg, nil)
		if err == nil {
			t.Errorf("%+v: got no error", c.cfg)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: got %q, want %q in it", c.cfg, err, want)
			}
		}
	}
}

func TestParseKind(t *testing.T) {
	for _, want := range []Kind{Host, Page, Prefix, Domain, Any} {
		var got Kind
		text, _ := want.MarshalText()
		if err := got.UnmarshalText(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	if k, err := ParseKind(""); err != nil || k != Host {
		t.Errorf("empty: got %v, %v, want host", k, err)
	}
	if _, err := ParseKind("site"); err == nil || !strings.Contains(err.Error(), `"site"`) ||
		!strings.Contains(err.Error(), "domain") {
		t.Errorf("site: got %v", err)
	}
}

func TestRepeated(t *testing.T) {
	for _, c := range []struct {
		path string
		want int
	}{
		{"/", 0}, {"/a", 0}, {"/a/", 1}, {"/a/a", 1}, {"/a/a/", 2}, {"/a/b/a/b/", 2},
		{"/a/b/a/b/a/", 2}, {"/a/b/a/b/a/b/", 3}, {"/x/a/b/c/a/b/c/a/b/c/y/", 3},
		{"/a/a/b/a/a/b/a/a/b/", 3}, {"/a/b/a/c/a/d/", 1}, {"/////", 2},
		{"/" + strings.Repeat("a/", 1000), 255},
		{"/" + strings.Repeat("/", 1000), 127},
	} {
		if got := repeated(c.path); got != c.want {
			t.Errorf("%.40s: got %d, want %d", c.path, got, c.want)
		}
	}
}

func TestCommonest(t *testing.T) {
	for _, c := range []struct {
		path string
		want int
	}{
		{"/", 0}, {"/a", 0}, {"/a/", 1}, {"/a/a", 1}, {"/a/b/a/c/a/d/", 3}, {"/////", 0},
		{"/b/a/a/b/b/b/a/b/c", 5}, {"/ab/abc/ab/", 2},
		{"/" + strings.Repeat("a/b/", 1000), 128},
	} {
		if got := commonest(c.path); got != c.want {
			t.Errorf("%.40s: got %d, want %d", c.path, got, c.want)
		}
		for most := range 4 {
			if got, want := crowded(c.path, most), c.want > most; got != want {
				t.Errorf("%.40s more than %d times: got %v", c.path, most, got)
			}
		}
	}
}

func TestStrayYear(t *testing.T) {
	today := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		uri  string
		want int
	}{
		{"/2026/11/21/", 0}, {"/2028/12/", 0}, {"/2029/01/", 2029}, {"/events/2031-7-1", 2031}, {"/2031/05/07/", 2031},
		{"/2031-05-07", 2031}, {"/2031-05-07.html", 2031}, {"/2031-05", 2031}, {"/cal?month=2031-05", 2031},
		{"/2041-07.html", 2041},
		{"/cal?year=2040&month=2", 2040}, {"/cal?month=02&lang=en&year=2040", 2040}, {"/cal?iyear=2040&imonth=2", 2040},
		{"/cal?y=2040&m=2", 2040},
		{"/cal?date=2040-02-01", 2040}, {"/cal?date=2040-02-01T00:00:00", 2040}, {"/cal?year=1950&month=3", 1950},
		{"/cal?year=2040", 0}, {"/cal?year=2040&month=13", 0}, {"/cal?month=2", 0}, {"/c?y=20400&m=2", 0},
		{"/1914/08/", 0}, {"/calendar/1914/08/", 1914}, {"/calendar/1970/01", 0}, {"/eventually/1914/08/", 0},
		{"/x?1914-08-01", 0},
		{"/rfc/9110/12", 0}, {"/w/2041/07x", 0}, {"/item/4711/13", 0}, {"/item/4711", 0}, {"/a4711/08/", 0},
		{"/20410701/", 0}, {"/2041/0701", 0}, {"/0012/05/", 0}, {"/x/2999/12/31", 2999}, {"/x/3000/12/31", 0},
		{"/wiki/ISO-8859-1", 0}, {"/8859-1", 0}, {"/iso/8859-1.html", 0}, {"/8859/1/", 0}, {"/rfc/rfc2616-2", 0},
		{"/sqlite-3-2040-2", 0}, {"/2041-07-report", 0},
		{"/2041-07-32", 0}, {"/2041-07-", 0}, {"/2041--7", 0}, {"/2041-", 0}, {"/2041-7", 2041}, {"/2041-.7", 0},
		{"/2041.7-07", 0}, {"/2041/", 0}, {"/2041", 0},
		{"/part-2041/07/", 0}, {"/v2041-07", 0}, {"/x?p=v2041-07", 0}, {"/x?id=2041/07/01", 0},
	} {
		if got := strayYear(weburl.MustParse("http://a.example"+c.uri), today.Year()+yearsAhead); got != c.want {
			t.Errorf("%s: got %d, want %d", c.uri, got, c.want)
		}
	}
}

func TestQueries(t *testing.T) {
	q := NewQueries(3, 2)
	for i, c := range []struct {
		path string
		want bool
	}{
		{"/a?1", true}, {"/a?2", true}, {"/a?3", true}, {"/a?4", false}, {"/a", true}, {"/a?", true},
		{"/b?1", true}, {"/c?1", true}, // a third path decrements all counts, b's to zero
		{"/a?5", true}, {"/a?6", false}, {"/b?2", true}, {"/b?3", true}, {"/b?4", true}, {"/b?5", false},
	} {
		if got := q.Admit(weburl.MustParse("http://a.example" + c.path)); got.In != c.want ||
			got.In == (got.Reason == TrapQueryExplosion) {
			t.Errorf("%d: %s: got %+v, want in: %v", i, c.path, got, c.want)
		}
	}
	off := NewQueries(-1, 0)
	for i := range 20_000 {
		if !off.Admit(weburl.MustParse(fmt.Sprintf("http://a.example/?%d", i))).In {
			t.Fatal("a guard that is off refused a URL")
		}
	}
}

// With any number of paths, memory is bounded, no path is refused early, and a trap is refused
// within the error that the comment of Queries gives.
// Parameters of the path count as queries do.
func TestQueriesOfParameters(t *testing.T) {
	q := NewQueries(4, 0)
	for _, c := range []struct {
		u  string
		in bool
	}{
		{"/p;v=1", true}, {"/p;v=2", true}, {"/p;v=3?q", true}, {"/p?q", true}, {"/p;v=4", false}, {"/p?r", false},
		{"/p", true}, {"/p?", true},
		{"/a;v=1/b", true}, {"/a;v=2/b", true}, {"/a;v=3/b", true}, {"/a/b;v=4", true}, {"/a;v=5/b;v=5", false},
		{"/a;v=1/c", true}, {"/p;v=1/", true},
	} {
		if v := q.Admit(weburl.MustParse("http://a.example" + c.u)); v.In != c.in {
			t.Errorf("%s: in %t, want %t", c.u, v.In, c.in)
		}
	}
	if v := q.Admit(weburl.MustParse("https://a.example/p;v=5")); !v.In {
		t.Error("another origin has no path of its own")
	}
}

func TestQueriesBounds(t *testing.T) {
	const limit, paths, n = 100, 50, 20_000
	q := NewQueries(limit, paths)
	asked, caught := 0, 0
	for i := range n {
		if v := q.Admit(weburl.MustParse(fmt.Sprintf("http://a.example/%d?x", i))); !v.In {
			t.Fatalf("path %d with one query: got %+v, want in", i, v)
		}
		if caught == 0 {
			asked++
			if !q.Admit(weburl.MustParse(fmt.Sprintf("http://trap.example/?%d", i))).In {
				caught = asked
			}
		}
		if len(q.count) > paths {
			t.Fatalf("keeps %d paths, want at most %d", len(q.count), paths)
		}
	}
	if most := limit + 1 + 2*asked/paths; caught <= limit || caught > most {
		t.Errorf("the trap was caught at query %d, want from %d to %d", caught, limit+1, most)
	}
}

func TestExplain(t *testing.T) {
	s := mustNew(t, Config{
		Exclude: []string{`gif$`, `/private/`}, Include: []string{`html`}, Depth: depth(3), MaxQueryArgs: -1,
	}, "http://a.example/", "http://b.example/x")
	got := s.Explain(linkOf("http://c.example/private/x?y", "LL"))
	want := []string{
		"role: a link, hops LL",
		"scope: out, outOfScope (host c.example; the seeds have a.example, b.example)",
		"URL length: in (28 of at most 2083 octets)",
		"path length: in (2 of at most 20 segments)",
		"repeated segments: in (1 of at most 3 times in a row)",
		"query arguments: in (off)",
		"calendar: in (off)",
		"exclude: out, excluded (number 2 matches: /private/)",
		"include: out, notIncluded (none of 1 matches)",
		"depth: in (2 of at most 3 links)",
		"host depth: in (no limit)",
		"verdict: out, outOfScope",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// The last line always agrees with Judge.
	for _, l := range []link.Link{{}, linkOf("http://a.example/x.html", ""), linkOf("http://a.example/x.html", "L"),
		linkOf("http://d.example/x", "LE"), linkOf("http://a.example/x", "P"), linkOf("http://d.example/", "R")} {
		lines := s.Explain(l)
		if in := slices.Contains(lines, "verdict: in"); in != s.Judge(l).In {
			t.Errorf("%s %s: got lines %q, but Judge gives %+v", l.URL, l.Hops, lines, s.Judge(l))
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	s := mustNew(t, Config{Exclude: []string{`/x`, `/y`}}, "http://a.example/")
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 200 {
				u := weburl.MustParse(fmt.Sprintf("http://h%d-%d.example/", i, j))
				s.AddSeed(u)
				if !s.Judge(link.Link{URL: u, Hops: "RL"}).In {
					t.Errorf("%s: out after AddSeed", u)
				}
			}
		})
	}
	wg.Wait()
}

func TestJudgeAllocations(t *testing.T) {
	for _, kind := range []Kind{Host, Page, Prefix, Domain, Any} {
		s := mustNew(t, Config{
			// No patterns: package regexp's pools allocate under the race detector.
			Scope: kind, Depth: depth(9),
			Today: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC),
		}, "https://docs.python.org/3/")
		l := linkOf("https://docs.python.org/3/library/functions.html?highlight=open", "LLL")
		if kind == Page {
			l.URL = weburl.MustParse("https://docs.python.org/3/")
		}
		if v := s.Judge(l); !v.In {
			t.Fatalf("%v: got %+v, want in", kind, v)
		}
		if got := testing.AllocsPerRun(100, func() { s.Judge(l) }); got > 0 {
			t.Errorf("%v: got %v allocations, want none", kind, got)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	for _, tt := range []struct {
		name string
		kind Kind
		url  string
	}{
		{"host", Host, "https://docs.python.org/3/library/functions.html"},
		{"host, query", Host, "https://docs.python.org/3/library/functions.html?highlight=open"},
		{"host, deep", Host, "https://docs.python.org/3/library/a/b/c/d/functions.html"},
		{"host, elsewhere", Host, "https://www.python.org/3/library/functions.html"},
		{"prefix", Prefix, "https://docs.python.org/3/library/functions.html"},
		{"domain", Domain, "https://docs.python.org/3/library/functions.html"},
		{"domain, elsewhere", Domain, "https://www.rust-lang.org/3/library/functions.html"},
		{"any", Any, "https://docs.python.org/3/library/functions.html"},
	} {
		b.Run(tt.name, func(b *testing.B) {
			s := mustNew(b, Config{Scope: tt.kind, Today: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)},
				"https://docs.python.org/3/")
			l := linkOf(tt.url, "LLL")
			b.ReportAllocs()
			for b.Loop() {
				s.Judge(l)
			}
		})
	}
}

// Accept is asked last, about links and embeds, and not about seeds.
func TestAccept(t *testing.T) {
	var asked []string
	s := mustNew(t, Config{Exclude: []string{"/x"}, Accept: func(l link.Link) bool {
		asked = append(asked, l.URL.Path())
		return l.URL.Path() == "/in"
	}}, "http://a.example/")
	for _, c := range []struct {
		url, hops string
		want      Judgement
	}{
		{"http://a.example/", "", Judgement{In: true}},
		{"http://a.example/in", "L", Judgement{In: true}},
		{"http://a.example/out", "L", Judgement{Reason: Rejected}},
		{"http://a.example/x", "L", Judgement{Reason: Excluded}},
		{"http://b.example/embed", "LE", Judgement{Reason: Rejected}},
		{"http://b.example/moved", "R", Judgement{In: true}},
	} {
		u := must.Get(weburl.Parse(c.url))(t)
		if got := s.Judge(link.Link{URL: u, Hops: c.hops}); got != c.want {
			t.Errorf("%s, hops %q: got %+v, want %+v", c.url, c.hops, got, c.want)
		}
	}
	if want := []string{"/in", "/out", "/embed"}; !slices.Equal(asked, want) {
		t.Errorf("asked about %q, want %q", asked, want)
	}
}
