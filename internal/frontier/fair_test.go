package frontier

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// fairness fetches in virtual time. Workers call Next, each response takes took, and hosts are quiet for delay after
// it. It returns the number of fetches, and the number that politeness and the workers allow: in each step the smaller
// of the workers' speed and the speed of the hosts with links, each 1/(delay + took).
func fairness(
	t *testing.T, f *Frontier, left map[string]int, workers int, delay, took, step, length time.Duration,
) (fetched int, ceiling float64) {
	t.Helper()
	type visit struct {
		host string
		end  time.Time
	}
	var running []visit // in the order of their ends, because all take equally long
	now := start
	started := map[string]bool{}
	turn := float64(delay+took) / float64(time.Second)
	fresh := len(left) // hosts that were never fetched and have no quiet time yet
	for now.Sub(start) < length {
		for len(running) > 0 && !running[0].end.After(now) {
			must.Do(t, f.Done(running[0].host, Done{}, running[0].end))
			running = running[1:]
		}
		bound := float64(workers) * float64(step) / float64(took)
		// A fresh host can be fetched at once, the others once per turn.
		hosts := float64(fresh) + float64(len(left)-fresh)*float64(step)/float64(time.Second)/turn
		ceiling += min(bound, hosts)
		for len(running) < workers {
			task, wake, ok := f.Next(now)
			if !ok {
				if !wake.IsZero() && wake.Sub(now) < time.Microsecond {
					now = wake // Next goes on reading the pool
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

// TestWhaleAndCrowd checks that a host with many links and a tenth as many hosts with one link each do not slow the
// crawl below the speed that politeness allows, in whichever order they were pushed.
func TestWhaleAndCrowd(t *testing.T) {
	const delay, took, step = time.Second, 100 * time.Millisecond, 10 * time.Millisecond
	size := testtier.Rounds(10, 100)
	whaleLinks, crowd, memory := size*10_000, size*1000, int64(size)*32<<20/100
	length := time.Duration(size) * 600 * time.Millisecond
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
			f := open(t, Config{HostDelay: delay, MemoryBytes: memory})
			left := map[string]int{}
			var batch []link.Link
			add := func(url string) {
				l := linkOf(t, url, 0)
				left[l.URL.Host()]++
				if batch = append(batch, l); len(batch) == 1000 {
					must.Do(t, f.Push(batch))
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
			t.Logf("%d fetched of %.0f possible (%.3f); at the end %+v", fetched, ceiling, float64(fetched)/ceiling, s)
			if float64(fetched) < 0.95*ceiling {
				t.Errorf("%d fetched, want at least 0.95 of %.0f", fetched, ceiling)
			}
			// The whale must have had all of its turns.
			if got := whaleLinks - left["whale.example"]; tt.whaleFirst && got < int(length/(delay+took))*9/10 {
				t.Errorf("%d links of the whale fetched in %v", got, length)
			}
			if s.RAMBytes > 2*memory {
				t.Errorf("%d bytes in RAM with a budget of %d, want at most twice that", s.RAMBytes, memory)
			}
		})
	}
}

// TestLevelsBehindCrowd checks that links of a higher level come first, as far as politeness allows, even if they are
// after a whale and many hosts in the pool.
func TestLevelsBehindCrowd(t *testing.T) {
	f := open(t, Config{HostDelay: time.Second, Active: 20, MemoryBytes: 1 << 20})
	for i := range 20_000 {
		push(t, f, fmt.Sprintf("http://h%d.example/", i))
	}
	for i := range 5000 {
		must.Do(t, f.Push([]link.Link{linkOf(t, fmt.Sprintf("http://whale.example/%d", i), 2)}))
	}
	for i := range 300 {
		must.Do(t, f.Push([]link.Link{linkOf(t, fmt.Sprintf("http://up%d.example/", i), 2)}))
	}
	if s := f.Stats(); s.Pooled < 25_000 {
		t.Fatalf("%d links in the pools, want at least 25000", s.Pooled)
	}
	// First come the whale's first link and the others of its level, then the level below. The frontier reads past the
	// whale in several calls; meanwhile ready hosts of the level below have a turn.
	low, high := 0, 0
	for high < 301 {
		l, ok := take(t, f, start)
		if !ok {
			t.Fatalf("nothing is due after %d links of level 2: %v", high, f.Err())
		}
		if l.Level == 2 {
			high++
		} else if low++; low > 100 {
			t.Fatalf("%d links of level 0 came while %d of level 2 waited", low, 301-high)
		}
	}
	t.Logf("%d links of the level below came before the last of 301", low)
	if l, ok := take(t, f, start); !ok || l.Level != 0 {
		t.Errorf("after level 2: %v, %v; want a link of level 0", l, ok)
	}
	if l, ok := take(t, f, start.Add(time.Second)); !ok || l.URL.String() != "http://whale.example/1" {
		t.Errorf("a second later: %v, %v; want the whale's second link", l, ok)
	}
}
