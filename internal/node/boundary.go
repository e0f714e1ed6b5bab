package node

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/web/classify"
	"github.com/orbweaver/orbweaver/internal/web/classify/builtin"
)

const boundaryDir = "state/boundary"

// BoundaryContents sends a page to the agent where it belongs: X4 (a topic-partitioned crawler), section 4 of its
// paper.
const BoundaryContents = "contents"

// BoundaryURLs leaves a page at the agent that has fetched it, and sends its links to the agents of its category: X4,
// section 7.
const BoundaryURLs = "urls"

// The values of Cluster.ContentHash.
const (
	// ContentExact is the digest of a page's payload. It is the default.
	ContentExact = "exact"
	// ContentNear is the least hash of the page's shingles. Near-duplicates probably have the same one.
	ContentNear = "near"
)

// ContentHashes returns the values of Cluster.ContentHash that are not empty.
func ContentHashes() []string { return []string{ContentExact, ContentNear} }

// Boundaries returns the values of Cluster.Boundary that are not empty.
func Boundaries() []string { return []string{BoundaryContents, BoundaryURLs} }

// CheckBoundary returns an *input.Error if agents with this partition cannot treat boundary pages so. An empty boundary
// is the partition's default.
func CheckBoundary(partition, how string) error {
	switch {
	case how == "":
		return nil
	case !slices.Contains(Boundaries(), how):
		return input.Errorf("--boundary %s: this version knows %s", how, strings.Join(Boundaries(), " and "))
	case how == BoundaryURLs && partition != PartitionTopic:
		return input.Errorf("--boundary %s: with --partition %s links go by their hosts; leave it out, or give "+
			"--partition %s", how, partition, PartitionTopic)
	case partition != PartitionHash && partition != PartitionTopic:
		return input.Errorf("--boundary %s: with --partition %s pages do not move; leave it out, or give "+
			"--partition %s or %s", how, partition, PartitionTopic, PartitionHash)
	}
	return nil
}

// CheckContentHash returns an *input.Error if agents with this partition and boundary cannot hash contents so. An empty
// hash is ContentExact.
func CheckContentHash(partition, boundary, hash string) error {
	switch {
	case hash == "" || hash == ContentExact:
		return nil
	case hash != ContentNear:
		return input.Errorf("--content-hash %s: this version knows %s and %s", hash, ContentExact, ContentNear)
	case partition != PartitionHash || boundary != BoundaryContents:
		return input.Errorf("--content-hash %s: only with --partition %s --boundary %s a hash moves pages; give both",
			hash, PartitionHash, BoundaryContents)
	}
	return nil
}

// boundary returns Boundary, or the default of the partition if it is empty.
func (c *Cluster) boundary() string {
	if c.Boundary == "" && c.byPages() {
		return BoundaryContents
	}
	return c.Boundary
}

// builtInTopics is the classifier of the program's model of topics.
var builtInTopics = sync.OnceValue(func() *classify.Classifier {
	c, err := classify.New(builtin.Topics(), builtin.Languages())
	if err != nil {
		panic(err) // both models are in the program
	}
	return c
})

// classifier returns Classifier, or the default if it is nil.
func (c *Cluster) classifier() *classify.Classifier {
	if c.Classifier == nil {
		return builtInTopics()
	}
	return c.Classifier
}

// movesPages reports whether fetched pages move to the agents where they belong.
func (c *Cluster) movesPages() bool { return c != nil && c.boundary() == BoundaryContents }

// checkTopic returns an *input.Error if the crawl cannot be divided by topic.
func (c *Config) checkTopic() error {
	switch {
	case !c.Cluster.byPages():
		return nil
	case c.Crawl.HostPageLimit > 0:
		return input.Errorf("--host-page-limit %d: with --partition %s no agent counts the pages of the others; "+
			"leave it out", c.Crawl.HostPageLimit, PartitionTopic)
	}
	return nil
}

// openBoundary opens the store of boundary pages if pages move. If they do not, no page of an earlier run may wait.
func (a *Agent) openBoundary() (err error) {
	if err := a.checkNoPageWaits(); err != nil || !a.cfg.Cluster.movesPages() {
		return err
	}
	if a.boundary, err = boundary.Open(a.fs, a.dir(boundaryDir),
		boundary.StoreConfig{Level: a.cfg.Archive.Level, Clock: a.cfg.Clock}); err != nil {
		return err
	}
	a.onClose(a.boundary.Close)
	return nil
}

// openPages divides the pages among the agents, if the partition does.
func (a *Agent) openPages() {
	c := a.membership
	if a.boundary == nil && !c.cfg.byPages() {
		return
	}
	cfg := boundary.Config{Store: a.boundary, Near: c.cfg.ContentHash == ContentNear, Members: c.members,
		Owners: &c.placed, Fingerprints: a.others.Durable}
	if c.cfg.byPages() {
		cfg.Classifier = c.cfg.classifier()
	}
	a.pages = boundary.New(cfg)
	if a.others.Boundary = a.pages; a.boundary != nil {
		a.others.Pages = a.boundary
	}
}

// checkNoPageWaits returns an *input.Error if pages do not move and an earlier run, in which they did, has left some.
func (a *Agent) checkNoPageWaits() error {
	if a.cfg.Cluster.movesPages() {
		return nil
	}
	files, err := a.fs.ReadDir(filepath.Join(a.dir(boundaryDir), "archive"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(files) > 0:
		return input.Errorf("the pages in %s wait for other agents of a crawl with --boundary %s; resume with "+
			"--boundary %s until it ends, or start again with --overwrite", a.dir(boundaryDir), BoundaryContents,
			BoundaryContents)
	}
	return nil
}

// Topics returns the categories of each agent if agents of capacity 1 with these names, and no others, divide pages by
// topic. The cluster's own Name and Capacity have no effect.
func (c *Cluster) Topics(names []string) map[string][]string {
	return boundary.Topics(c.classifier(), names)
}
