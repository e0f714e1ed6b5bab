package node

import (
	"context"
	"errors"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/past"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// wasBare reports that this run fetches requisites and the run before did not. It tells the operator if only this run
// follows sitemaps. Call it before the marker of the run before is replaced.
func (a *Agent) wasBare() (bool, error) {
	if !a.cfg.Resume || !a.cfg.Crawl.Requisites && !a.cfg.Crawl.Sitemaps.Follow {
		return false, nil
	}
	requisites, sitemaps, err := past.Lacked(a.fs, a.cfg.Dir)
	if sitemaps && a.cfg.Crawl.Sitemaps.Follow {
		noter(a.cfg.Note).Note("the crawl has not followed sitemaps so far; it finds those of a host when it asks " +
			"for its robots.txt again, a day after the last time")
	}
	return requisites && a.cfg.Crawl.Requisites, err
}

// withRepair runs the crawl after repair. A run that is stopped meanwhile is not finished.
func (a *Agent) withRepair(ctx context.Context) (crawl.Stop, error) {
	if err := a.repair(ctx); err != nil {
		return "", err
	}
	stop, err := a.withSegments(ctx)
	if stop == crawl.Finished && a.bareBefore {
		stop = crawl.Signal
	}
	return stop, err
}

// repair accepts the files that the archived pages of a crawl without requisites need, and then writes the marker. So a
// run that is stopped meanwhile has repaired nothing, and the next run with requisites begins again. Call it before the
// crawl runs. The error is one of the disk.
func (a *Agent) repair(ctx context.Context) error {
	if !a.bareBefore || ctx.Err() != nil {
		return nil
	}
	if visited := a.parts.Tally.Pages(); visited > 0 {
		r := past.Repair{FS: a.fs, Dir: a.cfg.Dir, Clock: clock.Or(a.cfg.Clock), Notes: noter(a.cfg.Note),
			Agent: a.cfg.Crawl.Agent, MaxDecoded: a.cfg.Crawl.MaxDecoded}
		err := r.Run(ctx, visited, a.crawler.View.Pending, a.crawler.Intake)
		if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	a.bareBefore = false
	return disk.WriteFile(a.fs, a.dir(crawldir.Marker), a.cfg.Effective)
}
