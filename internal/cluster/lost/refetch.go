package lost

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/wake"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	// refetchTries bounds the attempts to read the lists in a run.
	refetchTries = 5
	// refetchAtOnce is the number of URLs that are accepted at once.
	refetchAtOnce = 1000
)

// Refetch is this agent's part in fetching the pages of lost archives again. When an agent is lost with its disk, its
// archive is lost, and the heirs accept the URLs that it had once more. They do so when no agent has other work, so
// that the pages that no agent has fetched come first, and an agent that was only restarted is back by then:
//
//	all agents are idle for a minute -> Begin -> Tend accepts each list -> the pages are fetched -> all are idle
//
// A nil Refetch fetches nothing again. Safe for concurrent use.
type Refetch struct {
	lists *Lists
	wake  chan struct{}
	busy  atomic.Bool // the lists are read
	tries atomic.Int32
}

// NewRefetch returns what fetches the pages of lists again: of all lists if Config.Refetches or Config.Restored is set.
// Otherwise it fetches those of agents that were restored from a store, because a restored agent promises that each
// page is in the store at the end.
func NewRefetch(l *Lists) *Refetch { return &Refetch{lists: l, wake: make(chan struct{}, 1)} }

// A Crawl fetches pages again.
type Crawl interface {
	// Refetch accepts links, and returns when they are durable. The error is crawl.ErrNotRunning if the crawl is over.
	Refetch(ctx context.Context, links []link.Link) error
}

// Settled reports that no list is being read.
func (r *Refetch) Settled() bool { return r == nil || !r.busy.Load() }

// Wanted reports whether the pages of a lost archive are to be fetched again: the lost agent is not back.
func (r *Refetch) Wanted(v *gossip.View) bool {
	if r == nil || r.tries.Load() >= refetchTries {
		return false
	}
	archives, err := r.archives(v)
	return err != nil || len(archives) > 0
}

// Begin lets Tend read the lists if they are wanted. It reports whether they are.
func (r *Refetch) Begin(v *gossip.View) bool {
	if !r.Wanted(v) {
		return false
	}
	r.busy.Store(true)
	wake.Up(r.wake)
	return true
}

// Tend accepts the URLs of the lists, whenever Begin says so, until ctx is done.
func (r *Refetch) Tend(ctx context.Context, c Crawl) {
	for {
		select {
		case <-r.wake:
		case <-ctx.Done():
			return
		}
		err := r.all(ctx, c)
		if ctx.Err() != nil || errors.Is(err, crawl.ErrNotRunning) {
			return
		}
		if err != nil {
			r.tries.Add(1) // gives up in the end; the lists stay
			r.lists.cfg.Events.Write("refetch-failed", report.F("error", err))
		}
		r.busy.Store(false)
	}
}

// archives returns the archives that are lost, by a view, and have lists.
func (r *Refetch) archives(v *gossip.View) (archives []string, err error) {
	files, err := r.lists.filesIn(listDir, lostOf)
	for _, f := range files {
		_, instance := members.SplitArchive(f.archive)
		if instance != "" && members.FateOf(v, f.archive) != members.Kept &&
			(r.lists.cfg.Refetches || r.lists.cfg.Restored || r.lists.isBack(v, f.archive)) {
			archives = append(archives, f.archive)
		}
	}
	return archives, err
}

// all accepts the URLs of all lists. First it takes those off the lists that the store has. If the store refuses, all
// are fetched again.
func (r *Refetch) all(ctx context.Context, c Crawl) error {
	if err := r.lists.sift(ctx); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		r.lists.cfg.Events.Write("lost-stored-failed", report.F("error", err.Error()))
	}
	archives, err := r.archives(r.lists.cfg.Members.View())
	if err != nil {
		return err
	}
	for _, archive := range archives {
		if err := r.list(ctx, c, archive); err != nil {
			return err
		}
	}
	return nil
}

// list accepts the URLs of a list, and renames the list when they are durable. If the agent is killed before, it
// accepts them again after its restart, and the seen-sets of their owners drop them.
func (r *Refetch) list(ctx context.Context, c Crawl, archive string) error {
	l := r.lists
	l.mu.Lock()
	commits := l.commits.Load()
	l.mu.Unlock()
	urls := 0
	var batch []link.Link
	accept := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := c.Refetch(ctx, batch)
		urls, batch = urls+len(batch), batch[:0]
		return err
	}
	from := l.path(listDir, lostName(archive))
	err := l.each(from, func(before link.Link) error {
		again, ok := visit.RefetchLink(before)
		if !ok {
			return nil
		}
		if batch = append(batch, again); len(batch) < refetchAtOnce {
			return nil
		}
		return accept()
	})
	if err != nil {
		return err
	}
	if err := accept(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.commits.Load() != commits {
		return nil // another takeover may have added to the list, which is read again
	}
	l.commits.Add(1)
	if err := l.cfg.FS.Rename(from, l.path(listDir, "refetched-"+archive+".txt")); err != nil {
		return err
	}
	if err := l.cfg.FS.SyncDir(l.path(listDir)); err != nil {
		return err
	}
	if err := l.count(); err != nil {
		return err
	}
	agent, _ := members.SplitArchive(archive)
	l.cfg.Events.Write("refetch", report.F("agent", agent), report.F("urls", urls))
	return nil
}
