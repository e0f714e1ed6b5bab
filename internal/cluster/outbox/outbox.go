// Package outbox answers: which links go to which agent next?
//
//	Push -> a queue for each agent -> Next -> a batch, on its way -> Done
//	             ^    RAM, files, RAM                                 |
//	             `-- Route <- loose: destination to be found <--------'
//	                            ^
//	                            `-- parked, for a while
//
// Each agent has a first-in-first-out queue. The ends of a queue are in RAM; the middle is in
// files that are written and read sequentially. One batch for each agent is on its way at a
// time. A batch that failed goes out again unchanged, after a wait that doubles. When the owners
// of hosts may have changed, Reroute makes all links loose (without a destination), and Route
// asks for the destination of each, a few at a time.
//
// Invariants: a pushed link is in the outbox until Done reports that its batch has arrived, or
// until the owner of the Outbox removes it. The files are not for recovery: the owner has the links
// in a journal, and Open starts empty. One goroutine owns an Outbox.
package outbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Config tunes an Outbox. The zero Config has usable defaults.
type Config struct {
	// MemoryBytes bounds the RAM of all queues, without batches on their way. Zero means
	// 16 MiB. Each queue takes at least two pieces of 4 KiB.
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
	fs  disk.FS
	dir string
	cfg Config
	rng *rand.Rand

	n      int64
	files  uint64 // number of files made so far
	queues map[string]*queue
	turns  []*queue // the same, in the order of sending
	turn   int
	busy   map[string]bool // agents with a batch on its way
	loose  []*queue
	stuck  bool   // the destination of the first loose link is unknown
	parked *queue // nil: no link is parked
	parks  time.Time
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
	q    *queue
}

// Open returns an empty Outbox with its files in dir. It deletes the content of dir.
func Open(fs disk.FS, dir string, cfg Config) (*Outbox, error) {
	if err := fs.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	cfg = cfg.withDefaults()
	return &Outbox{
		fs: fs, dir: dir, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x6f7574)),
		queues: map[string]*queue{}, busy: map[string]bool{},
	}, nil
}

// Close closes the files.
func (o *Outbox) Close() error {
	var errs []error
	o.unpark()
	for _, q := range append(o.turns, o.loose...) {
		errs = append(errs, q.discard())
	}
	o.turns, o.loose = nil, nil
	return errors.Join(errs...)
}

// Len returns the number of links, with those on their way.
func (o *Outbox) Len() int64 { return o.n }

// Loose reports whether Route has work.
func (o *Outbox) Loose() bool { return len(o.loose) > 0 && !o.stuck }

// Push queues a link for an agent. number identifies the link to the owner of the Outbox, hops
// is how often the link was passed on, and link is its encoding. The link is queued even if Push returns an error,
// which is one of the disk.
func (o *Outbox) Push(agent string, number uint64, hops int, link []byte) error {
	q := o.queues[agent]
	if q == nil {
		q = &queue{o: o, agent: agent}
		o.queues[agent] = q
		o.turns = append(o.turns, q)
	}
	o.n++
	return q.push(number, hops, link)
}

// PushLoose queues a link without a destination.
func (o *Outbox) PushLoose(number uint64, link []byte) error {
	if len(o.loose) == 0 || !o.loose[len(o.loose)-1].open {
		o.loose = append(o.loose, &queue{o: o, loose: true, open: true})
	}
	o.n++
	return o.loose[len(o.loose)-1].push(number, 0, link)
}

// Park keeps a link until Config.ParkWait after now, or until Reroute. Then the link is loose.
// Use it for a link that agents have passed on too often.
func (o *Outbox) Park(number uint64, link []byte, now time.Time) error {
	if o.parked == nil {
		o.parked, o.parks = &queue{o: o, loose: true}, now.Add(o.cfg.ParkWait)
	}
	o.n++
	return o.parked.push(number, 0, link)
}

func (o *Outbox) unpark() {
	if o.parked != nil {
		o.loose, o.parked = append(o.loose, o.parked), nil
	}
}

// Reroute makes all links loose and sets their hops to 0. Links on their way become loose if
// they do not arrive.
func (o *Outbox) Reroute() {
	o.stuck = false
	for _, q := range o.turns {
		q.loose = true
		if q.again != nil {
			q.restore(q.again)
		}
		if !q.empty() {
			o.loose = append(o.loose, q)
		}
	}
	clear(o.queues)
	o.turns, o.turn = nil, 0
	o.unpark()
}

// Ask lets Route ask again for links for which way returned Stay.
func (o *Outbox) Ask() { o.stuck = false }

// A Way is a decision about a loose link.
type Way uint8

const (
	// Send puts the link into an agent's queue.
	Send Way = iota
	// Stay keeps the link loose, because its owner is not known yet. Route asks again after
	// Reroute or Ask.
	Stay
	// Gone removes the link from the outbox.
	Gone
)

// Route calls way for at most most loose links, and acts on the result. link is valid until way
// returns.
func (o *Outbox) Route(most int, way func(number uint64, link []byte) (agent string, w Way, err error)) error {
	for ; most > 0 && o.Loose(); most-- {
		q := o.loose[0]
		e, ok, err := q.peek()
		if err != nil {
			return err
		}
		if !ok {
			o.loose = o.loose[1:]
			if err := q.discard(); err != nil {
				return err
			}
			continue
		}
		agent, w, err := way(e.number, e.link)
		switch {
		case err != nil:
			return err
		case w == Stay:
			o.stuck = true
			return nil
		case w == Send:
			err = o.Push(agent, e.number, 0, e.link)
		}
		o.n--
		q.pop()
		if err != nil {
			return err
		}
	}
	return nil
}

// Next returns the next batch to send at now, or nil. With nil, wake is the time to ask again;
// zero means when a batch is Done or a link is pushed. Next removes links for which keep returns
// false; a nil keep keeps all.
func (o *Outbox) Next(now time.Time, keep func(number uint64, link []byte) bool) (b *Batch, wake time.Time, err error) {
	if o.parked != nil {
		if o.parks.After(now) {
			wake = o.parks
		} else {
			o.unpark()
		}
	}
	for range o.turns {
		q := o.turns[o.turn%len(o.turns)]
		o.turn++
		if o.busy[q.agent] || q.again == nil && q.empty() {
			continue
		}
		if q.due.After(now) {
			if wake.IsZero() || q.due.Before(wake) {
				wake = q.due
			}
			continue
		}
		b := q.again
		if b == nil {
			if b, err = q.batch(keep); err != nil {
				return nil, wake, err
			}
		}
		if b == nil {
			continue // keep returned false for all links
		}
		q.again = nil
		o.busy[q.agent] = true
		return b, time.Time{}, nil
	}
	return nil, wake, nil
}

// Done reports the result of sending a batch. If it has arrived, its links leave the outbox. If
// it has not, or if that is not known, the batch goes out again.
func (o *Outbox) Done(b *Batch, arrived bool, now time.Time) {
	delete(o.busy, b.Agent)
	q := b.q
	switch {
	case arrived:
		o.n -= int64(len(b.Numbers))
		q.failures, q.due = 0, time.Time{}
	case q.loose:
		// The links may have another destination now, and their queue may have been routed already.
		again := &queue{o: o, loose: true}
		again.restore(b)
		o.loose = append(o.loose, again)
	default:
		wait := min(o.cfg.RetryWait<<min(q.failures, 20), o.cfg.RetryMax)
		q.failures++
		q.due = now.Add(wait + time.Duration(o.rng.Float64()*float64(wait)/4))
		q.again = b
	}
}

// chunk returns the maximum size of a piece of a queue in RAM.
func (o *Outbox) chunk() int {
	return int(max(o.cfg.MemoryBytes/int64(2*max(len(o.turns)+len(o.loose), 1)), 4<<10))
}

// An entry is a link in a queue:
//
//	uvarint  number
//	1        hops
//	uvarint  length of the link's encoding, and as many octets
type entry struct {
	number uint64
	hops   int
	link   []byte
	size   int
}

func appendEntry(dst []byte, number uint64, hops int, link []byte) []byte {
	dst = binary.AppendUvarint(dst, number)
	dst = append(dst, byte(hops))
	dst = binary.AppendUvarint(dst, uint64(len(link)))
	return append(dst, link...)
}

func decodeEntry(b []byte) (e entry, err error) {
	number, n := binary.Uvarint(b)
	if n <= 0 || n >= len(b) {
		return e, ErrDamaged
	}
	size, m := binary.Uvarint(b[n+1:])
	if m <= 0 || size > uint64(len(b)-n-1-m) {
		return e, ErrDamaged
	}
	from := n + 1 + m
	to := from + int(size)
	return entry{number, int(b[n]), b[from:to:to], to}, nil
}
