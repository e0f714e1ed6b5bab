// Package shares answers: which part of the crawl's rate may this agent use now?
//
//	Holder.Ask -> (a call) -> Grantor.Answer -> Holder.Take -> Holder.Share
//
// One agent of the cluster, the grantor, divides the rate. The placement names it, so it changes with the view of the
// cluster, and each agent knows it without asking. An agent asks five times a second: it says which share it holds and
// how much it could use. The grantor answers with the share that it holds from then on.
//
// # Invariants
//
//   - The shares that agents hold never sum above one, while all agents in contact have the same view, or will have it
//     within Settle. A grantor raises a share only by what no agent may still use. A share that it lowered counts in
//     full until its holder asks again, because only then has the holder heard of it.
//   - A share ends Term after its holder asked for it, whatever happens to the calls. The holder counts from the moment
//     when it sent the question, the grantor from when it got it. Each allows for clocks that differ in speed by a
//     fiftieth.
//   - A new grantor raises no share until each agent of its view has told what it holds. An agent that does not ask
//     counts as holding all that is left, until Term and Settle have passed since the view that brought it.
//   - If the grantor has heard from no other agent of its view for Term, its own share ends, too. So a grantor that was
//     stopped or cut off uses nothing that others may have.
//
// While a network is divided, each part has a grantor and uses the whole rate, because an agent cannot tell a division
// from the death of the others.
//
// # Division
//
// An agent that the limit holds back could use some more than its share, and everything if it has none. Another one
// could use what it has used lately. The grantor divides fairly (max-min): no agent gets more than it could use, and
// all that want more get the same. What is then left goes to all in proportion to what they could use. So the agent
// that has the most work can use more at once, and an agent without work has little that the others would miss.
//
// Rejected: shares that each agent computes by itself from gossip. Views and demands differ for a moment at each
// change, and then the shares sum above one. Also rejected: leases of parts of the rate (package lease). They are made
// for points that one agent uses for seconds, and a share must move within one second.
//
// A Grantor and a Holder are not safe for concurrent use. They send nothing and start nothing.
package shares

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// Term is how long a share holds after the question for it.
	Term = 5 * time.Second
	// Settle is the time within which all agents in contact have the same view.
	Settle = 3 * time.Second
	// Every is the interval of the questions.
	Every = 200 * time.Millisecond
	// least is the part of an equal share that each agent has at least, so that it can begin at once.
	least = 0.02
)

func longer(d time.Duration) time.Duration  { return d + d/50 }
func shorter(d time.Duration) time.Duration { return d - d/50 }

// An Ask is an agent's question.
type Ask struct {
	// Seq numbers the questions of one start of an agent. Older ones are ignored.
	Seq uint64
	// Held is the share that the agent uses at most from now on, for Left.
	Held float64
	Left time.Duration
	// Want is the share that the agent could use. It is more than its share if the limit holds it back.
	Want float64
}

// A Grant answers an Ask.
type Grant struct {
	// Share is the agent's share for Term from when it asked. If it is less than Held, Held counts until the agent
	// has asked again.
	Share float64
	// Agents is the number of agents that have shares.
	Agents int
}

// A Grantor divides the rate. Make one with NewGrantor when this agent becomes the grantor.
type Grantor struct {
	self    string
	there   []string
	known   map[string]*account // including agents that have left the view, until their shares end
	unknown map[string]time.Time
	heard   time.Time // when another agent asked last
}

// An account is what the grantor knows of an agent.
type account struct {
	boot, seq  uint64
	want, held float64
	until      time.Time // when held has ended
}

// NewGrantor returns the Grantor of an agent. A name is unique in the view.
func NewGrantor(self string) *Grantor {
	return &Grantor{self: self, known: map[string]*account{}, unknown: map[string]time.Time{}}
}

// look takes the present view.
func (g *Grantor) look(there []string, now time.Time) {
	for name, a := range g.known {
		if !now.Before(a.until) {
			a.held = 0
			if !slices.Contains(there, name) {
				delete(g.known, name)
			}
		}
	}
	maps.DeleteFunc(g.unknown, func(name string, until time.Time) bool {
		return !now.Before(until) || !slices.Contains(there, name)
	})
	for _, name := range there {
		if !slices.Contains(g.there, name) && g.known[name] == nil {
			g.unknown[name] = now.Add(longer(Term + Settle))
		}
	}
	g.there = slices.Clone(there)
}

// Answer answers the question of an agent. there has the names of the agents in the view. An agent that is not among
// them may only give its share back. ok is false if a newer question of that agent was answered.
func (g *Grantor) Answer(name string, boot uint64, q Ask, there []string, now time.Time) (a Grant, ok bool) {
	g.look(there, now)
	was := g.known[name]
	if was != nil && (boot < was.boot || boot == was.boot && q.Seq <= was.seq) {
		return a, false
	}
	delete(g.unknown, name)
	if name != g.self {
		g.heard = now
	}
	me := &account{boot: boot, seq: q.Seq, want: q.Want, held: q.Held, until: now.Add(longer(q.Left))}
	if q.Left <= 0 {
		me.held = 0
	}
	g.known[name] = me
	a.Agents = len(there)
	if !slices.Contains(there, name) {
		return a, true
	}
	target, others := g.target(name), g.others(name)
	a.Share = min(target, max(me.held, 1-others))
	if a.Share > me.held {
		me.held = a.Share
	}
	me.until = now.Add(longer(Term))
	return a, true
}

// Sent returns when the grantor's own question counts as sent: when another agent has asked last, or now if there is
// none.
func (g *Grantor) Sent(there []string, now time.Time) time.Time {
	if len(there) > 1 {
		return g.heard
	}
	return now
}

// others returns the most that all agents but one may use.
func (g *Grantor) others(name string) (sum float64) {
	if len(g.unknown) > 0 {
		return 1
	}
	for other, a := range g.known {
		if other != name {
			sum += a.held
		}
	}
	return sum
}

// target returns the share that an agent should have.
func (g *Grantor) target(name string) float64 {
	total := 1.0
	type claim struct {
		name string
		want float64
	}
	var claims []claim
	for _, n := range slices.Sorted(maps.Keys(g.known)) {
		a := g.known[n]
		if !slices.Contains(g.there, n) {
			total -= a.held // it has left the view, and its share has not ended yet
			continue
		}
		claims = append(claims, claim{name: n, want: max(a.want, least/float64(len(g.there)))})
	}
	total = max(total, 0)
	slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(a.want, b.want) })
	left, share := total, 0.0
	for i, c := range claims {
		gets := min(c.want, left/float64(len(claims)-i))
		if left -= gets; c.name == name {
			share = gets
		}
	}
	if given := total - left; given > 0 {
		share += left * share / given
	}
	return share
}

// A Holder keeps the share of one agent.
type Holder struct {
	share float64
	until time.Time // when it ends
	seq   uint64
}

// Ask returns the next question. The agent uses want at most from now on, if that is less than its share.
func (h *Holder) Ask(want float64, now time.Time) Ask {
	h.seq++
	h.share = min(h.Share(now), want)
	return Ask{Seq: h.seq, Held: h.share, Left: max(h.until.Sub(now), 0), Want: want}
}

// Take takes the answer to the last question, which was sent at a time. It reports whether the share is less than the
// grantor counts, so that the next question should come at once.
func (h *Holder) Take(g Grant, sent time.Time) (tell bool) {
	tell = g.Share < h.share
	h.share, h.until = g.Share, sent.Add(shorter(Term))
	return tell
}

// Share returns the share that the agent has now.
func (h *Holder) Share(now time.Time) float64 {
	if !now.Before(h.until) {
		return 0
	}
	return h.share
}

// Until returns when the share ends.
func (h *Holder) Until() time.Time { return h.until }

// Drop gives the share up: the agent has no limit now.
func (h *Holder) Drop() { h.share, h.until = 0, time.Time{} }
