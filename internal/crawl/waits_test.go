package crawl

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A Status says what the crawl waits for if no visit has ended for three seconds.
func TestWaitsFor(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		at         time.Duration
		want       string
		lease      bool
		unread     bool // Pages does not return before the end of the run
	}{
		{name: "moves", text: `
delay 1s
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ /1 /2 /3 /4 /5 /6 /7
http://a.example/1 200
http://a.example/2 200
`, at: 4 * time.Second, want: ""},
		{name: "response", text: `
delay 1s
seed http://a.example/
seed http://b.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://a.example/ slow=60s
http://b.example/ slow=60s
`, at: 15 * time.Second, want: "2 responses, the oldest for 14 s: http://a.example/"},
		{name: "name server", text: `
seed http://a.example/
dns a.example timeout
`, at: 5 * time.Second, want: "the name server, for 5 s: the address of a.example"},
		{name: "delay", text: `
delay 30s
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ 200
`, at: 10 * time.Second, want: "the delay of a.example: next request in 21 s"},
		{name: "pause", text: `
delay 1s
slow-base 60s
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ 503 | 200
`, at: 10 * time.Second, want: "a.example, which failed (503): next try in "},
		{name: "retry", text: `
delay 1s
retry-wait 80s
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ 502 | 200
`, at: 10 * time.Second, want: "the next try of a URL that failed (502), in 1 min "},
		{name: "robots", text: `
delay 1s
retry-wait 80s
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/robots.txt 500
http://a.example/ 200
`, at: 10 * time.Second, want: "the robots.txt of a.example, which cannot be fetched: next try in"},
		{name: "lease", text: `
delay 1s
ip-delay 1s
seed http://a.example/
dns a.example 192.0.2.1
http://a.example/ 200
`, at: 12 * time.Second, want: "the lease of 192.0.2.1, for 12 s", lease: true},
		{name: "pages", text: `
delay 1s
seed http://a.example/
seed http://b.example/
dns a.example 192.0.2.1
dns b.example 192.0.2.2
http://a.example/ 200
http://b.example/ slow=60s
`, at: 20 * time.Second, want: "the reader, for 19 s", unread: true},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := &story{text: tt.text}
			if tt.lease {
				s.frontier.Lease = &testLease{start: time.Now()}
			}
			if tt.unread {
				s.with = func(r *Parts) error {
					r.PagesTo = "the reader"
					r.Pages = func(ctx context.Context, _ *Page) error { <-ctx.Done(); return ctx.Err() }
					return nil
				}
			}
			w, cancel, end := s.begin(t)
			w.Watch(3)
			time.Sleep(tt.at)
			st := w.Status()
			if got := st.WaitsFor; !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if tt.name != "retry" && (len(st.Hosts) == 0 ||
				st.Hosts[0].Host != "a.example" || st.Hosts[0].Links == 0) {
				t.Errorf("hosts %+v", st.Hosts)
			}
			w.Watch(0)
			cancel()
			if synctest.Wait(); tt.unread && w.Status().WaitsFor != tt.want {
				t.Errorf("while stopping: got %q, want %q", w.Status().WaitsFor, tt.want)
			}
			ran(t)(end())
			if st := w.Status(); st.WaitsFor != "" || st.Stop != Signal || len(st.Hosts) > 0 {
				t.Errorf("at the end: %+v", st)
			}
			must(t, w.close())
		})
	}
}
