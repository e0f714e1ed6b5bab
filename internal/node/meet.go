package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/report"
)

const (
	// joinPatience is how long the others may take until one of them answers.
	joinPatience = 2 * time.Minute
	// alonePatience is the same for one that has been among them, and can go on
	// alone with its part.
	alonePatience = 10 * time.Second
	// firstPatience is how long one that begins the cluster asks whether it has
	// begun already, and any agent whether it will be refused, before there is a
	// crawl in its directory.
	firstPatience = time.Second
	// namePatience is how long an agent waits for its name, which another agent has
	// that does not answer: its death is noticed after 4 to 8 s, or after some 30 s
	// where the network is bad. holderPatience is how long that one may take to
	// answer; it is less than firstPatience.
	namePatience   = time.Minute
	holderPatience = 500 * time.Millisecond
	// companyPatience is how long an agent that goes on waits for those that are starting, too.
	companyPatience = 5 * time.Second
	// beginPatience is how long as many as have to begin together may take.
	beginPatience = 10 * time.Minute
	// sayAfter and sayEvery are when who waits is told for what.
	sayAfter, sayEvery = 2 * time.Second, 10 * time.Second
	askEvery           = 200 * time.Millisecond
	// mostAbsent bounds the addresses that are kept of agents that are not there.
	mostAbsent = 64
)

// A contact is where another agent may be.
type contact struct {
	addr  string
	given bool   // by --join; else it is remembered
	name  string // empty: not known
}

// A reply is what came back from there.
type reply struct {
	contact
	err   error
	crawl rpc.ID
}

// Waiting is the status of an agent whose crawl has not started, as JSON.
type Waiting struct {
	For    string   `json:"waiting_for"` // what the agent waits for, in words
	Agents []string `json:"agents"`      // the agents that are present
}

// own says whether addr is this agent's own, however it is spelled.
func (c *membership) own(ctx context.Context, addr string) bool {
	if addr == c.self.Addr {
		return true
	}
	self := netip.MustParseAddrPort(c.self.Addr)
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port != strconv.Itoa(int(self.Port())) {
		return false
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	return err == nil && slices.ContainsFunc(ips, func(ip netip.Addr) bool { return ip.Unmap() == self.Addr().Unmap() })
}

// sortJoin finds out whether this agent begins the cluster, and who the others are.
func (c *membership) sortJoin() {
	ctx, cancel := context.WithTimeout(context.Background(), firstPatience)
	defer cancel()
	c.founder = len(c.cfg.Join) == 0
	for i, addr := range c.cfg.Join {
		if c.own(ctx, addr) {
			c.founder = c.founder || i == 0
		} else {
			c.join = append(c.join, addr)
		}
	}
	c.founder = c.founder || len(c.join) == 0
}

// contacts are the addresses given, and those remembered.
func (c *membership) contacts() (cs []contact) {
	for _, addr := range c.join {
		cs = append(cs, contact{addr: addr, given: true})
	}
	for _, name := range slices.Sorted(maps.Keys(c.who.Others)) {
		addr := c.who.Others[name]
		if i := slices.IndexFunc(cs, func(k contact) bool { return k.addr == addr }); i >= 0 {
			cs[i].name = name
		} else if addr != c.self.Addr {
			cs = append(cs, contact{addr: addr, name: name})
		}
	}
	return cs
}

// nameMembers tells the listener the addresses of the agents that are known, so that
// strangers cannot keep them out. v is nil before there is a view.
func (c *membership) nameMembers(v *gossip.View) {
	var addrs []netip.Addr
	add := func(addr string) {
		if at, err := netip.ParseAddrPort(addr); err == nil { // a name's address shows in the view
			addrs = append(addrs, at.Addr())
		}
	}
	for _, k := range c.contacts() {
		add(k.addr)
	}
	if v != nil {
		for _, a := range slices.Concat(v.Agents, v.Lost) {
			add(a.Addr)
		}
	}
	c.listener.SetMembers(addrs)
}

// recall keeps in the crawl directory who the others are, for when this agent
// comes back. begun says that it crawls.
func (c *membership) recall(v *gossip.View, begun bool) error {
	others, there := map[string]string{}, map[string]bool{}
	maps.Copy(others, c.who.Others)
	for _, a := range slices.Concat(v.Lost, v.Agents) {
		if a.Name != c.self.Name {
			others[a.Name] = a.Addr
		}
	}
	for _, a := range v.Agents {
		there[a.Name] = true
	}
	var absent []string
	for name := range others {
		if !there[name] {
			absent = append(absent, name)
		}
	}
	slices.Sort(absent)
	for _, name := range absent[min(len(absent), mostAbsent):] {
		delete(others, name)
	}
	c.absent.Store(len(absent) > 0)
	begun = begun || c.who.Begun
	c.begun.Store(begun)
	if begun == c.who.Begun && maps.Equal(others, c.who.Others) {
		return nil
	}
	c.who.Begun, c.who.Others = begun, others
	return c.remember()
}

// askAll asks all at once whether this agent may come, and ends with the first yes.
func (c *membership) askAll(ctx context.Context, cs []contact) []reply {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	replies := make(chan reply, len(cs))
	for _, k := range cs {
		go func() {
			w, err := c.ask(ctx, k.addr)
			replies <- reply{k, err, w.Crawl}
		}()
	}
	var all []reply
	for range cs { // each of them, so that nothing runs on
		r := <-replies
		if r.err == nil {
			cancel()
		}
		all = append(all, r)
	}
	return all
}

// A finding is what a round has come to.
type finding struct {
	at      string   // who lets us in; empty: nobody
	crawl   rpc.ID   // of that one
	ourself []string // addresses that are our own
	again   []string // names of remembered ones that are looking for the others, too
	smaller bool     // one of these has a smaller name than ours
	held    error    // the name is that of an agent that does not answer; nil: it is free
	last    error    // why the last one did not; nil: nobody was asked
}

// judge makes that of the replies. The error is one that will not pass.
func (c *membership) judge(replies []reply) (f finding, err error) {
	for _, r := range replies {
		if r.err == nil {
			return finding{at: r.addr, crawl: r.crawl}, nil
		}
	}
	for _, r := range replies {
		refusal, refused := errors.AsType[*rpc.Refusal](r.err)
		switch {
		case errors.Is(r.err, gossip.ErrSelf):
			f.ourself = append(f.ourself, r.addr)
			continue
		case refused && refusal.Reason == nameHeld:
			f.held = r.err
		case refused && refusal.Reason == notYet:
			// It waits for the others, whatever its name is: nobody waits for it.
			f.again = append(f.again, r.name)
		case refused && (r.given || refusal.Reason != "crawl"): // else its address is a stranger's by now
			return f, r.err
		case r.given && rpc.Lasting(r.err):
			return f, &ConfigError{fmt.Sprintf("--join %s: %v", r.addr, r.err)}
		case errors.Is(r.err, rpc.ErrAgain) && r.name != "":
			f.again = append(f.again, r.name)
			f.smaller = f.smaller || r.name < c.self.Name
		}
		f.last = fmt.Errorf("%s: %w", r.addr, r.err)
	}
	return f, nil
}

// mayCome asks the others once, before there is a crawl in the directory: an
// error is that one of them refuses this agent.
func (c *membership) mayCome() error {
	ctx, cancel := context.WithTimeout(context.Background(), firstPatience)
	defer cancel()
	_, err := c.judge(c.askAll(ctx, c.contacts()))
	return c.refused(err)
}

// find looks for the others until one of them answers, and returns its address. It
// is empty if this agent begins the crawl, or goes on with it alone.
//
// Of those that have all been there before and are started together, the one with
// the smallest name goes on, and the others meet it: they ask in turn, and are told
// to ask again.
func (c *membership) find(ctx context.Context) (at string, err error) {
	back, began := c.id() != (rpc.ID{}), time.Now()
	patience := joinPatience
	switch {
	case back && (c.who.Begun || c.founder):
		patience = alonePatience
	case c.founder:
		patience = 0
	}
	defer c.waits.Store(nil)
	cs, say := c.contacts(), began.Add(sayAfter)
	for len(cs) > 0 {
		asking, cancel := ctx, context.CancelFunc(func() {})
		if patience == 0 {
			asking, cancel = context.WithTimeout(ctx, firstPatience)
		}
		f, err := c.judge(c.askAll(asking, cs))
		cancel()
		if err != nil || f.at != "" {
			if err == nil && !back {
				c.crawl.Store(&f.crawl)
			}
			return f.at, err
		}
		cs = slices.DeleteFunc(cs, func(k contact) bool { return slices.Contains(f.ourself, k.addr) })
		waited := time.Since(began)
		if f.held != nil && waited < namePatience && ctx.Err() == nil {
			patience = joinPatience // there is a cluster, also for one that would begin it
			if now := time.Now(); c.waits.Load() == nil || !now.Before(say) {
				say = now.Add(sayEvery)
				w := &Waiting{For: fmt.Sprintf("the name %q", c.self.Name), Agents: []string{}}
				c.waits.Store(w)
				c.say("waiting up to %s for %s: %v", namePatience, w.For, f.held)
				c.event("waiting", report.F("for", w.For), report.F("error", f.held.Error()))
			}
			select {
			case <-time.After(askEvery):
				continue
			case <-ctx.Done():
			}
		}
		switch {
		case f.held != nil && ctx.Err() == nil:
			return "", &ConfigError{fmt.Sprintf(
				"--name %s: %v. After %s the other agents still count that agent as alive: stop it, or choose "+
					"another name.\n"+
					"The directory %s holds this crawl: continue with --resume, or delete it.",
				c.self.Name, f.held, namePatience, c.a.cfg.Dir)}
		case len(cs) == 0 || ctx.Err() != nil || patience == 0:
		case patience == alonePatience && (len(f.again) == len(cs) || waited >= patience) &&
			(!f.smaller || waited >= joinPatience):
			c.say("no agent of the cluster answers (%v): crawling alone until another agent comes", f.last)
			c.event("alone", report.F("error", f.last.Error()))
			c.starting = f.again
			return "", nil
		case patience == joinPatience && waited >= patience:
			return "", fmt.Errorf("%w: %w", gossip.ErrNobody, f.last)
		default:
			if now := time.Now(); !now.Before(say) {
				say = now.Add(sayEvery)
				c.say("no agent of the cluster answers yet (%v): trying for up to %s", f.last, patience)
				c.event("waiting", report.F("for", "an agent that answers"), report.F("error", f.last.Error()))
			}
			select {
			case <-time.After(askEvery):
				continue
			case <-ctx.Done():
			}
		}
		break
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if !back { // all that were given are ourselves, if it was not said that we begin
		id := newExchangeID()
		c.crawl.Store(&id)
		c.start.founds()
	}
	return "", nil
}

// enter becomes a member by way of the agent at an address, or alone if it is empty.
func (c *membership) enter(ctx context.Context, m *gossip.Member, at string) error {
	limit, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	var addrs []string // those that do not answer now are tried as long as we run
	if at != "" {
		addrs = append(addrs, at)
	} else {
		cancel()
	}
	for _, k := range c.contacts() {
		if k.addr != at {
			addrs = append(addrs, k.addr)
		}
	}
	err := m.Join(limit, addrs)
	if at == "" && err != nil {
		return m.Found()
	}
	return err
}

// wait returns when as many agents are there as there have to be. An agent that has
// been one of them needs nobody, nor does one that comes when the others have begun.
func (c *membership) wait(ctx context.Context, m *gossip.Member) (*gossip.View, error) {
	want := max(c.cfg.Agents, 1)
	if c.who.Begun || c.late.Load() {
		want = 1
	}
	defer c.waits.Store(nil)
	say, late, soon := time.NewTicker(sayEvery), time.NewTimer(beginPatience), time.NewTimer(companyPatience)
	defer say.Stop()
	defer late.Stop()
	defer soon.Stop()
	// Agents that are starting, too, join within a moment. Without them this agent would
	// crawl their hosts until then.
	starting := slices.DeleteFunc(slices.Clone(c.starting), func(name string) bool { return name == "" })
	for first := true; ; first = false {
		v := m.View()
		up := agentsUp(v)
		starting = slices.DeleteFunc(starting, func(name string) bool {
			return slices.ContainsFunc(up, func(a placement.Agent) bool { return a.Name == name })
		})
		there := len(up) >= want && len(starting) == 0
		if err := c.recall(v, there); err != nil || there {
			return v, err
		}
		w := &Waiting{For: fmt.Sprintf("%d agents", want), Agents: []string{}}
		for _, a := range up {
			w.Agents = append(w.Agents, a.Name)
		}
		c.waits.Store(w)
		if first && len(up) < want {
			c.sayWaiting(w)
		}
		select {
		case <-m.Changes():
		case <-soon.C:
			starting = nil
		case <-say.C:
			c.sayWaiting(w)
		case <-late.C:
			return nil, configErrorf("--agents %d: after %s only %d agents are present: %s; start the others, "+
				"or give a smaller number to all", want, beginPatience, len(up), strings.Join(w.Agents, ", "))
		case err := <-m.Failed():
			return nil, c.refused(err)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *membership) sayWaiting(w *Waiting) {
	c.say("waiting for %s; present: %s", w.For, strings.Join(w.Agents, ", "))
	c.event("waiting", report.F("for", w.For), report.F("agents", w.Agents))
}

// event is one that somebody may look for before the crawl goes on, and with it
// what it writes.
func (c *membership) event(kind string, fields ...report.Field) {
	c.a.parts.Events.Write(kind, fields...)
	c.a.parts.Events.Flush() // an error is one of the crawl's next flush
}

// say tells who started us.
func (c *membership) say(format string, args ...any) {
	if c.a.cfg.Note != nil {
		c.a.cfg.Note(fmt.Sprintf(format, args...))
	}
}

// nameHeld is the reason of a refusal that passes: the agent that has the name
// does not answer, so its death may not be noticed yet.
const nameHeld = "name-held"

// notYet is the reason of a refusal that passes: the agent has not met the others yet, and
// has no part in the crawl with which it could begin.
const notYet = "newcomer"

// untenanted reports whether an agent was refused for a name that no agent uses, as
// far as this agent can tell.
func (c *membership) untenanted(ctx context.Context, refused error) bool {
	name, ok := errors.AsType[*gossip.NameError](refused)
	if !ok {
		return false
	}
	if name.Holder.Name == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, holderPatience)
	defer cancel()
	return name.Holder.Instance != c.self.Instance && !c.lives(ctx, name.Holder)
}

// lives says whether the agent that others know at an address is still there.
func (c *membership) lives(ctx context.Context, a gossip.Agent) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	w, err := c.client.Hello(ctx, a.Addr, c.greeting())
	return err == nil && w.Agent.Name == a.Name && w.Agent.Instance == a.Instance
}
