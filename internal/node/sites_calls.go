package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/sites"
	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/report"
)

// Follow implements sites.Source.
func (o *siteOwners) Follow(ctx context.Context, addr string, q sites.Question) (sites.Answer, error) {
	for {
		state, changes := o.wanted()
		f := rpc.Follow{From: q.From, Wait: rpc.MaxFollow, Stamp: q.Stamp, Report: o.report(state, q)}
		if state == assignment.Joining {
			f.Wait = 0 // the next question says that the agent is up
		}
		call, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			select {
			case <-changes:
				cancel()
			case <-done:
			}
		}()
		ans, err := o.c.members.Client.Coordinator(addr).Follow(call, f)
		again := call.Err() != nil && ctx.Err() == nil // the question told an old state
		close(done)
		cancel()
		if err != nil && again {
			continue
		}
		if err != nil {
			return sites.Answer{}, o.translate(addr, err)
		}
		if ans.Crawl != o.c.members.Crawl() {
			return sites.Answer{}, fmt.Errorf("%w: %s serves crawl %s, and this agent belongs to crawl %s; start the "+
				"coordinators with new directories, or give the directory of an agent of their crawl",
				sites.ErrRefused, addr, ans.Crawl, o.c.members.Crawl())
		}
		o.heardOf(state)
		if state == assignment.Joining && len(ans.Entries) == 0 {
			o.want(assignment.Up) // this agent has read all that was decided before
		}
		return sites.Answer{Entries: ans.Entries, Last: ans.Last, Term: ans.Term, Member: ans.Member,
			Stamp: ans.Stamp}, nil
	}
}

// report returns what this agent tells about itself.
func (o *siteOwners) report(state assignment.State, q sites.Question) rpc.Report {
	r := rpc.Report{Capacity: o.c.members.Self.Capacity, Addr: o.c.members.Self.Addr, State: uint8(state), Term: q.Term,
		Heard: map[string]time.Duration{}, Settings: o.c.sharedTerms()}
	for _, k := range q.Contacts {
		r.Heard[k.Agent] = k.Silent
	}
	if s := o.c.a.crawler.Status(); s != nil {
		r.Hosts, r.URLs = uint64(max(0, s.Frontier.Hosts)), uint64(max(0, s.Queued))
	}
	return r
}

// translate returns an error of a call to a coordinator as package sites wants it.
func (o *siteOwners) translate(addr string, err error) error {
	if n, ok := errors.AsType[*rpc.NotLeader](err); ok {
		return &sites.NotLeader{Leader: n.Leader}
	}
	if r, ok := errors.AsType[*rpc.Refusal](err); ok {
		// The others may pass: an agent of the same name that was lost, coordinators that are started anew.
		if slices.Contains([]string{"crawl", "settings", "full", "report"}, r.Reason) {
			return fmt.Errorf("%w: %s: %w", sites.ErrRefused, addr, r)
		}
		return r
	}
	if errors.Is(err, rpc.ErrAgain) {
		return errors.New("it says to ask again later")
	}
	return errors.New(coordination.Unanswered("this agent", err))
}

// Discover implements sites.Source. Hosts that --connect-to leads elsewhere may have no address, so no coordinator
// looks for one.
func (o *siteOwners) Discover(ctx context.Context, addr string, hosts []string, unchecked bool) ([]sites.Decision,
	error) {
	vs := make([]sites.Decision, len(hosts))
	for _, free := range [...]bool{false, true} {
		var its []string
		var at []int
		for i, host := range hosts {
			if free == (unchecked || o.c.a.cfg.Fetch.Proxy != nil || o.c.a.fetcher.Leads(host)) {
				its, at = append(its, host), append(at, i)
			}
		}
		if len(its) == 0 {
			continue
		}
		as, err := o.c.members.Client.Coordinator(addr).Discover(ctx, rpc.Discovery{Hosts: its, Unchecked: free})
		if err != nil {
			return nil, o.translate(addr, err)
		}
		for i, a := range as {
			switch v := &vs[at[i]]; a.State {
			case rpc.HostAssigned:
				v.State = sites.Assigned
			case rpc.HostDead:
				*v = sites.Decision{State: sites.Dead, After: a.After}
			default:
				v.State = sites.Coming
			}
		}
	}
	return vs, nil
}

const (
	// rightEvery is the interval at which the right to start visits is looked at.
	rightEvery = 250 * time.Millisecond
	// meetEvery is the interval at which other agents are asked for an answer, if the right depends on them, and
	// meetTime bounds a question. meetMost bounds the questions that run at once.
	meetEvery = time.Second
	meetTime  = 2 * time.Second
	meetMost  = 32
)

// keepRight ends visits when the right to start visits is lost, and asks other agents for answers that prolong it.
func (o *siteOwners) keepRight(ctx context.Context) {
	right := o.table.Right()
	tick := time.NewTicker(rightEvery)
	defer tick.Stop()
	var questions sync.WaitGroup
	defer questions.Wait()
	slots, asking := make(chan struct{}, meetMost), sync.Map{}
	next := o.c.a.now()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := o.c.a.now()
		o.noteRight(right.May(now), right.Why(now))
		if now.Before(next) {
			continue
		}
		next = now.Add(meetEvery)
		r := o.table.Roster()
		if r == nil {
			continue
		}
		for _, name := range right.Due(now) {
			m, ok := r.Member(name)
			if _, twice := asking.LoadOrStore(name, true); !ok || twice {
				continue
			}
			questions.Go(func() {
				defer asking.Delete(name)
				select {
				case slots <- struct{}{}:
					defer func() { <-slots }()
				case <-ctx.Done():
					return
				}
				o.meet(ctx, m)
			})
		}
	}
}

// noteRight acts on whether this agent may start visits now.
func (o *siteOwners) noteRight(may bool, why string) {
	if o.may == may || !o.running.Load() {
		return
	}
	o.may = may
	state, _ := o.wanted()
	switch {
	case may:
		if o.lost {
			o.c.event("right-back")
		}
		o.lost = false
		o.c.a.cluster.Permits.Resume()
	case state == assignment.Gone: // this agent has given it back
	default:
		o.lost = true
		o.c.event("right-lost", report.F("cause", why), report.F("visits", o.c.a.cluster.Permits.CutAll()))
	}
}

// meet asks a member for an answer. An agent asks at the address that it has in the roster, so no other instance of it
// answers: that one would have another address, or has ended the first one.
func (o *siteOwners) meet(ctx context.Context, m assignment.Member) {
	ctx, cancel := context.WithTimeout(ctx, meetTime)
	defer cancel()
	sent := o.c.a.now()
	if _, err := o.c.members.Client.Peer(m.Name, m.Addr).Known(ctx, []rpc.Fingerprint{0}); err == nil {
		o.table.Right().Met(m.Name, sent, o.c.a.now())
	}
}

// heard notes a message of another agent, before it is answered.
func (o *siteOwners) heard(from rpc.Caller) {
	if o == nil {
		return
	}
	r := o.table.Roster()
	if r == nil {
		return
	}
	if m, ok := r.Member(from.Name); ok && m.Instance == from.Instance {
		o.table.Right().Heard(from.Name, o.c.a.now())
	}
}

// An answeredStatus is what a coordinator says of itself, or why it says nothing.
type answeredStatus struct {
	*coordination.Status
	addr string
	err  error // in few words, without the address
}

// askCoordinators asks all coordinators for their status, at once. The channel receives the answers, in the order of
// Cluster.Coordinators; there are none if no coordinator assigns the hosts.
func (c *membership) askCoordinators(ctx context.Context) <-chan []answeredStatus {
	all := make([]answeredStatus, len(c.cfg.Coordinators))
	client := coordination.NewClient(c.members.Client, "this agent")
	var calls sync.WaitGroup
	for i, addr := range c.cfg.Coordinators {
		calls.Go(func() {
			s, err := client.Status(ctx, addr)
			all[i] = answeredStatus{s, addr, err}
		})
	}
	done := make(chan []answeredStatus, 1)
	go func() {
		calls.Wait()
		done <- all
	}()
	return done
}

// takenBy returns an *input.Error if a coordinator serves a crawl, so that a new one cannot begin.
func takenBy(all []answeredStatus) error {
	for _, s := range all {
		if s.err == nil && s.Ended {
			return input.Errorf("--coordinator %s: its crawl, %s, has ended, and this agent would start another one; "+
				"start the coordinators with new directories", s.addr, s.Crawl)
		}
		if s.err == nil && s.Crawl != "" {
			return input.Errorf("--coordinator %s: it serves crawl %s already, and this agent would start another "+
				"one; start the coordinators with new directories, or join an agent of their crawl with --join", s.addr,
				s.Crawl)
		}
	}
	return nil
}
