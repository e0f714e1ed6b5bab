package frontier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Config tunes a Frontier. The zero Config is polite and safe.
type Config struct {
	// HostDelay is the quiet time between the end of one response and the next request to that host. Zero means 2 s, a
	// negative value none. Done.Delay may raise it.
	HostDelay time.Duration
	// DelayOf returns the delay of a host that has another one than HostDelay; otherwise ok is false. It may change
	// while the frontier is in use: then it holds from the host's next response on, or from Redelay on. Nil means that
	// no host has one.
	DelayOf func(host string) (d time.Duration, ok bool)
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
	cfg  Config
	fs   disk.FS
	dir  string
	rand *rand.Rand
	err  error // the error that stopped the frontier: a queue that could not be read

	hosts          dict
	addrs          map[netip.Addr]*bucket
	sites          map[string]*bucket
	paced          map[string]bool // sites with a pace, see Repace
	groups         map[groupKey]share
	groupsByNumber []*group // groups by number; 0: unbound
	unbound        *group   // the hosts that no address or site holds back

	aloneAt, aloneIn table   // the hosts that are alone at an address, in a site
	freeGroups       []share // numbers of removed groups

	ready   heap[*group]  // groups that may be fetched, by level and request number
	waiting heap[*host]   // hosts with links, by time; including hosts that are alone and parked
	freeing heap[*bucket] // buckets that hold groups back, by time
	resting heap[*host]   // hosts without links, by time
	fading  heap[*bucket] // buckets that hold no group back, by time

	epoch  time.Time
	clock  int64  // nanoseconds since epoch; never goes back
	number uint64 // the last request number

	hushed    bool  // Touched or Hush was called
	hushedAt  int64 // time of the last such call
	quietTill int64 // end of the quiet time of all hosts after Hush
	quieted   bool  // Hush was called
	quietFrom int64 // time of the last such call
	enc       []byte
	fronts    []*frontQueue // empty ones, for reuse

	restored []HostState // states to restore once a time is known

	stats  Stats
	queued int64 // links in hosts' queues, withdrawn ones, and those in Sides
	extras int   // number of hosts with an extra

	visits     []visit
	freeVisits []int32
	visitAt    []int32 // index of the visit of a name, see visitSlot

	// Memory to reuse.
	spareHosts  []*host
	spareExtras []*extra
	spareBufs   [bufClasses][][]byte
	prefetched  int // keeps the compiler from removing reads that fill the processor's cache

	awaiting     map[uint64]*bucket // buckets that wait for a lease, by point; each has a timer
	leaseBegan   bool               // a request has begun since remind last asked for a lease
	asked        map[uint64]int64   // when it began to wait for a lease that is missing, by point
	awaitedLeast int                // this many of them are never too many
	points       [2]uint64          // scratch memory

	pace    pace
	recent  recent
	active  int  // number of hosts to keep ready; negative: all
	readAll bool // read all pools, even if Config.Active hosts are ready; see ReadAll

	// Links that are in no queue yet.
	pools      []*pool     // the pools that are not empty, highest level first
	pooled     int64       // number of links in them
	poolBytes  int64       // bytes on disk
	poolFiles  int         // files on disk
	spares     [][]byte    // memory for frames
	window     frameWindow // the file that is being read
	arrivals   []arrival   // scratch memory for the links of a frame
	frameBytes int         // size at which a frame is closed
	readAtOnce int         // limit of frames that one Next reads

	withdrawn withdrawn
	aside     aside
	classes   classes

	// Queues in RAM and on disk.
	ram      int64 // bytes of queued links in RAM
	fixed    int64 // bytes in RAM that cannot be spilled, without the hosts
	spilled  int64 // bytes of blocks on disk that are not yet consumed
	lists    [64]*queue
	tails    int // queues in the lists with a tail in RAM
	out      []byte
	runs     []run
	segments int // number of segments and pool files ever made
	files    int // segments on disk now
	current  *segment
	open     []*tempFile
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
		cfg: cfg, fs: fs, dir: dir,
		rand:     rand.New(rand.NewPCG(cfg.Seed, 0x6f7262)),
		hosts:    newDict(),
		addrs:    make(map[netip.Addr]*bucket),
		sites:    make(map[string]*bucket),
		paced:    make(map[string]bool),
		groups:   make(map[groupKey]share),
		awaiting: make(map[uint64]*bucket),
		asked:    make(map[uint64]int64),
		aloneAt:  newTable(),
		aloneIn:  newTable(),
		active:   cfg.Active,

		frameBytes: int(min(max(cfg.MemoryBytes/64, frameMin), frameMax)),
		readAtOnce: framesRead,
	}
	if cfg.Active == 0 {
		f.active = activeFor(0, 0, cfg.MemoryBytes)
	}
	for _, s := range cfg.Paced {
		f.paced[s] = true
	}
	f.unbound = newGroup(nil, nil)
	f.groupsByNumber = []*group{f.unbound}
	f.unbound.refs = 1
	f.aside.f = f
	return f, nil
}

// Close deletes the frontier's files. The frontier must not be used afterwards.
func (f *Frontier) Close() error {
	var first error
	for _, t := range slices.Clone(f.open) {
		if err := f.closeFile(t); err != nil && first == nil {
			first = err
		}
	}
	f.current = nil
	if err := f.fs.RemoveAll(f.dir); err != nil && first == nil {
		first = fmt.Errorf("delete the frontier's directory: %w", err)
	}
	if f.err == nil {
		f.err = errors.New("frontier is closed")
	}
	return first
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
		if h := f.hosts.of(name); h != nil {
			f.insert(h, f.rank(l), number, f.enc)
			return
		}
	}
	rank := f.rank(l)
	if f.intoPool(rank, number, f.enc) {
		return
	}
	f.insert(f.host(name), rank, number, f.enc)
}

// overflow writes to disk what exceeds the memory budget.
func (f *Frontier) overflow() error {
	return errors.Join(f.writePools(), f.spill())
}

// insert queues a link of h and updates h's position.
func (f *Frontier) insert(h *host, level uint8, number uint64, enc []byte) {
	// Look at the front queue only if it matters: it is elsewhere in memory.
	first, higher := false, false
	if h.q.n == 0 || level > h.q.level {
		first, higher = h.empty(), level > h.key().level
	}
	f.enqueue(h, level, number, enc)
	switch {
	case h.busy():
	case first:
		f.leave(h)
		f.place(h)
	case higher:
		f.rekey(h)
	}
	if h.state == blocked {
		f.stats.BlockedLinks++
	}
}

// PushFront queues l before all numbered links of its host and after earlier PushFronts: a prerequisite of a link of
// another host, for example. Among the hosts it comes before every numbered link of its level.
func (f *Frontier) PushFront(l link.Link) error {
	if f.err != nil {
		return f.err
	}
	h := f.host(l.URL.Host())
	f.front(h, entry{level: f.rank(&l), enc: l.AppendTo(nil)}, false)
	return f.overflow()
}

func (f *Frontier) front(h *host, e entry, first bool) {
	empty := h.empty()
	f.putFront(h, e, first)
	if h.state == blocked {
		f.stats.BlockedLinks++
	}
	switch {
	case h.busy():
	case empty:
		f.leave(h)
		f.place(h)
	default:
		f.rekey(h)
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
	for g == nil || !f.beginLeased(g) {
		if g, err = f.best(); err != nil {
			f.err = err
		}
		if g != nil {
			continue
		}
		if wake = f.wake(); !f.remind(wake) {
			return Task{}, wake, false
		}
	}
	h := g.hosts.top()
	e, err := f.dequeue(h)
	if err == nil {
		t.Link, err = decode(e)
	}
	if err != nil {
		f.err = err
		return Task{}, time.Time{}, false
	}
	t.Host, t.Attempt, t.Number = h.name, int(e.attempt), e.number
	f.begin(h, g, e)
	if h.state == inProcess {
		t.Addr = h.addr()
		t.Robots = f.robotsPrint(&t, g)
	}
	return t, time.Time{}, true
}

// best returns the group of the best host that may be fetched now, or nil.
func (f *Frontier) best() (*group, error) {
	for {
		if err := f.refill(); err != nil {
			return nil, err
		}
		if f.ready.len() == 0 {
			return nil, nil
		}
		g := f.ready.top()
		if g.obstacle(f.clock) == nil && f.leased(g) {
			return g, nil
		}
		if g.hosts.len() > 0 {
			f.placeGroup(g)
		}
		f.wakeParked(g.addr, nil)
		f.wakeParked(g.site, nil)
	}
}

// Resolved tells the address of a host that Next gave out without one, valid until expires. The link goes back to the
// front of its host, without a quiet time. If addr is invalid, the host is slowed down instead. If the host is not
// being resolved, Resolved does nothing.
func (f *Frontier) Resolved(host string, addr netip.Addr, expires, now time.Time) {
	f.tick(now)
	h := f.visited(host)
	if h == nil || h.state != resolving {
		return
	}
	if addr.IsValid() {
		f.moveTo(h, addr.Unmap())
		h.until = secondsOf(f.since(expires))
		h.fresh = secondsOf(f.clock + int64(freshAddress))
	} else {
		f.slowDown(h, 0)
	}
	back := *f.cur(h)
	f.end(h, &back)
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
	h := f.visited(host)
	if h == nil || !h.busy() {
		return fmt.Errorf("done %s: %w", host, ErrNotInProcess)
	}
	if !d.NoRequest {
		f.pace.n++
		if delay := max(d.Delay, 0); delay != h.delay {
			f.needExtra(h).delay = delay
			f.trimExtra(h)
		}
		f.notBefore(h, f.clock+int64(max(f.HostDelay(h.name), d.Delay)))
	}
	if !d.NotBefore.IsZero() {
		f.notBefore(h, min(f.since(d.NotBefore), f.clock+int64(f.cfg.SlowMax)))
	}
	f.answered(h, d)
	if d.SlowDown || d.RetryAfter > 0 {
		f.slowDownOrWait(h, d)
	}
	if h.turns++; int(h.turns) >= f.cfg.Burst || h.at > f.clock || h.share != free {
		h.turns = 0
	}
	f.keep(h, &d)
	if !d.NoRequest {
		f.takeShare(h) // of this agent's requests: other agents need not know
	}
	f.releaseBuckets(h, &d)
	var back *entry
	if d.Again != nil {
		back = &entry{
			level: f.rank(d.Again), number: f.cur(h).number, attempt: int32(d.Attempt), enc: d.Again.AppendTo(nil),
		}
	}
	f.end(h, back)
	f.readAhead(h)
	return f.overflow()
}

// tick sets the clock to now and moves hosts and buckets whose time has come.
func (f *Frontier) tick(now time.Time) {
	if f.epoch.IsZero() {
		f.epoch = now
		f.restore(f.restored)
		f.restored = nil
	}
	f.clock = max(f.clock, f.follow(now))
	f.adapt()
	for n := 0; f.waiting.len() > 0 && f.waiting.first() <= uint64(f.clock); n++ {
		if n%prefetchCount == 0 {
			// Read many hosts at once, as in dict.findAll.
			f.waiting.ahead(uint64(f.clock), prefetchCount, f.prefetchHost)
			f.waiting.ahead(uint64(f.clock), prefetchCount, f.prefetchLink)
		}
		h := f.waiting.top()
		f.leave(h)
		f.place(h)
	}
	for f.freeing.len() > 0 && f.freeing.first() <= uint64(f.clock) {
		b := f.freeing.pop()
		b.in = nil
		f.endAwait(b)
		f.wakeParked(b, nil)
	}
	for n := 0; f.resting.len() > 0 && f.resting.first() <= uint64(f.clock); n++ {
		if n%prefetchCount == 0 {
			f.resting.ahead(uint64(f.clock), prefetchCount, f.prefetchHost)
		}
		h := f.resting.top()
		f.leave(h)
		f.place(h)
	}
	for f.fading.len() > 0 && f.fading.first() <= uint64(f.clock) {
		b := f.fading.pop()
		b.in = nil
		f.forgetBucket(b)
		f.endAwait(b)
	}
}

// prefetchCount is the number of hosts that are read before they are moved.
const prefetchCount = 16

// prefetchHost reads the fields of h that moving it needs, so that they are in the processor's cache.
func (f *Frontier) prefetchHost(h *host) { f.prefetched += int(h.pos) + int(h.q.head.r) }

// follow returns now by the frontier's clock. If the wall clock was set, the epoch follows: its
// monotonic reading stays as it is.
func (f *Frontier) follow(now time.Time) int64 {
	elapsed := f.since(now)
	f.epoch = now.Add(-time.Duration(elapsed))
	return elapsed
}

// prefetchLink reads the first link of h, which will soon be needed.
func (f *Frontier) prefetchLink(h *host) {
	if b := &h.q.head; int(b.r) < len(b.buf) {
		f.prefetched += int(b.buf[b.r])
	}
}

// since converts t to the frontier's clock. If both times have monotonic readings, it uses them, so that a step of the
// wall clock shortens no quiet time. Any other t is a time of the wall clock as it was at the last tick.
func (f *Frontier) since(t time.Time) int64 { return int64(t.Sub(f.epoch)) }
