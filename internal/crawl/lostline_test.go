package crawl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

const crawlLog = crawlDir + "/logs/crawl.log"

// runWithLog crawls a small web with these pauses. It checks that crawl.log has a line for each URL, and returns the
// sum of Recovered.Repeated over all processes.
func runWithLog(t *testing.T, pauses ...pause) (repeated int64) {
	t.Helper()
	var web strings.Builder
	web.WriteString("workers 2\ndrain-timeout 100ms\ndelay 200ms\nseed http://a.example/0\n" +
		"dns a.example 192.0.2.1\ndns b.example 192.0.2.2\n")
	web.WriteString("http://b.example/robots.txt robots=User-agent:_*;Disallow:_/5\n")
	urls := []string{"http://a.example/0"}
	for i := range 8 {
		urls = append(urls, fmt.Sprintf("http://%s.example/%d", []string{"a", "b"}[i%2], i))
	}
	urls = slices.Compact(urls)
	fmt.Fprintf(&web, "%s\n", strings.Join(urls, " "))
	for _, u := range urls[1:] {
		fmt.Fprintf(&web, "%s same\n", u)
	}
	s := parsed(t, web.String())
	s.pauses = pauses
	s.recovered = func(r crawl.Recovered) { repeated += r.Repeated }
	w := s.run(t)
	var logged []string
	for _, l := range w.parts.Lines(t, w.fs) {
		logged = append(logged, l.URL)
	}
	for _, u := range urls {
		if !slices.Contains(logged, u) {
			t.Errorf("%+v: %s has no line in crawl.log", pauses, u)
		}
	}
	s.recovered = nil
	s.check(t, w)
	return repeated
}

// A power failure takes the lines of crawl.log that were not synced yet, and leaves the finishes in the journal. These
// pages are fetched again, so that the log has a line for each URL.
func TestPowerFailureTakesLogLines(t *testing.T) {
	lines := func(name string) bool { return name == crawlLog }
	repeated := int64(0)
	for at := 30 * time.Millisecond; at < 3*time.Second; at += sampled(30 * time.Millisecond) {
		synctest.Test(t, func(t *testing.T) {
			repeated += runWithLog(t, pause{at: at, crash: true, takes: lines})
		})
	}
	if repeated == 0 {
		t.Error("no line was lost")
	}
}

// The same for lines that a killed process has written and that the process after it has not synced.
func TestPowerFailureAfterKill(t *testing.T) {
	lines := func(name string) bool { return name == crawlLog }
	for at := 30 * time.Millisecond; at < 3*time.Second; at += sampled(90 * time.Millisecond) {
		for _, later := range []time.Duration{0, 50 * time.Millisecond, 300 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				runWithLog(t, pause{at: at, kill: true}, pause{at: at + later, crash: true, takes: lines})
			})
		}
	}
}

// If the operator has removed crawl.log, the pages whose lines it had are not fetched again.
func TestRemovedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		removed := func(m *testdisk.Mem) {
			if err := m.Remove(crawlLog); err != nil {
				t.Error(err)
			}
		}
		s := parsed(t, "delay 200ms\nseed http://a.example/\ndns a.example 192.0.2.1\n"+
			"http://a.example/ /1 /2 /3 /4 /5 /6 /7 /8 /9 slow=900ms\n")
		s.pauses = []pause{{at: 5 * time.Second, then: removed}}
		s.recovered = func(r crawl.Recovered) {
			if r.Repeated != 0 {
				t.Errorf("%d pages are fetched again", r.Repeated)
			}
		}
		w := s.run(t)
		must.Do(t, w.close())
	})
}
