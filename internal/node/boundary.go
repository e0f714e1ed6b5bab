package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

const (
	boundaryDir = "state/boundary"
	// pagesAtOnce bounds the pages of one call.
	pagesAtOnce = 100
)

// BoundaryContents sends a page to the agent where it belongs: X4 (a topic-partitioned crawler), section 4 of its
// paper.
const BoundaryContents = "contents"

// Boundaries returns the values of Cluster.Boundary that are not empty.
func Boundaries() []string { return []string{BoundaryContents} }

// CheckBoundary returns a *ConfigError if agents with this partition cannot treat boundary pages so. An empty boundary
// is the partition's default.
func CheckBoundary(partition, how string) error {
	switch {
	case how == "":
		return nil
	case how != BoundaryContents:
		return configErrorf("--boundary %s: this version knows %s", how, BoundaryContents)
	case partition != PartitionHash:
		return configErrorf("--boundary %s: with --partition %s, agents keep the pages that they fetch; leave it out, "+
			"or give --partition %s", how, partition, PartitionHash)
	}
	return nil
}

// movesPages reports whether fetched pages move to the agents where they belong.
func (c *Cluster) movesPages() bool { return c != nil && c.Boundary == BoundaryContents }

// boundaryPages are the pages that this agent has fetched and others are to have. It implements cluster.Boundary.
type boundaryPages struct {
	*boundary.Store
	a *Agent
}

// openBoundary opens the store of boundary pages if pages move.
func (a *Agent) openBoundary() (err error) {
	if !a.cfg.Cluster.movesPages() {
		return nil
	}
	if a.boundary, err = boundary.Open(a.fs, a.dir(boundaryDir),
		boundary.Config{Level: a.cfg.Archive.Level, Now: a.now}); err != nil {
		return err
	}
	a.onClose(a.boundary.Close)
	a.others.Boundary = &boundaryPages{a.boundary, a}
	return nil
}

// Sort implements cluster.Boundary: the hash of a page's payload says where it belongs.
func (p *boundaryPages) Sort(x *warc.Exchange, _ func() ([]byte, error)) (to weburl.Destination, ok bool, err error) {
	digest, ok, err := warc.PayloadDigest(x)
	return weburl.Destination{Hash: binary.BigEndian.Uint64(digest[:])}, ok, err
}

// Keeper implements cluster.Boundary.
func (p *boundaryPages) Keeper(to weburl.Destination) (agent string, mine bool) {
	owners := p.a.membership.owners()
	if owners == nil {
		return "", false
	}
	agent = owners.Owner(to.Hash).Name
	return agent, agent == p.a.membership.cfg.Name
}

// pages takes the pages that another agent sends.
func (c *membership) pages(ctx context.Context, from rpc.Caller, pages *rpc.PageReader) (err error) {
	var durable []func() error
	for err == nil {
		var page weburl.Link
		if page, err = pages.Next(); err != nil {
			break
		}
		var wait func() error
		if wait, err = c.a.cluster.TakePage(ctx, from.Name, page, pages); err == nil {
			durable = append(durable, wait)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	// Even after an error, the pages before it are taken. If they come again, they are known.
	for _, wait := range durable {
		if err == nil {
			err = wait()
		}
	}
	switch {
	case errors.Is(err, crawl.ErrNotRunning), errors.Is(err, cluster.ErrNotKeeper):
		return rpc.ErrAgain
	case errors.Is(err, crawl.ErrImport):
		return fmt.Errorf("%w: %w", rpc.ErrMalformed, err)
	}
	return err
}

// Send implements cluster.Boundary.
func (p *boundaryPages) Send(ctx context.Context, agent string, pages []weburl.Link) error {
	c := p.a.membership
	to, ok := c.agent(agent)
	if !ok {
		return fmt.Errorf("agent %q is gone", agent)
	}
	calls := make([]rpc.Page, len(pages))
	for i, page := range pages {
		at, _ := page.Stored()
		calls[i] = rpc.Page{Link: page.WithoutStored().AppendTo(nil), Size: at.To - at.From,
			Open: func() (io.ReadCloser, error) { return p.Read(at) }}
	}
	return c.client.Peer(to.Name, to.Addr).Pages(ctx, calls)
}
