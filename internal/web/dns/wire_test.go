package dns

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/store/recent"
	_ "github.com/orbweaver/orbweaver/internal/testkit/testseed" // sets rapid's seed

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A script is a connection to a server that answers a query with the given datagrams and then stays
// silent until the deadline.
type script struct {
	net.Conn // nil: tests do not use its other methods
	network  string
	reply    func(network string, query []byte) [][]byte
	mu       sync.Mutex // guards rest
	rest     [][]byte
}

func (s *script) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := b
	if s.network == "tcp" {
		q = b[2:]
	}
	s.rest = append(s.rest, s.reply(s.network, q)...)
	return len(b), nil
}

func (s *script) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rest) == 0 {
		if s.network == "tcp" {
			return 0, io.EOF
		}
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(b, s.rest[0])
	if s.network == "tcp" && n < len(s.rest[0]) {
		s.rest[0] = s.rest[0][n:]
	} else {
		s.rest = s.rest[1:]
	}
	return n, nil
}

func (s *script) Close() error                { return nil }
func (s *script) SetDeadline(time.Time) error { return nil }

func scripted(reply func(network string,
	query []byte) [][]byte) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, network, _ string) (net.Conn, error) {
		return &script{network: network, reply: reply}, nil
	}
}

// answer packs a reply to query with the given address.
func answer(query []byte, addr string) []byte {
	q := new(dns.Msg)
	if err := q.Unpack(query); err != nil {
		panic(err)
	}
	m := new(dns.Msg)
	m.SetReply(q)
	m.Answer = append(m.Answer, &dns.A{
		Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 300},
		A:   net.ParseIP(addr),
	})
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

// Forged datagrams before the real reply are ignored.
func TestForgeries(t *testing.T) {
	forge := func(query []byte, change func(b []byte) []byte) []byte { return change(answer(query, "192.0.2.66")) }
	r := open(t, Config{Servers: []string{"192.0.2.53"}, Dial: scripted(func(_ string, q []byte) [][]byte {
		return [][]byte{
			nil, {1}, make([]byte, 12), make([]byte, 4096),
			forge(q, func(b []byte) []byte { b[0]++; return b }),
			forge(q, func(b []byte) []byte { b[1] ^= 0x80; return b }),
			forge(q, func(b []byte) []byte { b[2] &^= 0x80; return b }), // not a reply
			forge(q, func(b []byte) []byte { b[2] |= 0x28; return b }),  // an update
			forge(q, func(b []byte) []byte { b[5] = 0; return b }),      // no question
			forge(q, func(b []byte) []byte { b[5] = 2; return b }),      // two questions
			forge(q, func(b []byte) []byte { b[13]++; return b }),       // another name
			forge(q, func(b []byte) []byte { b[12]--; return b }),
			forge(q, func(b []byte) []byte { b[questionLen(q)-3] = 28; return b }), // AAAA
			forge(q, func(b []byte) []byte { b[questionLen(q)-1] = 3; return b }),  // class CHAOS
			forge(q, func(b []byte) []byte { return b[:questionLen(q)-1] }),
			answer(q, "192.0.2.1"),
		}
	})})
	got := must.Get(r.Lookup(t.Context(), "h.example"))(t)
	if want := netip.MustParseAddr("192.0.2.1"); len(got.Addrs) != 1 || got.Addrs[0] != want {
		t.Errorf("got %v, want %v", got.Addrs, want)
	}
}

// A flood of forged datagrams ends the query, and the lookup fails after its attempts.
func TestFlood(t *testing.T) {
	queries := 0
	r := open(t, Config{Servers: []string{"192.0.2.53"}, Dial: scripted(func(_ string, q []byte) [][]byte {
		queries++
		flood := make([][]byte, 100_000)
		for i := range flood {
			flood[i] = []byte{byte(i), byte(i >> 8), 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0}
		}
		flood[0] = append([]byte{^q[0]}, q[1:]...)
		return flood
	})})
	if _, err := r.Lookup(t.Context(), "h.example"); !errors.Is(err, ErrServer) {
		t.Errorf("got %v, want ErrServer", err)
	}
	if queries != 4 {
		t.Errorf("got %d queries, want 4", queries)
	}
}

// A silent server costs Timeout for each of Attempts. The result is then cached.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queries := 0
		r := open(t, Config{
			Servers: []string{"192.0.2.53"}, Timeout: 3 * time.Second, Attempts: 5,
			Dial: func(context.Context, string, string) (net.Conn, error) {
				queries++
				ours, theirs := net.Pipe()
				go func() { io.Copy(io.Discard, theirs); theirs.Close() }()
				return ours, nil
			},
		})
		began := time.Now()
		for range 3 {
			if _, err := r.Lookup(t.Context(), "h.example"); !errors.Is(err, ErrTimeout) {
				t.Errorf("got %v, want ErrTimeout", err)
			}
		}
		if took := time.Since(began); took != 15*time.Second || queries != 5 {
			t.Errorf("got %v and %d queries, want 15s and 5", took, queries)
		}
		time.Sleep(failureTTL)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Lookup(ctx, "h.example"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
		r.Close()
		synctest.Wait()
	})
}

// A server that keeps a TCP connection open and sends nothing, or too little, costs no more than a
// silent server.
func TestSlowTCP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := open(t, Config{
			Servers: []string{"192.0.2.53"}, Timeout: 3 * time.Second, Attempts: 1,
			Dial: func(_ context.Context, network, _ string) (net.Conn, error) {
				if network == "udp" {
					return &script{network: network, reply: func(_ string, q []byte) [][]byte {
						b := answer(q, "192.0.2.1")
						b[2] |= 0x02
						return [][]byte{b}
					}}, nil
				}
				ours, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					if _, err := io.ReadFull(theirs, make([]byte, 2)); err != nil {
						return
					}
					go io.Copy(io.Discard, theirs)
					for { // one byte a second of a reply of 65,535 bytes
						if _, err := theirs.Write([]byte{0xFF}); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				}()
				return ours, nil
			},
		})
		began := time.Now()
		if _, err := r.Lookup(t.Context(), "h.example"); !errors.Is(err, ErrTimeout) {
			t.Errorf("got %v, want ErrTimeout", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("got %v, want 3s", took)
		}
		time.Sleep(2 * time.Second)
	})
}

// At most Concurrency queries are on the wire, and all lookups succeed.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, names = 7, 100
		var now, most atomic.Int64
		r := open(t, Config{
			Servers: []string{"192.0.2.53"}, Concurrency: limit, IPv6: true, Timeout: time.Hour,
			Dial: func(_ context.Context, network, _ string) (net.Conn, error) {
				return &script{network: network, reply: func(_ string, q []byte) [][]byte {
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(time.Second)
					now.Add(-1)
					return [][]byte{answer(q, "192.0.2.1")}
				}}, nil
			},
		})
		began := time.Now()
		var wg sync.WaitGroup
		for i := range names {
			wg.Go(func() {
				if _, err := r.Lookup(t.Context(), fmt.Sprintf("h%d.example", i)); err != nil {
					t.Errorf("h%d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if most.Load() != limit {
			t.Errorf("got %d at once, want %d", most.Load(), limit)
		}
		if want := time.Duration((2*names+limit-1)/limit) * time.Second; time.Since(began) != want {
			t.Errorf("got %v, want %v", time.Since(began), want)
		}
	})
}

// If only one address family answers, its addresses are the answer, but for a short time.
func TestHalfAnswer(t *testing.T) {
	var clk setClock
	r := open(t, Config{Clock: &clk, IPv6: true, Servers: []string{"192.0.2.53"},
		Dial: scripted(func(_ string, q []byte) [][]byte {
			if q[questionLen(q)-3] == byte(dns.TypeAAAA) {
				return nil
			}
			return [][]byte{answer(q, "192.0.2.1")}
		})})
	got := must.Get(r.Lookup(t.Context(), "h.example"))(t)
	if ttl := got.Expires.Sub(clk.Now()); len(got.Addrs) != 1 || ttl != time.Minute {
		t.Errorf("got %v for %v, want one address for 1m", got.Addrs, ttl)
	}
}

// The cache never holds more than its limit. It returns only the latest result for a name, and only
// until it expires.
func TestCacheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 64).Draw(t, "size")
		r := &Resolver{cache: recent.New[string, entry](size)}
		model := map[string]entry{}
		now := time.Unix(1000, 0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			name := fmt.Sprint(rapid.IntRange(0, 200).Draw(t, "name"))
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				now = now.Add(time.Second)
			case 1:
				ttl := time.Duration(rapid.IntRange(0, 20).Draw(t, "ttl")) * time.Second
				e := entry{Answer: Answer{Expires: now.Add(ttl)}}
				if rapid.Bool().Draw(t, "negative") {
					e.err = ErrNotFound
				} else {
					e.Addrs = []netip.Addr{netip.AddrFrom4([4]byte{byte(len(model)), 1, 2, 3})}
				}
				r.cache.Set(name, e)
				model[name] = e
				if a, err, ok := r.cached(name, now); ok != now.Before(e.Expires) || ok && err != e.err ||
					ok && err == nil && a.Addrs[0] != e.Addrs[0] {
					t.Fatalf("%s: got %v %v %v right after adding %v", name, a, err, ok, e)
				}
			default:
				a, err, ok := r.cached(name, now)
				e, known := model[name]
				if !ok {
					continue // evicted or expired
				}
				if !known || !now.Before(e.Expires) || err != e.err ||
					err == nil && (a.Addrs[0] != e.Addrs[0] || a.Expires != e.Expires) {
					t.Fatalf("%s: got %v %v, want %v", name, a, err, e)
				}
			}
			if got := r.Cached(); got > size {
				t.Fatalf("got %d entries, want at most %d", got, size)
			}
		}
	})
}

// FuzzReply lets a server send anything. mode selects how much of a genuine reply precedes the
// fuzzer's bytes, so that they pass the first checks.
func FuzzReply(f *testing.F) {
	q := new(dns.Msg)
	q.SetQuestion("h.example.", dns.TypeA)
	query := must.Get(q.Pack())(f)
	whole := answer(query, "192.0.2.1")
	f.Add(byte(0), whole)
	f.Add(byte(1), whole[2:])
	f.Add(byte(2), whole[questionLen(query):])
	f.Add(byte(2), []byte("\xc0\x0c\x00\x05\x00\x01\x00\x00\x00\x01\x00\x02\xc0\x0c"))
	f.Add(byte(3),
		[]byte(
			"\xc0\x0c\x00\x06\x00\x01\x00\x00\x00\x01\x00\x16\xc0\x0c\xc0\x0c\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x80\x00\x00\x01"))
	f.Add(byte(4), []byte("\x01h\x07example\x00\x00\x01\x00\x01\x00\x00\x00\x01\x00\x04\x01\x02\x03\x04"))
	f.Fuzz(func(t *testing.T, mode byte, b []byte) {
		var clk setClock
		r := open(t, Config{Servers: []string{"192.0.2.53"}, IPv6: mode&0x80 != 0, Clock: &clk,
			Dial: scripted(func(network string, q []byte) [][]byte {
				var reply []byte
				n := questionLen(q)
				switch mode & 7 {
				case 0:
				case 1:
					reply = append(reply, q[:2]...)
				default: // header and question, with the fuzzer's counts and flags
					reply = append(reply, q[:n]...)
					reply[2] = 0x80
					if mode&0x40 != 0 && network == "udp" {
						reply[2] |= 0x02
					}
					if mode&0x20 != 0 {
						reply[3] = 3
					}
					reply[7], reply[9], reply[11] = mode&3, mode>>2&3, 0
					if len(b) > 0 && b[0] != 0xC0 {
						reply[6] = b[0]
					}
				}
				reply = append(reply, b...)
				if network == "tcp" {
					reply = append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)
				}
				return [][]byte{reply}
			})})
		got, err := r.Lookup(t.Context(), "h.example")
		if err != nil {
			if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrServer) {
				t.Fatalf("got error %v", err)
			}
			return
		}
		if n := len(got.Addrs); n == 0 || n > maxAddrs {
			t.Fatalf("got %d addresses", n)
		}
		for i, a := range got.Addrs {
			if !a.IsValid() || a.Is4In6() || i > 0 && a.Is4() && !got.Addrs[i-1].Is4() {
				t.Fatalf("got %v", got.Addrs)
			}
		}
		if ttl := got.Expires.Sub(clk.Now()); ttl < time.Minute || ttl > 24*time.Hour {
			t.Fatalf("got TTL %v", ttl)
		}
	})
}

func BenchmarkLookupCached(b *testing.B) {
	r := open(b, Config{Servers: []string{"192.0.2.53"}, Dial: scripted(func(_ string, q []byte) [][]byte {
		return [][]byte{answer(q, "192.0.2.1")}
	})})
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Lookup(ctx, "www.example.com"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLookupLoopback asks a server on loopback for a new name each time, with 64 callers.
func BenchmarkLookupLoopback(b *testing.B) {
	ns := serve(b, func(q dns.Question, m *dns.Msg, _ bool) bool {
		m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET,
			Ttl: 300}, A: net.IPv4(192, 0, 2, 1)})
		return true
	})
	r := open(b, Config{Servers: []string{ns.addr}})
	var n atomic.Int64
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := r.Lookup(context.Background(), fmt.Sprintf("h%d.example", n.Add(1))); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "lookups/s")
}
