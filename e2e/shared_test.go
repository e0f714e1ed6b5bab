package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// The robots.txt of the hosts of all agents redirects to one host, which one agent crawls. The
// agents ask this host one at a time, over one connection at a time, and with the delay of its
// address.
func TestClusterRobotsElsewhere(t *testing.T) {
	weighs(t, 3)
	const hosts, delay = 12, 60 * time.Millisecond
	sites := []testweb.Site{{Host: "central.example", Robots: "User-agent: *\nDisallow: /private/\n",
		Addr: "127.9.9.9"}}
	var seeds []string
	for i := range hosts {
		host := fmt.Sprintf("moved-%d.example", i)
		site := testweb.Site{Host: host, Handler: site(host, 6)}
		site.Robots = "User-agent: *\nDisallow: /private/\n" // the judge reads this robots.txt
		site.Rules = []testweb.Rule{{Path: "/robots.txt", Status: 301, Location: "http://central.example/robots.txt"}}
		sites, seeds = append(sites, site), append(seeds, "http://"+site.Host+"/")
	}
	web := serve(t, testweb.Config{Sites: sites,
		Promise: testweb.Promise{HostDelay: delay, AddrDelay: delay, SiteDelay: delay / 4}})
	ps, homes := together(t, web, 3, func(int) []string { return seeds }, "--scope", "any", "--delay", delay.String(),
		"--ip-delay", delay.String(), "--api", "127.0.0.1:0")
	finished(t, ps, homes)
	pages := 0.0
	for i, home := range homes {
		n := summary(t, home)["pages"].(float64)
		if n == 0 {
			t.Errorf("a%d has fetched nothing", i+1)
		}
		pages += n
	}
	noViolations(t, web)
	if pages < hosts {
		t.Errorf("%v pages of %d hosts", pages, hosts)
	}
	r := web.Report()
	t.Logf("%v pages; robots.txt of central.example: %d requests", pages, r.Hosts["central.example"].Requests)
	if r.Repeated > 0 {
		t.Errorf("%d answers repeated: %v", r.Repeated, r.Twice)
	}
}
