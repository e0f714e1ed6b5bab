package membership

import (
	"cmp"
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

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/sites"
	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node/local"
	"github.com/orbweaver/orbweaver/internal/report"
)

const (
	// joinPatience is how long an agent waits until another agent of the cluster answers.
	joinPatience = 2 * time.Minute
	// alonePatience is the same for an agent that has crawled in the cluster before. It can
	// continue with its own hosts alone.
	alonePatience = 10 * time.Second
	// firstPatience bounds two questions that are asked before the directory holds a crawl. An agent that starts the
	// cluster asks whether the cluster exists already. Every agent asks whether the others would refuse it.
	firstPatience = time.Second
	// namePatience is how long an agent waits for its name while another agent has the name and does not answer. The
	// cluster notices that agent's death after 4 to 8 s, or after some 30 s on a bad network. holderPatience is how
	// long that agent may take to answer; it is less than firstPatience.
	namePatience   = time.Minute
	holderPatience = 500 * time.Millisecond
	// companyPatience is how long an agent that continues alone waits for other agents that are starting.
	companyPatience = 5 * time.Second
	// beginPatience is how long an agent waits for the number of agents that --agents requires.
	beginPatience = 10 * time.Minute
	// sayAfter and sayEvery are when a waiting agent first tells the operator what it waits for, and how often.
	sayAfter, sayEvery = 2 * time.Second, 10 * time.Second
	askEvery           = 200 * time.Millisecond
	// askPatience bounds one round of questions. The first round of a new agent ends after sayAfter.
	askPatience = 5 * time.Second
	// mostAbsent bounds the remembered addresses of absent agents.
	mostAbsent = 64
)

// A contact is an address where another agent may be.
type contact struct {
	addr  string
	given bool   // by --join; otherwise it is remembered from an earlier view
	name  string // empty: unknown
	of    string // the address of --join with the host name that led here; empty: none
}

// A reply is the result of asking a contact.
type reply struct {
	contact
	err   error
	crawl rpc.ID
}

// own reports whether addr is this agent's own address, in any spelling.
func (j *joining) own(ctx context.Context, addr string) bool {
	if addr == j.members.Self.Addr {
		return true
	}
	self := netip.MustParseAddrPort(j.members.Self.Addr)
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port != strconv.Itoa(int(self.Port())) {
		return false
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	return err == nil && slices.ContainsFunc(ips, func(ip netip.Addr) bool { return ip.Unmap() == self.Addr().Unmap() })
}

// sortJoin sets founder, whether this agent starts the cluster, and join, the addresses of other agents.
func (j *joining) sortJoin() {
	if j.cfg.Founder != "" {
		j.founder = j.cfg.Founder == j.cfg.Name
		j.join = slices.DeleteFunc(slices.Clone(j.cfg.Join),
			func(addr string) bool { return addr == j.members.Self.Addr })
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstPatience)
	defer cancel()
	j.founder = len(j.cfg.Join) == 0
	for i, addr := range j.cfg.Join {
		if j.own(ctx, addr) {
			j.founder = j.founder || i == 0
		} else {
			j.join = append(j.join, addr)
		}
	}
	j.founder = j.founder || len(j.join) == 0
}

// contacts returns the addresses of --join and the remembered addresses.
func (j *joining) contacts() (cs []contact) {
	for _, addr := range j.join {
		cs = append(cs, contact{addr: addr, given: true})
	}
	for _, name := range slices.Sorted(maps.Keys(j.who.Others)) {
		addr := j.who.Others[name]
		if i := slices.IndexFunc(cs, func(k contact) bool { return k.addr == addr }); i >= 0 {
			cs[i].name = name
		} else if addr != j.members.Self.Addr {
			cs = append(cs, contact{addr: addr, name: name})
		}
	}
	return cs
}

// nameMembers tells the listener the addresses of the known agents, so that strangers cannot keep
// them out. v is nil before the first view.
func (j *joining) nameMembers(v *gossip.View) {
	var addrs []netip.Addr
	add := func(addr string) {
		if at, err := netip.ParseAddrPort(addr); err == nil { // the view has the address of a host name
			addrs = append(addrs, at.Addr())
		}
	}
	for _, k := range j.contacts() {
		add(k.addr)
	}
	if v != nil {
		for _, a := range slices.Concat(v.Agents, v.Lost) {
			add(a.Addr)
		}
	}
	j.listener.SetMembers(addrs)
}

// recall saves the names and addresses of the other agents in the crawl directory, for the next
// start. begun reports that this agent crawls.
func (j *joining) recall(v *gossip.View, begun bool) error {
	others, there := map[string]string{}, map[string]bool{}
	maps.Copy(others, j.who.Others)
	for _, a := range slices.Concat(v.Lost, v.Agents) {
		if a.Name != j.members.Self.Name {
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
	j.absent.Store(&absent)
	begun = begun || j.who.Begun
	j.begun.Store(begun)
	ended := j.who.Ended
	if j.endings != nil {
		ended = members.EndingsIn(v)
	}
	if begun == j.who.Begun && maps.Equal(others, j.who.Others) && maps.Equal(ended, j.who.Ended) {
		return nil
	}
	j.who.Begun, j.who.Others, j.who.Ended = begun, others, ended
	if err := j.remember(); err != nil || j.endings == nil {
		return err
	}
	j.endings.Kept(ended)
	return nil
}

// gone returns the names of the agents of this or an earlier run that are not present. Safe for concurrent use.
func (j *joining) gone() []string {
	if absent := j.absent.Load(); absent != nil {
		return *absent
	}
	return nil
}

// askAll asks all contacts at once whether this agent may join. After the first yes it cancels the other calls.
func (j *joining) askAll(ctx context.Context, cs []contact) []reply {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	replies := make(chan reply, len(cs))
	for _, k := range cs {
		go func() {
			crawl, err := j.ask(ctx, k.addr)
			replies <- reply{k, err, crawl}
		}()
	}
	var all []reply
	for range cs { // waits for every call, so that no goroutine is left
		r := <-replies
		if r.err == nil {
			cancel()
		}
		all = append(all, r)
	}
	return all
}

// A finding is the result of asking all contacts once.
type finding struct {
	at      string   // the address of an agent that admits this one; empty: none does
	crawl   rpc.ID   // the crawl of that agent
	ourself []string // addresses that are this agent's own
	again   []string // remembered agents that also look for the others; empty: name unknown
	smaller bool     // one of these names is smaller than ours
	held    error    // our name belongs to an agent that does not answer; nil: it is free
	last    error    // the last failure; nil: no contact failed
}

// judge evaluates the replies. An error is permanent: asking again does not help.
func (j *joining) judge(replies []reply) (f finding, err error) {
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
			// That agent waits for the others itself, whatever its name is: do not wait for it.
			f.again = append(f.again, r.name)
		case refused && (r.given || refusal.Reason != "crawl"): // otherwise another crawl has this address by now
			return f, r.err
		case r.given && rpc.Lasting(r.err) != nil:
			return f, unjoined(r.addr, r.err)
		case errors.Is(r.err, rpc.ErrAgain) && r.name != "":
			f.again = append(f.again, r.name)
			f.smaller = f.smaller || r.name < j.members.Self.Name
		}
		f.last = &unanswered{r.addr, r.err}
	}
	return f, nil
}

// onlyItself refuses a --join that leads to this agent alone, if another agent starts the cluster.
func (j *joining) onlyItself() error {
	if j.cfg.Founder != "" && !j.founder && len(j.join) == 0 {
		return input.Errorf("{join} %s: this is the agent's own address; give that of agent %q, which starts the "+
			"cluster", strings.Join(j.cfg.Join, ","), j.cfg.Founder)
	}
	return nil
}

// mayCome asks the others once, before the directory holds a crawl. The error is the refusal of one of them.
func (j *joining) mayCome() error {
	if err := j.onlyItself(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstPatience)
	defer cancel()
	statuses := coordination.NewClient(j.members.Client, "this agent").AskAll(ctx, j.cfg.Coordinators)
	f, err := j.judge(j.askAll(ctx, j.spread(ctx, j.contacts())))
	all := <-statuses
	if err != nil || f.at != "" || j.members.Crawl() != (rpc.ID{}) || !j.founder {
		return j.refused(err)
	}
	return coordination.Taken(all)
}

// find asks the other agents until one answers, and returns its address. The address is empty if
// this agent starts the crawl or continues it alone.
//
// Agents of an earlier run may be started together. While they look for each other, each is
// told to ask again. Then the one with the smallest name continues alone, and the others join it.
func (j *joining) find(ctx context.Context) (at string, err error) {
	back, began := j.members.Crawl() != (rpc.ID{}), time.Now()
	patience := joinPatience
	switch {
	case back && (j.who.Begun || j.founder):
		patience = alonePatience
	case j.founder:
		patience = 0
	}
	defer j.waits.Store(nil)
	var f finding
	cs, say := j.contacts(), began.Add(sayAfter)
	for len(cs) > 0 {
		round := lookupPatience + askPatience
		switch {
		case patience == 0:
			round = firstPatience
		case f.last == nil && !back:
			round = sayAfter
		}
		asking, cancel := context.WithTimeout(ctx, round)
		asked := j.spread(asking, cs)
		f, err = j.judge(j.askAll(asking, asked))
		cancel()
		if err != nil || f.at != "" {
			if err == nil && !back {
				j.members.SetCrawl(f.crawl)
			}
			return f.at, err
		}
		cs = j.withoutSelf(cs, asked, f.ourself)
		others := len(asked) - len(f.ourself)
		f.last = cmp.Or(f.last, errOnlySelf)
		j.unmet = fmt.Sprintf("an agent of the cluster that answers (%v)", f.last)
		waited := time.Since(began)
		if f.held != nil && waited < namePatience && ctx.Err() == nil {
			patience = joinPatience // the cluster exists, even if this agent was to start it
			if now := time.Now(); j.waits.Load() == nil || !now.Before(say) {
				say = now.Add(sayEvery)
				what := fmt.Sprintf("the name %q", j.members.Self.Name)
				j.say("waiting up to %s for %s: %v", namePatience, what, f.held)
				j.waitFor(what, f.held)
			}
			if clock.Pause(ctx, askEvery) {
				continue
			}
		}
		switch {
		case f.held != nil && ctx.Err() == nil:
			return "", input.Errorf("{name} %s: %v. After %s the other agents still count that agent as alive: "+
				"stop it, or choose another name.\nThe directory %s holds this crawl: continue with {resume}, or "+
				"delete it.",
				j.members.Self.Name, f.held, namePatience, j.Dir)
		case len(cs) == 0 || ctx.Err() != nil || patience == 0:
		case patience == alonePatience && (len(f.again) == others || waited >= patience) &&
			(!f.smaller || waited >= joinPatience):
			j.say("no agent of the cluster answers (%v); crawling alone until another agent comes", f.last)
			j.event("alone", report.F("error", f.last.Error()))
			j.starting = f.again
			return "", nil
		case patience == joinPatience && waited >= patience:
			return "", fmt.Errorf("%w: %w", gossip.ErrNobody, f.last)
		default:
			if now := time.Now(); !now.Before(say) {
				say = now.Add(sayEvery)
				j.say("no agent of the cluster answers yet (%v); trying for up to %s", f.last, patience)
				j.waitFor("an agent that answers", f.last)
			}
			if clock.Pause(ctx, askEvery) {
				continue
			}
		}
		break
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if !back { // all given addresses are our own, or this agent starts the cluster
		id := newExchangeID()
		j.members.SetCrawl(id)
	}
	return "", nil
}

// waitFor tells the status and the events what this agent waits for, and why.
func (j *joining) waitFor(what string, why error) {
	j.waits.Store(&local.Waiting{Type: "waiting", For: what, Agents: []string{}})
	j.event("waiting", report.F("for", what), report.F("error", why.Error()))
}

// enter joins the cluster through the agent at an address. If the address is empty, this agent
// begins alone and keeps trying the known addresses.
func (j *joining) enter(ctx context.Context, m *gossip.Member, at string) error {
	limit, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	var addrs []string // the member keeps trying the addresses that do not answer now
	if at != "" {
		addrs = append(addrs, at)
	} else {
		cancel()
	}
	contacts := j.contacts()
	for _, k := range slices.Concat(j.spread(ctx, contacts), contacts) { // a name may lead elsewhere later
		if k.addr != j.members.Self.Addr && !slices.Contains(addrs, k.addr) {
			addrs = append(addrs, k.addr)
		}
	}
	err := m.Join(limit, addrs)
	if at == "" && err != nil {
		return m.Found()
	}
	return err
}

// wait returns when enough agents are present. One is enough if this agent has crawled before, or
// if the others have begun already.
func (j *joining) wait(ctx context.Context, m *gossip.Member) (*gossip.View, error) {
	want := max(j.cfg.Agents, 1)
	if j.who.Begun || j.late.Load() {
		want = 1
	}
	defer j.waits.Store(nil)
	say, late, soon := time.NewTicker(sayEvery), time.NewTimer(beginPatience), time.NewTimer(companyPatience)
	defer say.Stop()
	defer late.Stop()
	defer soon.Stop()
	// Agents that are starting as well join within a moment. Without the wait this agent would
	// crawl their hosts until then.
	starting := slices.DeleteFunc(slices.Clone(j.starting), func(name string) bool { return name == "" })
	for first := true; ; first = false {
		v := m.View()
		up := members.Up(v)
		starting = slices.DeleteFunc(starting, func(name string) bool {
			return slices.ContainsFunc(up, func(a placement.Owner) bool { return a.Name == name })
		})
		missing := j.sites.Ready(want)
		there := len(up) >= want && len(starting) == 0 && missing == ""
		if err := j.recall(v, there); err != nil || there {
			return v, err
		}
		w := &local.Waiting{Type: "waiting", For: english.Plural(want, "agent", ""), Agents: []string{}}
		if missing != "" {
			w.For = missing
		}
		for _, a := range up {
			w.Agents = append(w.Agents, a.Name)
		}
		j.waits.Store(w)
		j.unmet = fmt.Sprintf("%s; present: %s", w.For, strings.Join(w.Agents, ", "))
		if first && len(up) < want {
			j.sayWaiting(w)
		}
		select {
		case <-m.Changes():
		case <-j.sites.Changes():
		case err := <-j.sites.Failed():
			return nil, j.refused(err)
		case <-soon.C:
			starting = nil
		case <-say.C:
			j.sayWaiting(w)
		case <-late.C:
			if missing != "" && j.who.Begun {
				continue // it has its own hosts to crawl when the coordinators are back
			}
			if missing != "" {
				return nil, input.Errorf("{coordinator} %s: after %s this agent still waits for %s",
					strings.Join(j.cfg.Coordinators, ","), beginPatience, missing)
			}
			return nil, input.Errorf("{agents} %d: after %s only %s present: %s; start the others, or give a smaller "+
				"number to all", want, beginPatience, english.Plural(len(up), "agent is", "agents are"),
				strings.Join(w.Agents, ", "))
		case err := <-m.Failed():
			return nil, j.refused(err)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (j *joining) sayWaiting(w *local.Waiting) {
	j.say("waiting for %s; present: %s", w.For, strings.Join(w.Agents, ", "))
	j.event("waiting", report.F("for", w.For), report.F("agents", w.Agents))
}

// event writes an event and flushes it, because an operator may look for it before the crawl continues.
func (j *joining) event(kind string, fields ...report.Field) {
	j.events.Write(kind, fields...)
	j.events.Flush() // the crawl's next flush reports the error
}

// say sends a message to the operator.
func (j *joining) say(format string, args ...any) {
	if j.Note != nil {
		j.Note(fmt.Sprintf(format, args...))
	}
}

// nameHeld is the reason of a temporary refusal: the agent that has the name does not answer, and
// its death may not be noticed yet.
const nameHeld = "name-held"

// notYet is the reason of a temporary refusal: the agent has not begun to crawl, so it cannot
// continue alone. It waits for the others itself.
const notYet = "newcomer"

// untenanted reports whether the refusal is about a name that no agent uses, as far as this agent can tell.
func (j *joining) untenanted(ctx context.Context, refused error) bool {
	name, ok := errors.AsType[*gossip.NameError](refused)
	if !ok {
		return false
	}
	if name.Holder.Name == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, holderPatience)
	defer cancel()
	return name.Holder.Instance != j.members.Self.Instance && !j.lives(ctx, name.Holder)
}

// lives reports whether the agent a still answers at its address.
func (j *joining) lives(ctx context.Context, a gossip.Agent) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	w, err := j.greet(ctx, a.Addr)
	return err == nil && w.Agent.Name == a.Name && [16]byte(w.Agent.Instance) == a.Instance
}

// refused turns an error of meeting the others into a message for the operator.
func (j *joining) refused(err error) error {
	switch {
	case errors.Is(err, gossip.ErrNobody):
		why := input.Say("%v", err)
		if u, ok := errors.AsType[*unanswered](err); ok && slices.Equal(j.cfg.Join, []string{u.addr}) {
			why = input.Say("%v for %s: %s", gossip.ErrNobody, joinPatience, u.why())
		}
		return input.Errorf("{join} %s: %s\nStart that agent, or correct {join}, then continue with {resume} {dir} %s.",
			strings.Join(j.cfg.Join, ","), why, j.Dir)
	case errors.Is(err, sites.ErrRefused):
		text := strings.TrimPrefix(err.Error(), sites.ErrRefused.Error()+": ")
		return input.Errorf("{coordinator}: %s", text)
	case errors.Is(err, gossip.ErrRefused):
		text := err.Error()
		if refusal, ok := errors.AsType[*rpc.Refusal](err); ok { // without the call, which err names, too
			text = refusal.Text
		}
		return input.Errorf("{join}: %s", strings.TrimPrefix(text, gossip.ErrRefused.Error()+": "))
	}
	return err
}

// An unanswered error says why the agent at an address does not admit this one, in few words.
type unanswered struct {
	addr string
	err  error
}

func (u *unanswered) Unwrap() error { return u.err }

func (u *unanswered) Error() string { return u.addr + ": " + u.why() }

func (u *unanswered) why() string { return rpc.Why(u.err) }

// unjoined returns the error of an agent at an address that does not admit this one, for a reason that lasts.
func unjoined(addr string, err error) error {
	why := rpc.Why(err)
	_, foreign := errors.AsType[*rpc.ForeignError](err)
	switch {
	case foreign:
		return input.Errorf("{join} %s: %s; give the address of an agent's {listen}", addr, why)
	case errors.Is(err, rpc.ErrStranger):
		return input.Errorf("{join} %s: %s; give both agents keys that one \"orbweaver cluster keys\" made", addr, why)
	case errors.Is(err, rpc.ErrKeysThere), errors.Is(err, rpc.ErrKeysHere):
		return input.Errorf("{join} %s: %s; give {keys} to all agents", addr, why)
	}
	return input.Errorf("{join} %s: %s", addr, why)
}
