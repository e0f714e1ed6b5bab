package crawl

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// planned gives the crawl a Planner.
func planned(p visit.Planner) setting {
	return func(_ *bench, parts *visit.Parts, _ *testparts.Config) { parts.Strategy = p }
}

// A stubborn is a Planner that takes nothing back.
type stubborn struct {
	wants   []*visit.Wanted // what Next returns, in this order
	wake    time.Time       // of Next without a URL
	visited []visit.Visit
	state   []byte
	err     error
}

func (*stubborn) Follow(*visit.Page, *link.Link) visit.Choice { return visit.Take }

func (p *stubborn) Visited(v *visit.Visit) ([]byte, error) {
	p.visited = append(p.visited, *v)
	return p.state, p.err
}

func (p *stubborn) Restore(l link.Link, state []byte) error {
	if string(state) == "bad" {
		return visit.ErrState
	}
	return p.err
}

func (p *stubborn) Next(time.Time) (*visit.Wanted, time.Time, error) {
	if p.err != nil || len(p.wants) == 0 {
		return nil, p.wake, p.err
	}
	w := p.wants[0]
	p.wants = p.wants[1:]
	return w, time.Time{}, nil
}

// A diary is a Planner that takes everything back, and notes it.
type diary struct {
	stubborn
	off    map[string]time.Time // the URLs that were put off
	taken  []string             // URLs whose state has left
	forgot []string             // hosts, and URLs to retry
}

func (d *diary) PutOff(w *visit.Wanted, until time.Time) error {
	if d.off == nil {
		d.off = map[string]time.Time{}
	}
	d.off[w.Link.URL.String()] = until
	return d.err
}

func (d *diary) TakeOut(w *visit.Wanted) ([]byte, error) {
	d.taken = append(d.taken, w.Link.URL.Host())
	return []byte("state"), d.err
}

func (d *diary) Forget(host string, _ time.Time) { d.forgot = append(d.forgot, host) }
func (d *diary) Retry(u weburl.URL)              { d.forgot = append(d.forgot, u.String()) }

func wanted(url string, before *visit.Before) *visit.Wanted {
	return &visit.Wanted{Link: foundAt(url), Before: before}
}

// A new URL that a Planner wants is accepted like one of a page, unless other agents are asked for it. Then the plan
// waits as long as the Planner says, and an error of the Planner ends the run.
func TestPlanOfNewURLs(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := &diary{stubborn: stubborn{wants: []*visit.Wanted{wanted("http://a.example/1", nil),
		wanted("http://b.example/2", nil)}, wake: now.Add(time.Hour)}}
	b := on(t, testdisk.NewMem(), planned(d), func(b *bench, _ *visit.Parts, _ *testparts.Config) {
		b.cluster.Moves = &agents{recalls: "b.example"}
	})
	var in []string
	wake := b.plan.want(now, func(l link.Link) { in = append(in, l.URL.String()) })
	if !wake.Equal(d.wake) || !b.plan.next.Equal(d.wake) || !slices.Equal(in, []string{"http://a.example/1"}) {
		t.Errorf("accepted %v, next at %s, want %s", in, wake, d.wake)
	}
	d.err = errors.New("broken")
	if wake := b.plan.want(now, nil); !wake.IsZero() || !errors.Is(b.run.Err(), d.err) {
		t.Errorf("next at %s, the run: %v", wake, b.run.Err())
	}
}

// agents are the other agents of a crawl. The hosts of owned are theirs.
type agents struct {
	owned   map[string]string
	recalls string // the host of which other agents are asked
	full    bool   // no state can be sent now
	carried []string
}

func (a *agents) Owner(host string) (string, bool) {
	owner, other := a.owned[host]
	return owner, !other
}
func (a *agents) Peek(host string) (string, bool) { return a.Owner(host) }
func (a *agents) PagesElsewhere(string) int64     { return 0 }
func (a *agents) Recall(l link.Link) bool         { return l.URL.Host() == a.recalls }

func (a *agents) SendAway(frontier.Waiting) (bool, error) { return false, nil }

func (a *agents) Carry(l link.Link, take func() ([]byte, error)) (bool, error) {
	if a.full {
		return false, nil
	}
	state, err := take()
	a.carried = append(a.carried, l.URL.Host()+" "+string(state))
	return true, err
}

// A URL that is wanted again is queued once, with what is known of it, until its visit has ended.
func TestPlanOfURLsAgain(t *testing.T) {
	now := time.Now()
	before := &visit.Before{Print: 7, Digest: [20]byte{1}, Original: warc.Original{URL: "http://a.example/1"}}
	p := &stubborn{wants: []*visit.Wanted{wanted("http://a.example/1", before), wanted("http://a.example/1", before)},
		state: []byte("new")}
	b := on(t, testdisk.NewMem(), planned(p))
	b.plan.want(now, nil)
	k := foundAt("http://a.example/1").Key()
	if b.plan.before(k) != before || b.Frontier.Len() != 1 || b.book.Number(k, 5) != 0 {
		t.Fatalf("before %v, %d in the queue with number %d", b.plan.before(k), b.Frontier.Len(), b.book.Number(k, 5))
	}
	v := new(visit.Attempt)
	v.Reset(frontier.Task{Link: foundAt("http://a.example/1")})
	v.Plan().Before, v.Plan().Print, v.Response.Status = before, 7, 200
	var f state.Finish
	b.plan.visited(v, &f, now)
	if told := p.visited[0]; !told.Again || !told.Unchanged || string(f.State) != "new" ||
		f.Flags&(state.FlagAgain|state.FlagUnchanged|state.FlagUnknown) != state.FlagAgain|state.FlagUnchanged {
		t.Errorf("told %+v, flags %b", told, f.Flags)
	}
	if b.plan.before(k) != nil || len(b.plan.hosts) != 0 {
		t.Error("the URL is still wanted")
	}
	archived := ""
	must.Do(t, b.Archive.EachRemembered(func(_ [20]byte, o warc.Original) error { archived = o.URL; return nil }))
	if archived != before.Original.URL {
		t.Error("the archive does not know the earlier record")
	}
}

// What the Planner is told of a visit, and what the finish says.
func TestPlanOfEndedVisits(t *testing.T) {
	before := &visit.Before{Print: 7, If: fetch.Condition{ETag: "old"}}
	news := foundAt("http://a.example/1")
	news.SetApp("news", "")
	for _, c := range []struct {
		name   string
		link   link.Link
		before *visit.Before
		status int
		print  uint64
		told   bool
		flags  uint8
		answer uint64 // the print for the next comparison
	}{
		{"first", foundAt("http://a.example/1"), nil, 200, 9, true, 0, 9},
		{"changed", foundAt("http://a.example/1"), before, 200, 9, true, state.FlagAgain, 9},
		{"not comparable", foundAt("http://a.example/1"), before, 200, 0, true, state.FlagAgain | state.FlagUnknown, 0},
		{"confirmed", foundAt("http://a.example/1"), before, 304, 0, true, state.FlagAgain | state.FlagUnchanged, 7},
		{"application", news, nil, 200, 9, false, 0, 0},
	} {
		p := &stubborn{state: []byte("s")}
		b := on(t, testdisk.NewMem(), planned(p))
		if c.before != nil {
			p.wants = []*visit.Wanted{wanted("http://a.example/1", c.before)}
			b.plan.want(time.Now(), nil)
		}
		v := new(visit.Attempt)
		v.Reset(frontier.Task{Link: c.link})
		v.Plan().Before, v.Plan().Print, v.Response.Status = c.before, c.print, c.status
		v.Plan().Validators.ETag = "new"
		var f state.Finish
		b.plan.visited(v, &f, time.Now())
		if told := len(p.visited) == 1; told != c.told || string(f.State) != map[bool]string{true: "s"}[told] ||
			uint8(f.Flags) != c.flags {
			t.Errorf("%s: told %v, state %q, flags %b, want %b", c.name, told, f.State, f.Flags, c.flags)
		} else if told && (p.visited[0].Response.Print != c.answer || p.visited[0].Response.If.ETag != "new") {
			t.Errorf("%s: told %+v", c.name, p.visited[0].Response)
		}
	}
	b := on(t, testdisk.NewMem(), planned(&stubborn{err: errors.New("broken")}))
	v := new(visit.Attempt)
	v.Reset(frontier.Task{Link: foundAt("http://a.example/1")})
	if b.plan.visited(v, new(state.Finish), time.Now()); !b.run.Failed() {
		t.Error("the run goes on after an error of the Planner")
	}
}

// The URLs that are queued again are bounded, and one host does not take all places: the rest is put off, each to a
// later time, and a URL that has just become due waits behind those.
func TestPlanIsBounded(t *testing.T) {
	now, d := time.Now(), new(diary)
	b := on(t, testdisk.NewMem(), planned(d))
	want := func(host string, n int, returned bool) {
		for i := range n {
			w := wanted(fmt.Sprintf("http://%s.example/%d", host, i), new(visit.Before))
			w.Returned = returned
			d.wants = append(d.wants, w)
		}
		b.plan.want(now, nil)
	}
	want("whale", 100, false)
	if n, off := len(b.plan.again), len(d.off); n != againMax/2 || off != 100-againMax/2 {
		t.Errorf("%d URLs of one host are queued, %d put off, of %d in all", n, off, againMax)
	}
	var times []time.Time
	for _, at := range d.off {
		times = append(times, at)
	}
	slices.SortFunc(times, time.Time.Compare)
	if len(slices.Compact(slices.Clone(times))) != len(times) || !times[0].After(now) {
		t.Errorf("URLs are put off to the same time: %v", times[:3])
	}
	for i := range 50 {
		want(fmt.Sprintf("h%d", i), 5, false)
	}
	if n := len(b.plan.again); n != againMax {
		t.Errorf("%d URLs are queued, want %d", n, againMax)
	}
	for host, h := range b.plan.hosts {
		if host != "whale.example" && h.queued > hostAgainLess {
			t.Errorf("%s: %d URLs are queued", host, h.queued)
		}
	}
	if len(d.wants) == 0 {
		t.Error("the Planner is asked although there is no room")
	}
	// When visits have ended, a URL that returns goes before one that is new.
	d.wants = nil
	for k := range b.plan.again {
		delete(b.plan.again, k)
	}
	b.plan.hosts["whale.example"].queued, d.off = 0, nil
	want("whale", 1, false)
	if want("whale", 1, true); len(d.off) != 1 || len(b.plan.again) != 1 {
		t.Errorf("%d are put off, %d are queued; want the one that returned to be queued", len(d.off),
			len(b.plan.again))
	}
}

// After many URLs that cannot be visited now, the dispatcher does other work first.
func TestPlanTakesTurns(t *testing.T) {
	now, d := time.Now(), new(diary)
	others := &agents{owned: map[string]string{"a.example": "other"}, full: true}
	b := on(t, testdisk.NewMem(), planned(d), func(b *bench, _ *visit.Parts, _ *testparts.Config) {
		b.cluster.Owners, b.cluster.Moves = others, others
	})
	for i := range quotaMax + 1 {
		d.wants = append(d.wants, wanted(fmt.Sprintf("http://a.example/%d", i), new(visit.Before)))
	}
	if wake := b.plan.want(now, nil); !wake.Equal(now) || len(d.wants) != 1 || len(d.off) != quotaMax {
		t.Errorf("next at %s, %d URLs are left, %d put off", wake, len(d.wants), len(d.off))
	}
}

// The state of a URL of another agent's host goes there. If it cannot be sent now, the URL is wanted again later. No
// such URL is queued.
func TestPlanMovesStates(t *testing.T) {
	now := time.Now()
	for full, want := range map[bool]string{false: "[] [a.example state]", true: "[1s] []"} {
		d := &diary{stubborn: stubborn{wants: []*visit.Wanted{wanted("http://a.example/1", new(visit.Before)),
			wanted("http://b.example/1", new(visit.Before))}}}
		others := &agents{owned: map[string]string{"a.example": "other"}, full: full}
		b := on(t, testdisk.NewMem(), planned(d), func(b *bench, _ *visit.Parts, _ *testparts.Config) {
			b.cluster.Owners, b.cluster.Moves = others, others
		})
		b.plan.want(now, nil)
		off := []time.Duration{}
		for _, at := range d.off {
			off = append(off, at.Sub(now))
		}
		if got := fmt.Sprint(off, others.carried); got != want || b.Frontier.Len() != 1 ||
			b.plan.before(foundAt("http://a.example/1").Key()) != nil {
			t.Errorf("put off and sent: %s, %d are queued; want %s", got, b.Frontier.Len(), want)
		}
	}
}

// A URL that leaves its queue goes back to the Planner, if that wants it again.
func TestPlanTakesURLsBack(t *testing.T) {
	now := time.Now()
	for name, p := range map[string]visit.Planner{"diary": new(diary), "stubborn": new(stubborn)} {
		b := on(t, testdisk.NewMem(), planned(p))
		list := []*visit.Wanted{wanted("http://a.example/1", new(visit.Before)), wanted("http://a.example/2",
			new(visit.Before))}
		d, postpones := p.(*diary)
		if postpones {
			d.wants = list
		} else {
			p.(*stubborn).wants = list
		}
		b.plan.want(now, nil)
		off, err := b.plan.putOff(foundAt("http://a.example/1"), now.Add(time.Minute))
		if err != nil || off != postpones || (b.plan.before(foundAt("http://a.example/1").Key()) == nil) != off {
			t.Errorf("%s: put off %v, %v", name, off, err)
		}
		if off, err := b.plan.putOff(foundAt("http://a.example/3"), now); off || err != nil {
			t.Errorf("%s: a URL that nobody wants is put off", name)
		}
		b.plan.leaves(foundAt("http://a.example/2"), now)
		if b.plan.before(foundAt("http://a.example/2").Key()) != nil || b.run.Failed() {
			t.Errorf("%s: a URL that has left is still wanted", name)
		}
		if postpones && (!d.off["http://a.example/1"].Equal(now.Add(time.Minute)) ||
			!d.off["http://a.example/2"].Equal(now)) {
			t.Errorf("put off to %v", d.off)
		}
		b.plan.forget("a.example", now)
		if b.plan.retry(weburl.MustParse("http://a.example/")); postpones && len(d.forgot) != 2 {
			t.Errorf("told to forget %v", d.forgot)
		}
	}
}

// The state that another agent had is kept if the Planner can read it; otherwise it is left out, and the crawl goes on.
func TestPlanRemembers(t *testing.T) {
	p := new(stubborn)
	b := on(t, testdisk.NewMem(), planned(p))
	if b.plan.remember(foundAt("http://a.example/1"), []byte("bad")) || b.plan.kept || b.run.Failed() {
		t.Errorf("an unreadable state: kept %v, %v", b.plan.kept, b.run.Err())
	}
	before := b.run.Activity()
	if !b.plan.remember(foundAt("http://a.example/1"), []byte("good")) || !b.plan.kept || b.run.Activity() == before {
		t.Errorf("a state: kept %v", b.plan.kept)
	}
	p.err = errors.New("broken")
	if b.plan.remember(foundAt("http://a.example/1"), []byte("good")) || !errors.Is(b.run.Err(), p.err) {
		t.Errorf("an error of the Planner: %v", b.run.Err())
	}
	if b.plan.restore(foundAt("http://a.example/1"), []byte("bad")) == nil || b.plan.restored != 1 {
		t.Error("the own journal has a state that cannot be read, and the run begins")
	}
	if none := on(t, testdisk.NewMem()); none.plan.remember(foundAt("http://a.example/1"), []byte("good")) {
		t.Error("a crawl without a Planner remembers")
	}
}
