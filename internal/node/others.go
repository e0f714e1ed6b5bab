package node

import (
	"context"
	"errors"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/cluster/replicas"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/local"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// prepareOthers checks whether this agent may crawl in a cluster, or alone. An agent that was in a
// cluster must not continue alone, because its directory has links of other agents' hosts.
func (a *Agent) prepareOthers(seeds []weburl.URL) error {
	if a.cfg.Cluster != nil {
		return a.prepareCluster(seeds)
	}
	if _, err := a.fs.Stat(a.dir(identityFile)); err == nil {
		return input.Errorf("the crawl in %s belongs to an agent of a cluster: "+
			"continue it with its --name and --listen", a.cfg.Dir)
	}
	return nil
}

// openOthers opens the parts that not every agent needs: for near-duplicates, and for other agents.
func (a *Agent) openOthers() (err error) {
	if err := a.openNear(); err != nil {
		return err
	}
	if a.membership == nil {
		return nil
	}
	if err := a.openContents(); err != nil {
		return err
	}
	if err := a.openCluster(); err != nil {
		return err
	}
	a.openPages()
	if a.others.Outbox, err = outbox.Open(a.fs, a.dir("state", "outbox"),
		outbox.Config{MemoryBytes: a.budget.of(shareOutbox)}); err != nil {
		return err
	}
	a.onClose(a.others.Outbox.Close)
	if a.boundary != nil {
		if a.others.PageBox, err = outbox.Open(a.fs, a.dir("state", "pagebox"),
			outbox.Config{MemoryBytes: a.budget.of(sharePages), BatchLinks: boundary.AtOnce}); err != nil {
			return err
		}
		a.onClose(a.others.PageBox.Close)
	}
	a.others.Placement, a.others.Exchange, a.others.Ending = a.membership, a.membership, a.membership.ends.Ending
	a.others.Counter, a.others.Uncollected = replicas.SourceOf(a.membership.members.Self).Counter(), func() string {
		return local.Uncollected(a.crawler.Applications.States())
	}
	a.cluster = cluster.New(a.others)
	a.membership.cluster = a.cluster
	a.parts.Cluster = a.cluster.Join()
	a.membership.ends.Serve(a.membership.server, a.cluster)
	if a.boundary != nil {
		boundary.Serve(a.membership.server, a.cluster)
	}
	if a.others.Copies != nil && a.cfg.Crawl.SyncEvery == 0 {
		a.cfg.Crawl.SyncEvery = cluster.SyncEvery
	}
	return nil
}

// crawl runs the crawler, in a cluster if one is configured.
func (a *Agent) crawl(ctx context.Context) (crawl.Stop, error) {
	if a.membership == nil {
		following, over := context.WithCancel(context.WithoutCancel(ctx))
		end := a.rates.Begin(following)
		defer end()
		defer over()
		return a.crawler.Run(ctx)
	}
	a.onClose(func() error { return a.depart(true) }) // also runs after an error
	a.membership.joining.paused = a.crawler.View
	switch err := a.membership.meet(ctx); {
	case err == nil:
		a.membership.joining.unmet = ""
	case ctx.Err() == nil:
		return "", err
	}
	a.orders.Learn(ctx)
	a.cluster.ShareLimit()
	a.crawler.RanBefore(a.membership.age.Running(a.now()))
	// Visits may continue for a while after ctx is done. Until they have ended, the loss of a lease cuts them off.
	visiting, over := context.WithCancel(context.WithoutCancel(ctx))
	defer over()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if a.membership.members.Gossip() != nil {
		a.membership.tend(ctx, func(err error) { fail(&lostPlace{err}) })
		a.membership.leases.Tend(visiting, a.cluster.Permits)
	}
	endRate := a.rates.Begin(visiting)
	stop, err := a.crawler.Run(ctx)
	left := a.cluster.TellShipped()
	if lost, ok := errors.AsType[*lostPlace](context.Cause(ctx)); ok && err == nil {
		err = lost
	}
	a.staying = a.membership.others()
	over()
	fail(nil)
	endRate()
	if err == nil && stop == crawl.Left && left {
		err = a.membership.lists.Entrust()
	}
	_, refused := errors.AsType[*input.Error](err)
	return stop, errors.Join(err, a.depart(err == nil || refused || disk.IsFull(err)))
}

// depart leaves the cluster after the last visit. It closes the connections first: other agents
// open theirs as soon as this agent has given back its leases or has said that it is gone. An agent whose disk or state
// is damaged may have lost a part of its archive, so it does not end in order.
func (a *Agent) depart(inOrder bool) error {
	return errors.Join(a.fetcher.Close(), a.membership.leave(inOrder))
}

// lostPlace is the reason why an agent cannot stay in its cluster.
type lostPlace struct{ error }

func (l *lostPlace) Unwrap() error { return l.error }
