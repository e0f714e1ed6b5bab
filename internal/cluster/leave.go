package cluster

import (
	"context"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// An agent that leaves for good gives away all its hosts, not only those that are due. It sends
// their links to the owners in the view, which no longer contains this agent. It also sends the
// finished URLs of every host that it has contacted, because no agent can ask for them later. It does
// not send what other agents have told it, because those agents still know it.

const (
	leaveEvery = 100 * time.Millisecond
	leaveHosts = 256 // hosts per turn of the dispatcher
)

// leaving is the progress of an agent that leaves.
type leaving struct {
	on    bool
	next  time.Time
	limit time.Time
	told  []string // hosts whose finished URLs are still to be sent
}

// Leave starts to hand all hosts to other agents. The run ends when that is done, at the
// latest after within. The caller must remove this agent from the view of the Placement. Leave
// returns when the handoff has started. Safe for concurrent use while Run runs.
func (cl *Clustered) Leave(ctx context.Context, within time.Duration) error {
	return cl.loop.Ask(ctx, "leave", func() {
		l := &cl.tenants.leaving
		if l.on {
			return
		}
		now := cl.loop.Now()
		cl.loop.Stir()
		*l = leaving{on: true, next: now, limit: now.Add(within)}
		cl.loop.Tally.EachHost(func(host string) { l.told = append(l.told, host) })
		cl.loop.Frontier.ReadAll()
		cl.loop.Events.Write("leaving", report.F("links", cl.loop.Pending()), report.F("hosts", len(l.told)))
	})
}

// Stay cancels Leave. Hosts already handed over stay with the other agents; this agent
// continues with those that the Placement leaves it. It reports whether this agent was leaving.
// Safe for concurrent use while Run runs.
func (cl *Clustered) Stay(ctx context.Context) (was bool, err error) {
	err = cl.loop.Ask(ctx, "stay", func() {
		l := &cl.tenants.leaving
		if was = l.on; was && cl.loop.Stop() == "" {
			cl.loop.Stir()
			*l = leaving{}
			cl.loop.Frontier.ReadSome()
			cl.loop.Events.Write("leave-undone", report.F("links", cl.loop.Pending()))
		}
	})
	return was, err
}

// leaveOn continues to leave. wake is the time of the next step.
func (cl *Clustered) leaveOn(now time.Time) (wake time.Time) {
	l := &cl.tenants.leaving
	if !l.on || cl.loop.Failed() {
		return time.Time{}
	}
	if l.next.After(now) {
		return l.next
	}
	l.next = now.Add(leaveEvery)
	hosts := cl.loop.Frontier.Queued(nil, leaveHosts)
	hosts = cl.loop.HostsLater(hosts, leaveHosts)
	for _, host := range hosts {
		if owner, mine, _ := cl.Peers.Tenure(host); !mine && owner != "" {
			cl.giveAway(host, owner, now)
		}
		if cl.loop.Failed() {
			return time.Time{}
		}
	}
	for n := 0; len(l.told) > 0 && n < leaveHosts; n++ {
		host := l.told[len(l.told)-1]
		owner, mine, _ := cl.Peers.Tenure(host)
		if mine || owner == "" {
			break // the view is not known here yet
		}
		l.told = l.told[:len(l.told)-1]
		if cl.tenants.given[weburl.HostKey(host)] == "" {
			cl.give(host, owner)
		}
	}
	// It may have the only replica of an agent that is gone. Then it passes on that agent's links first.
	done := cl.loop.Idle() && len(l.told) == 0 && !cl.Peers.Inheriting() && cl.loop.Frontier.Len() == 0 && cl.Settled()
	if done && cl.loop.Seen.Holds() {
		cl.loop.FlushSeen() // may bring more links
		return now
	}
	if done {
		// The last visits may have finished URLs of more hosts.
		cl.loop.Tally.EachHost(func(host string) {
			if owner, mine, _ := cl.Peers.Tenure(host); !mine && owner != "" &&
				cl.tenants.given[weburl.HostKey(host)] == "" {
				l.told = append(l.told, host)
			}
		})
		done = len(l.told) == 0
	}
	if done || now.After(l.limit) {
		n := &cl.tenants.n
		cl.loop.Events.Write("gave-all", report.F("left", cl.loop.Pending()), report.F("hosts", n.Given),
			report.F("links", n.LinksOut), report.F("keys", n.KeysOut))
		cl.loop.Halt(crawl.Left)
	}
	if len(hosts) >= leaveHosts {
		l.next = now
	}
	return l.next
}
