package scope

import (
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Parts of URLs and hops that the rules look at.
var judged = struct{ urls, hops []string }{
	[]string{
		"/", "/a", "/a", "/b", "//", "/2041/07/", "/2041-07-21", "/1969/12", "/calendar", "/2028/1", "/2029-01", "/12",
		"/x.html", "?", "?",
		"&", "=", "a=1", "&month=2041-07", "&year=2041", "&m=7", "&y=1950&m=3", "cal", "%2F", "/a/b/a/b/a/b/a/b/",
		"/docs/", "/1999", "/20", "=2041", "/20411/",
	},
	[]string{"L", "L", "L", "E", "R", "M", "P", "X", "I"},
}

// testScopes returns a Scope for each kind and several configurations.
func testScopes(t testing.TB) (all []*Scope) {
	for k := range kinds {
		for _, cfg := range []Config{
			{}, {Depth: depth(2)}, {Today: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), MaxQueryArgs: 2,
				MaxPathSegments: 4},
			{Today: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), MaxURLLength: 40, MaxRepeatedSegments: 1},
			{MaxRepeatedSegments: -1, MaxPathSegments: -1, MaxQueryArgs: -1, MaxURLLength: -1, Include: []string{"a"}},
			{Exclude: []string{"b"}, MaxRepeatedSegments: 2},
			{Accept: func(l link.Link) bool { return len(l.URL.String())%2 == 0 }},
			{Depth: depth(2), Sheets: sheets(t)}, {HostDepth: depth(1)},
		} {
			cfg.Scope = Kind(k)
			all = append(all, mustNew(t, cfg, "http://a.example/docs/", "https://www.b.co.uk:81/x/y"))
		}
	}
	return all
}

// sheets returns other limits for some hosts and paths.
func sheets(t testing.TB) *sheet.Live {
	t.Helper()
	setting := func(key, value string) []sheet.Setting { return []sheet.Setting{{Key: key, Values: []string{value}}} }
	tab := must.Get(sheet.New([]sheet.Entry{
		{Prefix: "*.a.example", Settings: setting("depth", "-1")},
		{Prefix: "a.example/docs/", Settings: setting("exclude", "b")},
		{Prefix: "*.b.co.uk", Settings: setting("include", "a")},
	}))(t)
	live := &sheet.Live{}
	live.Set(tab)
	return live
}

func TestFastPathAgreesWithRules(t *testing.T) {
	r := testseed.Rand(t)
	scopes := testScopes(t)
	plain, in := 0, 0
	for range 20_000 {
		raw := []string{"http://a.example", "https://www.a.example", "http://c.example", "http://x.b.co.uk",
			"http://b.co.uk:81"}[r.IntN(5)]
		for range r.IntN(8) {
			raw += judged.urls[r.IntN(len(judged.urls))]
		}
		var hops strings.Builder
		for range r.IntN(5) {
			hops.WriteString(judged.hops[r.IntN(len(judged.hops))])
		}
		u, err := weburl.Parse(raw)
		if err != nil {
			continue
		}
		l := link.Link{URL: u, Hops: hops.String(), Via: "http://a.example/docs/x"}
		l.SetHostDepth(r.IntN(4))
		if r.IntN(8) == 0 {
			l.SetSitemap(r.IntN(2) == 0)
		}
		s := scopes[r.IntN(len(scopes))]
		got, want := s.Judge(l), s.judgeByRules(l)
		if got != want {
			t.Fatalf("%s, hops %s, %+v: got %+v, the rules give %+v", u, l.Hops, s.cfg, got, want)
		}
		if want.In && l.Hops != "" {
			in++
			if _, ok := s.judgeFast(&l); ok {
				plain++
			}
		}
	}
	if plain < in/4 {
		t.Errorf("the fast path decides %d of %d links that are in, want at least a quarter", plain, in)
	}
}

func TestRepeatsAgreesWithRepeated(t *testing.T) {
	r := testseed.Rand(t)
	for range 50_000 {
		var path strings.Builder
		for range 1 + r.IntN(16) {
			path.WriteString([]string{"/", "/a", "/a", "/b", "/ab"}[r.IntN(5)])
		}
		for most := range 5 {
			if got, want := repeats(path.String(), most), repeated(path.String()) > most; got != want {
				t.Fatalf("%s, %d: got %v, want %v", path.String(), most, got, want)
			}
		}
	}
}
