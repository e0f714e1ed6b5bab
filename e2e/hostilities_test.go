package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// hostile has the ends of all hostile pages that do not end as a plain 200. Pages that fail for a
// temporary reason were visited twice.
var hostile = map[string]end{
	// These are too long: they are cut, and marked as cut.
	"/endless":           ends(200, "truncated:length"),
	"/endless-chunks":    ends(200, "truncated:length"),
	"/endless-length":    ends(200, "truncated:length"),
	"/links-many":        ends(200, "truncated:length"),
	"/endless-trailer":   ends(200, "broken-chunk", "truncated:disconnect"),
	"/endless-extension": ends(200, "broken-chunk", "truncated:disconnect"),
	"/endless-header":    ends(report.CodeBroken, "error:header-too-large"),
	"/endless-line":      ends(report.CodeBroken, "error:header-too-large"),
	"/header-flood":      ends(report.CodeBroken, "error:header-too-large"),
	"/header-long":       ends(report.CodeBroken, "error:header-too-large"),
	"/endless-continue":  ends(report.CodeBroken, "error:bad-response"),
	"/bomb-gzip":         ends(200, "truncated:length", "links-cut"),
	"/bomb-deflate":      ends(200, "truncated:length", "links-cut"),
	"/bomb-brotli":       ends(200, "links-cut"),
	"/bomb-zstd":         ends(200, "links-cut"),
	// These are too slow.
	"/drip":        ends(200, "timeout-total", "truncated:time"),
	"/hang-body":   ends(200, "timeout-idle", "truncated:time"),
	"/drip-header": ends(report.CodeTooManyRetries, "2t", "error:timeout-total"),
	"/hang":        ends(report.CodeTooManyRetries, "2t", "error:timeout-first-byte"),
	"/hang-header": ends(report.CodeTooManyRetries, "2t", "error:timeout-idle"),
	// These connections end early.
	"/reset":         ends(report.CodeTooManyRetries, "2t", "error:broken"),
	"/empty":         ends(report.CodeTooManyRetries, "2t", "error:broken"),
	"/header-cut":    ends(report.CodeTooManyRetries, "2t", "error:broken"),
	"/reset-body":    ends(200, "reset", "truncated:disconnect"),
	"/length-long":   ends(200, "early-close", "truncated:disconnect"),
	"/chunk-cut":     ends(200, "early-close", "truncated:disconnect"),
	"/chunk-unended": ends(200, "early-close", "truncated:disconnect"),
	// These have wrong framing.
	"/length-short":    ends(200, "excess-bytes"),
	"/pipelined":       ends(200, "excess-bytes"),
	"/length-negative": ends(200, "bad-content-length"),
	"/length-words":    ends(200, "bad-content-length"),
	"/length-overflow": ends(200, "bad-content-length"),
	"/length-two":      ends(200, "bad-content-length"),
	"/chunk-words":     ends(200, "broken-chunk", "truncated:disconnect"),
	"/chunk-overflow":  ends(200, "broken-chunk", "truncated:disconnect"),
	"/chunk-huge":      ends(200, "broken-chunk", "truncated:disconnect"),
	"/chunk-negative":  ends(200, "broken-chunk", "truncated:disconnect"),
	"/chunk-short":     ends(200, "broken-chunk", "truncated:disconnect"),
	"/encoding-lie":    ends(200, "bad-encoding"),
	"/encoding-many":   ends(200, "bad-encoding"),
	// These are not HTTP.
	"/http09":       ends(report.CodeBroken, "error:bad-response"),
	"/garbage":      ends(report.CodeBroken, "error:bad-response"),
	"/status-words": ends(report.CodeBroken, "error:bad-response"),
	"/status-four":  ends(report.CodeBroken, "error:bad-response"),
	"/status-000":   ends(report.CodeBroken, "error:bad-response"),
	"/status-icy":   ends(report.CodeBroken, "error:bad-response"),
	// These send what the crawl did not ask for.
	"/status-101": ends(101), "/status-204": ends(204, "excess-bytes"), "/status-205": ends(205),
	"/status-206": ends(206), "/status-304": ends(304), "/status-407": ends(407), "/status-999": ends(999),
	// These are redirects.
	"/redirect-self": ends(302), "/redirect-there": ends(302), "/redirect-back": ends(302),
	"/redirect-chain": ends(302),
	"/redirect-grow":  ends(302), "/redirect-empty": ends(302), "/redirect-none": ends(301), "/redirect-two": ends(302),
	"/redirect-private": ends(302), "/redirect-loopback": ends(302), "/redirect-bytes": ends(302),
	"/redirect-split":  ends(302),
	"/redirect-bad":    ends(302, "bad-redirect"),
	"/redirect-file":   ends(302, "bad-redirect"),
	"/redirect-script": ends(302, "bad-redirect"),
}

// hostileHosts has the ends of the home pages of faulty hosts.
var hostileHosts = map[string]end{
	"https://self-signed.example/": ends(report.CodeConnect, "error:tls"),
	"https://expired.example/":     ends(report.CodeConnect, "error:tls"),
	"https://wrong-name.example/":  ends(report.CodeConnect, "error:tls"),
	// The cause may be temporary.
	"https://cut-tls.example/":         ends(report.CodeRobotsUnfetchable, "2t", "error:robots-unreachable"),
	"http://no-such-name.example/":     ends(report.CodeDNS, "error:dns"),
	"http://dns-empty.example/":        ends(report.CodeDNS, "error:dns"),
	"http://dns-fails.example/":        ends(report.CodeTooManyRetries, "2t", "error:dns"),
	"http://dns-silent.example/":       ends(report.CodeTooManyRetries, "2t", "error:dns"),
	"http://robots-10mb.example/":      ends(200),
	"http://robots-silent.example/":    ends(report.CodeRobotsUnfetchable, "2t"),
	"http://robots-503.example/":       ends(report.CodeRobotsUnfetchable, "2t"),
	"http://robots-reset.example/":     ends(report.CodeRobotsUnfetchable, "2t"),
	"http://robots-403.example/":       ends(200),
	"http://robots-loop.example/":      ends(200), // treated as if there were none (RFC 9309, 2.3.1.2)
	"http://robots-html.example/":      ends(200),
	"http://robots-elsewhere.example/": ends(200),
	"http://reset-always.example/":     ends(report.CodeRobotsUnfetchable, "2t"),
	"http://busy.example/":             ends(503, "2t"), // a third visit would have had another response
	"http://flapping.example/":         ends(200),
	"http://chain-0.example/":          ends(200),
	"http://chain-1.example/":          ends(200),
	"http://chain-2.example/":          ends(200),
	"http://chain-3.example/":          ends(200),
	"http://chain-4.example/":          ends(200),
}

// hostilePromise holds the delays that the crawls of hostile hosts keep.
const hostileDelay = 50 * time.Millisecond

var hostilePromise = testweb.Promise{HostDelay: hostileDelay, AddrDelay: hostileDelay / 4, SiteDelay: hostileDelay / 4,
	CrawlDelay: true}

// hostileWeb serves each hostile page that choose accepts on a host of its own, so that their ends
// stay apart and slow pages run at the same time. urls are their URLs by path, without the star of
// a trap.
func hostileWeb(t *testing.T, more []testweb.Site,
	choose func(h testweb.Hostility) bool) (web *testweb.Web, urls map[string]string) {
	t.Helper()
	var raw testweb.RawFunc
	for _, s := range testweb.HostileSites() {
		if s.Host == testweb.HostileHost {
			raw = s.Raw
		}
	}
	urls = map[string]string{}
	for _, h := range testweb.Hostilities() {
		if choose(h) {
			path := strings.TrimSuffix(h.Path, "*")
			host := strings.Trim(strings.ReplaceAll(path, ".", "-"), "/") + ".example"
			more = append(more, testweb.Site{Host: host, Raw: raw})
			urls[path] = "http://" + host + path
		}
	}
	return serve(t, testweb.Config{Sites: more, Promise: hostilePromise, LogEntries: 1 << 16}), urls
}

// hostileFlags returns flags with timeouts that are long enough for a busy machine.
func hostileFlags(t *testing.T, web *testweb.Web, dir string, seeds []string, more ...string) []string {
	return flags(t, web, dir, append([]string{"--seeds", seedFile(t, seeds), "--scope", "any", "--exclude", noAddresses,
		"--delay", hostileDelay.String(), "--retries", "1", "--retry-wait", "200ms", "--slow-down", "100ms",
		"--timeout", "3s", "--max-time", "7s", "--max-body", "3MB", "--host-page-limit", "40", "--time-limit", "80s"},
		more...)...)
}

func isBomb(h testweb.Hostility) bool { return strings.HasPrefix(h.Path, "/bomb-") }

func TestHostilities(t *testing.T) {
	weighs(t, 2)
	var sites []testweb.Site
	var seeds []string
	for _, s := range testweb.HostileSites() {
		if s.Host == testweb.HostileHost {
			continue // its pages have hosts of their own
		}
		sites = append(sites, s)
		u := "http://" + s.Host + "/"
		if s.TLS != "" {
			u = "https://" + s.Host + "/"
		}
		if seeds = append(seeds, u); hostileHosts[u].code == 0 {
			t.Errorf("no expectation for %s", u)
		}
	}
	web, urls := hostileWeb(t, sites, func(h testweb.Hostility) bool { return !isBomb(h) })
	for _, u := range urls {
		seeds = append(seeds, u)
	}
	dir := t.TempDir()
	crawl(context.Background(), t, hostileFlags(t, web, dir, seeds)...).must(t, 0)
	noViolations(t, web)
	a := audit(t, dir)
	a.accepted(t)
	a.servedAlike(t, web)
	a.bounded(t)
	for path, u := range urls {
		e, ok := hostile[path]
		if !ok {
			e = ends(200)
		}
		a.want(t, u, e)
	}
	for u, e := range hostileHosts {
		a.want(t, u, e)
	}

	// These are the results of the pages' links.
	for u, e := range map[string]end{
		"http://charset-utf16.example/fine/utf16":                     ends(200),
		"http://charset-bom.example/fine/bom":                         ends(200),
		"http://charset-utf7.example/fine/utf7":                       {}, // the crawl does not read UTF-7
		"http://nested.example/fine/content":                          ends(200),
		"http://nested-links.example/fine/nested":                     ends(200),
		"http://attributes.example/fine/attributes":                   ends(200),
		"http://redirect-there.example/redirect-back":                 ends(302),
		"http://url-long.example/fine/content":                        ends(200),
		"http://redirect-self.example/redirect-self":                  ends(302),
		"http://chain-0.example/30":                                   ends(302),
		"http://chain-1.example/11":                                   ends(302, "too-many-redirects"),
		"http://robots-10mb.example/second":                           ends(200),
		"http://robots-elsewhere.example/second":                      ends(200),
		"http://169.254.169.254/latest/meta-data/":                    {},
		"http://127.0.0.1:22/":                                        {},
		"http://flapping.example/second":                              ends(200),
		"http://redirect-split.example/fine/a%0D%0AX-Injected:%20yes": ends(200),
	} {
		if e.code != 0 {
			a.want(t, u, e)
		} else if l, ok := a.final[u]; ok {
			t.Errorf("%s: ended as %d, want it left alone", u, l.Code)
		}
	}
	// A trap takes its host's pages, but no more.
	for _, trap := range []string{"calendar", "session", "filters", "numbers"} {
		h := web.Report().Hosts[trap+".example"]
		if h.Pages != 40 {
			t.Errorf("%s: %d pages were served, want 40", trap, h.Pages)
		}
		quota := 0
		for _, l := range a.final {
			if l.Code == report.CodeQuota && l.Seed == trap+".example" {
				quota++
			}
		}
		if quota == 0 {
			t.Errorf("%s: nothing was over its quota", trap)
		}
	}
}

// The test crawls bombs apart from the other hostile pages, because warcio decodes what it checks:
// some gigabytes of each.
func TestBombs(t *testing.T) {
	weighs(t, 2)
	web, urls := hostileWeb(t, nil, isBomb)
	var seeds []string
	for _, u := range urls {
		seeds = append(seeds, u)
	}
	if len(seeds) < 4 {
		t.Fatalf("%d bombs", len(seeds))
	}
	dir := t.TempDir()
	crawl(context.Background(), t, hostileFlags(t, web, dir, seeds)...).must(t, 0)
	noViolations(t, web)
	a := audit(t, dir)
	verify(t, dir)
	a.indexed(t)
	a.servedAlike(t, web)
	a.bounded(t)
	for path, u := range urls {
		a.want(t, u, hostile[path])
	}
}
