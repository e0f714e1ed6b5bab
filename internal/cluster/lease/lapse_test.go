package lease

import (
	"testing"
	"time"
)

// TestDelaysOutliveALapse: a holder has no contact for a while. The grantor has contact, so it takes the agent for the
// holder all the same. It has not heard of the holder's last request to a host. When the point changes hands, the next
// agent must keep the delay of that host.
func TestDelaysOutliveALapse(t *testing.T) {
	const host, delay, quiet = 7, time.Minute, 500 * time.Millisecond
	for _, tc := range []struct {
		name   string
		silent time.Duration // time without contact
		late   bool          // the request is cut off after the lapse
		again  bool          // the holder asks for the point before the other agent does
	}{
		{"the holder is told that an agent waits", 6 * time.Second, false, false},
		{"the holder asks again", 6 * time.Second, false, true},
		{"the holder has forgotten the point", 30 * time.Second, false, false},
		{"the request is cut off", 6 * time.Second, true, false},
		{"the request is cut off, the holder asks again", 6 * time.Second, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := time.Unix(1e9, 0)
			v, point := pair() // agent 1 grants point
			holder, grantor := opened(2, v, now), opened(1, v, now)
			for _, p := range []*Peer{holder, grantor} {
				p.cfg.Batch = 200
			}
			step := func(contact bool) {
				t.Helper()
				now = now.Add(250 * time.Millisecond)
				grantor.Contact(now, now)
				if contact {
					holder.Contact(now, now)
				}
				for _, ps := range [][2]*Peer{{holder, grantor}, {grantor, holder}} {
					for _, b := range ps[0].Calls(now) {
						ans, err := ps[1].Serve(b, now)
						if !contact || err != nil {
							ps[0].Failed(b, now)
						} else if err := ps[0].Answered(ans, now); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			holder.Ready(point, quiet, now)
			step(true)
			request := func(rest time.Duration) {
				t.Helper()
				if ok, at := holder.Ready(point, quiet, now); !ok || !holder.Begin(now, point) {
					t.Fatalf("not granted until %v", at)
				}
				if rest > 0 {
					holder.Keep(point, Note{Key: host, Rest: rest, Delay: delay}, now)
					holder.Used(point, now, quiet, true, now)
				}
			}
			request(time.Nanosecond) // the grantor hears of the host's delay
			step(true)
			step(true)
			if request(delay); tc.late {
				now = now.Add(time.Second)
				request(0)
			}
			for range tc.silent / (250 * time.Millisecond) {
				step(false)
				if lost := holder.Lost(now); len(lost) > 0 {
					holder.Keep(point, Note{Key: host, Rest: delay, Delay: delay}, now)
					holder.Used(point, now, quiet, true, now)
				}
			}
			used := now
			if !tc.late {
				used = now.Add(-tc.silent)
			}
			if tc.again {
				step(true)
				holder.Ready(point, quiet, now)
				step(true)
				step(true)
				if l := holder.holder.holdings[point]; l == nil || l.state != held {
					t.Fatal("the holder did not get the point again")
				}
			}
			for until := used; ; step(true) {
				if ok, _ := grantor.Ready(point, quiet, now); ok {
					if n, ago, ok := grantor.Kept(point, host, now); ok {
						until = now.Add(n.Rest)
						if ago >= 0 && until.Before(now.Add(delay-ago)) {
							until = now.Add(delay - ago)
						}
					}
					if !now.Before(until) {
						break
					}
				}
				if now.Sub(used) > 4*delay {
					t.Fatal("the next agent never gets the point")
				}
			}
			if gap := now.Sub(used); gap < delay {
				t.Errorf("the next agent begins %v after the last request, not %v", gap, delay)
			}
		})
	}
}
