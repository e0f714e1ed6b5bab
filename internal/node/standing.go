package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/report"
)

// ordersFile holds the operators' orders.
const ordersFile = "state/orders"

const (
	// spreadEvery is how often an agent looks whether another one lacks orders.
	spreadEvery = time.Second
	// spreadAgain is how long it waits before it sends the same orders again.
	spreadAgain = 10 * time.Second
	// ordersAgain is how long an agent waits before it tries again to put orders in force.
	ordersAgain = 2 * time.Second
	// tellTime bounds the time to tell another agent of a page of orders, and to tell all agents of a new order.
	tellTime = 3 * time.Second
	// learnTime bounds how long an agent asks for the orders of the others before its first visit. learnAgain is how
	// long it waits before it asks again.
	learnTime, learnAgain = 15 * time.Second, 200 * time.Millisecond
	// aheadMost bounds how far the clock of an agent that has got an order may be ahead.
	aheadMost = 24 * time.Hour
)

// standing are the operators' orders: durable in ordersFile, in force at this agent, and told to the others.
//
// An agent pushes all that it knows to each agent that does not know the same, by the digest of the set. So two sets
// are equal soon after both agents can call each other. An agent that joins asks before its first visit.
type standing struct {
	a   *Agent
	set *orders.Set

	turn   chan struct{} // capacity 1: an item in it guards the file, what is in force, and the fields below
	kept   [32]byte      // the digest of the set that is durable and in force; zero: not all is in force
	rested *delays       // for which the hosts rest that rest
	failed string        // why the set could not be kept at the last try; empty: it could

	toldMu sync.Mutex // guards told
	told   map[string]toldOrders
}

// toldOrders are the orders that another agent was told of last.
type toldOrders struct {
	boot          uint64
	digest, other [32]byte // of our set, and of the agent's after that
	at            time.Time
}

// loadOrders reads the orders of earlier runs, and puts delays in force: they hold for hosts that rest since then.
func (a *Agent) loadOrders() error {
	set, err := orders.Load(a.fs, a.dir(ordersFile))
	if err != nil {
		return fmt.Errorf("%w; to continue without the operators' orders, remove %s", err, a.dir(ordersFile))
	}
	s := &standing{a: a, set: set, turn: make(chan struct{}, 1), told: map[string]toldOrders{},
		rested: newDelays(set.Standing())}
	a.standing = s
	a.cfg.Crawl.WhyPaused, a.cfg.Crawl.WhyRate = a.whyPaused, a.whyRate
	a.delays.Store(s.rested)
	a.paces.Store(newPaces(set.Standing()))
	return nil
}

// openOrders puts the orders of earlier runs in force.
func (a *Agent) openOrders() error {
	s := a.standing
	for _, o := range s.set.Standing() {
		if operate.Pauses([]orders.Order{o}) && a.cfg.Note != nil {
			by := ""
			if o.By != "" {
				by = " by " + o.By
			}
			a.cfg.Note(fmt.Sprintf("The crawl is paused by the operator's order %s of %s%s. \"orbweaver ctl resume\" "+
				"takes it back; the crawl needs an API for that.", o.ID(), o.At.Format(time.RFC3339), by))
		}
	}
	if err := s.unblock(); err != nil {
		return err
	}
	s.kept = s.set.Digest()
	if err := s.obey(context.Background()); err != nil {
		return err
	}
	a.crawler.HeedBars()
	return nil
}

// byStart is the By of orders that Config.Unblock gives.
const byStart = "the start"

// unblock takes back the blocks and the exclusions that Config.Unblock names.
func (s *standing) unblock() error {
	var back []orders.Order
	var blocks []string
	for _, text := range s.a.cfg.Unblock {
		if off, ok := operate.Include(s.set.Standing(), text); ok {
			back = append(back, off)
			continue
		}
		about, _, err := input.About(text)
		switch {
		case err == nil:
			blocks = append(blocks, about)
		case isPattern(text):
			s.a.NotBlocked = append(s.a.NotBlocked, text)
		default:
			return configErrorf("unblock %s: %v", text, err)
		}
	}
	slices.Sort(blocks)
	for _, about := range slices.Compact(blocks) {
		if operate.IsBlocked(s.set.Standing(), about) {
			back = append(back, operate.TakeBack(about))
		} else {
			s.a.NotBlocked = append(s.a.NotBlocked, about)
		}
	}
	if len(back) == 0 {
		return nil
	}
	for i := range back {
		back[i].By = byStart
	}
	return s.give(back)
}

// give adds orders to the set of this agent, before it is in force.
func (s *standing) give(list []orders.Order) error {
	given, err := s.set.GiveTogether(list, s.name(), s.a.now())
	if err != nil {
		return err
	}
	for _, o := range given {
		s.note(o)
	}
	return s.set.Save(s.a.fs, s.a.dir(ordersFile))
}

// CheckUnblock returns a *ConfigError if Config.Unblock cannot hold a string.
func CheckUnblock(s string) error {
	if _, _, err := input.About(s); err != nil && !isPattern(s) {
		return configErrorf("%v", err)
	}
	return nil
}

// isPattern reports whether what is to be unblocked can only be a pattern.
func isPattern(s string) bool {
	_, _, err := input.About(s)
	return err != nil && strings.ContainsAny(s, `/\^$()[]{}*+?|`) && crawl.CheckExclusion(s) == nil
}

// keep makes the set durable and puts it in force, unless it is already. An order that an earlier call could not keep
// is kept by the next one.
func (s *standing) keep(ctx context.Context) (err error) {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.end()
	digest := s.set.Digest()
	if digest == s.kept {
		return nil
	}
	defer func() { s.tellKept(err) }()
	if err := s.set.Save(s.a.fs, s.a.dir(ordersFile)); err != nil {
		return err
	}
	if err := s.obey(ctx); err != nil {
		return err
	}
	s.kept = digest // an order that came meanwhile changes the digest, and its caller keeps it
	return nil
}

// begin takes the turn, and end gives it back. ctx bounds the wait.
func (s *standing) begin(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("other orders are being put in force: %w", ctx.Err())
	}
}

func (s *standing) end() { <-s.turn }

// tellKept writes to the events that the set could not be kept, and why, or that it is kept again. It is this call's
// turn.
func (s *standing) tellKept(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == s.failed || errors.Is(err, context.Canceled) {
		return
	}
	if s.failed = text; err != nil {
		s.a.parts.Events.Write("orders-failed", report.F("error", text))
	} else {
		s.a.parts.Events.Write("orders-kept")
	}
}

// watchOrders puts orders in force that could not be put in force when they came, and a blacklist whose file changes.
// end ends that.
func (a *Agent) watchOrders() (end func()) {
	if a.cfg.Blacklist != "" {
		a.tellBlacklist(a.blacklist)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(ordersAgain)
		defer tick.Stop()
		last := a.blacklisted
		for {
			select {
			case <-tick.C:
				_ = a.standing.keep(ctx) // the events have its error
				if a.cfg.Blacklist != "" {
					last = a.lookAtBlacklist(ctx, last)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// obey puts the orders that stand in force. It is this call's turn. After an error, all is called again: some
// of it may be in force.
func (s *standing) obey(ctx context.Context) error {
	standing := s.set.Standing()
	var bars []crawl.Bar
	bars = append(bars, s.a.blacklist.bars...)
	for _, b := range operate.Blocks(standing) {
		bars = append(bars, crawl.Bar{Host: b.Host, Domain: b.Domain, Prefix: b.Prefix,
			Why: fmt.Sprintf("order %s, %s", b.Order.ID(), b.Order.About)})
	}
	s.a.rates.Order(operate.Rate(standing))
	return errors.Join(s.amend(ctx), s.a.crawler.Pause(ctx, operate.Pauses(standing)), s.a.crawler.Bar(ctx, bars),
		s.setDelays(ctx, standing), s.a.setPaces(ctx, standing), s.a.setApplications(standing))
}

// pausedFor returns how long this run has been paused. A nil receiver is an agent that is not open yet.
func (s *standing) pausedFor() time.Duration {
	if s == nil {
		return 0
	}
	return s.a.crawler.PausedFor()
}

// note writes an order to the events.
func (s *standing) note(o orders.Order) {
	s.a.parts.Events.Write("order", report.F("id", o.ID()), report.F("verb", o.Verb), report.F("about", o.About),
		report.F("value", o.Value), report.F("off", o.Off), report.F("by", o.By), report.F("why", o.Why),
		report.F("agent", o.Agent))
}

// Standing implements operate.Orders.
func (s *standing) Standing() []orders.Order { return s.set.Standing() }

// Past implements operate.Orders.
func (s *standing) Past() []orders.Order { return s.set.Past() }

// Give implements operate.Orders.
func (s *standing) Give(ctx context.Context, list ...orders.Order) (given []orders.Order, told map[string]error,
	err error) {
	if given, err = s.set.GiveTogether(list, s.name(), s.a.now()); err != nil {
		return nil, nil, err
	}
	for _, o := range given {
		s.note(o)
	}
	if err := s.keep(ctx); err != nil {
		return given, nil, fmt.Errorf("order %s is given, but not yet durable and in force at this agent, which tries "+
			"again every %s: %w", given[0].ID(), ordersAgain, err)
	}
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	return given, s.spread(ctx, true), nil
}

// name returns the agent's name in orders.
func (s *standing) name() string {
	if c := s.a.membership; c != nil {
		return c.members.Self.Name
	}
	return "crawl"
}

// merge adds orders of another agent. They are durable and in force when it returns.
func (s *standing) merge(ctx context.Context, encoded [][]byte) error {
	var list []orders.Order
	latest := uint64(s.a.now().Add(aheadMost).UnixMilli()) << 16
	for _, b := range encoded {
		o, n, err := orders.Decode(b)
		if err != nil || n != len(b) {
			return fmt.Errorf("%w: an order of another agent: %w", rpc.ErrMalformed, orders.ErrOrder)
		}
		if o.Clock > latest { // it would make all later orders as late
			return &rpc.Refusal{Reason: "clock", Text: fmt.Sprintf("order %s is of %s, more than %s ahead of this "+
				"agent's clock: set the clocks, and give it again", o.ID(), o.At.Format(time.RFC3339), aheadMost)}
		}
		list = append(list, o)
	}
	for _, o := range s.set.Merge(list) {
		s.note(o)
	}
	return s.keep(ctx)
}

// serve answers another agent that tells of its orders. The answer has the digest of the set, and orders if the
// caller's set is another one.
func (s *standing) serve(ctx context.Context, _ rpc.Caller, q rpc.Orders) (rpc.OrdersAnswer, error) {
	if err := s.merge(ctx, q.Orders); err != nil {
		return rpc.OrdersAnswer{}, err
	}
	answer := rpc.OrdersAnswer{Digest: s.set.Digest()}
	if answer.Digest != q.Digest {
		answer.Orders, _, answer.More = s.page(orders.Mark{})
	}
	return answer, nil
}

// pageBytes bounds the orders in one message.
const pageBytes = 256 << 10

// page returns the encoded orders after a mark that fit into one message.
func (s *standing) page(after orders.Mark) (encoded [][]byte, next orders.Mark, more bool) {
	list, next, more := s.set.Page(after, pageBytes)
	for _, o := range list {
		encoded = append(encoded, o.AppendTo(nil))
	}
	return encoded, next, more
}

// tell pushes all orders to an agent.
func (s *standing) tell(ctx context.Context, p *rpc.Peer) (theirs [32]byte, err error) {
	for after, more := (orders.Mark{}), true; more; {
		q := rpc.Orders{Digest: s.set.Digest()}
		q.Orders, after, more = s.page(after)
		answer, err := s.exchange(ctx, p, q)
		if err != nil {
			return theirs, err
		}
		theirs = answer.Digest
		if err := s.merge(ctx, answer.Orders); err != nil {
			return theirs, err
		}
	}
	return theirs, nil
}

// exchange sends one page of orders.
func (s *standing) exchange(ctx context.Context, p *rpc.Peer, q rpc.Orders) (rpc.OrdersAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	return p.Orders(ctx, q)
}

// spread tells the agents that may lack orders; with now, also those that were told lately. It returns a result for
// each other agent.
func (s *standing) spread(ctx context.Context, now bool) map[string]error {
	c := s.a.membership
	if c == nil || c.members.Gossip() == nil {
		return nil
	}
	results := map[string]error{}
	var mu sync.Mutex // guards results
	var all sync.WaitGroup
	for _, a := range c.members.View().Agents {
		digest := s.set.Digest()
		if a.Name == c.members.Self.Name || !now && !s.due(a.Name, a.Boot, digest) {
			continue
		}
		all.Go(func() {
			theirs, err := s.tell(ctx, c.members.To(a))
			if err == nil {
				s.toldMu.Lock()
				s.told[a.Name] = toldOrders{a.Boot, digest, theirs, s.a.now()}
				s.toldMu.Unlock()
			}
			mu.Lock()
			results[a.Name] = err
			mu.Unlock()
		})
	}
	all.Wait()
	return results
}

// due reports whether an agent may lack an order of a set with the digest.
func (s *standing) due(agent string, boot uint64, digest [32]byte) bool {
	if digest == noOrders {
		return false
	}
	s.toldMu.Lock()
	t, ok := s.told[agent]
	s.toldMu.Unlock()
	return !ok || t.boot != boot || t.digest != digest || t.other != digest && s.a.now().Sub(t.at) > spreadAgain
}

// noOrders is the digest of an empty set.
var noOrders = orders.NewSet().Digest()

// tend tells other agents of orders that they lack, until ctx is done.
func (s *standing) tend(ctx context.Context) {
	tick := time.NewTicker(spreadEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.spread(ctx, false)
		case <-ctx.Done():
			return
		}
	}
}

// learn asks the other agents for their orders before this one begins to crawl, until it has all orders of those that
// answer. An answer has one page at most; the others push the rest, so learn asks until the sets are equal.
func (s *standing) learn(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, learnTime)
	defer cancel()
	for {
		if results := s.spread(ctx, true); len(results) == 0 || s.equal(results) {
			return
		}
		select {
		case <-time.After(learnAgain):
		case <-ctx.Done():
			return
		}
	}
}

// equal reports whether an agent has answered, and all that did have the same orders as this one.
func (s *standing) equal(results map[string]error) (any bool) {
	digest := s.set.Digest()
	s.toldMu.Lock()
	defer s.toldMu.Unlock()
	for name, err := range results {
		if err != nil {
			continue
		}
		if s.told[name].other != digest {
			return false
		}
		any = true
	}
	return any
}

// crawlAgents are the other agents, for an Operator.
type crawlAgents struct{ c *membership }

// Names implements operate.Others. An agent that leaves is named until it has ended: it still has its archive, and the
// pages that applications have to collect.
func (o crawlAgents) Names() (names []string) {
	m := o.c.members.Gossip()
	if m == nil {
		return nil
	}
	for _, a := range m.View().Agents {
		if (a.State == gossip.Up || a.State == gossip.Leaving) && a.Name != o.c.members.Self.Name {
			names = append(names, a.Name)
		}
	}
	return names
}

// Ask implements operate.Others.
func (o crawlAgents) Ask(ctx context.Context, agent, method string, request []byte) ([]byte, error) {
	p, err := o.c.members.Peer(agent)
	if err != nil {
		return nil, err
	}
	answer, err := p.Operate(ctx, rpc.Operation{Method: method, Request: request})
	switch {
	case err != nil:
		return nil, fmt.Errorf("agent %s does not answer: %w", agent, err)
	case answer.Error != "":
		return nil, errors.New(answer.Error)
	}
	return answer.Response, nil
}

// operated carries out what the Operator of another agent has passed on.
func (c *membership) operated(ctx context.Context, from rpc.Caller, o rpc.Operation) (rpc.OperationAnswer, error) {
	answer := c.a.local.Answer
	switch {
	case o.Method == captureMethod:
		answer = func(_ context.Context, _ string, request []byte) ([]byte, error) { return c.captured(request) }
	case o.Method == leftMethod && c.copies != nil && c.members.Gossip() != nil:
		return rpc.OperationAnswer{}, c.copies.endings.left(c.members.Gossip(), from)
	}
	response, err := answer(ctx, o.Method, o.Request)
	if err != nil {
		return rpc.OperationAnswer{Error: err.Error()}, nil
	}
	return rpc.OperationAnswer{Response: response}, nil
}
