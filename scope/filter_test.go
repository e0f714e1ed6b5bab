package scope

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/orbweaver/orbweaver/weburl"
)

// The rules of Nutch's regex-urlfilter.txt as it comes, and SURT prefixes in
// Heritrix's and the index's spelling.
const mixed = `
# skip some suffixes
-(?i)\.(gif|jpg|png|ico|css|zip|exe)$
# skip URLs with some characters as probable queries
-[?*!@=]
-http://(com,example,private,
+http://(com,example,
https://(org,example,www,)/docs/
org,example)/faq/
(net,example,:8080)/
+^https?://([a-z0-9-]+\.)*nutch\.example/
`

func TestFilter(t *testing.T) {
	f, err := LoadFilter(strings.NewReader(mixed))
	if err != nil {
		t.Fatal(err)
	}
	s := mustNew(t, Config{Scope: Any, Filter: f}, "http://seed.example/x.png", "http://elsewhere.example/")
	for _, c := range []struct {
		url, hops string
		want      Reason
	}{
		{"http://www.example.com/a", "L", ""},
		{"https://example.com/", "L", ""},
		{"http://example.com:81/", "L", ""},
		{"http://x.private.example.com/a", "L", Excluded},
		{"http://example.comx/", "L", NotIncluded},
		{"http://www.example.org/docs/x", "L", ""},
		{"http://example.org/docs/x", "L", NotIncluded},
		{"http://example.org/faq/x", "L", ""},
		{"http://example.net:8080/x", "L", ""},
		{"http://example.net/x", "L", NotIncluded},
		{"https://a.b.nutch.example/x", "L", ""},
		{"https://a.b.nutch.example/x.GIF", "L", Excluded},
		{"https://a.b.nutch.example/x?y=z", "L", Excluded},
		{"http://elsewhere.example/", "L", NotIncluded},
		{"http://elsewhere.example/", "", ""},
		{"http://elsewhere.example/", "LE", ""},
		{"http://seed.example/x.png", "", Excluded},
		{"http://127.0.0.1/", "L", NotIncluded},
	} {
		if got := s.Judge(link(c.url, c.hops)); got.Reason != c.want {
			t.Errorf("%s by %q: got %+v, want %q", c.url, c.hops, got, c.want)
		}
	}
	for url, want := range map[string]string{
		"http://x.private.example.com/": "filter: out, excluded (line 6 matches: -http://(com,example,private,)",
		"http://www.example.com/":       "filter: in (one of the 4 SURT prefixes from line 7 on matches)",
		"http://other.example/":         "filter: out, notIncluded (no line matches)",
		"http://nutch.example/":         "filter: in (line 11 matches: +^https?://([a-z0-9-]+\\.)*nutch\\.example/)",
	} {
		if got := strings.Join(s.Explain(link(url, "L")), "\n"); !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s\nwant %s", url, got, want)
		}
	}
}

func TestFilterErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "no line lets anything in"},
		{"-x\n", "end it with the line +."},
		{"+.\nexample.com\n", `filter line 2: "example.com" is neither`},
		{"+.\n\n-a(b\n", `filter line 3: regular expression "a(b": missing closing )`},
		{"+" + strings.Repeat("x", maxFilterLine), "filter line 1: over 65536 octets"},
	} {
		if _, err := LoadFilter(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40q: got %v, want %q in it", c.in, err, c.want)
		}
	}
	if _, err := LoadFilter(iotest.ErrReader(io.ErrNoProgress)); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that fails: got %v", err)
	}
}

func TestSURTPrefix(t *testing.T) {
	for _, c := range []struct {
		in, want string
		ok       bool
	}{
		{"http://(com,example,", "com,example,", true},
		{"http://(com,example", "com,example", true},
		{"https://(com,example,www,)/A?b", "com,example,www,)/A?b", true},
		{"(com,example,)", "com,example,)", true},
		{"com,example)/", "com,example,)/", true},
		{"com,example:8080)/", "com,example,:8080)/", true},
		{"http://(com,example,:8080)/", "com,example,:8080)/", true},
		{"http://([::1]:81)/a", "[::1]:81)/a", true},
		{"http://(www\\.)?example", "", false},
		{"http://example.com/", "", false},
		{"^https?://(a|b)", "", false},
		{".", "", false},
	} {
		if got, ok := surtPrefix(c.in); got != c.want || ok != c.ok {
			t.Errorf("%s: got %q, %v, want %q, %v", c.in, got, ok, c.want, c.ok)
		}
	}
	for raw, want := range map[string]string{
		"http://www.Example.com/A?b=1": "com,example,www,)/A?b=1",
		"https://example.com:8443/":    "com,example,:8443)/",
		"http://[::1]:81/a":            "[::1]:81)/a",
		"http://localhost/":            "localhost,)/",
	} {
		if got := string(appendSURT(nil, weburl.MustParse(raw))); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

// A filter that loads judges any URL without panic, and as its lines do one
// by one.
func FuzzFilter(f *testing.F) {
	f.Add(mixed, "http://www.example.com/a?b")
	f.Add("com,a\ncom,a,b\ncom,a)/x\n-com,b,\n+b,", "http://b.a.com/x")
	f.Add("-http://([::1])/\n+.", "http://[::1]/")
	f.Fuzz(func(t *testing.T, file, raw string) {
		fl, err := LoadFilter(strings.NewReader(file))
		if err != nil {
			return
		}
		u, err := weburl.Parse(raw)
		if err != nil {
			return
		}
		var want, known bool
		surt := string(appendSURT(nil, u))
		for _, line := range strings.Split(file, "\n") {
			line = strings.TrimSpace(line)
			if line == "" || line[0] == '#' {
				continue
			}
			rest := strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(line, "+"), "-"), " \t")
			if p, ok := surtPrefix(rest); ok {
				known = strings.HasPrefix(surt, p)
			} else if re, err := compile(rest); err == nil {
				known = re.MatchString(u.String())
			}
			if known {
				want = line[0] != '-'
				break
			}
		}
		got := fl.match(u)
		if (got != nil) != known || got != nil && got.accept != want {
			t.Fatalf("%q on %s: got %+v, want a match: %v, accept: %v", file, u, got, known, want)
		}
	})
}

// Any link of whatever hops and via gets a verdict without panic, and Explain
// agrees with it.
func FuzzJudge(f *testing.F) {
	f.Add("http://a.example/2041/07/x/x/x/x/?a&b", "LER", "http://a.example/")
	f.Add("http://[::1]//////?;&=", "EE", "x")
	scopes := make([]*Scope, len(kinds))
	for k := range scopes {
		scopes[k] = mustNew(f, Config{Scope: Kind(k), Exclude: []string{`x$`}, Include: []string{`a`}, Depth: depth(5)}, "http://a.example/", "https://www.b.co.uk:81/x/y")
	}
	f.Fuzz(func(t *testing.T, raw, hops, via string) {
		u, err := weburl.Parse(raw)
		if err != nil {
			return
		}
		l := weburl.Link{URL: u, Hops: hops, Via: via}
		for _, s := range scopes {
			v := s.Judge(l)
			if v.In != (v.Reason == "") {
				t.Fatalf("%s: %+v", u, v)
			}
			lines := s.Explain(l)
			if want := "verdict: out, " + string(v.Reason); !v.In && lines[len(lines)-1] != want {
				t.Fatalf("%s: %q, want last %q", u, lines, want)
			}
		}
	})
}
