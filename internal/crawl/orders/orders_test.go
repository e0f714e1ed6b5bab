package orders

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
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
	blocked []string
	stirs   int
}

func (l *loop) Foreign(host string) bool { return host == l.foreign }
func (l *loop) Blocked(host string)      { l.blocked = append(l.blocked, host) }
func (l *loop) Stirred()                 { l.stirs++ }
func (l *loop) Hides() bool              { return l.hides }

func newGate(t *testing.T, hosts ...string) (*Gate, *loop) {
	fs := testdisk.NewMem()
	f, err := frontier.Open(fs, "/queues", frontier.Config{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := report.OpenEvents(fs, "/events.jsonl", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = f.Close(), events.Close() })
	for i, host := range hosts {
		if err := f.PushAt([]link.Link{linkTo(host)}, []uint64{uint64(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	l := &loop{foreign: "foreign.example"}
	return NewGate(l, f, events), l
}

func linkTo(host string) link.Link {
	return link.Link{URL: weburl.MustParse("http://" + host + "/"), Seed: host}
}

// A Bar blocks the hosts that the frontier has, except those of other agents, and its end unblocks them.
func TestBars(t *testing.T) {
	g, l := newGate(t, "a.own.example", "b.own.example", "foreign.example", "other.example")
	g.HeedBars()
	if len(g.BlockedHosts()) > 0 || l.stirs > 0 {
		t.Fatal("without a Bar, hosts are blocked")
	}
	g.SetBars([]Bar{{Domain: "own.example", Why: "order 1"}, {Host: "a.own.example", Why: "order 2"},
		{Host: "foreign.example", Why: "order 3"}, {Prefix: netip.MustParsePrefix("192.0.2.0/24"), Why: "order 4"}})
	g.HeedBars()
	if got := g.BlockedHosts(); !slices.Equal(got, []string{"a.own.example", "b.own.example"}) || l.stirs != 1 ||
		len(l.blocked) != 2 {
		t.Fatalf("blocked %q, told of %q, stirred %d times", got, l.blocked, l.stirs)
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
	if g.HeedBars(); !slices.Equal(g.BlockedHosts(), []string{"a.own.example"}) {
		t.Errorf("after the end of the other Bars, %q are blocked", g.BlockedHosts())
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

// A pause is counted only from the start of the run on.
func TestPauses(t *testing.T) {
	g, _ := newGate(t)
	at := func(s int) time.Time { return time.Unix(1e9+int64(s), 0) }
	for _, step := range []struct {
		at   int
		on   bool
		want time.Duration
	}{{0, true, 0}, {15, true, 5 * time.Second}, {20, false, 10 * time.Second}, {30, false, 10 * time.Second},
		{40, true, 10 * time.Second}, {41, true, 11 * time.Second}} {
		g.SetPause(step.on)
		if step.at == 0 { // before the run, which begins at 10
			g.HeedPause(at(10))
			continue
		}
		if g.HeedPause(at(step.at)); g.Pauses(at(10), at(step.at)) != step.want {
			t.Errorf("after %d s: %s, want %s", step.at, g.Pauses(at(10), at(step.at)), step.want)
		}
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
	if !g.Overtaken(before) || g.Overtaken(after) {
		t.Error("the drop holds for other visits than those before it")
	}
	late, _ := g.Stamp(enc, nil)
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
		if err := g.Save(func(byte, []byte) error { n++; return nil }, time.Time{}); err != nil {
			t.Fatal(err)
		}
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
	if err := again.Load('G', record); err != nil || !again.Dropped("a.example", 7) {
		t.Errorf("after a restart the drop is gone: %v", err)
	}
}
