package robots

import (
	"cmp"
	"hash/maphash"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Config tunes a Cache. In the zero Config the agent has no name, so no group of a robots.txt names
// it: it obeys only the rules for everyone.
type Config struct {
	// Agent is the product token of the crawler: letters, - and _. Letter case is ignored. A token
	// with digits also matches a group that names it in full, which Google's matcher never does. At
	// most 256 bytes.
	Agent string
	// TTL is how long a robots.txt stays valid. Zero means 24 h, which is also the maximum (RFC
	// 9309, 2.4). A reply's MaxAge may shorten it, but to no less than five minutes.
	TTL time.Duration
	// MaxCrawlDelay is the longest Crawl-delay that the crawler obeys; it cuts longer ones. Zero
	// means 300 s.
	MaxCrawlDelay time.Duration
	// GiveUp is how long the robots.txt of an origin must be unreachable before everything is
	// allowed, as if it were missing. If the cache has an earlier copy, the copy applies instead.
	// Zero means 30 days (RFC 9309, 2.3.1.4). Negative means never.
	GiveUp time.Duration
	// RetryWait is the wait after the first failure to reach a robots.txt. The wait doubles with
	// each further failure in a row, up to an hour. The duration of the failed fetches does not
	// count. Zero means 60 s.
	RetryWait time.Duration
	// MemoryBytes limits the cache. If it is full, it drops the origins that were least recently
	// asked about (Stats counts them). Their robots.txt must then be fetched again before anything
	// else. Zero means 64 MiB. That holds about 400,000 origins without a robots.txt or with a
	// widespread one, or 80,000 origins with a small file of their own. Whatever the limit, each of
	// the 16 shards keeps the origin that it was last asked about.
	MemoryBytes int64
}

const (
	minTTL     = 5 * time.Minute
	maxTTL     = 24 * time.Hour
	maxBackoff = time.Hour
	// maxRedirects is the maximum number of redirects in a row to follow (RFC 9309, 2.3.1.2).
	maxRedirects = 5
	// chainLife is how long the cache continues an unfinished chain of redirects.
	chainLife = 10 * time.Minute
	shards    = 16
)

// A Verdict is the kind of an Answer.
type Verdict uint8

// The verdicts.
const (
	Allowed     Verdict = iota // fetch the URL
	Denied                     // do not fetch the URL while these rules hold
	Fetch                      // fetch Answer.Fetch first and give the reply to Learn
	Unreachable                // the rules are unknown; ask again at Answer.Until
)

var verdictNames = [...]string{"allowed", "denied", "fetch", "unreachable"}

// String returns the verdict's name in lower case.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return "invalid"
}

// An Answer tells the caller what to do about a URL.
type Answer struct {
	Verdict Verdict
	Rule    string        // the line that decided; empty if no line did
	Line    int           // its number, from 1
	Delay   time.Duration // the origin's Crawl-delay, at most MaxCrawlDelay; 0 means none
	Fetch   weburl.URL    // with Fetch: the robots.txt, or the URL that it redirects to
	Until   time.Time     // with Unreachable: when to ask again
}

// A Reply is the result of fetching a robots.txt.
type Reply struct {
	Status   int
	Location string // the header as received, for 3xx
	// Body has no content coding. The caller may cut it after ReadLimit+1 bytes.
	Body   []byte
	Failed bool          // no usable reply: network error, timeout, not HTTP
	MaxAge time.Duration // from Cache-Control; 0 means none
}

// A state is what the cache knows about an origin. It is copied, never changed.
type state struct {
	group            Group  // with ClassRules and ClassStale
	chain            *chain // with classRedirect
	fetched, expires int64  // microseconds since 1970; at expires the file must be fetched again
	class            uint8  // 0: nothing is known
	failures         uint8  // failures in a row, with ClassUnreachable and ClassStale
}

func (st *state) since(now time.Time) time.Duration { return now.Sub(time.UnixMicro(st.fetched)) }
func (st *state) left(now time.Time) time.Duration  { return time.UnixMicro(st.expires).Sub(now) }
func (st *state) until() time.Time                  { return time.UnixMicro(st.expires).UTC() }

// valid reports that the file need not be fetched again. An expiry too far in the future was computed from a clock that
// has since been set back.
func (st *state) valid(now time.Time) bool {
	left := st.left(now)
	return left > 0 && left <= maxTTL+time.Hour
}

// known returns a state that is valid from fetched until expires.
func known(class uint8, fetched, expires time.Time) state {
	return state{class: class, fetched: fetched.UnixMicro(), expires: expires.UnixMicro()}
}

// groups returns the groups whose memory st keeps.
func (st *state) groups() [2]*group {
	g := [2]*group{st.group.g}
	if st.chain != nil {
		g[1] = st.chain.prior.group.g
	}
	return g
}

// A node is an origin in a shard's map and in its list of recent use.
type node struct {
	origin     string
	key        uint64
	prev, next *node
	state      state
}

// nodeBytes is the size of a node, its place in the map, and the allocator's rounding.
const nodeBytes = 80 + 40 + 8

// size returns the memory of a node in bytes, without its groups.
func (n *node) size() int64 {
	size := nodeBytes + int64(len(n.origin))
	if c := n.state.chain; c != nil {
		size += 128 + int64(len(c.next.String()))
		for _, o := range c.passed {
			size += 16 + int64(len(o))
		}
	}
	return size
}

type shard struct {
	// mu guards all fields below. It is held for a lookup, never during a match.
	mu sync.Mutex
	// nodes is keyed by a hash of the origin. If two origins share a hash, the later one replaces
	// the earlier one, whose file must then be fetched again.
	nodes map[uint64]*node
	root  node // list of all nodes, the most recently used first
}

// A Cache holds what robots.txt says for the origins of a crawl. Safe for concurrent use. It is in
// memory only; Entry, Each and Restore carry it over a restart.
type Cache struct {
	agent     string
	ttl       time.Duration
	maxDelay  time.Duration
	giveUp    time.Duration
	retryWait time.Duration
	budget    int64
	bytes     atomic.Int64 // memory of all nodes and groups
	forgotten atomic.Int64
	seed      maphash.Seed
	shared    sharing
	shards    [shards]shard
}

// Agent returns the product token of the crawler.
func (c *Cache) Agent() string { return c.agent }

// Stats describes how full a Cache is.
type Stats struct {
	Origins   int
	Groups    int   // different sets of rules; origins with the same rules share one
	Bytes     int64 // used part of Config.MemoryBytes
	Forgotten int64 // origins dropped since NewCache: by the memory limit, a hash collision or Forget
}

// Stats returns the current figures.
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
	c.giveUp = cmp.Or(c.giveUp, 30*24*time.Hour)
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

// Ask returns what to do about u at now. It does not block. It does not allocate for a URL whose
// escapes are in normal form.
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
		if st.since(now) >= chainLife {
			return askFor(u)
		}
		there, ok := c.ends(u.Origin(), st.chain, now)
		if !ok {
			return Answer{Verdict: Fetch, Fetch: st.chain.next}
		}
		c.put(u.Origin(), there)
		st = there
	}
	if !st.valid(now) {
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
			return askFor(u) // likewise computed from a clock that has been set back
		}
		return Answer{Verdict: Unreachable, Until: now.Add(st.left(now))} // whatever the wall clock shows then
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

// askFor returns the answer that asks for u's robots.txt.
func askFor(u weburl.URL) Answer {
	r, err := u.Resolve("/robots.txt")
	if err != nil {
		// Only a zero u has no robots.txt, and a zero u must not be fetched.
		return Answer{Verdict: Denied}
	}
	return Answer{Verdict: Fetch, Fetch: r}
}

// Learn records the reply to a fetch that Ask requested. u is the page that Ask was called for, and
// fetched is the URL of the reply; zero: nothing was requested. Learn returns the sitemaps that a newly
// read robots.txt names, as canonical URLs without repetitions.
//
// Each reply has this meaning (RFC 9309, 2.3.1):
//
//   - 2xx: the body has the rules.
//   - 304: the earlier rules still hold, if there are any.
//   - A redirect is followed, up to five in a row. If it leads to the robots.txt of another origin, the rules are those
//     of that origin, too: the file is fetched once for both.
//   - Any other 3xx or 4xx, a sixth redirect, or a redirect to an unusable URL: there is no
//     robots.txt, all is allowed.
//   - 5xx, 429, any other status and a failed fetch: the rules are unknown.
//
// 429 follows Google: a server that is overloaded has not said that everything is allowed.
func (c *Cache) Learn(u, fetched weburl.URL, r Reply, now time.Time) (sitemaps []string) {
	if u.IsZero() {
		return nil
	}
	origin := u.Origin()
	before := c.state(origin)
	at := chain{}
	if before.class == classRedirect {
		if before.chain.next == fetched {
			at = *before.chain
		}
		before = before.chain.prior
	}
	at.pass(fetched, origin)
	st := known(ClassUnavailable, now, now.Add(c.replyTTL(r.MaxAge)))
	shared := at.passed // the origins for which the reply says the same
	switch {
	case r.Failed || r.Status == 429 || r.Status < 200 || r.Status >= 500:
		st = c.unreachable(&before, now)
	case r.Status < 300:
		rules := Parse(r.Body)
		st.class, st.group = ClassRules, rules.CrawlerGroup(c.agent)
		sitemaps = resolve(rules.Sitemaps(), fetched)
	case r.Status == 304 && hasRules(before.class):
		st.class, st.group = ClassRules, before.group
		shared = nil
	case r.Status < 400:
		shared = nil // they have redirects left
		if next, ok := redirect(fetched, r); ok && at.hops < maxRedirects {
			at.next, at.hops, at.prior = next, at.hops+1, before
			st.class, st.chain = classRedirect, &at
			if there, ok := c.ends(origin, &at, now); ok {
				st = there
			}
		}
	}
	c.put(origin, st)
	for _, o := range shared {
		theirs := st
		if st.class == ClassUnreachable || st.class == ClassStale {
			prior := c.state(o)
			if prior.class == classRedirect {
				prior = prior.chain.prior
			}
			theirs = c.unreachable(&prior, now)
		}
		c.put(o, theirs)
	}
	return sitemaps
}

func hasRules(class uint8) bool { return class == ClassRules || class == ClassStale }

// replyTTL returns how long a reply stays valid.
func (c *Cache) replyTTL(maxAge time.Duration) time.Duration {
	if maxAge <= 0 {
		return c.ttl
	}
	return min(c.ttl, max(maxAge, minTTL))
}

// unreachable returns the state after a failure at now.
func (c *Cache) unreachable(before *state, now time.Time) state {
	st := known(ClassUnreachable, now, now)
	if before.class == ClassUnreachable || before.class == ClassStale {
		st.fetched = before.fetched // keep the time of the first failure
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

// wait returns how long an unreachable origin is not asked. It depends only on the number of
// failures: time in which the crawl asked nothing says nothing about the origin.
func (c *Cache) wait(st *state) time.Duration {
	wait := min(c.retryWait, maxBackoff)
	for n := uint8(1); n < st.failures && wait < maxBackoff; n++ {
		wait *= 2
	}
	return min(wait, maxBackoff)
}

// resolve returns the values of Sitemap lines as canonical URLs without repetitions. It skips
// invalid ones.
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

// Entry returns what the cache knows about origin. ok is false if it knows nothing worth keeping.
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

// Restore stores an Entry in place of what the cache knows about its origin. It ignores an Entry
// for another agent, whose rules do not apply to this one.
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

// Forget drops what the cache knows about u's origin. The next Ask then requests its robots.txt.
func (c *Cache) Forget(u weburl.URL) {
	origin := u.Origin()
	s, key := c.shard(origin)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[key]; n != nil && n.origin == origin {
		c.forget(s, n)
	}
}

// Each calls f for every Entry. It stops at the first error of f and returns it. Replies that the
// cache learns meanwhile may be missing. f runs without a lock.
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
		// The least recently used first, so that a Restore in this order keeps the order of use.
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

// state looks up origin and marks it as used.
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
	// Hold the new groups before releasing the old ones. Otherwise a group in both would be dropped
	// and made again.
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
		// Clone, because origin may be the beginning of a long URL.
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

// shrink drops the least recently used origins until the cache is within its budget. It starts with
// shard at. Origins are spread evenly over the shards, so any shard will do.
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

// forget removes n from its shard. The caller holds the shard's lock.
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
