package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// When an agent is gone, its heirs take over its hosts from their replicas. An heir accepts the
// pending links like links from another agent. It accepts the finished URLs like those of a
// handoff: from then on the seen-set knows them. So a takeover may be repeated, and what the
// seen-set knows already does not change.
//
// A host may have another owner by then: an agent that has joined since, or that this agent does
// not know yet. The heir sends pending links of such a host on to the owner. It keeps the finished
// URLs, and the owner asks for them (Exchange.Claim). Until the takeover is done, the heir answers
// every Claim with "ask again", and starts no new host itself.

// Taken reports what TakeOver imported.
type Taken struct {
	// Pending counts the links of hosts that this agent owns now, Passed the links of other hosts.
	// Known counts the finished URLs of all hosts.
	Pending, Known, Passed int64
}

// takeItems bounds the items passed to the dispatcher at once. takeAhead bounds how often before the
// first of them is durable.
const (
	takeItems = 1000
	takeAhead = 8
)

// A lostPart is a part of the state of a lost source.
type lostPart struct {
	a           arrival // pending links, of own hosts and of others
	links       []weburl.Link
	ours        []bool       // for each of links: this agent owns its host
	handedHosts []finishedOf // finished URLs
	clocks      []handoff.Record
	hosts       map[string]struct{} // own hosts that have links
	n           int                 // number of all these items
}

// finishedOf holds finished URLs of a host: all of them if there are at most handedKeys.
type finishedOf struct {
	host  uint64
	paths keyset.Paths
}

// A LostReplica holds the records that sources have shipped: a handoff.Store.
type LostReplica interface {
	Import(ctx context.Context, source handoff.Source, fn func(*handoff.Record) error) (handoff.Mark, error)
	DropSource(ctx context.Context, mark handoff.Mark) error
	Reset(ctx context.Context, source handoff.Source) error
}

// TakeOver imports the state that a lost source has shipped to store, and deletes it there once it
// is durable here. ours reports whether this agent owns a host, given by its key, from now on. Until
// TakeOver has returned, the Placement must report the owner of such a host as not known. If the error
// is a handoff.ErrNewer, call TakeOver again.
func (cl *Clustered) TakeOver(ctx context.Context, store LostReplica, source handoff.Source,
	ours func(host uint64) bool) (n Taken, err error) {
	in := takingOver{cl: cl, ctx: ctx, n: &n, owns: ours}
	in.begin()
	mark, err := store.Import(ctx, source, in.record)
	damage := err
	if err != nil && !errors.Is(err, handoff.ErrDamaged) {
		return n, fmt.Errorf("take over: %w", err)
	}
	if err := errors.Join(in.endHost(), in.give(), in.wait(0)); err != nil {
		return n, fmt.Errorf("take over from %v: %w", source, err)
	}
	if damage != nil { // damaged: there is no more to read
		return n, store.Reset(ctx, source)
	}
	return n, store.DropSource(ctx, mark)
}

type takingOver struct {
	cl    *Clustered
	ctx   context.Context
	n     *Taken
	owns  func(host uint64) bool
	l     *lostPart
	given []*lostPart
	of    finishedOf // the current host, which is added to l as a whole
}

func (in *takingOver) begin() {
	in.l = &lostPart{a: arrival{done: make(chan error, 1)}, hosts: map[string]struct{}{}}
}

func (in *takingOver) added(n int) error {
	if in.l.n += n; in.l.n < takeItems {
		return nil
	}
	return in.give()
}

// record adds a record of the lost source. It skips truncated keys.
func (in *takingOver) record(r *handoff.Record) error {
	switch {
	case r.Kind == handoff.Clock:
		in.l.clocks = append(in.l.clocks, *r)
	case r.Kind == handoff.Finish:
		return in.finished(r.Host, r.Path)
	case r.Kind == handoff.Known && r.Width == keyset.WholeKey:
		return in.finished(r.Host, r.Paths...)
	case r.Kind == handoff.Accept:
		link, _, err := weburl.DecodeLink(r.Link)
		if err != nil {
			return err
		}
		mine := in.owns(r.Host)
		in.l.links, in.l.ours = append(in.l.links, link), append(in.l.ours, mine)
		if mine {
			in.l.hosts[link.URL.Host()] = struct{}{}
			in.n.Pending++
		} else {
			in.n.Passed++
		}
	default:
		return nil
	}
	return in.added(1)
}

// finished collects the finished URLs of one host. There is one finishedOf for each host, because
// each needs a look-up.
func (in *takingOver) finished(host uint64, paths ...uint64) error {
	if in.of.host != host || in.of.paths.N >= handedKeys {
		if err := in.endHost(); err != nil {
			return err
		}
		in.of.host = host
	}
	in.n.Known += int64(len(paths))
	in.of.paths.Add(keyset.List{Width: keyset.WholeKey, Paths: paths})
	return nil
}

func (in *takingOver) endHost() error {
	n := in.of.paths.N
	if n == 0 {
		return nil
	}
	in.of.paths.Order()
	in.l.handedHosts = append(in.l.handedHosts, in.of)
	in.of = finishedOf{}
	return in.added(n)
}

// give passes the collected items to the dispatcher.
func (in *takingOver) give() error {
	l, loop := in.l, in.cl.loop
	if l.n == 0 {
		return nil
	}
	in.begin()
	for i, link := range l.links {
		loop.JudgeAs(&l.a.links, link, !l.ours[i])
	}
	if err := loop.Post(in.ctx, func(now time.Time) { in.cl.takeOver(l, now) }); err != nil {
		return err
	}
	in.given = append(in.given, l)
	return in.wait(takeAhead)
}

// wait returns when at most ahead of the passed lostParts are not durable.
func (in *takingOver) wait(ahead int) error {
	for len(in.given) > ahead {
		select {
		case err := <-in.given[0].a.done:
			if err != nil {
				return err
			}
		case <-in.cl.loop.Ended():
			return crawl.ErrNotRunning
		case <-in.ctx.Done():
			return in.ctx.Err()
		}
		in.given = in.given[1:]
	}
	return nil
}

// takeOver processes a lostPart.
func (cl *Clustered) takeOver(l *lostPart, now time.Time) {
	if cl.loop.Stopping() {
		l.a.done <- crawl.ErrNotRunning
		return
	}
	for _, r := range l.clocks {
		if cl.takeClock(r, now); cl.loop.Failed() {
			return
		}
	}
	for host := range l.hosts { // the lost agent may just have sent a request
		cl.loop.Frontier.Touched(host, 0, now)
	}
	var news []crawl.Ranged
	for i := range l.handedHosts {
		if news = cl.news(news, l.handedHosts[i].host, &l.handedHosts[i].paths); cl.loop.Failed() {
			return
		}
	}
	if cl.loop.Learn(news); cl.loop.Failed() {
		return
	}
	cl.arrive(&l.a, now)
}

// takeClock processes how long a host must rest. If another agent owns the host, that agent gets it
// with the host.
func (cl *Clustered) takeClock(r handoff.Record, now time.Time) {
	owner, mine, since := cl.Peers.Tenure(r.Name)
	// The block of a host that this agent crawls has come with the host, and may have been lifted since.
	crawled := mine && cl.isTenant(weburl.HostKey(r.Name), since)
	if r.Rest.Blocked && !crawled {
		cl.loop.Block(r.Name)
	}
	st := frontier.HostState{Host: r.Name, Delay: r.Rest.Delay, NotBefore: now.Add(r.Rest.Quiet),
		Blocked: cl.loop.Blocked(r.Name)}
	if r.Rest.Slow > 0 {
		st.Slow, st.SlowUntil = r.Rest.Slow, now.Add(r.Rest.SlowFor)
	}
	if !mine && owner != "" {
		if _, ok := cl.tenants.clocks[r.Name]; !ok && !quietOf(st, false, now).unchanged {
			cl.tenants.clocks[strings.Clone(r.Name)] = st
		}
		return
	}
	cl.loop.Frontier.Restore(st)
	st = cl.loop.Frontier.Host(r.Name)
	st.Blocked = cl.loop.Blocked(r.Name)
	cl.loop.Record(state.Host, st.AppendTo(nil))
}
