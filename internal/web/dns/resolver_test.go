package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// setClock is a clock that the test sets.
type setClock struct{ t atomic.Int64 }

func (c *setClock) Now() time.Time          { return time.Unix(1_700_000_000, c.t.Load()) }
func (c *setClock) advance(d time.Duration) { c.t.Add(int64(d)) }

// A nameServer is a real server on loopback, by UDP and TCP, with a zone in text form.
type nameServer struct {
	addr     string
	udp, tcp atomic.Int64 // queries
	mu       sync.Mutex   // guards asked
	asked    []string
}

// listenBoth opens one port for UDP and TCP. It retries, because a port that is free for one may be
// taken for the other.
func listenBoth(t testing.TB) (net.PacketConn, net.Listener) {
	t.Helper()
	for {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		must.Do(t, err)
		l, err := net.Listen("tcp", pc.LocalAddr().String())
		if err == nil {
			return pc, l
		}
		pc.Close()
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// serve starts a server. handle fills in the reply; if it returns false, the server sends none.
func serve(t testing.TB, handle func(q dns.Question, m *dns.Msg, tcp bool) bool) *nameServer {
	t.Helper()
	pc, l := listenBoth(t)
	ns := &nameServer{addr: pc.LocalAddr().String()}
	h := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		tcp := w.RemoteAddr().Network() == "tcp"
		if tcp {
			ns.tcp.Add(1)
		} else {
			ns.udp.Add(1)
		}
		ns.mu.Lock()
		ns.asked = append(ns.asked, q.Question[0].Name+" "+dns.TypeToString[q.Question[0].Qtype])
		ns.mu.Unlock()
		m := new(dns.Msg)
		m.SetReply(q)
		m.RecursionAvailable = true
		if handle(q.Question[0], m, tcp) {
			w.WriteMsg(m)
		}
	})
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: h}, {Listener: l, Handler: h}} {
		up := make(chan struct{})
		s.NotifyStartedFunc = func() { close(up) }
		done := make(chan struct{})
		go func() { defer close(done); s.ActivateAndServe() }()
		<-up
		t.Cleanup(func() { s.Shutdown(); <-done })
	}
	return ns
}

// zone answers from records in presentation form. Like a recursive server, it sends the whole chain
// in one reply. Lines that begin with ! go to the authority section of replies for the name.
func zone(t testing.TB, records ...string) func(dns.Question, *dns.Msg, bool) bool {
	var answer, authority []dns.RR
	for _, s := range records {
		rr := must.Get(dns.NewRR(strings.TrimPrefix(s, "!")))(t)
		if s[0] == '!' {
			authority = append(authority, rr)
		} else {
			answer = append(answer, rr)
		}
	}
	return func(q dns.Question, m *dns.Msg, _ bool) bool {
		name, known := q.Name, false
		for range 20 {
			next := ""
			for _, rr := range answer {
				if !strings.EqualFold(rr.Header().Name, name) {
					continue
				}
				known = true
				if c, ok := rr.(*dns.CNAME); ok {
					next = c.Target
					m.Answer = append(m.Answer, rr)
				} else if rr.Header().Rrtype == q.Qtype {
					m.Answer = append(m.Answer, rr)
				}
			}
			if name = next; name == "" {
				break
			}
		}
		for _, rr := range authority {
			if strings.HasSuffix(q.Name, rr.Header().Name) {
				m.Ns = append(m.Ns, rr)
			}
		}
		if !known {
			m.Rcode = dns.RcodeNameError
		}
		return true
	}
}

func open(t testing.TB, cfg Config) *Resolver {
	t.Helper()
	if cfg.HostsFile == "" {
		cfg.HostsFile = "-"
	}
	r := must.Get(New(cfg))(t)
	t.Cleanup(func() { r.Close() })
	return r
}

func addrs(s ...string) (list []netip.Addr) {
	for _, a := range s {
		list = append(list, netip.MustParseAddr(a))
	}
	return list
}

var cmpAddrs = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func TestLookup(t *testing.T) {
	ns := serve(t, zone(t,
		"one.example. 300 IN A 192.0.2.1",
		"two.example. 300 IN AAAA 2001:db8::2",
		"two.example. 300 IN A 192.0.2.3",
		"two.example. 300 IN A 192.0.2.2",
		"two.example. 300 IN A 192.0.2.3",
		"www.example. 600 IN CNAME cdn.example.",
		"cdn.example. 120 IN CNAME edge.example.",
		"edge.example. 300 IN A 192.0.2.9",
		"loop.example. 300 IN CNAME pool.example.",
		"pool.example. 300 IN CNAME loop.example.",
		"self.example. 300 IN CNAME self.example.",
		"six.example. 300 IN AAAA 2001:db8::6",
		"mapped.example. 300 IN AAAA ::ffff:192.0.2.44",
		"mail.example. 300 IN MX 10 one.example.",
		"a_b.example. 300 IN A 192.0.2.5",
		"dangling.example. 300 IN CNAME gone.example.",
		"zero.example. 0 IN A 192.0.2.6",
		"long.example. 2000000 IN A 192.0.2.7",
		"bad-ttl.example. 4294967295 IN A 192.0.2.8",
		"!example. 300 IN SOA ns. root. 1 2 3 4 90",
	))
	var clk setClock
	r := open(t, Config{Servers: []string{ns.addr}, IPv6: true, Clock: &clk})
	for _, tc := range []struct {
		host string
		want []netip.Addr
		err  error
		ttl  time.Duration // of an answer
	}{
		{host: "one.example", want: addrs("192.0.2.1"), ttl: 300 * time.Second},
		{host: "ONE.Example.", want: addrs("192.0.2.1"), ttl: 300 * time.Second},
		{host: "two.example", want: addrs("192.0.2.3", "192.0.2.2", "2001:db8::2"), ttl: 300 * time.Second},
		{host: "www.example", want: addrs("192.0.2.9"), ttl: 120 * time.Second},
		{host: "six.example", want: addrs("2001:db8::6"), ttl: 300 * time.Second},
		{host: "mapped.example", want: addrs("192.0.2.44"), ttl: 300 * time.Second},
		{host: "a_b.example", want: addrs("192.0.2.5"), ttl: 300 * time.Second},
		{host: "zero.example", want: addrs("192.0.2.6"), ttl: time.Minute},
		{host: "long.example", want: addrs("192.0.2.7"), ttl: 24 * time.Hour},
		{host: "bad-ttl.example", want: addrs("192.0.2.8"), ttl: time.Minute},
		{host: "loop.example", err: ErrServer},
		{host: "self.example", err: ErrServer},
		{host: "mail.example", err: ErrNotFound},
		{host: "gone.example", err: ErrNotFound},
		{host: "dangling.example", err: ErrNotFound},
		{host: "192.0.2.1", want: addrs("192.0.2.1"), ttl: 24 * time.Hour},
		{host: "[2001:db8::1]", want: addrs("2001:db8::1"), ttl: 24 * time.Hour},
		{host: "2001:db8::1", want: addrs("2001:db8::1"), ttl: 24 * time.Hour},
		{host: "[::ffff:192.0.2.1]", want: addrs("192.0.2.1"), ttl: 24 * time.Hour},
		{host: "localhost", want: addrs("127.0.0.1", "::1"), ttl: 24 * time.Hour},
	} {
		got, err := r.Lookup(t.Context(), tc.host)
		if !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
			t.Errorf("%s: got error %v, want %v", tc.host, err, tc.err)
		}
		if d := cmp.Diff(tc.want, got.Addrs, cmpAddrs); d != "" {
			t.Errorf("%s: (-want +got)\n%s", tc.host, d)
		}
		if err == nil && got.Expires.Sub(clk.Now()) != tc.ttl {
			t.Errorf("%s: got TTL %v, want %v", tc.host, got.Expires.Sub(clk.Now()), tc.ttl)
		}
	}
}

// If a reply has half a chain, the resolver asks for the other half. It gives up on an endless
// chain.
func TestBrokenChain(t *testing.T) {
	ns := serve(t, func(q dns.Question, m *dns.Msg, _ bool) bool {
		add := func(s string) {
			rr, err := dns.NewRR(s)
			if err != nil {
				panic(err)
			}
			m.Answer = append(m.Answer, rr)
		}
		switch {
		case q.Name == "www.example.":
			add("www.example. 300 IN CNAME Cdn.Example.")
			add("other.example. 300 IN A 192.0.2.66") // not part of the chain
		case strings.EqualFold(q.Name, "cdn.example."):
			add("cdn.example. 100 IN A 192.0.2.1")
		default:
			n := 0
			fmt.Sscanf(q.Name, "n%d.", &n)
			add(fmt.Sprintf("%s 300 IN CNAME n%d.example.", q.Name, n+1))
		}
		return true
	})
	var clk setClock
	r := open(t, Config{Servers: []string{ns.addr}, Clock: &clk})
	got := must.Get(r.Lookup(t.Context(), "www.example"))(t)
	want := Answer{Addrs: addrs("192.0.2.1"), Expires: clk.Now().Add(100 * time.Second)}
	if d := cmp.Diff(want, got, cmpAddrs); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if _, err := r.Lookup(t.Context(), "n0.example"); !errors.Is(err, ErrServer) {
		t.Errorf("endless chain: got %v, want ErrServer", err)
	}
	if got, want := ns.udp.Load(), int64(2+maxRounds); got != want {
		t.Errorf("got %d queries, want %d", got, want)
	}
}

func TestTruncatedGoesToTCP(t *testing.T) {
	ns := serve(t, func(q dns.Question, m *dns.Msg, tcp bool) bool {
		if !tcp {
			m.Truncated = true
			return true
		}
		for i := range 100 {
			rr, err := dns.NewRR(fmt.Sprintf("big.example. 300 IN A 192.0.2.%d", i))
			if err != nil {
				panic(err)
			}
			m.Answer = append(m.Answer, rr)
		}
		return true
	})
	r := open(t, Config{Servers: []string{ns.addr}})
	got := must.Get(r.Lookup(t.Context(), "big.example"))(t)
	if len(got.Addrs) != maxAddrs || got.Addrs[0] != netip.MustParseAddr("192.0.2.0") {
		t.Errorf("got %d addresses from %v, want %d from 192.0.2.0", len(got.Addrs), got.Addrs[0], maxAddrs)
	}
	if udp, tcp := ns.udp.Load(), ns.tcp.Load(); udp != 1 || tcp != 1 {
		t.Errorf("got %d queries by UDP and %d by TCP, want 1 and 1", udp, tcp)
	}
}

// Positive answers, negative answers and failures are cached for their time and no longer.
func TestCaching(t *testing.T) {
	soa := "!example. 7200 IN SOA ns. root. 1 2 3 4 "
	for _, tc := range []struct {
		name    string
		records []string
		rcode   int
		err     error
		ttl     time.Duration
		queries int64 // one round
	}{
		{"address", []string{"h.example. 300 IN A 192.0.2.1"}, 0, nil, 300 * time.Second, 1},
		{"no such name", []string{soa + "900"}, 0, ErrNotFound, 900 * time.Second, 1},
		{"no such name, zone says long", []string{soa + "86400"}, 0, ErrNotFound, time.Hour, 1},
		{"no such name, zone says 0", []string{soa + "0"}, 0, ErrNotFound, time.Minute, 1},
		{"no such name, no SOA", nil, 0, ErrNotFound, time.Minute, 1},
		{"no data", []string{"h.example. 300 IN TXT x", soa + "200"}, 0, ErrNotFound, 200 * time.Second, 1},
		{"failure", nil, dns.RcodeServerFailure, ErrServer, failureTTL, maxRefusals},
		{"refusal", nil, dns.RcodeRefused, ErrServer, failureTTL, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			z := zone(t, tc.records...)
			ns := serve(t, func(q dns.Question, m *dns.Msg, tcp bool) bool {
				ok := z(q, m, tcp)
				if tc.rcode != 0 {
					m.Rcode = tc.rcode
				}
				return ok
			})
			var clk setClock
			r := open(t, Config{Servers: []string{ns.addr}, Clock: &clk})
			ask := func(want int64) {
				t.Helper()
				if _, err := r.Lookup(t.Context(), "h.example"); !errors.Is(err, tc.err) ||
					(err == nil) != (tc.err == nil) {
					t.Errorf("got error %v, want %v", err, tc.err)
				}
				if got := ns.udp.Load(); got != want {
					t.Errorf("got %d queries, want %d", got, want)
				}
			}
			ask(tc.queries)
			clk.advance(tc.ttl - 1)
			ask(tc.queries)
			clk.advance(1)
			ask(2 * tc.queries)
		})
	}
}

// The first server with a valid answer wins, even if the servers before it fail in any way.
func TestFailover(t *testing.T) {
	good := zone(t, "h.example. 300 IN A 192.0.2.1")
	for name, bad := range map[string]func(q dns.Question, m *dns.Msg, tcp bool) bool{
		"silent":   func(dns.Question, *dns.Msg, bool) bool { return false },
		"servfail": func(_ dns.Question, m *dns.Msg, _ bool) bool { m.Rcode = dns.RcodeServerFailure; return true },
		"refused":  func(_ dns.Question, m *dns.Msg, _ bool) bool { m.Rcode = dns.RcodeRefused; return true },
		"lame": func(_ dns.Question, m *dns.Msg, _ bool) bool {
			rr, err := dns.NewRR("example. 300 IN NS ns.example.")
			m.Ns = append(m.Ns, rr)
			return err == nil
		},
		"always truncated": func(_ dns.Question, m *dns.Msg, _ bool) bool { m.Truncated = true; return true },
		"other question": func(_ dns.Question, m *dns.Msg, _ bool) bool {
			m.Question[0].Name = "other.example."
			return true
		},
		"other type": func(_ dns.Question, m *dns.Msg, _ bool) bool { m.Question[0].Qtype = dns.TypeMX; return true },
		"other id":   func(_ dns.Question, m *dns.Msg, _ bool) bool { m.Id++; return true },
		"a question": func(_ dns.Question, m *dns.Msg, _ bool) bool { m.Response = false; return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a silent server takes half a second
			one, two := serve(t, bad), serve(t, good)
			r := open(t, Config{Servers: []string{one.addr, two.addr}, Timeout: 500 * time.Millisecond, Attempts: 20})
			got := must.Get(r.Lookup(t.Context(), "h.example"))(t)
			if d := cmp.Diff(addrs("192.0.2.1"), got.Addrs, cmpAddrs); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if one.udp.Load() == 0 {
				t.Error("the first server was not asked")
			}
		})
	}
}

// If a server does not support EDNS, the resolver asks without it.
func TestWithoutEDNS(t *testing.T) {
	var plain atomic.Int64
	pc := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	s := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		if q.IsEdns0() != nil { // reply with only a header, as old servers do
			m.Id, m.Response, m.Rcode = q.Id, true, dns.RcodeFormatError
			w.WriteMsg(m)
			return
		}
		plain.Add(1)
		m.SetReply(q)
		rr, err := dns.NewRR("h.example. 300 IN A 192.0.2.1")
		if err != nil {
			panic(err)
		}
		m.Answer = append(m.Answer, rr)
		w.WriteMsg(m)
	})}
	up, done := make(chan struct{}), make(chan struct{})
	s.NotifyStartedFunc = func() { close(up) }
	go func() { defer close(done); s.ActivateAndServe() }()
	<-up
	t.Cleanup(func() { s.Shutdown(); <-done })
	r := open(t, Config{Servers: []string{pc.LocalAddr().String()}})
	if got, err := r.Lookup(t.Context(), "h.example"); err != nil || len(got.Addrs) != 1 {
		t.Errorf("got %v, %v, want one address", got, err)
	}
	if plain.Load() != 1 {
		t.Errorf("got %d queries without EDNS, want 1", plain.Load())
	}
}

// After three failed queries a server is asked last. Time or a reply puts it first again.
func TestServerOrder(t *testing.T) {
	var clk setClock
	r := open(t, Config{Servers: []string{"192.0.2.1", "192.0.2.2:5353", "[2001:db8::3]"}, Clock: &clk})
	order := func() string {
		var list []string
		for _, s := range r.order(clk.Now()) {
			list = append(list, s.addr)
		}
		return strings.Join(list, " ")
	}
	const usual = "192.0.2.1:53 192.0.2.2:5353 [2001:db8::3]:53"
	const shifted = "192.0.2.2:5353 [2001:db8::3]:53 192.0.2.1:53"
	first := r.servers[0]
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, usual},
		{func() { first.missed(clk.Now()); first.missed(clk.Now()) }, usual},
		{func() { first.missed(clk.Now()) }, shifted},
		{func() { clk.advance(5*time.Second - 1) }, shifted},
		{func() { clk.advance(1) }, usual},
		{func() { first.missed(clk.Now()) }, shifted},
		{func() { clk.advance(5 * time.Second) }, shifted},
		{func() { first.replied() }, usual},
		{func() { first.missed(clk.Now()) }, usual},
		{func() {
			for range 100 {
				first.missed(clk.Now())
			}
		}, shifted},
		{func() { clk.advance(time.Minute) }, usual},
	} {
		step.do()
		if got := order(); got != step.want {
			t.Errorf("got %s, want %s", got, step.want)
		}
	}
}

// A thousand concurrent callers for one name cost one query.
func TestOneFlight(t *testing.T) {
	const callers = 1000
	waiting := make(chan struct{})
	z := zone(t, "h.example. 300 IN A 192.0.2.1")
	ns := serve(t, func(q dns.Question, m *dns.Msg, tcp bool) bool {
		<-waiting
		return z(q, m, tcp)
	})
	r := open(t, Config{Servers: []string{ns.addr}, Timeout: time.Minute})
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			if got, err := r.Lookup(t.Context(), "h.example"); err != nil || len(got.Addrs) != 1 {
				t.Errorf("got %v, %v, want one address", got, err)
			}
		})
	}
	for r.waiters("h.example") < callers {
		time.Sleep(time.Millisecond)
	}
	close(waiting)
	wg.Wait()
	if got := ns.udp.Load(); got != 1 {
		t.Errorf("got %d queries, want 1", got)
	}
}

// tookSeconds are what Config.Took has counted.
type tookSeconds []float64

func (s *tookSeconds) Observe(n float64) { *s = append(*s, n) }

// Only a look-up counts that name servers answer with an address.
func TestTook(t *testing.T) {
	var clock setClock
	z := zone(t, "h.example. 300 IN A 192.0.2.1")
	ns := serve(t, func(q dns.Question, m *dns.Msg, tcp bool) bool {
		clock.advance(3 * time.Second)
		return z(q, m, tcp)
	})
	var took tookSeconds
	r := open(t, Config{Servers: []string{ns.addr}, Timeout: time.Minute, Clock: &clock, Took: &took})
	for _, name := range []string{"h.example", "h.example", "none.example", "192.0.2.1"} {
		_, err := r.Lookup(t.Context(), name)
		if (err == nil) != (name != "none.example") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if want := (tookSeconds{3}); !slices.Equal(took, want) {
		t.Errorf("got %v, want %v", took, want)
	}
}

func (r *Resolver) waiters(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.flights[name]; f != nil {
		return f.waiters
	}
	return 0
}

// If the caller that started a flight leaves, the flight continues for the others. It ends when all
// callers have left, and the next caller starts a new one.
func TestLeaving(t *testing.T) {
	answer := make(chan struct{})
	z := zone(t, "h.example. 300 IN A 192.0.2.1")
	ns := serve(t, func(q dns.Question, m *dns.Msg, tcp bool) bool {
		<-answer
		return z(q, m, tcp)
	})
	r := open(t, Config{Servers: []string{ns.addr}, Timeout: time.Minute})
	type result struct {
		a   Answer
		err error
	}
	ask := func(ctx context.Context, n int) chan result {
		c := make(chan result, 1)
		go func() {
			a, err := r.Lookup(ctx, "h.example")
			c <- result{a, err}
		}()
		for r.waiters("h.example") < n {
			time.Sleep(time.Millisecond)
		}
		return c
	}
	ctx, leave := context.WithCancel(t.Context())
	first := ask(ctx, 1)
	for ns.udp.Load() == 0 { // a caller that leaves sooner sends no query
		time.Sleep(time.Millisecond)
	}
	leave()
	if got := <-first; !errors.Is(got.err, context.Canceled) {
		t.Errorf("alone: got %v, want context.Canceled", got.err)
	}
	if n := r.waiters("h.example"); n != 0 {
		t.Errorf("the flight continues with %d waiters, want 0", n)
	}
	ctx, leave = context.WithCancel(t.Context())
	first = ask(ctx, 1)
	second := ask(t.Context(), 2)
	leave()
	if got := <-first; !errors.Is(got.err, context.Canceled) {
		t.Errorf("first: got %v, want context.Canceled", got.err)
	}
	close(answer)
	if got := <-second; got.err != nil || len(got.a.Addrs) != 1 {
		t.Errorf("second: got %v, %v, want an address", got.a, got.err)
	}
	if got := ns.udp.Load(); got != 2 {
		t.Errorf("got %d queries, want 2", got)
	}
}

func TestClose(t *testing.T) {
	answer := make(chan struct{})
	ns := serve(t, func(dns.Question, *dns.Msg, bool) bool { <-answer; return false })
	t.Cleanup(func() { close(answer) })
	r := open(t, Config{Servers: []string{ns.addr}, Timeout: time.Minute})
	got := make(chan error, 1)
	go func() {
		_, err := r.Lookup(t.Context(), "h.example")
		got <- err
	}()
	for ns.udp.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	r.Close()
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Errorf("lookup in progress: got %v, want ErrClosed", err)
	}
	if _, err := r.Lookup(t.Context(), "i.example"); !errors.Is(err, ErrClosed) {
		t.Errorf("lookup after Close: got %v, want ErrClosed", err)
	}
}
