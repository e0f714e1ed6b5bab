package e2e

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// An agent that goes in good order, to come back or for good, gives its leases of
// domains back and tells the others what it knows of those that it granted.
func TestLeasesLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute")
	}
	for _, forGood := range []bool{false, true} {
		t.Run(fmt.Sprintf("for-good=%v", forGood), func(t *testing.T) {
			const domains, each = 24, 3
			var sites []testweb.Site
			var seeds []string
			for d := range domains {
				family, homes := sharingWeb(each, 0, 0, 40)
				for i := range family {
					family[i].Host = strings.Replace(family[i].Host, "family", fmt.Sprintf("family-%d", d), 1)
					seeds = append(seeds, strings.Replace(homes[i], "family", fmt.Sprintf("family-%d", d), 1))
				}
				sites = append(sites, family...)
			}
			web := serve(t, testweb.Config{Sites: sites, Promise: leasePromise()})
			ps, homes := leased(t, web, t.TempDir(), seeds, 3, "--api", "127.0.0.1:0")
			reaches(t, web, 400, ps[0])
			began, stop := time.Now(), 11
			if forGood {
				stop = 0
				crawl(context.Background(), t, "ctl", "--dir", homes[1], "leave").must(t, 0)
			} else {
				ps[1].cmd.Process.Signal(syscall.SIGTERM)
			}
			for i, p := range ps {
				if !ended(p, 4*time.Minute) {
					t.Fatalf("%s does not end:\n%s\n%s", homes[i], tail(p.out.String()), events(t, homes[i]))
				}
				want := 0
				if i == 1 {
					want = stop
				}
				if code := p.code(); code != want {
					t.Fatalf("%s: exit code %d\n%s", homes[i], code, tail(p.out.String()))
				}
			}
			noViolations(t, web)
			for _, kind := range []string{"leases-retired", "leases-left"} {
				said := eventsOf(t, homes[1], kind)
				if kind == "leases-retired" && !forGood {
					continue // in one with the other
				}
				if len(said) != 1 || said[0]["told"] != true {
					t.Errorf("%s: %v", kind, said)
				}
				t.Logf("%v", said)
			}
			// How long a domain rested that had pages left.
			last, longest, which := map[string]time.Time{}, time.Duration(0), ""
			for _, e := range web.Log() {
				u, err := url.Parse(e.URL)
				if err != nil {
					t.Fatal(err)
				}
				domain := u.Host[strings.Index(u.Host, ".")+1:]
				if was, ok := last[domain]; ok && e.Began.After(began) && e.Began.Sub(was) > longest {
					longest, which = e.Began.Sub(was), domain
				}
				last[domain] = e.Ended
			}
			t.Logf("%d domains; the longest that one was not asked after the leave was %v, %s", len(last),
				longest.Round(time.Millisecond), which)
		})
	}
}
