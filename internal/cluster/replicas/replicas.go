// Package replicas answers: what does this agent keep of other agents' hosts, and when does it take them over?
//
//	the records of this agent's hosts (package cluster) -> Ship -> the heirs
//	another agent's records -> Receive -> a replica, durable here
//	a view without that agent -> Lose -> its hosts are barred -> TakeOver -> Tend imports the replica -> they are not
//
// Package handoff stores the replicas and says what is in them.
package replicas

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/operation"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/wake"
)

const (
	// Dir is the directory of the replicas in a crawl directory.
	Dir = "state/replica"
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

// Config configures Replicas.
type Config struct {
	FS          disk.FS
	Dir         string // of the crawl
	MemoryBytes int64
	Clock       clock.Clock
	Events      *report.Events
	Members     *members.Members
	Owners      Owners
	Lists       Lists
}

// Owners knows the owners of hosts. Safe for concurrent use.
type Owners interface {
	// OwnerOf returns the agent that owns a host by the present view, or "" if it is not known.
	OwnerOf(host string) string
}

// Lists are the lists of lost archives. Safe for concurrent use.
type Lists interface {
	// Place puts each list where it belongs by a view. The error is one of the disk.
	Place(v *gossip.View) error
}

// A Crawl takes over hosts. Both methods are those of cluster.Clustered.
type Crawl interface {
	TakeOver(ctx context.Context, store cluster.LostReplica, source handoff.Source,
		ours func(host string) bool) (cluster.Taken, error)
	ViewChanged()
}

// Replicas are this agent's part in replication. It ships the records of its hosts to the heirs, stores what other
// agents ship, and takes over their hosts when they are gone. Nil Replicas are settled and bar no host. Safe for
// concurrent use. They implement cluster.Shipper.
type Replicas struct {
	cfg   Config
	store *handoff.Store
	wake  chan struct{}
	// broken has the error of a disk that cannot store what others ship.
	broken chan error

	// ship is read-locked while records are appended to the store. It is locked to declare a source
	// lost or to forget it, so that no record of the source is appended after that.
	ship sync.RWMutex
	// mu guards the fields below. Lock ship before mu.
	mu     sync.Mutex
	heard  map[handoff.Source]heard
	up     []gossip.Agent               // the agents that were up in the last view
	away   map[handoff.Source]time.Time // when each lost agent was lost; without those that are back
	losses []*loss
	bars   atomic.Pointer[Bars] // a copy of losses, for Barred
}

// heard identifies the last batch of a source.
type heard struct{ boot, number uint64 }

// Bars are the losses that bar hosts.
type Bars []*loss

// A loss is an agent that is gone, until its hosts are taken over or it is back. There need not be
// a replica of it here.
type loss struct {
	source handoff.Source
	before OwnersBefore // of the agents including the lost one; nil: unknown
	due    time.Time
	tries  int
	known  bool // the new owners of its hosts are known
}

// OwnersBefore returns the agent that owned a host by an earlier view, or "" if that is not known.
type OwnersBefore func(host string) string

// bars reports whether the lost agent may have owned a host: its finished URLs are not known yet.
func (l *loss) bars(host string) bool {
	if l.before == nil {
		return true
	}
	owner := l.before(host)
	return owner == "" || owner == l.source.Name
}

// Open opens the replicas of a crawl directory.
func Open(cfg Config) (*Replicas, error) {
	store, err := handoff.Open(cfg.FS, filepath.Join(cfg.Dir, Dir), handoff.Config{MemoryBytes: cfg.MemoryBytes})
	if err != nil {
		return nil, err
	}
	return &Replicas{cfg: cfg, store: store, wake: make(chan struct{}, 1), broken: make(chan error, 1),
		heard: map[handoff.Source]heard{}, away: map[handoff.Source]time.Time{}}, nil
}

// Close closes the replicas.
func (r *Replicas) Close() error { return r.store.Close() }

// Run reduces the replicas on disk until ctx is done.
func (r *Replicas) Run(ctx context.Context) error { return r.store.Run(ctx) }

// Broken receives the error of a disk that cannot store what others ship, or place the lists of lost archives. The run
// must end then: the others would wait for this agent forever.
func (r *Replicas) Broken() <-chan error { return r.broken }

// Sizes returns the number of replicas, and their bytes on disk.
func (r *Replicas) Sizes() (n, bytes int64) {
	for _, i := range r.store.Sources() {
		n, bytes = n+1, bytes+i.Bytes
	}
	return n, bytes
}

func (r *Replicas) TellLeft(ctx context.Context) error {
	m := r.cfg.Members
	for _, a := range m.View().Agents {
		if a.Name == m.Self.Name {
			continue
		}
		if err := tellLeft(ctx, m.To(a)); err != nil {
			return fmt.Errorf("agent %q: %w", a.Name, err)
		}
	}
	return nil
}

// tellLeft tells one agent. An agent that fails to keep it says so in an operation.Failure.
func tellLeft(ctx context.Context, p *rpc.Peer) error {
	_, err := operation.Ask(ctx, p, members.LeftMethod, nil)
	return err
}

const notWhole = "whole" // the reason of a refusal

func (r *Replicas) Ship(ctx context.Context, agent string, number uint64, records []byte, count int) error {
	peer, err := r.cfg.Members.Peer(agent)
	if err != nil {
		return err
	}
	_, err = Call.Ask(ctx, peer, &pb.ShipRequest{Seq: number, Count: uint32(count), Records: records})
	var refusal *rpc.Refusal
	if errors.As(err, &refusal) && refusal.Reason == notWhole {
		return fmt.Errorf("%w: %w", cluster.ErrNotWhole, err)
	}
	return err
}

// Receive stores the records that another agent ships.
func (r *Replicas) Receive(ctx context.Context, from rpc.Caller, q *pb.ShipRequest) (*pb.ShipResponse, error) {
	return &pb.ShipResponse{Seq: q.Seq}, r.receive(ctx, from, q)
}

func (r *Replicas) receive(ctx context.Context, from rpc.Caller, q *pb.ShipRequest) error {
	source := handoff.Source{Name: from.Name, Instance: from.Instance}
	r.ship.RLock()
	defer r.ship.RUnlock()
	r.mu.Lock()
	was, ok := r.heard[source]
	lost := slices.ContainsFunc(r.losses, func(l *loss) bool { return l.source == source })
	r.mu.Unlock()
	switch {
	case lost:
		return rpc.ErrAgain
	case q.Seq > 1 && !ok && !r.has(source):
		return r.refuse(source)
	case ok && was.boot == from.Boot && q.Seq <= was.number && q.Seq > 1:
		return r.store.Sync(source) // a repetition: the batch is stored already
	}
	err := r.store.Append(source, q.Records)
	if err == nil {
		err = r.store.Sync(source)
	}
	switch {
	case errors.Is(err, handoff.ErrDamaged):
		r.cfg.Events.Write("replica-damaged", report.F("agent", source.Name), report.F("error", err))
		if err := r.store.Reset(ctx, source); err != nil {
			return err
		}
		return r.refuse(source)
	case errors.Is(err, handoff.ErrRecord), errors.Is(err, handoff.ErrTooLarge), errors.Is(err, handoff.ErrSource):
		return fmt.Errorf("%w: %w", rpc.ErrMalformed, err)
	case err != nil:
		r.breaks(err) // nothing else may tell: this agent may have nothing to write itself
		return err
	}
	r.mu.Lock()
	r.heard[source] = heard{from.Boot, q.Seq}
	r.mu.Unlock()
	return nil
}

// breaks ends the run because of an error of this machine.
func (r *Replicas) breaks(err error) {
	select {
	case r.broken <- err:
	default: // another one has ended it
	}
}

// refuse asks a source to ship all its records from the beginning.
func (r *Replicas) refuse(source handoff.Source) error {
	r.mu.Lock()
	delete(r.heard, source)
	r.mu.Unlock()
	return &rpc.Refusal{Reason: notWhole,
		Text: fmt.Sprintf("agent %q: there is no replica of %v", r.cfg.Members.Self.Name, source)}
}

func (r *Replicas) has(source handoff.Source) bool {
	return slices.ContainsFunc(r.store.Sources(), func(i handoff.Info) bool { return i.Source == source })
}

// SourceOf returns the replica source that stands for an agent.
func SourceOf(a gossip.Agent) handoff.Source {
	return handoff.Source{Name: a.Name, Instance: a.Instance}
}

// Lose finds the agents that are gone since the last view, and those that are back. before is the
// owners before v; nil: v is the first view.
func (r *Replicas) Lose(v *gossip.View, before OwnersBefore, now time.Time) {
	there := func(s handoff.Source) bool {
		a, ok := v.Agent(s.Name)
		return ok && a.Instance == s.Instance && (a.State == gossip.Up || a.State == gossip.Leaving)
	}
	var gone []handoff.Source
	for _, i := range r.store.Sources() {
		gone = append(gone, i.Source)
	}
	r.ship.Lock() // waits for appends under way
	defer r.ship.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.up {
		if !slices.Contains(gone, SourceOf(a)) {
			gone = append(gone, SourceOf(a))
		}
	}
	gone = slices.DeleteFunc(gone, func(s handoff.Source) bool {
		return s.Name == r.cfg.Members.Self.Name || there(s)
	})
	r.up = slices.DeleteFunc(slices.Clone(v.Agents), func(a gossip.Agent) bool { return a.State != gossip.Up })
	maps.DeleteFunc(r.away, func(s handoff.Source, since time.Time) bool {
		return there(s) || now.Sub(since) > lateLoss
	})
	another := len(r.away) > 0
	var losses []*loss
	for _, l := range r.losses {
		if !there(l.source) {
			losses = append(losses, l)
		}
	}
	for _, s := range gone {
		if slices.ContainsFunc(losses, func(o *loss) bool { return o.source == s }) {
			continue
		}
		dead := slices.ContainsFunc(v.Lost, func(a gossip.Agent) bool { return SourceOf(a) == s })
		l := &loss{source: s, before: before, due: now}
		switch _, twice := r.away[s]; {
		case another && !twice:
			l.due = now.Add(awayGrace)
		case !dead || before == nil:
			l.due = now.Add(leaveGrace)
		}
		if before != nil {
			r.away[s], another = now, true
		}
		losses = append(losses, l)
	}
	if !slices.Equal(r.losses, losses) {
		r.put(losses)
	}
}

// Barring returns a pointer that changes whenever the barred hosts may have changed.
func (r *Replicas) Barring() *Bars {
	if r == nil {
		return nil
	}
	return r.bars.Load()
}

// TakeOver allows Tend to take over the hosts of the lost agents: their new owners are known.
func (r *Replicas) TakeOver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.losses {
		l.known = true
	}
	r.Wake()
}

// put replaces the losses. The caller holds r.mu.
func (r *Replicas) put(losses []*loss) {
	r.losses = losses
	b := Bars(slices.Clone(losses))
	r.bars.Store(&b)
	r.Wake()
}

// Wake lets Tend look at the losses and the lists of archives. A nil receiver has none.
func (r *Replicas) Wake() {
	if r == nil {
		return
	}
	wake.Up(r.wake)
}

// Barred reports whether a host must wait until the hosts of a lost agent are taken over.
func (r *Replicas) Barred(host string) bool {
	if r == nil {
		return false
	}
	b := r.bars.Load()
	return b != nil && slices.ContainsFunc(*b, func(l *loss) bool { return l.bars(host) })
}

// Settled reports whether no takeover is left to do.
func (r *Replicas) Settled() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.losses) == 0
}

// Tend takes over the hosts of lost agents, one agent after the other, and puts the lists of their archives where they
// belong, until ctx is done.
func (r *Replicas) Tend(ctx context.Context, c Crawl) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var placed *gossip.View // by which the lists were placed
	for {
		if v := r.cfg.Members.View(); v != placed {
			if err := r.cfg.Lists.Place(v); err != nil {
				r.breaks(err)
				return
			}
			placed = v
		}
		r.mu.Lock()
		var next *loss
		for _, l := range r.losses {
			if l.known && (next == nil || l.due.Before(next.due)) {
				next = l
			}
		}
		wait := time.Hour
		if next != nil {
			wait = next.due.Sub(r.cfg.Clock.Now())
		}
		r.mu.Unlock()
		if next != nil && wait <= 0 {
			if !r.inherit(ctx, c, next) {
				return
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-r.wake:
		case <-ctx.Done():
			return
		}
	}
}

// inherit takes over the hosts of one lost agent. It returns false if the crawl is over.
func (r *Replicas) inherit(ctx context.Context, c Crawl, l *loss) bool {
	began, events := time.Now(), r.cfg.Events
	if !r.has(l.source) {
		r.over(c, l)
		return true
	}
	n, err := c.TakeOver(ctx, lostReplica{r.store, r, l.source}, l.source, func(host string) bool {
		return r.cfg.Owners.OwnerOf(host) == r.cfg.Members.Self.Name
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
		l.due = r.cfg.Clock.Now()
	default:
		l.tries++
		over = l.tries >= inheritTries // gives up; the replica keeps its records
		l.due = r.cfg.Clock.Now().Add(inheritWait)
		events.Write("inherit-failed", report.F("agent", l.source.Name), report.F("error", err))
	}
	if over {
		r.over(c, l)
	}
	return true
}

// over removes a loss.
func (r *Replicas) over(c Crawl, l *loss) {
	r.mu.Lock()
	r.put(slices.DeleteFunc(slices.Clone(r.losses), func(o *loss) bool { return o == l }))
	r.mu.Unlock()
	c.ViewChanged()
}

// A lostReplica is the replica store during a takeover of one source. When the replica is dropped, lostReplica also
// forgets the source's last batch. If the source comes back and continues, it is asked to ship all its records again.
type lostReplica struct {
	*handoff.Store
	r      *Replicas
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
	b.r.ship.Lock()
	defer b.r.ship.Unlock()
	if err := drop(); err != nil {
		return err
	}
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	delete(b.r.heard, b.source)
	return nil
}
