package frontier

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// fairWindow returns the span of virtual time for which fairness returns the worst share: a third of all, at most 10 s.
func fairWindow(length time.Duration) time.Duration { return min(length/3, 10*time.Second) }

// fairness fetches in virtual time. Workers call Next, each response takes took, and groups of hosts are quiet for
// delay after it. A group is a host, or all hosts at one address; left has the number of its links. fairness returns
// the number of fetches, and the number that politeness and the workers allow: in each step the smaller of the
// workers' speed and the speed of the groups with links, each 1/(delay + took). worst is the least share of that
// number in a fairWindow in which anything could be fetched.
func fairness(
	t *testing.T, f *Frontier, left map[string]int, group func(host string) string, workers int,
	delay, took, step, length time.Duration,
) (fetched int, ceiling, worst float64) {
	t.Helper()
	type visit struct {
		host string
		end  time.Time
	}
	var running []visit // in the order of their ends, because all take equally long
	now := start
	started, addresses := map[string]bool{}, map[string]netip.Addr{}
	next := netip.AddrFrom4([4]byte{10, 0, 0, 1})
	turn := float64(delay+took) / float64(time.Second)
	fresh := len(left) // groups that were never fetched and have no quiet time yet
	worst = 1
	span := fairWindow(length)
	window, windowFetched, windowCeiling := start.Add(span), 0, 0.0
	for now.Sub(start) < length {
		for len(running) > 0 && !running[0].end.After(now) {
			must.Do(t, f.Done(running[0].host, Done{}, running[0].end))
			running = running[1:]
		}
		bound := float64(workers) * float64(step) / float64(took)
		// A fresh group can be fetched at once, the others once per turn.
		groups := float64(fresh) + float64(len(left)-fresh)*float64(step)/float64(time.Second)/turn
		ceiling += min(bound, groups)
		for len(running) < workers {
			task, wake, ok := f.Next(now)
			if !ok {
				if !wake.IsZero() && wake.Sub(now) < time.Microsecond {
					now = wake // Next goes on reading the pool
					continue
				}
				break
			}
			g := group(task.Host)
			if !task.Addr.IsValid() {
				if _, ok := addresses[g]; !ok {
					addresses[g], next = next, next.Next()
				}
				f.Resolved(task.Host, addresses[g], now.Add(time.Hour), now)
				continue
			}
			running = append(running, visit{task.Host, now.Add(took)})
			fetched++
			if !started[g] {
				started[g] = true
				fresh--
			}
			if left[g]--; left[g] == 0 {
				delete(left, g)
			}
		}
		now = start.Add(now.Sub(start).Truncate(step) + step)
		if !now.Before(window) {
			if possible := ceiling - windowCeiling; possible >= 20 {
				worst = min(worst, float64(fetched-windowFetched)/possible)
			}
			window, windowFetched, windowCeiling = window.Add(span), fetched, ceiling
		}
	}
	return fetched, ceiling, worst
}

// single has each host in a group of its own.
func single(host string) string { return host }

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
			fetched, ceiling, worst := fairness(t, f, left, single, tt.workers, delay, took, step, length)
			s := f.Stats()
			t.Logf("%d fetched of %.0f possible (%.3f), in the worst %v %.3f; at the end %+v", fetched, ceiling,
				float64(fetched)/ceiling, fairWindow(length), worst, s)
			if share := float64(fetched) / ceiling; share < 0.95 || share > 1.05 || worst < 0.95 {
				t.Errorf("%d fetched, want 0.95 to 1.05 of %.0f; in the worst %v %.3f", fetched, ceiling,
					fairWindow(length), worst)
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

// TestSharedAddress checks that many hosts at one address, which were pushed first, do not slow the other hosts, with a
// whale and a crowd beside them or without.
func TestSharedAddress(t *testing.T) {
	const delay, took, step = time.Second, 100 * time.Millisecond, 10 * time.Millisecond
	size := testtier.Rounds(1, 10)
	ordinary, each, shared, length := 100*size, 60, 500*size, 30*time.Second
	for _, all := range []bool{false, true} {
		f := open(t, Config{HostDelay: delay, IPDelay: delay})
		group := func(host string) string {
			if strings.HasPrefix(host, "shared") {
				return "shared"
			}
			return host
		}
		left := map[string]int{}
		add := func(host string, links int) {
			var batch []link.Link
			for i := range links {
				batch = append(batch, linkOf(t, fmt.Sprintf("http://%s/%d", host, i), 0))
			}
			left[group(host)] += links
			must.Do(t, f.Push(batch))
		}
		if all {
			add("whale.example", 10_000*size)
		}
		for i := range shared {
			add(fmt.Sprintf("shared%d.example", i), 10)
		}
		for i := range 1000 * size {
			if all {
				add(fmt.Sprintf("crowd%d.example", i), 1)
			}
		}
		for i := range ordinary {
			add(fmt.Sprintf("h%d.example", i), each)
		}
		fetched, ceiling, worst := fairness(t, f, left, group, 50*size, delay, took, step, length)
		t.Logf("%d fetched of %.0f possible (%.3f), in the worst %v %.3f", fetched, ceiling, float64(fetched)/ceiling,
			fairWindow(length), worst)
		if share := float64(fetched) / ceiling; share < 0.95 || share > 1.05 || worst < 0.95 {
			t.Errorf("all %v: %d fetched, want 0.95 to 1.05 of %.0f; in the worst %v %.3f", all, fetched, ceiling,
				fairWindow(length), worst)
		}
		had := ordinary * each
		for i := range ordinary {
			had -= left[fmt.Sprintf("h%d.example", i)]
		}
		if turns := ordinary * int(length/(delay+took)); had < turns*9/10 {
			t.Errorf("all %v: the ordinary hosts had %d fetches, want at least 0.9 of %d", all, had, turns)
		}
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
