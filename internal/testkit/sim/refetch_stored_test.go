package sim

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
)

// TestStoredPagesAreNotLost: with --on-loss refetch and a store, the pages of a lost agent are fetched again that no
// complete segment has, and no others. Each page is in a segment or on a disk at the end. While the store is away, the
// agents wait for it.
func TestStoredPagesAreNotLost(t *testing.T) {
	const s = time.Second
	p := Plan{Seed: 61, Agents: 3, Hosts: 45, Pages: 20, Delay: 400 * time.Millisecond, Latency: time.Millisecond,
		OnLoss: membership.LossRefetch}
	late := Fault{Kind: Lose, Agent: 2, At: 0.98}
	for _, c := range []struct {
		name   string
		faults []Fault
		away   time.Duration // how long the store does not answer after the loss
		lost   []string
	}{
		{"late", []Fault{late}, 0, []string{"a2"}},
		{"early", []Fault{{Kind: Lose, Agent: 2, At: 0.9}}, 0, []string{"a2"}},
		{"away", []Fault{late}, 5 * time.Minute, []string{"a2"}},
		{"second loss", []Fault{{Kind: Lose, Agent: 2, At: 0.9}, {Kind: Lose, Agent: 3, After: 40 * s}}, 0,
			[]string{"a2", "a3"}},
	} {
		runNamed(t, c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := p
				p.Faults = c.faults
				store := newStore(p.Seed)
				story, v := tellIn(t, p, nil, store, func(s *story) {
					if c.away > 0 {
						s.still = append(s.still, excuse{from: start, to: start.Add(c.away + 3*time.Minute)})
						// The others notice the loss 72 s after the beginning.
						time.AfterFunc(74*time.Second, func() { store.Fail(teststore.Faults{LostRequest: 1}) })
						time.AfterFunc(74*time.Second+c.away, func() { store.Fail(teststore.Faults{}) })
					}
				})
				t.Log(v)
				if v.Bad() || len(v.Struck) < len(c.faults) {
					t.Errorf("the story broke a promise, or had only the faults %v", v.Struck)
				}
				if took := time.Since(start); took < c.away {
					t.Errorf("it ends after %v, while the store is away", took)
				}
				of := func(agent string) bool {
					for _, name := range c.lost {
						if agent == name {
							return true
						}
					}
					return false
				}
				stored := must.Get(inStore(store, of))(t)
				again, both := map[string]bool{}, 0
				for _, a := range story.actors {
					entries, err := a.mem.ReadDir(crawlDir + "/reports")
					if err != nil && !errors.Is(err, fs.ErrNotExist) { // a lost disk
						t.Error(err)
					}
					for _, e := range entries {
						if !strings.HasPrefix(e.Name(), "refetched-") {
							continue
						}
						text := must.Get(disk.ReadFile(a.mem, crawlDir+"/reports/"+e.Name(), 1<<20))(t)
						for line := range strings.Lines(string(text)) {
							if u := strings.TrimSpace(line); !strings.HasPrefix(u, "#") {
								again[u] = true
								if stored[u] {
									both++
								}
							}
						}
					}
				}
				all := must.Get(inStore(store, func(string) bool { return true }))(t)
				story.judge.truth.Each(func(host, number int64) {
					if url := story.judge.truth.URL(host, number); !all[url] {
						t.Errorf("no segment has %s", url)
					}
				})
				t.Logf("%d pages of lost agents are in the store, %d were fetched again, %d of these are stored",
					len(stored), len(again), both)
				if len(stored) < 50 || both > 0 || len(again) == 0 {
					t.Errorf("%d pages are in the store, %d were fetched again, %d of them without need", len(stored),
						len(again), both)
				}
				if t.Failed() {
					t.Log(strings.Join(v.Log, "\n"))
					t.Log(strings.Join(story.agentEvents(), "\n"))
				}
			})
		})
	}
}
