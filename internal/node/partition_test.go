package node

import (
	"fmt"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/classify/builtin"
)

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
		{PartitionRendezvous, number(200), "--kappa 200: only --partition ring has replicas on a ring; " +
			"leave it out, or give --partition ring"},
		{PartitionHash, number(200), "--kappa 200: only --partition ring has replicas on a ring; " +
			"leave it out, or give --partition ring"},
		{PartitionSites, nil, ""},
		{PartitionSites, number(200), "--kappa 200: only --partition ring has replicas on a ring; " +
			"leave it out, or give --partition ring"},
		{PartitionTopic, nil, ""},
		{"rings", nil, "--partition rings: this version knows rendezvous, ring, hash, sites and topic"},
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

// Only the contents of pages that move have a hash to choose.
func TestCheckContentHash(t *testing.T) {
	const both = "--content-hash near: only with --partition hash --boundary contents a hash moves pages; give both"
	for _, c := range []struct{ partition, boundary, hash, want string }{
		{PartitionHash, BoundaryContents, ContentNear, ""},
		{PartitionHash, BoundaryContents, ContentExact, ""},
		{PartitionHash, BoundaryContents, "", ""},
		{PartitionRendezvous, "", ContentExact, ""},
		{PartitionHash, "", ContentNear, both},
		{PartitionTopic, BoundaryContents, ContentNear, both},
		{PartitionRendezvous, "", ContentNear, both},
		{PartitionHash, BoundaryContents, "best", "--content-hash best: this version knows exact and near"},
	} {
		got := ""
		if err := CheckContentHash(c.partition, c.boundary, c.hash); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s, %s, %s: %q, want %q", c.partition, c.boundary, c.hash, got, c.want)
		}
	}
}

// The pages of a lost archive are fetched again only where agents know what it had, and only if the operator says so:
// agents of earlier versions are told nothing of it otherwise.
func TestCheckOnLoss(t *testing.T) {
	for _, c := range []struct {
		how      string
		replicas int
		want     string
	}{
		{"", 1, ""},
		{LossKeep, 1, ""},
		{LossRefetch, 2, ""},
		{LossRefetch, 1, "--on-loss refetch: with --replicas 1 no agent knows which pages " +
			"a lost archive had; give --replicas 2"},
		{"forget", 2, "--on-loss forget: this version knows keep and refetch"},
	} {
		got := ""
		if err := CheckOnLoss(c.how, c.replicas); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s, %d replicas: %q, want %q", c.how, c.replicas, got, c.want)
		}
		a := &Agent{cfg: Config{Cluster: &Cluster{OnLoss: c.how}}}
		if shared, err := a.shared(nil); err != nil || (shared["on-loss"] != "") != (c.how == LossRefetch) {
			t.Errorf("%s: agents share %q, %v", c.how, shared["on-loss"], err)
		}
	}
	for n, want := range []bool{false, false, true} {
		a := &Agent{cfg: Config{Cluster: &Cluster{ArchiveCopies: n}}}
		if shared, err := a.shared(nil); err != nil || (shared["archive-copies"] != "") != want {
			t.Errorf("%d archive copies: agents share %q, %v", n, shared["archive-copies"], err)
		}
	}
	if CheckArchiveCopies(2, 2) != nil || CheckArchiveCopies(0, 1) != nil || CheckArchiveCopies(2, 1) == nil ||
		CheckArchiveCopies(3, 2) == nil {
		t.Error("CheckArchiveCopies allows too much, or too little")
	}
	a := &Agent{cfg: Config{Cluster: &Cluster{OnLoss: LossRefetch}}}
	a.parts.Strategy = &strategy.Recrawl{}
	if got, err := a.shared(nil); err == nil {
		t.Errorf("with a strategy that plans visits: %v", got)
	}
}

// Coordinators and the partition that they divide go together.
func TestCheckCoordinators(t *testing.T) {
	const sites = "coordinators assign the hosts; give their addresses with --coordinator, such as " +
		"--coordinator 192.0.2.1:7490"
	for _, c := range []struct {
		partition    string
		coordinators []string
		want         string
	}{
		{PartitionSites, []string{"127.0.0.1:7490"}, ""},
		{PartitionSites, []string{"192.0.2.1:7490"}, "--coordinator 192.0.2.1:7490: coordinators on other machines " +
			"answer only with keys; give some with --keys"},
		{PartitionSites, []string{"c1:7490", "c2:7490", "c3:7490"}, ""},
		{PartitionSites, nil, "--partition sites: " + sites},
		{"", []string{"192.0.2.1:7490"}, "--coordinator 192.0.2.1:7490: only --partition sites has coordinators; " +
			"leave it out, or give --partition sites"},
		{PartitionSites, []string{"192.0.2.1"}, "--coordinator \"192.0.2.1\": give an address and a port, such as " +
			"192.0.2.1:7490"},
		{PartitionSites, []string{"c:1", "d:1", "c:1"}, "--coordinator names c:1 twice; give each coordinator once"},
	} {
		got := ""
		if err := (&Cluster{Partition: c.partition, Coordinators: c.coordinators}).checkPartition(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s %v: %q, want %q", c.partition, c.coordinators, got, c.want)
		}
	}
}

// TestMethod: if two methods are equal, the agents divide hosts alike, even if other parts of the
// partition differ. A crawl that has begun keeps its method.
func TestMethod(t *testing.T) {
	cs := []Cluster{{}, {Partition: PartitionHash}, {Partition: PartitionRing}, {Partition: PartitionRing, Kappa: 100},
		{Partition: PartitionHash, Boundary: BoundaryContents},
		{Partition: PartitionHash, Boundary: BoundaryContents, ContentHash: ContentNear}}
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
	languages, err := classify.New(builtin.Languages(), nil)
	if err != nil {
		t.Fatal(err)
	}
	byTopic := Cluster{Partition: PartitionTopic}
	if err := byTopic.sameMethod("c", byTopic.method()); err != nil {
		t.Errorf("the same model: %v", err)
	}
	if err := byTopic.sameMethod("c", PartitionTopic); err != nil {
		t.Errorf("a crawl that did not record its model: %v", err)
	}
	for _, c := range []struct {
		given       Cluster
		begun, want string
	}{
		{Cluster{Partition: "ring", Kappa: 30}, "ring, kappa 200", "--kappa 30: the crawl in c began with " +
			"--partition ring --kappa 200, and a change would move nearly all hosts;\nresume without --kappa, or " +
			"start again with --overwrite"},
		{Cluster{Partition: "ring"}, "ring, kappa 30", "--kappa 200: the crawl in c began with --partition ring " +
			"--kappa 30, and a change would move nearly all hosts;\nresume with --kappa 30, or start again with " +
			"--overwrite"},
		{Cluster{}, "ring, kappa 200", "--partition rendezvous: the crawl in c began with --partition ring " +
			"--kappa 200, and a change would move nearly all hosts;\nresume with --partition ring --kappa 200, or " +
			"start again with --overwrite"},
		{Cluster{Partition: "ring"}, "", "--partition ring: the crawl in c began with --partition rendezvous, and " +
			"a change would move nearly all hosts;\nresume with --partition rendezvous, or start again with " +
			"--overwrite"},
		{Cluster{Partition: "sites"}, "rendezvous", "--partition sites: the crawl in c began with --partition " +
			"rendezvous, and a change would move nearly all hosts;\nresume with --partition rendezvous, or start " +
			"again with --overwrite"},
		{Cluster{Partition: "topic"}, "rendezvous", "--partition topic: the crawl in c began with --partition " +
			"rendezvous, and a change would move nearly all hosts;\nresume with --partition rendezvous, or start " +
			"again with --overwrite"},
		{Cluster{}, byTopic.method(), "--partition rendezvous: the crawl in c began with --partition topic, and a " +
			"change would move nearly all hosts;\nresume with --partition topic, or start again with --overwrite"},
		{Cluster{Partition: "topic", Classifier: languages}, byTopic.method(), fmt.Sprintf("--model: the crawl in c "+
			"began with the model of digest %.12s, not %.12s;\nresume with --model topics, or start again with "+
			"--overwrite", builtin.Topics().Digest(), builtin.Languages().Digest())},
		{byTopic, "topic, model 0123456789abcdef", fmt.Sprintf("--model: the crawl in c began with the model of "+
			"digest 0123456789ab, not %.12s;\nresume with that model, or start again with --overwrite",
			builtin.Topics().Digest())},
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

// Each category has an agent, also if there are more agents than categories.
func TestTopics(t *testing.T) {
	for _, n := range []int{1, 3, 20} {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint("a", i+1))
		}
		c, all := &Cluster{}, map[string]bool{}
		topics := c.Topics(names)
		for _, name := range names {
			if len(topics[name]) == 0 {
				t.Errorf("%d agents: %s has no category", n, name)
			}
			for _, topic := range topics[name] {
				all[topic] = true
			}
		}
		if want := len(builtin.Topics().Categories()) + 1; len(all) < want {
			t.Errorf("%d agents have the categories %v", n, all)
		}
	}
}
