package crawl_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// besides returns a web of one honest host, whose pages are a chain, and of n slow hosts. robots and
// page are the answers of the slow hosts in the words of a textWeb; empty means none.
func besides(n int, robots, page string) string {
	var b strings.Builder
	b.WriteString("delay 1s\nseed http://honest.example/0\ndns honest.example 192.0.2.1\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "http://honest.example/%d /%d\n", i, i+1)
	}
	for i := range n {
		host := fmt.Sprintf("slow%d.example", i)
		fmt.Fprintf(&b, "seed http://%s/\ndns %s 198.%d.%d.%d\n", host, host, 18+i>>16, i>>8&255, i&255)
		if robots != "" {
			fmt.Fprintf(&b, "http://%s/robots.txt %s\n", host, robots)
		}
		if page != "" {
			fmt.Fprintf(&b, "http://%s/ %s\n", host, page)
		}
	}
	return b.String()
}

// honestPages returns how many pages of the honest host are requested from second 40 to second 160
// of a crawl.
func honestPages(t *testing.T, text string, tune func(*crawl.Config)) (pages, most int) {
	t.Helper()
	s := parsed(t, text)
	tune(&s.cfg)
	s.seen.MemoryBytes = 1 << 20
	w := s.opened(t, testdisk.NewMem())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := w.background(ctx, t)
	for range 320 {
		time.Sleep(500 * time.Millisecond)
		if st := w.View.Status(); st != nil {
			most = max(most, st.Slow)
		}
	}
	stop()
	<-ended
	s.accounts(t, w)
	must.Do(t, w.close())
	if n := w.View.Status().Slow; n != 0 {
		t.Errorf("%d slow visits at the end", n)
	}
	for _, r := range s.web.Told() {
		if r.Host == "honest.example" && r.At >= 40*time.Second && r.At < 160*time.Second {
			pages++
		}
	}
	if s.web.Busy != "" {
		t.Errorf("%s had two requests at once", s.web.Busy)
	}
	return pages, most
}

// Slow hosts do not keep the workers from an honest host, in whichever way they send less than
// receivingRate.
func TestSlowHostsBesideAnHonestOne(t *testing.T) {
	type web struct {
		name         string
		hosts        int
		robots, page string
		slow         int // at least as many are slow at once
	}
	webs := []web{
		{"none", 0, "", "", 0},
		{"300 that drip", 300, "", "drip=8s", 250},
		{"3000 that drip", 3000, "", "drip=8s", 2500},
		{"300 that drip robots.txt", 300, "drip=8s", "", 250},
		{"300 that drip a header", 300, "", "drip-header=8s", 250},
		{"3000 that answer after 29 s", 3000, "slow=29s", "slow=29s", 2500},
		{"300 that hang", 300, "hang", "", 250},
		{"300 that send much and then drip", 300, "", "size=400000 drip=8s", 250},
	}
	for _, c := range webs {
		t.Run(c.name, func(t *testing.T) {
			if c.hosts > 300 {
				testtier.OnlySoak(t, "it takes a second of CPU time, and 300 hosts show the same")
			}
			synctest.Test(t, func(t *testing.T) {
				pages, most := honestPages(t, besides(c.hosts, c.robots, c.page), func(cfg *crawl.Config) {
					cfg.SlowVisits, cfg.SlowBytes = 4096, 256<<20
				})
				if pages < 110 || most < c.slow {
					t.Errorf("%d pages of the honest host in 120 s, want at least 110; %d slow visits at most, want %d",
						pages, most, c.slow)
				}
			})
		})
	}
}

// If the network makes responses slow, more visits at once would make them slower. So the workers
// keep their visits as long as they can.
func TestSlowLine(t *testing.T) {
	for _, c := range []struct {
		name, words string
		slow        int // at most as many are slow at once
	}{
		{"one response after the other", "size=20000 line=60ms*1", 8},
		{"all responses at once", "size=20000 line=3ms*20", 8},
		{"responses that take 10 s", "size=20000 line=10ms*16", 8},
		{"responses that take a minute", "size=200000 line=10ms*100", 70},
	} {
		bubble(t, c.name, func(t *testing.T) {
			var b strings.Builder
			b.WriteString("delay 1s\n")
			for i := range testtier.Rounds(120, 400) { // far more than the line can carry
				host := fmt.Sprintf("h%d.example", i)
				fmt.Fprintf(&b, "seed http://%s/0\ndns %[1]s 198.18.%d.%d\n", host, i>>8, i&255)
				for j := range 20 {
					fmt.Fprintf(&b, "http://%s/%d /%d %s\n", host, j, j+1, c.words)
				}
			}
			_, most := honestPages(t, b.String(), func(cfg *crawl.Config) {})
			if most > c.slow {
				t.Errorf("%d slow visits at most, want %d", most, c.slow)
			}
		})
	}
}

// The bounds on slow visits hold.
func TestSlowVisitsAreBounded(t *testing.T) {
	for name, tune := range map[string]func(*crawl.Config){
		"visits": func(cfg *crawl.Config) { cfg.SlowVisits = 40 },
		"bytes":  func(cfg *crawl.Config) { cfg.SlowBytes = 40 * (slowVisit + 32<<10) },
		"none":   func(cfg *crawl.Config) { cfg.SlowVisits = -1 },
	} {
		bubble(t, name, func(t *testing.T) {
			pages, most := honestPages(t, besides(300, "", "drip=8s"), tune)
			if want := map[bool]int{true: 0, false: 40}[name == "none"]; most != want {
				t.Errorf("%d slow visits at most, want %d", most, want)
			}
			if pages == 0 {
				t.Error("no page of the honest host")
			}
		})
	}
}

// slowVisit is the memory that the crawl counts for a slow visit, without its response.
const slowVisit = 48 << 10

// The headers of slow visits count towards the memory bound, too.
func TestSlowHeadersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parsed(t, besides(100, "", "slow=6s size=100000 drip-header=8s"))
		// Memory for 40 slow visits, 10 of them with such a header.
		s.cfg.Retries = -1
		s.cfg.SlowBytes = 40*(slowVisit+fetch.SlowMemory) + 10*96<<10
		w := s.opened(t, testdisk.NewMem())
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := w.background(ctx, t)
		most := 0
		for range 120 {
			time.Sleep(500 * time.Millisecond)
			most = max(most, w.View.Status().Slow)
		}
		stop()
		<-ended
		if w.View.Status().Slow != 0 || most < 10 || most > 60 {
			t.Errorf("%d slow visits at most, %d at the end", most, w.View.Status().Slow)
		}
		if w.Tally.Errors()["timeout-rate"] == 0 {
			t.Error("no fetch ended for want of memory")
		}
		must.Do(t, w.close())
	})
}

// A stop waits for slow visits as for others, and abandons them after
// Config.DrainTimeout; the next run makes them again.
func TestStopWithSlowVisits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parsed(t, "drain-timeout 5s\nrun 20s signal\n"+besides(100, "", "slow=25s | 200"))
		w := s.run(t)
		pages := w.Tally.Pages()
		s.check(t, w)
		if pages != 100+1000 {
			t.Errorf("%d pages", pages)
		}
	})
}

// A robots.txt that is cut by the timeout does not count: its first part may allow what the rest
// forbids.
func TestCutRobotsIsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := parsed(t, "retries 1\nseed http://a.example/\ndns a.example 192.0.2.1\n"+
			"http://a.example/robots.txt drip=8s\nhttp://a.example/\n")
		w := s.run(t)
		for _, r := range s.web.Told() {
			if !strings.HasSuffix(r.URL, "/robots.txt") {
				t.Errorf("asked for %s", r.URL)
			}
		}
		if n := w.Tally.Errors()["robots-unreachable"]; n != 1 ||
			!strings.Contains(logText(w.parts.Lines(t, w.fs)), "robots.txt:%20cut%20off%20by%20a%20time%20bound") {
			t.Errorf("errors %v\n%s", w.Tally.Errors(), logText(w.parts.Lines(t, w.fs)))
		}
		s.check(t, w)
	})
}

// With a rate, as many requests are open as the rate needs, although there are fewer workers: all servers take 2 s, and
// 4 workers reach 20 pages a second. They do not exceed the rate.
func TestWorkersFollowRate(t *testing.T) {
	for _, rate := range []float64{0, 2, 20} {
		synctest.Test(t, func(t *testing.T) {
			var text strings.Builder
			text.WriteString("delay 1s\nworkers 4\n")
			for i := range 200 {
				fmt.Fprintf(&text, "seed http://h%d.example/\ndns h%[1]d.example 198.18.0.%[1]d\n", i)
				fmt.Fprintf(&text, "http://h%d.example/robots.txt 404 slow=2s\n", i)
				fmt.Fprintf(&text, "http://h%d.example/ slow=2s", i)
				for page := range 20 {
					fmt.Fprintf(&text, " /%d", page)
				}
				text.WriteByte('\n')
				for page := range 20 {
					fmt.Fprintf(&text, "http://h%d.example/%d slow=2s\n", i, page)
				}
			}
			s := parsed(t, text.String())
			s.rate.Requests = rate
			w := s.opened(t, testdisk.NewMem())
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := w.background(ctx, t)
			most := 0
			for range 60 {
				time.Sleep(time.Second)
				if st := w.View.Status(); st != nil {
					most = max(most, st.Open)
				}
			}
			stop()
			<-ended
			must.Do(t, w.close())
			n := 0
			for _, r := range s.web.Told() {
				if r.At >= 20*time.Second && r.At < 60*time.Second {
					n++
				}
			}
			want := 2.0 // 4 workers, 2 s a response
			if rate > want {
				want = rate
			}
			if got := float64(n) / 40; got < 0.95*want || got > 1.05*want {
				t.Errorf("rate %g: %.2f requests a second, want %g, with %d open", rate, got, want, most)
			}
			t.Logf("rate %g: %d requests in 40 s, at most %d open", rate, n, most)
		})
	}
}
