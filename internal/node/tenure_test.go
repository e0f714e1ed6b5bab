package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// eachPartition runs a test for every way to divide the hosts.
func eachPartition(t *testing.T, test func(t *testing.T, c *Cluster)) {
	for name, c := range map[string]*Cluster{
		"rendezvous": {}, "ring": {Partition: PartitionRing}, "ring, kappa 3": {Partition: PartitionRing, Kappa: 3},
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

// since is the first of the views in which this agent has owned the host without a break. It is 0
// only if the agent has owned the host since the crawl began.
func TestTenure(t *testing.T) {
	seed := testseed.New(t)
	eachPartition(t, func(t *testing.T, c *Cluster) {
		rng := rand.New(rand.NewPCG(seed, 1))
		for round := range 6 {
			checkTenure(t, c, rng, round%2 == 0, round%3 == 0)
		}
	})
}

// checkTenure compares the tenures of a series of views with a map that records the history of some
// hosts' points.
func checkTenure(t *testing.T, c *Cluster, rng *rand.Rand, began, before bool) {
	t.Helper()
	var now *tenure
	model := map[uint64]span{}
	hosts := make([]uint64, 2000)
	for i := range hosts {
		hosts[i] = rng.Uint64()
	}
	for view := uint32(1); view <= 8; view++ {
		agents := []placement.Agent{{Name: "a0", Capacity: 1}}
		for i := 1; i < 5; i++ {
			if rng.IntN(2) == 0 {
				agents = append(agents, placement.Agent{Name: fmt.Sprint("a", i), Capacity: 1 + float64(rng.IntN(2))})
			}
		}
		if view > 1 && rng.IntN(4) == 0 && len(agents) > 1 {
			agents = agents[1:] // an agent leaves
		}
		owners, err := c.place(agents)
		if err != nil {
			t.Fatal(err)
		}
		was := now
		now = was.next(owners, "a0", began, before)
		for _, host := range hosts {
			s, mine := model[host], owners.Owner(host).Name == "a0"
			switch had := was != nil && s.since != gone; {
			case !mine:
				s.since = gone
			case had:
			case was == nil && began:
				s.since = 0
			default:
				s.since = view
			}
			s.ever = s.ever || mine || before
			s.began = s.began || s.since == 0
			model[host] = s
			if got := now.at(placement.Point(host)); !got.alike(s) {
				t.Fatalf("view %d, host %x: %+v, want %+v", view, host, got, s)
			}
		}
		if now.views != view || now.spans[0].from != 0 {
			t.Fatalf("view %d: it is view %d, the first span begins at %x", view, now.views, now.spans[0].from)
		}
		for i, s := range now.spans[1:] {
			if s.from <= now.spans[i].from || s.alike(now.spans[i]) {
				t.Fatalf("view %d: span %+v after %+v", view, s, now.spans[i])
			}
		}
	}
}

// The number of spans on a ring stays bounded as agents come and go. With rendezvous there is at
// most one span for each bucket.
func TestTenureIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.New(t), 2))
	c := &Cluster{Partition: PartitionRing}
	var now *tenure
	for range 300 {
		agents := []placement.Agent{{Name: "self", Capacity: 1}}
		for i := range 30 {
			if rng.IntN(2) == 0 {
				agents = append(agents, placement.Agent{Name: fmt.Sprint("a", i), Capacity: 1})
			}
		}
		owners, err := c.place(agents)
		if err != nil {
			t.Fatal(err)
		}
		now = now.next(owners, "self", true, false)
		// Some spans on either side of each of our replicas.
		if most := 2 * 10 * placement.Replicas; len(now.spans) > most {
			t.Fatalf("%d spans after %d views, want at most %d", len(now.spans), now.views, most)
		}
	}
	t.Logf("%d spans", len(now.spans))
}

// BenchmarkTenure measures a change of the agents: the placement of 20 agents, and the tenure after
// another agent has joined.
func BenchmarkTenure(b *testing.B) {
	var agents []placement.Agent
	for i := range 20 {
		agents = append(agents, placement.Agent{Name: fmt.Sprint("a", i), Capacity: 1})
	}
	for _, partition := range []string{PartitionRendezvous, PartitionRing} {
		c := &Cluster{Partition: partition}
		before, err := c.place(agents[1:])
		if err != nil {
			b.Fatal(err)
		}
		was := (*tenure)(nil).next(before, "a5", true, false)
		b.Run(partition+"/place", func(b *testing.B) {
			for b.Loop() {
				if _, err := c.place(agents); err != nil {
					b.Fatal(err)
				}
			}
		})
		owners, err := c.place(agents)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(partition+"/next", func(b *testing.B) {
			for b.Loop() {
				was.next(owners, "a5", true, false)
			}
		})
		now, host := was.next(owners, "a5", true, false), uint64(0)
		b.Run(partition+"/at", func(b *testing.B) {
			for b.Loop() {
				host += 0x9e3779b97f4a7c15
				now.at(host)
			}
		})
	}
}

// An invalid partition or kappa is refused, and the message says what is valid.
func TestCheckPartition(t *testing.T) {
	number := func(n int) *int { return &n }
	for _, c := range []struct {
		partition string
		kappa     *int
		want      string
	}{
		{PartitionRendezvous, nil, ""},
		{PartitionHash, nil, ""},
		{PartitionRing, nil, ""},
		{PartitionRing, number(1), ""},
		{PartitionRing, number(placement.MaxReplicas), ""},
		{PartitionRing, number(0), "--kappa 0: give a number from 1 to 1000"},
		{PartitionRing, number(-3), "--kappa -3: give a number from 1 to 1000"},
		{PartitionRing, number(1001), "--kappa 1001: give a number from 1 to 1000"},
		{PartitionRendezvous, number(200), "--kappa 200: only --partition ring has replicas on a ring, and this is " +
			"--partition rendezvous; leave --kappa out"},
		{PartitionHash, number(200), "--kappa 200: only --partition ring has replicas on a ring, and this is " +
			"--partition hash; leave --kappa out"},
		{"sites", nil, "--partition sites: this version knows rendezvous, ring and hash"},
		{"topic", nil, "--partition topic: this version knows rendezvous, ring and hash"},
	} {
		got := ""
		if err := CheckPartition(c.partition, c.kappa); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.partition, got, c.want)
		}
	}
}

// TestMethod: if two methods are equal, the agents divide hosts alike, even if other parts of the
// partition differ. A crawl that has begun keeps its method.
func TestMethod(t *testing.T) {
	cs := []Cluster{{}, {Partition: PartitionHash}, {Partition: PartitionRing}, {Partition: PartitionRing, Kappa: 100}}
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprint("host-", i))
	}
	owners := func(c *Cluster) (all []string) {
		p, err := c.place([]placement.Agent{{Name: "a1", Capacity: 1}, {Name: "a2", Capacity: 1},
			{Name: "a3", Capacity: 2}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range names {
			all = append(all, p.Owner(uint64(i)<<40).Name)
		}
		return all
	}
	for i := range cs {
		for j := range cs {
			a, b := &cs[i], &cs[j]
			if alike := slices.Equal(owners(a), owners(b)); alike != (a.method() == b.method()) {
				t.Errorf("%q and %q divide hosts alike: %v", a.method(), b.method(), alike)
			}
			if same := a.partitionTerms() == b.partitionTerms(); same != (i == j) {
				t.Errorf("agents with %q and with %q may crawl together: %v", a.partitionTerms(), b.partitionTerms(),
					same)
			}
			if err := a.sameMethod("crawl", b.method()); (err == nil) != (a.method() == b.method()) {
				t.Errorf("with %q a crawl goes on that began with %q: %v", a.method(), b.method(), err)
			}
		}
	}
	for _, c := range []struct {
		given       Cluster
		begun, want string
	}{
		{Cluster{Partition: "ring", Kappa: 30}, "ring, kappa 200", "--kappa 30: the crawl in c began with " +
			"--partition ring --kappa 200, and a change would move nearly all hosts; resume without --kappa, or " +
			"start again with --overwrite"},
		{Cluster{Partition: "ring"}, "ring, kappa 30", "--kappa 200: the crawl in c began with --partition ring " +
			"--kappa 30, and a change would move nearly all hosts; resume with --kappa 30, or start again with " +
			"--overwrite"},
		{Cluster{}, "ring, kappa 200", "--partition rendezvous: the crawl in c began with --partition ring " +
			"--kappa 200, and a change would move nearly all hosts; resume with --partition ring --kappa 200, or " +
			"start again with --overwrite"},
		{Cluster{Partition: "ring"}, "", "--partition ring: the crawl in c began with --partition rendezvous, and " +
			"a change would move nearly all hosts; resume with --partition rendezvous, or start again with " +
			"--overwrite"},
	} {
		if err := c.given.sameMethod("c", c.begun); err == nil || err.Error() != c.want {
			t.Errorf("%q: got\n%v, want\n%s", c.begun, err, c.want)
		}
	}
	if err := cs[0].sameMethod("crawl", ""); err != nil {
		t.Errorf("an old crawl: %v", err)
	}
	if err := cs[2].sameMethod("crawl", ""); err == nil {
		t.Error("an old crawl, which called rendezvous ring, goes on with the ring")
	}
}
