package scope

import (
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestRoot compares the limits of a Root with those of the same seed.
func TestRoot(t *testing.T) {
	parse := func(s string) weburl.URL {
		u := must.Get(weburl.Parse(s))(t)
		return u
	}
	urls := []weburl.URL{
		parse("http://a.example/"), parse("https://www.a.example/docs/x"), parse("http://a.example/docs/deep/y"),
		parse("http://a.example/docs"), parse("http://a.example:8080/docs/"), parse("http://b.a.example/docs/"),
		parse("http://ba.example/docs/"), parse("http://b.example/"), parse("http://[::1]/docs/"),
	}
	for _, kind := range []Kind{Host, Page, Prefix, Domain, Any} {
		empty := must.Get(New(Config{Scope: kind}, nil))(t)
		for _, seed := range urls {
			full := must.Get(New(Config{Scope: kind}, []weburl.URL{seed}))(t)
			for _, u := range urls {
				if kind == Page && u == seed {
					continue // the URL is known, so no link to it is judged
				}
				l := link.Link{URL: u, Via: seed.String(), Hops: "L", Seed: seed.Host()}
				want := full.Judge(l)
				l.SetApp("news", empty.Root(seed))
				got, slow := empty.Judge(l), empty.judgeByRules(l)
				if got != want || slow != want {
					t.Errorf("%v of %v: %v is %+v, by the rules %+v, want %+v", kind, seed, u, got, slow, want)
				}
			}
		}
	}
	s := must.Get(New(Config{Scope: Prefix}, nil))(t)
	if root := s.Root(parse("http://a.example/" + strings.Repeat("d/", link.MaxRoot/2))); root != "" {
		t.Errorf("a root of %d octets", len(root))
	}
}
