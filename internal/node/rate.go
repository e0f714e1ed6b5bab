package node

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/shares"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/rate"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	// shareTime bounds a question for a share. The next one is due after shares.Every.
	shareTime = time.Second
	// spareUse is what an agent that the limit does not hold back may use more than it has used lately.
	spareUse = 1.05
	// growth is how much more than its share an agent wants if the limit holds it back. It may be near what the agent
	// can use, and a share that another agent wants is unused for a moment when it moves.
	growth = 1.25
)

// rates keeps the limit of the crawl's rate in force at this agent.
//
//	Config.Rate or an order -> Schedule -> Limit of all agents
//	Holder -> question -> grantor's Grantor -> share -> Limiter -> crawl loop
type rates struct {
	a       *Agent
	limiter *rate.Limiter
	ordered atomic.Pointer[rate.Schedule] // by an order that stands; nil: none
	news    chan struct{}                 // capacity 1: the schedule or the view has changed

	noted rate.Limit // in the last event; keep owns it

	mu     sync.Mutex // guards the fields below; never held across a call
	holder shares.Holder
	theirs rate.Limit // of the grantor, when it answered last
	agents int        // that have shares

	grantorMu sync.Mutex // guards grantor
	grantor   *shares.Grantor
}

// openRates makes the limiter.
func (a *Agent) openRates() {
	a.rates = &rates{a: a, limiter: rate.New(a.now), news: make(chan struct{}, 1), agents: 1}
	a.parts.Rate = a.rates.limiter
}

// schedule returns the schedule that holds: that of an order, or that of the settings.
func (r *rates) schedule() rate.Schedule {
	if s := r.ordered.Load(); s != nil {
		return *s
	}
	return r.a.cfg.Rate
}

// order puts the schedule of an order in force, or with nil that of the settings. Safe for concurrent use.
func (r *rates) order(s *rate.Schedule) {
	r.ordered.Store(s)
	r.mu.Lock()
	r.set(r.a.now())
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}: // keep asks for a share
	default:
	}
}

// begin follows the schedule and asks for shares until ctx is done. Then it gives the share back. end waits for that.
func (r *rates) begin(ctx context.Context) (end func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.keep(ctx)
	}()
	return func() { <-ended }
}

func (r *rates) keep(ctx context.Context) {
	tick := time.NewTicker(shares.Every)
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
func (r *rates) renew(ctx context.Context, told bool) (again bool) {
	limit, q := r.ask()
	if r.noted != limit {
		r.noted = limit
		r.a.parts.Events.Write("rate", report.F("limit", limit.String()))
	}
	if q == nil {
		return false
	}
	g, sent, err := r.a.membership.askShare(ctx, *q)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	again = r.holder.Take(shares.Grant{Share: g.Share, Agents: g.Agents}, sent) && !told
	r.theirs, r.agents = rate.Limit{Requests: g.Requests, Bits: g.Bits}, g.Agents
	r.set(r.a.now())
	return again
}

// ask returns the limit that holds, and the question for a share of it. It is nil if the agent needs no share.
func (r *rates) ask() (rate.Limit, *shares.Ask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.a.now()
	limit := r.set(now)
	if r.a.membership == nil || limit.None() {
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
func (r *rates) set(now time.Time) rate.Limit {
	limit := r.schedule().At(now)
	if r.a.membership == nil || limit.None() {
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

// state returns the limit for the status, or nil if there is none at any time. Safe for concurrent use.
func (r *rates) state() *pb.RateState {
	schedule, now := r.schedule(), r.a.now()
	if schedule.None() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &pb.RateState{Schedule: schedule.String(), Limit: schedule.At(now).String(), Share: r.holder.Share(now)}
	if r.a.membership == nil {
		s.Share = 1
	}
	return s
}

// giveBack tells the grantor that this agent uses nothing more.
func (r *rates) giveBack() {
	c, now := r.a.membership, r.a.now()
	r.mu.Lock()
	held := r.holder.Share(now)
	q := r.holder.Ask(0, now)
	r.mu.Unlock()
	if c == nil || held == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shareTime)
	defer cancel()
	_, _, _ = c.askShare(ctx, q) // if nobody hears it, the share ends by itself
}

// divides returns the name of the grantor: the agent that divides the rate. It is "" before the first view.
func (c *membership) divides() string {
	owners := c.owners()
	if owners == nil {
		return ""
	}
	return owners.Owner(link.HostKey("rate")).Name
}

// askShare puts a question to the grantor. The share counts from sent.
func (c *membership) askShare(ctx context.Context, q shares.Ask) (g rpc.ShareGrant, sent time.Time, err error) {
	ask := rpc.ShareAsk{Seq: q.Seq, Held: q.Held, Left: q.Left, Want: q.Want}
	name := c.divides()
	if name == c.self.Name {
		return c.shareOut(name, c.self.Boot, ask)
	}
	ctx, cancel := context.WithTimeout(ctx, shareTime)
	defer cancel()
	c.a.rates.resign() // its counts are void when it divides the rate again
	to, ok := c.member.Load().View().Agent(name)
	if name == "" || !ok {
		return g, sent, rpc.ErrAgain
	}
	sent = c.a.now()
	g, err = c.client.Peer(to.Name, to.Addr).Share(ctx, ask)
	return g, sent, err
}

// sharing returns the names of the agents that share the rate. An agent that leaves ends the visits that it has begun.
func (c *membership) sharing() (there []string) {
	for _, a := range c.member.Load().View().Agents {
		if a.State == gossip.Up || a.State == gossip.Leaving {
			there = append(there, a.Name)
		}
	}
	return there
}

// resign ends that this agent divides the rate.
func (r *rates) resign() {
	r.grantorMu.Lock()
	defer r.grantorMu.Unlock()
	r.grantor = nil
}

// share answers another agent that asks for its share.
func (c *membership) share(_ context.Context, from rpc.Caller, q rpc.ShareAsk) (rpc.ShareGrant, error) {
	g, _, err := c.shareOut(from.Name, from.Boot, q)
	return g, err
}

// shareOut answers a question. The share counts from sent if the question is this agent's own. The error rpc.ErrAgain
// means that another agent divides the rate.
func (c *membership) shareOut(name string, boot uint64, q rpc.ShareAsk) (g rpc.ShareGrant, sent time.Time,
	err error) {
	r, now := c.a.rates, c.a.now()
	r.grantorMu.Lock()
	defer r.grantorMu.Unlock()
	if c.divides() != c.self.Name {
		r.grantor = nil
		return g, sent, rpc.ErrAgain
	}
	if r.grantor == nil {
		r.grantor = shares.NewGrantor(c.self.Name)
		c.a.parts.Events.Write("divides-rate")
	}
	there := c.sharing()
	grant, ok := r.grantor.Answer(name, boot, shares.Ask{Seq: q.Seq, Held: q.Held, Left: q.Left, Want: q.Want}, there,
		now)
	if !ok {
		return g, sent, rpc.ErrAgain
	}
	limit := r.schedule().At(now)
	return rpc.ShareGrant{Share: grant.Share, Agents: grant.Agents, Requests: limit.Requests, Bits: limit.Bits},
		r.grantor.Sent(there, now), nil
}
