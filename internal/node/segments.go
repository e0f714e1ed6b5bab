package node

import (
	"context"
	"errors"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/past"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// tablesDir is the folder of a crawl directory with the tables of its segments.
const tablesDir = past.SegmentTables

// files returns the file system of the agent.
func (a *Agent) files() disk.FS {
	fsys := disk.Patient(a.cfg.FS, a)
	if a.cfg.Fetch.AllowPrivate { // other users of this machine must not read pages of a private network
		fsys = disk.Private(fsys)
	}
	return past.Moved(fsys, a.cfg.Store)
}

// openSegments makes what commits the segments of the archive.
func (a *Agent) openSegments() {
	if name := a.cfg.Archive.Segments.Crawl; name != "" {
		a.segments = a.segmentsOf(name)
		a.segments.Most = a.cfg.LocalArchive
		a.cfg.Crawl.Backlog = a.segments
	}
}

// segmentsOf returns what commits the segments of a crawl in the directory.
func (a *Agent) segmentsOf(name string) *past.Segments {
	return &past.Segments{FS: a.fs, Dir: a.cfg.Dir, Crawl: name, Software: "Orbweaver/" + Version,
		Tables: a.cfg.SegmentTables, Agent: a.cfg.Archive.Agent, Clock: a.cfg.Clock, Store: a.cfg.Store,
		Events: a.parts.Events}
}

// withSegments runs the crawl, and commits its segments beside it. If that fails, the end of the crawl tries again and
// returns the error.
func (a *Agent) withSegments(ctx context.Context) (crawl.Stop, error) {
	s := a.segments
	if s == nil {
		return a.withNear(ctx)
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.Run(run, a.parts.Archive); err != nil && run.Err() == nil {
			a.parts.Events.Write("segment-failed", report.F("error", err.Error()))
		}
	}()
	why, err := a.withNear(ctx)
	stop()
	<-ended
	return why, err
}

// index commits all segments of a closed archive, also those of an earlier run with another name of the crawl, then the
// lines of the logs that are in none. Then it builds the index of the archive. If files are damaged, it does so for all
// others, and the error wraps warc.ErrDamaged.
func (a *Agent) index() (flaws error) {
	names, err := warc.Crawls(a.fs, a.cfg.Dir)
	for _, name := range names {
		err = errors.Join(err, a.segmentsOf(name).Rest(context.Background()))
	}
	if s := a.segments; s != nil && (err == nil || errors.Is(err, warc.ErrDamaged)) {
		err = errors.Join(err, s.RestOfLogs(context.Background()))
	}
	if err != nil && !errors.Is(err, warc.ErrDamaged) {
		return err
	}
	return errors.Join(err, warc.BuildIndex(a.fs, a.cfg.Dir))
}

// sendSegments sends the segments that the store lacks, and makes its events durable.
func (a *Agent) sendSegments(why crawl.Stop) error {
	s := a.segments
	if s == nil {
		return nil
	}
	return errors.Join(s.SendRest(context.Background(), why == crawl.Signal), a.parts.Events.Sync())
}
