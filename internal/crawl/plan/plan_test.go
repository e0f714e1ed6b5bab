package plan

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func TestMain(m *testing.M) {
	AgainMax = 40
	goleak.VerifyTestMain(m)
}

// A bench is a Plan with parts of its own, which note what they are told. It implements Ledger, Queues and Archive.
type bench struct {
	Plan
	queue    []string // URLs with the numbers that they shall have
	archived []string // URLs of earlier records
	records  int
}

func on(p visit.Planner, others *agents) *bench {
	b := new(bench)
	parts := Parts{Planner: p, Run: run.New(), Ledger: b, Queues: b, Archive: b}
	if others != nil {
		parts.Owners, parts.Moves = others, others
	}
	b.Plan = New(parts)
	return b
}

func (b *bench) Add(byte, []byte) { b.records++ }

func (b *bench) Requeue(l link.Link, number uint64) error {
	b.queue = append(b.queue, fmt.Sprint(l.URL, " ", number))
	return nil
}

func (b *bench) RememberRecord(_ [20]byte, at warc.Original) { b.archived = append(b.archived, at.URL) }

func foundAt(url string) link.Link {
	return link.Link{URL: weburl.MustParse(url), Via: "http://a.example/", Hops: "L"}
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
	b := on(d, &agents{recalls: "b.example"})
	var in []string
	wake := b.Want(now, func(l link.Link) { in = append(in, l.URL.String()) })
	if !wake.Equal(d.wake) || !b.Wake.Equal(d.wake) || !slices.Equal(in, []string{"http://a.example/1"}) {
		t.Errorf("accepted %v, next at %s, want %s", in, wake, d.wake)
	}
	d.err = errors.New("broken")
	if wake := b.Want(now, nil); !wake.IsZero() || !errors.Is(b.Run.Err(), d.err) {
		t.Errorf("next at %s, the run: %v", wake, b.Run.Err())
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
func (a *agents) Recall(l link.Link) bool { return l.URL.Host() == a.recalls }

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
	b := on(p, nil)
	b.Want(now, nil)
	k := foundAt("http://a.example/1").Key()
	if b.Before(k) != before || !slices.Equal(b.queue, []string{"http://a.example/1 0"}) {
		t.Fatalf("before %v, the queue has %v", b.Before(k), b.queue)
	}
	v := new(visit.Attempt)
	v.Reset(frontier.Task{Link: foundAt("http://a.example/1")})
	v.Plan().Before, v.Plan().Print, v.Response.Status = before, 7, 200
	var f state.Finish
	b.Visited(v, &f, now)
	if told := p.visited[0]; !told.Again || !told.Unchanged || string(f.State) != "new" ||
		f.Flags&(state.FlagAgain|state.FlagUnchanged|state.FlagUnknown) != state.FlagAgain|state.FlagUnchanged {
		t.Errorf("told %+v, flags %b", told, f.Flags)
	}
	if b.Before(k) != nil || len(b.hosts) != 0 {
		t.Error("the URL is still wanted")
	}
	if !slices.Equal(b.archived, []string{before.Original.URL}) {
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
		b := on(p, nil)
		if c.before != nil {
			p.wants = []*visit.Wanted{wanted("http://a.example/1", c.before)}
			b.Want(time.Now(), nil)
		}
		v := new(visit.Attempt)
		v.Reset(frontier.Task{Link: c.link})
		v.Plan().Before, v.Plan().Print, v.Response.Status = c.before, c.print, c.status
		v.Plan().Validators.ETag = "new"
		var f state.Finish
		b.Visited(v, &f, time.Now())
		if told := len(p.visited) == 1; told != c.told || string(f.State) != map[bool]string{true: "s"}[told] ||
			uint8(f.Flags) != c.flags {
			t.Errorf("%s: told %v, state %q, flags %b, want %b", c.name, told, f.State, f.Flags, c.flags)
		} else if told && (p.visited[0].Response.Print != c.answer || p.visited[0].Response.If.ETag != "new") {
			t.Errorf("%s: told %+v", c.name, p.visited[0].Response)
		}
	}
	b := on(&stubborn{err: errors.New("broken")}, nil)
	v := new(visit.Attempt)
	v.Reset(frontier.Task{Link: foundAt("http://a.example/1")})
	if b.Visited(v, new(state.Finish), time.Now()); !b.Run.Failed() {
		t.Error("the run goes on after an error of the Planner")
	}
}

// The URLs that are queued again are bounded, and one host does not take all places: the rest is put off, each to a
// later time, and a URL that has just become due waits behind those.
func TestPlanIsBounded(t *testing.T) {
	now, d := time.Now(), new(diary)
	b := on(d, nil)
	want := func(host string, n int, returned bool) {
		for i := range n {
			w := wanted(fmt.Sprintf("http://%s.example/%d", host, i), new(visit.Before))
			w.Returned = returned
			d.wants = append(d.wants, w)
		}
		b.Want(now, nil)
	}
	want("whale", 100, false)
	if n, off := len(b.again), len(d.off); n != AgainMax/2 || off != 100-AgainMax/2 {
		t.Errorf("%d URLs of one host are queued, %d put off, of %d in all", n, off, AgainMax)
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
	if n := len(b.again); n != AgainMax {
		t.Errorf("%d URLs are queued, want %d", n, AgainMax)
	}
	for host, h := range b.hosts {
		if host != "whale.example" && h.queued > hostAgainLess {
			t.Errorf("%s: %d URLs are queued", host, h.queued)
		}
	}
	if len(d.wants) == 0 {
		t.Error("the Planner is asked although there is no room")
	}
	// When visits have ended, a URL that returns goes before one that is new.
	d.wants = nil
	for k := range b.again {
		delete(b.again, k)
	}
	b.hosts["whale.example"].queued, d.off = 0, nil
	want("whale", 1, false)
	if want("whale", 1, true); len(d.off) != 1 || len(b.again) != 1 {
		t.Errorf("%d are put off, %d are queued; want the one that returned to be queued", len(d.off),
			len(b.again))
	}
}

// After many URLs that cannot be visited now, the dispatcher does other work first.
func TestPlanTakesTurns(t *testing.T) {
	now, d := time.Now(), new(diary)
	others := &agents{owned: map[string]string{"a.example": "other"}, full: true}
	b := on(d, others)
	for i := range quotaMax + 1 {
		d.wants = append(d.wants, wanted(fmt.Sprintf("http://a.example/%d", i), new(visit.Before)))
	}
	if wake := b.Want(now, nil); !wake.Equal(now) || len(d.wants) != 1 || len(d.off) != quotaMax {
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
		b := on(d, others)
		b.Want(now, nil)
		off := []time.Duration{}
		for _, at := range d.off {
			off = append(off, at.Sub(now))
		}
		if got := fmt.Sprint(off, others.carried); got != want || len(b.queue) != 1 ||
			b.Before(foundAt("http://a.example/1").Key()) != nil {
			t.Errorf("put off and sent: %s, %d are queued; want %s", got, len(b.queue), want)
		}
	}
}

// A URL that leaves its queue goes back to the Planner, if that wants it again.
func TestPlanTakesURLsBack(t *testing.T) {
	now := time.Now()
	for name, p := range map[string]visit.Planner{"diary": new(diary), "stubborn": new(stubborn)} {
		b := on(p, nil)
		list := []*visit.Wanted{wanted("http://a.example/1", new(visit.Before)), wanted("http://a.example/2",
			new(visit.Before))}
		d, postpones := p.(*diary)
		if postpones {
			d.wants = list
		} else {
			p.(*stubborn).wants = list
		}
		b.Want(now, nil)
		off, err := b.PutOff(foundAt("http://a.example/1"), now.Add(time.Minute))
		if err != nil || off != postpones || (b.Before(foundAt("http://a.example/1").Key()) == nil) != off {
			t.Errorf("%s: put off %v, %v", name, off, err)
		}
		if off, err := b.PutOff(foundAt("http://a.example/3"), now); off || err != nil {
			t.Errorf("%s: a URL that nobody wants is put off", name)
		}
		b.Leaves(foundAt("http://a.example/2"), now)
		if b.Before(foundAt("http://a.example/2").Key()) != nil || b.Run.Failed() {
			t.Errorf("%s: a URL that has left is still wanted", name)
		}
		if postpones && (!d.off["http://a.example/1"].Equal(now.Add(time.Minute)) ||
			!d.off["http://a.example/2"].Equal(now)) {
			t.Errorf("put off to %v", d.off)
		}
		b.Forget("a.example", now)
		if b.Retry(weburl.MustParse("http://a.example/")); postpones && len(d.forgot) != 2 {
			t.Errorf("told to forget %v", d.forgot)
		}
	}
}

// The state that another agent had is kept if the Planner can read it; otherwise it is left out, and the crawl goes on.
func TestPlanRemembers(t *testing.T) {
	p := new(stubborn)
	b := on(p, nil)
	if b.Remember(foundAt("http://a.example/1"), []byte("bad")) || b.Kept || b.Run.Failed() {
		t.Errorf("an unreadable state: kept %v, %v", b.Kept, b.Run.Err())
	}
	before := b.Run.Activity()
	if !b.Remember(foundAt("http://a.example/1"), []byte("good")) || !b.Kept || b.Run.Activity() == before {
		t.Errorf("a state: kept %v", b.Kept)
	}
	p.err = errors.New("broken")
	if b.Remember(foundAt("http://a.example/1"), []byte("good")) || !errors.Is(b.Run.Err(), p.err) {
		t.Errorf("an error of the Planner: %v", b.Run.Err())
	}
	if b.Restore(foundAt("http://a.example/1"), []byte("bad")) == nil || b.Restored != 1 {
		t.Error("the own journal has a state that cannot be read, and the run begins")
	}
	if none := on(nil, nil); none.Remember(foundAt("http://a.example/1"), []byte("good")) {
		t.Error("a crawl without a Planner remembers")
	}
}
