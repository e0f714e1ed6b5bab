package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	logic "github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// A follower is an agent without a crawl: it follows the coordinators, and asks for hosts.
type follower struct {
	s      *story
	name   string
	number int
	client *rpc.Client

	mu      sync.Mutex // guards the fields below
	crawl   rpc.ID
	entries []string // as text
	of      map[string]string
	asked   map[string]bool // hosts of which the coordinators have said that they are assigned
}

// at returns what calls the coordinator at addr.
func (f *follower) at(addr string) logic.Client {
	return logic.Client{Peer: f.client.Coordinator(addr)}
}

// follow asks one coordinator after the other until ctx ends.
func (f *follower) follow(ctx context.Context) {
	leader, stamp := "", uint64(0)
	for i := 0; ctx.Err() == nil; i++ {
		addr := f.s.coordinators[i%len(f.s.coordinators)].addr.String()
		if leader != "" {
			addr = leader
		}
		f.mu.Lock()
		from := uint64(len(f.entries)) + 1
		f.mu.Unlock()
		answer, err := f.at(addr).Follow(ctx, logic.Follow{From: from, Wait: time.Second, Stamp: stamp,
			Report: logic.Report{Capacity: 1, Addr: addrOf(f.number).String(), State: assignment.Up,
				Term: from - 1, Settings: map[string]string{"partition": sites}}})
		if not, ok := errors.AsType[*rpc.NotLeader](err); ok && not.Leader != addr {
			leader, stamp = not.Leader, 0
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if err != nil {
			if errors.As(err, new(*rpc.Refusal)) {
				f.s.t.Errorf("%s: %v", f.name, err)
			}
			leader, stamp = "", 0
			time.Sleep(100 * time.Millisecond)
			continue
		}
		leader, stamp = addr, answer.Stamp
		f.take(answer)
	}
}

func (f *follower) take(answer logic.Followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crawl = rpc.ID(answer.Crawl)
	for data := answer.Entries; len(data) > 0; {
		e, rest, err := assignment.Decode(data)
		if err != nil || e.Number != uint64(len(f.entries))+1 {
			f.s.t.Errorf("%s: entry %d after %d: %v", f.name, e.Number, len(f.entries), err)
			return
		}
		f.entries = append(f.entries, string(e.AppendText(nil)))
		for _, share := range e.Shares {
			for _, h := range share.Hosts {
				if was, ok := f.of[h]; ok {
					f.s.t.Errorf("%s: %s is assigned to %s and to %s", f.name, h, was, share.Agent)
				}
				f.of[h] = share.Agent
			}
		}
		data = rest
	}
}

// discover asks for a host until it is assigned or ctx ends.
func (f *follower) discover(ctx context.Context, host string) {
	for i := 0; ctx.Err() == nil; i++ {
		c := f.s.coordinators[i%len(f.s.coordinators)]
		as, err := f.at(c.addr.String()).Discover(ctx, []string{host}, assignment.LookedUp)
		if err == nil && as[0].State == logic.HostAssigned {
			f.mu.Lock()
			f.asked[host] = true
			f.mu.Unlock()
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// knows reports whether the follower has read the assignments of so many hosts.
func (f *follower) knows(hosts int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.of) >= hosts && len(f.asked) >= hosts/len(f.s.coordinators)
}

// A randomFault is a fault of coordinators at a random time.
func randomFault(rng *rand.Rand, coordinators int) Fault {
	kinds := []Kind{KillLeader, KillLeader, KillCoordinator, PowerCoordinator, FullCoordinator, NoCoordinators,
		CutCoordinator, Blind}
	f := Fault{Kind: kinds[rng.IntN(len(kinds))], Agent: 1 + rng.IntN(coordinators)}
	f.For = time.Duration(100+rng.IntN(15000)) * time.Millisecond
	return f
}

// TestCoordinators: whatever happens to three coordinators, one after the other or at once, no assignment is lost or
// changed, all agents read the same entries, and in the end each host has an agent.
func TestCoordinators(t *testing.T) {
	for seed := range uint64(*quorums) {
		runStory(t, fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { coordinated(t, *first+seed) })
		})
	}
}

// coordinated runs coordinators with followers and faults.
func coordinated(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0x636f6f7264))
	s := &story{plan: Plan{Seed: seed, Agents: 3, Coordinators: 3, Hosts: 300}, t: t, net: simnet.New(seed)}
	var err error
	if s.made, err = gen.New(gen.Plain(seed, s.plan.Hosts)); err != nil {
		t.Fatal(err)
	}
	s.web = newWeb(s.net, s.made, nil)
	if s.keys, err = makeKeys([]string{"a1", "a2", "a3"}, s.addCoordinators()); err != nil {
		t.Fatal(err)
	}
	s.compose()
	for _, c := range s.coordinators {
		c.newDisk()
		c.start()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var followers []*follower
	each := int(s.plan.Hosts) / 3
	for i := range 3 {
		f := &follower{s: s, name: fmt.Sprintf("a%d", i+1), number: i + 1, of: map[string]string{},
			asked: map[string]bool{}}
		keys := must.Get(rpc.LoadKeys(s.keys[f.name], keysDir, nil))(t)
		f.client = rpc.NewClient(rpc.ClientConfig{Keys: keys, Seed: seed, Self: func() rpc.Caller {
			f.mu.Lock()
			defer f.mu.Unlock()
			return rpc.Caller{Name: f.name, Instance: rpc.ID{byte(f.number)}, Boot: 1, Crawl: f.crawl}
		}, Dial: s.net.Machine(f.number, addrOf(f.number).Addr()).Dial})
		wg.Go(func() { f.follow(ctx) })
		wg.Go(func() {
			for n := range each {
				name, _ := s.made.Name(int64(i*each + n))
				f.discover(ctx, name)
				time.Sleep(time.Duration(n%5) * 100 * time.Millisecond)
			}
		})
		followers = append(followers, f)
	}
	for range 6 {
		time.Sleep(time.Duration(rng.IntN(15000)) * time.Millisecond)
		s.stage.Lock()
		f := randomFault(rng, 3)
		s.log("fault: %s", f)
		s.strikeCoordinators(f)
		s.stage.Unlock()
	}
	knows := func(f *follower) bool { return f.knows(3 * each) }
	for end := time.Now().Add(10 * time.Minute); ; time.Sleep(time.Second) {
		if done := slices.ContainsFunc(followers, func(f *follower) bool { return !knows(f) }); !done {
			break
		}
		if time.Now().After(end) {
			for _, f := range followers {
				t.Errorf("%s knows %d hosts", f.name, len(f.of))
			}
			break
		}
	}
	for s.pending.Load() > 0 {
		time.Sleep(time.Second)
	}
	cancel()
	wg.Wait()
	for _, f := range followers[1:] {
		n := min(len(f.entries), len(followers[0].entries))
		if !slices.Equal(f.entries[:n], followers[0].entries[:n]) {
			t.Errorf("%s has other entries than a1", f.name)
		}
	}
	for _, f := range followers {
		f.client.Close()
	}
	for _, wrong := range s.stopCoordinators() {
		t.Error(wrong)
	}
	s.running.Wait()
	s.web.self.Kill()
	time.Sleep(5 * time.Minute)
	if t.Failed() {
		t.Log(strings.Join(s.lines, "\n"))
	}
}
