package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// crowdedWeb has hosts that share a handful of addresses and registered domains.
// Host number i has least+i*more pages, in a chain, so that few hosts are left at
// the end.
func crowdedWeb(hosts, addresses, domains, least, more int) (sites []testweb.Site, seeds []string, pages int) {
	for i := range hosts {
		host, n := fmt.Sprintf("h%d.d%d.example", i, i/addresses%domains), least+i*more
		chain := http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			k, err := strconv.Atoi(strings.Trim(req.URL.Path, "/"))
			if req.URL.Path == "/" {
				k, err = 0, nil
			}
			if err != nil || k >= n {
				http.NotFound(rw, req)
				return
			}
			rw.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprintf(rw, "<!doctype html><title>%s %d</title>\n", host, k)
			if k+1 < n {
				fmt.Fprintf(rw, "<a href=\"/%d\">next</a>\n", k+1)
			}
		})
		sites = append(sites, testweb.Site{
			Host: host, Addr: fmt.Sprintf("127.77.0.%d", 1+i%addresses),
			Robots: "User-agent: *\nAllow: /\n", Handler: chain,
		})
		seeds = append(seeds, "http://"+host+"/")
		pages += n
	}
	return sites, seeds, pages
}

// longestSilence is the longest time without a request under way, from a moment to
// the last request; at says when it began.
func longestSilence(web *testweb.Web, from time.Time) (longest time.Duration, at time.Time) {
	log := web.Log()
	slices.SortFunc(log, func(a, b testweb.Entry) int { return a.Began.Compare(b.Began) })
	last := from
	for _, e := range log {
		if e.Began.Before(from) {
			continue
		}
		if gap := e.Began.Sub(last); gap > longest {
			longest, at = gap, last
		}
		if e.Ended.After(last) {
			last = e.Ended
		}
	}
	return longest, at
}

// allSeen is when the last of some agents that were resumed saw all of them.
func allSeen(t *testing.T, homes []string) (at time.Time) {
	t.Helper()
	when := func(e map[string]any) time.Time {
		said, err := time.Parse(time.RFC3339Nano, e["time"].(string))
		if err != nil {
			t.Fatal(err)
		}
		return said
	}
	for _, home := range homes {
		resumed := when(eventsOf(t, home, "resumed")[0])
		views := slices.DeleteFunc(eventsOf(t, home, "view"), func(e map[string]any) bool {
			names, _ := e["agents"].([]any)
			return when(e).Before(resumed) || len(names) < len(homes)
		})
		if len(views) == 0 {
			t.Fatalf("%s never saw all agents:\n%s", home, events(t, home))
		}
		if first := when(views[0]); first.After(at) {
			at = first
		}
	}
	return at
}

// After all agents were stopped or killed, and resumed, they fetch as soon as they see
// each other, and until the end of the crawl: no agent waits for leases that no agent
// uses. The limit is twice that of the model (lease.TestStalls), as the machine may
// be busy. An agent that had to wait for the end of earlier leases would wait 16 s.
func TestLeasesIdle(t *testing.T) {
	const limit = 10 * time.Second
	for _, how := range []string{"stopped", "killed"} {
		t.Run(how, func(t *testing.T) {
			sites, seeds, pages := crowdedWeb(12, 4, 5, 6, 2)
			const delay = 300 * time.Millisecond
			promise := testweb.Promise{HostDelay: delay, AddrDelay: delay / 4, SiteDelay: delay / 4}
			web := serve(t, testweb.Config{Sites: sites, Promise: promise})
			ps, homes := leased(t, web, t.TempDir(), seeds, 3, "--delay", delay.String())
			reaches(t, web, int64(pages/3), ps[0])
			for _, p := range ps {
				if how == "killed" {
					p.kill()
				} else {
					p.cmd.Process.Signal(syscall.SIGTERM)
				}
			}
			for i, p := range ps {
				if !ended(p, time.Minute) {
					t.Fatalf("%s does not stop", homes[i])
				}
			}
			join := identityOf(t, ps[0])
			for i, p := range ps {
				ps[i] = start(t, "crawl", "--resume", "--dir", homes[i], "--quiet",
					"--name", filepath.Base(homes[i]), "--listen", identityOf(t, p), "--join", join)
			}
			for i, p := range ps {
				if !ended(p, 4*time.Minute) {
					t.Fatalf("%s does not end:\n%s\n%s", homes[i], tail(p.out.String()), events(t, homes[i]))
				}
				if code := p.code(); code != 0 {
					t.Fatalf("%s: exit code %d\n%s", homes[i], code, tail(p.out.String()))
				}
			}
			silence, at := longestSilence(web, allSeen(t, homes))
			if silence > limit {
				t.Errorf("no request was under way for %v from %s, with links pending; want less than %v",
					silence, at.Format("15:04:05.000"), limit)
				for i := range homes {
					t.Log(events(t, homes[i]))
				}
			}
			t.Logf("the longest time without a request was %v", silence)
			if left := web.Report().Pages; left < int64(pages) {
				t.Errorf("%d pages of %d", left, pages)
			}
			noSharedViolations(t, web)
		})
	}
}
