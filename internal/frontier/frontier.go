package frontier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Delays has the delays of single hosts. They may change while the frontier is in use: then they hold from the host's
// next response on, or from Redelay on.
type Delays interface {
	// Of returns the delay of a host that has one of its own; otherwise ok is false.
	Of(host string) (d time.Duration, ok bool)
}

// Config tunes a Frontier. The zero Config is polite and safe.
type Config struct {
	// HostDelay is the quiet time between the end of one response and the next request to that host. Zero means 2 s, a
	// negative value none. Done.Delay may raise it.
	HostDelay time.Duration
	// Delays has the hosts with another delay than HostDelay. Nil means that no host has one.
	Delays Delays
	// IPDelay is the quiet time of an address, whichever hosts it serves. With it, one link at a time is in process for
	// an address. It begins at a whole millisecond. Zero means none.
	IPDelay time.Duration
	// SiteDelay is the same for a registered domain (weburl.Site). Zero means none.
	SiteDelay time.Duration
	Paces
	// HostShare is the share of the requests of the last hour that one host may get, from 0 to 1. A host may always
	// have one request a minute. Zero means no limit.
	HostShare float64
	// Burst is the number of requests in a row that a host gets before other hosts of the same level have their turn.
	// These requests share one connection; a new connection costs more than a request. Zero means 64, a negative value
	// 1. It has no effect with a delay.
	Burst int
	// Gather lets new links of a host in the dictionary pass links of other hosts in the pools. A host then gets more
	// requests in a row. In return, the order among hosts is lost, and within a host that was forgotten and comes back.
	// It is for crawls without a delay, where a new connection costs more than a request.
	Gather bool
	// Active is the number of hosts to keep ready (Polybot's x). While as many are ready, further links wait in pools
	// on disk and their hosts take no memory. Zero means as many as the speed and the quiet time of the crawl require;
	// this changes with the speed. A negative value means all.
	Active int
	// MemoryBytes limits the queues in RAM; the rest spills to disk. Zero means 256 MiB.
	MemoryBytes int64
	// SegmentBytes is the size of a spill file. Zero means 64 MiB.
	SegmentBytes int64
	// SlowBase is the first pause of a host that refuses requests, unless it asks for a shorter one. Each further pause
	// is twice as long, with a jitter of a tenth. Zero means 60 s.
	SlowBase time.Duration
	// SlowMax limits these pauses, a Retry-After and a NotBefore. Zero means 24 h.
	SlowMax time.Duration
	// ForgiveAfter is the time without trouble after which the next pause of a host is halved. A good answer halves it
	// as well. Zero means 30 min, a negative value at once.
	ForgiveAfter time.Duration
	// Lease decides at which addresses and sites requests may be made, if other agents have hosts there as well. It
	// applies only with an IPDelay or a SiteDelay. Nil means that no other agent has hosts there.
	Lease Lease
	// HostLease is the Lease if other agents crawl the same hosts. Then one agent at a time makes requests to a host,
	// also without an IPDelay and a SiteDelay, and the host's state moves with the lease. Nil means that each host
	// belongs to one agent.
	HostLease HostLease
	// NoAddresses says that hosts are fetched without a look-up (through a proxy). Tasks then have no address, and
	// IPDelay does not apply.
	NoAddresses bool
	// ClassOf returns the class of a link, below MaxClasses (see SetClasses). Levels above 15 then count as 15. It must
	// return the same for equal links. Nil means that all links are of one class, whatever their levels.
	ClassOf func(*link.Link) uint8
	// Seed makes the jitter repeatable.
	Seed uint64
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
		*d = max(*d, 0)
	}
	def(&c.HostDelay, 2*time.Second)
	def(&c.IPDelay, 0)
	def(&c.SiteDelay, 0)
	def(&c.SlowBase, time.Minute)
	def(&c.SlowMax, 24*time.Hour)
	def(&c.ForgiveAfter, 30*time.Minute)
	switch {
	case c.Burst == 0:
		c.Burst = 64
	case c.Burst < 0:
		c.Burst = 1
	}
	c.Burst = min(c.Burst, 1<<15-1)
	if c.MemoryBytes <= 0 {
		c.MemoryBytes = 256 << 20
	}
	if c.SegmentBytes <= 0 {
		c.SegmentBytes = 64 << 20
	}
	if c.NoAddresses {
		c.IPDelay = 0
	}
	if c.HostLease != nil {
		c.Lease = c.HostLease
	}
	return c
}

// A Frontier holds the links that are still to be fetched. One goroutine owns it.
type Frontier struct {
	cfg    Config
	err    error // the error that stopped the frontier: a queue that could not be read
	time   clock
	number uint64 // the last request number

	hosts     hosts  // that are known, with their queues
	queues    queues // the blocks of these queues
	pools     pools  // links that are in no queue yet
	withdrawn withdrawn
	aside     aside

	restored   []HostState // states to restore once a time is known
	pace       pace
	active     int    // number of hosts to keep ready; negative: all
	readAll    bool   // read all pools, even if Config.Active hosts are ready; see ReadAll
	readAtOnce int    // limit of frames that one Next reads
	enc        []byte // memory to reuse
}

// Open makes an empty frontier whose queues spill into dir. It deletes everything in dir: the durable copy of the links
// is the crawl's journal.
func Open(fs disk.FS, dir string, cfg Config) (*Frontier, error) {
	if err := fs.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("empty the frontier's directory: %w", err)
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the frontier's directory: %w", err)
	}
	cfg = cfg.withDefaults()
	f := &Frontier{
		cfg:    cfg,
		queues: queues{files: tempFiles{fs: fs, dir: dir}, memory: cfg.MemoryBytes, segmentBytes: cfg.SegmentBytes},
		active: cfg.Active,

		readAtOnce: framesRead,
	}
	if cfg.Active == 0 {
		f.active = activeFor(0, 0, cfg.MemoryBytes)
	}
	f.pools = pools{queues: &f.queues, frameBytes: int(min(max(cfg.MemoryBytes/64, frameMin), frameMax))}
	f.hosts = hosts{cfg: &f.cfg, time: &f.time, queues: &f.queues, dict: newDict(),
		rand: rand.New(rand.NewPCG(cfg.Seed, 0x6f7262))}
	f.hosts.shares = newShares(&f.cfg, &f.time, &f.hosts.extras, &f.hosts)
	f.aside.f = f
	return f, nil
}

// Close deletes the frontier's files. The frontier must not be used afterwards.
func (f *Frontier) Close() error {
	err := f.queues.files.close()
	f.queues.current = nil
	if f.err == nil {
		f.err = errors.New("frontier is closed")
	}
	return err
}

// Err returns the error that stopped the frontier, or nil: a queue could not be read back from disk. After it, the
// frontier cannot be used.
func (f *Frontier) Err() error { return f.err }

// Push queues new links in the order of ls and numbers them in that order; see Scramble for a better order. If a file
// cannot be written, Push returns the error, and all of ls are queued in RAM.
func (f *Frontier) Push(ls []link.Link) error {
	if f.err != nil {
		return f.err
	}
	for i := range ls {
		f.number++
		f.push(&ls[i], f.number)
	}
	return f.overflow()
}

// PushAt is Push with request numbers from the caller. They must not descend and must not be lower than the last number
// given. They are the numbers of an earlier run, or the last number once more for a link to be fetched again.
func (f *Frontier) PushAt(ls []link.Link, numbers []uint64) error {
	if f.err != nil {
		return f.err
	}
	for i := range ls {
		if numbers[i] < f.number {
			return fmt.Errorf("push %s: request number %d is lower than the last one, %d", ls[i].URL, numbers[i],
				f.number)
		}
		f.number = numbers[i]
		f.push(&ls[i], f.number)
	}
	return f.overflow()
}

func (f *Frontier) push(l *link.Link, number uint64) {
	name := l.URL.Host()
	f.enc = l.AppendTo(f.enc[:0])
	if f.cfg.Gather {
		if h := f.hosts.dict.of(name); h != nil {
			f.hosts.insert(h, f.cfg.rank(l), number, f.enc)
			return
		}
	}
	rank := f.cfg.rank(l)
	if f.intoPool(rank, number, f.enc) {
		return
	}
	f.hosts.insert(f.hosts.host(name), rank, number, f.enc)
}

// overflow writes to disk what exceeds the memory budget.
func (f *Frontier) overflow() error {
	return errors.Join(f.pools.writePools(), f.queues.spill(f.hosts.overhead(), f.loose))
}

// loose yields the queues that may be in no spill list, each once. Those without a host come first.
func (f *Frontier) loose(yield func(*queue) bool) {
	for _, q := range f.withdrawn.qs {
		if !yield(q) {
			return
		}
	}
	for _, s := range f.aside.sides {
		if !yield(s.q) {
			return
		}
	}
	for q := range f.hosts.dict.queues() {
		if !yield(q) {
			return
		}
	}
}

// insert queues a link of h and updates h's position.
func (hs *hosts) insert(h *host, level uint8, number uint64, enc []byte) {
	// Look at the front queue only if it matters: it is elsewhere in memory.
	first, higher := false, false
	if h.q.n == 0 || level > h.q.level {
		first, higher = h.empty(), level > h.key().level
	}
	hs.enqueue(h, level, number, enc)
	switch {
	case h.busy():
	case first:
		hs.leave(h)
		hs.place(h)
	case higher:
		hs.rekey(h)
	}
	if h.state == blocked {
		hs.stats.BlockedLinks++
	}
}

// PushFront queues l before all numbered links of its host and after earlier PushFronts: a prerequisite of a link of
// another host, for example. Among the hosts it comes before every numbered link of its level.
func (f *Frontier) PushFront(l link.Link) error {
	if f.err != nil {
		return f.err
	}
	h := f.hosts.host(l.URL.Host())
	f.hosts.front(h, entry{level: f.cfg.rank(&l), enc: l.AppendTo(nil)}, false)
	return f.overflow()
}

func (hs *hosts) front(h *host, e entry, first bool) {
	empty := h.empty()
	hs.putFront(h, e, first)
	if h.state == blocked {
		hs.stats.BlockedLinks++
	}
	switch {
	case h.busy():
	case empty:
		hs.leave(h)
		hs.place(h)
	default:
		hs.rekey(h)
	}
}

// A Task is a link to fetch now.
type Task struct {
	Link link.Link
	Host string
	// Addr is the host's address if its look-up is still valid. Otherwise the caller must look it up first, see
	// Resolved.
	Addr netip.Addr
	// Attempt is the Done.Attempt that came with the link; 0 at first.
	Attempt int
	// Number is the request number.
	Number uint64
	// Robots is what the robots.txt of the link's origin says, as another agent has read it last; 0: unknown. See
	// Done.Robots.
	Robots uint64
}

// Next gives out the first link of the best host that is due at now. The host is in process until Done (or Resolved).
//
// If no host is due, ok is false and wake is the time of the next call. A zero wake means that nothing waits for a
// time: everything is done, or everything depends on hosts in process (see Stats), or Err returns an error. Next reads
// a limited part of the pools. If it must read more to find a host, wake is immediately after now.
func (f *Frontier) Next(now time.Time) (t Task, wake time.Time, ok bool) {
	f.tick(now)
	if f.err != nil {
		return Task{}, time.Time{}, false
	}
	var g *group
	var err error
	for g == nil || !f.hosts.shares.beginLeased(g) {
		if g, err = f.best(); err != nil {
			f.err = err
		}
		if g != nil {
			continue
		}
		if wake = f.wake(); !f.hosts.shares.remind(wake) {
			return Task{}, wake, false
		}
	}
	h := g.hosts.top()
	e, err := f.hosts.dequeue(h)
	if err == nil {
		t.Link, err = decode(e)
	}
	if err != nil {
		f.err = err
		return Task{}, time.Time{}, false
	}
	t.Host, t.Attempt, t.Number = h.name, int(e.attempt), e.number
	f.hosts.begin(h, g, e)
	if h.state == inProcess {
		t.Addr = h.addr()
		t.Robots = f.hosts.robotsPrint(&t, g)
	}
	return t, time.Time{}, true
}

// best returns the group of the best host that may be fetched now, or nil.
func (f *Frontier) best() (*group, error) {
	for {
		if err := f.refill(); err != nil {
			return nil, err
		}
		if f.hosts.shares.ready.len() == 0 {
			return nil, nil
		}
		g := f.hosts.shares.ready.top()
		if g.obstacle(f.time.now) == nil && f.hosts.shares.leased(g) && !f.hosts.learn(g) {
			return g, nil
		}
		if g.hosts.len() > 0 {
			f.hosts.shares.placeGroup(g)
		}
		f.hosts.shares.wakeParked(g.addr, nil)
		f.hosts.shares.wakeParked(g.site, nil)
	}
}

// Resolved tells the address of a host that Next gave out without one, valid until expires. The link goes back to the
// front of its host, without a quiet time. If addr is invalid, the host is slowed down instead. If the host is not
// being resolved, Resolved does nothing.
func (f *Frontier) Resolved(host string, addr netip.Addr, expires, now time.Time) {
	f.tick(now)
	h := f.hosts.visited(host)
	if h == nil || h.state != resolving {
		return
	}
	if addr.IsValid() {
		f.hosts.shares.moveTo(h, addr.Unmap())
		h.until = secondsOf(f.time.since(expires))
		h.fresh = secondsOf(f.time.now + int64(freshAddress))
	} else {
		f.hosts.slowDown(h, 0)
	}
	back := *f.hosts.visits.link(h)
	f.hosts.end(h, &back)
}

// Done describes how the fetch of a link has ended.
type Done struct {
	// NoRequest says that nothing was sent, so that no quiet time is due.
	NoRequest bool
	// Sent is when the request was sent; zero: not known.
	Sent time.Time
	// Delay is the host's own delay (Crawl-delay). It can only raise HostDelay.
	Delay time.Duration
	// Again puts a link back before all others of the host: the same link to retry it, or one that must come first. It
	// keeps the request number.
	Again *link.Link
	// Attempt is given out again with Again.
	Attempt int
	// NotBefore is the earliest time of the host's next request.
	NotBefore time.Time
	// SlowDown makes the host pause: after a 429 or a 503. The pause doubles each time (Config.SlowBase), until it is
	// forgiven.
	SlowDown bool
	// Failed says that the answer was not a good one, so it forgives no pause: there was none, or it was an error.
	Failed bool
	// RetryAfter is the pause that the host asked for. It does not count as trouble.
	RetryAfter time.Duration
	// Robots tells what was read of a robots.txt of the host. A zero Print means nothing. It goes to the agents that
	// crawl the host next.
	Robots RobotsPrint
}

// Done releases a host that Next gave out. now is the end of the response, at which the quiet times begin. If the host
// is not in process, the error is ErrNotInProcess. If the frontier has stopped, the error is Err. After any other error
// the host is released all the same; links that could not be spilled stay in RAM, as with Push.
func (f *Frontier) Done(host string, d Done, now time.Time) error {
	f.tick(now)
	if f.err != nil {
		return f.err
	}
	h := f.hosts.visited(host)
	if h == nil || !h.busy() {
		return fmt.Errorf("done %s: %w", host, ErrNotInProcess)
	}
	if !d.NoRequest {
		f.pace.n++
		if delay := max(d.Delay, 0); delay != h.delay {
			f.hosts.extras.need(h).delay = delay
			f.hosts.extras.trim(h)
		}
		f.hosts.notBefore(h, f.time.now+int64(max(f.HostDelay(h.name), d.Delay)))
	}
	if !d.NotBefore.IsZero() {
		f.hosts.notBefore(h, min(f.time.since(d.NotBefore), f.time.now+int64(f.cfg.SlowMax)))
	}
	f.hosts.answered(h, d)
	if d.SlowDown || d.RetryAfter > 0 {
		f.hosts.slowDownOrWait(h, d)
	}
	if h.turns++; int(h.turns) >= f.cfg.Burst || h.at > f.time.now || h.share != free {
		h.turns = 0
	}
	f.hosts.keep(h, &d)
	if !d.NoRequest {
		f.hosts.takeShare(h) // of this agent's requests: other agents need not know
	}
	f.hosts.shares.releaseBuckets(h, &d)
	var back *entry
	if d.Again != nil {
		back = &entry{
			level: f.cfg.rank(d.Again), number: f.hosts.visits.link(h).number, attempt: int32(d.Attempt),
			enc: d.Again.AppendTo(nil),
		}
	}
	f.hosts.end(h, back)
	f.queues.readAhead(h.first())
	return f.overflow()
}

// tick sets the clock to now and moves hosts and buckets whose time has come.
func (f *Frontier) tick(now time.Time) {
	if f.time.epoch.IsZero() {
		f.time.epoch = now
		f.restore(f.restored)
		f.restored = nil
	}
	f.time.tick(now)
	f.adapt()
	for n := 0; f.hosts.waiting.len() > 0 && f.hosts.waiting.first() <= uint64(f.time.now); n++ {
		if n%prefetchCount == 0 {
			// Read many hosts at once, as in dict.findAll.
			f.hosts.waiting.ahead(uint64(f.time.now), prefetchCount, f.hosts.prefetchHost)
			f.hosts.waiting.ahead(uint64(f.time.now), prefetchCount, f.hosts.prefetchLink)
		}
		h := f.hosts.waiting.top()
		f.hosts.leave(h)
		f.hosts.place(h)
	}
	for f.hosts.shares.freeing.len() > 0 && f.hosts.shares.freeing.first() <= uint64(f.time.now) {
		b := f.hosts.shares.freeing.pop()
		b.in = nil
		f.hosts.shares.endAwait(b)
		f.hosts.shares.wakeParked(b, nil)
	}
	for n := 0; f.hosts.resting.len() > 0 && f.hosts.resting.first() <= uint64(f.time.now); n++ {
		if n%prefetchCount == 0 {
			f.hosts.resting.ahead(uint64(f.time.now), prefetchCount, f.hosts.prefetchHost)
		}
		h := f.hosts.resting.top()
		f.hosts.leave(h)
		f.hosts.place(h)
	}
	for f.hosts.shares.fading.len() > 0 && f.hosts.shares.fading.first() <= uint64(f.time.now) {
		b := f.hosts.shares.fading.pop()
		b.in = nil
		f.hosts.shares.forgetBucket(b)
		f.hosts.shares.endAwait(b)
	}
}

// prefetchCount is the number of hosts that are read before they are moved.
const prefetchCount = 16

// prefetchHost reads the fields of h that moving it needs, so that they are in the processor's cache.
func (hs *hosts) prefetchHost(h *host) { hs.prefetched += int(h.pos) + int(h.q.head.r) }

// prefetchLink reads the first link of h, which will soon be needed.
func (hs *hosts) prefetchLink(h *host) {
	if b := &h.q.head; int(b.r) < len(b.buf) {
		hs.prefetched += int(b.buf[b.r])
	}
}
