package crawl

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// When the agents change, so do the hosts that each has. A host is crawled by
// one agent at a time, and by the next one only when those who may have had it
// have said what they know.
//
//	before:  its turn comes, it is another's -> given away: links -> outbox
//	after:   its turn comes, it is ours anew -> held -> Claim -> before
//	before:  in process? again, later; else given away, what is finished -> Hand
//	after:   told by all -> crawled
//
// Who gives a host away sends its pending links as any others' links; what is
// finished of it the next one asks for (Claim) and is told (Hand). Both may be
// repeated: who has given a host away goes on knowing what was finished, and who
// is told twice knows it already. So a kill on either side costs nothing but
// time. After a start everything is claimed anew: others may have had it.
//
// A blocked host has no turn. The agent gives it away when the owners change, and keeps
// its block until the new owner has it durably.
//
// A link that waits here and was finished elsewhere is given up when its turn
// comes (elsewhere).

// Tenancy moves hosts between agents. Safe for concurrent use.
type Tenancy interface {
	// Tenure says whose a host is, and if it is ours, since when without a break:
	// another number than at any earlier tenure; 0 is since the crawl began.
	Tenure(host string) (owner string, mine bool, since uint64)
	// Before are the agents that may know of a host of ours, the most likely
	// first, and of how many the answer is wanted.
	Before(host string) (agents []string, enough int)
	// View identifies the agents that Tenure and Before speak of: two agents
	// with the same View see the same agents in the same states. When it
	// changes, Crawler.ViewChanged is to be called.
	View() uint64
	// Had reports what this agent may know of a host that is another agent's.
	// ever: it has owned the host, or has taken over from a lost agent. began: it
	// owned the host when the crawl began.
	Had(host string) (ever, began bool)
	// Inheriting reports whether this agent has yet to take over what a lost
	// agent had. At its end, Crawler.ViewChanged is to be called.
	Inheriting() bool
	// Identity is the name of an agent and of its crawl directory.
	Identity(agent string) string
	// Claim asks an agent for hosts, for the asker's View. Without an error there
	// is a verdict for each.
	Claim(ctx context.Context, agent string, view uint64, hosts []string) ([]Verdict, error)
	// Hand gives an agent what is finished of hosts, and returns nil when it is
	// durable there.
	Hand(ctx context.Context, agent string, parts iter.Seq[Part]) error
}

// A Verdict is the answer to a claim of a host.
type Verdict uint8

// The verdicts.
const (
	// Nothing is left to be told. The agent has crawled the host, so it knew all
	// that was finished then.
	Nothing Verdict = 1 + iota
	// Coming: a Hand is on its way; ask again.
	Coming
	// Again: the host is in process, the agent sees other agents than the asker,
	// or it has yet to take over what a lost agent had. Ask again.
	Again
	// Stranger: the agent has nothing to tell, and has never crawled the host in
	// this run. Ask another agent as well.
	Stranger
)

// A Part is some of what is known of a host. Parts of a host come together, its
// Last one last.
type Part struct {
	Host  string
	Keys  keyset.List // of URLs that are finished
	Clock *Clock
	Last  bool
}

// A Clock is what a host's next agent must not forget. There are no times in it:
// no two machines' clocks are compared.
type Clock struct {
	Delay     time.Duration // the host's own wish
	Quiet     time.Duration // no request for so long
	SlowFor   time.Duration // how long the last pause goes on
	Slow      uint8         // pauses not yet forgiven
	Blocked   bool          // by the operator
	unchanged bool          // nothing is worth telling
}

func quietOf(st frontier.HostState, blocked bool, now time.Time) Clock {
	k := Clock{Delay: st.Delay, Slow: st.Slow, Blocked: blocked}
	if !st.NotBefore.IsZero() {
		k.Quiet = max(st.NotBefore.Sub(now), 0)
	}
	if !st.SlowUntil.IsZero() {
		k.SlowFor = max(st.SlowUntil.Sub(now), 0)
	}
	k.unchanged = k.Delay == 0 && k.Quiet == 0 && k.Slow == 0 && !blocked
	return k
}

// state is the clock as a frontier restores it.
func (k Clock) state(host string, now time.Time) frontier.HostState {
	st := frontier.HostState{Host: host, Delay: k.Delay, Slow: k.Slow, Blocked: k.Blocked}
	if k.Quiet > 0 {
		st.NotBefore = now.Add(k.Quiet)
	}
	if k.Slow > 0 {
		st.SlowUntil = now.Add(k.SlowFor)
	}
	return st
}

// tenants is what concerns hosts that move. The dispatcher owns it.
type tenants struct {
	handed map[uint64]handed // hosts that were given away, by key
	done   []weburl.Key      // finished, and seen has not been told yet

	// As the next agent:
	view      uint64                // counts changes
	claimed   map[uint64]uint64     // hosts that may be crawled, or might be, and since when they were ours then
	held      map[string]*inquiry   // that may not, though links wait
	lines     map[string]*line      // agents to be asked
	inherited map[string]Clock      // of hosts that are not crawled yet
	elsewhere map[uint64]*elsewhere // links that wait, and are finished elsewhere

	// As the agent before:
	given  map[uint64]string // who has been told all that is finished of a host
	clocks map[string]frontier.HostState
	giving map[string]*handoffQueue // by agent
	ready  bool                     // some of it may go now
	blocks bool                     // blocked hosts of other agents may be here
	tried  time.Time                // when they were given away last

	leaving leaving

	n report.Moves
}

// moves is what has moved; nil: nothing does.
func (c *Crawler) moves() *report.Moves {
	if c.Tenancy == nil {
		return nil
	}
	n := c.tenants.n
	n.Held = len(c.tenants.held)
	return &n
}

func (t *tenants) init() {
	*t = tenants{
		handed: map[uint64]handed{}, claimed: map[uint64]uint64{}, held: map[string]*inquiry{},
		lines:     map[string]*line{},
		inherited: map[string]Clock{}, elsewhere: map[uint64]*elsewhere{}, given: map[uint64]string{},
		clocks: map[string]frontier.HostState{}, giving: map[string]*handoffQueue{},
	}
}

// settled says that no host is on its way.
func (t *tenants) settled() bool {
	if len(t.held) > 0 || t.blocks {
		return false
	}
	for _, g := range t.giving {
		if g.busy || len(g.hosts) > 0 {
			return false
		}
	}
	return true
}

// elsewhere are links of one host that wait here and are finished elsewhere.
type elsewhere struct {
	paths
	left int
}

// isElsewhere says whether a link that waits is to be given up, once for each.
func (c *Crawler) isElsewhere(k weburl.Key) bool {
	e := c.tenants.elsewhere[k.Host]
	if e == nil || !e.has(keyset.WholeKey, k.Path) {
		return false
	}
	if e.left--; e.left <= 0 {
		delete(c.tenants.elsewhere, k.Host)
	}
	return true
}

// read takes the records of the journal.
func (t *tenants) read(kind byte, p []byte) error {
	if kind == kindHanded {
		host, h, err := decodeHanded(p)
		if err == nil {
			t.handed[host] = h
		}
		return err
	}
	host, l, err := decodeList(p)
	if err == nil {
		t.absent(host, func(s *paths) { s.add(l) })
	}
	return err
}

// absent adds to what is finished elsewhere of a host.
func (t *tenants) absent(host uint64, add func(*paths)) {
	e := t.elsewhere[host]
	if e == nil {
		e = &elsewhere{}
		t.elsewhere[host] = e
	}
	add(&e.paths)
	e.order()
	e.left = e.n
}

// put writes it into a checkpoint.
func (t *tenants) put(put func(kind byte, p []byte) error) error {
	for host, h := range t.handed {
		if err := put(kindHanded, appendHanded(nil, host, h)); err != nil {
			return err
		}
	}
	for host, e := range t.elsewhere {
		for _, l := range e.lists {
			for part := range slices.Chunk(l.Paths, keysPiece) {
				if err := put(kindAbsent, appendList(nil, host, keyset.List{Width: l.Width, Paths: part})); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// recoverAway is asked for each pending link of an earlier run: those of a host
// that was given away after them go to whose it is, and those that are finished
// elsewhere are given up.
func (c *Crawler) recoverAway(l weburl.Link, number uint64) (away bool, err error) {
	k := l.URL.Key()
	if h, ok := c.tenants.handed[k.Host]; ok && number <= h.last {
		return true, c.Outbox.PushLoose(number, l.AppendTo(nil))
	}
	if e := c.tenants.elsewhere[k.Host]; e != nil && e.has(keyset.WholeKey, k.Path) {
		// Not in the midst of the replay: they leave when they are routed.
		return true, c.Outbox.PushLoose(number, l.AppendTo(nil))
	}
	return false, nil
}

// recoverTenancy ends the recovery: lists says that seen may want those of the
// journal.
func (c *Crawler) recoverTenancy(lists bool) error {
	if !lists {
		return nil
	}
	err := c.Seen.Insert(func(add func(uint64, keyset.List) error) error {
		_, err := journal.ReplayWithout(c.fs, c.dir, func(p journal.Part) bool {
			kind, _, _, err := parseLabel(p.Label)
			return err == nil && kind != kindKeys
		}, func(kind byte, p []byte) error {
			if kind != kindList {
				return nil
			}
			host, l, err := decodeList(p)
			if err != nil {
				return err
			}
			return add(host, l)
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("seen: %w", err)
	}
	c.append() // what it emitted
	return c.fatal
}

// mayVisit says whether t, just taken from the frontier, may be visited; else it
// has been put away.
func (c *Crawler) mayVisit(t *frontier.Task, now time.Time) bool {
	if isErrand(t.Link) { // asked for by hosts that are ours
		return true
	}
	k := t.Link.URL.Key()
	owner, mine, since := c.Tenancy.Tenure(t.Host)
	done := frontier.Done{NoRequest: true}
	switch {
	case mine && c.isTenant(k.Host, since):
		if !c.isElsewhere(k) {
			return true
		}
		c.giveUpElsewhere(t)
	default:
		back := t.Link
		done.Again, done.Attempt = &back, t.Attempt
	}
	if c.fatal == nil {
		c.fatal = c.Frontier.Done(t.Host, done, now)
	}
	switch {
	case c.fatal != nil || done.Again == nil:
	case mine || owner == "":
		c.hold(t.Host, mine, since)
	default:
		c.giveAway(strings.Clone(t.Host), owner, now)
	}
	return false
}

// isTenant says that a host may be crawled, which is ours since then.
func (c *Crawler) isTenant(host, since uint64) bool {
	return since == 0 || c.tenants.claimed[host] == since
}

// giveUpElsewhere ends a link that was finished elsewhere: it counts for nothing.
func (c *Crawler) giveUpElsewhere(t *frontier.Task) {
	c.remote.activity++
	number := c.forget(t.Link.URL.Key(), t.Number)
	if number > 0 {
		c.endSent([]uint64{number}, true)
	}
}

// forget lets go of what is known of a link that waits; it says which number its
// accept has.
func (c *Crawler) forget(k weburl.Key, number uint64) uint64 {
	if n, ok := c.requeued[k]; ok {
		number = n
		delete(c.requeued, k)
	}
	delete(c.attempts, k)
	c.retrying.forget(k)
	return number
}

// giveAway gives a host to another agent, unless it is in process: its links go
// to the outbox, in a while, and its own keys are left behind.
func (c *Crawler) giveAway(host, to string, now time.Time) (given bool) {
	key := weburl.HostKey(host)
	st, err := c.Frontier.HandOver(host)
	if err != nil {
		if !errors.Is(err, frontier.ErrInProcess) {
			c.fatal = fmt.Errorf("frontier: %w", err)
		}
		return false
	}
	c.letGo(host)
	t := &c.tenants
	c.remote.activity++
	var its []frontier.Waiting
	c.later = slices.DeleteFunc(c.later, func(d delayed) bool {
		mine := d.link.URL.Host() == host
		if mine {
			its = append(its, frontier.Waiting{Link: d.link, Number: d.number, Attempt: d.attempt})
		}
		return mine
	})
	heap.Init(&c.later)
	if err := c.Frontier.PushWithdrawn(its); err != nil {
		c.fatal = fmt.Errorf("frontier: %w", err)
		return false
	}
	h := t.handed[key]
	h.gen, h.apart, h.last = h.gen+1, true, c.accepted
	c.setHanded(key, h)
	c.append()
	if !quietOf(st, c.isBlocked(host), now).unchanged {
		t.clocks[host] = st
	}
	delete(t.elsewhere, key)
	delete(t.given, key)
	delete(t.held, host)
	t.n.Given++
	c.give(host, to)
	return true
}

func (c *Crawler) setHanded(host uint64, h handed) {
	c.tenants.handed[host] = h
	c.batch.add(kindHanded, appendHanded(nil, host, h))
}

// sendAway puts a link that was withdrawn from a host that was given away into
// the outbox.
func (c *Crawler) sendAway(w frontier.Waiting) error {
	k := w.Link.URL.Key()
	number := c.forget(k, w.Number)
	if _, ok := c.revisiting[k]; ok {
		c.revisited(w.Link.URL)
	}
	if number == 0 {
		return nil // it is finished
	}
	c.tenants.n.LinksOut++
	c.leavesFor(number)
	return c.post(number, w.Link.URL, 0, w.Link.AppendTo(nil))
}

// resettle begins anew after a change of the view.
func (c *Crawler) resettle() {
	if c.Tenancy == nil {
		return
	}
	t := &c.tenants
	t.view++
	t.blocks = true
	c.remote.activity++
	for host := range t.held {
		c.unhold(host)
	}
	for _, l := range t.lines {
		l.hosts, l.again = nil, nil
	}
	// Whoever names a link again is to be heard: its agent may be gone, and it
	// with it.
	c.known.forget()
}

// unhold lets a host's turn come.
func (c *Crawler) unhold(host string) {
	delete(c.tenants.held, host)
	if !c.isBlocked(host) {
		c.Frontier.Unblock(host)
	}
}

// settleIn asks for hosts and gives hosts away. wake is when there is more to do.
func (c *Crawler) settleIn(work context.Context, now time.Time) (wake time.Time) {
	wake = earlier(c.leaveOn(now), c.giveBlocked(now))
	wake = earlier(wake, c.askAround(work, now))
	return earlier(wake, c.giveOut(work, now))
}

// giveBlocked gives blocked hosts to their new owners: such a host has no turn at which
// it could be given away. wake is when to try again.
func (c *Crawler) giveBlocked(now time.Time) (wake time.Time) {
	t := &c.tenants
	if !t.blocks || c.fatal != nil {
		return time.Time{}
	}
	if next := t.tried.Add(claimWait); next.After(now) {
		return next
	}
	t.blocks, t.tried = false, now
	for _, host := range *c.blocked.Load() {
		owner, mine, _ := c.Tenancy.Tenure(host)
		switch {
		case mine || owner == "":
		case c.emptyRange(c.ownKey(weburl.Key{Host: weburl.HostKey(host)}).Host):
			c.give(host, owner)
		case !c.giveAway(host, owner, now): // a request is under way
			t.blocks, wake = true, now.Add(claimWait)
		}
		if c.fatal != nil {
			return time.Time{}
		}
	}
	return wake
}

func (c *Crawler) tellMoves(name string, agent string, hosts int, keys int64) {
	c.Events.Write(name, report.F("agent", agent), report.F("hosts", hosts), report.F("keys", keys))
}
