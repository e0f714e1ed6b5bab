package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A handoffQueue queues what to send to one new owner.
type handoffQueue struct {
	hosts    []string
	in       map[string]struct{} // the same hosts
	states   []planned           // of pages that are due
	busy     bool                // a bundle is under way, or waits for a sync
	due      time.Time
	failures int
	ready    *bundle             // durable here: it may be sent
	stale    map[uint64]struct{} // hosts with finishes that the bundle under way lacks
}

// A bundle is what one agent is told of some hosts: of one host, or of several with at most bundleKeys
// keys.
type bundle struct {
	agent, identity string
	hosts           []string
	states          []planned
	batches         []*pb.HandRequest
	keys            int64
}

const (
	// bundleKeys bounds the keys in a bundle, unless one host has more. Each takes 8 bytes of RAM until
	// it has arrived. bundleStates bounds its states.
	bundleKeys   = 1 << 18
	bundleStates = 256
	// batchBytes is the size at which a batch is full.
	batchBytes = handoff.MaxBatch / 2
)

// add adds a record.
func (b *bundle) add(r *handoff.Record) {
	if n := len(b.batches); n == 0 || len(b.batches[n-1].Records) >= batchBytes {
		b.batches = append(b.batches, new(pb.HandRequest))
	}
	last := b.batches[len(b.batches)-1]
	last.Records = r.AppendTo(last.Records)
	last.Count++
}

// send sends the bundle.
func (b *bundle) send(ctx context.Context, to Exchange) error {
	for _, part := range b.batches {
		if err := to.Hand(ctx, b.agent, part); err != nil {
			return err
		}
	}
	return nil
}

// answerClaim answers an agent that has become the owner of hosts, and starts to send it what is known of them.
func (t *tenants) answerClaim(ctx context.Context, from rpc.Caller, q *pb.ClaimRequest) (*pb.ClaimResponse, error) {
	if t.Placement.View() == 0 {
		return nil, rpc.ErrAgain
	}
	r := new(pb.ClaimResponse)
	for part := range slices.Chunk(q.Hosts, 32) { // each may need a disk access
		err := t.run.Do(ctx, "claim", func(now time.Time) {
			for _, host := range part {
				r.Verdicts = append(r.Verdicts, t.claimedBy(host, from.Name, identityOf(from), q.View, now))
			}
			t.run.Fail(t.loop.Ledger.Append())
		})
		if err != nil {
			return nil, fmt.Errorf("claim: %w", err)
		}
	}
	return r, nil
}

func (t *tenants) claimedBy(host, by, identity string, view uint64, now time.Time) byte {
	if t.run.Stopping() {
		return claimAgain
	}
	// Only one of the two agents may know that a third one is lost. That agent may have crawled the
	// host, and a replica here may have its finished URLs.
	if view != t.Placement.View() || t.Placement.Inheriting() {
		return claimAgain
	}
	if owner, mine, _ := t.Placement.Tenure(host); mine || owner != by {
		return claimAgain
	}
	ever, began := t.Placement.Had(host)
	if !ever && !t.taught {
		return claimStranger
	}
	key := link.HostKey(host)
	nothing := claimStranger
	if _, crawled := t.claimed[key]; crawled || began {
		nothing = claimNothing
	}
	if !t.ranges.hasNone(t.ranges.OwnKey(link.Key{Host: key}).Host) {
		if !t.giveAway(host, by, now) {
			return claimAgain // a request to the host is under way
		}
	}
	if t.given[key] == identity {
		return nothing
	}
	st, ok := t.clocks[host]
	if t.ranges.flush(); t.run.Failed() {
		return claimAgain
	}
	tellsClock := ok && !restless(politenessOf(st, now))
	if !tellsClock && len(t.counts.of[host]) == 0 && t.ranges.hasNone(doneKey(link.Key{Host: key}).Host) {
		delete(t.clocks, host)
		return nothing
	}
	t.give(host, by)
	return claimComing
}

// give queues what is known of a host for an agent.
func (t *tenants) give(host, to string) {
	g := t.queueTo(to)
	if _, twice := g.in[host]; !twice {
		g.hosts = append(g.hosts, host)
		g.in[host] = struct{}{}
	}
}

func (t *tenants) queueTo(agent string) *handoffQueue {
	g := t.giving[agent]
	if g == nil {
		g = &handoffQueue{in: map[string]struct{}{}}
		t.giving[agent] = g
	}
	return g
}

// newlyDone records that no agent has all finished URLs of a host.
func (t *tenants) newlyDone(host uint64) {
	delete(t.given, host)
	for _, g := range t.giving {
		if !g.busy {
			continue
		}
		if g.stale == nil {
			g.stale = map[uint64]struct{}{}
		}
		g.stale[host] = struct{}{}
	}
}

// giveOut sends queued states to agents. wake is the time of the next work.
func (t *tenants) giveOut(work context.Context, now time.Time) (wake time.Time) {
	for agent, g := range t.giving {
		if b := g.ready; b != nil {
			g.ready = nil
			t.run.Go(func() {
				err := b.send(work, t.Exchange)
				t.run.Tell(func(now time.Time) { t.told(g, b, err, now) })
			})
		}
		switch {
		case g.busy || len(g.hosts)+len(g.states) == 0:
		case g.due.After(now):
			wake = run.Earlier(wake, g.due)
		default:
			t.bundleUp(agent, g, now)
			if !g.busy && len(g.hosts)+len(g.states) > 0 {
				wake = now
			}
		}
		if t.run.Failed() {
			return wake
		}
	}
	return wake
}

// bundleUp reads what is known of some hosts into a bundle. The bundle goes to the new owner when its
// finishes are durable here, the links of these pages are safe, and the heirs have the finishes. Otherwise
// the new owner could take a page for finished that a power failure here undoes, or whose links are lost
// with this machine. Or this machine and its archive are lost, and no agent can name the page.
func (t *tenants) bundleUp(agent string, g *handoffQueue, now time.Time) {
	b := &bundle{agent: agent, identity: t.Exchange.Identity(agent)}
	for len(g.hosts) > 0 && len(b.hosts) < claimHosts && b.keys < bundleKeys {
		host := g.hosts[0]
		g.hosts = g.hosts[1:]
		delete(g.in, host)
		if owner, mine, _ := t.Placement.Tenure(host); mine || owner != agent {
			continue
		}
		if t.bundleHost(b, host, now); t.run.Failed() {
			return
		}
	}
	if t.bundleStates(b, g); t.run.Failed() {
		return
	}
	if len(b.batches) == 0 {
		if len(g.states) > 0 { // their owner is not known
			g.due = now.Add(claimWaitMax)
		}
		return
	}
	g.busy, g.stale = true, nil
	t.receipts.whenNamed(func(time.Time) { g.ready = b })
}

// bundleHost adds what is known of a host to a bundle.
func (t *tenants) bundleHost(b *bundle, host string, now time.Time) {
	b.hosts = append(b.hosts, host)
	key := link.HostKey(host)
	done := t.ranges.rangeOf(doneKey(link.Key{Host: key}).Host)
	for _, l := range done.Lists {
		for part := range slices.Chunk(l.Paths, handoff.MaxPaths) {
			b.add(&handoff.Record{Kind: handoff.Known, Host: key, Width: uint8(l.Width), Paths: part})
		}
	}
	b.keys += int64(done.N)
	t.counts.eachPages(host, b.add)
	st, ok := t.clocks[host]
	if !ok {
		st.Host = host
	}
	b.add(clockRecord(st, now))
}

// told records the result of sending a bundle.
func (t *tenants) told(g *handoffQueue, b *bundle, err error, now time.Time) {
	t.run.Stir()
	g.busy = false
	if err != nil {
		for _, host := range b.hosts {
			t.give(host, b.agent)
		}
		g.states = append(g.states, b.states...)
		g.due = now.Add(min(claimWait<<min(g.failures, 10), claimWaitMax))
		g.failures++
		return
	}
	g.failures, g.due = 0, time.Time{}
	for _, host := range b.hosts {
		key := link.HostKey(host)
		_, stale := g.stale[key]
		if owner, mine, _ := t.Placement.Tenure(host); !mine && owner == b.agent && !stale {
			t.given[key] = b.identity
		}
	}
	t.moved(b.states)
	t.run.Fail(t.loop.Ledger.Append())
	t.n.KeysOut += b.keys
	t.tellMoves("hosts-given", b.agent, len(b.hosts), b.keys)
}
