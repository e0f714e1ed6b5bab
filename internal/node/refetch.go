package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// When an agent is lost with its disk, its archive is lost. With LossRefetch the heirs accept the URLs that the
// archive had once more (see names.go). They do so when no agent has other work, so that the pages that no agent has
// fetched come first, and an agent that was only restarted is back by then:
//
//	all agents are idle -> refetchWait -> each list is accepted -> the pages are fetched -> all are idle -> end

// The values of Cluster.OnLoss.
const (
	// LossKeep leaves it to the operator to fetch the pages of a lost archive again. It is the default.
	LossKeep = "keep"
	// LossRefetch lets the other agents fetch the pages of a lost archive again before the crawl ends.
	LossRefetch = "refetch"
)

// OnLosses returns the values of Cluster.OnLoss that are not empty.
func OnLosses() []string { return []string{LossKeep, LossRefetch} }

// CheckOnLoss returns an *input.Error if agents with this number of replicas cannot treat the loss of an archive so.
// Empty means LossKeep.
func CheckOnLoss(how string, replicas int) error {
	switch {
	case how == "" || how == LossKeep:
		return nil
	case how != LossRefetch:
		return input.Errorf("--on-loss %s: this version knows %s", how, strings.Join(OnLosses(), " and "))
	case replicas < 2:
		return input.Errorf("--on-loss %s: with --replicas 1 no agent knows which pages a lost archive had; "+
			"give --replicas 2", how)
	}
	return nil
}

// checkPlanner refuses a strategy that fetches pages again by itself.
func (c *Cluster) checkPlanner(s visit.Strategy) error {
	if _, plans := s.(visit.Planner); plans {
		return CheckPlanner(c.OnLoss, strategyName(s))
	}
	return nil
}

// CheckPlanner returns an *input.Error if agents that treat the loss of an archive so cannot have a strategy that
// fetches pages again by itself. Open checks it too late to leave the directory unchanged, because it must open the
// strategy first.
func CheckPlanner(onLoss, strategy string) error {
	if onLoss == LossRefetch {
		return input.Errorf("--on-loss %s: --strategy %s decides itself which pages it fetches again; leave it out",
			onLoss, strategy)
	}
	return nil
}

const (
	// refetchWait is how long all agents have no other work before they fetch the pages of lost archives again. A
	// machine that restarts is back by then.
	refetchWait = time.Minute
	// refetchTries bounds the attempts to read the lists in a run.
	refetchTries = 5
	// refetchAtOnce is the number of URLs that are accepted at once.
	refetchAtOnce = 1000
)

// refetch is this agent's part in fetching the pages of lost archives again.
type refetch struct {
	c     *membership
	wake  chan struct{}
	busy  atomic.Bool // the lists are read
	tries atomic.Int32
	// mu is locked while a list is replaced or renamed. commits counts the lists that were written.
	mu      sync.Mutex
	commits int
}

func newRefetch(c *membership) *refetch {
	if c.cfg.OnLoss != LossRefetch {
		return nil
	}
	return &refetch{c: c, wake: make(chan struct{}, 1)}
}

// settled reports that no list is being read. A nil refetch has none.
func (r *refetch) settled() bool { return r == nil || !r.busy.Load() }

// wanted reports whether the pages of a lost archive are to be fetched again: the lost agent is not back.
func (r *refetch) wanted(v *gossip.View) bool {
	if r == nil || r.tries.Load() >= refetchTries {
		return false
	}
	lists, err := r.lists(v)
	return err != nil || len(lists) > 0
}

// begin lets tend read the lists if they are wanted. It reports whether they are.
func (r *refetch) begin(v *gossip.View) bool {
	if !r.wanted(v) {
		return false
	}
	r.busy.Store(true)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return true
}

// tend accepts the URLs of the lists, whenever begin says so, until ctx is done.
func (r *refetch) tend(ctx context.Context) {
	for {
		select {
		case <-r.wake:
		case <-ctx.Done():
			return
		}
		err := r.all(ctx)
		if ctx.Err() != nil || errors.Is(err, crawl.ErrNotRunning) {
			return
		}
		if err != nil {
			r.tries.Add(1) // gives up in the end; the lists stay
			r.c.a.parts.Events.Write("refetch-failed", report.F("error", err))
		}
		r.busy.Store(false)
	}
}

// A lostList is the list of a lost archive.
type lostList struct{ of, agent string }

// lists returns the lists of archives that are lost, by a view.
func (r *refetch) lists(v *gossip.View) (lists []lostList, err error) {
	files, err := names{r.c.a}.listsIn(listDir, listOf)
	for _, l := range files {
		agent, instance := folderAgent(l.archive)
		if instance != "" && fateOf(v, l.archive) != kept {
			lists = append(lists, lostList{l.archive, agent})
		}
	}
	return lists, err
}

// all accepts the URLs of all lists.
func (r *refetch) all(ctx context.Context) error {
	lists, err := r.lists(r.c.members.View())
	if err != nil {
		return err
	}
	for _, l := range lists {
		if err := r.list(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// list accepts the URLs of a list, and renames the list when they are durable. If the agent is killed before, it
// accepts them again after its restart, and the seen-sets of their owners drop them.
func (r *refetch) list(ctx context.Context, l lostList) error {
	a := r.c.a
	r.mu.Lock()
	commits := r.commits
	r.mu.Unlock()
	urls := 0
	var batch []link.Link
	accept := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := a.cluster.Refetch(ctx, batch)
		urls, batch = urls+len(batch), batch[:0]
		return err
	}
	from := a.dir("reports", listName(l.of))
	err := names{a}.each(from, func(before link.Link) error {
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.commits != commits {
		return nil // another takeover may have added to the list, which is read again
	}
	if err := a.fs.Rename(from, a.dir("reports", "refetched-"+l.of+".txt")); err != nil {
		return err
	}
	if err := a.fs.SyncDir(a.dir("reports")); err != nil {
		return err
	}
	if err := (names{a}).count(); err != nil {
		return err
	}
	a.parts.Events.Write("refetch", report.F("agent", l.agent), report.F("urls", urls))
	return nil
}

// commit replaces a list by write.
func (r *refetch) commit(write func() error) error {
	if r == nil {
		return write()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits++
	return write()
}

// standstill is what the agents of a view said when all of them were idle.
type standstill struct {
	activity map[string]uint64
	answered uint64 // HTTP responses other than redirects, of all agents
	lost     []gossip.Agent
}

// refetchAll lets the agents that have lists of lost archives accept the URLs.
func (d *commonEnd) refetchAll(ctx context.Context, digest uint64, s standstill) {
	for _, a := range s.lost {
		e := rpc.End{View: digest, Activity: s.activity[a.Name], Prepare: true}
		if a.Name == d.c.members.Self.Name {
			_, _ = d.prepare(ctx, e) // the next round asks again
			continue
		}
		_, _ = d.c.members.To(a).End(ctx, e)
	}
}
