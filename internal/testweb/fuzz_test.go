package testweb

import (
	"strings"
	"testing"
)

func FuzzRobotsRules(f *testing.F) {
	f.Add("User-agent: *\nDisallow: /a*b$\nAllow: /\nCrawl-delay: 2\n", "/axxb")
	f.Add("\ufeffuser-agent:orbweaver\r\rdisallow:*\n", "/?q")
	f.Add("user-agent: *\ndisallow: /%2a%24$x$\n", "/*%24$x")
	f.Fuzz(func(t *testing.T, text, path string) {
		r := ReadRobots([]byte(text), "orbweaver")
		rule, no := r.Forbids(path)
		if no && !strings.HasPrefix(rule, "disallow: ") || r.CrawlDelay() < 0 {
			t.Errorf("got %q, %v, delay %v", rule, no, r.CrawlDelay())
		}
		if no && len(r.rules) == 0 {
			t.Error("forbidden, although there are no rules")
		}
	})
}

func FuzzFolderPath(f *testing.F) {
	for _, s := range []string{"a/../b", "..", "a/./b", "%2e%2e/", "x\\..\\y", "a//b", ".well-known/x", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		got, ok := clean(p)
		if !ok {
			return
		}
		for part := range strings.SplitSeq(got, "/") {
			if part == ".." || part == "." || strings.ContainsRune(part, 0) {
				t.Errorf("%q: got %q", p, got)
			}
		}
	})
}
