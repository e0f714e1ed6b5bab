package sites

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// FuzzFollow lets a coordinator answer with entries that are damaged, cut, missing, repeated, in another order or
// forged. The agent does not panic, and keeps its bounds. All ways to ask for the owner of a host agree, as long as no
// further entry is applied.
func FuzzFollow(f *testing.F) {
	chance := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		wrong := make([]byte, 3*chance.IntN(30))
		for i := range wrong {
			wrong[i] = byte(chance.Uint32())
		}
		f.Add(wrong)
	}
	f.Fuzz(func(t *testing.T, wrong []byte) {
		if len(wrong) > 300 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			fk, hosts := newFake("a", "b", "c"), []string(nil)
			for i := range 12 {
				hosts = append(hosts, fmt.Sprintf("h%02d.example", i))
				fk.assign(hosts[i])
				if i%5 == 4 {
					fk.members = fk.members[:2+i%2]
					fk.roster()
				}
			}
			fk.max = 3
			fk.mangle = func(ans *Answer) {
				if len(wrong) >= 3 {
					distort(ans, wrong[0]%9, int(wrong[1]), int(wrong[2]), hosts)
					wrong = wrong[3:]
				}
			}
			a := start(t, fk, testdisk.NewMem(), func(c *Config) { c.Waiting = 8 })
			said := map[string]string{}
			for range 100 {
				sleep(60 * time.Millisecond)
				a.agree(hosts, said)
			}
			if s := a.Status(); s.Waiting > 8 || s.CacheBytes+s.TableBytes > 1<<20 {
				t.Errorf("%d hosts wait, %d bytes", s.Waiting, s.CacheBytes+s.TableBytes)
			}
			_ = a.stop() // forged entries may be a reason to stop
		})
	})
}

// If entries contradict each other, the later one holds in the cache, in whatever order the cache hears of them.
func TestContradiction(t *testing.T) {
	c := newCache(1 << 10)
	h := c.hash("a.example")
	for _, tt := range []struct{ put, want place }{
		{placeOf(1, 5), placeOf(1, 5)}, {placeOf(2, 9), placeOf(2, 9)}, {placeOf(1, 5), placeOf(2, 9)},
		{placeOf(3, 9), placeOf(3, 9)},
	} {
		c.put(h, tt.put, false)
		if got, ok := c.get(h); !ok || got != tt.want {
			t.Errorf("after %x: %x, want %x", tt.put, got, tt.want)
		}
	}
}

// distort makes an answer wrong.
func distort(ans *Answer, how byte, i, with int, hosts []string) {
	var entries []assignment.Entry
	for rest := ans.Entries; len(rest) > 0; {
		e, after, err := assignment.Decode(rest)
		if err != nil {
			break
		}
		entries, rest = append(entries, e), after
	}
	switch {
	case how == 0:
		ans.Last = uint64(i) << (with % 60)
	case how == 1:
		ans.Term, ans.Member = uint64(i), with%2 > 0
	case len(entries) == 0:
		return
	case how == 2:
		ans.Entries[i*256/max(1, with)%len(ans.Entries)] ^= byte(1 + with)
		return
	case how == 3:
		ans.Entries = ans.Entries[:i%len(ans.Entries)]
		return
	case how == 4:
		entries = entries[1:]
	case how == 5:
		slices.Reverse(entries)
	case how == 6:
		entries = append(entries, entries[0])
	default: // a host gets another agent, or two at once
		e := &entries[i%len(entries)]
		h := hosts[with%len(hosts)]
		e.Roster, e.Shares = nil, []assignment.Share{{Agent: "abc"[i%3 : i%3+1], Hosts: []string{h}}}
		if how == 8 {
			e.Shares = []assignment.Share{{Agent: "b", Hosts: []string{h}}, {Agent: "c", Hosts: []string{h}}}
		}
	}
	ans.Entries = nil
	for _, e := range entries {
		ans.Entries = e.AppendTo(ans.Entries)
	}
}

// agree asks for the owners of hosts in all ways. said has what was said by version and host.
func (a *subject) agree(hosts []string, said map[string]string) {
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Second)
	defer cancel()
	at := a.Number()
	var each [3][]string
	for _, h := range hosts {
		owner, _ := a.Owner(h)
		tenant, _, _ := a.Tenure(h)
		each[0], each[1] = append(each[0], owner), append(each[1], tenant)
	}
	if each[2], _ = a.Lookup(ctx, hosts); a.Number() != at {
		return // an entry has been applied since
	}
	for _, names := range each {
		for i, name := range names {
			version := fmt.Sprint(at, " ", hosts[i])
			if was := said[version]; name != "" && was != "" && was != name {
				a.t.Fatalf("%s: %s, and %s", version, was, name)
			}
			if name != "" {
				said[version] = name
			}
		}
	}
}
