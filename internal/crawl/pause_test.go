package crawl_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// Requests that wait for the rate are not sent after a pause, a block or an exclusion. They are sent after a pause.
func TestOrdersHoldAtTheRate(t *testing.T) {
	for name, order := range map[string]func(w *world, on bool) error{
		"pause": func(w *world, on bool) error { return w.Orders.Pause(context.Background(), on) },
		"block": func(w *world, on bool) error {
			var bars []crawl.Bar
			if on {
				bars = []crawl.Bar{{Prefix: netip.MustParsePrefix("198.18.0.0/15"), Why: "order 1"}}
			}
			return w.Orders.Bar(context.Background(), bars)
		},
		"exclude": func(w *world, on bool) error {
			var list []crawl.Exclusion
			if on {
				list = []crawl.Exclusion{{Pattern: "example", Deeper: -1}}
			}
			return w.Orders.Exclude(context.Background(), list)
		},
	} {
		bubble(t, name, func(t *testing.T) {
			var text strings.Builder
			text.WriteString("delay 1s\nrate 20\n")
			for i := range 60 {
				fmt.Fprintf(&text, "seed http://h%d.example/\ndns h%[1]d.example 198.18.0.%[1]d\n", i)
				fmt.Fprintf(&text, "http://h%d.example/ /1 /2 /3 /4\n", i)
			}
			s := &story{text: text.String()}
			w, _, end := s.begin(t)
			time.Sleep(2 * time.Second)
			w.Rate.Set(rate.Limit{Requests: 0.1}, 1, time.Time{})
			time.Sleep(15 * time.Second) // some visits wait for their turns now
			if open := w.View.Status().Open; open < 2 {
				t.Errorf("%d requests wait", open)
			}
			must.Do(t, order(w, true))
			before := len(s.web.Told())
			time.Sleep(10 * time.Minute)
			if after := len(s.web.Told()); after != before {
				t.Errorf("%d requests were sent", after-before)
			}
			want, requests := crawl.OnlyBlocked, before // nothing else is left
			if name == "pause" {
				want, requests = crawl.Finished, 60*6
				w.Rate.Set(rate.Limit{Requests: 20}, 1, time.Time{})
				must.Do(t, order(w, false))
			}
			if stop, err := end(); stop != want || err != nil {
				t.Errorf("%v, %v, want %v", stop, err, want)
			}
			must.Do(t, w.close())
			if n := len(s.web.Told()); n != requests {
				t.Errorf("%d requests, want %d", n, requests)
			}
		})
	}
}
