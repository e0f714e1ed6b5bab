package scope

import (
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Seeds of an Amendment extend the scope like those of New, in each kind, until another Amendment is in force.
func TestAmendSeeds(t *testing.T) {
	urls := []string{"http://b.example/docs/x", "http://www.b.example/docs/y", "http://b.example/z",
		"http://sub.b.example/", "http://c.example/"}
	for kind, in := range map[Kind][]bool{
		Host: {true, true, true, false, false}, Page: {true, false, false, false, false},
		Prefix: {true, true, false, false, false}, Domain: {true, true, true, true, false},
		Any: {true, true, true, true, true},
	} {
		s := mustNew(t, Config{Scope: kind}, "http://a.example/")
		judge := func() (got []bool) {
			for _, u := range urls {
				l := link.Link{URL: weburl.MustParse(u), Hops: "L", Via: "http://a.example/"}
				v := s.Judge(l)
				if want := s.judgeByRules(l); v != want {
					t.Errorf("%s %s: %v, the rules give %v", kind, u, v, want)
				}
				got = append(got, v.In)
			}
			return got
		}
		before := judge()
		seed := weburl.MustParse(urls[0])
		got := s.Widens([]weburl.URL{seed, seed, weburl.MustParse("http://a.example/")})
		if want := kind != Any; got[0] != want || got[1] || got[2] {
			t.Errorf("%s: widens: %v, want %v for the first alone", kind, got, want)
		}
		must.Do(t, s.Amend(Amendment{Seeds: []weburl.URL{seed}}))
		if got := judge(); !slices.Equal(got, in) {
			t.Errorf("%s: amended: %v, want %v", kind, got, in)
		}
		text := strings.Join(s.Explain(link.Link{URL: seed, Hops: "L"}), "\n")
		if kind == Host && !strings.Contains(text, "the seeds have a.example, b.example") {
			t.Errorf("%s: %s", kind, text)
		}
		must.Do(t, s.Amend(Amendment{}))
		if got := judge(); !slices.Equal(got, before) {
			t.Errorf("%s: taken back: %v, want %v", kind, got, before)
		}
	}
}
