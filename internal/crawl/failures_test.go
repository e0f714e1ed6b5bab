package crawl_test

import (
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A robots.txt may stand on another host that cannot be reached. The seeds of all hosts
// that redirect there name that host and the cause.
func TestFailedRobotsElsewhere(t *testing.T) {
	for _, c := range []struct{ name, web, want string }{
		{"overloaded", "dns c.example 93.184.216.3\nhttp://c.example/rules.txt 503", "status 503"},
		{"without an address", "dns c.example nxdomain", "dns: "},
		{"with a private address", "dns c.example 10.0.0.5", "refused-address: "},
		{"closed", "dns c.example 93.184.216.3\ndown 93.184.216.3 0s 999h", "dial tcp: connection refused"},
	} {
		bubble(t, c.name, func(t *testing.T) {
			s := parsed(t, `
seed http://a.example/
seed http://b.example/
dns a.example 93.184.216.1
dns b.example 93.184.216.2
http://a.example/robots.txt 301 to=http://c.example/rules.txt
http://b.example/robots.txt 301 to=http://c.example/rules.txt
`+c.web+"\n")
			s.cfg.Retries, s.fetch.AllowPrivate = -1, false
			w := s.opened(t, testdisk.NewMem())
			ran(t)(w.Run(t.Context()))
			failed, n := w.View.FailedSeeds()
			if n != 2 || len(failed) != 2 {
				t.Fatalf("%d seeds failed: %+v", n, failed)
			}
			for _, f := range failed {
				if want := "robots.txt on c.example: " + c.want; !strings.HasPrefix(f.Cause, want) {
					t.Errorf("%s: %q, want %q", f.URL, f.Cause, want)
				}
			}
			must.Do(t, w.close())
		})
	}
}
