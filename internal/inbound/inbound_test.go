package inbound

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A caller is a connection from an address. It records that it was closed.
type caller struct {
	net.Conn
	from   netip.Addr
	closed atomic.Bool
}

func (c *caller) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(c.from, 1))
}

func (c *caller) Close() error {
	c.closed.Store(true)
	return nil
}

// stranger returns the i-th address of strangers.
func stranger(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}) }

var alice = netip.MustParseAddr("192.0.2.1")

// TestOneAddress opens very many silent connections from one address. A caller from another address must stay.
func TestOneAddress(t *testing.T) {
	p := New(Config{Strangers: 8, Members: 8, Proven: 8})
	for range 1000 {
		p.Enter(&caller{from: stranger(0)})
	}
	raw := &caller{from: alice}
	c := p.Enter(raw)
	for range 1000 {
		p.Enter(&caller{from: stranger(0)})
	}
	if n, _ := p.Open(); n != 8 || raw.closed.Load() || c.Evicted() || !c.Prove() {
		t.Errorf("%d unproven, closed %t; want 8, false, and a successful Prove", n, raw.closed.Load())
	}
	// The last connection of the same address stays too.
	raw = &caller{from: stranger(0)}
	if c := p.Enter(raw); raw.closed.Load() || !c.Prove() {
		t.Error("the newest connection of an address was closed")
	}
}

// TestManyAddresses opens silent connections from 1,000 addresses. A caller must stay until as many connections as the
// limit have arrived after it. A member must stay in any case.
func TestManyAddresses(t *testing.T) {
	evicted := 0
	p := New(Config{Strangers: 8, Members: 8, Proven: 8, Evicted: func() { evicted++ }})
	p.SetMembers([]netip.Addr{alice})
	for i := range 1000 {
		p.Enter(&caller{from: stranger(i)})
	}
	newcomer, member := &caller{from: netip.MustParseAddr("192.0.2.2")}, &caller{from: alice}
	c, m := p.Enter(newcomer), p.Enter(member)
	for i := range 7 {
		p.Enter(&caller{from: stranger(i)})
	}
	if newcomer.closed.Load() {
		t.Error("closed before 8 others had arrived after it")
	}
	p.Enter(&caller{from: stranger(7)})
	if !newcomer.closed.Load() || c.Prove() || !c.Evicted() {
		t.Error("the oldest connection was not evicted at the limit")
	}
	for i := range 1000 {
		p.Enter(&caller{from: stranger(i)})
	}
	if member.closed.Load() || !m.Prove() {
		t.Error("strangers displaced a member")
	}
	if n, proven := p.Open(); n != 8 || proven != 1 || evicted != 1000+1+8+1000-8 {
		t.Errorf("%d unproven, %d proven, %d evicted; want 8, 1, %d", n, proven, evicted, 1000+1+8+1000-8)
	}
}

// TestOrigin checks that an IPv6 /64 counts as one address, and so do the two forms of an IPv4 address.
func TestOrigin(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"2001:db8::1", "2001:db8::ffff:1", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"192.0.2.1", "192.0.2.2", false},
		{"fe80::1%eth0", "fe80::2%eth1", true},
	} {
		if same := origin(netip.MustParseAddr(c.a)) == origin(netip.MustParseAddr(c.b)); same != c.same {
			t.Errorf("origins of %s and %s are the same: %t, want %t", c.a, c.b, same, c.same)
		}
	}
}

// TestModel lets random callers arrive, prove themselves and leave. The limits must hold, and each connection must be
// in the state that a plain map says.
func TestModel(t *testing.T) {
	rng := testseed.Rand(t)
	p := New(Config{Strangers: 5, Members: 3, Proven: 4})
	p.SetMembers([]netip.Addr{alice})
	state := map[*Conn]string{}
	pick := func() *Conn {
		for c := range state {
			return c
		}
		return nil
	}
	for range 20000 {
		switch c := pick(); {
		case c == nil || rng.IntN(3) == 0:
			from := alice
			if rng.IntN(3) > 0 {
				from = stranger(rng.IntN(4))
			}
			state[p.Enter(&caller{from: from})] = "unproven"
			for c := range state {
				if c.Evicted() {
					if state[c] != "unproven" || !c.Conn.(*caller).closed.Load() {
						t.Fatalf("a connection was evicted that is %s, or it was not closed", state[c])
					}
					delete(state, c)
				}
			}
		case rng.IntN(2) == 0:
			proven := 0
			for _, s := range state {
				if s == "proven" {
					proven++
				}
			}
			if ok := c.Prove(); ok != (state[c] == "proven" || proven < 4) {
				t.Fatalf("Prove of a connection that is %s, with %d proven: %t", state[c], proven, ok)
			} else if ok {
				state[c] = "proven"
			}
		default:
			c.Close()
			c.Close()
			if c.Prove() {
				t.Fatal("Prove of a closed connection succeeded")
			}
			delete(state, c)
		}
		counts := map[string]int{}
		for _, s := range state {
			counts[s]++
		}
		if n, proven := p.Open(); n != counts["unproven"] || proven != counts["proven"] || n > 8 || proven > 4 {
			t.Fatalf("%d unproven, %d proven, want %v", n, proven, counts)
		}
	}
	for c := range state {
		c.Close()
	}
	for i := range p.unproven {
		if k := &p.unproven[i]; k.n != 0 || len(k.from) != 0 || k.oldest != nil || k.newest != nil {
			t.Errorf("kind %d of connections is not empty: %+v", i, k)
		}
	}
}

// A lacking is a listener whose first calls of Accept find no free file descriptor.
type lacking struct {
	net.Listener
	times int
}

func (l *lacking) Accept() (net.Conn, error) {
	if l.times--; l.times >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return &caller{from: alice}, nil
}

func (l *lacking) Close() error { return nil }

// TestShortage checks that Accept survives a shortage of file descriptors: it closes unproven connections.
func TestShortage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Strangers: 16, Members: 16, Proven: 16})
		for i := range 16 {
			p.Enter(&caller{from: stranger(i)})
		}
		ln := p.Listen(&lacking{times: 3})
		conn := must.Get(ln.Accept())(t)
		if n, _ := p.Open(); n != 3 { // 16, 8, 4, 2, and the new one
			t.Errorf("%d unproven, want 3", n)
		}
		conn.Close()
		ended := make(chan error)
		ln = p.Listen(&lacking{times: 1 << 30})
		go func() {
			_, err := ln.Accept()
			ended <- err
		}()
		synctest.Wait()
		ln.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept after Close: %v, want net.ErrClosed", err)
		}
	})
}
