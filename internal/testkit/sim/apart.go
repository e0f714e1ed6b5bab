package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/crawl"
)

// A separation is a time in which some agents could not hear each other, or hardly. It explains that
// one of them fetches what the other has fetched, and that their requests to a host, an address or a
// site come too close to each other. It explains nothing about the requests of one agent alone.
type separation struct {
	from, to time.Time
	between  func(a, b int) bool // whether two different agents were apart
	since    time.Time           // the one does not know what the other has fetched since then
	polite   bool                // politeness must hold all the same
}

func (s separation) covers(a, b int, at time.Time) bool {
	return a != b && !at.Before(s.from) && !at.After(s.to) && s.between(a, b)
}

// hides reports whether the agent of fetch f may not know of the earlier fetch e: they are apart, or
// were when the page was fetched. An agent does not ask what others have fetched of its hosts while
// they were apart, because it never lost these hosts in its own view. So it may fetch such a page
// long after they agree again.
func (s separation) hides(e, f fetched) bool {
	return !e.at.Before(s.since) && s.covers(e.agent, f.agent, f.at) || !s.polite && s.covers(e.agent, f.agent, e.at)
}

// of returns a function that reports whether one of two agents is n.
func of(n int) func(a, b int) bool { return func(a, b int) bool { return a == n || b == n } }

// separate notes a separation.
func (j *judge) separate(s separation) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.apart = append(j.apart, s)
}

// went notes that an agent was not there for a time.
func (j *judge) went(agent int, from, to time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.away = append(j.away, excuse{agent, from, to})
}

// A restore is the return of an agent with an older copy of its disk. If hosts changed owners since
// the copy was made, it does not know what others have told it of them: it does not ask again.
type restore struct {
	agent int
	at    time.Time
	disk  time.Time // the agent's fetches since then, on the same disk, are in the copy
}

func (r restore) forgets(e, f fetched) bool {
	return f.agent == r.agent && !f.at.Before(r.at) && e.at.Before(r.at) &&
		(e.agent != r.agent || e.at.Before(r.disk))
}

// isRestored tells the judge that the actor gets a copy of its disk that was made at a time.
func (a *actor) isRestored(copied time.Time) {
	if !a.s.movedSince(copied.Add(-replicatedAfter)) {
		return
	}
	j := a.s.judge
	j.mu.Lock()
	defer j.mu.Unlock()
	j.restores = append(j.restores, restore{a.number, time.Now(), a.disk})
}

// endsWithin bounds the time from when the agents agree to the end of the crawl until the first of them has ended. It
// is shorter than the time after which an agent can be taken for lost.
const endsWithin = 1500 * time.Millisecond

// finishes notes that the actor has finished the crawl. If it could not hear an agent that goes on, that
// agent, and those that join it, cannot ask it any more. If an archive was lost just before, the agents had agreed to
// the end, and no agent could know of the loss.
func (a *actor) finishes() {
	s := a.s
	s.stage.Lock()
	defer s.stage.Unlock()
	s.judge.finished(time.Now())
	if !slices.ContainsFunc(s.actors, func(o *actor) bool {
		return o.lives() && slices.ContainsFunc(s.apart, func(e separation) bool {
			return e.covers(a.number, o.number, time.Now())
		})
	}) {
		return
	}
	s.judge.mu.Lock()
	defer s.judge.mu.Unlock()
	s.judge.early = append(s.judge.early, excuse{a.number, time.Now(), time.Now().Add(24 * time.Hour)})
}

// finished notes that an agent has finished the crawl.
func (j *judge) finished(at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.forgotten {
		if !e.to.Before(at.Add(-endsWithin)) {
			j.final = append(j.final, e)
		}
	}
}

// movedSince reports whether hosts may have changed owners since t.
func (s *story) movedSince(t time.Time) bool {
	return slices.ContainsFunc(s.apart, func(e separation) bool { return e.to.After(t) }) ||
		slices.ContainsFunc(s.actors, func(a *actor) bool {
			return a.run != nil && a.run.began.After(start) && a.run.began.After(t) || a.down.After(t) || a.leaving
		})
}

// cutOffWithin bounds the time from a cut until an agent has lost the leases that others granted.
const cutOffWithin = killedRepeats + 10*time.Second

// mayFetch reports whether a fault explains fetch f of a page of a host that was fetched before. It
// must explain for each earlier fetch that the agent of f did not know of it:
//
//   - nobody knows of the earlier fetch: its agent was killed just after it, or all copies may be lost;
//   - the two agents were apart at the time of f;
//   - the earlier agent had just been cut off from others: it lost its leases, and with them the visits
//     under way, also if the web answered them;
//   - the agent of f got an older copy of its disk, and the fetch was told it, or made on another disk;
//   - the archive of the earlier agent was lost, and the agents fetch its pages again;
//   - an application wants a page that only the archive of an agent has that is down, or has left;
//   - the earlier agent had finished the crawl without others that it could not hear;
//   - the earlier agent was away at the time of f, or was replaced before, and f's agent could not
//     hear another one, which may have had the copy.
//
// So a fault explains at most as many repeated fetches as agents could make that did not hear of
// each other, and none after a fetch of the same agent that it must remember. The caller holds mu.
func (j *judge) mayFetch(host, number int64, earlier []fetched, f fetched) bool {
	for _, e := range earlier {
		forgot := func(x excuse) bool { return x.covers(e.agent, e.at) }
		hides := func(s separation) bool { return s.hides(e, f) }
		forgets := func(r restore) bool { return r.forgets(e, f) }
		cutOff := func(s separation) bool {
			return e.at.Sub(s.from) < cutOffWithin && slices.ContainsFunc(j.agents(), func(o int) bool {
				return s.covers(o, e.agent, e.at)
			})
		}
		replaced := e.agent == f.agent && slices.ContainsFunc(j.replaced, forgets)
		gone := func(x excuse) bool { return e.agent != f.agent && x.covers(e.agent, f.at) }
		// If pages move, any other agent's archive may have the page.
		unread := func(x excuse) bool { return gone(x) || j.moves && x.agent != f.agent && x.covers(x.agent, f.at) }
		deaf := func(s separation) bool {
			return slices.ContainsFunc(j.agents(), func(o int) bool { return s.covers(o, f.agent, f.at) })
		}
		ended := func(x excuse) bool { return e.agent != f.agent && x.covers(e.agent, f.at) }
		// An application's page may have moved to an agent that f's agent does not hear.
		if j.moves && j.wanted[page{host, number}] && slices.ContainsFunc(j.apart, deaf) {
			continue
		}
		if j.anyHost && replaced { // the others know its pages, and not which of them it has fetched
			continue
		}
		if !slices.ContainsFunc(j.unread, unread) && !j.mayRepeat(host, e.at) &&
			!j.refetched(host, number, earlier, e, f) && !slices.ContainsFunc(j.excuses, forgot) &&
			!slices.ContainsFunc(j.early, ended) && !slices.ContainsFunc(j.apart, cutOff) &&
			!slices.ContainsFunc(j.apart, hides) && !slices.ContainsFunc(j.restores, forgets) && (!replaced &&
			!slices.ContainsFunc(j.away, gone) || !slices.ContainsFunc(j.apart, deaf)) {
			return false
		}
	}
	return true
}

// refetched reports whether f fetches a page again because an archive that has it is lost, or its agent is away, and e
// was before the loss. earlier has all earlier fetches. An agent that was away or apart keeps its archive: if others
// have taken it for lost, and one of them is lost then, its heirs must not fetch the pages of that archive again. The
// caller holds mu.
func (j *judge) refetched(host, number int64, earlier []fetched, e, f fetched) bool {
	// If pages move, an archive may have had pages that other agents have fetched. They may fetch such a page once more
	// before the list is read: a link to it waited at the lost agent.
	gone := func(at time.Time) bool {
		since := 0
		for _, o := range earlier {
			if o.at.After(at) {
				since++
			}
		}
		return f.at.After(at) && since <= 1
	}
	if len(j.gone) > 0 && number >= 0 && slices.ContainsFunc(j.gone[j.truth.URL(host, number)], gone) {
		return true
	}
	lost := func(x excuse) bool {
		return !e.at.After(x.to) && f.at.After(x.to) &&
			slices.ContainsFunc(earlier, func(e fetched) bool { return x.covers(e.agent, e.at) })
	}
	away := func(x excuse) bool {
		return x.agent == e.agent && x.to.Sub(x.from) > refetchWait && !e.at.After(x.from) && f.at.After(x.from)
	}
	return j.refetches && (slices.ContainsFunc(j.forgotten, lost) || slices.ContainsFunc(j.away, away))
}

// agents returns the numbers of all agents that have made requests. The caller holds mu.
func (j *judge) agents() (all []int) {
	for _, g := range j.groups[byHost] {
		for _, r := range g.by {
			if !slices.Contains(all, r.agent) {
				all = append(all, r.agent)
			}
		}
	}
	return all
}

// skips notes that an agent starts again after its clock was set forward. Then pauses that hosts asked
// for before may be over by its clock.
func (j *judge) skips(agent int, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range j.pauses {
		if p.from.Before(at) && p.to.After(at) {
			j.skipped = append(j.skipped, excuse{agent, at, p.to})
		}
	}
}

// mayViolate reports whether a separation explains a violation. Only requests of different agents
// can have such a reason, and robots.txt has nothing to do with other agents. The caller holds mu.
func (j *judge) mayViolate(v Violation) bool {
	at := start.Add(v.At)
	if v.Kind == "retry-after" &&
		slices.ContainsFunc(j.skipped, func(e excuse) bool { return e.covers(v.Agent, at) }) {
		return true
	}
	if j.exclusive && v.Host && v.Agent != v.After { // a host has one owner at a time, whoever hears whom
		return false
	}
	return v.Kind != "robots" && slices.ContainsFunc(j.apart, func(s separation) bool {
		return !s.polite && s.covers(v.Agent, v.After, at)
	})
}

// An outage is a time in which an agent cannot reach the hosts. Afterwards they rest.
type outage struct {
	until time.Time
	rest  time.Duration
}

// unreachable notes an outage. A host that cannot be reached again after its rest rests twice as
// long.
func (s *story) unreachable(span excuse) {
	s.judge.mu.Lock()
	s.judge.outage = true
	s.judge.mu.Unlock()
	o := outage{span.to, retryTime}
	for _, before := range s.outages {
		if span.from.Before(before.until.Add(before.rest + retryTime)) {
			o.rest = max(o.rest, 2*before.rest)
		}
	}
	s.outages = append(s.outages, o)
	s.still = append(s.still, excuse{from: span.from, to: span.to.Add(o.rest)})
}

// uncovered returns how much of the time from from to to is in none of the spans.
func uncovered(from, to time.Time, spans []excuse) (d time.Duration) {
	spans = slices.SortedFunc(slices.Values(spans), func(a, b excuse) int { return a.from.Compare(b.from) })
	for _, s := range spans {
		if s.from.After(from) {
			d += max(0, sooner(s.from, to).Sub(from))
		}
		from = later(from, s.to)
	}
	return d + max(0, to.Sub(from))
}

// separate notes that agents cannot hear each other, or hardly, for d. They also do not know what
// they had not told each other before, and agree again some time after it.
func (s *story) separate(d time.Duration, between func(a, b int) bool) {
	now := time.Now()
	s.bad = append(s.bad, excuse{from: now, to: now.Add(d + separatedAfter)})
	e := separation{from: now.Add(-killedRepeats), to: now.Add(d + separatedAfter), between: between}
	s.judge.separate(e)
	s.apart = append(s.apart, e)
	for _, a := range s.actors {
		if a.newcomer && a.lives() && now.Sub(a.run.began) < replicatedAfter {
			// It is still asking for what others know of its hosts. It does not ask again.
			s.judge.separate(separation{from: now, to: now.Add(24 * time.Hour), polite: true,
				between: func(x, y int) bool { return (x == a.number || y == a.number) && between(x, y) }})
		}
	}
}

// separatedSince returns since when the actor is apart from any other agent; zero: it is not.
func (a *actor) separatedSince() (since time.Time) {
	for _, e := range a.s.apart {
		for _, o := range a.s.actors {
			if e.covers(a.number, o.number, time.Now()) && (since.IsZero() || e.from.Before(since)) {
				since = e.from
			}
		}
	}
	return since
}

// idle returns what is wrong with the time that an actor needed to end. From the last page on, requests for other
// things, starts of agents, and failures of agents, whose work others must take, must follow each other as soon as
// pages before, and the end must follow them. last is the time of the last page, and requests has those of the others.
func (s *story) idle(a *actor, last time.Time, requests []time.Time, explained []excuse) (wrong []string) {
	end := a.run.at
	work := append(slices.Clone(requests), end)
	for _, o := range s.actors {
		if o.run != nil {
			work = append(work, o.run.began)
		}
		if o != a && !o.down.IsZero() {
			work = append(work, o.down)
		}
	}
	slices.SortFunc(work, func(a, b time.Time) int { return a.Compare(b) })
	for _, at := range work {
		if at.After(end) {
			break
		}
		if d := uncovered(last, at, explained); d > s.judge.stallBound() {
			wrong = append(wrong, fmt.Sprintf("%s: ended at %s although nothing happened for %s from %s on", a.name,
				end.Sub(start), d, last.Sub(start)))
		}
		last = later(last, at)
	}
	return wrong
}

// wasAway tells the judge from when to when the actor was down the last time, if it was. What it had
// fetched while it was apart, the others do not know until it is back.
func (a *actor) wasAway() {
	from, to := a.down, time.Now()
	switch {
	case a.run != nil && a.run.ended() && a.run.result.Stop == crawl.Left:
		from = a.run.at
	case from.IsZero():
		return
	case !a.up.IsZero():
		to = a.up.Add(separatedAfter)
	}
	a.s.judge.went(a.number, from, to)
	if !a.untold.IsZero() {
		a.s.judge.separate(separation{from: from, to: to, between: of(a.number), since: a.untold, polite: true})
	}
}

// cameTooLate reports whether an actor that joined could not take part, because the crawl was over
// or about to end. Then the others may refuse it, or none of them answers.
func (s *story) cameTooLate(a *actor) bool {
	p := a.run
	if s.judge.by(a.number, p.began) > 0 {
		return false
	}
	if p.err == nil {
		return s.finished()
	}
	over := strings.Contains(p.err.Error(), "the crawl has ended") || a.metNobody()
	return over && s.finishedBy(p.at.Add(lateBefore))
}

// metNobody reports whether the actor ended because no agent answered it. It cannot tell by the kind
// of the error, which is that of a wrong --join.
func (a *actor) metNobody() bool {
	p := a.run
	return p.ended() && p.err != nil && strings.Contains(p.err.Error(), gossip.ErrNobody.Error())
}

// endedCrawl reports whether the actor has ended the crawl together with others, or alone.
func (a *actor) endedCrawl() bool {
	p := a.run
	return p != nil && p.ended() && !p.killed && p.err == nil && p.result.Stop != crawl.Left
}

// cameLate reports whether the actor could not take part in the end of the crawl at another one: they
// were apart, or it started again just before or after.
func (a *actor) cameLate(o *actor) bool {
	deaf := func(e separation) bool { return e.covers(a.number, o.number, o.run.at) }
	return o != a && (slices.ContainsFunc(a.s.apart, deaf) ||
		a.starts > 1 && a.run.began.After(o.run.at.Add(-lateBefore)))
}

// isAlone reports whether the actor ended because it met nobody, and could not: it came late for each
// agent that has ended the crawl, and there is one.
func (a *actor) isAlone() bool {
	some := false
	for _, o := range a.s.actors {
		if o.endedCrawl() {
			if !a.cameLate(o) {
				return false
			}
			some = true
		}
	}
	return some && a.metNobody()
}
