package lease

import (
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// A world is a cluster with a true time, which no agent knows.
type world struct {
	t     testing.TB
	rand  *rand.Rand
	cfg   Config
	now   time.Duration // true
	queue events
	seq   int

	agents  []*agent // by place; nil: dead
	lives   int
	members []AgentID // the agents in the others' views
	quiet   func(point uint64) time.Duration
	points  map[uint64]*judged
	// troubled are the agents that are missing, or soon will be, from the others' views.
	troubled map[AgentID]bool
	// over are the agents that have announced that they are gone, or have been restarted.
	over map[AgentID]bool
	// sides has the side of each agent while the network is divided, and until requests of both sides
	// keep their distance again; nil: it is not divided. If healed, messages pass.
	sides  map[AgentID]int
	healed bool

	struck func() // called before trouble strikes an agent; may be nil

	delay, loss, twice float64 // seconds; shares
	rates              float64
	few                bool // few agents grant all points
	calls, answers     int  // number of messages
	bytes              int
	pages              int
	cut                int
	surveys            int           // number of complete surveys
	dead               bool          // a violation was found
	lag                time.Duration // views differ for longer than assumed, so violations are expected
}

// An agent is one run of an agent.
type agent struct {
	w        *world
	id       AgentID
	place    int
	peer     *Peer
	born     time.Duration
	rate     float64
	offset   time.Duration
	stopped  bool
	idle     bool // it begins no more requests
	gone     bool
	back     bool                      // it is a restart, and knows all others
	heard    map[AgentID]time.Duration // true times
	seen     map[AgentID]bool          // agents of its views
	lacks    map[AgentID]bool          // members that are not in its view, because they are on the other side
	view     *picture
	wake     time.Duration // when it hurries
	surveyed time.Duration // end of its last survey
	inbox    []func()      // messages that wait while it is stopped
	uses     map[int]*use
	nextUse  int
}

type use struct {
	points []uint64
	over   func(cut bool) func()
}

// judged is a point as the web sees it.
type judged struct {
	user    *agent
	ended   time.Duration
	last    AgentID
	begins  int
	byPlace map[int]int
	changes int
	sides   []*judged // of the sides of a divided network
}

type picture struct {
	members []AgentID
	over    map[AgentID]bool
	silent  map[AgentID]time.Duration
	missing bool
	fresh   map[AgentID]bool
	few     bool   // few agents grant all points
	digest  uint64 // 0: not computed yet
}

// fnv adds the bytes of x to an FNV-1a hash.
func fnv(h, x uint64) uint64 {
	for shift := 56; shift >= 0; shift -= 8 {
		h = (h ^ x>>shift&0xff) * 1099511628211
	}
	return h
}

const fnvStart = 14695981039346656037

func (v *picture) Owner(point uint64) (best AgentID) {
	if v.few {
		point = FewGrantors(point)
	}
	var most uint64
	for _, a := range v.members {
		x := fnv(fnv(fnvStart, uint64(a)*0x9e3779b97f4a7c15), point*0xbf58476d1ce4e5b9)
		x ^= x >> 29
		x *= 0x94d049bb133111eb
		if x ^= x >> 32; best == 0 || x > most {
			best, most = a, x
		}
	}
	return best
}

func (v *picture) Digest() uint64 {
	if v.digest == 0 {
		v.digest = fnvStart
		for _, a := range v.members {
			v.digest = fnv(v.digest, uint64(a))
		}
	}
	return v.digest
}

func (v *picture) Has(a AgentID) bool   { return slices.Contains(v.members, a) }
func (v *picture) Len() int             { return len(v.members) }
func (v *picture) Agents() []AgentID    { return v.members }
func (v *picture) Over(a AgentID) bool  { return v.over[a] }
func (v *picture) Missing() bool        { return v.missing }
func (v *picture) Fresh(a AgentID) bool { return v.fresh[a] }

func (v *picture) Silent(a AgentID) time.Duration { return v.silent[a] }

type event struct {
	at  time.Duration
	seq int
	do  func()
}
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any     { x := (*e)[len(*e)-1]; *e = (*e)[:len(*e)-1]; return x }

func newWorld(t testing.TB, seed uint64, n int, cfg Config) *world {
	testtier.OneGoroutine(t)
	w := &world{
		t: t, rand: rand.New(rand.NewPCG(seed, 1)), cfg: cfg.withDefaults(),
		points: map[uint64]*judged{}, troubled: map[AgentID]bool{}, over: map[AgentID]bool{}, rates: 0.005, delay: 0.02,
		quiet: func(uint64) time.Duration { return 2 * time.Second },
	}
	for range n {
		w.agents = append(w.agents, nil)
	}
	for i := range n {
		w.start(i)
	}
	for _, a := range w.agents {
		a.look()
	}
	return w
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, event{w.now + d, w.seq, do})
}

func (w *world) within(d time.Duration) time.Duration {
	return time.Duration(w.rand.Float64() * float64(d))
}

func (w *world) chance(p float64) bool { return w.rand.Float64() < p }

func (w *world) run(until time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= until && !w.dead {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		e.do()
	}
	if !w.dead {
		w.now = until
	}
}

// start starts a new agent at a place.
func (w *world) start(place int) *agent {
	w.lives++
	a := &agent{w: w, id: AgentID(w.lives), place: place, born: w.now, uses: map[int]*use{},
		heard: map[AgentID]time.Duration{}, seen: map[AgentID]bool{}}
	a.rate = 1 + (2*w.rand.Float64()-1)*w.rates
	a.offset = time.Duration((2*w.rand.Float64() - 1) * float64(time.Hour))
	a.peer = New(a.id, w.cfg, a.clock())
	w.agents[place] = a
	w.members = append(slices.Clone(w.members), a.id)
	w.after(w.within(w.cfg.Every), a.tick)
	w.after(w.within(time.Second), a.ping)
	return a
}

// resume starts an agent at a place, in the crawl directory of an earlier one that has ended.
func (w *world) resume(place int, earlier *agent) *agent {
	w.over[earlier.id] = true
	w.members = slices.DeleteFunc(slices.Clone(w.members), func(m AgentID) bool { return m == earlier.id })
	a := w.start(place)
	a.back = true
	a.look()
	w.viewed()
	return a
}

// missing reports whether an earlier agent is absent from the view m.
func (w *world) missing(m []AgentID) bool {
	return slices.ContainsFunc(w.agents, func(a *agent) bool { return a == nil || !slices.Contains(m, a.id) })
}

// clock returns the agent's own time.
func (a *agent) clock() time.Time {
	return time.Unix(1e9, 0).Add(a.offset + time.Duration(float64(a.w.now-a.born)*a.rate))
}

// runs reports whether the agent begins requests.
func (a *agent) runs() bool { return !a.stopped && !a.idle && a.view != nil }

// do runs f on the agent, or later if the agent is stopped.
func (a *agent) do(f func()) {
	switch {
	case a.gone:
	case a.stopped:
		a.inbox = append(a.inbox, f)
	default:
		f()
	}
}

func (a *agent) look() {
	m := slices.DeleteFunc(slices.Clone(a.w.members), func(o AgentID) bool { return a.lacks[o] })
	if !slices.Contains(m, a.id) {
		m = append(m, a.id)
	}
	slices.Sort(m)
	silent := map[AgentID]time.Duration{}
	for o, at := range a.heard {
		silent[o] = time.Duration(float64(a.w.now-at) * a.rate)
	}
	fresh := map[AgentID]bool{}
	for _, o := range m {
		fresh[o], a.seen[o] = !a.seen[o], true
	}
	a.view = &picture{members: m, over: maps.Clone(a.w.over), silent: silent,
		missing: a.back && a.w.missing(m), fresh: fresh, few: a.w.few}
	a.peer.Look(a.view, a.clock())
}

// viewed tells all agents about a change of the members.
func (w *world) viewed() {
	for _, a := range w.agents {
		if a != nil {
			w.after(w.within(max(w.cfg.Settle*9/10, w.lag)), func() { a.do(a.look) })
		}
	}
}

// part makes a end in an orderly way: it ends its requests, and announces that it is gone. If
// wordless, the others do not hear that.
func (w *world) part(a *agent, wordless bool) {
	w.troubled[a.id] = true
	a.idle = true
	var wait func()
	wait = func() {
		a.do(func() {
			if len(a.uses) > 0 {
				w.after(100*time.Millisecond, wait)
				return
			}
			a.gone = true
			w.over[a.id] = !wordless
			w.agents[a.place] = nil
			w.leave(a.id)
		})
	}
	wait()
}

func (w *world) leave(id AgentID) {
	w.members = slices.DeleteFunc(slices.Clone(w.members), func(m AgentID) bool { return m == id })
	w.viewed()
}

func (w *world) enter(id AgentID) {
	delete(w.troubled, id)
	if !slices.Contains(w.members, id) {
		w.members = append(slices.Clone(w.members), id)
		w.viewed()
	}
}

func (a *agent) ping() {
	w := a.w
	if a.gone {
		return
	}
	w.after(time.Second, a.ping)
	if a.stopped || a.view == nil || len(a.view.members) < 2 {
		return
	}
	id := a.view.members[w.rand.IntN(len(a.view.members))]
	for id == a.id {
		id = a.view.members[w.rand.IntN(len(a.view.members))]
	}
	i := slices.IndexFunc(w.agents, func(o *agent) bool { return o != nil && o.id == id })
	if i < 0 || w.apart(a.id, id) || w.agents[i].stopped || w.agents[i].view == nil || w.chance(w.loss) {
		return
	}
	o := w.agents[i]
	sent := a.clock()
	w.after(w.trip(), func() {
		o.heard[a.id] = w.now
		if o.stopped || a.view.Digest() != o.view.Digest() {
			return
		}
		theirs := o.view
		w.after(w.trip(), func() {
			a.do(func() {
				if a.view.Digest() == theirs.Digest() {
					a.peer.Contact(sent, a.clock())
				}
			})
		})
	})
}

// trip returns how long a message takes.
func (w *world) trip() time.Duration {
	d := w.within(time.Duration(2 * w.delay * float64(time.Second)))
	if w.twice > 0 && w.chance(0.05) {
		d += w.within(20 * time.Second)
	}
	return d
}

// send delivers a message to its receiver. It may lose the message or deliver it twice.
func (w *world) send(b *Batch, to AgentID, got func(o *agent, b *Batch)) {
	raw := b.AppendTo(nil)
	w.bytes += len(raw)
	n := 1
	if w.chance(w.twice) {
		n = 2
	}
	for range n {
		if w.chance(w.loss) {
			continue
		}
		w.after(w.trip(), func() {
			for _, o := range w.agents {
				if o != nil && o.id == to && !w.apart(b.From, to) {
					o.do(func() {
						b, err := ParseBatch(raw)
						if err != nil {
							w.t.Fatalf("parse: %v", err)
						}
						got(o, b)
					})
				}
			}
		})
	}
}

func (a *agent) tick() {
	if a.gone {
		return
	}
	a.w.after(time.Duration(float64(a.w.cfg.Every)*(0.9+0.2*a.w.rand.Float64())), a.tick)
	if a.stopped || a.view == nil {
		return
	}
	for _, p := range a.peer.Lost(a.clock()) {
		a.cutOff(p)
	}
	a.exchange()
}

func (a *agent) exchange() { a.send(a.peer.Calls(a.clock())) }

func (a *agent) hurry() { a.send(a.peer.Hurry(a.clock())) }

func (a *agent) send(calls []*Batch) {
	if d := a.peer.Wake(); d > 0 && (a.wake < a.w.now || a.wake > a.w.now+d) {
		a.wake = a.w.now + d
		a.w.after(d, func() {
			if !a.gone && !a.stopped {
				a.hurry()
			}
		})
	}
	if cs := a.peer.grantor.changes; len(cs) > 0 && cs[len(cs)-1].known > a.surveyed {
		a.surveyed = cs[len(cs)-1].known
		a.w.surveys++
	}
	for _, b := range calls {
		a.w.calls++
		a.w.send(b, b.To, func(o *agent, got *Batch) {
			if o.view == nil {
				return
			}
			ans, err := o.peer.Serve(got, o.clock())
			if err != nil {
				if !a.w.chance(a.w.loss) { // the answer is an error
					a.w.after(a.w.trip(), func() { a.do(func() { a.peer.Failed(b, a.clock()) }) })
				}
				return
			}
			a.w.answers++
			o.send(o.peer.Hurry(o.clock()))
			a.w.send(ans, a.id, func(_ *agent, got *Batch) {
				if err := a.peer.Answered(got, a.clock()); err != nil {
					a.w.t.Errorf("answered: %v", err)
				}
				a.send(a.peer.Hurry(a.clock()))
			})
		})
	}
}

func (w *world) judged(p uint64) *judged {
	j := w.points[p]
	if j == nil {
		j = &judged{ended: -time.Hour, byPlace: map[int]int{}}
		w.points[p] = j
		w.divide(j)
	}
	return j
}

// try begins a page at points for d if a may, and reports whether it did.
func (a *agent) try(d time.Duration, points ...uint64) bool {
	w := a.w
	ok := true
	for _, p := range points {
		yes, _ := a.peer.Ready(p, w.quiet(p), a.clock())
		ok = ok && yes
	}
	if !ok || !a.peer.Begin(a.clock(), points...) {
		return false
	}
	a.begin(d, points, nil)
	return true
}

// begin begins a page at points for d. over, if not nil, is called at its end, and what it returns when the agent
// notices.
func (a *agent) begin(d time.Duration, points []uint64, over func(cut bool) func()) {
	w := a.w
	w.pages++
	for _, p := range points {
		j := w.judged(p)
		if w.sides != nil {
			j = j.sides[w.sides[a.id]]
		}
		if j.user != nil {
			w.violation("point %d: agent %d begins while %d uses it", p, a.id, j.user.id)
		}
		if gap, least := w.now-j.ended, time.Duration(float64(w.quiet(p))/(1+w.rates))-time.Microsecond; gap < least {
			w.violation("point %d: agent %d begins %v after the end of %d's, not %v", p, a.id, gap, j.last, least)
		}
		if j.last != a.id {
			j.changes++
		}
		j.user, j.last = a, a.id
		j.begins++
		j.byPlace[a.place]++
	}
	a.nextUse++
	id := a.nextUse
	a.uses[id] = &use{points, over}
	w.after(d, func() { a.finish(id, false) })
}

func (w *world) violation(format string, args ...any) {
	w.dead = true
	if w.lag > 0 {
		return
	}
	w.t.Errorf("at %v: %s", w.now, fmt.Sprintf(format, args...))
}

// finish ends a response. The agent notices it when it is not stopped.
func (a *agent) finish(id int, cut bool) {
	u := a.uses[id]
	if u == nil {
		return
	}
	delete(a.uses, id)
	for _, p := range u.points {
		for _, j := range append(a.w.judged(p).sides, a.w.judged(p)) {
			if j.user == a {
				j.user, j.ended = nil, a.w.now
			}
		}
	}
	noted := func() {}
	if u.over != nil {
		noted = u.over(cut)
	}
	end := a.clock()
	a.do(func() {
		noted()
		for _, p := range u.points {
			a.peer.Used(p, end, a.w.quiet(p), true, a.clock())
		}
	})
}

func (a *agent) cutOff(point uint64) {
	for id, u := range a.uses {
		if slices.Contains(u.points, point) {
			a.w.cut++
			a.finish(id, true)
			return
		}
	}
}

func (w *world) kill(a *agent) {
	a.gone, w.troubled[a.id] = true, true
	w.agents[a.place] = nil
	for id := range a.uses {
		a.finish(id, true)
	}
	w.after(time.Second+w.within(6*time.Second), func() { w.leave(a.id) })
}

// stop stops a for d, like SIGSTOP.
func (w *world) stop(a *agent, d time.Duration) {
	a.stopped, w.troubled[a.id] = true, true
	if d > 5*time.Second {
		w.after(3*time.Second+w.within(2*time.Second), func() { w.leave(a.id) })
	}
	w.after(d, func() {
		a.stopped = false
		w.rand.Shuffle(len(a.inbox), func(i, j int) { a.inbox[i], a.inbox[j] = a.inbox[j], a.inbox[i] })
		for _, f := range a.inbox {
			a.do(f)
		}
		a.inbox = nil
		w.after(w.within(2*time.Second), func() {
			if !a.gone {
				w.enter(a.id)
			}
		})
	})
}

// suspect removes a living agent from the views for d.
func (w *world) suspect(a *agent, d time.Duration) {
	w.troubled[a.id] = true
	w.leave(a.id)
	w.after(d, func() {
		if !a.gone {
			w.enter(a.id)
		}
	})
}
