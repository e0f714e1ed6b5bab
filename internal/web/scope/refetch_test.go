package scope

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestRefetchesAreInScope: the agents fetch a page of a lost archive again at any depth, and by a link from any page.
// An excluded page stays excluded.
func TestRefetchesAreInScope(t *testing.T) {
	none := 0
	s := must.Get(New(Config{Depth: &none, HostDepth: &none, Exclude: []string{"/private"}, Include: []string{"/only"}},
		[]weburl.URL{weburl.MustParse("http://a.example/")}))(t)
	for url, want := range map[string]Reason{"http://a.example/deep": "", "http://cdn.example/embed.png": "",
		"http://a.example/private/x": Excluded} {
		l := link.Link{URL: weburl.MustParse(url), Hops: "I"}
		if v := s.Judge(l); v.In {
			t.Errorf("%s is in scope as a link", url)
		}
		l.SetRefetches(1)
		if v := s.Judge(l); v.Reason != want || v.In != (want == "") {
			t.Errorf("%s is fetched again: %+v, want %q", url, v, want)
		}
	}
}
