package frontier

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// fairness fetches for a time that is virtual: workers ask Next, each response
// takes a while, and hosts are quiet for delay after it. It returns the number
// of fetches, and what politeness and the workers would have let: in each step
// the lesser of the workers' speed and of the hosts with work, each 1/(delay +
// took).
func fairness(t *testing.T, f *Frontier, left map[string]int, workers int, delay, took, step, length time.Duration) (fetched int, ceiling float64) {
	t.Helper()
	type visit struct {
		host string
		end  time.Time
	}
	var running []visit // by end: all take as long
	now := start
	started := map[string]bool{}
	turn := float64(delay+took) / float64(time.Second)
	fresh := len(left) // hosts never asked, which owe nothing yet
	for now.Sub(start) < length {
		for len(running) > 0 && !running[0].end.After(now) {
			if err := f.Done(running[0].host, Done{}, running[0].end); err != nil {
				t.Fatal(err)
			}
			running = running[1:]
		}
		bound := float64(workers) * float64(step) / float64(took)
		// A fresh host can be asked at once, the others once each turn.
		hosts := float64(fresh) + float64(len(left)-fresh)*float64(step)/float64(time.Second)/turn
		ceiling += min(bound, hosts)
		for len(running) < workers {
			task, wake, ok := f.Next(now)
			if !ok {
				if !wake.IsZero() && wake.Sub(now) < time.Microsecond {
					now = wake // the pool is read on
					continue
				}
				break
			}
			if !task.Addr.IsValid() {
				f.Resolved(task.Host, netip.AddrFrom4([4]byte{192, 0, 2, 1}), now.Add(time.Hour), now)
				continue
			}
			running = append(running, visit{task.Host, now.Add(took)})
			fetched++
			if !started[task.Host] {
				started[task.Host] = true
				fresh--
			}
			if left[task.Host]--; left[task.Host] == 0 {
				delete(left, task.Host)
			}
		}
		now = start.Add(now.Sub(start).Truncate(step) + step)
	}
	return fetched, ceiling
}

// TestWhaleAndCrowd: a host with a million links and 100,000 hosts with one do
// not slow the crawl below what politeness lets it, whoever stands in front.
func TestWhaleAndCrowd(t *testing.T) {
	if testing.Short() {
		t.Skip("a million links")
	}
	const (
		delay, took, step = time.Second, 100 * time.Millisecond, 10 * time.Millisecond
		whaleLinks, crowd = 1_000_000, 100_000
		length            = 60 * time.Second
	)
	for _, tt := range []struct {
		name       string
		whaleFirst bool
		workers    int
	}{
		{"the whale first, few workers", true, 20},
		{"the whale first", true, 300},
		{"the crowd first", false, 300},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := open(t, Config{HostDelay: delay, MemoryBytes: 32 << 20})
			left := map[string]int{}
			var batch []weburl.Link
			add := func(url string) {
				l := link(t, url, 0)
				left[l.URL.Host()]++
				if batch = append(batch, l); len(batch) == 1000 {
					if err := f.Push(batch); err != nil {
						t.Fatal(err)
					}
					batch = batch[:0]
				}
			}
			whale := func() {
				for i := range whaleLinks {
					add(fmt.Sprintf("http://whale.example/%d", i))
				}
			}
			if tt.whaleFirst {
				whale()
			}
			for i := range crowd {
				add(fmt.Sprintf("http://h%d.example/", i))
			}
			if !tt.whaleFirst {
				whale()
			}
			fetched, ceiling := fairness(t, f, left, tt.workers, delay, took, step, length)
			s := f.Stats()
			t.Logf("%d fetched of %.0f that politeness and workers let (%.3f); at the end %+v", fetched, ceiling, float64(fetched)/ceiling, s)
			if float64(fetched) < 0.95*ceiling {
				t.Errorf("%d fetched, less than 0.95 of %.0f", fetched, ceiling)
			}
			// In the end of the crowd the whale has had its turn each time.
			if got := whaleLinks - left["whale.example"]; tt.whaleFirst && got < int(length/(delay+took))*9/10 {
				t.Errorf("%d of the whale in %v", got, length)
			}
			if s.RAMBytes > 64<<20 {
				t.Errorf("%d bytes in RAM with a budget of 32 MiB", s.RAMBytes)
			}
		})
	}
}

// TestLevelsBehindCrowd: a level comes first, in politeness, though its links
// stand behind a whale and a crowd in the pool.
func TestLevelsBehindCrowd(t *testing.T) {
	f := open(t, Config{HostDelay: time.Second, Active: 20, MemoryBytes: 1 << 20})
	for i := range 20_000 {
		push(t, f, fmt.Sprintf("http://h%d.example/", i))
	}
	for i := range 5000 {
		if err := f.Push([]weburl.Link{link(t, fmt.Sprintf("http://whale.example/%d", i), 2)}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 {
		if err := f.Push([]weburl.Link{link(t, fmt.Sprintf("http://up%d.example/", i), 2)}); err != nil {
			t.Fatal(err)
		}
	}
	if s := f.Stats(); s.Pooled < 25_000 {
		t.Fatalf("%d links in the pools", s.Pooled)
	}
	// The whale's first link, then all else of its level, then the level below.
	// While the whale is read past, which takes a few calls, hosts that are
	// ready below have a turn.
	low, high := 0, 0
	for high < 301 {
		l, ok := take(t, f, start)
		if !ok {
			t.Fatalf("after %d of the level: %v", high, f.Err())
		}
		if l.Level == 2 {
			high++
		} else if low++; low > 100 {
			t.Fatalf("%d of level 0 while %d of level 2 wait", low, 301-high)
		}
	}
	t.Logf("%d of the level below came before the last of 301", low)
	if l, ok := take(t, f, start); !ok || l.Level != 0 {
		t.Errorf("then %v, %v", l, ok)
	}
	if l, ok := take(t, f, start.Add(time.Second)); !ok || l.URL.String() != "http://whale.example/1" {
		t.Errorf("a second later %v, %v, want the whale", l, ok)
	}
}
