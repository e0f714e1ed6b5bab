package sites

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Several agents find hosts while coordinators fail, promise and forget, and rosters change. No host is lost or
// assigned twice, and agents with the same roster agree.
func TestTogether(t *testing.T) {
	for round := range testtier.Rounds(5, 50) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			bubble(t, func(t *testing.T) { together(t, testseed.Rand(t)) })
		})
	}
}

func together(t *testing.T, rng *rand.Rand) {
	names := []string{"a", "b", "c", "d"}
	f := newFake(names...)
	members := f.members
	var agents []*subject
	for i, name := range names {
		agents = append(agents, start(t, f, testdisk.NewMem(), func(c *Config) {
			c.Self.Name, c.Source = name, as{f, name}
			if i == 0 {
				c.MemoryBytes, c.Waiting = 16<<10, 50
			}
		}))
	}
	asked := map[string]bool{}
	host := func() string { return fmt.Sprintf("h%d.example", rng.IntN(20+len(asked)*2)) }
	for range 1500 {
		for range rng.IntN(4) {
			h := host()
			asked[h] = true
			agents[rng.IntN(len(agents))].Owner(h)
		}
		switch x := rng.IntN(200); {
		case x < 4:
			f.change(func() { f.leader = []string{c1, c2, c3}[rng.IntN(3)] })
		case x < 7:
			f.change(func() { f.away[[]string{c1, c2, c3}[rng.IntN(3)]] = true })
		case x < 9:
			f.change(func() { f.mute[[]string{c1, c2, c3}[rng.IntN(3)]] = true })
		case x < 18:
			f.change(func() { clear(f.away); clear(f.mute) })
		case x < 22: // what it looks up now is forgotten
			f.change(func() { f.lookup = -1 })
		case x < 30:
			f.change(func() { f.lookup, f.hint = time.Duration(rng.IntN(3000))*time.Millisecond, rng.IntN(2) == 0 })
		case x < 34:
			f.change(func() { f.dead[host()] = rng.IntN(3) })
		case x < 40:
			f.change(func() {
				f.members = nil
				for _, m := range members {
					if rng.IntN(3) > 0 {
						f.members = append(f.members, m)
					}
				}
				if len(f.members) == 0 {
					f.members = members[:1]
				}
				f.roster()
			})
		case x < 41:
			f.change(func() { f.max = rng.IntN(3) })
		}
		sleep(time.Duration(rng.IntN(300)) * time.Millisecond)
		h := host()
		agree(t, agents, h)
	}
	f.change(func() {
		clear(f.away)
		clear(f.mute)
		f.lookup, f.dead, f.members = 0, nil, members
		f.roster()
	})
	sleep(3 * time.Minute) // forgotten promises are asked for again after a minute at most
	for h := range asked {
		for _, a := range agents {
			a.Owner(h)
		}
		sleep(time.Millisecond)
	}
	sleep(3 * time.Second)
	of := map[string]string{}
	for i := range f.entries {
		for _, s := range f.entries[i].Shares {
			for _, h := range s.Hosts {
				if of[h] != "" {
					t.Fatalf("%s is assigned twice", h)
				}
				of[h] = s.Agent
			}
		}
	}
	for _, a := range agents {
		var hosts []string
		for h := range asked {
			hosts = append(hosts, h)
		}
		got, err := a.Lookup(t.Context(), hosts)
		must(t, err)
		for i, h := range hosts {
			if got[i] != of[h] || got[i] == "" {
				t.Errorf("agent %s: the owner of %s is %q, want %q", a.cfg.Self.Name, h, got[i], of[h])
			}
		}
		if st := a.Status(); st.Waiting != 0 || st.Waits != "" || st.Number != uint64(len(f.entries)) {
			t.Errorf("agent %s: %+v", a.cfg.Self.Name, st)
		}
		if st := a.Status(); a == agents[0] && (st.Refused == 0 || st.Found == 0) {
			t.Errorf("agent a has had room for all: %+v", st)
		}
	}
	for _, a := range agents {
		must(t, a.stop())
	}
}

// agree checks that agents with the same roster do not name different owners.
func agree(t *testing.T, agents []*subject, host string) {
	t.Helper()
	of := map[uint64]string{}
	for _, a := range agents {
		view := a.View()
		p, ok := a.cache.get(a.cache.hash(host)) // without asking for it
		if !ok || view == 0 {
			continue
		}
		name, _ := a.owners.Load().owner(p, weburl.HostKey(host))
		if was, ok := of[view]; ok && was != name {
			t.Fatalf("roster %d: %s belongs to %q and to %q", view, host, was, name)
		}
		of[view] = name
	}
}
