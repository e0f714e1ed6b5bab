package membership

import (
	"errors"
	"io"
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

// The values of Config.ContentHash.
const (
	// ContentExact is the digest of a page's payload. It is the default.
	ContentExact = "exact"
	// ContentNear is the least hash of the page's shingles. Near-duplicates probably have the same one.
	ContentNear = "near"
)

// ContentHashes returns the values of Config.ContentHash that are not empty.
func ContentHashes() []string { return []string{ContentExact, ContentNear} }

// Boundaries returns the values of Config.Boundary that are not empty.
func Boundaries() []string { return []string{BoundaryContents, BoundaryURLs} }

// CheckBoundary returns an *input.ConfigError if agents with this partition cannot treat boundary pages so. An empty
// boundary is the partition's default.
func CheckBoundary(partition, how string) error {
	switch {
	case how == "":
		return nil
	case !slices.Contains(Boundaries(), how):
		return input.Errorf("{boundary} %s: this version knows %s", how, strings.Join(Boundaries(), " and "))
	case how == BoundaryURLs && partition != PartitionTopic:
		return input.Errorf("{boundary} %s: with {partition} %s links go by their hosts; leave it out, or give "+
			"{partition} %s", how, partition, PartitionTopic)
	case partition != PartitionHash && partition != PartitionTopic:
		return input.Errorf("{boundary} %s: with {partition} %s pages do not move; leave it out, or give "+
			"{partition} %s or %s", how, partition, PartitionTopic, PartitionHash)
	}
	return nil
}

// CheckContentHash returns an *input.ConfigError if agents with this partition and boundary cannot hash contents so. An
// empty hash is ContentExact.
func CheckContentHash(partition, boundary, hash string) error {
	switch {
	case hash == "" || hash == ContentExact:
		return nil
	case hash != ContentNear:
		return input.Errorf("{content-hash} %s: this version knows %s and %s", hash, ContentExact, ContentNear)
	case partition != PartitionHash || boundary != BoundaryContents:
		return input.Errorf("{content-hash} %s: only with {partition} %s {boundary} %s a hash moves pages; give both",
			hash, PartitionHash, BoundaryContents)
	}
	return nil
}

// boundary returns Boundary, or the default of the partition if it is empty.
func (c *Config) boundary() string {
	if c.Boundary == "" && c.ByPages() {
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
func (c *Config) classifier() *classify.Classifier {
	if c.Classifier == nil {
		return builtInTopics()
	}
	return c.Classifier
}

// MovesPages reports whether fetched pages move to the agents where they belong.
func (c *Config) MovesPages() bool { return c != nil && c.boundary() == BoundaryContents }

// OpenStore opens the store of boundary pages if pages move; otherwise it returns nil. If they do not, no page of an
// earlier run may wait.
func (c *Membership) OpenStore(level int) (_ io.Closer, err error) {
	if !c.cfg.MovesPages() {
		return nil, c.checkNoPageWaits()
	}
	if c.store, err = boundary.Open(c.joining.FS, c.joining.path(boundaryDir),
		boundary.StoreConfig{Level: level, Clock: c.joining.Clock}); err != nil {
		return nil, err
	}
	return c.store, nil
}

// Store returns the store of boundary pages. It is nil if pages do not move, or for a nil Membership.
func (c *Membership) Store() *boundary.Store {
	if c == nil {
		return nil
	}
	return c.store
}

// openPages divides the pages among the agents, if the partition does.
func (c *Membership) openPages() {
	if c.store == nil && !c.cfg.ByPages() {
		return
	}
	cfg := boundary.Config{Store: c.store, Near: c.cfg.ContentHash == ContentNear, Members: c.Members,
		Owners: &c.Division.placed, Known: c.calls.Durable}
	if c.cfg.ByPages() {
		cfg.Classifier = c.cfg.classifier()
	}
	c.pages = boundary.New(cfg)
	if c.parts.Boundary = c.pages; c.store != nil {
		c.parts.Pages = c.store
	}
}

// Own returns which categories of pages belong to this agent now: see boundary.Pages.
func (c *Membership) Own() *boundary.Own { return c.pages.Own() }

// checkNoPageWaits returns an *input.ConfigError if an earlier run, in which pages moved, has left some.
func (c *Membership) checkNoPageWaits() error {
	dir := c.joining.path(boundaryDir)
	files, err := c.joining.FS.ReadDir(filepath.Join(dir, "archive"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(files) > 0:
		return input.Errorf("the pages in %s wait for other agents of a crawl with {boundary} %s; resume with "+
			"{boundary} %s until it ends, or start again with {overwrite}", dir, BoundaryContents, BoundaryContents)
	}
	return nil
}

// Topics returns the categories of each agent if agents of capacity 1 with these names, and no others, divide pages by
// topic. The cluster's own Name and Capacity have no effect.
func (c *Config) Topics(names []string) map[string][]string {
	return boundary.Topics(c.classifier(), names)
}
