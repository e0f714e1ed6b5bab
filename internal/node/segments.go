package node

import (
	"context"
	"errors"
	"sync"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/node/past"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// tablesDir is the folder of a crawl directory with the tables of its segments.
const tablesDir = past.SegmentTables

// keeper saves the states of this agent.
type keeper = past.Keeper

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
	s := &past.Segments{FS: a.fs, Dir: a.cfg.Dir, Crawl: name, Software: "Orbweaver/" + Version,
		Tables: a.cfg.SegmentTables, Agent: a.cfg.Archive.Agent, Clock: a.cfg.Clock, Store: a.cfg.Store,
		Events: a.parts.Events}
	if a.membership != nil {
		s.Members = a.membership.Members
	}
	return s
}

// stored returns what the agents of a crawl have in the store; nil if there is none. A recrawl archives a page many
// times: an older copy in the store does not tell that the store has the newest one.
func stored(s *past.Segments, strategy string) membership.Stored {
	if s.Crawl == "" || s.Store.URL == "" || strategy == "recrawl" {
		return nil
	}
	return &past.Held{Segments: s}
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
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := s.Run(run, a.parts.Archive); err != nil && run.Err() == nil {
			a.parts.Events.Write("segment-failed", report.F("error", err.Error()))
		}
	})
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if k := a.keeper; k != nil {
		k.Events = a.parts.Events
		ended.Go(func() { k.Run(run, a.saved(s)) })
		if o := k.Orphans; o != nil {
			ended.Go(func() { o.Run(run) })
		}
		ended.Go(func() {
			if err := k.Watch(run, a.saved(s)); err != nil {
				fail(&lostPlace{err})
			}
		})
	}
	why, err := a.withNear(ctx)
	stop()
	ended.Wait()
	if lost, ok := errors.AsType[*lostPlace](context.Cause(ctx)); ok && err == nil {
		err = lost
	}
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
	// An agent whose time to leave is over may have links that no other agent has.
	e := past.End{Signalled: why == crawl.Signal, Left: why == crawl.Left && a.crawler.View.Pending() == 0,
		Over: why == crawl.Finished}
	err := s.SendRest(context.Background(), e.Signalled)
	if err == nil && a.keeper != nil && s.AllStored() {
		err = a.keeper.Last(e)
	}
	return errors.Join(err, a.parts.Events.Sync())
}

// openSaving claims the states of this agent in the store, if they are to be saved. boot is the number of its start.
func (a *Agent) openSaving(boot uint64) error {
	name := a.cfg.Archive.Segments.Crawl
	if name == "" || a.cfg.StoreState <= 0 {
		return nil
	}
	k := &past.Keeper{Series: past.Series{Store: a.cfg.Store, Crawl: name, FS: a.fs, Dir: a.cfg.Dir,
		Clock: a.cfg.Clock, Notes: past.Told(a.cfg.Note)}, Every: a.cfg.StoreState, Boot: boot}
	if a.cfg.Cluster != nil {
		if k.Agent = a.cfg.Cluster.Name; !a.cfg.adopted {
			k.Orphans, k.Replicated = past.NewOrphans(k, member{a}), a.cfg.Cluster.Replicas > 1
		}
		k.Members = a.membership.Members
	}
	if err := k.Open(context.Background(), a.cfg.Resume, a.cfg.Overwrite); err != nil {
		return err
	}
	a.keeper, a.cfg.Crawl.Claim = k, k
	return nil
}

// saved is the agent, as its keeper sees it.
type saved struct {
	orders  *crawl.Orders
	view    *crawl.View
	archive *warc.Writer
	// cluster and membership are nil if the agent crawls alone.
	cluster interface {
		Settle(states past.States) error
	}
	membership interface{ Others() []string }
	segments   *past.Segments
}

// saved returns the agent as its keeper sees it.
func (a *Agent) saved(s *past.Segments) *saved {
	v := &saved{orders: a.crawler.Orders, view: a.crawler.View, archive: a.parts.Archive, segments: s}
	if a.membership != nil {
		v.cluster, v.membership = a.membership.Cluster, a.membership
	}
	return v
}

func (v *saved) Cut(ctx context.Context, states past.States, take func() error) (ok bool, err error) {
	settle := func() error {
		if v.cluster == nil {
			return nil
		}
		return v.cluster.Settle(states)
	}
	ok, err = v.orders.Cut(ctx, settle, v.archive.EndFiles, take)
	if errors.Is(err, crawl.ErrNotRunning) { // the run has ended meanwhile: its end saves the last state
		return false, nil
	}
	return ok, err
}

func (v *saved) Visiting() bool {
	s := v.view.Status()
	return s == nil || s.Open > 0
}

func (v *saved) Others() []string {
	if v.membership == nil {
		return nil
	}
	return v.membership.Others()
}

func (v *saved) Stored(ctx context.Context) error { return v.segments.Stored(ctx, v.archive) }
