package cluster

import (
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A reading passes on, as records, all that this agent's journal says of hosts. It runs beside the
// dispatcher.
type reading struct {
	files  *ledger.Transfer
	wanted func(host uint64) bool
	// put takes a record of a host. The record is valid until put returns.
	put     func(r *handoff.Record, host uint64) error
	version uint64 // of the states

	known handoff.Record // keys of one host that are collected
}

// pending passes on the pending links, and how long hosts must rest. It must be called before
// finished.
func (r *reading) pending(now time.Time) error {
	return r.files.Pending(func(number uint64, enc []byte) error {
		l, _, err := link.Peek(enc)
		if err != nil {
			return err
		}
		host := link.KeyOf(l.URL).Host
		if !r.wanted(host) {
			return nil
		}
		return r.put(&handoff.Record{Kind: handoff.Accept, Number: number, Link: enc}, host)
	}, func(st frontier.HostState) error {
		host := link.HostKey(st.Host)
		if !r.wanted(host) {
			return nil
		}
		return r.put(clockRecord(st, now), host)
	})
}

// finished passes on what is finished: the keys of all URLs, and the states of a Planner.
func (r *reading) finished() error {
	err := r.files.Finished(func(done uint64, l keyset.List) error {
		host := doneKey(link.Key{Host: done}).Host // undoes doneKey
		if !r.wanted(host) {
			return nil
		}
		for _, p := range l.Paths {
			k := &r.known
			if len(k.Paths) > 0 && (k.Host != host || k.Width != uint8(l.Width) || len(k.Paths) == handoff.MaxPaths) {
				if err := r.flush(); err != nil {
					return err
				}
			}
			k.Kind, k.Host, k.Width = handoff.Known, host, uint8(l.Width)
			k.Paths = append(k.Paths, p)
		}
		return nil
	}, func(l link.Link, planned []byte) error {
		host := link.KeyOf(l.URL).Host
		if !r.wanted(host) || len(planned) > handoff.MaxState {
			return nil
		}
		p := handoff.Record{Kind: handoff.Finish, Number: r.version, Link: l.AppendTo(nil), State: planned}
		return r.put(&p, host)
	})
	if err != nil {
		return err
	}
	return r.flush()
}

// flush passes on the collected keys.
func (r *reading) flush() error {
	k := &r.known
	if len(k.Paths) == 0 {
		return nil
	}
	slices.Sort(k.Paths)
	k.Paths = slices.Compact(k.Paths)
	err := r.put(k, k.Host)
	k.Paths = k.Paths[:0]
	return err
}

// clockRecord returns a record of a host's state. It has durations, because clocks of two machines
// are never compared.
func clockRecord(st frontier.HostState, now time.Time) *handoff.Record {
	return &handoff.Record{Kind: handoff.Clock, Name: st.Host, Politeness: politenessOf(st, now)}
}

// politenessOf returns how long a host must rest from now on.
func politenessOf(st frontier.HostState, now time.Time) handoff.Politeness {
	bound := func(d time.Duration) time.Duration { return min(max(d, 0), handoff.MaxPause) }
	r := handoff.Politeness{Delay: bound(st.Delay), Slow: st.Slow}
	if !st.NotBefore.IsZero() {
		r.Quiet = bound(st.NotBefore.Sub(now))
	}
	if !st.SlowUntil.IsZero() {
		r.SlowFor = bound(st.SlowUntil.Sub(now))
	}
	for _, o := range st.Origins {
		r.Origins = append(r.Origins, handoff.Origin{Name: o.Origin, Cause: o.Cause, Failures: o.Failures,
			Quiet: bound(o.Until.Sub(now))})
	}
	return r
}

// restless reports that a host need not rest, and that none of its origins fails.
func restless(r handoff.Politeness) bool {
	return r.Delay == 0 && r.Quiet == 0 && r.Slow == 0 && len(r.Origins) == 0
}

// stateOf returns the state that a frontier restores.
func stateOf(host string, r handoff.Politeness, now time.Time) frontier.HostState {
	st := frontier.HostState{Host: host, Delay: r.Delay, Slow: r.Slow}
	if r.Quiet > 0 {
		st.NotBefore = now.Add(r.Quiet)
	}
	if r.Slow > 0 {
		st.SlowUntil = now.Add(r.SlowFor)
	}
	for _, o := range r.Origins {
		st.Origins = append(st.Origins, frontier.OriginState{Origin: o.Name, Cause: o.Cause, Failures: o.Failures,
			Until: now.Add(o.Quiet)})
	}
	return st
}
