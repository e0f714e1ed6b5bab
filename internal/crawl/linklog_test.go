package crawl_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// runWithLinks crawls a small web with these pauses. It checks that the link log has a line for each finished URL with
// its status and links. It returns how many lines are of URLs that have another one, and the sum of Recovered.Repeated
// over all processes.
func runWithLinks(t *testing.T, pauses ...pause) (twice int, repeated int64) {
	t.Helper()
	var web strings.Builder
	web.WriteString("workers 2\ndrain-timeout 100ms\ndelay 200ms\nseed http://a.example/\n" +
		"dns a.example 192.0.2.1\ndns b.example 192.0.2.2\n" +
		"http://b.example/robots.txt robots=User-agent:_*;Disallow:_/5\n" +
		"http://a.example/gone 404\nhttp://a.example/moved 301 to=http://a.example/gone\n")
	want := map[string]string{
		"http://a.example/gone":  "404",
		"http://a.example/moved": "301 http://a.example/gone",
		"http://b.example/5":     "-9998",
	}
	links := []string{"http://a.example/moved", "http://c.example/"}
	for i := range 8 {
		u := fmt.Sprintf("http://%s.example/%d", []string{"a", "b"}[i%2], i)
		links = append(links, u)
		if want[u] == "" {
			fmt.Fprintf(&web, "%s http://a.example/moved\n", u)
			want[u] = "200 http://a.example/moved"
		}
	}
	fmt.Fprintf(&web, "http://a.example/ %s\n", strings.Join(links, " "))
	want["http://a.example/"] = "200 " + strings.Join(links, " ")
	s := parsed(t, web.String())
	s.scope.Exclude, s.pauses, s.links = []string{"c.example"}, pauses, 600
	s.recovered = func(r crawl.Recovered) { repeated += r.Repeated }
	w := s.run(t)
	must.Do(t, w.close())
	got := map[string]string{}
	d, err := linklog.Read(w.fs, []string{crawlDir}, func(p *linklog.PageLine) error {
		if got[p.URL] != "" {
			twice++
		}
		words := []string{fmt.Sprint(p.Status)}
		for _, l := range p.Links {
			words = append(words, l.Target)
		}
		got[p.URL] = strings.Join(words, " ")
		return nil
	})
	if err != nil || d.Any() {
		t.Errorf("%+v: %+v, %v", pauses, d, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%+v: -want +got\n%s", pauses, diff)
	}
	return twice, repeated
}

func TestLinkLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if n, _ := runWithLinks(t); n > 0 {
			t.Errorf("%d lines twice without a kill", n)
		}
	})
}

// Whenever a crawl is stopped or killed, or the power fails, each URL has its line in the end.
func TestLinkLogAfterKill(t *testing.T) {
	twice := 0
	for at := 30 * time.Millisecond; at < 3*time.Second; at += sampled(60 * time.Millisecond) {
		for _, p := range []pause{{at: at}, {at: at, kill: true}, {at: at, crash: true}} {
			synctest.Test(t, func(t *testing.T) {
				n, _ := runWithLinks(t, p)
				if !p.kill && !p.crash && n > 0 {
					t.Errorf("stopped at %s: %d lines twice", at, n)
				}
				twice += n
			})
		}
	}
	if twice == 0 {
		t.Error("no kill had an effect")
	}
}

// A power failure that takes only lines of the link log makes the crawl fetch their pages again.
func TestPowerFailureTakesLinks(t *testing.T) {
	lines := func(name string) bool { return strings.HasPrefix(name, crawlDir+"/"+linklog.Folder+"/") }
	repeated := int64(0)
	for at := 30 * time.Millisecond; at < 3*time.Second; at += sampled(60 * time.Millisecond) {
		synctest.Test(t, func(t *testing.T) {
			_, n := runWithLinks(t, pause{at: at, crash: true, takes: lines})
			repeated += n
		})
	}
	if repeated == 0 {
		t.Error("no line was lost")
	}
}

// The statuses and annotations that make a link broken.
func TestBrokenCodes(t *testing.T) {
	for code := -9999; code < 700; code++ {
		want := code >= 400 || slices.Contains([]int{-1, -2, -3, -4, -6, -8, -61}, code)
		if got := report.IsBroken(code, ""); got != want {
			t.Errorf("code %d: broken %v, want %v", code, got, want)
		}
	}
	if !report.IsBroken(302, "too-many-redirects") || !report.IsBroken(301, "bad-redirect") ||
		report.IsBroken(301, "other") || report.IsBroken(200, "bad-redirect") {
		t.Error("redirects are wrong")
	}
}
