package frontier

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestGather checks that with Gather a host has many requests in a row, even if its links are scattered among those of
// many hosts. Every link must come out once, with its number.
func TestGather(t *testing.T) {
	for seed := range uint64(testtier.Rounds(8, 30)) {
		rng := rand.New(rand.NewPCG(seed, 21))
		const hosts, active = 300, 10
		rows := map[bool]int{}
		for _, gather := range []bool{false, true} {
			f := open(t, Config{HostDelay: -1, NoAddresses: true, Active: active,
				Gather: gather, MemoryBytes: []int64{20_000, 1 << 20}[seed%2], SegmentBytes: 10_000})
			f.pools.frameBytes = 300
			want := map[uint64]string{}
			pages := map[int]int{}
			push := func(h int) {
				pages[h]++
				u, err := weburl.Parse(fmt.Sprintf("http://h%d.example/%d", h, pages[h]))
				must.Do(t, err)
				number := f.number + 1 + uint64(rng.IntN(2))
				want[number] = u.String()
				must.Do(t, f.PushAt([]link.Link{{URL: u}}, []uint64{number}))
			}
			for h := range hosts {
				push(h)
			}
			now, last := start, ""
			for {
				task, _, ok := f.Next(now)
				if !ok {
					break
				}
				if want[task.Number] != task.Link.URL.String() {
					t.Fatalf("seed %d, gather %v: number %d is %s, want %q",
						seed, gather, task.Number, task.Link.URL, want[task.Number])
				}
				delete(want, task.Number)
				if task.Host != last {
					rows[gather]++
					last = task.Host
				}
				// A page links to pages of its host and to another host.
				for range rng.IntN(3) {
					h := rng.IntN(hosts)
					if rng.IntN(4) > 0 {
						must.Get(fmt.Sscanf(task.Host, "h%d.example", &h))(t)
					}
					if pages[h] < 20 {
						push(h)
					}
				}
				must.Do(t, f.Done(task.Host, Done{}, now))
			}
			if f.Err() != nil || len(want) > 0 || f.Pending() != 0 || f.Len() != 0 {
				t.Fatalf("seed %d, gather %v: %d links did not come out, %d pending, %v",
					seed, gather, len(want), f.Pending(), f.Err())
			}
			must.Do(t, f.check())
		}
		if 2*rows[true] > rows[false] {
			t.Errorf("seed %d: %d runs of requests to one host with Gather, %d without; want at most half",
				seed, rows[true], rows[false])
		}
	}
}
