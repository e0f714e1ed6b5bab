package testweb

import (
	"strings"
	"testing"
	"time"
)

func TestReadRobots(t *testing.T) {
	const text = "\ufeffUser-agent: a\nUser-agent: Orbweaver # both\nDisallow: /x\nAllow: /x/y\n" +
		"Disallow: /*.pdf$\nDisallow: /q?*=1\n\nUser-agent: *\nDisallow: /\n\n" +
		"user-agent: orbweaver/1.0\ndisallow: /z\ncrawl-delay: 1.5\n"
	r := ReadRobots([]byte(text), "orbweaver")
	if got := r.CrawlDelay(); got != 1500*time.Millisecond {
		t.Errorf("got delay %v", got)
	}
	for path, want := range map[string]bool{
		"/": false, "/x": true, "/xx": true, "/x/y": false, "/x/yes": false, "/a.pdf": true, "/a.pdfx": false,
		"/q?a=1": true, "/q?a=2": false, "/z/": true,
	} {
		if _, got := r.Forbids(path); got != want {
			t.Errorf("%s: got %v, want %v", path, got, want)
		}
	}
	if rule, no := ReadRobots([]byte(text), "other").Forbids("/any"); !no || rule != "disallow: /" {
		t.Errorf("other: got %q, %v", rule, no)
	}
}

// TestRobotsSpellings: a rule forbids a URL in any spelling of the two (RFC 9309, 2.2.2).
func TestRobotsSpellings(t *testing.T) {
	for _, c := range []struct {
		pattern, target string
		want            bool
	}{
		{"/a%62c", "/abc", true},
		{"/abc", "/%61bc", true},
		{"/caf\u00e9", "/caf%C3%A9", true},
		{"/caf%c3%a9", "/caf%C3%A9", true},
		{"/a%2fb", "/a%2Fb", true},
		{"/a%2Fb", "/a/b", false},
		{"/a/b", "/a%2Fb", false},
		{"/a b", "/a%20b", true},
		{"/a%2Ab", "/a*b", true},
		{"/a%2Ab", "/axb", false},
		{"/a*b", "/a*xb", true},
		{"/a%24", "/a$", true},
		{"/a%24", "/ab", false},
		{"/a$b", "/a$b", true},
		{"/a$b", "/a%24bc", true},
		{"/a$b$", "/a$bc", false},
		{"/a$", "/a%24", false},
		{"/100%", "/100%", true},
		{"/100%25", "/100%", false},
	} {
		r := ReadRobots([]byte("user-agent: *\ndisallow: "+c.pattern), "orbweaver")
		if _, got := r.Forbids(c.target); got != c.want {
			t.Errorf("%s by %s: got %v, want %v", c.target, c.pattern, got, c.want)
		}
	}
}

func TestRobotsNothing(t *testing.T) {
	for _, text := range []string{"", "x", "user-agent: *\ndisallow:\n", "user-agent: other\ndisallow: /\n",
		"disallow: /\n"} {
		r := ReadRobots([]byte(text), "orbweaver")
		if r != nil {
			t.Errorf("%q: got %+v, want nil", text, r)
		}
		if rule, no := r.Forbids("/"); no || rule != "" || r.CrawlDelay() != 0 {
			t.Errorf("%q: got %q, %v, %v", text, rule, no, r.CrawlDelay())
		}
	}
	// Rules beyond the limits have no effect.
	long := "user-agent: *\n" + strings.Repeat("#", RobotsBytes) + "\ndisallow: /\n"
	many := "user-agent: *\n" + strings.Repeat("disallow: /a\n", maxPathRules) + "disallow: /b\n"
	if _, no := ReadRobots([]byte(long), "orbweaver").Forbids("/"); no {
		t.Error("a rule behind 500 KiB has an effect")
	}
	if r := ReadRobots([]byte(many), "orbweaver"); len(r.rules) != maxPathRules {
		t.Errorf("got %d rules, want %d", len(r.rules), maxPathRules)
	}
}
