package shares

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// A party is a cluster in which the test moves the time. Each agent asks every Every; calls take time, and may get
// lost on their way or on the way back.
type party struct {
	r      *rand.Rand
	now    time.Time
	agents map[string]*agent
	calls  []call
	loss   float64
	delay  time.Duration // at most, one way
}

type agent struct {
	name    string
	boot    uint64
	holder  Holder
	grantor *Grantor
	view    []string
	want    float64
	next    time.Time // of its next question
	waits   bool      // for an answer
	gives   time.Time // when it gives up waiting
	dead    bool
	skew    float64 // the speed of its clock
	epoch   time.Time
	ran     time.Duration
}

// clock returns the time by the agent's clock.
func (a *agent) clock() time.Time { return a.epoch.Add(a.ran) }

type call struct {
	at       time.Time
	from, to *agent
	boot     uint64
	ask      Ask
	answer   *Grant
	sent     time.Time
	seq      uint64
}

func newParty(r *rand.Rand, n int) *party {
	p := &party{r: r, now: time.Unix(1e9, 0), agents: map[string]*agent{}, delay: 5 * time.Millisecond}
	for i := range n {
		p.join(fmt.Sprintf("a%d", i+1))
	}
	p.see()
	return p
}

func (p *party) join(name string) *agent {
	a := &agent{name: name, boot: 1, want: 1, next: p.now, epoch: time.Unix(p.r.Int64N(1e9), 0),
		skew: 0.99 + 0.02*p.r.Float64()}
	if was := p.agents[name]; was != nil {
		a.boot = was.boot + 1
	}
	p.agents[name] = a
	return a
}

// alive returns the names of the agents that live.
func (p *party) alive() (names []string) {
	for name, a := range p.agents {
		if !a.dead {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// see gives all agents the right view.
func (p *party) see() {
	for _, a := range p.agents {
		a.view = p.alive()
	}
}

// grantorOf returns the agent that divides the rate in the view of a.
func (p *party) grantorOf(a *agent) string { return a.view[0] }

const step = 5 * time.Millisecond

// run lets time pass. check is called after each step.
func (p *party) run(d time.Duration, check func()) {
	for end := p.now.Add(d); p.now.Before(end); p.now = p.now.Add(step) {
		for _, name := range slices.Sorted(keysOf(p.agents)) {
			a := p.agents[name]
			a.ran += time.Duration(float64(step) * a.skew)
			if a.dead {
				continue
			}
			if a.waits && !p.now.Before(a.gives) {
				a.waits = false
			}
			if !a.waits && !p.now.Before(a.next) {
				p.ask(a)
			}
		}
		for i := 0; i < len(p.calls); i++ {
			if c := p.calls[i]; !p.now.Before(c.at) {
				p.calls = slices.Delete(p.calls, i, i+1)
				i--
				p.deliver(c)
			}
		}
		check()
	}
}

func keysOf(m map[string]*agent) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func (p *party) later() time.Time { return p.now.Add(time.Duration(p.r.Int64N(int64(p.delay) + 1))) }

func (p *party) ask(a *agent) {
	a.next = p.now.Add(Every)
	q := a.holder.Ask(a.want, a.clock())
	to := p.agents[p.grantorOf(a)]
	if to == a {
		if a.grantor == nil {
			a.grantor = NewGrantor(a.name)
		}
		if g, ok := a.grantor.Answer(a.name, a.boot, q, a.view, a.clock()); ok {
			a.holder.Take(g, a.grantor.Sent(a.view, a.clock()))
		}
		return
	}
	a.grantor = nil
	a.waits, a.gives = true, p.now.Add(time.Second)
	if p.r.Float64() >= p.loss {
		p.calls = append(p.calls, call{at: p.later(), from: a, to: to, boot: a.boot, ask: q, sent: a.clock(),
			seq: q.Seq})
	}
}

func (p *party) deliver(c call) {
	if c.answer != nil {
		if a := c.from; !a.dead && a.waits && a.holder.seq == c.seq {
			a.waits = false
			if a.holder.Take(*c.answer, c.sent) {
				a.next = p.now
			}
		}
		return
	}
	to := c.to
	if to.dead || p.grantorOf(to) != to.name {
		return
	}
	if to.grantor == nil {
		to.grantor = NewGrantor(to.name)
	}
	if g, ok := to.grantor.Answer(c.from.name, c.boot, c.ask, to.view, to.clock()); ok && p.r.Float64() >= p.loss {
		c.answer, c.at = &g, p.later()
		p.calls = append(p.calls, c)
	}
}

// sum returns the shares of all agents that live.
func (p *party) sum() (sum float64) {
	for _, a := range p.agents {
		if !a.dead {
			sum += a.holder.Share(a.clock())
		}
	}
	return sum
}

func (p *party) expect(t *testing.T, want map[string]float64) {
	t.Helper()
	for name, w := range want {
		a := p.agents[name]
		if got := a.holder.Share(a.clock()); math.Abs(got-w) > 0.011 {
			t.Errorf("%s has %.3f, want %.3f", name, got, w)
		}
	}
}

func (p *party) never(t *testing.T) func() {
	return func() {
		if sum := p.sum(); sum > 1+1e-9 {
			t.Helper()
			t.Fatalf("the shares sum to %.3f", sum)
		}
	}
}

// Shares follow what the agents could use. The whole rate is given out, and never more.
func TestDivision(t *testing.T) {
	p := newParty(testseed.Rand(t), 4)
	never := p.never(t)
	p.run(time.Second, never)
	p.expect(t, map[string]float64{"a1": 0.25, "a2": 0.25, "a3": 0.25, "a4": 0.25})

	p.agents["a4"].want, p.agents["a1"].want = 0, 0.1
	p.run(time.Second, never)
	p.expect(t, map[string]float64{"a1": 0.1, "a2": 0.45, "a3": 0.45, "a4": 0})

	p.agents["a2"].want, p.agents["a3"].want = 0.1, 0.1 // all have what they want
	p.run(time.Second, never)
	p.expect(t, map[string]float64{"a1": 0.33, "a2": 0.33, "a3": 0.33, "a4": 0.015})

	for _, a := range p.agents {
		a.want = 1
	}
	p.run(time.Second, never)
	p.expect(t, map[string]float64{"a1": 0.25, "a2": 0.25, "a3": 0.25, "a4": 0.25})

	a5 := p.join("a5")
	p.see()
	p.run(time.Second, never)
	p.expect(t, map[string]float64{"a1": 0.2, "a5": 0.2})

	a5.want = 0
	p.run(time.Second, never)
	a5.dead = true // it has given its share back
	p.see()
	p.run(time.Second, never)
	p.expect(t, map[string]float64{"a1": 0.25, "a2": 0.25, "a3": 0.25, "a4": 0.25})
}

// If an agent dies, the others use its share from the time at which it ends: after Term, also if the grantor has died.
func TestDeath(t *testing.T) {
	for _, dies := range []string{"a1", "a3"} { // a1 divides the rate
		p := newParty(testseed.Rand(t), 4)
		p.run(2*time.Second, p.never(t))
		p.agents[dies].dead = true
		p.run(time.Second, p.never(t))
		if sum := p.sum(); math.Abs(sum-0.75) > 0.01 {
			t.Errorf("the others have %.3f after a death", sum)
		}
		p.run(5*time.Second, p.never(t))
		p.see() // the failure detector needs 4 to 8 s
		p.run(time.Second, p.never(t))
		if sum := p.sum(); math.Abs(sum-1) > 0.001 {
			t.Errorf("the others have %.3f 7 s after the death of %s", sum, dies)
		}
	}
}

// An agent alone has everything at once.
func TestAlone(t *testing.T) {
	p := newParty(testseed.Rand(t), 1)
	p.run(step, p.never(t))
	p.expect(t, map[string]float64{"a1": 1})
}

// While agents join, die and come back, views differ, and calls get lost, the shares never sum above one. Two seconds
// after all agents agree, everything is given out.
func TestRandom(t *testing.T) {
	r := testseed.Rand(t)
	for range 40 {
		p := newParty(r, 1+r.IntN(6))
		p.loss = []float64{0, 0.1, 0.3}[r.IntN(3)]
		p.delay = []time.Duration{0, 5 * time.Millisecond, 300 * time.Millisecond}[r.IntN(3)]
		never := p.never(t)
		type change struct {
			at   time.Time
			what func()
		}
		var changes []change // of views, within Settle
		dirty := func() {
			for _, a := range p.agents {
				changes = append(changes, change{p.now.Add(time.Duration(r.Int64N(int64(Settle)))), func() {
					a.view = p.alive()
				}})
			}
		}
		check := func() {
			never()
			for i := 0; i < len(changes); i++ {
				if c := changes[i]; !p.now.Before(c.at) {
					changes = slices.Delete(changes, i, i+1)
					i--
					c.what()
				}
			}
		}
		for range 12 {
			switch names := p.alive(); r.IntN(5) {
			case 0:
				if len(names) < 8 {
					a := p.join(fmt.Sprintf("a%d", 1+r.IntN(9)))
					if slices.Contains(names, a.name) { // it was running: the old life ends
						a.view = names
					} else {
						a.view = p.alive()
					}
					dirty()
				}
			case 1:
				if len(names) > 1 {
					p.agents[names[r.IntN(len(names))]].dead = true
					p.run(4*time.Second+time.Duration(r.Int64N(int64(2*time.Second))), check) // until it is noticed
					dirty()
				}
			default:
				p.agents[names[r.IntN(len(names))]].want = float64(r.IntN(3)) / 2
			}
			p.run(time.Duration(r.Int64N(int64(10*time.Second))), check)
		}
		for _, a := range p.agents {
			a.want = 1
		}
		p.loss, p.delay = 0, 0
		p.run(Settle, check)
		p.run(Term+Settle+2*time.Second, check)
		if sum := p.sum(); sum < 0.999 {
			t.Errorf("%d agents have %.3f in the end", len(p.alive()), sum)
		}
	}
}

// A question that arrives late, after a newer one, changes nothing.
func TestOldQuestion(t *testing.T) {
	now := time.Unix(1e9, 0)
	g, there := NewGrantor("a1"), []string{"a1", "a2"}
	for name, seq := range map[string]uint64{"a1": 1, "a2": 5} {
		if _, ok := g.Answer(name, 1, Ask{Seq: seq, Want: 1}, there, now); !ok {
			t.Errorf("%s was refused", name)
		}
	}
	for _, c := range []struct {
		boot, seq uint64
		want      bool
	}{{1, 5, false}, {1, 4, false}, {1, 6, true}, {2, 1, true}, {1, 7, false}} {
		if _, ok := g.Answer("a2", c.boot, Ask{Seq: c.seq}, there, now); ok != c.want {
			t.Errorf("boot %d, question %d: %v, want %v", c.boot, c.seq, ok, c.want)
		}
	}
}
