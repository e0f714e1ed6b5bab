package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/dustin/go-humanize"
)

// Frontier answers: how many links per second can the frontier take and give back, in how much
// memory? Tests of package frontier answer whether large hosts slow the others.
type Frontier struct {
	// Hosts and Links are the numbers of queued hosts and links at the end. Zero means 1
	// million hosts with 20 links each, with --quick 20,000 hosts.
	Hosts, Links int64
	// Memory bounds the memory that the run may take, in bytes. Zero means 1 GB.
	Memory int64
}

// wantedOps is the least number of operations per second, each a push or a pop.
const wantedOps = 500_000

// ErrOrder reports links that came out twice, or out of order.
var ErrOrder = errors.New("links came out twice, or out of order")

// Run implements Experiment.
func (x *Frontier) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	size(t.Quick, &y.Hosts, 1_000_000, 20_000)
	def(&y.Links, 20*y.Hosts)
	def(&y.Memory, 1e9)
	dir := filepath.Join(t.Dir, "frontier")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	done := t.step("%s hosts, %s links", humanize.Comma(y.Hosts), humanize.Comma(y.Links))
	var ps []QueuePoint
	usage, err := t.apart(ctx, "frontier-queue", QueueSpec{Dir: dir, Seed: t.Seed, Hosts: y.Hosts,
		Points: points(y.Links)}, func(line []byte) error {
		var p QueuePoint
		err := json.Unmarshal(line, &p)
		ps = append(ps, p)
		t.partial("%s links: %s ops/s, %d MB", humanize.Comma(p.Queued), count(p.OpsPerS()), p.RAM/1e6)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(ps) == 0 {
		return nil, errors.New("the frontier's process ended without a result")
	}
	l := &ps[len(ps)-1]
	done("%s ops/s, %d MB, %s B a link on disk", count(l.OpsPerS()), l.RAM/1e6,
		count(float64(l.Disk)/float64(l.Queued)))
	r := y.result(ps, usage)
	for _, p := range ps {
		if p.Wrong > 0 {
			err = errors.Join(err, fmt.Errorf("%w: %d of those until %s links", ErrOrder, p.Wrong,
				humanize.Comma(p.Queued)))
		}
	}
	return r, err
}

// result returns the measurements: a place for each number of links.
func (x *Frontier) result(ps []QueuePoint, usage Usage) *Result {
	d := newData("point")
	d.Fact("all_links", x.Links)
	d.Fact("all_hosts", x.Hosts)
	d.Fact("links_of_page", pageLinks)
	d.Fact("workers", queueWorkers)
	d.Fact("wanted", wantedOps)
	d.Fact("bound", x.Memory)
	d.Fact("peak_bytes", usage.Peak)
	for i := range ps {
		d.At(ps[i].Queued).All(&ps[i])
	}
	return &Result{Name: "frontier", Rows: d}
}
