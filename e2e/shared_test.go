package e2e

import (
	"fmt"
	"path/filepath"
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
	dir := t.TempDir()
	addrs := []string{port(t), port(t), port(t)}
	var ps []*process
	for i, addr := range addrs {
		name := fmt.Sprintf("a%d", i+1)
		ps = append(ps, start(t, flags(t, web, filepath.Join(dir, name),
			append([]string{"--quiet", "--scope", "any", "--delay", delay.String(), "--ip-delay", delay.String(),
				"--name", name, "--listen", addr, "--join", addrs[0], "--agents", "3", "--api", "127.0.0.1:0"},
				seeds...)...)...))
	}
	pages := 0.0
	for i, p := range ps {
		home := filepath.Join(dir, fmt.Sprintf("a%d", i+1))
		if !ended(p, 3*time.Minute) {
			for k, p := range ps {
				home := filepath.Join(dir, fmt.Sprintf("a%d", k+1))
				t.Logf("a%d:\n%s\n%s", k+1, events(t, home), p.stuck(t, home, nil))
			}
			t.Fatalf("a%d does not end", i+1)
		}
		if code := p.code(); code != 0 {
			t.Errorf("a%d: exit code %d\n%s", i+1, code, tail(p.out.String()))
		}
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
