package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// promise returns the delays that a crawl with politeFlags(delay) keeps.
func promise(delay time.Duration) testweb.Promise {
	return testweb.Promise{HostDelay: delay, AddrDelay: delay / 4, SiteDelay: delay / 6, CrawlDelay: true}
}

// politeHosts are hosts that test politeness: hosts that fail, slow down or redirect, and hosts
// that share an address, a domain or a robots.txt.
func politeHosts(pages int) []testweb.Site {
	tree := func(host string, n int) testweb.Site { return testweb.Site{Host: host, Handler: site(host, n)} }
	with := func(s testweb.Site, change func(*testweb.Site)) testweb.Site { change(&s); return s }
	var sites []testweb.Site
	for i := range 4 {
		sites = append(sites, tree(fmt.Sprintf("plain-%d.example", i), pages))
	}
	for i := range 5 {
		sites = append(sites, with(tree(fmt.Sprintf("shared-%d.example", i), pages/3),
			func(s *testweb.Site) { s.Addr = "127.77.0.1" }))
	}
	for i := range 5 {
		sites = append(sites, tree(fmt.Sprintf("h%d.family.example", i), pages/3))
	}
	for i := range 3 {
		sites = append(sites, with(tree(fmt.Sprintf("moved-%d.example", i), pages/2), func(s *testweb.Site) {
			s.Robots = "User-agent: *\nDisallow: /private/\n" // the judge reads this robots.txt
			s.Rules = []testweb.Rule{{Path: "/robots.txt", Status: 301, Location: "http://central.example/robots.txt"}}
		}))
	}
	misbehaves := func(host string, n int, rules ...testweb.Rule) {
		sites = append(sites, with(tree(host, n), func(s *testweb.Site) { s.Rules = rules }))
	}
	// Each pause doubles; three pauses are enough.
	asks := func(status int, wait time.Duration) []testweb.Rule {
		return []testweb.Rule{
			{Path: "/2", First: 1, Status: status, RetryAfter: wait, Body: "slower"},
			{Path: "/private/1", First: 2, Status: status, RetryAfter: wait, Body: "slower"},
		}
	}
	misbehaves("asks-429.example", pages/2, asks(429, time.Second)...)
	misbehaves("asks-503.example", pages/2, asks(503, time.Second)...)
	misbehaves("busy.example", pages/2, asks(503, 0)...)
	misbehaves("busy-robots.example", pages/2,
		testweb.Rule{Path: "/robots.txt", First: 2, Status: 503, RetryAfter: time.Second})
	misbehaves("flapping.example", pages, testweb.Rule{Every: 3, Reset: true})
	misbehaves("empty.example", pages, testweb.Rule{Every: 4, Empty: true})
	misbehaves("gateway.example", pages/2, testweb.Rule{Every: 4, Status: 502})
	misbehaves("slow.example", pages/2, testweb.Rule{Every: 2, Wait: 300 * time.Millisecond})
	misbehaves("silent.example", pages/4, testweb.Rule{Path: "/3", First: 1, Hang: true})
	for i := range 3 {
		// A kill may come while the crawl fetches their robots.txt. Nothing on disk says then that
		// the crawl has asked them.
		misbehaves(fmt.Sprintf("sleepy-%d.example", i), pages/4,
			testweb.Rule{Path: "/robots.txt", First: 3, Wait: 600 * time.Millisecond})
	}
	for i := range 3 {
		// These pages link to the next of the three hosts, and to themselves.
		misbehaves(fmt.Sprintf("hop-%d.example", i), pages/2,
			testweb.Rule{Path: "/go/", Every: 2, Location: fmt.Sprintf("http://hop-%d.example/1", (i+1)%3)},
			testweb.Rule{Path: "/go/", Location: "/2"})
	}
	sites = append(sites,
		testweb.Site{Host: "central.example", Robots: "User-agent: *\nDisallow: /private/\n",
			Handler: site("central.example", pages)},
		testweb.Site{Host: "secret.example",
			Robots:  "User-agent: orbweaver\nDisallow: /private/\nDisallow: /*3$\n\nUser-agent: *\nAllow: /\n",
			Handler: site("secret.example", pages)},
		testweb.Site{Host: "patient.example", Robots: "User-agent: *\nCrawl-delay: 0.6\n",
			Handler: site("patient.example", pages/2)},
		testweb.Site{Host: "secure.example", Scheme: "https", Handler: site("secure.example", pages/2)},
		tree("both.example", pages),
	)
	return sites
}

// politeSeeds are the home pages of politeHosts.
func politeSeeds(sites []testweb.Site) []string {
	var seeds []string
	for _, s := range sites {
		seeds = append(seeds, "http://"+s.Host+"/")
	}
	return append(seeds, "https://both.example/")
}

// site is a binary tree of n pages, each with a link to itself over the other
// scheme, to a redirect and to a private page.
func site(host string, n int) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		i, err := strconv.Atoi(strings.Trim(req.URL.Path, "/"))
		switch {
		case req.URL.Path == "/":
			i = 0
		case err != nil || i >= n:
			http.NotFound(rw, req)
			return
		}
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(rw, "<!doctype html><title>%s %d</title>\n", host, i)
		for _, k := range []int{2*i + 1, 2*i + 2} {
			if k < n {
				fmt.Fprintf(rw, "<a href=\"/%d\">%[1]d</a>\n", k)
			}
		}
		fmt.Fprintf(rw, "<a href=\"/private/%d\">private</a>\n", i)
		if strings.HasPrefix(host, "hop-") {
			fmt.Fprintf(rw, "<a href=\"/go/%d\">go</a>\n", i)
		}
		if host == "both.example" && req.TLS == nil {
			fmt.Fprintf(rw, "<a href=\"https://both.example/%d\">securely</a>\n", i)
		}
	})
}

// politeFlags returns flags for a crawl of politeHosts that keeps promise(delay).
func politeFlags(t *testing.T, web *testweb.Web, dir string, sites []testweb.Site, delay time.Duration) []string {
	p := promise(delay)
	return flags(t, web, dir, "--seeds", seedFile(t, politeSeeds(sites)), "--delay", p.HostDelay.String(),
		"--ip-delay", p.AddrDelay.String(), "--site-delay", p.SiteDelay.String(), "--retries", "6", "--retry-wait",
		"250ms",
		"--slow-down", "300ms", "--timeout", "2s", "--max-time", "10s")
}

// maxConcurrent fails the test if a host had two requests or connections at the same time, and logs
// the shortest gaps.
func maxConcurrent(t *testing.T, web *testweb.Web) {
	t.Helper()
	r := web.Report()
	least := time.Hour
	for host, h := range r.Hosts {
		if h.MaxConcurrent > 1 || h.MaxConnections > 1 {
			t.Errorf("%s: %d requests and %d connections at once", host, h.MaxConcurrent, h.MaxConnections)
		}
		if h.MinGap >= 0 {
			least = min(least, time.Duration(h.MinGap))
		}
	}
	t.Logf("%d requests to %d hosts, shortest gap of a host %s, status %v", r.Requests, len(r.Hosts), least, r.Status)
}

// missingPages returns the pages that a whole crawl of sites would have fetched, and this crawl has
// not.
func missingPages(web *testweb.Web, sites []testweb.Site, pages int) []string {
	fetched := web.Fetched()
	var lost []string
	for _, s := range sites {
		scheme := "http"
		if s.Scheme != "" {
			scheme = s.Scheme
		}
		n := pages
		for _, part := range []struct {
			prefix string
			share  int
		}{{"shared-", 3}, {"h", 3}, {"moved-", 2}, {"asks-", 2}, {"busy", 2}, {"gateway", 2}, {"slow", 2},
			{"silent", 4}, {"sleepy-", 4}, {"hop-", 2}, {"patient", 2}, {"secure", 2}} {
			if strings.HasPrefix(s.Host, part.prefix) && (part.prefix != "h" || strings.Contains(s.Host, "family")) {
				n = pages / part.share
			}
		}
		if s.Host == "secret.example" {
			continue // a rule of robots.txt cuts its tree
		}
		for i := range n {
			u := scheme + "://" + s.Host + "/"
			if i > 0 {
				u += strconv.Itoa(i)
			}
			if fetched[u] == 0 {
				lost = append(lost, u)
			}
		}
	}
	slices.Sort(lost)
	return lost
}
