package crawl

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFollowed(t *testing.T) {
	const ms = time.Millisecond
	cfg := &Config{Delays: Delays{DelayFactor: 5, DelayMax: 30 * time.Second}}
	for _, c := range []struct{ before, took, want time.Duration }{
		{0, 100 * ms, 0},
		{0, 400 * ms, 0},
		{0, 600 * ms, 3000 * ms},
		{3000 * ms, time.Second, 5000 * ms},
		{3000 * ms, 600 * ms, 3000 * ms},
		{5000 * ms, 200 * ms, 3000 * ms},
		{2100 * ms, 100 * ms, 0},
		{0, time.Hour, 30 * time.Second},
		{40 * time.Second, 100 * ms, 20250 * ms},
		{70 * time.Second, 100 * ms, 30 * time.Second},
	} {
		if got := followed(c.before, 2*time.Second, cfg, c.took); got != c.want {
			t.Errorf("after a delay of %s, a response of %s: %s, want %s", c.before, c.took, got, c.want)
		}
	}
}

const slowWeb = `
delay 1s
seed http://a.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://a.example/robots.txt 404
http://a.example/ /1 /2 /3 /4 http://b.example/ slow=2s
http://a.example/1
http://a.example/2
http://a.example/3 slow=5s
http://b.example/robots.txt robots=User-agent:*;Crawl-delay:8
http://b.example/ /1 slow=1s
`

// With a DelayFactor, a host rests for a multiple of its response times, within bounds, also after a kill. A
// Crawl-delay that is longer holds.
func TestAutoDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: slowWeb}
		s.cfg.Delays = Delays{DelayFactor: 5, DelayMax: 20 * time.Second}
		w, cancel, end := s.begin(t)
		time.Sleep(6 * time.Second) // within the delay after a.example/
		text, err := w.Explain(t.Context(), "a.example")
		if want := "delay: 10s, auto: 5 times the last response times, from 1s to 20s\n"; err != nil ||
			!strings.Contains(text, want) {
			t.Errorf("explain: %s, %v, want %q", text, err, want)
		}
		left := w.kill(cancel)
		ran(t)(end())
		w = s.opened(t, left)
		finished(t)(w.Run(t.Context()))
		must(t, w.close())
		// The delay after a.example/ begins again at the kill, and so does that of b.example, which is a Crawl-delay.
		const want = `0s     a.example/robots.txt
1s     a.example/
3s     b.example/robots.txt
14s    b.example/
16s    a.example/1
21s    a.example/2
23s    b.example/1
23.5s  a.example/3
48.5s  a.example/4
`
		if got := s.web.Requests(); got != want {
			t.Errorf("requests:\n%s\nwant:\n%s", got, want)
		}
	})
}

// A host with a delay of its own has that one, whatever its response times are.
func TestAutoDelayOfOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &story{text: slowWeb}
		s.cfg.Delays = Delays{DelayFactor: 5, DelayMax: 20 * time.Second,
			WhyDelay: func(host string) string { return "order of " + host }}
		s.frontier.DelayOf = func(host string) (time.Duration, bool) { return 2 * time.Second, true }
		w, _, end := s.begin(t)
		time.Sleep(5 * time.Second)
		text, err := w.Explain(t.Context(), "b.example")
		if want := "delay: 8s (robots.txt asks for it; without it 2s, order of b.example)\n"; err != nil ||
			!strings.Contains(text, want) {
			t.Errorf("explain: %s, %v, want %q", text, err, want)
		}
		finished(t)(end())
		must(t, w.close())
		const want = `0s     a.example/robots.txt
2s     a.example/
4s     b.example/robots.txt
6s     a.example/1
8s     a.example/2
10s    a.example/3
12s    b.example/
17s    a.example/4
21s    b.example/1
`
		if got := s.web.Requests(); got != want {
			t.Errorf("requests:\n%s\nwant:\n%s", got, want)
		}
	})
}
