package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A loss is what a fault may cost of one host. The promise is: what an agent knows of a host
// outlives the loss of one copy, if there are two.
type loss struct {
	at    time.Time // when the fault happened
	again bool      // pages of the host that were fetched until then may be fetched again
	links time.Time // links to the host that were found from then until at may be lost; zero: none
}

// lost notes a loss of a host.
func (j *judge) lost(host int64, l loss) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.losses[host] = append(j.losses[host], l)
}

// hasLost says whether there was a loss of any host.
func (j *judge) hasLost() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.losses) > 0
}

// acceptedAfter is how long after the fetch of a page its links may be accepted by their owners, if these have been
// chosen.
const acceptedAfter = 2 * time.Second

// acceptedUntil returns until when an owner may accept a link that was found at a time. A link to a host that has no
// agent waits at its finder, in each time in which new hosts may get none.
func (j *judge) acceptedUntil(at time.Time) time.Time {
	until := at.Add(acceptedAfter)
	for more := true; more; {
		more = false
		for _, e := range j.unassigned {
			if to := e.to.Add(backAfter); !e.from.After(until) && until.Before(to) && !at.After(e.to) {
				until, more = to, true
			}
		}
	}
	return until
}

// mayRepeat says whether a page of a host that was fetched at a time may be fetched again,
// because nobody may know of that fetch.
func (j *judge) mayRepeat(host int64, at time.Time) bool {
	return slices.ContainsFunc(j.losses[host], func(l loss) bool { return l.again && !at.After(l.at) })
}

// mayMiss says whether a link may be lost that was found at a time on a page of one host, and
// leads to another host.
func (j *judge) mayMiss(from, to int64, at time.Time) bool {
	until := j.acceptedUntil(at)
	accepted := func(l loss) bool { return !l.links.IsZero() && !at.After(l.at) && !until.Before(l.links) }
	// The agent that has found the link may be lost before it has told the other agent.
	untold := func(l loss) bool { return accepted(l) && !until.Before(l.at) }
	if j.moves || j.anyHost { // a lost agent may have had the page, whatever its host
		for _, ls := range j.losses {
			if slices.ContainsFunc(ls, accepted) {
				return true
			}
		}
	}
	return slices.ContainsFunc(j.losses[to], accepted) || slices.ContainsFunc(j.losses[from], untold)
}

// rank returns for each host the numbers of all actors in the order in which they own it.
func (s *story) rank() [][]int {
	if s.ranks != nil {
		return s.ranks
	}
	var agents []placement.Owner
	numbers := map[string]int{}
	for _, a := range s.actors {
		capacity := 1.0
		if a.number > s.plan.Agents && s.plan.Capacity > 0 {
			capacity = s.plan.Capacity
		}
		agents = append(agents, placement.Owner{Name: a.name, Capacity: capacity})
		numbers[a.name] = a.number
	}
	var all placement.Placement
	var err error
	if s.plan.Partition == "ring" {
		all, err = placement.NewRing(agents, s.plan.Kappa)
	} else {
		all, err = placement.NewRendezvous(agents, 0)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.ranks = make([][]int, s.made.Hosts())
	for host := range s.ranks {
		name, _ := s.made.Name(int64(host))
		for _, agent := range all.Nearest(nil, link.HostKey(name), len(agents)) {
			s.ranks[host] = append(s.ranks[host], numbers[agent.Name])
		}
	}
	return s.ranks
}

// isSafe says whether the others have two copies again of all that the actor had when it went
// down, and the actor has all that happened meanwhile, if it is back. The promise is that they
// have when each has written "shipped-whole".
func (a *actor) isSafe() bool {
	if a.down.IsZero() {
		return true
	}
	if !a.up.IsZero() && time.Since(a.up) < replicatedAfter {
		return false
	}
	for other, from := range a.marks {
		if b := other.events(); other.lives() && !bytes.Contains(b[min(from, len(b)):], []byte(`"shipped-whole"`)) {
			return false
		}
	}
	return true
}

// mark notes where the events of the others end.
func (a *actor) mark() {
	a.marks = map[*actor]int{}
	for _, other := range a.s.actors {
		if other != a && other.lives() {
			a.marks[other] = len(other.events())
		}
	}
}

// events returns the actor's file of events.
func (a *actor) events() []byte {
	if a.mem == nil { // it never joined
		return nil
	}
	b, err := disk.ReadFile(a.mem, crawlDir+"/logs/events.jsonl", 1<<30)
	if err != nil {
		return nil
	}
	return b
}

// agentEvents returns the events of all agents in order, one in a line. Those on lost disks are not
// among them.
func (s *story) agentEvents() []string {
	type event struct {
		at   time.Time
		line string
	}
	var all []event
	for _, a := range s.actors {
		for line := range bytes.Lines(a.events()) {
			var e struct{ Time time.Time }
			if json.Unmarshal(line, &e) != nil {
				continue // the last line of an agent that was killed
			}
			text := fmt.Sprintf("%10.3fs  %s  %s", e.Time.Sub(start).Seconds(), a.name, bytes.TrimSpace(line))
			all = append(all, event{e.Time, text})
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.at.Compare(b.at) })
	var lines []string
	for _, e := range all {
		lines = append(lines, e.line)
	}
	return lines
}

// comesUp notes that the actor starts again.
func (a *actor) comesUp() {
	a.up = time.Now()
	a.wasAway()
	a.mark()
}

// goesDown notes that the actor goes down now. Of its disk, what it has written since links is
// lost; zero: nothing. What is known of a host may be lost if all copies go down together: those
// of the owner and of its heirs.
func (a *actor) goesDown(links time.Time) {
	s, now := a.s, time.Now()
	old := !links.IsZero() && links.After(start)
	if !a.isSafe() && !a.links.IsZero() && (links.IsZero() || a.links.Before(links)) {
		links = a.links // it lacked something already
	}
	a.links = links
	down := map[int]*actor{a.number: a}
	var views, may []*actor // in all views of the cluster, and in some
	for _, other := range s.actors {
		switch {
		case other != a && !other.isSafe():
			down[other.number] = other
			may = append(may, other)
			s.log("%s goes down while %s is down, or just back", a.name, other.name)
		case !other.lives():
		case other != a && other.newcomer && time.Since(other.run.began) < replicatedAfter || other.leaving:
			may = append(may, other)
		default:
			views = append(views, other)
		}
	}
	if !slices.Contains(views, a) {
		views = append(views, a)
	}
	if slices.ContainsFunc(s.actors, func(o *actor) bool {
		return o != a && !o.down.IsZero() && (o.up.IsZero() || now.Sub(o.down) < s.notices())
	}) { // the others wait for the return of the second agent that goes down
		s.bad = append(s.bad, excuse{from: now, to: now.Add(secondWait)})
	}
	a.down, a.up, a.untold = now, time.Time{}, a.separatedSince()
	a.mark()
	copies := s.plan.Replicas
	leaves := slices.ContainsFunc(s.actors, func(o *actor) bool { return o.leaving })
	if !links.IsZero() || leaves { // it is away with its disk, and may be the only agent that stays
		stay := 0
		for _, o := range slices.Concat(views, may) {
			if !o.leaving {
				stay++
			}
		}
		copies = min(copies, stay)
	}
	if s.plan.alone() || len(down) < copies && !old {
		return
	}
	lost := 0
	for host := range s.rank() {
		l, is := s.lossOf(host, s.plan.Replicas, a, down, views, may)
		if is {
			s.judge.lost(int64(host), loss{now, true, l})
			lost++
		}
		if old { // a restored owner does not ask its heirs
			if l, is := s.lossOf(host, 1, a, down, views, may); is {
				s.judge.lost(int64(host), loss{now, false, l})
			}
		}
	}
	s.log("all copies of %d hosts may be lost", lost)
}

// lossOf says whether the first copies of what is known of a host go down with a, in any order of owners that the host
// may have.
func (s *story) lossOf(host, copies int, a *actor, down map[int]*actor, views, may []*actor) (links time.Time,
	is bool) {
	for _, order := range s.ownerOrders(host) {
		if l, lost := lossOf(order, copies, a, down, views, may); lost {
			if !l.IsZero() && (links.IsZero() || l.Before(links)) {
				links = l
			}
			is = true
		}
	}
	return links, is
}

// lossOf says whether the first copies of what is known of a host, with an order of owners, go
// down with a. Links to the host that were accepted from links on are lost; zero: none.
func lossOf(order []int, copies int, a *actor, down map[int]*actor, views, may []*actor) (links time.Time, is bool) {
	for some := range 1 << len(may) {
		in := map[int]bool{}
		for _, m := range views {
			in[m.number] = true
		}
		for i, m := range may {
			in[m.number] = some>>i&1 == 1
		}
		var since time.Time
		n, alive, own, kept := 0, false, false, false
		for _, number := range order {
			if !in[number] || n == copies {
				continue
			}
			n++
			d := down[number]
			if d == nil {
				alive = true
				break
			}
			own = own || d == a
			kept = kept || d.links.IsZero()
			since = later(since, d.links)
		}
		if alive || !own {
			continue
		}
		if is = true; !kept && (links.IsZero() || since.Before(links)) {
			links = since
		}
	}
	return links, is
}
