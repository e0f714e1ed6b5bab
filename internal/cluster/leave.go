package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/boundary"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// An agent that leaves for good gives away all its hosts, not only those that are due. It sends
// their links to the owners in the view, which no longer contains this agent. When it has no work left,
// it tells the owners all that it knows of hosts, because no agent can ask for that later. It knows
// what it has crawled, and what other agents have told it.
//
// It does not end before the applications have collected its pages, because no other agent has them. After a part of
// its time it gives the URLs of the pages that are left to the new owners of their hosts. These fetch them again, and
// the applications get the pages there. So no page is lost, and the agent ends in time.

const (
	leaveEvery = 100 * time.Millisecond
	leaveHosts = 256 // hosts per turn of the dispatcher
)

// leaving is how an agent leaves. The dispatcher owns it.
type leaving struct {
	*base
	counts   *pageCounts
	receipts *receipts
	links    *links
	tenants  *tenants

	state leave
}

// leave is the progress of an agent that leaves.
type leave struct {
	on      bool
	next    time.Time
	limit   time.Time
	telling bool  // a leaveReport is in progress
	told    Heirs // the owners that a leaveReport has told; nil: none

	collect   time.Time // the applications have until then to collect the pages
	returning bool      // returnPages is in progress
	waits     bool      // an event has told that pages are left
}

// begin does the work of Clustered.Leave.
func (v *leaving) begin(ctx context.Context, within, collect time.Duration) error {
	stopping := false
	err := v.run.Do(ctx, "leave", func(now time.Time) {
		l := &v.state
		if stopping = v.run.Halted(); stopping || l.on {
			return
		}
		v.run.Stir()
		*l = leave{on: true, next: now, limit: now.Add(within), collect: now.Add(collect)}
		v.loop.Frontier.ReadAll()
		v.loop.Frontier.ReviewAside()
		v.loop.Events.Write("leaving", report.F("links", v.loop.Pending()), report.F("hosts", v.loop.Tally.Hosts()))
	})
	if stopping {
		return run.ErrNotRunning
	}
	return err
}

// cancel does the work of Clustered.Stay.
func (v *leaving) cancel(ctx context.Context) (was bool, err error) {
	err = v.run.Do(ctx, "stay", func(time.Time) {
		l := &v.state
		if was = l.on; was && !v.run.Halted() {
			v.run.Stir()
			*l = leave{}
			v.loop.Frontier.ReadSome()
			v.loop.Events.Write("leave-undone", report.F("links", v.loop.Pending()))
		}
	})
	return was, err
}

// goOn continues to leave. wake is the time of the next step.
func (v *leaving) goOn(work context.Context, now time.Time, settled func() bool) (wake time.Time) {
	l := &v.state
	if !l.on || v.run.Failed() {
		return time.Time{}
	}
	if l.next.After(now) {
		return l.next
	}
	l.next = now.Add(leaveEvery)
	hosts := v.loop.Frontier.Queued(nil, leaveHosts)
	most := len(hosts) + leaveHosts
	for d := range v.loop.Retries.All() {
		if len(hosts) == most {
			break
		}
		hosts = append(hosts, d.Link.URL.Host())
	}
	for _, host := range hosts {
		if owner, mine, _ := v.Placement.Tenure(host); !mine && owner != "" {
			v.tenants.giveAway(host, owner, now)
		}
		if v.run.Failed() {
			return time.Time{}
		}
	}
	// It may have the only replica of an agent that is gone. Then it passes on that agent's links first.
	done := v.loop.Idle() && !l.telling && !v.Placement.Inheriting() && v.loop.Frontier.Len() == 0 && settled()
	if done && v.loop.Seen.Holds() {
		v.run.Fail(v.loop.Ledger.Flush()) // may bring more links
		return now
	}
	collected := v.loop.Applications.Uncollected() == 0
	switch {
	case collected || l.returning:
	case now.After(l.collect):
		v.returnPages(work)
	case done && !l.waits:
		l.waits = true
		v.loop.Events.Write("leave-waits", report.F("pages", v.loop.Applications.Uncollected()),
			report.F("until", l.collect))
	}
	if heirs := v.Placement.Heirs(); done && (heirs == nil || l.told != heirs) {
		done = false
		if heirs != nil {
			l.telling = true
			v.receipts.WhenFinishesSafe(func(time.Time) { v.reportLeaving(work, heirs) })
		}
	}
	if (done || now.After(l.limit)) && collected {
		n := &v.tenants.n
		v.loop.Events.Write("gave-all", report.F("left", v.loop.Pending()), report.F("hosts", n.Given),
			report.F("links", n.LinksOut), report.F("keys", n.KeysOut))
		v.loop.Stop(crawl.Left)
	}
	if len(hosts) >= leaveHosts {
		l.next = now
	}
	return l.next
}

// returnPages gives the URLs of pages that applications have not collected to the owners of their hosts, which fetch
// them again. They are in this agent's outbox, and durable, before the pages count as collected. After a kill between
// the two, an application may get the page of this agent, too.
func (v *leaving) returnPages(work context.Context) {
	l := &v.state
	l.returning = true
	v.run.Go(func() {
		links, spent, done, err := v.loop.Applications.Recollect()
		if err == nil {
			err = v.links.receive(work, links, 0, func(link link.Link) link.Link {
				boundary.Direct(v.Boundary, &link)
				return link
			})
		}
		if err == nil {
			err = done(work)
		}
		v.run.Tell(func(time.Time) {
			v.run.Stir()
			switch l.returning = false; {
			case err == nil && len(links)+spent > 0:
				v.loop.Events.Write("pages-returned", report.F("pages", len(links)), report.F("given_up", spent))
			case err != nil && work.Err() == nil && !errors.Is(err, run.ErrNotRunning):
				v.run.Fail(fmt.Errorf("leave: %w", err))
			}
		})
	})
}

// waitsFor says in words what an agent that leaves waits for; "": it does not leave.
func (v *leaving) waitsFor(now time.Time) string {
	if !v.state.on {
		return ""
	}
	if pages := v.waitsForPrograms(now); pages != "" {
		return pages
	}
	if n := v.loop.Pending(); n > 0 {
		return "other agents, which take its " + english.Plural(int(n), "link", "")
	}
	return "other agents, which take over what only this agent knows"
}

// waitsForPrograms says in words which pages keep an agent that leaves from its end; "": none.
func (v *leaving) waitsForPrograms(now time.Time) string {
	l := &v.state
	if v.End == nil {
		return ""
	}
	pages := v.End.Uncollected()
	if pages == "" {
		return ""
	}
	if l.returning || now.After(l.collect) {
		return "other agents, which fetch again what programs have not collected here: " + pages
	}
	return "programs to collect before this agent leaves: " + pages
}

// A leaveReport tells the owners of all hosts what this agent knows of them.
type leaveReport struct {
	leaving *leaving
	heirs   Heirs             // the owners
	given   map[uint64]string // agents that have been told all of a host
	to      map[string]*bundle
	keys    int64
}

// reportLeaving starts a leaveReport. If the journal's files are in use, it waits for the next step.
func (v *leaving) reportLeaving(work context.Context, heirs Heirs) {
	l := &v.state
	if l.telling = l.on && work.Err() == nil; !l.telling {
		return
	}
	files, err := v.loop.Ledger.Transfer()
	if v.run.Fail(err); files == nil {
		l.telling = false
		return
	}
	f := &leaveReport{leaving: v, heirs: heirs, given: maps.Clone(v.tenants.given), to: map[string]*bundle{}}
	rests, counts := f.politeness(v.loop.Config.Clock.Now()), v.counts.allPages(func(uint64) bool { return true })
	v.run.Go(func() {
		err := f.run(work, files, rests, counts)
		v.run.Tell(func(time.Time) {
			files.Release()
			v.run.Stir()
			if l.telling = false; err == nil {
				l.told = heirs
				v.tenants.n.KeysOut += f.keys
			} else if !errors.Is(err, errOldView) && !errors.Is(err, errOver) {
				v.run.Fail(fmt.Errorf("leave: %w", err))
			}
		})
	})
}

// politeness returns how long the hosts must rest.
func (f *leaveReport) politeness(now time.Time) (rests []*handoff.Record) {
	add := func(st frontier.HostState) error {
		rests = append(rests, clockRecord(st, now))
		return nil
	}
	_ = f.leaving.loop.Hosts.Each(now, add) // has only errors of add
	for _, st := range f.leaving.tenants.clocks {
		_ = add(st)
	}
	return rests
}

func (f *leaveReport) run(ctx context.Context, files *ledger.Transfer, rests []*handoff.Record, counts []byte) (
	err error) {
	defer func() { err = errors.Join(err, files.Close()) }()
	put := func(r *handoff.Record, host uint64) error { return f.put(ctx, r, host) }
	r := reading{files: files, wanted: func(uint64) bool { return true }, version: versionLeaving}
	r.put = func(*handoff.Record, uint64) error { return nil }
	if err := r.pending(time.Time{}); err != nil { // the links have left already
		return err
	}
	r.put = put
	if err := putAll(counts, put); err != nil {
		return err
	}
	if err := r.finished(); err != nil {
		return err
	}
	for _, c := range rests {
		if err := put(c, link.HostKey(c.Name)); err != nil {
			return err
		}
	}
	for _, b := range f.to {
		if err := f.send(ctx, b); err != nil {
			return err
		}
	}
	if f.leaving.Copies == nil {
		return nil
	}
	return f.insist(ctx, f.leaving.Copies.TellLeft)
}

func (f *leaveReport) put(ctx context.Context, r *handoff.Record, host uint64) error {
	owner := f.heirs.Heir(host)
	if owner == "" || r.Kind == handoff.Known && f.given[host] == f.leaving.Exchange.Identity(owner) {
		return nil
	}
	b := f.to[owner]
	if b == nil {
		b = &bundle{agent: owner}
		f.to[owner] = b
	}
	f.keys += int64(len(r.Paths))
	if b.add(r); len(b.batches) < 2 {
		return nil
	}
	return f.send(ctx, b)
}

// send sends what is collected for an agent.
func (f *leaveReport) send(ctx context.Context, b *bundle) error {
	err := f.insist(ctx, func(ctx context.Context) error { return b.send(ctx, f.leaving.Exchange) })
	b.batches = b.batches[:0]
	return err
}

// insist calls fn until it succeeds or the view changes.
func (f *leaveReport) insist(ctx context.Context, fn func(ctx context.Context) error) error {
	for tries := 0; fn(ctx) != nil; tries++ {
		if !clock.Pause(ctx, min(claimWait<<min(tries, 10), claimWaitMax)) {
			return errOver
		}
		if f.leaving.Placement.Heirs() != f.heirs {
			return errOldView
		}
	}
	return nil
}
