package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// memoryBound is the most memory that a crawl of hostile hosts may take, in bytes.
const memoryBound = 300e6

// noAddresses keeps crawls of scope "any" away from URLs whose host is an address. Names lead to
// the test web or nowhere, but addresses lead to real machines.
const noAddresses = `^https?://[\d\[]`

// seedFile writes a file for --seeds.
func seedFile(t *testing.T, seeds []string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "seeds.txt")
	must.Do(t, os.WriteFile(name, []byte(strings.Join(seeds, "\n")+"\n"), 0o644))
	return name
}

// bounded fails the test if the crawl took more memory than allowed.
func (a *ledger) bounded(t *testing.T) {
	t.Helper()
	if m, most := float64(a.sum.PeakMemory), roomFor(memoryBound); m <= 0 || m > most {
		t.Errorf("peak memory %.0f bytes, want at most %.0f", m, most)
	}
	t.Logf("%d URLs in %.1f s, peak memory %d MB", a.sum.Finished, a.sum.DurationS, a.sum.PeakMemory/1e6)
}

// servedAlike compares the crawl's log with the server's. Each requested URL has an end, and each
// URL that ended with a response was requested.
func (a *ledger) servedAlike(t *testing.T, web *testweb.Web) {
	t.Helper()
	web.WaitIdle(time.Minute)
	fetched := web.Fetched()
	for u := range fetched {
		if _, ok := a.final[u]; !ok && a.robots[u] == 0 {
			t.Errorf("%s was asked for and has no end in crawl.log", u)
		}
	}
	for u, l := range a.final {
		if _, ok := fetched[u]; !ok && l.Size > 0 {
			t.Errorf("%s: %d bytes came, but the server was never asked", u, l.Size)
		}
	}
}

func TestRawReplies(t *testing.T) {
	const replies = "../../shared/data/http"
	raw, names, err := testweb.RawReplies(replies)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if len(names) < 700 {
		missing(t, fmt.Sprintf("raw replies: %d files in %s", len(names), replies))
	}
	weighs(t, 1)
	// Each path has its own host, because some ask for a pause of years.
	var sites []testweb.Site
	var seeds []string
	for _, n := range names {
		host := "r-" + strings.ToLower(n) + ".example"
		sites = append(sites, testweb.Site{Host: host, Raw: raw})
		seeds = append(seeds, "http://"+host+"/"+n)
	}
	const delay = 50 * time.Millisecond
	web := serve(t, testweb.Config{Sites: sites, LogEntries: 1 << 16,
		Promise: testweb.Promise{HostDelay: delay, AddrDelay: delay / 4, SiteDelay: delay / 4, CrawlDelay: true}})
	dir := t.TempDir()
	crawl(context.Background(), t, flags(t, web, dir, "--seeds", seedFile(t, seeds), "--scope", "host", "--depth", "0",
		"--exclude", noAddresses, "--delay", delay.String(), "--retries", "0", "--timeout", "2s", "--max-time", "10s",
		"--time-limit", "80s")...).must(t, 0)
	noViolations(t, web)
	a := audit(t, dir)
	a.accepted(t)
	a.servedAlike(t, web)
	a.bounded(t)
	for i, n := range names {
		b := must.Get(os.ReadFile(filepath.Join(replies, n+".http")))(t)
		l, ok := a.final[seeds[i]]
		switch {
		case !ok:
			t.Errorf("%s: no end in crawl.log", n)
		case len(b) > 0 && l.Size <= 0 && l.Code <= 0: // a response with a status has at least a header
			t.Errorf("%s: %d bytes were sent, none is in the log", n, len(b))
		case l.Size > int64(len(b)):
			t.Errorf("%s: %d bytes were sent, %d came", n, len(b), l.Size)
		}
		want, named := rawExceptions[n]
		if !named {
			want = statusOf(b)
		}
		if ok && l.Code != want {
			t.Errorf("%s: ended as %d %v, want %d", n, l.Code, l.Notes, want)
		}
	}
}

// rawExceptions are the raw replies whose end differs from their status line.
var rawExceptions = map[string]int{
	"497": report.CodeBroken, // the header is larger than the crawl reads
}

// statusLine matches a status line that a client must understand.
var statusLine = regexp.MustCompile(`^HTTP/\d(?:\.\d)? ([1-9]\d\d)(?:[ \r\n]|$)`)

var headEnd = regexp.MustCompile(`\r?\n\r?\n`)

// statusOf returns the status of a raw reply by its bytes: the status of the first whole header
// that is not interim, or -3 if there is none.
func statusOf(b []byte) int {
	for {
		m, end := statusLine.FindSubmatch(b), headEnd.FindIndex(b)
		if m == nil || end == nil {
			return report.CodeBroken
		}
		code, _ := strconv.Atoi(string(m[1]))
		if code/100 != 1 || code == http.StatusSwitchingProtocols {
			return code
		}
		b = b[end[1]:]
	}
}
