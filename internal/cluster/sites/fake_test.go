package sites

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

const (
	c1, c2, c3 = "192.0.2.1:7480", "192.0.2.2:7480", "192.0.2.3:7480"
	latency    = 10 * time.Millisecond
)

var errAway = errors.New("connection refused")

// A fake is a group of coordinators. It implements Source.
type fake struct {
	mu      sync.Mutex // guards the fields below
	leader  string
	hint    bool            // the others know the leader
	away    map[string]bool // refuse connections
	mute    map[string]bool // never answer
	entries []assignment.Entry
	news    chan struct{} // closed with the next entry
	members []assignment.Member
	known   map[string]bool
	dead    map[string]int          // how often a host is still dead
	lookup  time.Duration           // until a host is assigned
	max     int                     // entries in an answer; 0: all
	mangle  func(*Answer)           // changes answers
	fail    map[string]func() error // an error for a coordinator
	asked   map[string]int          // hosts of Discover, with repetitions
	calls   int                     // of Discover
	follows map[string]int          // by address
	last    map[string]Question     // by address
	verdict func(vs []Decision) []Decision
	group   [16]byte
}

func newFake(agents ...string) *fake {
	f := &fake{leader: c1, hint: true, away: map[string]bool{}, mute: map[string]bool{}, news: make(chan struct{}),
		known: map[string]bool{}, dead: map[string]int{}, lookup: 20 * time.Millisecond, asked: map[string]int{},
		follows: map[string]int{}, last: map[string]Question{}, fail: map[string]func() error{}}
	for _, name := range agents {
		f.members = append(f.members, assignment.Member{Name: name, Instance: [16]byte{1}, Boot: 1, Capacity: 1,
			Addr: "192.0.2.9:7470", State: assignment.Up})
	}
	f.roster()
	return f
}

// change changes the fake.
func (f *fake) change(fn func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn()
}

// knocks returns the number of calls of Follow.
func (f *fake) knocks() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.follows[c1] + f.follows[c2] + f.follows[c3]
}

// add appends an entry. The caller holds the lock, or is alone.
func (f *fake) add(e assignment.Entry) {
	e.Number = uint64(len(f.entries)) + 1
	f.entries = append(f.entries, e)
	close(f.news)
	f.news = make(chan struct{})
}

func (f *fake) roster() {
	r := &assignment.Roster{Term: uint64(len(f.entries)) + 1, Members: slices.Clone(f.members)}
	f.add(assignment.Entry{Roster: r})
}

// assign assigns hosts, one after the other to the next agent.
func (f *fake) assign(hosts ...string) {
	shares := map[string][]string{}
	for _, h := range hosts {
		if f.known[h] {
			continue
		}
		agent := f.members[len(f.known)%len(f.members)].Name
		f.known[h] = true
		shares[agent] = append(shares[agent], h)
	}
	var e assignment.Entry
	for _, agent := range slices.Sorted(maps.Keys(shares)) {
		slices.Sort(shares[agent])
		e.Shares = append(e.Shares, assignment.Share{Agent: agent, Hosts: shares[agent]})
	}
	if len(e.Shares) > 0 {
		f.add(e)
	}
}

// call returns the error of a call of addr.
func (f *fake) call(ctx context.Context, addr string) error {
	clock.Pause(ctx, latency)
	f.mu.Lock()
	mute := f.mute[addr]
	f.mu.Unlock()
	if mute {
		<-ctx.Done()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case f.away[addr]:
		return errAway
	case f.fail[addr] != nil:
		return f.fail[addr]()
	case f.leader != addr && f.hint:
		return &NotLeader{f.leader}
	case f.leader != addr:
		return &NotLeader{}
	}
	return nil
}

// isOther reports whether a group is not that of the fake.
func (f *fake) isOther(group [16]byte) bool {
	return group != [16]byte{} && f.group != [16]byte{} && group != f.group
}

// Follow implements Source, for agent a.
func (f *fake) Follow(ctx context.Context, addr string, q Question) (Answer, error) {
	f.change(func() { f.follows[addr]++; f.last[addr] = q })
	if err := f.call(ctx, addr); err != nil {
		return Answer{}, err
	}
	f.mu.Lock()
	news, none := f.news, uint64(len(f.entries)) < q.From && !f.isOther(q.Group)
	f.mu.Unlock()
	if none {
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		select {
		case <-news:
		case <-timer.C:
		case <-ctx.Done():
			return Answer{}, ctx.Err()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	ans := Answer{Last: uint64(len(f.entries)), Stamp: q.Stamp + 1, Group: f.group}
	if f.isOther(q.Group) {
		return ans, nil
	}
	for i := range f.entries {
		e := &f.entries[i]
		if e.Roster != nil {
			ans.Term = e.Number
			m, ok := e.Roster.Member("a")
			ans.Member = ok && m.State == assignment.Up
		}
		if e.Number >= q.From && (f.max == 0 || e.Number < q.From+uint64(f.max)) {
			ans.Entries = e.AppendTo(ans.Entries)
		}
	}
	if f.mangle != nil {
		f.mangle(&ans)
	}
	return ans, nil
}

func (f *fake) Discover(ctx context.Context, addr string, hosts []string, how assignment.How) ([]Decision, error) {
	if err := f.call(ctx, addr); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	vs := make([]Decision, len(hosts))
	var fresh []string
	for i, h := range hosts {
		f.asked[h]++
		switch {
		case f.known[h]:
			vs[i].State = Assigned
		case f.dead[h] > 0 && how == assignment.LookedUp:
			f.dead[h]--
			vs[i] = Decision{Dead, 30 * time.Second}
		default:
			vs[i].State = Coming
			fresh = append(fresh, h)
		}
	}
	if len(fresh) > 0 && f.lookup >= 0 {
		time.AfterFunc(f.lookup, func() { f.change(func() { f.assign(fresh...) }) })
	}
	if f.verdict != nil {
		vs = f.verdict(vs)
	}
	return vs, nil
}

// A subject is a Sites that runs, as agent a. It implements Listener.
type subject struct {
	*Sites
	t    *testing.T
	disk *testdisk.Mem
	cfg  Config
	stop func() error // stops it, and returns the error of Run

	mu      sync.Mutex
	told    map[string]time.Duration // hosts that Assigned has named, and when
	drained int
	rosters []uint64
	began   time.Time
	events  []string
}

func (a *subject) Assigned(hosts []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range hosts {
		a.told[h] = time.Since(a.began)
	}
}

func (a *subject) Overflowed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drained++
}

func (a *subject) Changing(*assignment.Roster) {}

func (a *subject) Changed(r *assignment.Roster) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rosters = append(a.rosters, r.Term)
}

func (a *subject) Event(name string, _ ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, name)
}

// start starts agent a. configure may change its configuration.
func start(t *testing.T, f *fake, disk *testdisk.Mem, configure func(*Config)) *subject {
	t.Helper()
	a := &subject{t: t, disk: disk, told: map[string]time.Duration{}, began: time.Now()}
	a.cfg = Config{FS: disk, Dir: "sites", Self: Self{"a", [16]byte{1}, 1}, Coordinators: []string{c1, c2, c3},
		Source: f, MemoryBytes: 1 << 20,
		Listener: a}
	if configure != nil {
		configure(&a.cfg)
	}
	s, err := Open(a.cfg)
	must.Do(t, err)
	a.Sites = s
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	a.stop = sync.OnceValue(func() error {
		cancel()
		err := <-done
		if cerr := s.Close(); err == nil {
			err = cerr
		}
		return err
	})
	return a
}

// when returns when Assigned has named a host; negative: not yet.
func (a *subject) when(host string) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at, ok := a.told[host]; ok {
		return at
	}
	return -1
}

// sleep lets the virtual time pass.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
