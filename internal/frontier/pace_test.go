package frontier

import (
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// paceOf makes a Pace of a function.
type paceOf func(site string) time.Duration

func (f paceOf) Of(site string) time.Duration { return f(site) }

// The requests to the hosts of a paced site have the pace, from when the one before was sent. A site without an order
// has none. The pace holds for hosts that are known already, and for those that come later.
func TestRepace(t *testing.T) {
	for name, cfg := range map[string]Config{"": {}, "address": {IPDelay: 10 * time.Millisecond},
		"site": {IPDelay: 10 * time.Millisecond, SiteDelay: 20 * time.Millisecond}} {
		cfg.HostDelay = 10 * time.Millisecond
		pace := time.Second
		cfg.Pace = paceOf(func(string) time.Duration { return pace })
		f := open(t, cfg)
		now := start
		push(t, f, "http://a.site.example/1", "http://a.site.example/2", "http://b.other.example/1")
		for range 2 {
			take(t, f, now)
			now = now.Add(100 * time.Millisecond)
		}
		f.Repace([]string{"site.example"}, now)
		push(t, f, "http://b.site.example/1", "http://c.site.example/1", "http://d.site.example/1",
			"http://b.other.example/2")
		var at []time.Duration
		for len(at) < 3 {
			task, wake, ok := f.Next(now)
			if !ok && wake.IsZero() {
				t.Fatalf("%q: nothing waits after %v", name, at)
			}
			if !ok {
				now = wake
				continue
			}
			if !task.Addr.IsValid() {
				f.Resolved(task.Host, loopback, now.Add(time.Hour), now)
				continue
			}
			sent := now.Add(100 * time.Millisecond)
			if task.Host != "b.other.example" {
				at = append(at, sent.Sub(start))
			}
			now = sent.Add(300 * time.Millisecond)
			must.Do(t, f.Done(task.Host, Done{Sent: sent}, now))
			must.Do(t, f.check())
		}
		for i, d := range at {
			if i > 0 && (d-at[i-1] < pace || d-at[i-1] > pace+110*time.Millisecond) {
				t.Errorf("%q: requests at %v, want one in %s", name, at, pace)
			}
		}
		must.Do(t, f.Close())
	}
}
