// Package outbox answers: which links go to which agent next?
//
//	Push -> the queue of an agent ------------> Next -> a batch, on its way -> Done
//	             ^    RAM, files, RAM            |                             |
//	             |                               | the owner has changed       | failed, and owners
//	             +---- Route <- loose <----------+-----------------------------+ have changed
//	                     |  ^
//	                     v  `-- Assigned, Changed
//	                  waiting: links without an owner, by key
//
// Each agent has a first-in-first-out queue. The ends of a queue are in RAM; the middle is in files
// that are written and read sequentially. One batch for each agent is on its way at a time. A batch
// that failed goes out again unchanged, after a wait that doubles.
//
// The caller's Router knows the destinations. Next asks it once more for each link before the link is
// sent, and moves the link if its host has another owner now. So a change of owners (Changed) costs
// nothing for the links that stay. Changed looks at a whole queue only if its agent does not answer,
// because the links of other agents would be stuck behind it.
//
// A link without an owner waits under a key, usually that of its host. Assigned releases the links of
// one key, and Changed asks for all keys. Millions of hosts may have one such link each. So the links
// are on disk, ordered by key, in pages of 16 KiB. RAM holds the latest links, and 88 octets for each
// page of older ones: at 100 octets a link, a million hosts take 100 MB of disk and about 1 MB of RAM,
// which counts as MemoryBytes. Releasing one host reads one page, however many hosts wait, and then the
// pages that have only links of this host.
//
// Invariants: a pushed link is in the outbox until Done reports that its batch has arrived, or
// until the Router or the owner of the Outbox removes it. A batch has only links for which the Router
// named its agent. The files are not for recovery: the owner has the links in a journal, and Open
// starts empty. One goroutine owns an Outbox.
package outbox

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Config tunes an Outbox. The zero Config has usable defaults.
type Config struct {
	// MemoryBytes bounds the RAM of all queues, without batches on their way. Zero means
	// 16 MiB. Links without an owner take at most half of it. Each queue takes at least two pieces of
	// 4 KiB.
	MemoryBytes int64
	// BatchLinks and BatchBytes bound a batch. A batch has at least one link. Zero means 1,000
	// and 256 KiB.
	BatchLinks, BatchBytes int
	// RetryWait is the wait after the first failure of a batch. It doubles up to RetryMax.
	// Zero means 100 ms and 5 s.
	RetryWait, RetryMax time.Duration
	// ParkWait is how long Park keeps a link. Zero means 2 s.
	ParkWait time.Duration
	// Seed is the random seed of the jitter.
	Seed uint64
}

func (c Config) withDefaults() Config {
	if c.MemoryBytes <= 0 {
		c.MemoryBytes = 16 << 20
	}
	if c.BatchLinks <= 0 {
		c.BatchLinks = 1000
	}
	if c.BatchBytes <= 0 {
		c.BatchBytes = 256 << 10
	}
	if c.RetryWait <= 0 {
		c.RetryWait = 100 * time.Millisecond
	}
	if c.RetryMax <= 0 {
		c.RetryMax = 5 * time.Second
	}
	if c.ParkWait <= 0 {
		c.ParkWait = 2 * time.Second
	}
	return c
}

// ErrDamaged reports a file that does not hold what was written to it.
var ErrDamaged = errors.New("damaged outbox file")

// An Outbox holds the links that wait to be sent to other agents.
type Outbox struct {
	dir *folder
	cfg Config
	rng *rand.Rand

	linger  time.Duration
	n       int64 // number of links, with those on their way
	lanes   map[string]*lane
	turns   []*lane // the same, in the order of sending
	turn    int
	loose   []*Queue // links whose destination must be asked for
	waiting *waitingRoom
	parked  *Queue // nil: no link is parked
	parks   time.Time
}

// A lane is the queue of one agent.
type lane struct {
	Queue
	agent    string
	busy     bool      // a batch is on its way
	again    *Batch    // is sent before all other links
	sent     time.Time // when the last batch arrived
	due      time.Time
	failures int // of batches, since one arrived

	unsure bool // owners have changed while links were in it or on their way
	front  bool // Route must look at its first link
}

// A Batch holds links that are sent to an agent in one call. It is valid until Done.
type Batch struct {
	Agent string
	// Hops is how often agents have passed on each of the links.
	Hops    int
	Numbers []uint64
	// Links are the concatenated encodings of the links.
	Links []byte

	ends []int // in Links
	lane *lane
}

// A To is the destination of a link.
type To struct {
	Way   Way
	Agent string // with Send
	Key   uint64 // with Wait; always the same for a link
}

// A Way is the kind of a To.
type Way uint8

const (
	// Send puts the link into an agent's queue.
	Send Way = iota
	// Wait keeps the link under a key, because its owner is not known yet. The Outbox asks again after
	// Assigned with this key, and after Changed.
	Wait
	// Gone removes the link from the outbox.
	Gone
)

// A Router returns the present destination of a link. link is valid until the Router returns. It does
// not call methods of the Outbox.
type Router func(number uint64, link []byte) (To, error)

// Open returns an empty Outbox with its files in dir. It deletes the content of dir.
func Open(fs disk.FS, dir string, cfg Config) (*Outbox, error) {
	d, err := openFolder(fs, dir)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Outbox{
		dir: d, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x6f7574)), lanes: map[string]*lane{},
		waiting: newWaitingRoom(d, int(cfg.MemoryBytes/2)),
	}, nil
}

// Close closes the files.
func (o *Outbox) Close() error {
	o.unpark()
	errs := []error{o.waiting.close()}
	for _, l := range o.turns {
		errs = append(errs, l.Close())
	}
	for _, q := range o.loose {
		errs = append(errs, q.Close())
	}
	o.turns, o.loose = nil, nil
	return errors.Join(errs...)
}

// Len returns the number of links, with those on their way.
func (o *Outbox) Len() int64 { return o.n }

// Waiting returns the number of links without an owner.
func (o *Outbox) Waiting() int64 { return o.waiting.n }

// Loose reports whether Route has work.
func (o *Outbox) Loose() bool {
	return len(o.loose) > 0 || len(o.waiting.sweeps) > 0 ||
		slices.ContainsFunc(o.turns, func(l *lane) bool { return l.front })
}

// Push queues a link for an agent. number identifies the link to the owner of the Outbox, hops is how
// often the link was passed on, and link is its encoding. The link is queued even if Push returns an
// error, which is one of the disk. The same holds for the other methods that queue a link.
func (o *Outbox) Push(agent string, number uint64, hops int, link []byte) error {
	o.n++
	return o.lane(agent).Push(number, hops, link)
}

// PushWaiting queues a link without an owner under a key.
func (o *Outbox) PushWaiting(key, number uint64, link []byte) error {
	o.n++
	return o.waiting.add(key, number, link)
}

// PushLoose queues a link for whose destination Route asks.
func (o *Outbox) PushLoose(number uint64, link []byte) error {
	if len(o.loose) == 0 {
		o.loose = append(o.loose, o.queue())
	}
	o.n++
	return o.loose[len(o.loose)-1].Push(number, 0, link)
}

// Park keeps a link until Config.ParkWait after now, or until Changed. Then Route asks for its
// destination. Use it for a link that agents have passed on too often.
func (o *Outbox) Park(number uint64, link []byte, now time.Time) error {
	if o.parked == nil {
		o.parked, o.parks = o.queue(), now.Add(o.cfg.ParkWait)
	}
	o.n++
	return o.parked.Push(number, 0, link)
}

func (o *Outbox) unpark() {
	if o.parked != nil {
		o.loose, o.parked = append(o.loose, o.parked), nil
	}
}

func (o *Outbox) queue() *Queue { return &Queue{dir: o.dir, chunk: o.chunk} }

// chunk returns the maximum size of a piece of a queue in RAM.
func (o *Outbox) chunk() int {
	return int(max(o.cfg.MemoryBytes/int64(4*max(len(o.turns)+len(o.loose), 1)), 4<<10))
}

func (o *Outbox) lane(agent string) *lane {
	l := o.lanes[agent]
	if l == nil {
		l = &lane{Queue: *o.queue(), agent: agent}
		o.lanes[agent] = l
		o.turns = append(o.turns, l)
	}
	return l
}

// Changed tells the Outbox that the owners of any hosts may have changed. Route then asks for the
// destinations of waiting and parked links, and of the links of agents that do not answer. Next asks
// for the others.
func (o *Outbox) Changed() {
	o.unpark()
	o.waiting.askAll()
	for _, l := range o.turns {
		l.takeBack(l.again)
		l.front, l.unsure = l.n > 0, l.n > 0 || l.busy
		if l.failures > 0 {
			o.loosen(l)
		}
	}
	o.turns = slices.DeleteFunc(o.turns, func(l *lane) bool {
		idle := l.n == 0 && !l.busy
		if idle {
			delete(o.lanes, l.agent)
		}
		return idle
	})
}

// Linger sets how long an agent's queue gathers links after it has sent a batch. A queue with
// links for a whole batch does not wait. Larger batches take fewer calls and less processor time.
func (o *Outbox) Linger(d time.Duration) { o.linger = d }

// Assigned tells the Outbox that the owner of one key is known now, or has changed. Route then asks
// for the destinations of the links that wait under the key.
func (o *Outbox) Assigned(key uint64) { o.waiting.ask(key) }

// takeBack puts a batch that will not be sent again unchanged in front of the other links.
func (l *lane) takeBack(b *Batch) {
	if b != nil {
		l.restore(b)
	}
	l.again = nil
}

// loosen makes the links of an agent loose.
func (o *Outbox) loosen(l *lane) {
	if l.n > 0 {
		q := l.Queue
		o.loose, l.Queue = append(o.loose, &q), *o.queue()
	}
	l.front, l.unsure = false, l.busy
}

// Route asks for the destinations of about most links, and acts on the answers.
func (o *Outbox) Route(most int, way Router) error {
	for most > 0 && o.Loose() {
		n, err := o.routeSome(most, way)
		if err != nil {
			return err
		}
		most -= max(n, 1)
	}
	return nil
}

func (o *Outbox) routeSome(most int, way Router) (n int, err error) {
	if len(o.loose) > 0 {
		q := o.loose[0]
		if n, err := o.drain(q, nil, most, way); err != nil || n == most {
			return n, err
		}
		o.loose = o.loose[1:]
		return 1, q.Close()
	}
	for _, l := range o.turns {
		// The agent may be gone. Otherwise its first link probably stays, and Next asks for the rest.
		if l.front {
			n, err := o.drain(&l.Queue, l, most, way)
			if err == nil && n < most {
				l.front = false
			}
			return n, err
		}
	}
	return o.waiting.route(func(key uint64, e Entry) (keep bool, err error) {
		to, err := way(e.Number, e.Link)
		if err != nil || to.Way == Wait {
			return true, err
		}
		return false, o.put(to, e)
	})
}

// drain moves links from the front of a queue to their destinations. It returns the number of moved
// links. It is less than most if the queue is empty or its first link belongs into the lane.
func (o *Outbox) drain(q *Queue, l *lane, most int, way Router) (n int, err error) {
	for ; n < most; n++ {
		e, ok, err := q.Peek()
		if err != nil || !ok {
			return n, err
		}
		to, err := way(e.Number, e.Link)
		if err != nil || l != nil && to.Way == Send && to.Agent == l.agent {
			return n, err
		}
		err = o.put(to, e)
		q.Pop()
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// put acts on the destination of a link. The caller removes the link from its place.
func (o *Outbox) put(to To, e Entry) error {
	switch to.Way {
	case Send:
		return o.lane(to.Agent).Push(e.Number, 0, e.Link)
	case Wait:
		return o.waiting.add(to.Key, e.Number, e.Link)
	}
	o.n--
	return nil
}

// Next returns the next batch to send at now, or nil. With nil, wake is the time to ask again; zero
// means when a batch is Done or a link is pushed. Next asks for the destination of each link, and
// moves a link that does not belong to the agent any more. With a nil Router, all links belong there.
func (o *Outbox) Next(now time.Time, way Router) (b *Batch, wake time.Time, err error) {
	if o.parked != nil {
		if wake = o.parks; !wake.After(now) {
			wake = now
			o.unpark()
		}
	}
	for range len(o.turns) {
		l := o.turns[o.turn%len(o.turns)]
		o.turn++
		if l.busy || l.again == nil && l.n == 0 {
			continue
		}
		at := l.due
		if full := l.n >= int64(o.cfg.BatchLinks); l.agent != "" && !full && l.sent.Add(o.linger).After(at) {
			at = l.sent.Add(o.linger)
		}
		if !at.After(now) {
			b, l.again = l.again, nil
			if b == nil {
				if b, err = o.batch(l, way); err != nil {
					return nil, wake, err
				}
			}
			if b != nil {
				l.busy = true
				return b, time.Time{}, nil
			}
			at = now // its links have moved, maybe to an agent that has had its turn
		}
		if wake.IsZero() || at.Before(wake) {
			wake = at
		}
	}
	return nil, wake, nil
}

// batch takes links from the front of a lane, as long as they have the same number of hops, and moves
// those that belong elsewhere. It moves a limited number, so that a call does not take long.
func (o *Outbox) batch(l *lane, way Router) (*Batch, error) {
	b := &Batch{Agent: l.agent, lane: l}
	for moved := 0; len(b.Numbers) < o.cfg.BatchLinks && moved < o.cfg.BatchLinks; {
		e, ok, err := l.Peek()
		if err != nil {
			l.takeBack(b)
			return nil, err
		}
		if !ok {
			break
		}
		if len(b.Numbers) > 0 && (e.Hops != b.Hops || len(b.Links)+len(e.Link) > o.cfg.BatchBytes) {
			break
		}
		if way != nil {
			to, err := way(e.Number, e.Link)
			if err == nil && (to.Way != Send || to.Agent != l.agent) {
				err = o.put(to, e)
				l.Pop()
				if moved++; err == nil {
					continue
				}
			}
			if err != nil {
				l.takeBack(b)
				return nil, err
			}
		}
		b.Hops = e.Hops
		b.Numbers = append(b.Numbers, e.Number)
		b.Links = append(b.Links, e.Link...)
		b.ends = append(b.ends, len(b.Links))
		l.Pop()
	}
	if l.front = false; len(b.Numbers) == 0 {
		return nil, nil
	}
	return b, nil
}

// Done reports the result of sending a batch. If it has arrived, its links leave the outbox. If it has
// not, or if that is not known, the batch goes out again. If owners may have changed meanwhile, Route
// asks for the destinations of its links and of all others for the agent.
func (o *Outbox) Done(b *Batch, arrived bool, now time.Time) {
	l := b.lane
	l.busy = false
	if arrived {
		o.n -= int64(len(b.Numbers))
		l.failures, l.due, l.sent = 0, time.Time{}, now
		l.unsure = l.unsure && l.n > 0
		return
	}
	wait := min(o.cfg.RetryWait<<min(l.failures, 20), o.cfg.RetryMax)
	l.failures++
	l.due = now.Add(wait + time.Duration(o.rng.Float64()*float64(wait)/4))
	if l.again = b; l.unsure {
		l.takeBack(b)
		o.loosen(l)
	}
}
