package frontier

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Config tunes a Frontier. The zero Config is polite and safe.
type Config struct {
	// HostDelay is the quiet time between the end of one response and the
	// next request to that host. Zero means 2s, a negative value none;
	// Done.Delay may raise it.
	HostDelay time.Duration
	// IPDelay is the quiet time of an address, whatever hosts it serves; with
	// it, one link at a time is in process for an address. It begins at a whole
	// millisecond. Zero means none.
	IPDelay time.Duration
	// SiteDelay is the same for a registered domain (weburl.Site). Zero means none.
	SiteDelay time.Duration
	// Burst is how many requests in a row a host gets while it needs no quiet
	// time between them, before other hosts of the same level have their turn:
	// they share one connection, which costs more than a request. Zero means
	// 64, a negative value 1. It has no effect with a delay.
	Burst int
	// Gather lets new links of a host that is in the dictionary pass those of
	// other hosts that wait in the pools: its requests in a row get longer, at
	// the price of the order among hosts and, where a host was forgotten and
	// comes again, within it. It is for crawls without a delay, where a new
	// connection costs more than a request.
	Gather bool
	// Active is how many hosts are kept ready to be asked (Polybot's x). While
	// there are as many, further links wait in pools on disk and their hosts
	// cost no memory. Zero means as many as the crawl's speed and quiet time
	// want, which changes with the speed; a negative value all.
	Active int
	// MemoryBytes bounds the queues held in RAM; the rest spills to disk.
	// Zero means 256 MiB.
	MemoryBytes int64
	// SegmentBytes is the size of a spill file. Zero means 64 MiB.
	SegmentBytes int64
	// SlowBase is the first pause of a host that was told to slow down. It
	// doubles each time, with a jitter of a tenth. Zero means 60s.
	SlowBase time.Duration
	// SlowMax bounds these pauses, a Retry-After and a NotBefore. Zero means 24h.
	SlowMax time.Duration
	// ForgiveAfter is the time without trouble after which the pause that
	// threatens a host is halved, as it is by 16 good answers in a row. Zero
	// means 30 min, a negative value at once.
	ForgiveAfter time.Duration
	// Lease says at which addresses and sites requests may be made, where other
	// agents have hosts there as well. It counts only where there is an IPDelay or
	// a SiteDelay. Nil: this agent is alone.
	Lease Lease
	// NoAddresses says that hosts are fetched without a look-up (through a
	// proxy): tasks have no address, and IPDelay does not apply.
	NoAddresses bool
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
	return c
}

// A Frontier holds the links that are still to be fetched.
type Frontier struct {
	cfg  Config
	fs   disk.FS
	dir  string
	rand *rand.Rand
	err  error // sticky: a queue that could not be read

	hosts  dict
	addrs  map[netip.Addr]*bucket
	sites  map[string]*bucket
	groups map[groupKey]share
	homes  []*group // by number; 0: open_
	open_  *group   // hosts that no address or site holds back

	aloneAt, aloneIn table   // who has an address, a site, to itself
	freeGroups       []share // numbers of groups that are gone

	ready   heap[*group]  // by level and request number
	waiting heap[*host]   // have links, by time; also those that are alone and parked
	freeing heap[*bucket] // hold groups back, by time
	resting heap[*host]   // without links, by time
	fading  heap[*bucket] // hold nobody back, by time

	epoch  time.Time
	clock  int64  // nanoseconds since epoch; never goes back
	number uint64 // the last request number given

	hushed    bool  // Touched or Hush was called
	hushedAt  int64 // last
	quietTill int64 // the quiet time of all hosts after Hush
	enc       []byte
	fronts    []*frontQueue // empty

	restored []HostState // until there is a time

	stats  Stats
	queued int64 // links in hosts' queues, and withdrawn ones
	rares  int   // hosts that have one

	visits     []visit
	freeVisits []int32
	visitAt    []int32 // where the visit of a name may be, see visitSlot

	// memory of what was forgotten, for others
	formerHosts []*host
	formerRares []*rare
	blanks      [roomClasses][][]byte // empty
	looked      int                   // nothing: see lookAt

	barred      map[uint64]*bucket // whose lease is waited for, by point; each has a timer
	barredLeast int                // of them are never too many
	points      [2]uint64          // scratch

	pace    pace
	active  int  // hosts to be kept ready; negative: all
	readAll bool // whatever Config says, see ReadAll

	// links that are in no queue yet
	pools      []*pool     // those with links; highest level first
	pooled     int64       // links in them
	poolBytes  int64       // on disk
	poolFiles  int         // on disk
	spares     [][]byte    // for frames
	window     frameWindow // of the file that is read
	arrivals   []arrival   // empty: memory for those of a frame
	frameBytes int         // a frame is closed at this size
	readAtOnce int         // frames

	withdrawn withdrawn

	// queues in RAM and on disk
	ram      int64 // bytes of queued links in RAM
	fixed    int64 // bytes in RAM that cannot be spilled, hosts apart
	spilled  int64 // bytes of blocks on disk not yet consumed
	lists    [64]*queue
	tails    int // queues in the lists for those with more than a head in RAM
	out      []byte
	runs     []run
	segments int // ever made, pool files as well
	files    int // segments on disk now
	swept    int // the part of the dictionary whose heads are spilled next
	current  *segment
	open     []*segment
}

// Open makes an empty frontier whose queues overflow into dir. What dir holds
// is deleted: the crawl's journal is the durable copy.
func Open(fs disk.FS, dir string, cfg Config) (*Frontier, error) {
	if err := fs.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("frontier %s: %w", dir, err)
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("frontier %s: %w", dir, err)
	}
	cfg = cfg.withDefaults()
	f := &Frontier{
		cfg: cfg, fs: fs, dir: dir,
		rand:    rand.New(rand.NewPCG(cfg.Seed, 0x6f7262)),
		hosts:   newDict(),
		addrs:   make(map[netip.Addr]*bucket),
		sites:   make(map[string]*bucket),
		groups:  make(map[groupKey]share),
		ready:   newGroupHeap(),
		barred:  make(map[uint64]*bucket),
		aloneAt: newTable(),
		aloneIn: newTable(),
		freeing: newBucketTimes(),
		fading:  newBucketTimes(),
		active:  cfg.Active,

		frameBytes: int(min(max(cfg.MemoryBytes/64, frameMin), frameMax)),
		readAtOnce: framesRead,
	}
	if cfg.Active == 0 {
		f.active = activeFor(0, 0, cfg.MemoryBytes)
	}
	f.waiting, f.resting = f.newHostTimes(), f.newHostTimes()
	f.open_ = newGroup(nil, nil)
	f.homes = []*group{f.open_}
	f.open_.refs = 1
	return f, nil
}

// Close deletes the files.
func (f *Frontier) Close() error {
	var first error
	for _, s := range f.open {
		if err := f.closeSegment(s); err != nil && first == nil {
			first = err
		}
	}
	f.open, f.current = nil, nil
	for _, p := range f.pools {
		for _, s := range p.files {
			if err := f.closePoolFile(s); err != nil && first == nil {
				first = err
			}
		}
	}
	if err := f.fs.RemoveAll(f.dir); err != nil && first == nil {
		first = fmt.Errorf("frontier %s: %w", f.dir, err)
	}
	if f.err == nil {
		f.err = errors.New("frontier is closed")
	}
	return first
}

// Err is the error that made Next stop, if any: a queue that did not come back
// from disk. The frontier is of no use after it.
func (f *Frontier) Err() error { return f.err }

// Push queues new links in the order of their arrival (see Scramble for a
// better one) and gives them request numbers in it. After an error (a file
// could not be written) all of ls are queued all the same, in RAM.
func (f *Frontier) Push(ls []weburl.Link) error {
	if f.err != nil {
		return f.err
	}
	for i := range ls {
		f.number++
		f.push(&ls[i], f.number)
	}
	return f.overflow()
}

// PushAt queues links with request numbers that the caller gives, none of them
// lower than the last one given: the numbers of an earlier run, or the last one
// once more for a link that is to be fetched again.
func (f *Frontier) PushAt(ls []weburl.Link, numbers []uint64) error {
	if f.err != nil {
		return f.err
	}
	for i := range ls {
		if numbers[i] < f.number {
			return fmt.Errorf("push %s: number %d behind %d", ls[i].URL, numbers[i], f.number)
		}
		f.number = numbers[i]
		f.push(&ls[i], f.number)
	}
	return f.overflow()
}

func (f *Frontier) push(l *weburl.Link, number uint64) {
	name := l.URL.Host()
	f.enc = l.AppendTo(f.enc[:0])
	if f.cfg.Gather {
		if h := f.hosts.of(name); h != nil {
			f.insert(h, l.Level, number, f.enc)
			return
		}
	}
	if f.intoPool(l.Level, number, f.enc) {
		return
	}
	f.insert(f.host(name), l.Level, number, f.enc)
}

// overflow writes to disk what RAM should not hold.
func (f *Frontier) overflow() error {
	return errors.Join(f.writePools(), f.spill())
}

// insert queues a link and moves h to where it now belongs.
func (f *Frontier) insert(h *host, level uint8, number uint64, enc []byte) {
	// What stands before the queues is looked at only if it matters: it lies
	// elsewhere.
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

// PushFront queues l before all other links of its host, behind those that
// were put there before: a prerequisite of a link of another host. Among the
// hosts it comes before every numbered link of its level.
func (f *Frontier) PushFront(l weburl.Link) error {
	if f.err != nil {
		return f.err
	}
	h := f.host(l.URL.Host())
	f.front(h, entry{level: l.Level, enc: l.AppendTo(nil)}, false)
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

// A Task is a link to be fetched now.
type Task struct {
	Link weburl.Link
	Host string
	// Addr is where the host is, so far as its look-up still holds. If it is
	// invalid the host must be looked up first, see Resolved.
	Addr netip.Addr
	// Attempt is what Done gave with the link; 0 at first.
	Attempt int
	// Number is the request number.
	Number uint64
}

// Next gives out the first link of the best host that is due at now; the
// host is in process until Done (or Resolved). If none is due, ok is false and
// wake is when to ask again; the zero time means that nothing waits for a time:
// either all is done, or all depends on what is in process (see Stats), or
// Err tells what broke. It reads a bounded part of the pools: if there is more
// to read before a host is found, wake is at once.
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
		if g == nil {
			return Task{}, f.wake(), false
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
	}
	return t, time.Time{}, true
}

// best is the group of the best host that may be asked now, nil if there is none.
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
		f.settle(g)
		f.offer(g.addr, nil)
		f.offer(g.site, nil)
	}
}

func (f *Frontier) wake() time.Time {
	if f.err != nil {
		return time.Time{}
	}
	if f.reading() {
		return f.time_(f.clock + 1)
	}
	var at int64 = -1
	if f.waiting.len() > 0 {
		at = int64(f.waiting.first())
	}
	if f.freeing.len() > 0 {
		if t := f.freeing.top().freeAt; at < 0 || t < at {
			at = t
		}
	}
	if len(f.pools) > 0 && f.hushing() && (at < 0 || f.quietTill < at) {
		at = f.quietTill // to read on
	}
	if len(f.pools) > 0 && f.crowded() && f.fading.len() > 0 {
		if t := f.fading.top().freeAt; at < 0 || t < at {
			at = t // likewise
		}
	}
	if at < 0 {
		return time.Time{}
	}
	return f.epoch.Add(time.Duration(at))
}

// Resolved tells the address of a host that Next gave without one, good until
// expires. The link goes back to the front of its host, which costs no quiet
// time. With an invalid addr the host is slowed down instead. For a host that
// is not being resolved it does nothing.
func (f *Frontier) Resolved(host string, addr netip.Addr, expires, now time.Time) {
	f.tick(now)
	h := f.visited(host)
	if h == nil || h.state != resolving {
		return
	}
	if addr.IsValid() {
		f.settleAt(h, addr.Unmap())
		h.until = secondsOf(f.since(expires))
		h.fresh = secondsOf(f.clock + int64(freshAddress))
	} else {
		f.slowDown(h, 0)
	}
	back := *f.cur(h)
	f.end(h, &back)
}

// Done tells how a link that Next gave out has ended.
type Done struct {
	// NoRequest says that nothing was sent: no quiet time is due.
	NoRequest bool
	// Delay is the host's own wish (Crawl-delay); HostDelay is the least.
	Delay time.Duration
	// Again puts a link back to the front of the host, before all others: the
	// same one to try it again, or one that must come first. It keeps the
	// request number.
	Again *weburl.Link
	// Attempt is handed out again with it.
	Attempt int
	// NotBefore is the earliest time for the host's next request.
	NotBefore time.Time
	// SlowDown lets the host pause: 429, 503, connection trouble. The pause
	// doubles with each and is forgiven slowly (Config.SlowBase).
	SlowDown bool
	// RetryAfter is the pause that the host asked for. It does not count as trouble.
	RetryAfter time.Duration
}

// Done releases a host that Next gave out; now is the end of the response, at
// which the quiet times begin. After any error but ErrNotInProcess the host is
// released all the same; as with Push, what could not be spilled is in RAM.
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
			f.own(h).delay = delay
			f.disown(h)
		}
		f.notBefore(h, f.clock+int64(max(f.cfg.HostDelay, d.Delay)))
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
	f.releaseBuckets(h, d.NoRequest)
	var back *entry
	if d.Again != nil {
		back = &entry{level: d.Again.Level, number: f.cur(h).number, attempt: int32(d.Attempt), enc: d.Again.AppendTo(nil)}
	}
	f.end(h, back)
	f.readAhead(h)
	return f.overflow()
}

// tick brings the clock to now and moves whose time has come.
func (f *Frontier) tick(now time.Time) {
	if f.epoch.IsZero() {
		f.epoch = now
		f.restore(f.restored)
		f.restored = nil
	}
	f.clock = max(f.clock, f.since(now))
	f.adapt()
	for n := 0; f.waiting.len() > 0 && f.waiting.first() <= uint64(f.clock); n++ {
		if n%lookAhead == 0 {
			// So that the processor waits for many hosts at once, as in dict.meet.
			f.waiting.ahead(uint64(f.clock), lookAhead, f.lookAt)
			f.waiting.ahead(uint64(f.clock), lookAhead, f.lookInto)
		}
		h := f.waiting.top()
		f.leave(h)
		f.place(h)
	}
	for f.freeing.len() > 0 && f.freeing.first() <= uint64(f.clock) {
		b := f.freeing.pop()
		b.in = nil
		f.unbar(b)
		f.offer(b, nil)
	}
	for n := 0; f.resting.len() > 0 && f.resting.first() <= uint64(f.clock); n++ {
		if n%lookAhead == 0 {
			f.resting.ahead(uint64(f.clock), lookAhead, f.lookAt)
		}
		h := f.resting.top()
		f.leave(h)
		f.place(h)
	}
	for f.fading.len() > 0 && f.fading.first() <= uint64(f.clock) {
		b := f.fading.pop()
		b.in = nil
		f.forgetBucket(b)
		f.unbar(b)
	}
}

// lookAhead is how many hosts are looked at before they are moved.
const lookAhead = 16

// lookAt reads of h what moving it needs, and of where its first link is.
func (f *Frontier) lookAt(h *host) { f.looked += int(h.pos) + int(h.q.head.r) }

// lookInto reads of h's first link, which it will soon be asked for.
func (f *Frontier) lookInto(h *host) {
	if b := &h.q.head; int(b.r) < len(b.buf) {
		f.looked += int(b.buf[b.r])
	}
}

// since is t on the frontier's clock. Both times' monotonic readings are used
// where they have them, so that a step of the wall clock shortens no quiet time.
func (f *Frontier) since(t time.Time) int64 { return int64(t.Sub(f.epoch)) }
