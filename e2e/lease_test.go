package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// sharingWeb returns a web with hosts of one registered domain, hosts at one address, and hosts
// that share nothing, of n pages each, and their seeds.
func sharingWeb(family, shared, plain, n int) (sites []testweb.Site, seeds []string) {
	add := func(host, addr string, n int) {
		tree := http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			i, err := strconv.Atoi(strings.Trim(req.URL.Path, "/"))
			if req.URL.Path == "/" {
				i, err = 0, nil
			}
			if err != nil || i >= n {
				http.NotFound(rw, req)
				return
			}
			rw.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprintf(rw, "<!doctype html><title>%s %d</title>\n", host, i)
			for k := 2*i + 1; k <= 2*i+2 && k < n; k++ {
				fmt.Fprintf(rw, "<a href=\"/%d\">%[1]d</a>\n", k)
			}
		})
		sites = append(sites, testweb.Site{Host: host, Addr: addr, Robots: "User-agent: *\nAllow: /\n", Handler: tree})
		seeds = append(seeds, "http://"+host+"/")
	}
	for i := range family {
		add(fmt.Sprintf("h%d.family.example", i), "", n)
	}
	for i := range shared {
		add(fmt.Sprintf("shared-%d.example", i), "127.77.0.1", n)
	}
	for i := range plain {
		add(fmt.Sprintf("www.plain-%d.example", i), "", 4*n)
	}
	return sites, seeds
}

const leaseDelay = 120 * time.Millisecond

func leasePromise() testweb.Promise {
	return testweb.Promise{HostDelay: leaseDelay, AddrDelay: leaseDelay / 4, SiteDelay: leaseDelay / 4}
}

// noSharedViolations is noViolations without the violations of single hosts.
func noSharedViolations(t *testing.T, web *testweb.Web) {
	t.Helper()
	web.WaitIdle(time.Minute)
	r := web.Report()
	if a, s := r.Gaps["address"], r.Gaps["site"]; a.TooShort > 0 || s.TooShort > 0 || a.Promised == 0 ||
		s.Promised == 0 {
		t.Errorf("gaps too short: %d of %d of addresses, %d of %d of sites", a.TooShort, a.Promised, s.TooShort,
			s.Promised)
	}
	for _, v := range r.Violations {
		if v.By != "host" {
			t.Errorf("%s", v)
		}
	}
}

// reaches waits until a number of pages was served.
func reaches(t *testing.T, web *testweb.Web, pages int64, p *process) {
	t.Helper()
	for began := time.Now(); web.Report().Pages < pages; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute || !p.lives(0) {
			t.Fatalf("%d pages of %d:\n%s", web.Report().Pages, pages, tail(p.out.String()))
		}
	}
}

// If an agent is stopped for longer than its leases last, it begins no fetch when it continues, not
// even for visits that were about to begin.
func TestLeasesStopped(t *testing.T) {
	weighs(t, 3)
	const pages = 80 // of each host that shares
	sites, seeds := sharingWeb(9, 9, 4, pages)
	web := serve(t, testweb.Config{Sites: sites, Promise: leasePromise()})
	ps, homes := together(t, web, 3, func(int) []string { return []string{"--seeds", seedFile(t, seeds)} }, "--delay",
		leaseDelay.String())
	reaches(t, web, 200, ps[0])
	must.Do(t, ps[1].cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(12 * time.Second) // the others have its leases after 8 s at most
	// Otherwise the agent would have nothing to fetch when it continues.
	for _, host := range []string{"h0.family.example", "shared-0.example"} {
		n := web.Report().Hosts[host].Pages
		t.Logf("%s: %d of %d pages after the pause", host, n, pages)
		if n >= pages {
			t.Errorf("all %d pages of %s were fetched during the pause", n, host)
		}
	}
	must.Do(t, ps[1].cmd.Process.Signal(syscall.SIGCONT))
	finished(t, ps, homes)
	noSharedViolations(t, web)
}
