package cluster

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// An inquiry is a host that waits until the agents that may have owned it have answered, or until
// the view changes.
type inquiry struct {
	view   uint64 // Placement.View of the first question; all answers must be of this view
	since  uint64
	others []string // more agents to ask if needed
	open   []string // asked, and not answered finally
	enough int      // answers still wanted
}

// A line is the list of hosts to ask one agent for.
type line struct {
	hosts    []string
	again    []string // to ask for again when due
	due      time.Time
	failures int
	busy     bool // a question is under way
}

const (
	claimHosts = 256 // in one question
	// claimWait is the pause before the agent asks for a host again. It doubles after errors.
	claimWait    = 100 * time.Millisecond
	claimWaitMax = 5 * time.Second
)

// hold stops visits to a host. If this agent owns the host, it asks other agents about it.
func (t *tenants) hold(host string, mine bool, since uint64) {
	t.loop.Frontier.Block(host)
	if t.held[host] != nil {
		return
	}
	t.run.Stir()
	host = strings.Clone(host)
	w := &inquiry{view: t.Placement.View(), since: since, enough: 1} // a foreign host gets no answers
	t.held[host] = w
	if !mine {
		return
	}
	w.others, w.enough = t.Placement.Before(host)
	t.askFor(host, w, t.loop.Config.Clock.Now())
}

// askFor asks as many agents about a host as answers are needed. If no agent is left to ask, this
// agent may crawl the host.
func (t *tenants) askFor(host string, w *inquiry, now time.Time) {
	for len(w.others) > 0 && len(w.open) < w.enough {
		agent := w.others[0]
		w.others = w.others[1:]
		w.open = append(w.open, agent)
		t.lineOf(agent).hosts = append(t.lineOf(agent).hosts, host)
	}
	if len(w.open) == 0 {
		t.settleHere(host, w, now)
	}
}

func (t *tenants) lineOf(agent string) *line {
	l := t.lines[agent]
	if l == nil {
		l = &line{}
		t.lines[agent] = l
	}
	return l
}

// askAround sends questions. wake is the time to send more.
func (t *tenants) askAround(work context.Context, now time.Time) (wake time.Time) {
	asked := t.Placement.View()
	for agent, l := range t.lines {
		if l.busy {
			continue
		}
		if len(l.again) > 0 && !l.due.After(now) {
			l.hosts, l.again = append(l.hosts, l.again...), nil
		}
		if l.failures > 0 && l.due.After(now) {
			wake = run.Earlier(wake, l.due)
			continue
		}
		var hosts []string
		for len(l.hosts) > 0 && len(hosts) < claimHosts {
			host := l.hosts[0]
			l.hosts = l.hosts[1:]
			switch w := t.held[host]; {
			case w == nil || !slices.Contains(w.open, agent) || slices.Contains(hosts, host):
			case w.view != asked: // the view has changed: all agents are asked again when the host is due
				t.unhold(host)
				wake = now
			default:
				hosts = append(hosts, host)
			}
		}
		if len(hosts) == 0 {
			if len(l.again) > 0 {
				wake = run.Earlier(wake, l.due)
			}
			continue
		}
		l.busy = true
		view := t.view
		t.run.Go(func() {
			r, err := t.Exchange.Claim(work, agent, &pb.ClaimRequest{View: asked, Hosts: hosts})
			t.run.Tell(func(now time.Time) {
				if l.busy = false; view == t.view {
					t.answered(agent, asked, hosts, r.GetVerdicts(), err, now)
				}
			})
		})
	}
	return wake
}

// answered processes the answer to a question of the view asked.
func (t *tenants) answered(agent string, asked uint64, hosts []string, vs []byte, err error, now time.Time) {
	l := t.lineOf(agent)
	if t.run.Stopping() {
		return
	}
	if err != nil || len(vs) != len(hosts) {
		for _, host := range hosts {
			if others, _ := t.Placement.Before(host); slices.Contains(others, agent) {
				l.hosts = append(l.hosts, host)
			} else if w := t.held[host]; w != nil { // the agent is gone: do not wait for it
				w.open = slices.DeleteFunc(w.open, func(a string) bool { return a == agent })
				t.askFor(host, w, now)
			}
		}
		l.due = now.Add(min(claimWait<<min(l.failures, 10), claimWaitMax))
		l.failures++
		return
	}
	l.failures = 0
	for i, host := range hosts {
		w := t.held[host]
		if w == nil || !slices.Contains(w.open, agent) {
			continue
		}
		verdict := vs[i]
		if w.view != asked {
			verdict = claimAgain // the answer is for an older question
		}
		switch verdict {
		case claimNothing, claimStranger:
			t.run.Stir()
			w.open = slices.DeleteFunc(w.open, func(a string) bool { return a == agent })
			if verdict == claimNothing {
				w.enough--
			}
			t.askFor(host, w, now)
		default:
			if len(l.again) == 0 {
				l.due = now.Add(claimWait)
			}
			l.again = append(l.again, host)
		}
		if t.run.Failed() {
			return
		}
	}
}

// settleHere starts visits to a host that this agent owns.
func (t *tenants) settleHere(host string, w *inquiry, now time.Time) {
	key := link.HostKey(host)
	t.run.Stir()
	if _, mine, since := t.Placement.Tenure(host); !mine || since != w.since || w.view != t.Placement.View() {
		t.unhold(host) // when it is due, the agent decides again
		return
	}
	if t.Placement.Inheriting() {
		return // the takeover may bring more finished URLs; the next view starts again
	}
	if t.unite(key); t.run.Failed() {
		return
	}
	t.claimed[key] = w.since
	delete(t.given, key)
	t.n.Claimed++
	rest := politenessOf(t.loop.Hosts.State(host), now)
	if st, ok := t.clocks[host]; ok { // this agent owned it before
		old := politenessOf(st, now)
		rest.Delay, rest.Quiet = max(rest.Delay, old.Delay), max(rest.Quiet, old.Quiet)
		rest.Origins = append(rest.Origins, old.Origins...)
		delete(t.clocks, host)
	}
	rest.Quiet = max(rest.Quiet, t.firstRest(host, now))
	st := stateOf(host, rest, now)
	st.Blocked = true // held still blocks it; unhold lifts that
	t.loop.Hosts.Take(st, now)
	t.run.Fail(t.loop.Ledger.Append())
	t.unhold(host)
}

// firstRest returns how long a host must rest that this agent gets now: its last owner may have died
// just after a request to it.
func (t *tenants) firstRest(host string, now time.Time) time.Duration {
	return max(t.loop.Config.ResumeWait, t.loop.Frontier.HostDelay(host)) - t.Placement.Unheard(now)
}

// unite moves the done keys of a host that was handed over before into the host's own range.
func (t *tenants) unite(key uint64) {
	h, ok := t.ranges.handed[key]
	if !ok || !h.apart {
		return
	}
	done := t.ranges.rangeOf(doneKey(link.Key{Host: key}).Host)
	t.foundElsewhere(key, &done)
	own := h.key(link.Key{Host: key}).Host
	if t.run.Fail(t.loop.Ledger.Learn([]ledger.Ranged{{Host: own, Paths: done}})) {
		return
	}
	h.apart = false
	t.ranges.setHanded(key, h)
	t.run.Fail(t.loop.Ledger.Append())
}
