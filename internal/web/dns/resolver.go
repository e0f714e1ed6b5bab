package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/recent"
)

// Errors of Lookup. Test for them with errors.Is.
var (
	// ErrNotFound means that the name does not exist or has no address.
	ErrNotFound = errors.New("host not found")
	// ErrName is an ErrNotFound that needed no query: no host can have such a name.
	ErrName = fmt.Errorf("invalid host name: %w", ErrNotFound)
	// ErrTimeout means that no server answered in time.
	ErrTimeout = errors.New("name servers did not answer")
	// ErrServer means that the servers reported a failure of their own or sent malformed replies.
	ErrServer = errors.New("name server failure")
	// ErrClosed means that the Resolver has been closed.
	ErrClosed = errors.New("resolver closed")
)

// Config tunes a Resolver. The zero Config resolves names as the machine does, without IPv6.
type Config struct {
	// Servers are the name servers in the order of use, as host or host:port with a literal
	// address. Empty means the servers of ResolvConf. At most 16 are used.
	Servers []string
	// ResolvConf is the file to read if Servers is empty. Empty means /etc/resolv.conf; if that
	// file is missing, the servers are 127.0.0.1 and ::1. Search domains are ignored, because the
	// host of a link is complete.
	ResolvConf string
	// HostsFile is read once, by New. Its names are never queried. Empty means /etc/hosts, "-"
	// means none.
	HostsFile string
	// Timeout is how long one query waits for its reply. Zero means 2 s.
	Timeout time.Duration
	// Attempts is the maximum number of queries for one question, over all servers. Each server is
	// asked at least once even if there are more servers. Zero means 4.
	Attempts int
	// Concurrency is the maximum number of queries on the wire. Zero means 256.
	Concurrency int
	// CacheEntries is the maximum number of names in the cache; each takes about 200 bytes. Zero
	// means 100,000.
	CacheEntries int
	// MinTTL and MaxTTL limit how long an address is cached. Zero means 60 s and 24 h.
	MinTTL, MaxTTL time.Duration
	// NegativeTTL is the maximum time for which a missing host is cached (RFC 2308, 5). Zero means
	// 1 h.
	NegativeTTL time.Duration
	// IPv6 makes the resolver ask for AAAA as well as A.
	IPv6 bool
	// Clock is the clock for the expiry of answers. Nil means clock.System.
	Clock clock.Clock
	// Took counts how long the look-ups take that name servers answer with an address, in seconds. It must be safe for
	// concurrent use. Nil counts nothing.
	Took interface{ Observe(seconds float64) }
	// Dial opens sockets to the servers. Nil means net.Dialer's. If the process has no file
	// descriptor left, the resolver dials again for up to 30 s, because a shortage is not the name
	// server's failure.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Spare has file descriptors that the process can spare. The resolver asks it before it dials
	// again after a shortage. Nil means that there is nothing to free.
	Spare disk.Spare
}

const (
	maxServers = 16
	// failureTTL is how long a failure is cached, so that a dead zone costs one round of queries
	// and not one round for each of its links (RFC 9520, 3.2).
	failureTTL = 5 * time.Second
	// maxAddrs is the maximum number of addresses in an Answer.
	maxAddrs = 32
)

// An Answer holds the addresses of a host and when they expire. It is shared: do not change Addrs.
type Answer struct {
	Addrs   []netip.Addr // IPv4 first, each family in the server's order; at most 32
	Expires time.Time
}

// A Resolver looks up hosts. Safe for concurrent use.
type Resolver struct {
	cfg     Config
	servers []*server
	hosts   map[string][]netip.Addr
	cache   *recent.Cache[string, entry]
	slots   chan struct{} // one entry for each query on the wire

	base   context.Context // the parent context of all flights
	cancel context.CancelFunc
	wg     sync.WaitGroup // counts the flights

	// mu guards flights and closed.
	mu      sync.Mutex
	flights map[string]*flight
	closed  bool
}

// A flight is a lookup in progress and its waiting callers.
type flight struct {
	done    chan struct{} // closed when answer and err are set
	cancel  context.CancelFunc
	waiters int // guarded by Resolver.mu
	answer  Answer
	err     error
}

// New reads the configuration files and returns a Resolver with an empty cache. It sends nothing.
// It returns an error if a file cannot be read or a server is not a valid address.
func New(cfg Config) (*Resolver, error) {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&cfg.Timeout, 2*time.Second)
	def(&cfg.MinTTL, time.Minute)
	def(&cfg.MaxTTL, 24*time.Hour)
	def(&cfg.NegativeTTL, time.Hour)
	cfg.MinTTL = min(cfg.MinTTL, cfg.MaxTTL)
	if cfg.Attempts <= 0 {
		cfg.Attempts = 4
	}
	if cfg.Concurrency <= 0 {
		cfg.Concurrency = 256
	}
	if cfg.CacheEntries <= 0 {
		cfg.CacheEntries = 100_000
	}
	cfg.Clock = clock.Or(cfg.Clock)
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	r := &Resolver{
		cfg:     cfg,
		cache:   recent.New[string, entry](cfg.CacheEntries),
		slots:   make(chan struct{}, cfg.Concurrency),
		flights: make(map[string]*flight),
	}
	addrs := cfg.Servers
	if len(addrs) == 0 {
		var err error
		if addrs, err = readResolvConf(cfg.ResolvConf); err != nil {
			return nil, err
		}
	}
	for _, a := range addrs[:min(len(addrs), maxServers)] {
		addr, err := serverAddr(a)
		if err != nil {
			return nil, err
		}
		r.servers = append(r.servers, &server{addr: addr})
	}
	var err error
	if r.hosts, err = readHosts(cfg.HostsFile); err != nil {
		return nil, err
	}
	r.base, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// Close ends the lookups in progress and waits for them. Later lookups return ErrClosed, unless a
// literal, the hosts file or the cache answers them. The error is always nil.
func (r *Resolver) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.wg.Wait()
	for _, s := range r.servers {
		s.sockets.close()
	}
	return nil
}

// Lookup returns the addresses of host. They come from host itself if it is an address literal
// (brackets are allowed), else from the hosts file, the cache or the servers. host is in ASCII.
//
// Lookup blocks until an answer arrives or ctx ends. The error is ErrNotFound, ErrTimeout or
// ErrServer if the network gave no address; these are results of the crawl and not failures of the
// agent. It is ErrClosed after Close, and ctx's error if ctx ended.
func (r *Resolver) Lookup(ctx context.Context, host string) (Answer, error) {
	if a, ok := literal(host); ok {
		return Answer{Addrs: []netip.Addr{a}, Expires: r.cfg.Clock.Now().Add(r.cfg.MaxTTL)}, nil
	}
	name, err := canonical(host)
	if err != nil {
		return Answer{}, err
	}
	now := r.cfg.Clock.Now()
	if addrs := r.hosts[name]; len(addrs) > 0 {
		return Answer{Addrs: addrs, Expires: now.Add(r.cfg.MaxTTL)}, nil
	}
	if special[name[strings.LastIndexByte(name, '.')+1:]] {
		return Answer{}, fmt.Errorf("look up %s: %w", name, ErrName)
	}
	if a, err, ok := r.cached(name, now); ok {
		return a, err
	}
	return r.join(ctx, name)
}

// An entry is the result for a name: its addresses, or the error that there are none. With its name, one address and
// its place it takes about 200 bytes. An error takes about 200 bytes more.
type entry struct {
	Answer
	err error
}

// cached returns the result for a name that has not expired at now. ok is false if there is none.
func (r *Resolver) cached(name string, now time.Time) (a Answer, err error, ok bool) {
	e, ok := r.cache.Get(name)
	if !ok || !now.Before(e.Expires) {
		return Answer{}, nil, false
	}
	if e.err != nil {
		return Answer{}, e.err, true
	}
	return e.Answer, nil, true
}

// Cached returns the number of names in the cache, expired ones included. Safe for concurrent use.
func (r *Resolver) Cached() int { return r.cache.Len() }

// join waits for the flight of name. It starts the flight if there is none.
func (r *Resolver) join(ctx context.Context, name string) (Answer, error) {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return Answer{}, fmt.Errorf("look up %s: %w", name, ErrClosed)
	}
	f := r.flights[name]
	if f == nil {
		// A flight may have ended between the cache lookup in Lookup and this point.
		began := r.cfg.Clock.Now()
		if a, err, ok := r.cached(name, began); ok {
			r.mu.Unlock()
			return a, err
		}
		fctx, cancel := context.WithCancel(r.base)
		f = &flight{done: make(chan struct{}), cancel: cancel}
		r.flights[name] = f
		r.wg.Go(func() { r.runFlight(fctx, name, f, began) })
	}
	f.waiters++
	r.mu.Unlock()

	select {
	case <-f.done:
		return f.answer, f.err
	case <-ctx.Done():
	}
	r.mu.Lock()
	f.waiters--
	if f.waiters == 0 {
		f.cancel()
		if r.flights[name] == f {
			delete(r.flights, name) // the next caller starts a new flight
		}
	}
	r.mu.Unlock()
	return Answer{}, fmt.Errorf("look up %s: %w", name, ctx.Err())
}

// runFlight looks a name up for a flight that began at a time.
func (r *Resolver) runFlight(ctx context.Context, name string, f *flight, began time.Time) {
	defer f.cancel()
	a, ttl, err := r.resolve(ctx, name)
	now := r.cfg.Clock.Now()
	if err != nil {
		err = fmt.Errorf("look up %s: %w", name, err)
		if ctx.Err() != nil && r.base.Err() != nil {
			err = fmt.Errorf("look up %s: %w", name, ErrClosed)
		}
	}
	f.answer, f.err = Answer{}, err
	if err == nil {
		f.answer = Answer{Addrs: a, Expires: now.Add(ttl)}
		if r.cfg.Took != nil {
			r.cfg.Took.Observe(now.Sub(began).Seconds())
		}
	}
	if ctx.Err() == nil {
		// Fill the cache before the flight goes, so that no caller queries again. Clone name, which
		// may be part of a long URL.
		r.cache.Set(strings.Clone(name), entry{Answer{f.answer.Addrs, now.Add(ttl)}, err})
	}
	r.mu.Lock()
	if r.flights[name] == f {
		delete(r.flights, name)
	}
	r.mu.Unlock()
	close(f.done)
}
