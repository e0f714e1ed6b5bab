package cluster

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A Planner's state of a URL moves to another agent when the URL is due and the host has another owner.
//
//	Next -> a URL of another agent's host -> Carry -> Hand -> remember -> Restore
//
// A state may arrive more than once, and more than one agent may send it: the heir of a lost agent has
// it from the replica. The Planner must get it once, and again if the host was away and is back. So
// each move of a state has a version: one more than those that the sender has seen. The versions seen
// have keys in the seen-set. A version that was seen changes nothing.

const (
	// carryMax bounds the states that wait to be sent to an agent.
	carryMax = 4096
	// versionReplica is the version of a state in a replica. It counts only if no other was seen.
	versionReplica = 0
	// versionMax bounds the versions of a state.
	versionMax = 1 << 12
	// versionFarewell is the version of a state that a leaving agent sends.
	versionLeaving = versionMax + 1
)

// planned is a Planner's state of a URL.
type planned struct {
	link    link.Link
	state   []byte
	version uint64
	tried   bool // the agent to which it is sent may have it
}

func (p *planned) record() *handoff.Record {
	return &handoff.Record{Kind: handoff.Finish, Number: p.version, Link: p.link.AppendTo(nil), State: p.state}
}

// carry does the work of Clustered.Carry. The journal keeps the state until the other agent has it.
func (t *tenants) carry(l link.Link, take func() ([]byte, error)) (taken bool, err error) {
	agent, mine := t.Placement.Owner(l.URL.Host())
	if mine || agent == "" {
		return false, nil
	}
	g := t.queueTo(agent)
	if len(g.states) >= carryMax {
		return false, nil
	}
	enc, err := take()
	if err != nil {
		return false, err
	}
	l.Via = ""
	g.states = append(g.states, planned{link: l, state: enc})
	t.run.Stir()
	return true, nil
}

// bundleStates adds queued states to a bundle.
func (t *tenants) bundleStates(b *bundle, g *handoffQueue) {
	for len(g.states) > 0 && len(b.states) < bundleStates {
		p := g.states[0]
		owner, mine := t.Placement.Owner(p.link.URL.Host())
		sticks := p.tried && b.identity != ""
		switch {
		case owner == "" && !mine && !sticks:
			return
		case mine && !sticks: // the host is back
			t.loop.Remember(p.link, p.state)
		case owner != b.agent && !sticks:
			p.tried = false
			t.queueTo(owner).states = append(t.queueTo(owner).states, p)
		default:
			b.states = append(b.states, p)
		}
		g.states = g.states[1:]
	}
	t.eachState(b.states, func(p *planned, seen uint64) bool {
		p.version, p.tried = min(seen+1, versionMax), true
		b.add(p.record())
		return false
	})
}

// remember gives the Planner the states that are new here. The states of a host come together.
func (t *tenants) remember(states []planned) {
	t.eachState(states, func(p *planned, seen uint64) bool {
		if p.version <= seen && p.version != versionReplica || seen > 0 && p.version == versionReplica ||
			!t.loop.Remember(p.link, p.state) {
			return false
		}
		t.shipping.copyState(p)
		return true
	})
}

// moved records that another agent has the states, unless they have come back meanwhile.
func (t *tenants) moved(states []planned) {
	t.eachState(states, func(p *planned, seen uint64) bool {
		if p.version <= seen {
			return false
		}
		t.loop.Ledger.Add(state.Told, state.AppendVisited(nil, p.link, nil))
		return true
	})
}

// eachState calls see for each state whose version has no key yet. seen is the highest version seen of
// the moves, 0 for none. If see returns true, the state's version is seen now.
func (t *tenants) eachState(states []planned, see func(p *planned, seen uint64) bool) {
	var all []ledger.Ranged
	for i := 0; i < len(states) && !t.run.Failed(); {
		marks := statesKey(link.KeyOf(states[i].link.URL).Host)
		had, fresh := t.ranges.rangeOf(marks), keyset.Paths{}
		for host := states[i].link.URL.Host(); i < len(states) && states[i].link.URL.Host() == host; i++ {
			p := &states[i]
			seen := uint64(0)
			for had.Has(keyset.WholeKey, p.mark(seen+1)) {
				seen++
			}
			alone := p.version == versionReplica || p.version == versionLeaving
			if alone && had.Has(keyset.WholeKey, p.mark(p.version)) || !see(p, seen) {
				continue
			}
			l := keyset.List{Width: keyset.WholeKey, Paths: []uint64{p.mark(p.version)}}
			for v := seen + 1; v < p.version && !alone; v++ {
				l.Paths = append(l.Paths, p.mark(v))
			}
			fresh.Add(l)
			had.Add(l)
			had.Order()
		}
		fresh.Order()
		all = append(all, ledger.Ranged{Host: marks, Paths: fresh})
	}
	t.run.Fail(t.loop.Ledger.Learn(all)) // in one batch of the journal with the states
}

// mark returns the path that stands for a version of the state.
func (p *planned) mark(version uint64) uint64 {
	d := xxhash.New()
	_, _ = d.Write(binary.LittleEndian.AppendUint64(nil, version)) // has no error
	_, _ = d.Write(p.state)
	return link.KeyOf(p.link.URL).Path ^ d.Sum64()
}

// statesKey returns the range of the marks of a host. No host has it, as with doneKey.
func statesKey(host uint64) uint64 { return host ^ 0x2545f4914f6cdd1d }
