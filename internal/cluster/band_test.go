package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A band is several agents that keep replicas of each other. Some of them die with their disks.
type band struct {
	textweb.Diary
	t     *testing.T
	mu    sync.Mutex // guards mates, acked and taken
	mates []*mate
	harsh bool
	acked map[string]map[weburl.Key][]time.Duration // since when an heir has finishes, by source
	taken Taken

	divided bool // the agents of two sides did not hear each other for a while

	apart atomic.Pointer[map[string]int] // the side of each agent: calls between sides are lost; nil: none are
}

// A mate is one agent, with all its processes.
type mate struct {
	*story
	name     string // among the agents; the story's name is the web's name for this machine
	b        *band
	index    int
	view     atomic.Pointer[roster] // nil: not known yet
	bars     atomic.Pointer[[]barred]
	mem      *testdisk.Mem
	w        atomic.Pointer[world] // nil: no process runs
	store    *handoff.Store
	run      context.Context
	stop     context.CancelFunc
	ended    chan crawl.Stop
	busy     atomic.Int32  // number of takeovers under way
	took     atomic.Bool   // it has taken over
	turn     chan struct{} // has an element during a takeover
	changing chan struct{} // has an element while the view or the process changes
	tasks    sync.WaitGroup
	dead     bool        // for good
	late     bool        // it joined after the crawl had begun
	mute     bool        // no link of it reaches another agent
	unnamed  atomic.Bool // no finish that it ships reaches another agent
	ends     []pause

	moves sync.Mutex // guards the fields below
	views []*roster  // of the process
	boots int
}

// Claim implements Exchange.
func (m *mate) Claim(ctx context.Context, agent string, view uint64, hosts []string) (vs []Verdict, err error) {
	err = m.call(agent, func(_ *mate, w *world) (err error) {
		vs, err = w.cl.Claimed(ctx, m.name, fmt.Sprint(m.name, m.index), view, hosts)
		return err
	})
	m.b.Note("%s claims of %s: %v: %v %v", m.story.name, agent, hosts, vs, err)
	return vs, err
}

// Hand implements Exchange.
func (m *mate) Hand(ctx context.Context, agent string, records []byte, _ int) error {
	err := m.call(agent, func(_ *mate, w *world) error { return w.cl.Handed(ctx, m.name, records) })
	m.b.Note("%s hands %s: %s: %v", m.story.name, agent, summary(records), err)
	return err
}

// finishedKeys returns the whole keys of the URLs that a record says are finished.
func finishedKeys(r *handoff.Record) (keys []weburl.Key) {
	switch {
	case r.Kind == handoff.Finish:
		keys = append(keys, r.Key())
	case r.Kind == handoff.Known && r.Width == keyset.WholeKey:
		for _, p := range r.Paths {
			keys = append(keys, weburl.Key{Host: r.Host, Path: p})
		}
	}
	return keys
}

// summary says what records tell.
func summary(records []byte) string {
	var b strings.Builder
	for len(records) > 0 {
		r, n, err := handoff.Decode(records, nil)
		if err != nil {
			return err.Error()
		}
		switch r.Kind {
		case handoff.Known:
			fmt.Fprintf(&b, "%d keys of %d bits ", len(r.Paths), r.Width)
		case handoff.Clock:
			fmt.Fprintf(&b, "of %s; ", r.Name)
		}
		records = records[n:]
	}
	return b.String()
}

// all returns the agents that have been enlisted so far.
func (b *band) all() []*mate {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mates
}

func (b *band) mate(name string) *mate {
	all := b.all()
	return all[slices.IndexFunc(all, func(m *mate) bool { return m.name == name })]
}

// call makes a call to another agent. The call may be lost, late or made twice.
func (m *mate) call(agent string, fn func(to *mate, w *world) error) error {
	b, view := m.b, m.view.Load()
	if !slices.Contains(strings.Fields(view.names), agent) {
		return errLost
	}
	to := b.all()[view.id(agent)]
	times := 1
	time.Sleep(time.Millisecond)
	if b.harsh {
		time.Sleep(time.Duration(b.Roll(200)) * time.Millisecond)
		switch b.Roll(8) {
		case 0:
			return errLost
		case 1:
			times = 2
		}
	}
	me := m.w.Load()
	for range times {
		w := to.w.Load()
		if w == nil || me == nil || b.cut(m, to) {
			return errLost
		}
		if err := fn(to, w); err != nil {
			return err
		}
		if b.cut(m, to) || to.w.Load() != w || m.w.Load() != me {
			return errLost // the process is dead: its calls have no effect
		}
	}
	if b.harsh && b.Roll(8) == 0 {
		return errLost
	}
	return nil
}

// Push implements Exchange.
func (m *mate) Push(ctx context.Context, agent string, links []byte, count, hops int) error {
	ls, err := textweb.DecodeLinks(links)
	if err != nil {
		return err
	}
	if m.mute {
		return errLost
	}
	return m.call(agent, func(_ *mate, w *world) error { return w.cl.Receive(ctx, ls, hops) })
}

func (m *mate) source() handoff.Source {
	return handoff.Source{Name: m.name, Instance: [16]byte{byte(m.index + 1)}}
}

// Ship implements Shipper.
func (m *mate) Ship(_ context.Context, agent string, number uint64, records []byte, count int) error {
	records = slices.Clone(records)
	if r, _, err := handoff.Decode(records, nil); m.unnamed.Load() && (err != nil || r.Kind == handoff.Finish) {
		return errLost
	}
	err := m.call(agent, func(to *mate, _ *world) error {
		store, src := to.store, m.source()
		if slices.ContainsFunc(*to.bars.Load(), func(b barred) bool { return b.lost == m }) {
			return errLost // it takes this agent for dead
		}
		if number > 1 && !slices.ContainsFunc(store.Sources(), func(i handoff.Info) bool { return i.Source == src }) {
			return ErrNotWhole
		}
		if err := store.Append(src, records); err != nil {
			return err
		}
		return store.Sync(src)
	})
	if err != nil {
		return err
	}
	m.b.mu.Lock()
	defer m.b.mu.Unlock()
	n := 0
	for rest := records; len(rest) > 0; n++ {
		r, used, err := handoff.Decode(rest, nil)
		if err != nil {
			return err
		}
		for _, k := range finishedKeys(&r) {
			acked := m.b.acked[m.story.name]
			acked[k] = append(acked[k], time.Since(m.b.Web.Start))
		}
		rest = rest[used:]
	}
	if n != count {
		return fmt.Errorf("%d records, %d said", n, count)
	}
	return nil
}

// open starts a process.
func (m *mate) open() {
	t := m.b.t
	var err error
	if err = m.mem.MkdirAll(testparts.Dir+"/state", 0o755); err != nil {
		t.Fatal(err)
	}
	if m.store, err = handoff.Open(m.mem, testparts.Dir+"/state/replica", handoff.Config{}); err != nil {
		t.Fatal(err)
	}
	bars := []barred{}
	for _, lost := range m.missing() { // a seed may belong to a dead agent
		bars = append(bars, barred{lost, nil})
	}
	m.bars.Store(&bars)
	m.moves.Lock()
	m.views = []*roster{m.view.Load()}
	m.boots++
	m.moves.Unlock()
	w, err := m.story.open(m.mem)
	if err != nil {
		t.Fatal(m.name, err)
	}
	m.accounts(t, w)
	m.b.Note("%s opens: %+v", m.name, w.rec)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan crawl.Stop, 1)
	m.run, m.stop, m.ended = ctx, cancel, ended
	m.w.Store(w)
	go func() {
		stop, err := w.Run(ctx)
		if err != nil && !w.dead.Load() {
			t.Error(m.name, err)
		}
		ended <- stop
	}()
	for _, lost := range m.missing() {
		m.inherit(lost)
	}
}

// missing returns the agents that have shipped records here and are not alive.
func (m *mate) missing() (lost []*mate) {
	for _, i := range m.store.Sources() {
		if o := m.b.all()[i.Source.Instance[0]-1]; !m.view.Load().has(o) {
			lost = append(lost, o)
		}
	}
	return lost
}

// inherit takes over the hosts of a dead agent.
func (m *mate) inherit(lost *mate) {
	w, ctx, store := m.w.Load(), m.run, m.store
	m.busy.Add(1)
	w.cl.ViewChanged()
	m.tasks.Go(func() {
		defer m.busy.Add(-1)
		m.turn <- struct{}{}
		defer func() { <-m.turn }()
		for m.misses(lost) {
			m.took.Store(true)
			n, err := w.cl.TakeOver(ctx, store, lost.source(),
				func(host string) bool { return m.view.Load().nearest(weburl.HostKey(host))[0] == m.name })
			m.b.mu.Lock()
			m.b.taken.Pending, m.b.taken.Known, m.b.taken.Passed = m.b.taken.Pending+n.Pending, m.b.taken.Known+n.Known,
				m.b.taken.Passed+n.Passed
			m.b.mu.Unlock()
			m.b.Note("%s takes over from %s: %+v %v", m.story.name, lost.story.name, n, err)
			switch {
			case errors.Is(err, handoff.ErrNewer):
				continue
			case err != nil && ctx.Err() == nil && !errors.Is(err, crawl.ErrNotRunning):
				m.b.t.Error(m.name, err)
			case err != nil:
				return // the process ends
			}
			break
		}
		m.unbar(lost)
		w.cl.ViewChanged()
	})
}

// loses is what an agent does when it hears of a death.
func (m *mate) loses(lost string) {
	before := m.view.Load()
	o := m.b.all()[before.id(lost)]
	m.bar(barred{o, before})
	m.sees(before.without(lost))
	m.b.Note("%s has lost %s", m.story.name, o.story.name)
	if m.w.Load() != nil {
		m.inherit(o)
	}
}

// bar puts off the hosts of a lost agent.
func (m *mate) bar(b barred) {
	m.moves.Lock()
	defer m.moves.Unlock()
	bars := append(slices.Clone(*m.bars.Load()), b)
	m.bars.Store(&bars)
}

// unbar ends what bar did. A takeover may end while the agent hears of something else.
func (m *mate) unbar(lost *mate) {
	m.moves.Lock()
	defer m.moves.Unlock()
	if m.bars.Load() == nil {
		return
	}
	left := slices.DeleteFunc(slices.Clone(*m.bars.Load()), func(b barred) bool { return b.lost == lost })
	m.bars.Store(&left)
}

// end ends a process: by a signal, a kill or a power failure.
func (m *mate) end(p pause) {
	w := m.w.Load()
	synctest.Wait()
	p.at = time.Since(m.b.Web.Start)
	m.b.Note("%s ends: %+v", m.name, p)
	m.w.Store(nil)
	old := m.store
	switch {
	case p.kill:
		m.mem = w.kill(m.stop)
	case p.crash:
		if p.takes != nil {
			m.mem = m.mem.CrashOf(p.takes)
		} else {
			m.mem = m.mem.Crash(uint64(p.at))
		}
		w.kill(m.stop)
	}
	m.stop()
	<-m.ended
	m.tasks.Wait()
	if err := errors.Join(w.close(), w.cl.Outbox.Close(), w.cl.Copies.Out.Close(),
		w.cl.Copies.Waiting.Close()); err != nil {
		m.b.t.Fatal(err)
	}
	_ = old.Close()
	m.ends = append(m.ends, p)
}

// gains is what an agent does when it hears that an agent has joined or is back.
func (m *mate) gains(name string) {
	if slices.Contains(strings.Fields(m.view.Load().names), name) {
		return
	}
	m.sees(m.view.Load().with(m.b.mate(name)))
	m.unbar(m.b.mate(name)) // a takeover under way continues to the end
	m.b.Note("%s has gained %s", m.name, name)
	if w := m.w.Load(); w != nil {
		w.cl.ViewChanged()
	}
}

// hear tells all agents but one of an event, each at its own time.
func (b *band) hear(but *mate, do func(m *mate)) {
	var heard sync.WaitGroup
	for _, m := range b.living() {
		wait := time.Duration(b.Roll(1500)) * time.Millisecond
		if m == but || m.view.Load() == nil {
			continue
		}
		heard.Go(func() {
			time.Sleep(wait)
			do(m)
		})
	}
	heard.Wait()
}

func (b *band) living() (ms []*mate) {
	for _, m := range b.all() {
		if !m.dead && m.view.Load() != nil {
			ms = append(ms, m)
		}
	}
	return ms
}

// calm waits until all agents know of the dead ones, have taken over their hosts, and have shipped
// what they know.
func (b *band) calm() {
	for end := time.Now().Add(10 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		calm := true
		for _, m := range b.living() {
			w := m.w.Load()
			if w == nil || m.busy.Load() > 0 || len(strings.Split(m.view.Load().names, " ")) != len(b.living()) {
				calm = false
				continue
			}
			if err := w.cl.loop.Ask(context.Background(), "calm", func() {
				s := &w.cl.shipping
				calm = calm && s.whole.last == s.heirs && !s.whole.reading && len(s.whole.anew) == 0 &&
					w.cl.Outbox.Len() == 0 && w.cl.Copies.Out.Len() == 0
			}); err != nil {
				b.t.Fatal(m.name, err)
			}
		}
		if calm {
			return
		}
		if time.Now().After(end) {
			b.t.Error("there is no calm")
			return
		}
	}
}

// finish is like cluster.finish.
func (b *band) finish() {
	ctx := context.Background()
	var before []uint64
	for end := time.Now().Add(modelPatience); ; {
		time.Sleep(300 * time.Millisecond)
		if time.Now().After(end) {
			for _, m := range b.living() {
				w := m.w.Load()
				p, err := w.cl.Pulse(ctx)
				b.t.Errorf("%s does not end: %+v %v, %d pending, %d in the outbox, %d to ship, busy %d", m.name, p, err,
					w.Status().Queued, w.Status().Outgoing, w.Status().Copying, m.busy.Load())
				m.stop()
			}
			return
		}
		var now []uint64
		idle := true
		for _, m := range b.living() {
			p, err := m.w.Load().cl.Pulse(ctx)
			if err != nil {
				b.t.Fatal(m.name, err)
			}
			idle = idle && p.Idle && m.busy.Load() == 0
			now = append(now, p.Activity)
		}
		if idle && slices.Equal(before, now) {
			break
		}
		if before = nil; idle {
			before = now
		}
	}
	for i, m := range b.living() {
		if agreed, err := m.w.Load().cl.End(ctx, before[i]); err != nil || !agreed {
			b.t.Errorf("%s does not agree to the end: %v", m.name, err)
			m.stop()
		}
	}
}

// enlist creates an agent without a process and without a view.
func (b *band) enlist(rng *rand.Rand, seed uint64, name string, f fate) *mate {
	m := &mate{b: b, name: name, index: len(b.mates), mem: testdisk.NewMem(), turn: make(chan struct{}, 1),
		changing: make(chan struct{}, 1), story: randomStory(rng, seed, b.Web, fmt.Sprint("a", len(b.mates)))}
	oc := outbox.Config{BatchLinks: 1 + rng.IntN(20), Seed: seed, ParkWait: time.Second}
	if f.tiny {
		m.seen = testparts.Tiny(seed)
		oc.MemoryBytes = 1
	}
	m.with = func() (Others, error) {
		var b boxes
		err := b.open(m.mem, oc)
		return Others{Peers: m, Outbox: b.links, Counter: m.source().Counter(),
			Copies: &Copies{Shipper: m, Out: b.records, Waiting: b.finishes}}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mates = append(b.mates, m)
	b.acked[m.story.name] = map[weburl.Key][]time.Duration{}
	return m
}
