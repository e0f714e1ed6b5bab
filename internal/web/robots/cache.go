package robots

import (
	"hash/maphash"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Config tunes a Cache. The zero Config allows only what everyone may do, for
// no robots.txt names an agent without a name.
type Config struct {
	// Agent is the product token of the crawler: letters, - and _; letter case
	// is ignored. One with digits is also matched in full, which Google's
	// matcher never does. At most 256 bytes.
	Agent string
	// TTL is how long a robots.txt is good for, at most and by default 24 h
	// (RFC 9309, 2.4). A reply's MaxAge may shorten it to five minutes.
	TTL time.Duration
	// MaxCrawlDelay bounds the Crawl-delay that is obeyed. Zero means 300 s.
	MaxCrawlDelay time.Duration
	// GiveUp is how long an origin's robots.txt has to be unreachable until it
	// counts as unavailable, and all is allowed. Zero means 30 days
	// (RFC 9309, 2.3.1.4); negative means never.
	GiveUp time.Duration
	// RetryWait is how long an unreachable robots.txt is left alone after the
	// first failure. The wait doubles with each further failure in a row, up to
	// an hour, however long the failures take. Zero means 60 s.
	RetryWait time.Duration
	// MemoryBytes bounds the cache; the origins asked about longest ago are
	// forgotten first, and have to be fetched again before anything else of
	// theirs (Stats counts them). Zero means 64 MiB, which holds some 400,000
	// origins without a robots.txt or with one that many have, 80,000 with
	// small ones of their own. Each of 16 shards keeps at least the origin it
	// was asked about last, whatever the budget.
	MemoryBytes int64
}

const (
	minTTL     = 5 * time.Minute
	maxTTL     = 24 * time.Hour
	maxBackoff = time.Hour
	// maxRedirects is how many are followed (RFC 9309, 2.3.1.2).
	maxRedirects = 5
	// chainLife is how long a half-followed chain of redirects is gone on with.
	chainLife = 10 * time.Minute
	shards    = 16
)

// A Verdict is the kind of an Answer.
type Verdict uint8

// The verdicts.
const (
	Allowed     Verdict = iota // fetch it
	Denied                     // never fetch it, as long as the rules are these
	Fetch                      // fetch Answer.Fetch first and let the Cache learn the reply
	Unreachable                // nobody knows; ask again at Answer.Until
)

var verdictNames = [...]string{"allowed", "denied", "fetch", "unreachable"}

func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "invalid"
}

// An Answer says what to do about a URL.
type Answer struct {
	Verdict Verdict
	Rule    string        // the line that decided; empty without one
	Line    int           // its number from 1
	Delay   time.Duration // the origin's Crawl-delay, bounded; 0 none
	Fetch   weburl.URL    // with Fetch: the robots.txt, or what it redirects to
	Until   time.Time     // with Unreachable: when to ask again
}

// A Reply is what came of fetching a robots.txt.
type Reply struct {
	Status   int
	Location string // the header as it came, for 3xx
	// Body is without content coding. It may be cut behind ReadLimit+1 bytes.
	Body   []byte
	Failed bool          // no usable reply: network error, timeout, not HTTP
	MaxAge time.Duration // from Cache-Control; 0 none
}

// A state is what is known about an origin. It is copied, never changed.
type state struct {
	group            Group  // with ClassRules and ClassStale
	chain            *chain // with classRedirect
	fetched, expires int64  // microseconds since 1970; expires: when to fetch again
	class            uint8  // 0: nothing is known
	failures         uint8  // in a row, with ClassUnreachable and ClassStale
}

// A chain is where a chain of redirects stands; immutable.
type chain struct {
	next  weburl.URL
	hops  int   // how many redirects lie behind
	prior state // what was known before
}

func (st *state) since(now time.Time) time.Duration { return now.Sub(time.UnixMicro(st.fetched)) }
func (st *state) left(now time.Time) time.Duration  { return time.UnixMicro(st.expires).Sub(now) }
func (st *state) until() time.Time                  { return time.UnixMicro(st.expires).UTC() }

// known is a state that lasts from fetched until expires.
func known(class uint8, fetched, expires time.Time) state {
	return state{class: class, fetched: fetched.UnixMicro(), expires: expires.UnixMicro()}
}

// groups are those whose memory st holds on to.
func (st *state) groups() [2]*group {
	g := [2]*group{st.group.g}
	if st.chain != nil {
		g[1] = st.chain.prior.group.g
	}
	return g
}

// node is an origin in a shard's map and its list of recent use.
type node struct {
	origin     string
	key        uint64
	prev, next *node
	state      state
}

// nodeBytes is a node, its place in the map and what the allocator rounds.
const nodeBytes = 80 + 40 + 8

// size is what a node takes, without its groups.
func (n *node) size() int64 {
	size := nodeBytes + int64(len(n.origin))
	if c := n.state.chain; c != nil {
		size += 128 + int64(len(c.next.String()))
	}
	return size
}

type shard struct {
	// mu guards all below. It is held for a look-up, never for a match.
	mu sync.Mutex
	// nodes is by a hash of the origin. Should two ever share one, the later
	// takes the place of the earlier, which is fetched again.
	nodes map[uint64]*node
	root  node // list of all nodes, the latest used first
}

// A Cache knows what robots.txt says for the origins a crawl is at. Safe for
// concurrent use. Memory only: Entry, Each and Restore carry it over a restart.
type Cache struct {
	agent     string
	ttl       time.Duration
	maxDelay  time.Duration
	giveUp    time.Duration
	retryWait time.Duration
	budget    int64
	bytes     atomic.Int64 // of nodes and groups
	forgotten atomic.Int64
	seed      maphash.Seed
	shared    sharing
	shards    [shards]shard
}

// Stats say how full a Cache is.
type Stats struct {
	Origins   int
	Groups    int   // different sets of rules; origins with the same share one
	Bytes     int64 // what it takes of Config.MemoryBytes
	Forgotten int64 // origins that had to go for others' sake, ever
}

// Stats returns the figures as they are now.
func (c *Cache) Stats() Stats {
	st := Stats{Bytes: c.bytes.Load(), Forgotten: c.forgotten.Load(), Groups: c.shared.len()}
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		st.Origins += len(s.nodes)
		s.mu.Unlock()
	}
	return st
}

// NewCache returns an empty Cache.
func NewCache(cfg Config) *Cache {
	c := &Cache{
		agent:     cfg.Agent[:min(len(cfg.Agent), maxAgent)],
		ttl:       cfg.TTL,
		maxDelay:  cfg.MaxCrawlDelay,
		giveUp:    cfg.GiveUp,
		retryWait: cfg.RetryWait,
		budget:    cfg.MemoryBytes,
		seed:      maphash.MakeSeed(),
	}
	if c.ttl <= 0 || c.ttl > maxTTL {
		c.ttl = maxTTL
	}
	if c.maxDelay <= 0 {
		c.maxDelay = 300 * time.Second
	}
	if c.retryWait <= 0 {
		c.retryWait = time.Minute
	}
	if c.giveUp == 0 {
		c.giveUp = 30 * 24 * time.Hour
	}
	if c.budget <= 0 {
		c.budget = 64 << 20
	}
	c.shared.init()
	for i := range c.shards {
		s := &c.shards[i]
		s.nodes = make(map[uint64]*node)
		s.root.prev, s.root.next = &s.root, &s.root
	}
	return c
}

// Ask says what to do about u at now. It does not block and, for a URL whose
// escapes are in normal form, does not allocate.
func (c *Cache) Ask(u weburl.URL, now time.Time) Answer {
	path := u.RequestURI()
	st := c.state(u.Origin())
	if path == "/robots.txt" {
		return Answer{Verdict: Allowed, Delay: c.delay(&st)}
	}
	switch st.class {
	case 0:
		return askFor(u)
	case classRedirect:
		if st.since(now) < chainLife {
			return Answer{Verdict: Fetch, Fetch: st.chain.next}
		}
		return askFor(u)
	}
	// What claims to hold well beyond what anything may was learnt by a clock
	// that has been set back since.
	if left := st.left(now); left <= 0 || left > maxTTL+time.Hour {
		return askFor(u)
	}
	switch st.class {
	case ClassUnavailable:
		return Answer{Verdict: Allowed}
	case ClassUnreachable:
		if c.giveUp > 0 && st.since(now) >= c.giveUp {
			return Answer{Verdict: Allowed}
		}
		if st.left(now) > c.wait(&st)+time.Second {
			return askFor(u) // learnt by a clock that has been set back, too
		}
		return Answer{Verdict: Unreachable, Until: st.until()}
	}
	a := Answer{Delay: c.delay(&st)}
	ok, rule, line := st.group.Crawlable(path)
	if !ok {
		a.Verdict = Denied
	}
	a.Rule, a.Line = rule, line
	return a
}

func (c *Cache) delay(st *state) time.Duration {
	d, _ := st.group.CrawlDelay()
	return min(d, c.maxDelay)
}

// askFor is the answer that sends for u's robots.txt.
func askFor(u weburl.URL) Answer {
	r, err := u.Resolve("/robots.txt")
	if err != nil {
		// Only a zero u has no robots.txt, and nothing may be fetched for it.
		return Answer{Verdict: Denied}
	}
	return Answer{Verdict: Fetch, Fetch: r}
}

// Learn takes in the reply to what Ask sent for: u is the page that was asked
// about, fetched the URL that the reply came from. It returns the sitemaps
// that a newly read robots.txt names, as canonical URLs without repetitions.
//
// What each reply means (RFC 9309, 2.3.1): 2xx are rules; a redirect is
// followed, five in a row; any other 3xx or 4xx, a sixth redirect or one to
// nowhere mean that there is no robots.txt; 5xx, 429 and failures mean that
// nobody knows. 429 is Google's exception: a server that cannot keep up has
// not said that all is allowed.
func (c *Cache) Learn(u, fetched weburl.URL, r Reply, now time.Time) (sitemaps []string) {
	if u.IsZero() {
		return nil
	}
	origin := u.Origin()
	before := c.state(origin)
	hops := 0
	if before.class == classRedirect {
		if before.chain.next == fetched {
			hops = before.chain.hops
		}
		before = before.chain.prior
	}
	st := known(ClassUnavailable, now, now.Add(c.life(r.MaxAge)))
	switch {
	case r.Failed || r.Status == 429 || r.Status < 200 || r.Status >= 500:
		st = c.unreachable(&before, now)
	case r.Status < 300:
		rules := Parse(r.Body)
		st.class, st.group = ClassRules, rules.CrawlerGroup(c.agent)
		sitemaps = resolve(rules.Sitemaps(), fetched)
	case r.Status == 304 && hasRules(before.class):
		st.class, st.group = ClassRules, before.group
	default:
		if next, ok := redirect(fetched, r); ok && hops < maxRedirects {
			st.class, st.chain = classRedirect, &chain{next, hops + 1, before}
		}
	}
	c.put(origin, st)
	return sitemaps
}

func hasRules(class uint8) bool { return class == ClassRules || class == ClassStale }

// redirect reads where a reply points.
func redirect(from weburl.URL, r Reply) (to weburl.URL, ok bool) {
	switch r.Status {
	case 301, 302, 303, 307, 308:
		if strings.TrimSpace(r.Location) == "" {
			return to, false
		}
		to, err := from.Resolve(r.Location)
		return to, err == nil && len(to.String()) <= weburl.MaxLength
	}
	return to, false
}

// life is how long a reply is good for.
func (c *Cache) life(maxAge time.Duration) time.Duration {
	if maxAge <= 0 {
		return c.ttl
	}
	return min(c.ttl, max(maxAge, minTTL))
}

// unreachable is the state after a failure at now.
func (c *Cache) unreachable(before *state, now time.Time) state {
	st := known(ClassUnreachable, now, now)
	if before.class == ClassUnreachable || before.class == ClassStale {
		st.fetched = before.fetched // the first failure
		st.failures = before.failures
	}
	if st.failures < math.MaxUint8 {
		st.failures++
	}
	if hasRules(before.class) {
		st.class, st.group = ClassStale, before.group
	}
	st.expires = now.Add(c.wait(&st)).UnixMicro()
	return st
}

// wait is how long an unreachable origin is left alone. It depends on the
// failures alone: time in which the crawl asked nothing says nothing about the
// origin.
func (c *Cache) wait(st *state) time.Duration {
	wait := min(c.retryWait, maxBackoff)
	for n := uint8(1); n < st.failures && wait < maxBackoff; n++ {
		wait *= 2
	}
	return min(wait, maxBackoff)
}

// resolve makes the values of Sitemap lines absolute.
func resolve(values []string, base weburl.URL) []string {
	var urls []string
	seen := make(map[weburl.URL]bool, len(values))
	for _, v := range values {
		u, err := base.Resolve(v)
		if err != nil || seen[u] {
			continue
		}
		seen[u] = true
		urls = append(urls, u.String())
	}
	return urls
}

// Entry returns what is known about origin; ok is false where nothing is that
// is worth keeping.
func (c *Cache) Entry(origin string) (e Entry, ok bool) {
	s, key := c.shard(origin)
	s.mu.Lock()
	var st state
	if n := s.nodes[key]; n != nil && n.origin == origin {
		st = n.state
	}
	s.mu.Unlock()
	return c.entry(origin, st)
}

func (c *Cache) entry(origin string, st state) (e Entry, ok bool) {
	if st.class == classRedirect {
		st = st.chain.prior
	}
	if st.class == 0 {
		return e, false
	}
	return Entry{
		Origin: origin, Agent: c.agent,
		Fetched: time.UnixMicro(st.fetched).UTC(), Expires: st.until(),
		Class: st.class, Failures: st.failures,
		Body: st.group.appendText(nil),
	}, true
}

// Restore takes back what an Entry says, in place of what is known about its
// origin. An Entry for another agent is ignored: its rules say nothing about us.
func (c *Cache) Restore(e Entry) {
	if !strings.EqualFold(e.Agent, c.agent) || e.Origin == "" || len(e.Origin) > maxOrigin {
		return
	}
	st := known(e.Class, e.Fetched, e.Expires)
	st.failures = e.Failures
	switch e.Class {
	case ClassRules, ClassStale:
		st.group = Parse(e.Body).CrawlerGroup(c.agent)
	case ClassUnavailable, ClassUnreachable:
	default:
		return
	}
	c.put(e.Origin, st)
}

// Forget drops what is known of u's origin, so that the next Ask wants its
// robots.txt fetched.
func (c *Cache) Forget(u weburl.URL) {
	origin := u.Origin()
	s, key := c.shard(origin)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[key]; n != nil && n.origin == origin {
		c.forget(s, n)
	}
}

// Each calls f for every Entry until it fails, and returns that error. What is
// learned meanwhile may be missing.
func (c *Cache) Each(f func(Entry) error) error {
	type known struct {
		origin string
		state  state
	}
	var all []known
	for i := range c.shards {
		s := &c.shards[i]
		all = all[:0]
		s.mu.Lock()
		// The oldest first, so that a Restore in this order keeps the order of use.
		for n := s.root.prev; n != &s.root; n = n.prev {
			all = append(all, known{n.origin, n.state})
		}
		s.mu.Unlock()
		for _, k := range all {
			if e, ok := c.entry(k.origin, k.state); ok {
				if err := f(e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *Cache) shard(origin string) (*shard, uint64) {
	key := maphash.String(c.seed, origin)
	return &c.shards[key%shards], key
}

// state looks origin up and marks it as used.
func (c *Cache) state(origin string) state {
	s, key := c.shard(origin)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[key]
	if n == nil || n.origin != origin {
		return state{}
	}
	if s.root.next != n {
		s.unlink(n)
		s.front(n)
	}
	return n.state
}

func (c *Cache) put(origin string, st state) {
	// The groups first, so that one that was there before is not let go only
	// to be made again.
	var more int64
	st.group.g, more = c.shared.hold(st.group.g)
	if st.chain != nil {
		prior, bytes := c.shared.hold(st.chain.prior.group.g)
		link := *st.chain
		link.prior.group.g = prior
		st.chain = &link
		more += bytes
	}
	s, key := c.shard(origin)
	s.mu.Lock()
	n := s.nodes[key]
	var old state
	if n == nil || n.origin != origin {
		if n != nil {
			c.forget(s, n)
		}
		// A copy, for origin may be the beginning of a long URL.
		n = &node{origin: strings.Clone(origin), key: key}
		s.nodes[key] = n
	} else {
		s.unlink(n)
		more -= n.size()
		old = n.state
	}
	n.state = st
	s.front(n)
	c.bytes.Add(more + n.size() - c.shared.release(old.groups()))
	s.mu.Unlock()
	c.shrink(key % shards)
}

// shrink forgets what was used longest ago until the budget holds, in shard at
// first: keys are spread evenly, so that one is as good as another.
func (c *Cache) shrink(at uint64) {
	for i := range uint64(shards) {
		s := &c.shards[(at+i)%shards]
		for c.bytes.Load() > c.budget {
			s.mu.Lock()
			n := s.root.prev
			last := n == s.root.next || n == &s.root
			if !last {
				c.forget(s, n)
			}
			s.mu.Unlock()
			if last {
				break
			}
		}
	}
}

// forget removes n from its shard, which the caller has locked.
func (c *Cache) forget(s *shard, n *node) {
	s.unlink(n)
	delete(s.nodes, n.key)
	c.bytes.Add(-n.size() - c.shared.release(n.state.groups()))
	c.forgotten.Add(1)
}

func (s *shard) unlink(n *node) { n.prev.next, n.next.prev = n.next, n.prev }

func (s *shard) front(n *node) {
	n.prev, n.next = &s.root, s.root.next
	n.prev.next, n.next.prev = n, n
}
