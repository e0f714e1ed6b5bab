package frontier

import (
	"fmt"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

func TestActiveFor(t *testing.T) {
	for _, tt := range []struct {
		speed  float64
		quiet  time.Duration
		memory int64
		want   int
	}{
		{0, 0, 1 << 30, activeMin},
		{120, 30 * time.Second, 1 << 30, 3600}, // the figures of the Polybot paper
		{1000, 2 * time.Second, 1 << 30, 2000},
		{1e4, 0, 1 << 30, 10_000}, // without a quiet time: the work of one second
		{1e4, 10 * time.Millisecond, 1 << 30, 10_000},
		{1e300, time.Hour, 1 << 30, 1 << 19},
		{1e4, 10 * time.Second, 64 << 20, 1 << 15},
		{1e4, 10 * time.Second, 1, activeMin},
	} {
		if got := activeFor(tt.speed, tt.quiet, tt.memory); got != tt.want {
			t.Errorf("activeFor(%v, %v, %d) = %d, want %d", tt.speed, tt.quiet, tt.memory, got, tt.want)
		}
	}
}

// TestActiveFollowsSpeed checks that few hosts are in RAM while a crawl is slow, as many as its speed requires while it
// is fast, and few again when it is slow again.
func TestActiveFollowsSpeed(t *testing.T) {
	const delay, took = 2 * time.Second, 100 * time.Millisecond
	f := open(t, Config{HostDelay: delay, NoAddresses: true, MemoryBytes: 64 << 20})
	f.pools.frameBytes = 8 << 10
	const hosts, each = 30_000, 6
	for range each {
		var ls []link.Link
		for h := range hosts {
			ls = append(ls, linkOf(t, fmt.Sprintf("http://h%d.example/", h), 0))
		}
		bulk(t, f, ls, 1000)
	}
	now := start
	type visit struct {
		host string
		end  time.Time
	}
	var running []visit
	// crawl fetches with so many workers for a while. It returns the speed in requests/s and the largest number of
	// ready hosts.
	crawl := func(workers int, length time.Duration) (speed float64, most int) {
		t.Helper()
		n := 0
		for end := now.Add(length); now.Before(end); {
			wake := now.Add(took)
			for len(running) < workers {
				task, at, ok := f.Next(now)
				if !ok {
					if f.Err() != nil {
						t.Fatal(f.Err())
					}
					if at.After(now) && at.Before(wake) {
						wake = at
					}
					break
				}
				running = append(running, visit{task.Host, now.Add(took)})
				n++
			}
			most = max(most, f.Stats().Ready)
			if len(running) > 0 && running[0].end.Before(wake) {
				wake = running[0].end
			}
			now = wake
			for len(running) > 0 && !running[0].end.After(now) {
				must.Do(t, f.Done(running[0].host, Done{}, now))
				running = running[1:]
			}
		}
		return float64(n) / length.Seconds(), most
	}
	const frame = 400 // largest number of hosts in one frame
	if f.Active() != activeMin {
		t.Errorf("%d active before the first request, want %d", f.Active(), activeMin)
	}
	speed, most := crawl(2, 30*time.Second)
	if f.Active() != activeMin || most > activeMin+frame || speed < 19 || speed > 21 {
		t.Errorf("slow: %.0f requests/s, %d active, up to %d ready", speed, f.Active(), most)
	}
	speed, most = crawl(200, 40*time.Second)
	want := int(speed * delay.Seconds())
	tooFew, tooMany := f.Active() < want*9/10 || most < want*9/10, f.Active() > want*11/10 || most > want*11/10+frame
	if speed < 1900 || tooFew || tooMany {
		t.Errorf("fast: %.0f requests/s, %d active, up to %d ready, want %d", speed, f.Active(), most, want)
	}
	crawl(2, 8*time.Minute)
	if got := f.Active(); got != activeMin {
		t.Errorf("slow again: %d active, want %d", got, activeMin)
	}
	must.Do(t, f.check())
	// A configured number does not change.
	for _, n := range []int{7, -1} {
		g := open(t, Config{HostDelay: delay, Active: n})
		push(t, g, "http://a.example/")
		task := begin(t, g, start)
		must.Do(t, g.Done(task.Host, Done{}, start.Add(time.Minute)))
		g.Next(start.Add(2 * time.Minute))
		if g.Active() != n {
			t.Errorf("%d active, want the configured %d", g.Active(), n)
		}
	}
}
