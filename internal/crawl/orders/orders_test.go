package orders

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func FuzzDrop(f *testing.F) {
	f.Add(appendDrop(nil, "a.example", drop{1, 2, time.UnixMilli(3)}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if host, d, err := decodeDrop(b); err == nil {
			if host2, again, err := decodeDrop(appendDrop(nil, host, d)); err != nil || host2 != host || again != d {
				t.Fatalf("drop of %q %+v became %q %+v, %v", host, d, host2, again, err)
			}
		}
	})
}

// Exclusions whose alternation is too large hold all the same, and a wrong pattern changes nothing.
func TestExclusions(t *testing.T) {
	var list []Exclusion
	for i := range 40 {
		list = append(list, Exclusion{Pattern: fmt.Sprintf("/%d/c{3}$", i), Deeper: -1, Why: fmt.Sprint(i)})
	}
	e, err := newExclusions(list)
	if err != nil || e.apart {
		t.Fatal(err)
	}
	e.apart, e.patterns = true, sheet.Patterns{} // an alternation that is too large takes much memory
	for u, want := range map[string]string{"http://a.example/17/ccc": "17", "http://a.example/40/ccc": ""} {
		got := ""
		if x := e.of(&link.Link{URL: weburl.MustParse(u)}); x != nil {
			got = x.Why
		}
		if got != want {
			t.Errorf("%s: excluded by %q, want %q", u, got, want)
		}
	}
}

// loop is a crawl loop that other agents share.
type loop struct {
	foreign string
	hides   bool
	ending  bool
	blocked []string
	*run.Run
}

func (l *loop) Foreign(host string) bool { return host == l.foreign }
func (l *loop) HostBlocked(host string)  { l.blocked = append(l.blocked, host) }
func (l *loop) Hides() bool              { return l.hides }
func (l *loop) Ending() bool             { return l.ending }

func newGate(t *testing.T, hosts ...string) (*Gate, *loop) {
	fs := testdisk.NewMem()
	f := must.Get(frontier.Open(fs, "/queues", frontier.Config{}))(t)
	events := must.Get(report.OpenEvents(fs, "/events.jsonl", clock.System))(t)
	t.Cleanup(func() { _, _ = f.Close(), events.Close() })
	for i, host := range hosts {
		must.Do(t, f.PushAt([]link.Link{linkTo(host)}, []uint64{uint64(i + 1)}))
	}
	l := &loop{foreign: "foreign.example", Run: run.New()}
	return NewGate(l.Run, l, f, events), l
}

func linkTo(host string) link.Link {
	return link.Link{URL: weburl.MustParse("http://" + host + "/"), Seed: host}
}

// A Bar blocks the hosts that the frontier has, except those of other agents, and its end unblocks them.
func TestBars(t *testing.T) {
	g, l := newGate(t, "a.own.example", "b.own.example", "foreign.example", "other.example")
	g.HeedBars()
	if len(g.BlockedHosts()) > 0 || l.Activity() > 0 {
		t.Fatal("without a Bar, hosts are blocked")
	}
	g.SetBars([]Bar{{Domain: "own.example", Why: "order 1"}, {Host: "a.own.example", Why: "order 2"},
		{Host: "foreign.example", Why: "order 3"}, {Prefix: netip.MustParsePrefix("192.0.2.0/24"), Why: "order 4"}})
	g.HeedBars()
	if got := g.BlockedHosts(); !slices.Equal(got, []string{"a.own.example", "b.own.example"}) || l.Activity() != 1 ||
		len(l.blocked) != 2 || g.frontier.Stats().Blocked != 2 {
		t.Fatalf("blocked %q, told of %q, stirred %d times, %+v", got, l.blocked, l.Activity(), g.frontier.Stats())
	}
	if why := g.WhyBarred("a.own.example"); !slices.Equal(why, []string{"order 2", "order 1"}) {
		t.Errorf("a.own.example is blocked by %q", why)
	}
	addr := netip.MustParseAddr("192.0.2.7")
	if g.Bars("other.example", netip.Addr{}) || !g.Bars("other.example", addr) || g.BarsKnown("other.example") {
		t.Error("a Bar of addresses holds for a host without its address, or not for one with it")
	}
	if g.Block("other.example", addr); !g.Blocked("other.example") || !g.BarsKnown("other.example") {
		t.Error("the address of a blocked host is forgotten")
	}
	g.SetBars([]Bar{{Host: "a.own.example"}})
	if g.HeedBars(); !slices.Equal(g.BlockedHosts(), []string{"a.own.example"}) || g.frontier.Stats().Blocked != 1 {
		t.Errorf("after the end of the other Bars, %q are blocked, %+v", g.BlockedHosts(), g.frontier.Stats())
	}
}

// Each order keeps a request back that a worker is about to send, until it is taken back.
func TestHeldBack(t *testing.T) {
	g, _ := newGate(t)
	v := &visit.Attempt{Task: frontier.Task{Host: "a.example", Link: linkTo("a.example")}}
	for name, set := range map[string]func(on bool){
		"pause": g.SetPause,
		"bar": func(on bool) {
			g.SetBars(slices.Repeat([]Bar{{Host: "a.example"}}, map[bool]int{true: 1}[on]))
		},
		"exclusion": func(on bool) {
			_ = g.SetExclusions(slices.Repeat([]Exclusion{{Pattern: "/$", Deeper: -1}}, map[bool]int{true: 1}[on]))
		},
	} {
		for _, on := range []bool{true, false} {
			if set(on); g.HeldBack(v) != on {
				t.Errorf("%s %v: held back: %v", name, on, !on)
			}
		}
	}
}

// The time of all pauses counts, also of the one in progress.
func TestPauses(t *testing.T) {
	g, _ := newGate(t)
	at := func(s int) time.Time { return time.Unix(1e9+int64(s), 0) }
	for _, step := range []struct {
		at   int
		on   bool
		want time.Duration
	}{{10, true, 0}, {15, true, 5 * time.Second}, {20, false, 10 * time.Second}, {30, false, 10 * time.Second},
		{40, true, 10 * time.Second}, {41, true, 11 * time.Second}} {
		g.SetPause(step.on)
		paused := g.HeedPause(at(step.at))
		if on, _ := g.Paused(); paused != step.on || on != step.on || g.Pauses(at(step.at)) != step.want {
			t.Errorf("after %d s: paused %v and %v, for %s, want %s", step.at, paused, on, g.Pauses(at(step.at)),
				step.want)
		}
	}
}

// A link that was set aside is looked at again when an Exclusion that held before holds no more, and not when another
// one comes. A wrong pattern changes nothing.
func TestHeedExclusions(t *testing.T) {
	g, l := newGate(t)
	deep, seed := link.Link{URL: weburl.MustParse("http://a.example/"), Hops: "LL"}, linkTo("a.example")
	set := func(list ...Exclusion) {
		must.Do(t, g.SetExclusions(list))
		g.HeedExclusions()
	}
	g.HeedExclusions()
	set(Exclusion{Deeper: 1, Why: "order 1"})
	if g.WhyExcluded(&deep) != "order 1" || g.Excludes(&seed) || l.Activity() != 1 {
		t.Errorf("by depth: %q, a seed: %v, stirred %d times", g.WhyExcluded(&deep), g.Excludes(&seed), l.Activity())
	}
	must.Do(t, g.frontier.SetAside(deep, 1))
	reviewed := func() (n int) {
		must.Get(g.frontier.Reviewed(10, func(link.Link, uint64) error { n++; return nil }))(t)
		return n
	}
	set(Exclusion{Deeper: 1, Why: "order 1"}, Exclusion{Pattern: "x", Deeper: -1, Why: "order 2"})
	if n := reviewed(); n != 0 {
		t.Errorf("after one more Exclusion, %d links are looked at", n)
	}
	if err := g.SetExclusions([]Exclusion{{Pattern: "(", Deeper: -1}}); err == nil || !g.Excludes(&deep) {
		t.Errorf("a wrong pattern: %v, and the link is excluded: %v", err, g.Excludes(&deep))
	}
	set(Exclusion{Pattern: "x", Deeper: -1, Why: "order 2"})
	if n := reviewed(); n != 1 {
		t.Errorf("after the end of the Exclusion, %d links are looked at", n)
	}
	if set(); g.Excludes(&deep) {
		t.Error("without an Exclusion, a link is excluded")
	}
}

// A drop ends the links that were accepted before it, and the visits that began before it. It is forgotten when no such
// link can be left.
func TestDrops(t *testing.T) {
	g, l := newGate(t)
	attempt := func() *visit.Attempt {
		v := &visit.Attempt{Task: frontier.Task{Host: "a.example", Link: linkTo("a.example")}}
		g.Begins(v)
		return v
	}
	l1 := linkTo("a.example")
	enc := l1.AppendTo(nil)
	early, _ := g.Stamp(enc, nil)
	before := attempt()
	record := g.Drop("a.example", 7, time.UnixMilli(1))
	after := attempt()
	if !g.Dropped("a.example", 7) || g.Dropped("a.example", 8) || g.Dropped("b.example", 7) || !g.Drops() {
		t.Error("the drop holds for other links than those before it")
	}
	if !g.Overtaken(before) || g.Overtaken(after) || g.Dropped("a.example", 0) {
		t.Error("the drop holds for other visits than those before it, or for a URL that is visited again")
	}
	before.Task.Link.Hops = "P" // the robots.txt of another host
	if g.Overtaken(before) {
		t.Error("the drop ends the fetch of a robots.txt for another host")
	}
	_, buf := g.Stamp(enc, nil) // that of another link before it
	late, _ := g.Stamp(enc, buf)
	for _, c := range []struct {
		stamped []byte
		dropped bool
	}{{early, true}, {late, false}} {
		got, dropped, err := g.Unstamp(c.stamped, l1)
		if err != nil || dropped != c.dropped || !slices.Equal(got, enc) {
			t.Errorf("unstamped %x as %x, dropped %v, %v", c.stamped, got, dropped, err)
		}
	}
	g.Drop("b.example", 9, time.UnixMilli(2))
	saved := func() (n int) {
		must.Do(t, g.Save(func(byte, []byte) error { n++; return nil }, time.Time{}))
		return n
	}
	if n := saved(); n != 2 {
		t.Errorf("with a visit from before the drop, %d drops are kept", n)
	}
	g.Ends(before)
	g.Ends(after)
	l.hides = true
	if n := saved(); n != 2 {
		t.Errorf("with hidden links, %d drops are kept", n)
	}
	l.hides = false
	if n := saved(); n != 1 || !g.Dropped("b.example", 9) {
		t.Errorf("in the end, %d drops are kept; the last one must be", n)
	}
	again, _ := newGate(t)
	for _, p := range [][]byte{g.Drop("c.example", 11, time.UnixMilli(3)), record} { // in any order
		must.Do(t, again.Load(state.Drop, p))
	}
	if !again.Dropped("a.example", 7) || !again.Dropped("c.example", 11) {
		t.Error("after a restart a drop is gone")
	}
	if v := attempt(); v.Drops != 3 {
		t.Errorf("%d drops, want 3", v.Drops)
	}
	w := &visit.Attempt{}
	if again.Begins(w); w.Drops != 3 {
		t.Errorf("after a restart there are %d drops, want 3", w.Drops)
	}
}
