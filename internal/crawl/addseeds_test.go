package crawl

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const seededWeb = `
delay 1s
seed http://a.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://a.example/ http://b.example/0 /1 /2 /3 /4 /5 /6 /7 /8 /9
http://b.example/ /1
`

// Seeds that are added to a running crawl are fetched, and their pages' links are in the extended scope. They survive a
// kill at the moment of the answer, without being given again. The answer names the seeds that are known or excluded.
func TestAddSeeds(t *testing.T) {
	for _, killed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &story{text: seededWeb}
			s.scope.Exclude = []string{"/never"}
			s.parse(t)
			s.scope.Scope = scope.Host
			w, cancel, end := s.start(t)
			time.Sleep(2500 * time.Millisecond) // after a.example/
			b := weburl.MustParse("http://b.example/")
			extend := func(w *world) {
				must(t, w.Amend(scope.Amendment{Seeds: []weburl.URL{b}}))
			}
			extend(w)
			never := weburl.MustParse("http://b.example/never")
			got, err := w.AddSeeds(t.Context(), []NewSeed{{URL: b}, {URL: weburl.MustParse("http://a.example/9")},
				{URL: never}, {URL: b}})
			if want := []SeedFate{SeedNew, SeedKnown, SeedExcluded, SeedKnown}; err != nil || !slices.Equal(got, want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
			if killed {
				left := w.kill(cancel)
				_, _ = end()
				_ = w.close()
				w = s.opened(t, left)
				extend(w)
				end = func() (Stop, error) { return w.Run(t.Context()) }
			}
			finished(t)(end())
			if got := s.asked("b.example"); !slices.Equal(got, []string{"http://b.example/robots.txt", b.String(),
				"http://b.example/1"}) {
				t.Errorf("of b.example: %v", got)
			}
			s.accounts(t, w)
			must(t, w.close())
		})
	}
}

// asked returns the URLs of a host that were requested, each once, in the order of the first request.
func (s *story) asked(host string) (urls []string) {
	for _, r := range s.web.Told() {
		if r.Host == host && !slices.Contains(urls, r.URL) {
			urls = append(urls, r.URL)
		}
	}
	return urls
}
