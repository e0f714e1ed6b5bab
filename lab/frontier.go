package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize"
)

// Frontier answers: how many links per second can the frontier take and give back, in how much
// memory, and do large hosts slow the other hosts down?
type Frontier struct {
	// Hosts and Links are the numbers of queued hosts and links at the end. Zero means 1
	// million hosts with 20 links each, with --quick 20,000 hosts.
	Hosts, Links int64
	// Memory bounds the memory that the run may take, in bytes. Zero means 1 GB.
	Memory int64
}

const (
	// wantedOps is the least number of operations per second, each a push or a pop.
	wantedOps = 500_000
	// wantedShare is the least share of the fetches that politeness allows.
	wantedShare = 0.95
)

// Errors of the experiment.
var (
	ErrUnfair = errors.New("below the politeness ceiling")
	ErrOrder  = errors.New("links came out twice, or out of order")
)

// Run implements Experiment.
func (x *Frontier) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	if t.Quick {
		def(&y.Hosts, 20_000)
	}
	def(&y.Hosts, 1_000_000)
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
	scale := int64(1)
	if t.Quick {
		scale = 20
	}
	var fair []*fairRun
	for _, s := range fairScenarios(scale) {
		done := t.step("fairness: %s", s.name)
		r, err := s.run(ctx, filepath.Join(t.Dir, "fair"), t.Seed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		done("%.4f of the ceiling, in the worst %v %.4f", r.share(), fairWindow, r.worst)
		fair = append(fair, r)
	}
	r := y.result(ps, fair, usage)
	for _, p := range ps {
		if p.Wrong > 0 {
			err = errors.Join(err, fmt.Errorf("%w: %d of those until %s links", ErrOrder, p.Wrong,
				humanize.Comma(p.Queued)))
		}
	}
	for _, f := range fair {
		if f.share() < wantedShare || f.worst < wantedShare {
			err = errors.Join(err, fmt.Errorf("%w: %s: %.4f, in the worst %v %.4f", ErrUnfair, f.name, f.share(),
				fairWindow, f.worst))
		}
	}
	return r, err
}

// result returns the measurements: a place for each number of links, each scenario and each of its windows.
func (x *Frontier) result(ps []QueuePoint, fair []*fairRun, usage Usage) *Result {
	d := newData("point", "waiting", "at")
	d.Fact("all_links", x.Links)
	d.Fact("all_hosts", x.Hosts)
	d.Fact("links_of_page", pageLinks)
	d.Fact("workers", queueWorkers)
	d.Fact("wanted", wantedOps)
	d.Fact("bound", x.Memory)
	d.Fact("peak_bytes", usage.Peak)
	d.Fact("least_share", wantedShare)
	d.Fact("fair_window", fairWindow.String())
	for i := range ps {
		d.At(ps[i].Queued).All(&ps[i])
	}
	for _, f := range fair {
		d.At("", f.name).Set("queued", f.links).Set("hosts", f.hosts).Set("time_s", f.time).Set("fetched", f.fetched).
			Set("ceiling", f.ceiling).Set("share", f.share()).Set("worst", f.worst).Set("others", f.others)
		for _, w := range f.windows {
			d.At("", f.name, w.X).Set("share", w.Y)
		}
	}
	return &Result{Name: "frontier", Rows: d}
}

// fairWindow is the span of virtual time for which the result names the worst share.
const fairWindow = 10 * time.Second
