package node

import (
	"cmp"
	"context"
	"errors"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/strategy"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/local"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/node/past"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// prepareOthers checks whether this agent may crawl in a cluster, or alone.
func (a *Agent) prepareOthers(seeds []weburl.URL) error {
	if a.cfg.Cluster == nil {
		return errors.Join(membership.CheckAlone(a.fs, a.cfg.Dir), a.openSaving(0))
	}
	a.cfg.Cluster.SavesState = a.cfg.StoreState > 0
	settings, err := a.shared(seeds)
	if err != nil {
		return err
	}
	at := a.place()
	if at.Origin, err = past.Origin(a.fs, a.cfg.Dir); err != nil {
		return err
	}
	if a.membership, err = membership.Prepare(a.cfg.Cluster, at, settings); err != nil {
		return err
	}
	a.onClose(a.membership.Close)
	return a.openSaving(a.membership.Members.Self.Boot)
}

// place returns what a membership has from the beginning.
func (a *Agent) place() membership.Place {
	return membership.Place{FS: a.fs, Dir: a.cfg.Dir, Clock: a.cfg.Clock, Note: a.cfg.Note}
}

// openOthers opens the parts that not every agent needs: for near-duplicates, and for other agents.
func (a *Agent) openOthers() error {
	if err := a.openNear(); err != nil || a.membership == nil {
		return err
	}
	a.onClose(a.membership.CloseStores)
	of := a.budget.of
	_, plans := a.parts.Strategy.(visit.Planner)
	if err := a.membership.Open(membership.Parts{Agent: member{a}, Archive: a.parts.Archive, Events: a.parts.Events,
		Stored: stored(a.segmentsOf(a.cfg.Archive.Segments.Crawl), strategyName(a.parts.Strategy)),
		Orders: a.orders, PageLimit: a.cfg.Crawl.PageLimit, Plans: plans,
		Memory: membership.Memory{Contents: of(shareContents), Exchange: of(shareExchange), Outbox: of(shareOutbox),
			Pages: of(sharePages), Replicas: of(shareReplicas), Shipping: of(shareShipping), Sites: of(shareSites)},
	}); err != nil {
		return err
	}
	a.parts.Cluster = a.membership.Cluster.Join()
	a.cfg.Crawl.SyncEvery = cmp.Or(a.cfg.Crawl.SyncEvery, a.membership.SyncEvery())
	return nil
}

// A member is a membership.Agent, and the strategy.Pages of one.
type member struct{ a *Agent }

func (m member) Halt(ctx context.Context, why crawl.Stop) error { return m.a.crawler.Halt(ctx, why) }
func (m member) Progress() *crawl.Status                        { return m.a.crawler.View.Status() }
func (m member) Uncollected() string {
	return local.Uncollected(m.a.crawler.Applications.States())
}
func (m member) Own() *strategy.Own { return (*strategy.Own)(m.a.membership.Own()) }
func (m member) Unchecked(host string) bool {
	return m.a.cfg.Fetch.Proxy != nil || m.a.fetcher.Leads(host)
}
func (m member) Answer(ctx context.Context, method string, request []byte) ([]byte, error) {
	return m.a.local.Answer(ctx, method, request)
}

// crawl runs the crawler, in a cluster if one is configured.
func (a *Agent) crawl(ctx context.Context) (crawl.Stop, error) {
	if a.membership == nil {
		following, over := context.WithCancel(context.WithoutCancel(ctx))
		end := a.orders.Rates.Begin(following)
		defer end()
		defer over()
		return a.crawler.Run(ctx)
	}
	a.onClose(func() error { return a.depart(true) }) // also runs after an error
	if err := a.membership.Meet(ctx, a.crawler.View); err != nil && ctx.Err() == nil {
		return "", err
	}
	a.orders.Learn(ctx)
	a.membership.Cluster.ShareLimit()
	a.crawler.RanBefore(a.membership.Age())
	// Visits may continue for a while after ctx is done. Until they have ended, the loss of a lease cuts them off.
	visiting, over := context.WithCancel(context.WithoutCancel(ctx))
	defer over()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	a.membership.Tend(ctx, visiting, func(err error) { fail(&lostPlace{err}) })
	endRate := a.orders.Rates.Begin(visiting)
	stop, err := a.crawler.Run(ctx)
	left := a.membership.Cluster.TellShipped()
	a.membership.Cluster.CountKept()
	if lost, ok := errors.AsType[*lostPlace](context.Cause(ctx)); ok && err == nil {
		err = lost
	}
	a.staying = a.membership.Others()
	if a.keeper != nil {
		a.keeper.Heirs = a.membership.Boots()
	}
	over()
	fail(nil)
	endRate()
	if err == nil && stop == crawl.Left && left {
		err = a.membership.Entrust()
	}
	a.membership.Part(stop, err)
	_, refused := errors.AsType[*input.ConfigError](err)
	return stop, errors.Join(err, a.depart(err == nil || refused || disk.IsFull(err)))
}

// depart leaves the cluster after the last visit. It closes the connections first: other agents
// open theirs as soon as this agent has given back its leases or has said that it is gone. An agent whose disk or state
// is damaged may have lost a part of its archive, so it does not end in order.
func (a *Agent) depart(inOrder bool) error {
	return errors.Join(a.fetcher.Close(), a.membership.Depart(inOrder))
}

// lostPlace is the reason why an agent cannot stay in its cluster.
type lostPlace struct{ error }

func (l *lostPlace) Unwrap() error { return l.error }
