package coordinator

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// maxLives bounds the lives that the leader remembers.
const maxLives = 4 * assignment.MaxMembers

// Follow takes an agent's report and returns entries. It waits for f.Wait if there are none. The error is an
// rpc.NotLeader, an rpc.Refusal, an rpc.ErrAgain, or that of ctx.
func (c *Coordinator) Follow(ctx context.Context, from rpc.Caller, f Follow) (Followed, error) {
	r, err := c.current()
	if err != nil {
		return Followed{}, err
	}
	arrived := time.Now()
	m := assignment.Member{Name: from.Name, Instance: from.Instance, Boot: from.Boot, Capacity: f.Report.Capacity,
		Addr: f.Report.Addr, State: f.Report.State}
	if err := m.Check(); err != nil {
		return Followed{}, refuse("report", "agent %q reports: %v", from.Name, err)
	}
	if err := r.claim(from, f.Report.Settings); err != nil {
		return Followed{}, r.over(err)
	}
	last, _ := c.cfg.Machine.Extent()
	if f.From == 0 || f.From > last+1 || r.hasOther(f.Group) {
		r.tellAhead(from.Name, f.From, last)
		return r.followed(m, nil, arrived) // Last and Group tell it
	}
	if err := r.hear(m, f, arrived); err != nil {
		return Followed{}, err
	}
	wait := time.NewTimer(min(f.Wait, maxWait))
	defer wait.Stop()
	for waited := false; ; {
		if err := r.settled(ctx, from.Name); err != nil {
			return Followed{}, r.over(err)
		}
		entries, more, err := c.cfg.Machine.entries(f.From)
		if err != nil {
			return Followed{}, err
		}
		if len(entries) > 0 || waited {
			return r.followed(m, entries, arrived)
		}
		select {
		case <-more:
		case <-wait.C:
			waited = true
		case <-ctx.Done():
			return Followed{}, ctx.Err()
		case <-r.ctx.Done():
			return Followed{}, r.over(rpc.ErrAgain)
		}
	}
}

// followed returns the answer to an agent. After stale, the decision about its membership may have been made without
// its question, so there is no answer.
func (r *leadership) followed(m assignment.Member, entries []byte, arrived time.Time) (Followed, error) {
	roster := r.cfg.Machine.Roster()
	last, _ := r.cfg.Machine.Extent() // not before the roster
	if time.Since(arrived) > stale {
		return Followed{}, rpc.ErrAgain
	}
	if _, err := r.current(); err != nil {
		return Followed{}, err
	}
	now, ok := roster.Member(m.Name)
	claim := r.cfg.Machine.claimed()
	return Followed{
		Entries: entries, Last: last, Term: roster.Term, Crawl: claim.Crawl, Group: claim.Group,
		Stamp:  r.stamp(time.Now()),
		Member: ok && lifeOf(now) == lifeOf(m) && now.Boot == m.Boot && now.State == assignment.Up,
	}, nil
}

// claim compares the agent's crawl and settings with those of the coordinators. The first agent's become theirs. If
// that agent belongs to no crawl yet, the crawl gets a new number.
func (r *leadership) claim(from rpc.Caller, settings map[string]string) error {
	for {
		if c := r.cfg.Machine.claimed(); c != nil {
			if from.Crawl != [16]byte{} && from.Crawl != c.Crawl {
				return refuse("crawl", "agent %q belongs to crawl %s, the coordinators serve crawl %s", from.Name,
					from.Crawl, rpc.ID(c.Crawl))
			}
			return differ(from.Name, settings, c.Settings)
		}
		r.mu.Lock()
		first := !r.claiming
		r.claiming = true
		r.mu.Unlock()
		if !first {
			return rpc.ErrAgain
		}
		c := Claim{Crawl: from.Crawl, Settings: settings}
		rand.Read(c.Group[:]) // never fails
		if c.Crawl == [16]byte{} {
			rand.Read(c.Crawl[:])
		}
		err := r.propose(encode(cmdClaim, c))
		r.mu.Lock()
		r.claiming = false
		r.mu.Unlock()
		if err != nil {
			return rpc.ErrAgain
		}
	}
}

// hasOther reports whether an agent has its entries from another log.
func (r *leadership) hasOther(group [16]byte) bool {
	ours := r.cfg.Machine.claimed().Group
	return group != [16]byte{} && ours != [16]byte{} && group != ours
}

// hear notes an agent's report.
func (r *leadership) hear(m assignment.Member, f Follow, now time.Time) error {
	roster := r.cfg.Machine.Roster()
	_, assigned := r.cfg.Machine.counts()
	r.mu.Lock()
	defer r.mu.Unlock()
	l := lifeOf(m)
	a := r.agents[l]
	in, ok := roster.Member(m.Name)
	same := ok && lifeOf(in) == l
	if a != nil && m.Boot < a.Boot || same && m.Boot < in.Boot {
		return refuse("name", "agent %q has been started again since this start", m.Name)
	}
	if o := r.rival(l, in, ok, now); o != nil && !same {
		return refuse("name", "agent %q is in the crawl already, with another directory (at %s): choose another name",
			m.Name, o.Addr)
	}
	if !ok && (m.State == assignment.Joining || m.State == assignment.Up) {
		if err := admit(&roster, m); err != nil {
			return err
		}
	}
	if a == nil {
		if len(r.agents) >= maxLives {
			return rpc.ErrAgain
		}
		a = &agent{first: now}
		r.agents[l] = a
	}
	if m.Boot > a.Boot {
		a.first = now
	}
	a.Member, a.at, a.sent = m, now, r.stamped(f.Stamp, now)
	a.term, a.number = f.Report.Term, f.From-1
	a.hosts, a.urls = min(f.Report.Hosts, maxLoad), min(f.Report.URLs, maxLoad)
	a.assigned, a.heard = assigned[m.Name], f.Report.Heard
	return nil
}

// rival returns another life with the same name that runs: the one of the roster; or if the roster has none of this
// name, the one that came first. in is the member of the roster if ok. The caller holds mu.
func (r *leadership) rival(l life, in assignment.Member, ok bool, now time.Time) *agent {
	for other, o := range r.agents {
		if other.name != l.name || other == l || now.Sub(o.at) > fresh {
			continue
		}
		a := r.agents[l]
		if ok && lifeOf(in) == other || !ok && (a == nil || o.first.Before(a.first)) {
			return o
		}
	}
	return nil
}

// settled waits while it is unknown whether the next roster loses an agent. Without that, an answer could give the
// agent the right to start visits just when it loses its hosts.
func (r *leadership) settled(ctx context.Context, name string) error {
	for {
		r.mu.Lock()
		wait := r.removed
		removing := r.removing[name]
		r.mu.Unlock()
		if !removing {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ctx.Done():
			return rpc.ErrAgain
		}
	}
}

// decide keeps the roster, until the leadership ends.
func (r *leadership) decide() {
	for r.pause(decideEvery) {
		r.discovery.sweep(time.Now())
		if read := r.newlyRead(); len(read) > 0 {
			if r.propose(encode(cmdRead, read)) != nil {
				continue
			}
		}
		term, next, lost := r.nextRoster()
		if next == nil {
			continue
		}
		err := r.propose(encodeRoster(term, 0, next))
		if err != nil && r.ctx.Err() == nil && !known(err) {
			// The command may still be applied, at the latest by a later leader. What it loses stays unsettled until
			// another command shows that it was not: the next command is applied after it.
			for r.propose([]byte{cmdNothing}) != nil {
				if !r.pause(retryEvery) {
					return
				}
			}
		}
		r.mu.Lock()
		close(r.removed)
		r.removing, r.removed = nil, nil
		r.mu.Unlock()
		if err == nil {
			r.tell(next, lost)
		}
	}
}

// tellAhead reports, once, an agent that has entries of another log.
func (r *leadership) tellAhead(agent string, asks, last uint64) {
	r.mu.Lock()
	before := r.ahead
	r.ahead = true
	r.mu.Unlock()
	if !before {
		r.cfg.Events.Event("agent-ahead", "agent", agent, "read", asks-1, "entries", last)
	}
}

// known reports whether err is the result of a command, so that it was applied.
func known(err error) bool { return err == errStale || err == errEnded }

// Forget takes an agent off the roster that is silent but cannot be shown to be lost, because no other agent has been
// in the roster for as long. A person calls it who knows that the agent does not run: otherwise two agents could visit
// a host at the same time. It returns when the agent is off the roster.
func (c *Coordinator) Forget(ctx context.Context, name string) error {
	r, err := c.current()
	if err != nil {
		return err
	}
	roster := c.cfg.Machine.Roster()
	m, ok := roster.Member(name)
	ended := func() error {
		return refuse("member", "the crawl has ended, so no agent has anything to take over")
	}
	switch {
	case roster.Ended:
		return ended()
	case slices.ContainsFunc(roster.Lost, func(l assignment.Member) bool { return l.Name == name }):
		return refuse("member", "agent %q is lost already: its heirs have its hosts", name)
	case !ok:
		return refuse("member", "agent %q is not in the crawl's roster: it has left, or the name is wrong", name)
	}
	r.mu.Lock()
	s := situation{now: time.Now(), started: r.started, agents: r.agents}
	silence := s.silence(lifeOf(m))
	if silence >= c.cfg.LostAfter {
		r.forgotten[lifeOf(m)] = true
	}
	r.mu.Unlock()
	if silence < c.cfg.LostAfter {
		return refuse("member", "agent %q may be running: it was silent for %v only; stop it, and try again after %v",
			name, silence.Round(time.Second), c.cfg.LostAfter)
	}
	for {
		more := c.cfg.Machine.changes()
		roster := c.cfg.Machine.Roster()
		if o, ok := roster.Member(name); !ok || lifeOf(o) != lifeOf(m) {
			return nil
		}
		if roster.Ended {
			return ended()
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ctx.Done():
			return r.over(rpc.ErrAgain)
		}
	}
}

// newlyRead returns the terms that members have read since the last command that said so.
func (r *leadership) newlyRead() map[string]uint64 {
	roster, since, read := r.cfg.Machine.progress()
	r.mu.Lock()
	defer r.mu.Unlock()
	newly := map[string]uint64{}
	for _, m := range roster.Members {
		if a := r.agents[lifeOf(m)]; a != nil {
			if term := min(a.term, roster.Term); term > read[m.Name] && term >= since[m.Name] {
				newly[m.Name] = term
			}
		}
	}
	return newly
}

// nextRoster decides on the next roster. The agents that it loses are unsettled from then on.
func (r *leadership) nextRoster() (term uint64, next *assignment.Roster, lost []string) {
	roster, since, read := r.cfg.Machine.progress()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := situation{now: time.Now(), started: r.started, roster: roster, since: since, read: read, agents: r.agents,
		forgotten: r.forgotten, lostAfter: r.cfg.LostAfter, fresh: fresh}
	for l, a := range r.agents { // of agents that are in no roster
		if m, ok := roster.Member(l.name); (!ok || lifeOf(m) != l) && s.now.Sub(a.at) > 10*r.cfg.LostAfter {
			delete(r.agents, l)
		}
	}
	for l := range r.forgotten {
		if m, ok := roster.Member(l.name); !ok || lifeOf(m) != l || s.silence(l) < s.lostAfter {
			delete(r.forgotten, l)
		}
	}
	if next, lost = s.next(); next != nil {
		r.removing, r.removed = map[string]bool{}, make(chan struct{})
		for _, name := range lost {
			r.removing[name] = true
		}
	}
	return roster.Term, next, lost
}

// tell notes a new roster.
func (r *leadership) tell(next *assignment.Roster, lost []string) {
	up := 0
	for _, m := range next.Members {
		if m.State == assignment.Up {
			up++
		}
	}
	term := r.cfg.Machine.Roster().Term
	r.cfg.Events.Event("roster", "term", term, "up", up, "members", len(next.Members), "lost", len(next.Lost))
	for _, name := range lost {
		r.cfg.Events.Event("agent-lost", "agent", name, "term", term)
	}
}

// A vote says that an agent agrees to end the crawl.
type vote struct {
	term, number uint64
	at           time.Time
}

// voteFor is how long a vote counts.
const voteFor = 10 * time.Second

// Finish says that the caller agrees to end the crawl, at a roster and an entry that are the last ones. When all
// agents that are up have said so, the coordinators end the crawl, and Finish returns nil. Otherwise it returns an
// rpc.ErrAgain after a second at the latest.
func (c *Coordinator) Finish(ctx context.Context, from rpc.Caller, term, number uint64) error {
	r, err := c.current()
	if err != nil {
		return err
	}
	last, _ := c.cfg.Machine.Extent() // before the roster: the entry that ends the crawl is a roster
	roster := c.cfg.Machine.Roster()
	m, ok := roster.Member(from.Name)
	switch {
	case !ok || lifeOf(m) != (life{from.Name, from.Instance}):
		return refuse("member", "agent %q is not in the crawl's roster", from.Name)
	case roster.Ended:
		return nil
	case term != roster.Term || number != last:
		return rpc.ErrAgain
	}
	more := c.cfg.Machine.changes()
	if r.vote(&roster, from.Name, vote{term, number, time.Now()}) {
		next := roster
		next.Members, next.Ended = slices.Clone(roster.Members), true
		if r.propose(encodeRoster(term, number, &next)) == nil {
			r.cfg.Events.Event("crawl-ended", "entries", number)
			return nil
		}
		return r.ended()
	}
	wait := time.NewTimer(maxWait)
	defer wait.Stop()
	select {
	case <-more:
	case <-wait.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ctx.Done():
	}
	return r.ended()
}

// ended returns nil if the crawl has ended, maybe by another call of Finish. Otherwise the caller asks again.
func (r *leadership) ended() error {
	if roster := r.cfg.Machine.Roster(); roster.Ended {
		return nil
	}
	return r.over(rpc.ErrAgain)
}

// vote counts a vote, and reports whether all agents that are up agree and no host waits for an agent.
func (r *leadership) vote(roster *assignment.Roster, name string, v vote) bool {
	pending, _, _, _ := r.discovery.counts()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.votes[name] = v
	for _, m := range roster.Members {
		o := r.votes[m.Name]
		if m.State == assignment.Up && (o.term != v.term || o.number != v.number || v.at.Sub(o.at) > voteFor) {
			return false
		}
	}
	for name := range r.votes {
		if _, ok := roster.Member(name); !ok {
			delete(r.votes, name)
		}
	}
	return pending == 0
}
