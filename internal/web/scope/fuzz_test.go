package scope

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// FuzzJudge checks that any link with any hops and via gets a verdict without a panic, and that
// Explain agrees with it.
func FuzzJudge(f *testing.F) {
	f.Add("http://a.example/2041/07/x/x/x/x/?a&b", "LER", "http://a.example/")
	f.Add("http://[::1]//////?;&=", "EE", "x")
	scopes := make([]*Scope, len(kinds))
	for k := range scopes {
		scopes[k] = mustNew(f, Config{Scope: Kind(k), Exclude: []string{`x$`}, Include: []string{`a`}, Depth: depth(5)},
			"http://a.example/", "https://www.b.co.uk:81/x/y")
	}
	scopes = append(scopes, testScopes(f)...)
	f.Fuzz(func(t *testing.T, raw, hops, via string) {
		u, err := weburl.Parse(raw)
		if err != nil {
			return
		}
		l := link.Link{URL: u, Hops: hops, Via: via}
		for _, s := range scopes {
			v := s.Judge(l)
			if want := s.judgeByRules(l); v != want {
				t.Fatalf("%s: got %+v, the rules give %+v", u, v, want)
			}
			if v.In != (v.Reason == "") {
				t.Fatalf("%s: got %+v, want a reason only if the link is out", u, v)
			}
			lines := s.Explain(l)
			if want := "verdict: out, " + string(v.Reason); !v.In && lines[len(lines)-1] != want {
				t.Fatalf("%s: got lines %q, want last %q", u, lines, want)
			}
		}
	})
}
