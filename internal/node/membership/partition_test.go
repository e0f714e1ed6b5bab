package membership

import (
	"fmt"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/classify/builtin"
)

// Settings of a cluster that go together are accepted. TestMistakes of the program has the refusals, but for two that
// its users do not see.
func TestClusterChecks(t *testing.T) {
	number := func(n int) *int { return &n }
	coordinators := func(partition string, addrs ...string) error {
		return (&Config{Partition: partition, Coordinators: addrs}).CheckDivision()
	}
	for i, c := range []struct {
		got  error
		want string
	}{
		{CheckPartition(PartitionRing, number(1)), ""},
		{CheckPartition(PartitionRing, number(placement.MaxReplicas)), ""},
		{CheckPartition("rings", nil), "partition rings: this version knows rendezvous, ring, hash, sites and topic"},
		{CheckContentHash(PartitionHash, BoundaryContents, ContentExact), ""},
		{CheckContentHash(PartitionHash, BoundaryContents, ""), ""},
		{CheckContentHash(PartitionRendezvous, "", ContentExact), ""},
		{CheckOnLoss("", 1), ""}, {CheckOnLoss(LossKeep, 1), ""}, {CheckOnLoss(LossRefetch, 2), ""},
		{coordinators(PartitionSites, "127.0.0.1:7490"), ""},
		{coordinators(PartitionSites, "c1:7490", "c2:7490", "c3:7490"), ""},
		{coordinators(PartitionSites, "192.0.2.1"), "coordinator \"192.0.2.1\": give an address and a port, such " +
			"as 192.0.2.1:7490"},
	} {
		if c.got == nil && c.want != "" || c.got != nil && c.got.Error() != c.want {
			t.Errorf("%d: %v, want %q", i, c.got, c.want)
		}
	}
	for _, p := range Partitions() {
		if err := CheckPartition(p, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestMethod: if two methods are equal, the agents divide hosts alike, even if other parts of the
// partition differ. A crawl that has begun keeps its method.
func TestMethod(t *testing.T) {
	cs := []Config{{}, {Partition: PartitionHash}, {Partition: PartitionRing}, {Partition: PartitionRing, Kappa: 100},
		{Partition: PartitionHash, Boundary: BoundaryContents},
		{Partition: PartitionHash, Boundary: BoundaryContents, ContentHash: ContentNear}}
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprint("host-", i))
	}
	owners := func(c *Config) (all []string) {
		p := must.Get(c.Place([]placement.Owner{{Name: "a1", Capacity: 1}, {Name: "a2", Capacity: 1},
			{Name: "a3", Capacity: 2}}))(t)
		for i := range names {
			all = append(all, p.Owner(uint64(i)<<40).Name)
		}
		return all
	}
	var all [][]string
	for i := range cs {
		all = append(all, owners(&cs[i]))
	}
	for i := range cs {
		for j := range cs {
			a, b := &cs[i], &cs[j]
			if alike := slices.Equal(all[i], all[j]); alike != (a.method() == b.method()) {
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
	languages := must.Get(classify.New(builtin.Languages(), nil))(t)
	byTopic := Config{Partition: PartitionTopic}
	if err := byTopic.sameMethod("c", byTopic.method()); err != nil {
		t.Errorf("the same model: %v", err)
	}
	if err := byTopic.sameMethod("c", PartitionTopic); err != nil {
		t.Errorf("a crawl that did not record its model: %v", err)
	}
	for _, c := range []struct {
		given       Config
		begun, want string
	}{
		{Config{Partition: "ring", Kappa: 30}, "ring, kappa 200", "kappa 30: the crawl in c began with " +
			"partition ring kappa 200, and a change would move nearly all hosts;\nresume without kappa, or " +
			"start again with overwrite"},
		{Config{Partition: "ring"}, "ring, kappa 30", "kappa 200: the crawl in c began with partition ring " +
			"kappa 30, and a change would move nearly all hosts;\nresume with kappa 30, or start again with " +
			"overwrite"},
		{Config{}, "ring, kappa 200", "partition rendezvous: the crawl in c began with partition ring " +
			"kappa 200, and a change would move nearly all hosts;\nresume with partition ring kappa 200, or " +
			"start again with overwrite"},
		{Config{Partition: "ring"}, "", "partition ring: the crawl in c began with partition rendezvous, and " +
			"a change would move nearly all hosts;\nresume with partition rendezvous, or start again with " +
			"overwrite"},
		{Config{Partition: "sites"}, "rendezvous", "partition sites: the crawl in c began with partition " +
			"rendezvous, and a change would move nearly all hosts;\nresume with partition rendezvous, or start " +
			"again with overwrite"},
		{Config{Partition: "topic"}, "rendezvous", "partition topic: the crawl in c began with partition " +
			"rendezvous, and a change would move nearly all hosts;\nresume with partition rendezvous, or start " +
			"again with overwrite"},
		{Config{}, byTopic.method(), "partition rendezvous: the crawl in c began with partition topic, and a " +
			"change would move nearly all hosts;\nresume with partition topic, or start again with overwrite"},
		{Config{Partition: "topic", Classifier: languages}, byTopic.method(), fmt.Sprintf("model: the crawl in c "+
			"began with the model of digest %.12s, not %.12s;\nresume with model topics, or start again with "+
			"overwrite", builtin.Topics().Digest(), builtin.Languages().Digest())},
		{byTopic, "topic, model 0123456789abcdef", fmt.Sprintf("model: the crawl in c began with the model of "+
			"digest 0123456789ab, not %.12s;\nresume with that model, or start again with overwrite",
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
		c, all := &Config{}, map[string]bool{}
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
