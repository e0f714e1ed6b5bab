package sites

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Self identifies this agent.
type Self struct {
	Name     string
	Instance [16]byte
	Boot     uint64 // counts the starts of the instance, from 1
}

// Config configures a Sites.
type Config struct {
	FS   disk.FS
	Dir  string // belongs to the Sites
	Self Self
	// Coordinators are the addresses of all coordinators.
	Coordinators []string
	Source       Source
	// MemoryBytes bounds the RAM of the cache and of the table: a quarter is the cache's, at 18.3 bytes a host.
	// Zero means 64 MiB.
	MemoryBytes int64
	// Waiting is the most hosts that wait for an answer at a time. Zero means 131,072, at about 200 bytes each.
	Waiting  int
	Clock    clock.Clock // nil means clock.System
	Listener Listener    // nil: nobody is told
}

// A Listener is told what changes. Run calls its methods, one at a time. They may call all methods but Lookup.
type Listener interface {
	// Assigned receives hosts whose owner was asked for, and may be known now.
	Assigned(hosts []string)
	// Overflowed tells that some hosts found no room to wait, and that there is room now: ask for them again.
	Overflowed()
	// Changing tells of a roster that takes effect when Changing has returned. Changed tells that it has.
	Changing(*assignment.Roster)
	Changed(*assignment.Roster)
	// Event receives what a person may want to know, with pairs of names and values.
	Event(name string, fields ...any)
}

// A Sites says which agent owns which host. All methods but Run and Close are safe for concurrent use.
// It implements cluster.Placement.
type Sites struct {
	cfg    Config
	right  *Right
	cache  *cache
	asker  *asker
	owners atomic.Pointer[owners]

	applies chan *applying
	lookups chan *lookup
	over    chan struct{} // closed when Run has ended

	// Run's first goroutine owns the fields below.
	table   *table
	open    map[uint64]*lookup // under way, by number
	queued  []*lookup          // wait until the table has been read again
	base    uint64             // number of the next lookup
	highest uint64             // number of the last entry that was ever applied

	number  atomic.Uint64 // of the last entry that was applied
	group   atomic.Pointer[[16]byte]
	stats   atomic.Pointer[drum.Stats]
	rebuilt atomic.Int64
	source  following
}

// ErrOver reports that Run has ended.
var ErrOver = errors.New("the agent no longer follows the coordinators")

// Open opens the table.
func Open(cfg Config) (*Sites, error) {
	cfg.MemoryBytes = cmp.Or(cfg.MemoryBytes, 64<<20)
	cfg.Waiting = cmp.Or(cfg.Waiting, 1<<17)
	cfg.Clock = clock.Or(cfg.Clock)
	s := &Sites{
		cfg: cfg, right: NewRight(cfg.Clock.Now()), cache: newCache(cfg.MemoryBytes / 4), asker: newAsker(cfg.Waiting),
		applies: make(chan *applying), lookups: make(chan *lookup), over: make(chan struct{}),
		open: map[uint64]*lookup{}, base: rand.Uint64(),
	}
	s.source.init(cfg.Coordinators)
	var err error
	if s.table, err = openTable(cfg.FS, cfg.Dir, cfg.MemoryBytes/4*3, cfg.Self); err != nil {
		return nil, err
	}
	s.highest = s.table.number
	s.group.Store(new(s.table.group))
	if r := s.table.roster; r != nil {
		s.highest = max(s.highest, r.Term) // the table was being read again when the last run ended
	}
	s.number.Store(s.table.number)
	s.note()
	return s, nil
}

// Close closes the table, after Run has ended.
func (s *Sites) Close() error {
	if err := s.table.close(true); err != nil {
		return fmt.Errorf("close the table of hosts: %w", err)
	}
	return nil
}

// View returns the term of the roster that is in effect; 0: none yet.
func (s *Sites) View() uint64 {
	if o := s.owners.Load(); o != nil {
		return o.roster.Term
	}
	return 0
}

// Number returns the number of the last entry that was applied.
func (s *Sites) Number() uint64 { return s.number.Load() }

// Roster returns the roster that is in effect; nil: none yet.
func (s *Sites) Roster() *assignment.Roster {
	if o := s.owners.Load(); o != nil {
		return o.roster
	}
	return nil
}

// Right returns the right to start visits.
func (s *Sites) Right() *Right { return s.right }

// at returns the owners and the assignment of a host. If the cache does not have it, the host is asked for.
func (s *Sites) at(host string) (o *owners, p place, ok bool) {
	if p, ok = s.cache.get(s.cache.hash(host)); !ok {
		s.asker.ask(host, s.cfg.Clock.Now())
		return nil, 0, false
	}
	o = s.owners.Load()
	return o, p, o != nil
}

// Owner implements cluster.Placement. If the owner is not known, Config.Assigned is called when it may be.
func (s *Sites) Owner(host string) (agent string, mine bool) {
	o, p, ok := s.at(host)
	if !ok {
		return "", false
	}
	return o.owner(p, link.HostKey(host))
}

// Peek is Owner from RAM alone: it asks nobody for an owner that is not known. Lookup brings hosts into RAM.
func (s *Sites) Peek(host string) (agent string, mine bool) {
	if p, ok := s.cache.get(s.cache.hash(host)); ok {
		if o := s.owners.Load(); o != nil {
			return o.owner(p, link.HostKey(host))
		}
	}
	return "", false
}

// Keep tells that this agent has links of a host since before its start, and that Owner did not know the owner. If the
// coordinators have begun anew since, they are to give the host to this agent, so that its links need not move.
func (s *Sites) Keep(host string) {
	if o := s.owners.Load(); o != nil && o.came > 0 {
		s.asker.keep(host)
	}
}

// Owners returns a function that answers as Owner does, by the roster that is in effect now, also when another one is.
// It is nil if no roster is in effect.
func (s *Sites) Owners() func(host string) (agent string) {
	o := s.owners.Load()
	if o == nil {
		return nil
	}
	return func(host string) (agent string) {
		if _, p, ok := s.at(host); ok {
			agent, _ = o.owner(p, link.HostKey(host))
		}
		return agent
	}
}

// Tenure implements cluster.Placement, as Owner does.
func (s *Sites) Tenure(host string) (agent string, mine bool, since uint64) {
	o, p, ok := s.at(host)
	if !ok {
		return "", false, 0
	}
	return o.tenure(p, link.HostKey(host))
}

func (s *Sites) Had(host string) (ever, began bool) {
	o, p, ok := s.at(host)
	if !ok {
		return true, false
	}
	return o.had(p, link.HostKey(host))
}

// Before returns the other agents that may have owned a host of this agent, the most likely first. The first
// leaving of them are about to leave.
func (s *Sites) Before(host string) (agents []string, leaving int) {
	o := s.owners.Load()
	if o == nil {
		return nil, 0
	}
	return o.before(link.HostKey(host))
}

// Heirs returns the heirs, or nil if no agent is up, or no roster in effect. Rosters with the same agents up, of
// the same capacities, have the same Heirs.
func (s *Sites) Heirs() *Heirs {
	if o := s.owners.Load(); o != nil {
		return o.heirs
	}
	return nil
}

// A lookup is a call of Lookup.
type lookup struct {
	hosts  []string
	places []place
	left   int
	done   chan struct{}
}

// Lookup returns the owners of hosts; "" for one without an assignment. It reads the disk, and waits while a
// damaged table is read again. What the callbacks wait for must not call it: the dispatcher of a crawl.
func (s *Sites) Lookup(ctx context.Context, hosts []string) ([]string, error) {
	l := &lookup{hosts: hosts, places: make([]place, len(hosts)), left: len(hosts), done: make(chan struct{})}
	select {
	case s.lookups <- l:
	case <-s.over:
		return nil, ErrOver
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-l.done:
	case <-s.over:
		return nil, ErrOver
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	names := make([]string, len(hosts))
	if o := s.owners.Load(); o != nil {
		for i, p := range l.places {
			if p != 0 {
				names[i], _ = o.owner(p, link.HostKey(hosts[i]))
			}
		}
	}
	return names, nil
}

// An answer is one of the table. A question of Lookup has the number of its lookup and the index of its host in
// front; a host that somebody waits for has zeros there.
type answer struct {
	lookup uint64
	index  int
	host   string
	place  place // 0: the table does not have it
}

const auxHead = 12

func aux(lookup uint64, index int, host string) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, auxHead+len(host)), lookup)
	return append(binary.BigEndian.AppendUint32(b, uint32(index)), host...)
}

// Run follows the coordinators and answers until ctx is done. It returns an error if the disk fails, or if the
// coordinators refuse this agent (ErrRefused).
func (s *Sites) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	refused := make(chan error, 1)
	calls.Go(func() {
		if err := s.follow(ctx); err != nil {
			refused <- err
		}
	})
	calls.Go(func() { s.discover(ctx) })
	defer calls.Wait()
	defer cancel()
	defer close(s.over)
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		ticked := false
		select {
		case <-s.asker.table:
			err = s.look(s.asker.take())
		case l := <-s.lookups:
			err = s.lookUp(l)
		case a := <-s.applies:
			a.err = s.apply(a)
			s.note()
			if close(a.done); !errors.Is(a.err, ErrStream) {
				err = a.err
			}
		case <-s.table.drum.Ready():
			err = s.table.drum.Emit()
		case serr := <-s.table.synced:
			err = s.table.endSync(serr)
		case <-tick.C:
			ticked = true
			s.note()
		case err := <-refused:
			return err
		case <-ctx.Done():
			return nil
		}
		if err = s.settle(err, ticked); err != nil {
			return err
		}
	}
}

// tickEvery is the interval at which figures are noted and files of answered questions are deleted.
const tickEvery = time.Second

// settle passes on the answers of the table, begins a sync if one is due, and mends damage.
func (s *Sites) settle(err error, ticked bool) error {
	if err == nil {
		s.deliver()
		if s.table.wantsSync(ticked) {
			err = s.table.beginSync()
		}
	}
	if err == nil {
		return nil
	}
	was := s.table.rebuilt
	if err = s.table.mend(err); err == nil && s.table.rebuilt != was {
		s.readAgain()
		if s.cfg.Listener != nil {
			s.cfg.Listener.Event("host-table-damaged", "entries", s.highest)
		}
	}
	return err
}

// look asks the table for hosts that somebody waits for.
func (s *Sites) look(hosts []string) error {
	items := make([]drum.Item, 0, len(hosts))
	for _, host := range hosts {
		items = append(items, drum.Item{Key: assignment.Key(host), Aux: aux(0, 0, host)})
	}
	return s.table.drum.Check(items)
}

// lookUp answers a call of Lookup.
func (s *Sites) lookUp(l *lookup) error {
	if l.left == 0 {
		close(l.done)
		return nil
	}
	if s.table.number < s.highest {
		s.queued = append(s.queued, l)
		return nil
	}
	if s.base++; s.base == 0 { // it stands for the asker
		s.base++
	}
	s.open[s.base], l.left = l, len(l.hosts)
	items := make([]drum.Item, 0, len(l.hosts))
	for i, host := range l.hosts {
		items = append(items, drum.Item{Key: assignment.Key(host), Aux: aux(s.base, i, "")})
	}
	if err := s.table.drum.Check(items); err != nil {
		return err
	}
	return s.table.drum.Flush()
}

// deliver passes on the answers of the table.
func (s *Sites) deliver() {
	if len(s.table.answers) == 0 {
		return
	}
	now := s.cfg.Clock.Now()
	var hosts []string
	drained := false
	for _, a := range s.table.answers {
		if a.lookup != 0 {
			l := s.open[a.lookup]
			if l == nil || a.index >= len(l.places) { // of an earlier process
				continue
			}
			if l.places[a.index] = a.place; a.place != 0 {
				s.cache.put(s.cache.hash(l.hosts[a.index]), a.place, true)
			}
			if l.left--; l.left == 0 {
				delete(s.open, a.lookup)
				close(l.done)
			}
			continue
		}
		if a.place == 0 {
			s.asker.unknown(a.host, now)
			continue
		}
		s.cache.put(s.cache.hash(a.host), a.place, true)
		wanted, room := s.asker.found(a.host, false)
		if drained = drained || room; wanted {
			hosts = append(hosts, a.host)
		}
	}
	s.table.answers = s.table.answers[:0]
	s.announce(hosts, drained)
}

// announce tells the Listener.
func (s *Sites) announce(hosts []string, drained bool) {
	if len(hosts) > 0 && s.cfg.Listener != nil {
		s.cfg.Listener.Assigned(hosts)
	}
	if drained && s.cfg.Listener != nil {
		s.cfg.Listener.Overflowed()
	}
}

// applying is a part of the stream to apply. last is the number of the coordinators' last entry. With anew the agent
// forgets all entries, because they are of a log that is lost.
type applying struct {
	entries []assignment.Entry
	last    uint64
	group   [16]byte
	anew    bool
	done    chan struct{}
	err     error
}

// ErrStream reports entries that do not follow those that were applied.
var ErrStream = errors.New("entries out of order")

// apply applies entries.
func (s *Sites) apply(a *applying) error {
	t := s.table
	if a.anew {
		return s.forget()
	}
	if a.group != [16]byte{} && a.group != t.group {
		t.group = a.group
		s.group.Store(&a.group)
	}
	for i := range a.entries {
		e := &a.entries[i]
		switch {
		case e.Number <= t.number:
			continue
		case e.Number != t.number+1:
			return fmt.Errorf("%w: entry %d after %d", ErrStream, e.Number, t.number)
		}
		if e.Roster != nil {
			if err := s.enter(e.Roster); err != nil {
				return err
			}
		} else if err := s.assign(e); err != nil {
			return err
		}
		t.number = e.Number
		s.highest = max(s.highest, t.number)
		s.number.Store(t.number)
	}
	if s.owners.Load() == nil && t.roster != nil && t.number >= a.last {
		if err := s.effect(); err != nil {
			return err
		}
	}
	if t.number >= s.highest {
		queued := s.queued
		s.queued = nil
		for _, l := range queued {
			if err := s.lookUp(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget forgets the entries of a log that is lost. No roster is in effect yet.
func (s *Sites) forget() error {
	if s.cfg.Listener != nil {
		s.cfg.Listener.Event("coordinators-anew", "entries", s.highest)
	}
	if err := s.table.forget(); err != nil {
		return err
	}
	s.highest = 0
	s.group.Store(new([16]byte))
	s.cache.clear()
	s.readAgain()
	return nil
}

// readAgain begins to read all entries again, into an empty table. Callers that wait for the table ask it again.
func (s *Sites) readAgain() {
	s.number.Store(0)
	s.table.answers = s.table.answers[:0]
	s.queued = slices.AppendSeq(s.queued, maps.Values(s.open))
	clear(s.open)
	s.asker.relook()
}

// assign applies an entry of hosts.
func (s *Sites) assign(e *assignment.Entry) error {
	var items []drum.Item
	var hosts []string
	drained := false
	for _, share := range e.Shares {
		agent, err := s.table.agent(share.Agent)
		if err != nil {
			return err
		}
		p := placeOf(agent, e.Number)
		for _, host := range share.Hosts {
			items = append(items, drum.Item{Key: assignment.Key(host), Value: uint64(p)})
			wanted, room := s.asker.found(host, true)
			if drained = drained || room; wanted {
				hosts = append(hosts, host)
			}
			s.cache.put(s.cache.hash(host), p, wanted || share.Agent == s.cfg.Self.Name)
		}
	}
	err := s.table.add(items)
	s.announce(hosts, drained) // they are in the cache
	return err
}

// enter applies a roster. Before the first one is in effect, only the last roster is of interest.
func (s *Sites) enter(r *assignment.Roster) error {
	t := s.table
	if t.roster != nil && r.Term <= t.roster.Term {
		return nil // read again
	}
	if err := t.enter(r); err != nil {
		return err
	}
	if s.owners.Load() == nil {
		return nil
	}
	return s.effect()
}

// effect puts the last roster into effect.
func (s *Sites) effect() error {
	t := s.table
	o, err := s.owners.Load().next(t.roster, t.spell, t.names, s.cfg.Self)
	if err != nil {
		return fmt.Errorf("roster %d: %w", t.roster.Term, err)
	}
	if s.cfg.Listener != nil {
		s.cfg.Listener.Changing(t.roster)
	}
	s.owners.Store(o)
	s.right.Roster(o.since > 0, o.up(), s.cfg.Clock.Now())
	if s.cfg.Listener != nil {
		s.cfg.Listener.Changed(t.roster)
	}
	return nil
}
