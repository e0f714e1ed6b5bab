package gen

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// forbidden returns the line of a robots.txt that forbids a path to a crawler that the file does not name. It parses
// the file in the simplest way: the longest rule that is a prefix wins (RFC 9309, 2.2.2).
func forbidden(text, path string) (rule string) {
	groups := false // the current group is for all crawlers
	names := false
	best := -1
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "User-agent":
			groups = value == "*" || names && groups
			names = true
			continue
		case "Allow", "Disallow":
			if groups && value != "" && strings.HasPrefix(path, value) && len(value) > best {
				best, rule = len(value), ""
				if key == "Disallow" {
					rule = strings.TrimSpace(line)
				}
			}
		}
		names = false
	}
	return rule
}

// TestRobotsSaysWhatIsDenied: the text of robots.txt and the Reply agree.
func TestRobotsSaysWhatIsDenied(t *testing.T) {
	s := smallWild(8)
	s.ClosedHosts, s.Denied, s.PageBytes, s.Links = 0.1, 0.2, 1, 20
	w := newWeb(t, s)
	denied, none := 0, 0
	for h := range w.Hosts() {
		if w.death(h) != alive {
			continue
		}
		out, r := w.Answer(nil, testweb.Query{Host: h, Target: "/robots.txt", Secure: true})
		text := string(out[r.HeadLen:])
		if r.Denied || r.Status != 200 && r.Status != 404 {
			t.Fatalf("robots.txt of host %d: %+v", h, r)
		}
		if r.Status == 404 {
			text = ""
			none++
		}
		if d := w.Host(h).CrawlDelay; (d > 0) != strings.Contains(text, "Crawl-delay: 2\n") {
			t.Errorf("host %d: delay %s, robots.txt %q", h, d, text)
		}
		targets := []string{"/private/x", "/calendar/2026/01/", "/private", "/go/0-0-1"}
		for p := range min(w.Pages(h), 10) {
			targets = append(targets, w.Target(h, p))
		}
		for _, target := range targets {
			_, r := w.Answer(out[:0:0], testweb.Query{Host: h, Target: target, Secure: true})
			if want := forbidden(text, target); r.Rule != want || r.Denied != (want != "") {
				t.Fatalf("host %d, %s: rule %q, want %q of\n%s", h, target, r.Rule, want, text)
			}
			if r.Denied && r.Page > 0 {
				denied++
			}
		}
	}
	if denied < 100 || none < 50 {
		t.Errorf("got %d denied pages and %d hosts without robots.txt, want at least 100 and 50", denied, none)
	}
	if rule, ok := w.denies(0, "/%70riv%61te/x"); w.hasRobots(0) && (!ok || rule != denyPrivate) {
		t.Errorf("an escaped path is denied by %q, want %q", rule, denyPrivate)
	}
}

func TestSitemapsHaveAllPages(t *testing.T) {
	s := Spec{Hosts: 60, PagesMean: 8000, MaxPages: 400_000, Sitemaps: 0.8, Secure: 0.5}
	w := newWeb(t, s)
	largest := int64(0)
	for h := range w.Hosts() {
		if !w.trait(h, traitSitemap, w.fates.sitemap) {
			continue
		}
		largest = max(largest, w.Pages(h))
		locs := func(target string) (list []string) {
			out, r := w.Answer(nil, testweb.Query{Host: h, Target: target, Secure: true})
			if r.Status != 200 || r.Page != -1 {
				t.Fatalf("%s: %+v", target, r)
			}
			for line := range strings.Lines(string(out[r.HeadLen:])) {
				if _, rest, ok := strings.Cut(line, "<loc>"); ok {
					loc, _, _ := strings.Cut(rest, "</loc>")
					list = append(list, loc)
				}
			}
			return list
		}
		found := locs("/sitemap.xml")
		if w.Pages(h) > maxSitemap {
			parts := found
			found = nil
			for _, p := range parts {
				_, path, _ := strings.Cut(p, ".example")
				list := locs(path)
				if len(list) > maxSitemap {
					t.Errorf("%s: got %d URLs, want at most %d", p, len(list), maxSitemap)
				}
				found = append(found, list...)
			}
		}
		if int64(len(found)) != w.Pages(h) {
			t.Fatalf("host %d: %d URLs in sitemaps, want %d", h, len(found), w.Pages(h))
		}
		for _, p := range []int64{0, w.Pages(h) / 2, w.Pages(h) - 1} {
			if !slices.Contains(found, w.URL(h, p)) {
				t.Errorf("%s is in no sitemap", w.URL(h, p))
			}
		}
	}
	if largest <= maxSitemap {
		t.Errorf("the largest host has %d pages: no index was tested", largest)
	}
}

// TestTrapsHaveNoEnd: each page of a trap has a link that leads deeper, and no link out of the trap.
func TestTrapsHaveNoEnd(t *testing.T) {
	w := newWeb(t, Spec{Hosts: 10, Traps: 1})
	for _, target := range []string{"/calendar/2026/01/", "/catalog?sid=000000000000&p=1", "/list/"} {
		last := 0
		for range 200 {
			out, r := w.Answer(nil, testweb.Query{Target: target})
			if r.Status != 200 || r.Page != -1 || r.Trap != last+1 {
				t.Fatalf("%s: %+v, want depth %d", target, r, last+1)
			}
			last = r.Trap
			list := hrefs(t, out[r.HeadLen:])
			for _, ref := range list {
				if trap := strings.HasPrefix(ref, "all/") || strings.HasPrefix(ref, "new/") ||
					strings.HasPrefix(ref, calendarDir) || strings.HasPrefix(ref, sessionPath); !trap {
					t.Fatalf("%s links to %s, out of the trap", target, ref)
				}
			}
			next := list[len(list)-1]
			if !strings.HasPrefix(next, "/") {
				next = target + next
			}
			target = next
		}
	}
}

// TestFaultsAreAsSaid: temporary faults end after retries, and each fault has its place in the response.
func TestFaultsAreAsSaid(t *testing.T) {
	s := smallWild(9)
	s.Failing, s.Busy, s.Slow, s.Hanging, s.Resetting, s.Truncated = 0.05, 0.05, 0.05, 0.05, 0.05, 0.05
	s.Hosts, s.PageBytes, s.Links = 1000, 1, 20
	w := newWeb(t, s)
	seen := map[string]int{}
	for h := range w.Hosts() / 2 {
		for p := range min(w.Pages(h), 30) {
			target := w.Target(h, p)
			status := [4]int{}
			var r testweb.Reply
			var out []byte
			for n := range status {
				out, r = w.Answer(out[:0], testweb.Query{Host: h, Target: target, Secure: true, Answered: n})
				status[n] = r.Status
			}
			f := w.fate(h, p)
			ok := status == [4]int{200, 200, 200, 200}
			switch f {
			case failing:
				ok = status[0] == 503 && status[2] == 200 && status[3] == 200
			case busy:
				ok = status == [4]int{429, 200, 200, 200}
			case gone:
				ok = status == [4]int{410, 410, 410, 410}
			case broken:
				ok = status == [4]int{500, 500, 500, 500}
			case slow:
				ok = ok && r.Wait >= 200*time.Millisecond && r.Pace > 0
			case hanging:
				ok = r.Fault == testweb.HangAfter && r.Cut < len(out)
			case resetting:
				ok = r.Fault == testweb.ResetAfter && r.Cut < len(out)
			case truncated:
				ok = r.Fault == testweb.CloseAfter && r.Cut < len(out)
			}
			if !ok || (r.Page == p) == f.lasting() || (r.Fault != testweb.NoFault) != (f >= hanging) {
				t.Fatalf("fate %d: %v, %+v of %d bytes", f, status, r, len(out))
			}
			seen[fmt.Sprint(f)]++
		}
	}
	if len(seen) != int(numFates) {
		t.Errorf("fates seen: %v, want all", seen)
	}
}

// TestSecureHostsRedirect: hosts on HTTPS redirect every HTTP request to HTTPS.
func TestSecureHostsRedirect(t *testing.T) {
	w := newWeb(t, Spec{Hosts: 100, Secure: 0.5, PageBytes: 1})
	moved := 0
	for h := range w.Hosts() {
		target := w.Target(h, w.Pages(h)-1)
		out, r := w.Answer(nil, testweb.Query{Host: h, Target: target})
		name, _ := w.Name(h)
		if r.Status == 301 {
			moved++
			if to := header(out, "Location"); to != "https://"+name+target || to != w.URL(h, w.Pages(h)-1) {
				t.Errorf("%s%s moves to %s", name, target, to)
			}
		} else if r.Page < 0 {
			t.Errorf("%s%s: %+v", name, target, r)
		}
	}
	if moved < 30 || moved > 70 {
		t.Errorf("%d of 100 hosts are on HTTPS, want 30 to 70", moved)
	}
}

// TestWrongCertificatesAreNeeded: a host with a wrong certificate does not serve its pages over HTTP, whether or not
// other hosts are on HTTPS.
func TestWrongCertificatesAreNeeded(t *testing.T) {
	for _, share := range []float64{0, 0.3} {
		w := newWeb(t, Spec{Hosts: 200, PagesMean: 3, PageBytes: 1, DeadHosts: 0.5, Secure: share})
		met := 0
		for h := range w.Hosts() {
			if w.death(h) != badCertificate {
				continue
			}
			met++
			out, r := w.Answer(nil, testweb.Query{Host: h, Target: "/"})
			to := header(out, "Location")
			if r.Status != 301 || r.Page != -1 || to != w.URL(h, 0) || !strings.HasPrefix(to, "https:") {
				t.Errorf("secure %g: %s over HTTP: %+v, to %q", share, w.URL(h, 0), r, to)
			}
		}
		if met < 5 {
			t.Errorf("secure %g: only %d hosts with a wrong certificate, want at least 5", share, met)
		}
	}
}

// TestManyAtOnce: goroutines that make the same blocks at once get the same pages.
func TestManyAtOnce(t *testing.T) {
	spec := Spec{Hosts: 100, Topics: 3, Languages: 2}
	want, w := newWeb(t, spec), newWeb(t, spec)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var a, b []byte
			for i := range 100 {
				q := testweb.Query{
					Host: int64(i), Target: w.Target(int64(i), w.Pages(int64(i))-1), Gzip: (i+g)%2 == 0,
				}
				a, _ = w.Answer(a[:0], q)
				b, _ = want.Answer(b[:0], q)
				if string(a) != string(b) {
					t.Errorf("host %d: two webs of one Spec give different answers", i)
				}
			}
		})
	}
	wg.Wait()
}

func TestURLsAreOrdinaryPages(t *testing.T) {
	w := newWeb(t, smallWild(1))
	n := 0
	for u := range w.URLs(500, 7) {
		n++
		name, target, _ := strings.Cut(strings.TrimPrefix(u, "http://"), "/")
		h, ok := w.Find(name)
		if !ok {
			t.Fatalf("%s: there is no such host", u)
		}
		_, r := w.Answer(nil, testweb.Query{Host: h, Target: "/" + target})
		if r.Status != 200 || r.Page < 0 || r.Denied || r.Fault != testweb.NoFault {
			t.Errorf("%s: %+v", u, r)
		}
	}
	if n != 500 {
		t.Errorf("%d URLs, want 500", n)
	}
	for u := range w.URLs(5, 7) { // the loop may end early
		if u == "" {
			t.Error("an empty URL")
		}
		break
	}
}
