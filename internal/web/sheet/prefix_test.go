package sheet

import (
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestPrefix(t *testing.T) {
	for _, tt := range []struct {
		text, surt string
		in, out    string // URLs, separated by blanks
	}{
		{"example.org", "(org,example,)", "http://example.org/ https://example.org:8443/a", "http://www.example.org/"},
		{"EXAMPLE.org/", "(org,example,)", "http://example.org/", "http://an.example.org/"},
		{"example.org:8080", "(org,example,:8080)", "http://example.org:8080/ https://example.org:8080/",
			"http://example.org/"},
		{"example.org:80", "(org,example,:80)", "http://example.org/", "https://example.org/"},
		{"*.example.org", "(org,example,", "http://example.org/ https://a.b.example.org/x", "http://anexample.org/"},
		{"https://example.org/docs/", "https://(org,example,:443)/docs/", "https://example.org/docs/a",
			"http://example.org/docs/a https://example.org/docs https://example.org:444/docs/a"},
		{"http://example.org", "http://example.org:80", "http://example.org/", "https://example.org/"},
		{"*.example.org/a?b=", "*.example.org/a?b=", "http://x.example.org/a?b=1", "http://x.example.org/a"},
		{"bücher.example", "(example,xn--bcher-kva,)", "http://bücher.example/", "http://example/"},
		{"192.0.2.1", "192.0.2.1", "http://192.0.2.1/", "http://1.192.0.2/"},
		{"[2001:db8::1]:80", "[2001:db8::1]:80", "http://[2001:db8:0::1]/", "https://[2001:db8::1]/"},
		{"org,example,", "(org,example,", "http://example.org/ http://www.example.org/", "http://example.net/"},
		{"org,", "(org,", "http://example.org/", "http://org.example/"},
		{"(org,example,www,)/a", "(org,example,www,)/a", "https://www.example.org/ab", "http://example.org/a"},
		{"(org,example)", "(org,example,)", "http://example.org/", "http://www.example.org/"},
		{"http://(org,example,", "(org,example,", "https://www.example.org/", "https://example.com/"},
		{"https://(org,example,)/", "https://(org,example,)", "https://example.org:444/", "http://example.org/"},
		{"(org,example,:8080)/a", "(org,example,:8080)/a", "http://example.org:8080/a", "http://example.org/a"},
	} {
		p, err := ParsePrefix(tt.text)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		if got := p.String(); got != tt.surt {
			t.Errorf("%s: SURT %s, want %s", tt.text, got, tt.surt)
		}
		if again, err := ParsePrefix(p.String()); err != nil || again != p {
			t.Errorf("%s: %s is read as %+v, %v; want %+v", tt.text, p, again, err, p)
		}
		for _, u := range strings.Fields(tt.in) {
			if !p.Has(weburl.MustParse(u)) {
				t.Errorf("%s does not hold for %s", tt.text, u)
			}
		}
		for _, u := range strings.Fields(tt.out) {
			if p.Has(weburl.MustParse(u)) {
				t.Errorf("%s holds for %s", tt.text, u)
			}
		}
	}
}

func TestPrefixMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "there is no host",
		"/docs":                    "there is no host",
		"ftp://example.org":        `the scheme "ftp" is neither http nor https`,
		"exa mple.org":             "forbidden character in host",
		"www.*.org":                "* stands only at the front",
		"*example.org":             "* stands only at the front",
		"*.192.0.2.1":              "no hosts below an address",
		"example.org:":             "no number after the colon",
		"example.org:http":         "the port is not a number",
		"me:pw@example.org":        "no user name or password",
		"example.org?x":            "a path begins with /",
		"https://example.org/#top": "no fragment",
		"org,example":              "end it with a comma",
		"(org,example,www/":        "a path follows after a closing parenthesis",
		"(org,,example,)":          "an empty label",
		"()":                       "there is no host",
		"(org,example,:80":         "a port stands before a closing parenthesis",
		"gopher://(org,example,":   `the scheme "gopher"`,
	} {
		if _, err := ParsePrefix(text); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasSuffix(err.Error(), prefixHelp) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// FuzzPrefix checks that String writes what ParsePrefix reads.
func FuzzPrefix(f *testing.F) {
	for _, s := range []string{"example.org", "*.example.org:80/a", "https://(org,example,", "[::1]", "a,b,:1)/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePrefix(s)
		if err != nil {
			return
		}
		if again, err := ParsePrefix(p.String()); err != nil || again != p {
			t.Errorf("%q: %+v, and %q: %+v, %v", s, p, p.String(), again, err)
		}
	})
}
