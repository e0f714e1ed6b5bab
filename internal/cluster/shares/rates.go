package shares

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/report"
)

const (
	// shareTime bounds a question for a share. The next one is due after Every.
	shareTime = time.Second
	// spareUse is what an agent that the limit does not hold back may use more than it has used lately.
	spareUse = 1.05
	// growth is how much more than its share an agent wants if the limit holds it back. It may be near what the agent
	// can use, and a share that another agent wants is unused for a moment when it moves.
	growth = 1.25
)

// Rates keep the limit of the crawl's rate in force at this agent.
//
//	Config.Rate or an order -> Schedule -> Limit of all agents
//	Holder -> question -> grantor's Grantor -> share -> Limiter -> crawl loop
type Rates struct {
	cfg     Config
	limiter *rate.Limiter
	ordered atomic.Pointer[rate.Schedule] // by an order that stands; nil: none
	news    chan struct{}                 // capacity 1: the schedule or the view has changed

	noted rate.Limit // in the last event; keep owns it

	mu     sync.Mutex // guards the fields below; never held across a call
	holder Holder
	theirs rate.Limit // of the grantor, when it answered last
	agents int        // that have shares

	grantorMu sync.Mutex // guards grantor
	grantor   *Grantor
}

// Config configures Rates.
type Config struct {
	Clock    clock.Clock
	Schedule rate.Schedule // if no order stands
	Events   *report.Events
	// Members and Grantor are nil if this agent is alone: then it has the whole rate.
	Members *members.Members
	Grantor Placed
}

// Placed tells which agent is the grantor.
type Placed interface {
	// DividesRate returns its name, or "" before the first view.
	DividesRate() string
}

// New returns the rates of an agent, with the limiter of its crawl.
func New(cfg Config) (*Rates, *rate.Limiter) {
	r := &Rates{cfg: cfg, limiter: rate.New(cfg.Clock), news: make(chan struct{}, 1), agents: 1}
	return r, r.limiter
}

// schedule returns the schedule that holds: that of an order, or that of the settings.
func (r *Rates) schedule() rate.Schedule {
	if s := r.ordered.Load(); s != nil {
		return *s
	}
	return r.cfg.Schedule
}

// Order puts the schedule of an order in force, or with nil that of the settings. Safe for concurrent use.
func (r *Rates) Order(s *rate.Schedule) {
	r.ordered.Store(s)
	r.mu.Lock()
	r.set(r.cfg.Clock.Now())
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}: // keep asks for a share
	default:
	}
}

// Begin follows the schedule and asks for shares until ctx is done. Then it gives the share back. end waits for that.
func (r *Rates) Begin(ctx context.Context) (end func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.keep(ctx)
	}()
	return func() { <-ended }
}

func (r *Rates) keep(ctx context.Context) {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for again := false; ; {
		if again = r.renew(ctx, again); again && ctx.Err() == nil {
			continue
		}
		select {
		case <-tick.C:
		case <-r.news:
		case <-ctx.Done():
			r.giveBack()
			return
		}
	}
}

// renew brings the limiter up to date. again reports that the grantor should hear at once that the share is less; told
// is the result of the call before.
func (r *Rates) renew(ctx context.Context, told bool) (again bool) {
	limit, q := r.ask()
	if r.noted != limit {
		r.noted = limit
		r.cfg.Events.Write("rate", report.F("limit", limit.String()))
	}
	if q == nil {
		return false
	}
	g, sent, err := r.call(ctx, *q)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	again = r.holder.Take(Grant{Share: g.Share, Agents: int(g.Agents)}, sent) && !told
	r.theirs, r.agents = rate.Limit{Requests: g.Requests, Bits: g.Bits}, int(g.Agents)
	r.set(r.cfg.Clock.Now())
	return again
}

// ask returns the limit that holds, and the question for a share of it. It is nil if the agent needs no share.
func (r *Rates) ask() (rate.Limit, *Ask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Clock.Now()
	limit := r.set(now)
	if r.cfg.Members == nil || limit.None() {
		return limit, nil
	}
	use := r.limiter.Use()
	want := max(part(use.Requests, limit.Requests), part(use.Bits, limit.Bits)) * spareUse
	switch share := r.holder.Share(now); {
	case share == 0 && (use.Held || use.Waited):
		want = 1
	case use.Held || use.Waited:
		want = max(want, growth*share)
	}
	want = min(want, 1)
	q := r.holder.Ask(want, now)
	r.set(now)
	return limit, &q
}

// part returns which part of a limit a use takes. Zero is no limit.
func part(use, limit float64) float64 {
	if limit == 0 {
		return 0
	}
	return use / limit
}

// set gives the limiter this agent's part of the limit that holds now, and returns that limit. The caller holds mu.
func (r *Rates) set(now time.Time) rate.Limit {
	limit := r.schedule().At(now)
	if r.cfg.Members == nil || limit.None() {
		r.holder.Drop()
		r.theirs = rate.Limit{}
		r.limiter.Set(limit, 1, time.Time{})
		return limit
	}
	whole := limit.Lower(r.theirs)
	whole.Requests = rate.OfSeveral(whole.Requests, r.agents)
	r.limiter.Set(whole, r.holder.Share(now), r.holder.Until())
	return limit
}

// State returns the schedule that holds, and this agent's share of its limit now. Safe for concurrent use.
func (r *Rates) State() (schedule rate.Schedule, share float64) {
	schedule = r.schedule()
	if r.cfg.Members == nil {
		return schedule, 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return schedule, r.holder.Share(r.cfg.Clock.Now())
}

// giveBack tells the grantor that this agent uses nothing more.
func (r *Rates) giveBack() {
	now := r.cfg.Clock.Now()
	r.mu.Lock()
	held := r.holder.Share(now)
	q := r.holder.Ask(0, now)
	r.mu.Unlock()
	if r.cfg.Members == nil || held == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shareTime)
	defer cancel()
	_, _, _ = r.call(ctx, q) // if nobody hears it, the share ends by itself
}

// call puts a question to the grantor. The share counts from sent.
func (r *Rates) call(ctx context.Context, q Ask) (g *pb.ShareResponse, sent time.Time, err error) {
	self, name := r.cfg.Members.Self, r.cfg.Grantor.DividesRate()
	if name == self.Name {
		return r.divide(name, self.Boot, q)
	}
	ctx, cancel := context.WithTimeout(ctx, shareTime)
	defer cancel()
	r.resign() // its counts are void when it divides the rate again
	to, ok := r.cfg.Members.View().Agent(name)
	if name == "" || !ok {
		return nil, sent, rpc.ErrAgain
	}
	sent = r.cfg.Clock.Now()
	g, err = Call.Ask(ctx, r.cfg.Members.To(to), &pb.ShareRequest{Seq: q.Seq, Held: q.Held,
		LeftMs: uint32(q.Left.Milliseconds()), Want: q.Want})
	return g, sent, err
}

// resign ends that this agent divides the rate.
func (r *Rates) resign() {
	r.grantorMu.Lock()
	defer r.grantorMu.Unlock()
	r.grantor = nil
}

// Answer answers another agent that asks for its share.
func (r *Rates) Answer(_ context.Context, from rpc.Caller, q *pb.ShareRequest) (*pb.ShareResponse, error) {
	g, _, err := r.divide(from.Name, from.Boot, Ask{Seq: q.Seq, Held: q.Held,
		Left: time.Duration(q.LeftMs) * time.Millisecond, Want: q.Want})
	return g, err
}

// divide answers a question. The share counts from sent if the question is this agent's own. The error rpc.ErrAgain
// means that another agent divides the rate.
func (r *Rates) divide(name string, boot uint64, q Ask) (g *pb.ShareResponse, sent time.Time, err error) {
	self, now := r.cfg.Members.Self.Name, r.cfg.Clock.Now()
	r.grantorMu.Lock()
	defer r.grantorMu.Unlock()
	if r.cfg.Grantor.DividesRate() != self {
		r.grantor = nil
		return nil, sent, rpc.ErrAgain
	}
	if r.grantor == nil {
		r.grantor = NewGrantor(self)
		r.cfg.Events.Write("divides-rate")
	}
	there := r.cfg.Members.In(gossip.Up, gossip.Leaving) // one that leaves ends the visits that it has begun
	grant, ok := r.grantor.Answer(name, boot, q, there, now)
	if !ok {
		return nil, sent, rpc.ErrAgain
	}
	limit := r.schedule().At(now)
	return &pb.ShareResponse{Share: grant.Share, Agents: uint32(grant.Agents), Requests: limit.Requests,
		Bits: limit.Bits}, r.grantor.Sent(there, now), nil
}
