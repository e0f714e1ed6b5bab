package robots

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/weburl"
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
	// RetryWait is how long an unreachable robots.txt is left alone at first;
	// the wait doubles up to an hour. Zero means 60 s.
	RetryWait time.Duration
	// MemoryBytes bounds the cache; the origins asked about longest ago are
	// forgotten first. Zero means 64 MiB. The budget is split over 16 shards,
	// and each keeps at least the origin it was asked about last.
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

// A state is what is known about an origin; immutable.
type state struct {
	class   uint8
	group   Group // with ClassRules and ClassStale
	fetched time.Time
	expires time.Time  // when to fetch again
	next    weburl.URL // with classRedirect: where the chain stands
	hops    int        // and how many redirects lie behind
	prior   *state     // with classRedirect: what was known before
}

// node is an origin in a shard's map and its list of recent use.
type node struct {
	origin     string
	state      *state
	size       int64
	prev, next *node
}

type shard struct {
	// mu guards all below. It is held for a look-up, never for a match.
	mu    sync.Mutex
	nodes map[string]*node
	root  node // list of all nodes, the latest used first
	bytes int64
}

// A Cache knows what robots.txt says for the origins a crawl is at. Safe for
// concurrent use. Memory only: Entry, Each and Restore carry it over a restart.
type Cache struct {
	agent     string
	ttl       time.Duration
	maxDelay  time.Duration
	giveUp    time.Duration
	retryWait time.Duration
	budget    int64 // a shard's
	seed      maphash.Seed
	shards    [shards]shard
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
	c.budget /= shards
	for i := range c.shards {
		s := &c.shards[i]
		s.nodes = make(map[string]*node)
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
		a := Answer{Verdict: Allowed}
		if st != nil {
			a.Delay = c.delay(st)
		}
		return a
	}
	if st == nil {
		return askFor(u)
	}
	if st.class == classRedirect {
		if now.Sub(st.fetched) < chainLife {
			return Answer{Verdict: Fetch, Fetch: st.next}
		}
		return askFor(u)
	}
	// What claims to hold well beyond what anything may was learnt by a clock
	// that has been set back since.
	if left := st.expires.Sub(now); left <= 0 || left > maxTTL+time.Hour {
		return askFor(u)
	}
	switch st.class {
	case ClassUnavailable:
		return Answer{Verdict: Allowed}
	case ClassUnreachable:
		if c.giveUp > 0 && now.Sub(st.fetched) >= c.giveUp {
			return Answer{Verdict: Allowed}
		}
		return Answer{Verdict: Unreachable, Until: st.expires}
	}
	a := Answer{Delay: c.delay(st)}
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
	if before != nil && before.class == classRedirect {
		if before.next == fetched {
			hops = before.hops
		}
		before = before.prior
	}
	st := &state{fetched: now, expires: now.Add(c.life(r.MaxAge))}
	switch {
	case r.Failed || r.Status == 429 || r.Status < 200 || r.Status >= 500:
		st = c.unreachable(before, now)
	case r.Status < 300:
		rules := Parse(r.Body)
		st.class, st.group = ClassRules, rules.crawlerGroup(c.agent)
		sitemaps = resolve(rules.Sitemaps(), fetched)
	case r.Status == 304 && before != nil && hasRules(before.class):
		st.class, st.group = ClassRules, before.group
	default:
		st.class = ClassUnavailable
		if next, ok := redirect(fetched, r); ok && hops < maxRedirects {
			st.class, st.next, st.hops, st.prior = classRedirect, next, hops+1, before
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

// unreachable is the state after a failure at now. The wait is as long as the
// origin has failed already, so that it doubles, between a minute and an hour.
func (c *Cache) unreachable(before *state, now time.Time) *state {
	st := &state{class: ClassUnreachable, fetched: now}
	if before != nil {
		if before.class == ClassUnreachable || before.class == ClassStale {
			st.fetched = before.fetched // the first failure
		}
		if hasRules(before.class) {
			st.class, st.group = ClassStale, before.group
		}
	}
	st.expires = now.Add(min(max(now.Sub(st.fetched), c.retryWait), maxBackoff))
	return st
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
	s := c.shard(origin)
	s.mu.Lock()
	n := s.nodes[origin]
	var st *state
	if n != nil {
		st = n.state
	}
	s.mu.Unlock()
	return c.entry(origin, st)
}

func (c *Cache) entry(origin string, st *state) (e Entry, ok bool) {
	if st != nil && st.class == classRedirect {
		st = st.prior
	}
	if st == nil {
		return e, false
	}
	return Entry{
		Origin: origin, Agent: c.agent,
		Fetched: st.fetched, Expires: st.expires,
		Class: st.class,
		Body:  st.group.appendText(nil),
	}, true
}

// Restore takes back what an Entry says, in place of what is known about its
// origin. An Entry for another agent is ignored: its rules say nothing about us.
func (c *Cache) Restore(e Entry) {
	if !strings.EqualFold(e.Agent, c.agent) || e.Origin == "" || len(e.Origin) > maxOrigin {
		return
	}
	st := &state{class: e.Class, fetched: e.Fetched, expires: e.Expires}
	switch e.Class {
	case ClassRules, ClassStale:
		st.group = Parse(e.Body).crawlerGroup(c.agent)
	case ClassUnavailable, ClassUnreachable:
	default:
		return
	}
	c.put(e.Origin, st)
}

// Each calls f for every Entry until it fails, and returns that error. What is
// learned meanwhile may be missing.
func (c *Cache) Each(f func(Entry) error) error {
	type known struct {
		origin string
		state  *state
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

func (c *Cache) shard(origin string) *shard {
	return &c.shards[maphash.String(c.seed, origin)%shards]
}

// state looks origin up and marks it as used; nil where nothing is known.
func (c *Cache) state(origin string) *state {
	s := c.shard(origin)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[origin]
	if n == nil {
		return nil
	}
	s.unlink(n)
	s.front(n)
	return n.state
}

func (c *Cache) put(origin string, st *state) {
	size := int64(256+2*len(origin)+len(st.next.String())) + st.group.size()
	if st.prior != nil {
		size += 128 + st.prior.group.size()
	}
	s := c.shard(origin)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[origin]
	if n == nil {
		// A copy, for origin may be the beginning of a long URL.
		n = &node{origin: strings.Clone(origin)}
		s.nodes[n.origin] = n
	} else {
		s.unlink(n)
		s.bytes -= n.size
	}
	n.state, n.size = st, size
	s.front(n)
	s.bytes += size
	for s.bytes > c.budget && s.root.prev != n {
		old := s.root.prev
		s.unlink(old)
		delete(s.nodes, old.origin)
		s.bytes -= old.size
	}
}

func (s *shard) unlink(n *node) { n.prev.next, n.next.prev = n.next, n.prev }

func (s *shard) front(n *node) {
	n.prev, n.next = &s.root, s.root.next
	n.prev.next, n.next.prev = n, n
}
