package crawl_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A Status says what the crawl waits for if no visit has ended for three seconds. What else it may wait for is in
// testdata/orders/waits-*.txt.
func TestWaitsFor(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		at         time.Duration
		want       string
		lease      bool
		unread     bool // Pages does not return before the end of the run
	}{
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
				s.with = func(r *crawl.Parts) error {
					r.PagesTo = "the reader"
					r.Pages = visit.PagesFunc(func(ctx context.Context, _ *visit.Page) error {
						<-ctx.Done()
						return ctx.Err()
					})
					return nil
				}
			}
			w, cancel, end := s.begin(t)
			w.View.Watch(3)
			time.Sleep(tt.at)
			st := w.View.Status()
			if got := st.WaitsFor; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			w.View.Watch(0)
			cancel()
			if synctest.Wait(); tt.unread && w.View.Status().WaitsFor != tt.want {
				t.Errorf("while stopping: got %q, want %q", w.View.Status().WaitsFor, tt.want)
			}
			ran(t)(end())
			if st := w.View.Status(); st.WaitsFor != "" || st.Stop != crawl.Signal || len(st.Live.Hosts) > 0 {
				t.Errorf("at the end: %+v", st)
			}
			must.Do(t, w.close())
		})
	}
}
