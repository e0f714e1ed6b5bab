package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A fate says which events happen to a band.
type fate struct {
	agents, deaths int
	late           int  // number of agents that join later
	doubts         bool // agents are wrongly taken for dead
	splits         int  // how often two halves take each other for dead
	quiet          bool // one is taken for dead for a while when no work is left
	harsh          bool
	moves          bool // hosts move
	ends           int  // at most, of processes that come back, for each agent
	crashes        bool
	tiny           bool
}

func (f fate) play(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 21))
	web := textweb.NewRandom(rng, 40, true)
	b := &band{t: t, Diary: textweb.NewDiary(textweb.Parse(t, web.Text), seed, 22), harsh: f.harsh,
		acked: map[string]map[weburl.Key][]time.Duration{}}
	var names []string
	for i := range f.agents {
		names = append(names, fmt.Sprint("a", i))
	}
	for i, name := range names {
		m := b.enlist(rng, seed, name, f)
		if i < f.agents-f.late {
			m.view.Store(&roster{names: strings.Join(names[:f.agents-f.late], " "), ring: onRing(seed)})
		}
	}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, %+v\n%s\n%s\n%s", seed, f, web.Text, b.Log.String(), b.Web.ByAgent())
		}
	}()
	for _, m := range b.living() {
		m.open()
	}
	for _, m := range b.all()[f.agents-f.late:] {
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		m.view.Store(&roster{names: b.living()[0].view.Load().names, ring: onRing(seed)})
		m.gains(m.name)
		m.late = true
		m.open()
		b.hear(m, func(o *mate) { o.gains(m.name) })
	}
	for range f.splits {
		b.split(rng)
	}
	for range f.deaths {
		if f.doubts {
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
			m := b.living()[rng.IntN(len(b.living()))]
			b.hear(m, func(o *mate) {
				o.loses(m.name)
				time.Sleep(time.Duration(b.Roll(2000)) * time.Millisecond)
				o.gains(m.name)
			})
		}
		time.Sleep(time.Duration(rng.IntN(4000)) * time.Millisecond)
		for range rng.IntN(f.ends + 1) {
			m := b.living()[rng.IntN(len(b.living()))]
			p := pause{kill: true}
			if f.crashes && rng.IntN(2) == 0 {
				p = pause{crash: true, takes: testparts.Takes(rng)}
			}
			if rng.IntN(5) == 0 {
				p = pause{}
			}
			m.end(p)
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
			m.open()
			time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		}
		b.calm() // two copies do not survive the death of two machines at once
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		m := b.living()[rng.IntN(len(b.living()))]
		m.end(pause{kill: true})
		m.dead, m.mem = true, nil
		b.hear(nil, func(o *mate) { o.loses(m.name) })
		if f.ends > 0 && rng.IntN(2) == 0 { // an heir dies during a takeover and comes back
			time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
			o := b.living()[rng.IntN(len(b.living()))]
			o.end(pause{kill: true})
			time.Sleep(time.Duration(rng.IntN(500)) * time.Millisecond)
			o.open()
		}
	}
	if f.quiet {
		b.quiet(rng)
	}
	b.finish()
	b.close()
	b.check(web, f)
}

// close checks that the living agents have finished, and closes them.
func (b *band) close() {
	t := b.t
	var ended []*world
	defer func() { b.checkPages(ended) }()
	for _, m := range b.living() {
		w := m.w.Load()
		ended = append(ended, w)
		if stop := <-m.ended; stop != crawl.Finished || w.Pending() != 0 {
			t.Errorf("%s: stop %s, %d pending", m.name, stop, w.Pending())
		}
		m.tasks.Wait()
		m.accounts(t, w)
		if err := errors.Join(w.close(), w.cl.Outbox.Close(), w.cl.Copies.Out.Close(), w.cl.Copies.Waiting.Close(),
			m.store.Close()); err != nil {
			t.Fatal(err)
		}
		testparts.Verify(t, m.mem)
	}
}

// check checks coverage and repeats by the server's log.
func (b *band) check(web textweb.Random, f fate) {
	visits := map[string][]textweb.Request{}
	for _, r := range b.Web.Told() {
		if !strings.HasSuffix(r.URL, "/robots.txt") {
			visits[r.URL] = append(visits[r.URL], r)
		}
	}
	repeated, total := 0, 0
	for u := range web.Reach {
		if len(visits[u]) == 0 {
			b.t.Errorf("%s was never asked for", u)
		}
	}
	for u, rs := range visits {
		total++
		if !web.Reach[u] {
			b.t.Errorf("%s is not reachable", u)
		}
		for i, r := range rs[1:] {
			before := rs[i] // which agent fetched it before
			if before.Status == 503 {
				continue
			}
			repeated++
			if before.By != r.By && (f.late > 0 || f.doubts || f.splits > 0) {
				continue // hosts do not move: an owner keeps the links that it has
			}
			m := b.mate(before.By)
			k := slices.IndexFunc(m.ends, func(p pause) bool { return p.at >= before.At && p.at <= r.At })
			switch {
			case k < 0:
				b.t.Errorf("%s by %s at %s and by %s at %s, without an end of the process", u, before.By, before.At,
					r.By, r.At)
			case m.ends[k].crash && before.By == r.By && before.End+1300*time.Millisecond > m.ends[k].at:
			default:
				// Of this visit: a power failure may have taken what was told of one before.
				for _, at := range b.acked[before.By][weburl.MustParse(u).Key()] {
					if at > before.At && at < m.ends[k].at {
						b.t.Errorf("%s by %s at %s, and by %s at %s, though an heir had its finish at %s", u, before.By,
							before.At, r.By, r.At, at)
					}
				}
			}
		}
	}
	b.t.Logf("%d URLs, %d asked for again; taken over: %+v", total, repeated, b.taken)
}

func deathModel(t *testing.T, n uint64, fateOf func(seed uint64) fate) {
	models(t, n, func(t *testing.T, seed uint64) { fateOf(seed).play(t, seed) })
}

// TestShippedRecords: a finish is shipped with its URL and what the archive has, a clock with the
// whole politeness state of the host.
func TestShippedRecords(t *testing.T) {
	now := time.Unix(1e9, 0)
	url := weburl.MustParse("http://a.example/1")
	link := weburl.Link{URL: url, Hops: "LL", Seed: "s.example", Level: 2}
	encoded := link.AppendTo(nil)
	link.Via = "http://s.example/"
	for name, c := range map[string]struct {
		stage func(cl *Clustered)
		want  handoff.Record
	}{
		"archived": {
			func(cl *Clustered) {
				cl.copyFinish(&state.Finish{Link: link, Number: 7, Code: 200, File: "a.warc.gz", State: []byte("plan")})
			},
			handoff.Record{Kind: handoff.Finish, Number: 7, Disposition: handoff.Archived, Link: encoded,
				State: []byte("plan")},
		},
		"not archived": {
			func(cl *Clustered) { cl.copyFinish(&state.Finish{Link: link, Number: 8, Code: -2}) },
			handoff.Record{Kind: handoff.Finish, Number: 8, Link: encoded},
		},
		"key": {
			func(cl *Clustered) {
				cl.copyKnown(url.Key().Host, keyset.List{Width: keyset.WholeKey, Paths: []uint64{url.Key().Path}})
			},
			handoff.Record{Kind: handoff.Known, Host: url.Key().Host, Width: 64, Paths: []uint64{url.Key().Path}},
		},
		"clock": {
			func(cl *Clustered) {
				cl.copyClock(frontier.HostState{Host: "a.example", Delay: time.Second, NotBefore: now.Add(time.Minute),
					Slow: 2, SlowUntil: now.Add(30 * time.Second), Blocked: true}, now) // held
			},
			handoff.Record{Kind: handoff.Clock, Name: "a.example", Rest: handoff.Rest{Delay: time.Second,
				Quiet: time.Minute, SlowFor: 30 * time.Second, Slow: 2}},
		},
		"idle clock": {
			func(cl *Clustered) { cl.copyClock(frontier.HostState{Host: "a.example"}, now) },
			handoff.Record{Kind: handoff.Clock, Name: "a.example"},
		},
	} {
		cl := &Clustered{Others: Others{Copies: &Copies{}}}
		cl.shipping.epochs = []epoch{{began: now}}
		c.stage(cl)
		got, want := cl.shipping.arena, c.want.AppendTo(nil)
		if _, n, err := handoff.Decode(got, nil); err != nil || n != len(got) || string(got) != string(want) {
			t.Errorf("%s: %x, %v, want %x", name, got, err, want)
		}
	}
}

// TestDeath: one of three agents dies with its disk.
func TestDeath(t *testing.T) {
	deathModel(t, 20, func(seed uint64) fate { return fate{agents: 3, deaths: 1, tiny: seed%4 == 3} })
}

// The same with calls and answers that are lost, late and repeated. Two of four agents die one
// after the other, and the others have kills and power failures.
func TestDeathModel(t *testing.T) {
	deathModel(t, 30, func(seed uint64) fate {
		return fate{agents: 3 + int(seed%2), deaths: 1 + int(seed%2), harsh: true, ends: int(seed / 2 % 3),
			crashes: true, tiny: seed%5 == 4}
	})
}

// The same with hosts that move between agents.
func TestDeathMoves(t *testing.T) {
	deathModel(t, 30, func(seed uint64) fate {
		return fate{
			agents: 3 + int(seed%2), deaths: 1 + int(seed%2), late: int(seed / 2 % 2), moves: true,
			harsh: seed%3 > 0, ends: int(seed / 2 % 3), crashes: true, tiny: seed%5 == 4,
		}
	})
}

// The same with agents that join late, so that hosts get new owners and heirs, and with agents that
// are taken for dead for a while. No URL is lost.
func TestDeathAfterChange(t *testing.T) {
	deathModel(t, 30, func(seed uint64) fate {
		return fate{
			agents: 3 + int(seed%2), deaths: 1, late: int(seed / 2 % 2), doubts: seed/4%2 == 1 || seed/2%2 == 0,
			harsh: seed%3 > 0, ends: int(seed / 2 % 2), crashes: true, tiny: seed%5 == 4,
		}
	})
}
