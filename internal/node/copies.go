package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
)

const (
	replicaDir = "state/replica"
	// leaveGrace is how long an agent may take to come back before others take over its hosts. It holds for an agent
	// that left in good order, and for an agent that is absent when this one begins.
	leaveGrace = 5 * time.Second
	// inheritTries bounds the attempts to take over an agent's hosts, and inheritWait is the pause
	// between two attempts.
	inheritTries = 5
	inheritWait  = 2 * time.Second
	// awayGrace replaces leaveGrace if another agent was lost at most lateLoss before, or in the same
	// view, and is still away. The agent that goes now may have the only replica of that agent's
	// hosts. After awayGrace, others take over the hosts of both.
	awayGrace = 20 * time.Second
	lateLoss  = 30 * time.Second
)

// copies is this agent's part in replication. It ships the records of its hosts to the heirs,
// stores what other agents ship, and takes over their hosts when they are gone.
type copies struct {
	c     *membership
	store *handoff.Store
	wake  chan struct{}
	// broken has the error of a disk that cannot store what others ship. The run ends then: the others
	// would wait for this agent forever.
	broken chan error

	endings endings

	listed atomic.Pointer[map[string]int64] // by lost archive: the URLs on its list
	// lists is locked while a list is written. commits counts the lists of takeovers that were written.
	lists   sync.Mutex
	commits atomic.Int64
	// ship is read-locked while records are appended to the store. It is locked to declare a source
	// lost or to forget it, so that no record of the source is appended after that.
	ship sync.RWMutex
	// mu guards the fields below. Lock ship before mu.
	mu     sync.Mutex
	heard  map[handoff.Source]heard
	up     []gossip.Agent               // the agents that were up in the last view
	away   map[handoff.Source]time.Time // when each lost agent was lost; without those that are back
	losses []*loss
	bars   atomic.Pointer[[]*loss] // a copy of losses, for Owner
}

// heard identifies the last batch of a source.
type heard struct{ boot, number uint64 }

// A loss is an agent that is gone, until its hosts are taken over or it is back. There need not be
// a replica of it here.
type loss struct {
	source handoff.Source
	before ownersBefore // of the agents including the lost one; nil: unknown
	due    time.Time
	tries  int
	known  bool // the new owners of its hosts are known
}

// ownersBefore returns the agent that owned a host by an earlier view, or "" if that is not known.
type ownersBefore func(host string) string

// bars reports whether the lost agent may have owned a host: its finished URLs are not known yet.
func (l *loss) bars(host string) bool {
	if l.before == nil {
		return true
	}
	owner := l.before(host)
	return owner == "" || owner == l.source.Name
}

// openCopies opens the replicas and the queues of records to ship.
func (a *Agent) openCopies() error {
	if a.cfg.Cluster.Replicas < 2 {
		return nil
	}
	store, err := handoff.Open(a.fs, a.dir(replicaDir), handoff.Config{MemoryBytes: a.budget.of(shareReplicas)})
	if err != nil {
		return err
	}
	a.onClose(store.Close)
	k := &copies{c: a.membership, store: store, wake: make(chan struct{}, 1), broken: make(chan error, 1),
		heard: map[handoff.Source]heard{}, away: map[handoff.Source]time.Time{},
		endings: endings{durable: a.membership.joining.who.Ended}}
	out := &cluster.Copies{Shipper: k}
	memory := a.budget.of(shareShipping)
	if out.Out, err = outbox.Open(a.fs, a.dir("state", "shipping"), outbox.Config{MemoryBytes: memory}); err != nil {
		return err
	}
	a.onClose(out.Out.Close)
	if out.Waiting, err = outbox.OpenQueue(a.fs, a.dir("state", "shipping-ends"), memory); err != nil {
		return err
	}
	a.onClose(out.Waiting.Close)
	a.others.Copies, a.membership.copies, a.membership.joining.copies = out, k, k
	a.membership.refetch, a.membership.spares = newRefetch(a.membership), newSpares(a.membership)
	return a.openNames()
}

const notWhole = "whole" // the reason of a refusal

// Ship implements cluster.Shipper.
func (k *copies) Ship(ctx context.Context, agent string, number uint64, records []byte, count int) error {
	c := k.c
	to, ok := c.members.Agent(agent)
	if !ok {
		return fmt.Errorf("agent %q is gone", agent)
	}
	peer := c.members.To(to)
	err := peer.Ship(ctx, rpc.Records{Seq: number, Count: count, Data: records})
	var refusal *rpc.Refusal
	if errors.As(err, &refusal) && refusal.Reason == notWhole {
		return fmt.Errorf("%w: %w", cluster.ErrNotWhole, err)
	}
	return err
}

// receive stores the records that another agent ships.
func (k *copies) receive(ctx context.Context, from rpc.Caller, r rpc.Records) error {
	source := handoff.Source{Name: from.Name, Instance: from.Instance}
	k.ship.RLock()
	defer k.ship.RUnlock()
	k.mu.Lock()
	was, ok := k.heard[source]
	lost := slices.ContainsFunc(k.losses, func(l *loss) bool { return l.source == source })
	k.mu.Unlock()
	switch {
	case lost:
		return rpc.ErrAgain
	case r.Seq > 1 && !ok && !k.has(source):
		return k.refuse(source)
	case ok && was.boot == from.Boot && r.Seq <= was.number && r.Seq > 1:
		return k.store.Sync(source) // a repetition: the batch is stored already
	}
	err := k.store.Append(source, r.Data)
	if err == nil {
		err = k.store.Sync(source)
	}
	switch {
	case errors.Is(err, handoff.ErrDamaged):
		k.c.a.parts.Events.Write("replica-damaged", report.F("agent", source.Name), report.F("error", err))
		if err := k.store.Reset(ctx, source); err != nil {
			return err
		}
		return k.refuse(source)
	case errors.Is(err, handoff.ErrRecord), errors.Is(err, handoff.ErrTooLarge), errors.Is(err, handoff.ErrSource):
		return fmt.Errorf("%w: %w", rpc.ErrMalformed, err)
	case err != nil:
		k.breaks(err) // nothing else may tell: this agent may have nothing to write itself
		return err
	}
	k.mu.Lock()
	k.heard[source] = heard{from.Boot, r.Seq}
	k.mu.Unlock()
	return nil
}

// breaks ends the run because of an error of this machine.
func (k *copies) breaks(err error) {
	select {
	case k.broken <- err:
	default: // another one has ended it
	}
}

// refuse asks a source to ship all its records from the beginning.
func (k *copies) refuse(source handoff.Source) error {
	k.mu.Lock()
	delete(k.heard, source)
	k.mu.Unlock()
	return &rpc.Refusal{Reason: notWhole,
		Text: fmt.Sprintf("agent %q: there is no replica of %v", k.c.members.Self.Name, source)}
}

func (k *copies) has(source handoff.Source) bool {
	return slices.ContainsFunc(k.store.Sources(), func(i handoff.Info) bool { return i.Source == source })
}

// sourceOf returns the replica source that stands for an agent.
func sourceOf(a gossip.Agent) handoff.Source {
	return handoff.Source{Name: a.Name, Instance: a.Instance}
}

// lose finds the agents that are gone since the last view, and those that are back. before is the
// owners before v; nil: v is the first view.
func (k *copies) lose(v *gossip.View, before ownersBefore, now time.Time) {
	there := func(s handoff.Source) bool {
		a, ok := v.Agent(s.Name)
		return ok && a.Instance == s.Instance && (a.State == gossip.Up || a.State == gossip.Leaving)
	}
	var gone []handoff.Source
	for _, i := range k.store.Sources() {
		gone = append(gone, i.Source)
	}
	k.ship.Lock() // waits for appends under way
	defer k.ship.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range k.up {
		if !slices.Contains(gone, sourceOf(a)) {
			gone = append(gone, sourceOf(a))
		}
	}
	gone = slices.DeleteFunc(gone, func(s handoff.Source) bool {
		return s.Name == k.c.members.Self.Name || there(s)
	})
	k.up = slices.DeleteFunc(slices.Clone(v.Agents), func(a gossip.Agent) bool { return a.State != gossip.Up })
	maps.DeleteFunc(k.away, func(s handoff.Source, since time.Time) bool {
		return there(s) || now.Sub(since) > lateLoss
	})
	another := len(k.away) > 0
	var losses []*loss
	for _, l := range k.losses {
		if !there(l.source) {
			losses = append(losses, l)
		}
	}
	for _, s := range gone {
		if slices.ContainsFunc(losses, func(o *loss) bool { return o.source == s }) {
			continue
		}
		dead := slices.ContainsFunc(v.Lost, func(a gossip.Agent) bool { return sourceOf(a) == s })
		l := &loss{source: s, before: before, due: now}
		switch _, twice := k.away[s]; {
		case another && !twice:
			l.due = now.Add(awayGrace)
		case !dead || before == nil:
			l.due = now.Add(leaveGrace)
		}
		if before != nil {
			k.away[s], another = now, true
		}
		losses = append(losses, l)
	}
	if !slices.Equal(k.losses, losses) {
		k.put(losses)
	}
}

// ended returns the endings that an earlier run has heard of.
func (k *copies) ended() []gossip.Ending {
	if k == nil {
		return nil
	}
	return k.endings.gossip()
}

// barring returns a pointer that changes whenever the barred hosts may have changed.
func (k *copies) barring() *[]*loss {
	if k == nil {
		return nil
	}
	return k.bars.Load()
}

// takeOver allows tend to take over the hosts of the lost agents: their new owners are known.
func (k *copies) takeOver() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.losses {
		l.known = true
	}
	k.poke()
}

// put replaces the losses. The caller holds k.mu.
func (k *copies) put(losses []*loss) {
	k.losses = losses
	b := slices.Clone(losses)
	k.bars.Store(&b)
	k.poke()
}

// poke lets tend look at the losses and the lists of archives. A nil receiver has none.
func (k *copies) poke() {
	if k == nil {
		return
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// barred reports whether a host must wait until the hosts of a lost agent are taken over.
func (k *copies) barred(host string) bool {
	if k == nil {
		return false
	}
	b := k.bars.Load()
	return b != nil && slices.ContainsFunc(*b, func(l *loss) bool { return l.bars(host) })
}

// settled reports whether no takeover is left to do.
func (k *copies) settled() bool {
	if k == nil {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.losses) == 0
}

// tend takes over the hosts of lost agents, one agent after the other, and puts the lists of their archives where they
// belong, until ctx is done.
func (k *copies) tend(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var placed *gossip.View // by which the lists were placed
	for {
		if v := (names{k.c.a}).view(); v != placed {
			if err := (names{k.c.a}).place(v); err != nil {
				k.breaks(err)
				return
			}
			placed = v
		}
		k.mu.Lock()
		var next *loss
		for _, l := range k.losses {
			if l.known && (next == nil || l.due.Before(next.due)) {
				next = l
			}
		}
		wait := time.Hour
		if next != nil {
			wait = next.due.Sub(k.c.a.now())
		}
		k.mu.Unlock()
		if next != nil && wait <= 0 {
			if !k.inherit(ctx, next) {
				return
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-k.wake:
		case <-ctx.Done():
			return
		}
	}
}

// inherit takes over the hosts of one lost agent. It returns false if the crawl is over.
func (k *copies) inherit(ctx context.Context, l *loss) bool {
	began, events := time.Now(), k.c.a.parts.Events
	if !k.has(l.source) {
		k.over(l)
		return true
	}
	n, err := k.c.a.cluster.TakeOver(ctx, lostReplica{k.store, k, l.source}, l.source, func(host string) bool {
		return k.c.ownerOf(host) == k.c.members.Self.Name
	})
	over := false
	switch {
	case ctx.Err() != nil || errors.Is(err, crawl.ErrNotRunning):
		return false
	case err == nil:
		over = true
		events.Write("inherited", report.F("agent", l.source.Name), report.F("pending", n.Pending),
			report.F("known", n.Known), report.F("passed", n.Passed), report.F("named", n.Named),
			report.F("took_ms", time.Since(began).Milliseconds()))
	case errors.Is(err, handoff.ErrNewer):
		l.due = k.c.a.now()
	default:
		l.tries++
		over = l.tries >= inheritTries // gives up; the replica keeps its records
		l.due = k.c.a.now().Add(inheritWait)
		events.Write("inherit-failed", report.F("agent", l.source.Name), report.F("error", err))
	}
	if over {
		k.over(l)
	}
	return true
}

// over removes a loss.
func (k *copies) over(l *loss) {
	k.mu.Lock()
	k.put(slices.DeleteFunc(slices.Clone(k.losses), func(o *loss) bool { return o == l }))
	k.mu.Unlock()
	k.c.a.cluster.ViewChanged()
}

// A lostReplica is the replica store during a takeover of one source. When the replica is dropped, lostReplica also
// forgets the source's last batch. If the source comes back and continues, it is asked to ship all its records again.
type lostReplica struct {
	*handoff.Store
	k      *copies
	source handoff.Source
}

// DropSource implements cluster.LostReplica, as does Reset.
func (b lostReplica) DropSource(ctx context.Context, mark handoff.Mark) error {
	return b.forget(func() error { return b.Store.DropSource(ctx, mark) })
}

func (b lostReplica) Reset(ctx context.Context, source handoff.Source) error {
	return b.forget(func() error { return b.Store.Reset(ctx, source) })
}

func (b lostReplica) forget(drop func() error) error {
	b.k.ship.Lock()
	defer b.k.ship.Unlock()
	if err := drop(); err != nil {
		return err
	}
	b.k.mu.Lock()
	defer b.k.mu.Unlock()
	delete(b.k.heard, b.source)
	return nil
}
