package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

func TestPoliteness(t *testing.T) {
	weighs(t, 1)
	const pages, delay = 24, 120 * time.Millisecond
	sites := politeHosts(pages)
	web := serve(t, testweb.Config{Sites: sites, Promise: promise(delay)})
	dir := t.TempDir()
	crawl(context.Background(), t, politeFlags(t, web, dir, sites, delay)...).must(t, 0)
	noViolations(t, web)
	maxConcurrent(t, web)
	a := audit(t, dir)
	a.accepted(t)
	a.servedAlike(t, web)
	for _, u := range missingPages(web, sites, pages) {
		t.Errorf("%s was never answered", u)
	}
	r := web.Report()
	for _, host := range []string{"asks-429.example", "asks-503.example", "busy.example"} {
		if h := r.Hosts[host]; h.Status[429]+h.Status[503] == 0 {
			t.Errorf("%s never said that it is busy: %v", host, h.Status)
		}
	}
	for i := range 3 {
		host := "moved-" + string(rune('0'+i)) + ".example"
		if n := r.Hosts[host].Robots; n != 1 {
			t.Errorf("%s: robots.txt was fetched %d times", host, n)
		}
	}
	if a.sum.Denied == 0 {
		t.Error("nothing was denied by robots.txt")
	}
}
