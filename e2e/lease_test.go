package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// sharingWeb has hosts of one registered domain, hosts at one address, and hosts
// that share nothing, of n pages each. Their seeds come with them.
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

// Crawls that know nothing of each other keep the quiet times of hosts, for each
// has hosts of its own, but not those of the addresses and domains that these
// share: the judge of the tests below sees it.
func TestSharedWithoutLeases(t *testing.T) {
	sites, seeds := sharingWeb(6, 6, 0, 20)
	web := serve(t, testweb.Config{Sites: sites, Promise: leasePromise()})
	dir := t.TempDir()
	halves := make([][]string, 2)
	for i, s := range seeds {
		halves[i%2] = append(halves[i%2], s)
	}
	var ps []*process
	for i, half := range halves {
		ps = append(ps, start(t, flags(t, web, filepath.Join(dir, fmt.Sprint(i)), "--quiet", "--delay",
			leaseDelay.String(), "--seeds", seedFile(t, half))...))
	}
	for _, p := range ps {
		if code := p.code(); code != 0 {
			t.Fatalf("exit code %d\n%s", code, tail(p.out.String()))
		}
	}
	r := web.Report()
	if h, a, s := r.Gaps["host"], r.Gaps["address"], r.Gaps["site"]; h.TooShort > 0 || a.TooShort == 0 ||
		s.TooShort == 0 {
		t.Errorf("gaps too short: %d of hosts, %d of addresses, %d of sites; want none, some, some", h.TooShort,
			a.TooShort, s.TooShort)
	}
}

// leased starts agents that crawl a web together.
func leased(t *testing.T, web *testweb.Web, dir string, seeds []string, agents int,
	more ...string) (ps []*process, homes []string) {
	var addrs []string
	for range agents {
		addrs = append(addrs, port(t))
	}
	for i := range agents {
		name := fmt.Sprintf("a%d", i+1)
		homes = append(homes, filepath.Join(dir, name))
		args := flags(t, web, homes[i], "--quiet", "--delay", leaseDelay.String(), "--seeds", seedFile(t, seeds),
			"--name", name, "--listen", addrs[i], "--join", addrs[0], "--agents", fmt.Sprint(agents))
		ps = append(ps, start(t, append(args, more...)...))
	}
	return ps, homes
}

// Hosts of one domain and hosts at one address live on three agents, and the
// quiet times of the domain and of the address hold all the same, for less than
// a message for ten pages. Agents that begin together wait for nobody.
func TestLeases(t *testing.T) {
	sites, seeds := sharingWeb(9, 9, 30, 35)
	web := serve(t, testweb.Config{Sites: sites, Promise: leasePromise()})
	began := time.Now()
	ps, homes := leased(t, web, t.TempDir(), seeds, 3)
	var pages, messages, asked float64
	sharing := 0
	for i, p := range ps {
		if !ended(p, 3*time.Minute) {
			t.Fatalf("%s does not end:\n%s\n%s", homes[i], tail(p.out.String()), events(t, homes[i]))
		}
		if code := p.code(); code != 0 {
			t.Fatalf("%s: exit code %d\n%s", homes[i], code, tail(p.out.String()))
		}
		if !strings.Contains(events(t, homes[i]), `"together":true`) {
			t.Errorf("%s did not begin with the others:\n%s", homes[i], events(t, homes[i]))
		}
		sum := summary(t, homes[i])
		pages += sum["pages"].(float64)
		cost := sum["leases"].(map[string]any)
		messages += cost["messages"].(float64)
		asked += cost["asked"].(float64)
		if cut := cost["cut_off"].(float64); cut > 0 {
			t.Errorf("%s: %v visits cut off", homes[i], cut)
		}
		family, shared := false, false
		for u := range indexed(t, homes[i]) {
			family = family || strings.Contains(u, ".family.example")
			shared = shared || strings.Contains(u, "//shared-")
		}
		if family && shared {
			sharing++
		}
	}
	noViolations(t, web)
	r := web.Report()
	want := 0
	for i := range sites {
		if want += 35; i >= 18 {
			want += 3 * 35
		}
	}
	if int(pages) != want || r.Repeated > 0 {
		t.Errorf("%v pages, %d repeated; want %d", pages, r.Repeated, want)
	}
	if a, s := r.Gaps["address"], r.Gaps["site"]; a.Promised == 0 || s.Promised == 0 || sharing < 2 {
		t.Errorf("nothing was shared: %d gaps of addresses, %d of sites, %d agents", a.Promised, s.Promised, sharing)
	}
	if messages == 0 || messages > pages/10 {
		t.Errorf("%v messages for %v pages; want at most one for ten", messages, pages)
	}
	t.Logf("%v pages in %v, %v messages (%.3f a page), %v points asked for", pages,
		time.Since(began).Round(time.Second), messages, messages/pages, asked)
}

// When an agent is killed, the others get the addresses and domains that it had
// after its term, and not before.
func TestLeasesKilled(t *testing.T) {
	sites, seeds := sharingWeb(9, 9, 6, 60)
	web := serve(t, testweb.Config{Sites: sites, Promise: leasePromise()})
	ps, homes := leased(t, web, t.TempDir(), seeds, 3)
	reaches(t, web, 300, ps[0])
	at, killed := ps[1].kill()
	if !killed {
		t.Fatal("it had ended before")
	}
	for _, i := range []int{0, 2} {
		if !ended(ps[i], 4*time.Minute) {
			t.Fatalf("%s does not end:\n%s\n%s", homes[i], tail(ps[i].out.String()), events(t, homes[i]))
		}
		if code := ps[i].code(); code != 0 {
			t.Fatalf("%s: exit code %d\n%s", homes[i], code, tail(ps[i].out.String()))
		}
		if sum := summary(t, homes[i]); sum["urls_queued"].(float64) != 0 || sum["stop_reason"] != "finished" {
			t.Errorf("%s: %v URLs left, %v", homes[i], sum["urls_queued"], sum["stop_reason"])
		}
	}
	noViolations(t, web)
	later := map[string]int{}
	for _, e := range web.Log() {
		if e.Began.After(at.Add(10 * time.Second)) {
			switch {
			case strings.Contains(e.URL, ".family.example/"):
				later["domain"]++
			case strings.Contains(e.URL, "//shared-"):
				later["address"]++
			}
		}
	}
	if later["domain"] == 0 || later["address"] == 0 {
		t.Errorf("requests 10 s after the kill: %v; want some of both", later)
	}
}

// noSharedViolations is noViolations without those of hosts.
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

// reaches waits until so many pages were answered.
func reaches(t *testing.T, web *testweb.Web, pages int64, p *process) {
	t.Helper()
	for began := time.Now(); web.Report().Pages < pages; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute || !p.lives(0) {
			t.Fatalf("%d pages of %d:\n%s", web.Report().Pages, pages, tail(p.out.String()))
		}
	}
}

// An agent that comes later waits for what was used before it, and takes nothing
// from under the others' hands.
func TestLeasesLate(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute")
	}
	sites, seeds := sharingWeb(8, 8, 4, 80)
	web := serve(t, testweb.Config{Sites: sites, Promise: leasePromise()})
	dir := t.TempDir()
	ps, homes := leased(t, web, dir, seeds, 2)
	reaches(t, web, 200, ps[0])
	late := filepath.Join(dir, "late")
	join := identityOf(t, ps[0])
	p := start(t, flags(t, web, late, "--quiet", "--delay", leaseDelay.String(), "--seeds", seedFile(t, seeds),
		"--name", "a9", "--listen", port(t), "--join", join)...)
	ps, homes = append(ps, p), append(homes, late)
	for i, p := range ps {
		if !ended(p, 4*time.Minute) {
			t.Fatalf("%s does not end:\n%s\n%s", homes[i], tail(p.out.String()), events(t, homes[i]))
		}
		if code := p.code(); code != 0 {
			t.Fatalf("%s: exit code %d\n%s", homes[i], code, tail(p.out.String()))
		}
		if want := fmt.Sprintf(`"together":%v`, i < 2); !strings.Contains(events(t, homes[i]), want) {
			t.Errorf("%s: want %s in\n%s", homes[i], want, events(t, homes[i]))
		}
	}
	noSharedViolations(t, web)
}

// identityOf is where an agent listens.
func identityOf(t *testing.T, p *process) string {
	t.Helper()
	for i, a := range p.cmd.Args {
		if a == "--listen" {
			return p.cmd.Args[i+1]
		}
	}
	t.Fatal("it listens nowhere")
	return ""
}

// An agent that is stopped for longer than its leases last begins nothing when
// it goes on, although the visits that it was about to begin know of nothing.
func TestLeasesStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute")
	}
	sites, seeds := sharingWeb(9, 9, 4, 80)
	web := serve(t, testweb.Config{Sites: sites, Promise: leasePromise()})
	ps, homes := leased(t, web, t.TempDir(), seeds, 3)
	reaches(t, web, 200, ps[0])
	for range 2 {
		if err := ps[1].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(22 * time.Second)
		if err := ps[1].cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if !ps[1].lives(8 * time.Second) {
			break
		}
	}
	for i, p := range ps {
		if !ended(p, 4*time.Minute) {
			t.Fatalf("%s does not end:\n%s\n%s", homes[i], tail(p.out.String()), events(t, homes[i]))
		}
		if code := p.code(); code != 0 {
			t.Fatalf("%s: exit code %d\n%s", homes[i], code, tail(p.out.String()))
		}
		t.Logf("%s: %v", homes[i], summary(t, homes[i])["leases"])
	}
	noSharedViolations(t, web)
}
