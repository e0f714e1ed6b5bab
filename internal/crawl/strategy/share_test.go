package strategy

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A team is some Walks that share their walkers, with the web that they walk.
type team struct {
	t     *testing.T
	docs  map[string]*doc
	walks []*Walk
	shift uint64 // another one gives tasks and pages other owners
}

func newTeam(t *testing.T, n int, docs map[string]*doc, seeds ...string) *team {
	m := &team{t: t, docs: docs}
	var us []weburl.URL
	for _, s := range seeds {
		us = append(us, mustURL(t, s))
	}
	for i := range n {
		// The order of the seeds must not matter.
		us = append(us[1:], us[0])
		w, err := OpenWalk(Place{FS: testdisk.NewMem(), Dir: fmt.Sprint("/", i), Seeds: us},
			WalkConfig{Walkers: 9, Steps: 2000, Seed: 5})
		must.Do(t, err)
		m.walks = append(m.walks, w)
	}
	m.share()
	return m
}

func (m *team) owner(host string) *Walk {
	return m.walks[(xxhash.Sum64String(host)+m.shift)%uint64(len(m.walks))]
}

func (m *team) share() {
	for _, w := range m.walks {
		w.Share(func(task string) bool { return m.owner(task) == w })
	}
}

// visit returns the state of a page, from the walk that has it or by a visit to it.
func (m *team) visit(l link.Link) (link.Link, []byte) {
	m.t.Helper()
	for _, w := range append([]*Walk{m.owner(l.URL.Host())}, m.walks...) {
		if from, state, err := w.Recall(l.URL); err != nil {
			m.t.Fatal(err)
		} else if state != nil {
			return from, slices.Clone(state)
		}
	}
	d := m.docs[l.URL.String()]
	v := &visit.Visit{Link: l, Outcome: visit.Fetched, Status: max(d.status, 200)}
	for _, to := range d.links {
		v.Offered = append(v.Offered, link.Link{URL: mustURL(m.t, to)})
	}
	if d.to != "" {
		v.Status, v.Offered = 301, []link.Link{{URL: mustURL(m.t, d.to)}}
	}
	state, err := m.owner(l.URL.Host()).Visited(v)
	if err != nil {
		m.t.Fatal(err)
	}
	l.Via = ""
	return l, slices.Clone(state)
}

// turn lets each walk want URLs, and answers some of its questions. It reports whether any is open.
func (m *team) turn(rng *rand.Rand, asked map[*Walk]map[weburl.URL]link.Link) (open bool) {
	for _, w := range m.walks {
		if asked[w] == nil {
			asked[w] = map[weburl.URL]link.Link{}
		}
		for {
			want, wake, err := w.Next(time.Now())
			if err != nil {
				m.t.Fatal(err)
			}
			if want != nil {
				asked[w][want.Link.URL] = want.Link
			} else if wake.IsZero() {
				break
			}
		}
		urls := slices.SortedFunc(maps.Keys(asked[w]), func(a, b weburl.URL) int {
			return strings.Compare(a.String(), b.String())
		})
		for _, u := range urls {
			if open = true; rng.IntN(2) == 0 {
				continue
			}
			from, state := m.visit(asked[w][u])
			delete(asked[w], u)
			if err := w.Told(from, state); err != nil {
				m.t.Fatal(err)
			}
		}
	}
	return open
}

// visits sums the reports.
func (m *team) visits() map[string]uint32 {
	sum := map[string]uint32{}
	for _, w := range m.walks {
		for at := int64(0); at < w.size; {
			l, state, err := w.read(at)
			if err != nil {
				m.t.Fatal(err)
			}
			if s := w.pages[link.KeyOf(l.URL)]; s.at == at && s.visits > 0 {
				sum[l.URL.String()] += s.visits
			}
			n := len(l.AppendTo(nil)) + len(state)
			at += int64(n + len(binary.AppendUvarint(nil, uint64(n))))
		}
	}
	return sum
}

// TestWalkersAreShared: several Walks make the visits of one, however often the walkers and the pages
// get other owners.
func TestWalkersAreShared(t *testing.T) {
	docs := randomGraph(7, 150)
	seeds := []string{"http://h0.example/0", "http://h1.example/1", "http://h2.example/2"}
	play := func(n, changes int) map[string]uint32 {
		rng := testseed.Rand(t)
		m := newTeam(t, n, docs, seeds...)
		asked := map[*Walk]map[weburl.URL]link.Link{}
		for turn := 1; ; turn++ {
			open := m.turn(rng, asked)
			if turn%5 == 0 && turn/5 <= changes {
				m.shift++
				clear(asked)
				m.share()
			} else if !open {
				return m.visits()
			}
		}
	}
	want := play(1, 0)
	if len(want) < 50 {
		t.Fatalf("%d pages visited", len(want))
	}
	for _, c := range [][2]int{{1, 0}, {3, 0}, {3, 1}, {4, 6}, {2, 9}} {
		if diff := cmp.Diff(want, play(c[0], c[1])); diff != "" {
			t.Errorf("%d walks, %d changes (-alone +shared):\n%s", c[0], c[1], diff)
		}
	}
}

// Told refuses states that no Walk has made. A page that no agent knows is a dead end, until its state
// comes nevertheless. A known page keeps its links.
func TestTold(t *testing.T) {
	m := newTeam(t, 1, nil, "http://a.example/")
	w := m.walks[0]
	l := link.Link{URL: mustURL(t, "http://a.example/"), Seed: "a.example"}
	to := []link.Link{{URL: mustURL(t, "http://b.example/")}}
	for _, bad := range [][]byte{{}, {'x'}, {stateWalk, 9}} {
		if err := w.Told(l, bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	known := func(want []byte) {
		t.Helper()
		if _, state, err := w.Recall(l.URL); err != nil || string(state) != string(want) {
			t.Errorf("state %q, %v; want %q", state, err, want)
		}
	}
	known(nil)
	must.Do(t, w.Told(l, nil))
	known(nil)
	if want, _, err := w.Next(time.Now()); want != nil || err != nil {
		t.Errorf("%v is wanted, %v", want, err)
	}
	first := appendStop(nil, stopPage, to)
	must.Do(t, w.Restore(l, first))
	known(first)
	state, err := w.Visited(&visit.Visit{Link: l, Outcome: visit.Failed})
	if string(state) != string(first) || err != nil {
		t.Errorf("state %q after a failed visit, %v", state, err)
	}
	must.Do(t, w.Told(l, appendStop(nil, stopDead, nil)))
	known(first)
}

// The links of a page have a bound in bytes, too.
func TestStopIsBounded(t *testing.T) {
	var links []link.Link
	for i := range 20 {
		long := fmt.Sprintf("http://h%d.example/%0*d", i, 30_000, i)
		links = append(links, link.Link{URL: mustURL(t, long)})
	}
	to := link.Link{URL: mustURL(t, "http://a.example/"+strings.Repeat("x", weburl.MaxParse-20))}
	w := newTeam(t, 1, nil, "http://a.example/").walks[0]
	state, err := w.Visited(&visit.Visit{Link: link.Link{URL: mustURL(t, "http://a.example/")},
		Outcome: visit.Fetched, Status: 301, Offered: []link.Link{to}})
	if kind, n, derr := decodeStop(state, nil); kind != stopDead || n != 0 || err != nil || derr != nil {
		t.Errorf("a redirect to a long URL is kind %d with %d links, %v, %v", kind, n, err, derr)
	}
	b := appendStop(nil, stopPage, links)
	if _, n, err := decodeStop(b, nil); len(b) > visit.MaxState || n != 2 || err != nil {
		t.Errorf("%d links in %d octets, %v", n, len(b), err)
	}
}
