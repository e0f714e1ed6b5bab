package membership

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/classify/builtin"
)

// The values of Config.Partition.
const (
	// PartitionRendezvous divides the hosts by weighted rendezvous hashing.
	PartitionRendezvous = "rendezvous"
	// PartitionRing divides the hosts by UbiCrawler's ring.
	PartitionRing = "ring"
	// PartitionHash divides the hosts as PartitionRendezvous does, and contents by
	// their hash as well: X4 (a topic-partitioned crawler), section 3 of its paper.
	PartitionHash = "hash"
	// PartitionSites lets coordinators assign each host to an agent: FC2L-UDCbot (a crawler with a
	// coordinator), section 3.4 of its paper.
	PartitionSites = "sites"
	// PartitionTopic divides pages by their category, which a classifier tells: X4 (a topic-partitioned crawler),
	// section 4 of its paper.
	PartitionTopic = "topic"
)

var partitions = []string{PartitionRendezvous, PartitionRing, PartitionHash, PartitionSites, PartitionTopic}

// Partitions returns the values of Config.Partition.
func Partitions() []string { return partitions }

// CheckPartition returns an *input.ConfigError if the partition is unknown, or if kappa is invalid for it.
// kappa is the number of replicas of an agent of capacity 1 on the ring; nil means the default.
func CheckPartition(partition string, kappa *int) error {
	if !slices.Contains(partitions, partition) {
		return input.Errorf("{partition} %s: this version knows %s, %s, %s, %s and %s", partition, PartitionRendezvous,
			PartitionRing, PartitionHash, PartitionSites, PartitionTopic)
	}
	switch {
	case kappa == nil:
		return nil
	case partition != PartitionRing:
		return input.Errorf("{kappa} %d: only {partition} ring has replicas on a ring; leave it out, "+
			"or give {partition} ring", *kappa)
	case *kappa < 1 || *kappa > placement.MaxReplicas:
		return input.Errorf("{kappa} %d: give a number from 1 to %d", *kappa, placement.MaxReplicas)
	}
	return nil
}

// CheckCoordinators returns an *input.ConfigError unless an agent with this partition needs exactly these coordinators,
// their addresses are valid, and an agent with keys in this directory, or without keys, can reach them.
func CheckCoordinators(partition string, coordinators []string, keys string) error {
	switch n := len(coordinators); {
	case partition == PartitionSites && n == 0:
		return input.Errorf("{partition} sites needs coordinators; give their addresses, such as {coordinator} " +
			"192.0.2.1:7490")
	case partition != PartitionSites && n > 0:
		return input.Errorf("{coordinator} %s: only {partition} sites has coordinators; leave it out, or add "+
			"{partition} sites", strings.Join(coordinators, ","))
	}
	return coordination.CheckAddresses(coordinators, keys)
}

// CheckCoverage returns an *input.ConfigError if a crawl with this partition cannot be a two-level one.
func CheckCoverage(partition string, twoLevel bool) error {
	if twoLevel && partition != PartitionSites {
		return input.Errorf("{coverage} two-level: only with {partition} sites do agents learn of hosts without "+
			"links; leave it out, or give {partition} %s", PartitionSites)
	}
	return nil
}

// CheckDivision returns an *input.ConfigError if the settings of how agents divide and keep the work do not go
// together.
func (c *Config) CheckDivision() error {
	if err := CheckCoordinators(c.partition(), c.Coordinators, c.Keys); err != nil {
		return err
	}
	if err := CheckCoverage(c.partition(), c.TwoLevel); err != nil {
		return err
	}
	if err := CheckBoundary(c.partition(), c.Boundary); err != nil {
		return err
	}
	if err := CheckContentHash(c.partition(), c.Boundary, c.ContentHash); err != nil {
		return err
	}
	if err := CheckOnLoss(c.OnLoss, max(c.Replicas, 1)); err != nil {
		return err
	}
	if c.Kappa == 0 {
		return CheckPartition(c.partition(), nil)
	}
	return CheckPartition(c.partition(), &c.Kappa)
}

// partition returns Partition, or the default if it is empty.
func (c *Config) partition() string {
	if c.Partition == "" {
		return PartitionRendezvous
	}
	return c.Partition
}

// ByPages reports whether pages, not hosts, are divided. It may be called for nil, an agent alone.
func (c *Config) ByPages() bool { return c != nil && c.partition() == PartitionTopic }

// ByContents reports whether contents are divided, too.
func (c *Config) ByContents() bool { return c.partition() == PartitionHash }

// ByCoordinators reports whether coordinators assign the hosts.
func (c *Config) ByCoordinators() bool { return c.partition() == PartitionSites }

// kappa returns Kappa, or the default if it is zero.
func (c *Config) kappa() int {
	if c.Kappa == 0 {
		return placement.Replicas
	}
	return c.Kappa
}

// ofModel is between the partition and the digest of the model in a method.
const ofModel = ", model "

// method describes how hosts are divided, for other agents and for later runs. Two clusters of the
// same agents divide all hosts in the same way if their methods are equal.
func (c *Config) method() string {
	switch c.partition() {
	case PartitionRing:
		return fmt.Sprintf("%s, kappa %d", PartitionRing, c.kappa())
	case PartitionTopic:
		return PartitionTopic + ofModel + c.classifier().Model().Digest()
	case PartitionSites:
		return PartitionSites
	}
	return PartitionRendezvous
}

// partitionTerms returns the partition with its parameter. It must be equal for all agents of a
// cluster.
func (c *Config) partitionTerms() string {
	if c.partition() == PartitionRing {
		return c.method()
	}
	if c.boundary() == "" {
		return c.partition()
	}
	terms := c.partition() + ", boundary " + c.boundary()
	if c.ContentHash == ContentNear {
		terms += ", content hash " + c.ContentHash
	}
	if c.ByPages() {
		terms += ofModel + c.classifier().Model().Digest()
	}
	return terms
}

// Place assigns the hosts to agents. The errors are those of package placement. With PartitionSites it is the order of
// the heirs, and assigns what is no host.
func (c *Config) Place(agents []placement.Owner) (placement.Placement, error) {
	if c.partition() == PartitionRing {
		r, err := placement.NewRing(agents, c.kappa())
		if err != nil {
			return nil, err // not a nil *Ring in an interface
		}
		return r, nil
	}
	r, err := placement.NewRendezvous(agents, 0)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// checkAgents returns the error of Place, and is cheaper.
func (c *Config) checkAgents(agents []placement.Owner) (err error) {
	if c.partition() == PartitionRing {
		_, err = placement.NewRing(agents, c.kappa())
	} else {
		const buckets = 2 // the errors do not depend on their number
		_, err = placement.NewRendezvous(agents, buckets)
	}
	return err
}

// otherModel returns an *input.ConfigError that names the model with which a crawl has begun. With another model the
// categories would be others, and agents would keep pages again that others have.
func (c *Config) otherModel(dir, begun string) error {
	right := input.Say("with that model")
	for name, m := range map[string]*classify.Model{"topics": builtin.Topics(), "languages": builtin.Languages()} {
		if m.Digest() == begun {
			right = input.Say("with {model} %s", name)
		}
	}
	return input.Errorf("{model}: the crawl in %s began with the model of digest %.12s, not %.12s;\nresume %s, or "+
		"start again with {overwrite}", dir, begun, c.classifier().Model().Digest(), right)
}

// sameMethod returns an *input.ConfigError if a crawl that has begun divided its hosts by another method.
// After such a change nearly all hosts would move. The new owners would look for previous owners
// and replicas in the wrong places, and would fetch pages again. An empty method means rendezvous:
// older crawls did not record their method, and always used it.
func (c *Config) sameMethod(dir, begun string) error {
	begun = cmp.Or(begun, PartitionRendezvous)
	if c.method() == begun {
		return nil
	}
	partition, model, byTopic := strings.Cut(begun, ofModel)
	if c.ByPages() && partition == PartitionTopic {
		if !byTopic { // an older crawl, which did not record its model
			return nil
		}
		return c.otherModel(dir, model)
	}
	partition, kappa, ring := strings.Cut(partition, ", kappa ")
	with := input.Say("{partition} %s", partition)
	if ring {
		with = input.Say("{partition} %s {kappa} %s", partition, kappa)
	}
	advice := input.Say("with %s", with)
	const moved = "the crawl in %s began with %s, and a change would move nearly all hosts;\n" +
		"resume %s, or start again with {overwrite}"
	if !ring || c.partition() != PartitionRing {
		return input.Errorf("{partition} %s: "+moved, c.partition(), dir, with, advice)
	}
	if advice = input.Say("with {kappa} %s", kappa); kappa == strconv.Itoa(placement.Replicas) {
		advice = input.Say("without {kappa}")
	}
	return input.Errorf("{kappa} %d: "+moved, c.kappa(), dir, with, advice)
}
