package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A replacement lists the events around the loss of one of three machines with its
// disk. An event happens at a random time between its two bounds, in seconds from
// the loss. The other agents notice the loss after 4 to 8 s, each at its own time.
type replacement struct {
	name  string
	joins [][2]float64 // new agents, with new names
	same  *[2]float64  // an agent with the lost one's name, admitted once the agent that it asks has noticed the loss
	kill  *[2]float64  // another agent is killed, and restarts before the others notice
	stop  *[2]float64  // another agent is stopped by a signal, and resumed
	naive bool         // after its restart the killed agent does not know the lost one
}

var replacements = []replacement{
	{name: "no agent joins"},
	{name: "before the loss is noticed", joins: [][2]float64{{1, 4}}},
	{name: "while it is noticed", joins: [][2]float64{{4, 8.5}}},
	{name: "while it is taken over", joins: [][2]float64{{8, 9}}},
	{name: "just before the loss", joins: [][2]float64{{-2, 0}}},
	{name: "two", joins: [][2]float64{{0.5, 4}, {0.5, 8}}},
	{name: "three", joins: [][2]float64{{-1, 4}, {0.5, 6}, {4, 9}}},
	{name: "same name", same: &[2]float64{0.5, 4}},
	{name: "same name at an agent that was killed", same: &[2]float64{0.5, 4}, kill: &[2]float64{0.2, 3}, naive: true},
	{name: "an heir is killed", joins: [][2]float64{{1, 6}}, kill: &[2]float64{2, 9}},
	{name: "an heir is killed, same name", same: &[2]float64{1, 4}, kill: &[2]float64{4, 9}},
	{name: "an heir is stopped", joins: [][2]float64{{1, 6}}, stop: &[2]float64{2, 9}},
	{name: "an heir is stopped, same name", same: &[2]float64{1, 4}, stop: &[2]float64{4, 12}},
	{name: "an heir is killed, two come", joins: [][2]float64{{-1, 3}, {5, 9}}, kill: &[2]float64{3, 9}},
}

// TestReplaced loses one of three machines while other agents join, stop and
// restart. In each order no page is missed. A page is fetched again only if no
// other agent knew that it was fetched.
func TestReplaced(t *testing.T) {
	for i, r := range replacements {
		t.Run(strings.ReplaceAll(r.name, " ", "-"), func(t *testing.T) {
			models(t, 4, func(t *testing.T, seed uint64) {
				r.play(t, seed, fate{moves: true, harsh: (seed+uint64(i))%2 == 1})
			})
		})
	}
}

func (r replacement) play(t *testing.T, seed uint64, f fate) {
	rng := rand.New(rand.NewPCG(seed, 31))
	web := textweb.NewRandom(rng, 90, true)
	b := &band{t: t, Diary: textweb.NewDiary(textweb.Parse(t, web.Text), seed, 32), harsh: f.harsh,
		acked: map[string]map[weburl.Key][]time.Duration{}}
	for i := range 3 {
		b.enlist(rng, seed, fmt.Sprint("a", i), f).view.Store(&roster{names: "a0 a1 a2", ring: onRing(seed)})
	}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, %+v\n%s\n%s\n%s", seed, r, web.Text, b.Log.String(), b.Web.ByAgent())
		}
	}()
	for _, m := range b.all() {
		m.frontier.SlowMax = 5 * time.Second
		m.open()
	}
	time.Sleep(3*time.Second + time.Duration(rng.IntN(3000))*time.Millisecond)
	b.calm()
	start := time.Now()
	const before = 3 * time.Second // events start this long before the loss
	until := func(span [2]float64) time.Duration {
		at := span[0] + rng.Float64()*(span[1]-span[0])
		return before + time.Duration(at*float64(time.Second)) - time.Since(start)
	}
	perm := rng.Perm(3)
	lost, other := b.all()[perm[0]], b.all()[perm[1]]
	// Each agent notices the loss at its own time, but an agent that has joined since does so only
	// after joining.
	notices := map[*mate]time.Duration{}
	first := before + 4*time.Second + time.Duration(rng.IntN(2500))*time.Millisecond
	for _, m := range b.all() {
		notices[m] = first + time.Duration(rng.IntN(1500))*time.Millisecond
	}
	var all sync.WaitGroup
	at := func(wait time.Duration, do func()) {
		all.Go(func() { time.Sleep(wait); do() })
	}
	at(before, func() {
		lost.end(pause{kill: true})
		lost.dead, lost.mem = true, nil
	})
	var mu sync.Mutex // guards notices
	notice := func(m *mate) {
		mu.Lock()
		wait := notices[m] - time.Since(start)
		mu.Unlock()
		at(wait, func() {
			if m.change(); m.view.Load().has(lost) {
				m.losesFor(lost, 0)
			}
			m.changed()
		})
	}
	for _, m := range b.all() {
		if m != lost {
			notice(m)
		}
	}
	come := func(wait time.Duration, name string) {
		m := b.enlist(rng, seed, name, f)
		m.late, m.frontier.SlowMax = true, 5*time.Second
		mu.Lock()
		notices[m] = first + time.Duration(rng.IntN(1500))*time.Millisecond
		mu.Unlock()
		by := b.all()[perm[1+rng.IntN(2)]]
		at(wait, func() {
			// the agent is refused, or gets no answer
			for slices.Contains(strings.Fields(by.view.Load().names), name) || by.w.Load() == nil {
				time.Sleep(200 * time.Millisecond)
			}
			m.view.Store(by.view.Load().with(m))
			m.open()
			notice(m)
			for _, o := range b.all() {
				if o != m && o != lost && o.view.Load() != nil {
					at(time.Duration(b.Roll(1500))*time.Millisecond, func() { o.meets(m) })
					at(time.Duration(b.Roll(1500))*time.Millisecond, func() { m.meets(o) })
				}
			}
		})
	}
	for i, span := range r.joins {
		come(until(span), fmt.Sprint("a", 3+i))
	}
	if r.same != nil {
		come(until(*r.same), lost.name)
	}
	if r.kill != nil {
		gap := time.Duration(200+rng.IntN(2500)) * time.Millisecond
		at(until(*r.kill), func() {
			other.change()
			defer other.changed()
			other.end(pause{kill: true})
			time.Sleep(gap)
			if r.naive && other.view.Load().has(lost) {
				other.view.Store(other.view.Load().without(lost.name))
			}
			other.open()
		})
	}
	if r.stop != nil {
		gap := time.Duration(200+rng.IntN(2500)) * time.Millisecond
		at(until(*r.stop), func() {
			other.change()
			defer other.changed()
			other.end(pause{})
			grace := 5 * time.Second // leaveGrace of package node
			if time.Since(start) > before {
				grace = 20 * time.Second // awayGrace of package node
			}
			var heard sync.WaitGroup
			for _, o := range b.all() {
				if o == other || o.view.Load() == nil || o.dead {
					continue
				}
				wait := time.Duration(b.Roll(300)) * time.Millisecond
				heard.Go(func() {
					time.Sleep(wait)
					o.change()
					defer o.changed()
					if o.view.Load().has(other) {
						o.losesFor(other, grace)
					}
				})
			}
			heard.Wait()
			time.Sleep(gap)
			other.open()
			for _, o := range b.all() {
				if o != other && o.view.Load() != nil && !o.dead {
					at(time.Duration(b.Roll(1000))*time.Millisecond, func() { o.meets(other) })
				}
			}
		})
	}
	all.Wait()
	b.finish()
	b.close()
	b.checkReplaced(web)
}

// change and changed enclose a change of the agent's view or process. (A mutex whose holder sleeps
// would stop the virtual clock.)
func (m *mate) change() { m.changing <- struct{}{} }

func (m *mate) changed() { <-m.changing }

// losesFor is what an agent does when it hears that another agent has gone: if that agent is not
// back after a grace, it takes over its hosts.
func (m *mate) losesFor(o *mate, grace time.Duration) {
	before := m.view.Load()
	m.bar(barred{o, before})
	m.sees(before.without(o.name))
	m.b.Note("%s has lost %s", m.story.name, o.story.name)
	m.inheritAfter(o, grace)
}

func (m *mate) inheritAfter(o *mate, grace time.Duration) {
	w := m.w.Load()
	if w == nil {
		return // it learns of the loss when it is back
	}
	w.cl.ViewChanged()
	ctx := m.run
	grace += time.Duration(m.b.Roll(1500)) * time.Millisecond // as if the replica were large
	m.busy.Add(1)
	m.tasks.Go(func() {
		defer m.busy.Add(-1)
		select {
		case <-time.After(grace):
		case <-ctx.Done():
			return
		}
		m.change()
		defer m.changed()
		if m.w.Load() == w && m.misses(o) {
			m.inherit(o)
		}
	})
}

// meets is what an agent does when it hears that an agent has joined or is back.
func (m *mate) meets(o *mate) {
	m.change()
	defer m.changed()
	view := m.view.Load()
	if view.has(o) {
		return
	}
	var was *mate
	if slices.Contains(strings.Fields(view.names), o.name) {
		was = m.b.all()[view.id(o.name)]
		m.bar(barred{was, view})
	}
	m.unbar(o)
	m.sees(view.with(o))
	m.b.Note("%s meets %s", m.story.name, o.story.name)
	if was != nil {
		m.inheritAfter(was, 0)
	} else if w := m.w.Load(); w != nil {
		w.cl.ViewChanged()
	}
}

// checkReplaced checks coverage and repeats by the server's log.
func (b *band) checkReplaced(web textweb.Random) {
	visits := map[string][]textweb.Request{}
	for _, r := range b.Web.Told() {
		if !strings.HasSuffix(r.URL, "/robots.txt") {
			visits[r.URL] = append(visits[r.URL], r)
		}
	}
	for u := range web.Reach {
		if len(visits[u]) == 0 {
			b.t.Errorf("%s was never asked for", u)
		}
	}
	twice := 0
	for u, rs := range visits {
		for i, r := range rs[1:] {
			before := rs[i]
			if before.Status == 503 {
				continue
			}
			twice++
			all := b.all()
			m := all[slices.IndexFunc(all, func(m *mate) bool { return m.story.name == before.By })]
			k := slices.IndexFunc(m.ends, func(p pause) bool { return p.at >= before.At && p.at <= r.At })
			switch {
			case k < 0:
				b.t.Errorf("%s by %s at %s and by %s at %s, without an end of the process", u, before.By,
					before.At, r.By, r.At)
			case !m.dead && before.End+300*time.Millisecond < m.ends[k].at:
				b.t.Errorf("%s by %s at %s and by %s at %s, though the process ended at %s", u, before.By, before.At,
					r.By, r.At, m.ends[k].at)
			case m.dead:
				for _, at := range b.acked[before.By][weburl.MustParse(u).Key()] {
					if at > before.At && at < m.ends[k].at {
						b.t.Errorf("%s by %s at %s, and by %s at %s, though an heir had its finish at %s", u, before.By,
							before.At, r.By, r.At, at)
					}
				}
			}
		}
	}
	b.t.Logf("%d URLs, %d asked for again; taken over: %+v", len(visits), twice, b.taken)
}
