package robots

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func TestAllowed(t *testing.T) {
	const all = "User-agent: *\n"
	for _, tc := range []struct {
		name, robots, path string
		want               bool
		rule               string
		line               int
	}{
		{"empty file", "", "/", true, "", 0},
		{"empty path", all + "Disallow: /$", "", false, "Disallow: /$", 2},
		{"no slash", all + "Disallow: /?q", "?q=1", false, "Disallow: /?q", 2},
		{"prefix", all + "Disallow: /a", "/ab", false, "Disallow: /a", 2},
		{"case", all + "Disallow: /a", "/A", true, "", 0},
		{"longest wins", all + "Allow: /a/b\nDisallow: /a\n", "/a/bc", true, "Allow: /a/b", 2},
		{"longest wins, other order", all + "Disallow: /a\nAllow: /a/b\n", "/a/bc", true, "Allow: /a/b", 3},
		{"allow wins a tie", all + "Disallow: /a\nAllow: /a\n", "/a", true, "Allow: /a", 3},
		{"tie of different rules", all + "Disallow: /*b\nAllow: /a*\n", "/ab", true, "Allow: /a*", 3},
		{"first of equals", all + "Disallow: /a*\nDisallow: /a*\n", "/a", false, "Disallow: /a*", 2},
		{"star", all + "Disallow: /*.gif$", "/x/y.gif", false, "Disallow: /*.gif$", 2},
		{"star, not at the end", all + "Disallow: /*.gif$", "/x/y.gif?z", true, "", 0},
		{"star, end seen twice", all + "Disallow: /*.gif$", "/x.gif.gif", false, "Disallow: /*.gif$", 2},
		{"stars", all + "Disallow: /**a***b**", "/xaxb", false, "Disallow: /**a***b**", 2},
		{"star and end", all + "Disallow: /a*$", "/abc", false, "Disallow: /a*$", 2},
		{"overlap", all + "Disallow: /ab*bc$", "/abc", true, "", 0},
		{"dollar inside", all + "Disallow: /a$b", "/a$bc", false, "Disallow: /a$b", 2},
		{"two dollars", all + "Disallow: /a$$", "/a$", false, "Disallow: /a$$", 2},
		{"no leading slash", all + "Disallow: a", "/a", true, "", 0},
		{"only a dollar", all + "Disallow: $", "/", true, "", 0},
		{"only a star", all + "Disallow: *", "/", false, "Disallow: *", 2},
		{"leading star", all + "Disallow: *a", "/xa", false, "Disallow: *a", 2},
		{"empty rule", all + "Disallow:\n", "/", true, "", 0},
		{"empty rule ends agents", "User-agent: *\nDisallow:\nUser-agent: x\nDisallow: /", "/", true, "", 0},
		{"index", all + "Disallow: /\nAllow: /d/index.html", "/d/", true, "Allow: /d/index.html", 3},
		{"index, not below", all + "Disallow: /\nAllow: /d/index.html", "/d/e", false, "Disallow: /", 2},
		{"no index in Disallow", all + "Disallow: /d/index.html", "/d/", true, "", 0},
		{"rule before any agent", "Disallow: /\n" + all + "Disallow: /a", "/", true, "", 0},
		{"own group", all + "Disallow: /\nUser-agent: orbweaver\nDisallow: /a", "/", true, "", 0},
		{"own group, empty", all + "Disallow: /\nUser-agent: orbweaver", "/", true, "", 0},
		{"groups merge", "User-agent: OrbWeaver\nDisallow: /a\nUser-agent: b\nDisallow: /b\nUser-agent: " +
			"orbweaver/2.1\nDisallow: /c", "/c", false, "Disallow: /c", 6},
		{"not another's", "User-agent: orbweaver\nDisallow: /a\nUser-agent: b\nDisallow: /b\n", "/b", true, "", 0},
		{"no prefix of a name", "User-agent: orb\nDisallow: /\nUser-agent: orbweaver-news\nDisallow: /", "/", true, "",
			0},
		{"two agents, one group", "User-agent: a\nUser-agent: orbweaver\nDisallow: /", "/", false, "Disallow: /", 3},
		{"star and more", "User-agent: * and more\nDisallow: /", "/", false, "Disallow: /", 2},
		{"star and no space", "User-agent: *x\nDisallow: /", "/", true, "", 0},
		{"a sitemap does not end a group", "User-agent: *\nSitemap: /s\nUser-agent: x\nDisallow: /", "/", false,
			"Disallow: /", 4},
		{"a delay does not end a group", "User-agent: *\nCrawl-delay: 5\nUser-agent: x\nDisallow: /", "/", false,
			"Disallow: /", 4},
		{"byte order mark", "\xEF\xBB\xBF" + all + "Disallow: /", "/", false, "Disallow: /", 2},
		{"torn byte order mark", "\xEF\xBB" + all + "Disallow: /", "/", false, "Disallow: /", 2},
		{"mixed line ends", "User-agent: *\r\rx\r\nDisallow: /a\rDisallow: /b\n\r\nDisallow: /c", "/c", false,
			"Disallow: /c", 7},
		{"comments", "# c\nUser-agent: * # c\nDisallow: /a#b", "/a", false, "Disallow: /a", 3},
		{"no colon", "user-agent *\ndisallow \t /a", "/a", false, "disallow \t /a", 2},
		{"no colon, three words", "user-agent: *\ndisallow /a b", "/a", true, "", 0},
		{"typos", "useragent: *\nDissallow: /a", "/a", false, "Dissallow: /a", 2},
		{"key with a tail", "User agent's: *\nDisallowed: /a", "/a", false, "Disallowed: /a", 2},
		{"space everywhere", " \t User-agent \v : \f * \t\n  Disallow\t:\t/a  ", "/a", false, "Disallow\t:\t/a", 2},
		{"NUL ends a line", all + "Disallow: /a\x00b", "/ac", false, "Disallow: /a", 2},
		{"NUL first", "\x00\x00\n" + all + "Disallow: /a", "/a", false, "Disallow: /a", 3},
		{"Latin-1", all + "Disallow: /\xE9", "/%E9t", false, "Disallow: /\xE9", 2},
		{"UTF-8", all + "Disallow: /é", "/%C3%A9t", false, "Disallow: /é", 2},
		{"lower hex in the rule", all + "Disallow: /%c3%a9", "/%C3%A9", false, "Disallow: /%c3%a9", 2},
		{"lower hex in the path", all + "Disallow: /%C3%A9", "/%c3%a9", true, "", 0},
		{"escapes are literal", all + "Disallow: /%6C", "/l", true, "", 0},
		{"robots.txt as any", all + "Disallow: /", "/robots.txt", false, "Disallow: /", 2},
		{"HTML", "<!DOCTYPE html><html><body>User-agent: *<br>\nDisallow: /</body>", "/", true, "", 0},
		{"long line is cut", all + "Disallow: /" + strings.Repeat("a", lineLimit-len("Disallow: /")) + "b",
			"/" + strings.Repeat("a", lineLimit), false,
			"Disallow: /" + strings.Repeat("a", lineLimit-len("Disallow: /")), 2},
		{"end of a long line does not begin one", all + "#" + strings.Repeat("a", 3*lineLimit) + "\rDisallow: /", "/",
			false, "Disallow: /", 3},
	} {
		got, rule, line := Parse([]byte(tc.robots)).Group("orbweaver").Allowed(tc.path)
		if got != tc.want || rule != tc.rule || line != tc.line {
			t.Errorf("%s: got %v %.80q %d, want %v %.80q %d", tc.name, got, rule, line, tc.want, tc.rule, tc.line)
		}
	}
}

// Crawlable, where it differs from Google's matcher.
func TestCrawlable(t *testing.T) {
	for _, tc := range []struct {
		rules, path string
		want        bool
	}{
		{"Disallow: /", "/robots.txt", true},
		{"Disallow: /", "/robots.txt?", false},
		{"Disallow: /%7Ejoe", "/~joe", false},
		{"Disallow: /~joe", "/%7Ejoe", false},
		{"Disallow: /%7ejoe", "/%7Ejoe", false},
		{"Disallow: /a%2Fb", "/a/b", true},
		{"Disallow: /a/b", "/a%2Fb", true},
		{"Disallow: /{x}", "/%7Bx%7D", false},
		{"Disallow: /a b", "/a%20b", false},
		{"Disallow: /*'", "/?a=%27", false},
		{"Disallow: /é", "/%c3%a9", false},
		{"Disallow: /*%6C$", "/xl", false},
		{"Disallow: /%", "/%zz", false},
		{"Disallow: /a%zz", "/a%zz", false},
		{"Disallow: /\nAllow: /%7Ejoe", "/~joe", false}, // the stricter reading decides
		{"Disallow: /\nAllow: /~joe", "/~joe", true},
		{"Disallow: /%61\nAllow: /abc", "/abc", true},
	} {
		g := Parse([]byte("User-agent: *\n" + tc.rules)).Group("x")
		if got, rule, line := g.Crawlable(tc.path); got != tc.want {
			t.Errorf("%q %s: got %v by %q (line %d), want %v", tc.rules, tc.path, got, rule, line, tc.want)
		}
	}
}

func TestCrawlDelay(t *testing.T) {
	for _, tc := range []struct {
		robots string
		want   time.Duration
		ok     bool
	}{
		{"", 0, false},
		{"Crawl-delay: 5", 0, false}, // belongs to no group
		{"User-agent: *\nCrawl-delay: 5", 5 * time.Second, true},
		{"User-agent: *\ncrawl-delay:0.25", 250 * time.Millisecond, true},
		{"User-agent: *\nCrawldelay: 10 # s", 10 * time.Second, true},
		{"User-agent: *\nCrawl delay: .5s", 500 * time.Millisecond, true},
		{"User-agent: *\nCrawl-delay 7", 7 * time.Second, true},
		{"User-agent: *\nCrawl-delay: 0", 0, true},
		{"User-agent: *\nCrawl-delay: -1", 0, false},
		{"User-agent: *\nCrawl-delay: soon", 0, false},
		{"User-agent: *\nCrawl-delay: .", 0, false},
		{"User-agent: *\nCrawl-delay: Inf", 0, false},
		{"User-agent: *\nCrawl-delay: 1.5.9", 1500 * time.Millisecond, true},
		{"User-agent: *\nCrawl-delay: 1e9", time.Second, true},
		{"User-agent: *\nCrawl-delay: " + strings.Repeat("9", 400), delayCeiling, true},
		{"User-agent: *\nCrawl-delay: 0." + strings.Repeat("0", 400) + "1", 0, true},
		{"User-agent: *\nCrawl-delay: 2\nCrawl-delay: 9\nCrawl-delay: 3", 9 * time.Second, true},
		{"User-agent: *\nCrawl-delay: 5\n\nUser-agent: orbweaver\nDisallow: /a", 5 * time.Second, false},
		{"User-agent: *\nDisallow:\nCrawl-delay: 5\nUser-agent: orbweaver\nCrawl-delay: 1\nDisallow: /a", time.Second,
			true},
	} {
		got, ok := Parse([]byte(tc.robots)).Group("orbweaver").CrawlDelay()
		if ok != tc.ok || ok && got != tc.want {
			t.Errorf("%.80q: got %v %v, want %v %v", tc.robots, got, ok, tc.want, tc.ok)
		}
	}
}

func TestSitemaps(t *testing.T) {
	// The first colon of the last line is the colon of the scheme.
	got := Parse([]byte("Sitemap: https://a.example/1\nUser-agent: *\nSITE-MAP: /2\nSitemap:\nDisallow: /\nsitemap " +
		"https://a.example/3#x\n")).Sitemaps()
	if d := cmp.Diff([]string{"https://a.example/1", "/2", "//a.example/3"}, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// The limit falls between two bytes of the file. A line that it cuts does not count; a line that
// ends there does.
func TestReadLimit(t *testing.T) {
	head := "User-agent: *\nDisallow: /first\n#"
	body := func(last string, after string) []byte {
		return []byte(head + strings.Repeat("x", ReadLimit-len(head)-1-len(last)) + "\n" + last + after)
	}
	for _, tc := range []struct {
		name string
		body []byte
		want bool
	}{
		{"ends at the limit", body("Disallow: /p", ""), false},
		{"ends at the limit, more follows", body("Disallow: /p", "\nAllow: /private\n"), false},
		{"cut by the limit", body("Disallow: /p", "rivate/only\n"), true},
		{"behind the limit", body("", "Disallow: /p\n"), true},
		{"10 MB", append(body("", "\n"), []byte(strings.Repeat("Disallow: /p\n", 800_000))...), true},
	} {
		g := Parse(tc.body).Group("x")
		if got, rule, _ := g.Allowed("/p"); got != tc.want {
			t.Errorf("%s: got %v by %q, want %v", tc.name, got, rule, tc.want)
		}
		if got, _, _ := g.Allowed("/first"); got {
			t.Errorf("%s: /first is allowed, want denied", tc.name)
		}
	}
}

// reference is Google's matcher: it keeps the set of positions where a prefix of the pattern can
// end.
func reference(pattern, path string) bool {
	pos := []int{0}
	for i := 0; i < len(pattern); i++ {
		var next []int
		switch {
		case pattern[i] == '$' && i == len(pattern)-1:
			return pos[len(pos)-1] == len(path)
		case pattern[i] == '*':
			for p := pos[0]; p <= len(path); p++ {
				next = append(next, p)
			}
		default:
			for _, p := range pos {
				if p < len(path) && path[p] == pattern[i] {
					next = append(next, p+1)
				}
			}
		}
		if pos = next; len(pos) == 0 {
			return false
		}
	}
	return true
}

func checkMatch(t interface{ Fatalf(string, ...any) }, pattern, path string) {
	r := newRule(pattern)
	got, steps := r.match(path)
	if want := reference(pattern, path); got != want {
		t.Fatalf("%q on %q: got %v, want %v", pattern, path, got, want)
	}
	if limit := 2 * (len(pattern) + len(path)); steps > limit {
		t.Fatalf("%q on %q: got %d steps, want at most %d", pattern, path, steps, limit)
	}
}

func TestMatchModel(t *testing.T) {
	pattern := rapid.StringOfN(rapid.RuneFrom([]rune("aab**$/")), 0, 24, -1)
	path := rapid.StringOfN(rapid.RuneFrom([]rune("aab$/")), 0, 48, -1)
	rapid.Check(t, func(t *rapid.T) {
		checkMatch(t, pattern.Draw(t, "pattern"), path.Draw(t, "path"))
	})
}

// Rules made to be slow stay within the bound of twice the lengths.
func TestHostileRules(t *testing.T) {
	a := strings.Repeat("a", 2000)
	for _, pattern := range []string{
		"/" + strings.Repeat("a*", 4000) + "b",
		"/" + strings.Repeat("*a", 4000) + "$",
		"/" + strings.Repeat("*", 8000) + "b",
		"/*" + strings.Repeat("a", 999) + "b",
		"/*" + strings.Repeat("a", 999) + "b*" + strings.Repeat("a", 999) + "c$",
		"/*" + strings.Repeat("ab", 500) + "c",
		"/*" + strings.Repeat(strings.Repeat("a", 50)+"b*", 300),
		"/" + strings.Repeat("*a*b", 3000) + "*$",
		"*" + strings.Repeat("aaaaaaab", 2000),
	} {
		for _, path := range []string{
			"/" + a, "/" + a + "b", "/" + strings.Repeat("ab", 1000), "/" + strings.Repeat(a[:49]+"b", 40),
			strings.Repeat("aaaaaaac", 250),
		} {
			checkMatch(t, pattern, path)
		}
	}
}

// A file of hostile rules costs at most maxSteps, and then denies.
func TestHostileFile(t *testing.T) {
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	for i := 0; b.Len() < ReadLimit; i++ {
		fmt.Fprintf(&b, "Disallow: *aaaaaa*aaab%x\n", i)
	}
	g := Parse([]byte(b.String())).Group("x")
	path := "/" + strings.Repeat("a", 2000)
	rule, steps := decide(g.g.rules, path)
	if rule != &costly {
		t.Errorf("got a decision by %+v, want costly", rule)
	}
	if limit := maxSteps + 4*len(path); steps > limit {
		t.Errorf("got %d steps, want at most %d", steps, limit)
	}
	if ok, text, line := g.Allowed(path); ok || text != costlyText || line != 0 {
		t.Errorf("got %v %q %d, want the path denied by %q", ok, text, line, costlyText)
	}
	if ok, text, _ := g.Allowed("/b"); !ok {
		t.Errorf("/b: denied by %q, want allowed", text)
	}
	if got := g.g.memory; got > 20*ReadLimit {
		t.Errorf("the group takes %d bytes, want at most 20 times ReadLimit", got)
	}
}

// same reports whether two groups have the same rules and lines.
func same(a, b Group) bool {
	if a.g == nil || b.g == nil {
		return a.g == b.g
	}
	x, y := *a.g, *b.g
	x.memory, y.memory = 0, 0
	return reflect.DeepEqual(x, y)
}

// A real file that is written down and read again means the same.
func TestReduced(t *testing.T) {
	for name, body := range realFiles(t) {
		rules := Parse(body)
		for _, agent := range []string{"orbweaver", "Googlebot", "bingbot", "GPTBot", "MJ12bot"} {
			g := rules.CrawlerGroup(agent)
			text := g.appendText(nil)
			if again := Parse(text).CrawlerGroup(agent); !same(g, again) {
				t.Errorf("%s for %s: differs after being written down as %.200q", name, agent, text)
			}
			if len(text) > len(body) {
				t.Errorf("%s for %s: %d bytes grew to %d", name, agent, len(body), len(text))
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "User-agent: *\nDisallow: /a*b$\n", "\xEF\xBB\xBFuser-agent x\rdisallow /\r\n",
		"User-agent: *\nCrawl-delay: 1.5\nUser-agent: orbweaver\nAllow: /d/index.html\nDisallow: /%c3\xC3",
		"a:\x00b#\n\n:\n",
	} {
		f.Add([]byte(s), "/a/b")
	}
	// The robots.txt files of the conformance data, if it is present.
	names := must.Get(filepath.Glob(filepath.Join(data, "spec", "*", "*.textproto")))(f)
	for _, name := range names {
		src := must.Get(os.ReadFile(name))(f)
		spec := must.Get(readSpec(string(src)))(f)
		for i, c := range spec {
			if i == 0 || c.robots != spec[i-1].robots {
				f.Add([]byte(c.robots), target(c.url))
			}
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, path string) {
		rules := Parse(body)
		for _, agent := range []string{"orbweaver", "x", "MJ12bot"} {
			g := rules.CrawlerGroup(agent)
			text := g.appendText(nil)
			if again := Parse(text).CrawlerGroup(agent); !same(g, again) {
				t.Fatalf("%q: written down as %q, which means something else", body, text)
			}
			if len(text) > len(body) {
				t.Fatalf("%q: grew to %q", body, text)
			}
			ok, rule, line := g.Allowed(path)
			if (rule == "") != (line == 0) && rule != costlyText || !ok && rule == "" {
				t.Fatalf("%q for %q: inconsistent result: got %v %q %d", body, path, ok, rule, line)
			}
			if crawl, _, _ := g.Crawlable(path); crawl && !ok && path != "/robots.txt" {
				t.Fatalf("%q for %q: crawlable but not allowed", body, path)
			}
			if d, ok := g.CrawlDelay(); d < 0 || d > delayCeiling || !ok && d != 0 {
				t.Fatalf("%q: got delay %v %v", body, d, ok)
			}
		}
	})
}

func FuzzMatch(f *testing.F) {
	for _, s := range [][2]string{{"/a*b$", "/aab"}, {"*", ""}, {"/**a*$", "/a$"}, {"*aab", "/aaab"}, {"$", ""},
		{"/é%c3", "/%C3"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if len(pattern) > 500 || len(path) > 500 { // the reference is slow
			return
		}
		p := escape(pattern)
		checkMatch(t, p, path)
		if escape(p) != p {
			t.Fatalf("escape(%q) changes when escaped again", pattern)
		}
		n := normalize(p)
		checkMatch(t, n, path)
		if !normal(n) || normalize(n) != n {
			t.Fatalf("normalize(%q) = %q changes when normalized again", p, n)
		}
	})
}

func BenchmarkAllowed(b *testing.B) {
	var s strings.Builder
	s.WriteString("User-agent: *\n")
	for i := range 100 {
		fmt.Fprintf(&s, "Disallow: /dir%d/\nDisallow: /*?sort%d=\n", i, i)
	}
	g := Parse([]byte(s.String())).Group("orbweaver")
	b.ReportAllocs()
	for b.Loop() {
		if ok, _, _ := g.Crawlable("/some/ordinary/path/of-a-page.html?id=1234"); !ok {
			b.Fatal("denied")
		}
	}
}

func BenchmarkParse(b *testing.B) {
	bodies := realFiles(b)
	n := 0
	for _, body := range bodies {
		n += min(len(body), ReadLimit)
	}
	b.SetBytes(int64(n))
	for b.Loop() {
		for _, body := range bodies {
			Parse(body).Group("orbweaver")
		}
	}
}
