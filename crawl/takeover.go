package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/frontier"
	"github.com/orbweaver/orbweaver/replica"
	"github.com/orbweaver/orbweaver/report"
	"github.com/orbweaver/orbweaver/seen"
	"github.com/orbweaver/orbweaver/weburl"
)

// When an agent is gone, its heirs go on with its hosts from their replicas.
// What is pending there is taken in like links of another agent, and what is
// finished like links that are found to be new and are finished at once: a
// number, a key in the journal (kindInherited), a key in seen, and no visit. So
// the same may be inherited twice, and what seen knows already stays as it is.
// Links of hosts that somebody else owns by now go on to that agent.

// An Taken counts what an TakeOver took over.
type Taken struct {
	// Pending and Known are of hosts that are ours now, Passed are links of
	// others.
	Pending, Known, Passed int64
}

// takeItems bounds what is given to the dispatcher at once, takeAhead how
// often before the first of it is durable.
const (
	takeItems = 1000
	takeAhead = 8
)

// A legacy is a part of what a source had.
type legacy struct {
	a        arrival // pending links, of ours and of others
	links    []weburl.Link
	ours     []bool // of links
	finished []weburl.Key
	known    []weburl.Key // once the links are taken in
	clocks   []replica.Record
	hosts    map[string]struct{} // ours that have links
}

func (l *legacy) items() int { return len(l.links) + len(l.finished) + len(l.known) + len(l.clocks) }

// A Bequest has what sources have shipped: a replica.Store.
type Bequest interface {
	Import(ctx context.Context, source replica.Source, wanted func(host uint64) bool, fn replica.Funcs) (replica.Mark, error)
	DropSource(ctx context.Context, mark replica.Mark) error
	Reset(ctx context.Context, source replica.Source) error
}

// TakeOver takes over what a source that is gone has shipped to store, and has it
// forgotten there once it is durable here. ours says whether a host, by the key
// of its name, is this agent's from now on; until it has returned Partition
// should say of such a host that nobody knows. An error of which
// replica.ErrNewer is one means: once more.
func (c *Crawler) TakeOver(ctx context.Context, store Bequest, source replica.Source, ours func(host uint64) bool) (n Taken, err error) {
	in := takingOver{c: c, ctx: ctx, n: &n}
	in.begin()
	mark, err := store.Import(ctx, source, nil, replica.Funcs{
		Clock: func(r replica.Record) error {
			if ours(r.Host) {
				r.State = append([]byte(nil), r.State...)
				in.l.clocks = append(in.l.clocks, r)
			}
			return in.added()
		},
		Finished: func(rs []replica.Record) error {
			if !ours(rs[0].Host) {
				return nil
			}
			for i := range rs {
				in.l.finished = append(in.l.finished, rs[i].Key())
			}
			n.Known += int64(len(rs))
			return in.added()
		},
		Pending: func(rs []replica.Record) error {
			mine := ours(rs[0].Host)
			for i := range rs {
				link, _, err := weburl.DecodeLink(rs[i].Link)
				if err != nil {
					return err
				}
				in.l.links, in.l.ours = append(in.l.links, link), append(in.l.ours, mine)
				if mine {
					in.l.hosts[link.URL.Host()] = struct{}{}
				}
			}
			if mine {
				n.Pending += int64(len(rs))
			} else {
				n.Passed += int64(len(rs))
			}
			return in.added()
		},
		Known: func(r replica.Record) error {
			if !ours(r.Host) || r.Width != 64 {
				return nil
			}
			for _, p := range r.Paths {
				in.l.known = append(in.l.known, weburl.Key{Host: r.Host, Path: p})
			}
			n.Known += int64(len(r.Paths))
			return in.added()
		},
	})
	damage := err
	if err != nil && !errors.Is(err, replica.ErrDamaged) {
		return n, fmt.Errorf("take over: %w", err)
	}
	if err := errors.Join(in.give(), in.wait(0)); err != nil {
		return n, fmt.Errorf("take over from %v: %w", source, err)
	}
	if damage != nil { // it is as good as it is
		return n, store.Reset(ctx, source)
	}
	return n, store.DropSource(ctx, mark)
}

type takingOver struct {
	c     *Crawler
	ctx   context.Context
	n     *Taken
	l     *legacy
	given []*legacy
}

func (in *takingOver) begin() {
	in.l = &legacy{a: arrival{done: make(chan error, 1)}, hosts: map[string]struct{}{}}
}

func (in *takingOver) added() error {
	if in.l.items() < takeItems {
		return nil
	}
	return in.give()
}

// give gives the dispatcher what has gathered.
func (in *takingOver) give() error {
	l, c := in.l, in.c
	if l.items() == 0 {
		return nil
	}
	in.begin()
	for i, link := range l.links {
		n := len(l.a.v.found)
		c.judge(&l.a.v, link, link.URL.Key())
		if len(l.a.v.found) > n {
			l.a.v.found[n].foreign = !l.ours[i]
		}
	}
	select {
	case c.commands <- func(now time.Time) { c.takeOver(l, now) }:
	case <-c.ended:
		return ErrNotRunning
	case <-in.ctx.Done():
		return in.ctx.Err()
	}
	in.given = append(in.given, l)
	return in.wait(takeAhead)
}

// wait returns when no more than ahead of what was given are not durable.
func (in *takingOver) wait(ahead int) error {
	for len(in.given) > ahead {
		select {
		case err := <-in.given[0].a.done:
			if err != nil {
				return err
			}
		case <-in.c.ended:
			return ErrNotRunning
		case <-in.ctx.Done():
			return in.ctx.Err()
		}
		in.given = in.given[1:]
	}
	return nil
}

// A Clock's state, beside the durations: 1 byte pauses that are not forgiven, and
// 1 byte 1 if the operator has blocked the host.
func appendClockState(dst []byte, st frontier.HostState) []byte {
	if dst = append(dst, st.Slow); st.Blocked {
		dst = append(dst, 1)
	}
	return dst
}

func clockState(b []byte) (slow uint8, blocked bool) {
	if len(b) > 0 {
		slow = b[0]
	}
	return slow, len(b) > 1 && b[1] == 1
}

// takeOver takes a part in.
func (c *Crawler) takeOver(l *legacy, now time.Time) {
	if c.stop != notStopping || c.fatal != nil {
		l.a.done <- ErrNotRunning
		return
	}
	for _, r := range l.clocks {
		slow, blocked := clockState(r.State)
		if blocked && !c.isBlocked(r.Name) {
			c.setBlocked(r.Name, true)
			c.Events.Write("host-blocked", report.F("host", r.Name))
		}
		st := frontier.HostState{Host: r.Name, Delay: r.Pause, NotBefore: now.Add(r.Quiet), Blocked: c.isBlocked(r.Name)}
		if slow > 0 {
			st.Slow, st.SlowUntil = slow, st.NotBefore
		}
		c.Frontier.Restore(st)
		st = c.Frontier.Host(r.Name)
		st.Blocked = c.isBlocked(r.Name)
		c.batch.add(kindHost, st.AppendTo(nil))
	}
	for host := range l.hosts { // the other one may have asked a moment ago
		c.Frontier.Touched(host, 0, now)
	}
	if c.isDoneElsewhere(l.finished); c.fatal != nil {
		return
	}
	if c.know(l.finished); c.fatal == nil {
		c.arrive(&l.a, now, func() { c.know(l.known) })
	}
}

// know takes in keys of URLs that are finished.
func (c *Crawler) know(keys []weburl.Key) {
	if len(keys) == 0 || c.fatal != nil {
		return
	}
	aux := weburl.Link{}.AppendTo(nil)
	c.items = c.items[:0]
	for _, k := range keys {
		c.items = append(c.items, seen.Item{Key: c.ownKey(k), Aux: appendKeys(aux[:len(aux):len(aux)], []weburl.Key{k})})
	}
	c.repair(c.Seen.Add(c.items))
	c.holds()
}

// acceptKnown is Accept of such a key.
func (c *Crawler) acceptKnown(it seen.Item) {
	c.batch.add(kindInherited, appendKeys(nil, []weburl.Key{it.Key}))
	c.accepted++
	c.copyKnown(plainKey(it))
}

// restoreAccepted gives seen the key of the accept in hand, if it has not got it
// on disk.
func (c *Crawler) restoreAccepted(kind byte, p []byte) error {
	if c.accepted <= c.Seen.Mark() {
		return nil
	}
	k, err := acceptedKey(kind, p)
	if err != nil {
		return err
	}
	return c.restoreSeen([]weburl.Key{k})
}
