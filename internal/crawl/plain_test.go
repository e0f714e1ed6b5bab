package crawl_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// Whenever the process is killed, or the machine loses its power, a seed without a scheme leads to
// the http URL: it is fetched once, and with all delays.
func TestPlainOutlivesKills(t *testing.T) {
	for _, how := range []string{"kill", "crash"} {
		for at := time.Millisecond; at < 7*time.Second; at += sampled(331 * time.Millisecond) {
			synctest.Test(t, func(t *testing.T) {
				s := parsed(t, fmt.Sprintf(`
seed //a.example/
dns a.example 192.0.2.1
http://a.example/ /1
http://a.example/1
run %s %s
`, at, how))
				w := s.run(t)
				if _, failed := w.View.FailedSeeds(); w.stop != crawl.Finished || w.View.Pending() != 0 || failed != 0 {
					t.Errorf("%s at %s: stop %s, %d pending, %d failed seeds", how, at, w.stop, w.View.Pending(),
						failed)
				}
				if got := w.Tally.Finished(); got != 3 { // https://a.example/, http://a.example/ and its /1
					t.Errorf("%s at %s: %d URLs finished, want 3", how, at, got)
				}
				s.check(t, w)
				last, pages := time.Duration(-time.Hour), 0
				for _, r := range s.web.Told() {
					if r.At-last < 2*time.Second {
						t.Errorf("%s at %s: %s is requested %s after the request before", how, at, r.URL, r.At-last)
					}
					if last = r.At; r.URL == "http://a.example/1" {
						pages++
					}
				}
				if pages == 0 {
					t.Errorf("%s at %s: the page was not fetched:\n%s", how, at, s.web.Requests())
				}
				must.Do(t, w.close())
			})
		}
	}
}
