package simnet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// machines adds machines to a new network. The machine i has the address 10.0.0.i, and each listens on
// port 1.
func machines(t *testing.T, count int) (*Network, []*Machine, []net.Listener, []net.PacketConn) {
	t.Helper()
	n := New(1)
	var (
		ms []*Machine
		ls []net.Listener
		ps []net.PacketConn
	)
	for i := range count {
		m := n.Machine(i, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
		l, p, err := m.Listen(at(i))
		must.Do(t, err)
		ms, ls, ps = append(ms, m), append(ls, l), append(ps, p)
	}
	return n, ms, ls, ps
}

func at(machine int) string { return fmt.Sprintf("10.0.0.%d:1", machine) }

// dialed connects m to the machine with the listener l.
func dialed(t *testing.T, m *Machine, l net.Listener) (ours, theirs net.Conn) {
	t.Helper()
	ours, err := m.Dial(t.Context(), "tcp", l.Addr().String())
	must.Do(t, err)
	if theirs, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	if ours.RemoteAddr().String() != l.Addr().String() || ours.LocalAddr().String() != theirs.RemoteAddr().String() {
		t.Errorf("from %s to %s; the other end is from %s", ours.LocalAddr(), ours.RemoteAddr(), theirs.RemoteAddr())
	}
	return ours, theirs
}

func write(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		t.Fatalf("write %q: %v", s, err)
	}
}

// reads reads s, and checks the time since began.
func reads(t *testing.T, c net.Conn, s string, began time.Time, after time.Duration) {
	t.Helper()
	b := make([]byte, len(s))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != s {
		t.Errorf("read %q, %v; want %q", b, err, s)
	}
	if got := time.Since(began); got != after {
		t.Errorf("%q arrived after %s, want %s", s, got, after)
	}
}

// TestSlowLine sends data over a slow line. Writing must take no time, and the data must arrive as
// fast as the line carries it, also if several connections share the line. Packets overtake it.
func TestSlowLine(t *testing.T) {
	const writes, size, rate, latency = 100, 16 << 10, 50_000, 300 * time.Millisecond
	for _, conns := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			n, ms, ls, ps := machines(t, 3)
			var outs, ins []net.Conn
			for i := range conns {
				out, in := dialed(t, ms[1], ls[2*(i%2)])
				outs, ins = append(outs, out), append(ins, in)
			}
			n.Follow(func(from, _ int) Path {
				if from == 1 {
					return Path{Latency: latency, Rate: rate, Line: 1}
				}
				return Path{}
			})
			began := time.Now()
			for i := range writes {
				write(t, outs[i%conns], string(make([]byte, size)))
			}
			ps[1].WriteTo(make([]byte, 500), ps[2].LocalAddr())
			if took := time.Since(began); took != 0 {
				t.Errorf("writing took %s", took)
			}
			if _, from, err := ps[2].ReadFrom(make([]byte, 500)); err != nil || from.String() != at(1) ||
				time.Since(began) != latency+10*time.Millisecond {
				t.Errorf("a packet from %s after %s, %v", from, time.Since(began), err)
			}
			for _, in := range ins {
				must.Get(io.ReadFull(in, make([]byte, writes/conns*size)))(t)
			}
			want := latency + writes*size*time.Second/rate
			if got := time.Since(began); got.Round(time.Millisecond) != want.Round(time.Millisecond) {
				t.Errorf("%d connections: the data arrived after %s, want %s", conns, got, want)
			}
		})
	}
}

// TestCut cuts the way from machine 0 to machine 1. Streams repeat their data until the cut ends, packets
// are lost, and the way back is open.
func TestCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, ms, ls, ps := machines(t, 2)
		ours, theirs := dialed(t, ms[0], ls[1])
		began := time.Now()
		n.Follow(func(from, _ int) Path { return Path{Cut: from == 0} })
		write(t, ours, "late")
		write(t, theirs, "open")
		ps[0].WriteTo([]byte("lost"), ps[1].LocalAddr())
		reads(t, ours, "open", began, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := ms[1].Dial(ctx, "tcp", at(0)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial over a cut way: %v", err)
		}
		n.Follow(func(int, int) Path { return Path{} })
		healed := time.Now()
		reads(t, theirs, "late", healed, nextTry(healed.Sub(began)))
		ps[1].SetReadDeadline(time.Now().Add(time.Second))
		var timeout net.Error
		if _, _, err := ps[1].ReadFrom(make([]byte, 9)); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("a packet crosses a cut: %v", err)
		}
	})
}

// TestLinger closes a stream while the way is cut. Its data arrives later, unless the stream drops it.
func TestLinger(t *testing.T) {
	for _, c := range []struct {
		drops bool
		want  error
	}{{false, nil}, {true, syscall.ECONNRESET}} {
		synctest.Test(t, func(t *testing.T) {
			n, ms, ls, _ := machines(t, 2)
			ours, theirs := dialed(t, ms[0], ls[1])
			n.Follow(func(int, int) Path { return Path{Cut: true} })
			write(t, ours, "late")
			time.Sleep(time.Second)
			if c.drops {
				ours.(*Stream).SetLinger(0)
			}
			ours.Close()
			n.Follow(func(int, int) Path { return Path{} })
			b, err := io.ReadAll(theirs)
			if !errors.Is(err, c.want) || (len(b) == 0) != c.drops {
				t.Errorf("drops %v: read %q, %v", c.drops, b, err)
			}
		})
	}
}

// nextTry returns the time from since until the next repetition of a segment that is lost all along: after 0.2 s
// (it was lost at once), then 0.2, 0.4, 0.8, 1.6 s later and each 3 s.
func nextTry(since time.Duration) time.Duration {
	at := firstResend
	for resend := firstResend; at <= since; resend = min(2*resend, lastResend) {
		at += resend
	}
	return at - since
}

// TestLoss loses half of all packets. Streams deliver everything, in order.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, ms, ls, ps := machines(t, 2)
		n.Follow(func(int, int) Path { return Path{Loss: 0.5, Latency: time.Millisecond} })
		ours, theirs := dialed(t, ms[0], ls[1])
		const count = 200
		for i := range count {
			write(t, ours, string(rune('a'+i%26)))
			ps[0].WriteTo([]byte{byte(i)}, ps[1].LocalAddr())
		}
		ours.Close()
		b, err := io.ReadAll(theirs)
		for i := range b {
			if b[i] != byte('a'+i%26) {
				t.Fatalf("byte %d is %c", i, b[i])
			}
		}
		if len(b) != count || err != nil {
			t.Errorf("%d bytes arrived, %v", len(b), err)
		}
		got := 0
		for ; ; got++ {
			ps[1].SetReadDeadline(time.Now().Add(time.Second))
			if _, _, err := ps[1].ReadFrom(make([]byte, 9)); err != nil {
				break
			}
		}
		if got < count/3 || got > 2*count/3 {
			t.Errorf("%d of %d packets arrived", got, count)
		}
	})
}

// TestEnds checks what the peer of a stream gets when it ends, and what a dialer gets afterwards.
func TestEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(m *Machine, theirs net.Conn)
		read string // what can be read
		err  error  // that follows; nil: none before the deadline
		dial error
	}{
		"closed":            {func(_ *Machine, c net.Conn) { c.Close() }, "data", io.EOF, nil},
		"closed unread":     {func(_ *Machine, c net.Conn) { c.Close() }, "", syscall.ECONNRESET, nil},
		"reset":             {func(_ *Machine, c net.Conn) { c.(*Stream).Reset() }, "", syscall.ECONNRESET, nil},
		"process killed":    {func(m *Machine, _ net.Conn) { m.Kill() }, "", syscall.ECONNRESET, syscall.ECONNREFUSED},
		"machine vanished":  {func(m *Machine, _ net.Conn) { m.Vanish() }, "", nil, context.DeadlineExceeded},
		"connection broken": {func(m *Machine, c net.Conn) { m.Drop(c.(*Stream).peer.m) }, "", syscall.ECONNRESET, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, ms, ls, _ := machines(t, 2)
				n.Follow(func(int, int) Path { return Path{Latency: time.Millisecond} })
				ours, theirs := dialed(t, ms[0], ls[1])
				if name == "closed unread" {
					write(t, ours, "never read")
					time.Sleep(time.Second)
				}
				write(t, theirs, "data")
				c.end(ms[1], theirs)
				ours.SetReadDeadline(time.Now().Add(time.Minute))
				b, err := io.ReadAll(ours)
				if want := cmpErr(c.err, os.ErrDeadlineExceeded); want == io.EOF && err != nil ||
					want != io.EOF && !errors.Is(err, want) {
					t.Errorf("read: %v, want %v", err, c.err)
				}
				if string(b) != c.read {
					t.Errorf("read %q, want %q", b, c.read)
				}
				if gone := ours.(*Stream).Deserted(); gone != (c.err != io.EOF) {
					t.Errorf("deserted: %v", gone)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := ms[0].Dial(ctx, "tcp", at(1)); !errors.Is(err, c.dial) {
					t.Errorf("dial: %v, want %v", err, c.dial)
				}
			})
		})
	}
}

func cmpErr(err, or error) error {
	if err == nil {
		return or
	}
	return err
}

// TestMachine opens ports, and connections without one.
func TestMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, ms, ls, ps := machines(t, 2)
		for addr, want := range map[string]error{at(0): syscall.EADDRINUSE, at(1): syscall.EADDRNOTAVAIL} {
			if _, _, err := ms[0].Listen(addr); !errors.Is(err, want) {
				t.Errorf("listen %s: %v, want %v", addr, err, want)
			}
		}
		if _, err := ms[0].Dial(t.Context(), "tcp", "10.0.0.1:2"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial a closed port: %v", err)
		}
		ls[0].Close()
		ps[0].Close()
		if _, err := ls[0].Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept on a closed port: %v", err)
		}
		if _, _, err := ms[0].Listen(at(0)); err != nil {
			t.Errorf("listen again: %v", err)
		}

		ms[1].Answer(53, func(b []byte) []byte { return append(b, '!') })
		n.Follow(func(int, int) Path { return Path{Latency: time.Second} })
		began := time.Now()
		asks, err := ms[0].Dial(t.Context(), "udp", "10.0.0.1:53")
		must.Do(t, err)
		write(t, asks, "why")
		reads(t, asks, "why!", began, 2*time.Second)
		asks.Close()

		away := 2
		ours, theirs, err := ms[0].Connect(t.Context(), ms[1], netip.MustParseAddrPort("192.0.2.1:80"),
			func() (time.Duration, bool) { away--; return time.Minute, away < 0 })
		must.Do(t, err)
		if took := time.Since(began) - 2*time.Second; took != firstResend+2*firstResend+time.Minute+2*time.Second {
			t.Errorf("connecting took %s", took)
		}
		heard := 0
		ours.OnRead(func(n int) { heard += n })
		write(t, theirs, "four")
		reads(t, ours, "four", time.Now(), time.Second)
		if heard != 4 || ours.RemoteAddr().String() != "192.0.2.1:80" {
			t.Errorf("%d bytes heard from %s", heard, ours.RemoteAddr())
		}
	})
}

// TestRuleHoldsNoLock has a rule that uses the network. A test whose rule waits for a lock, which it holds while it
// adds a machine, would else wait for ever.
func TestRuleHoldsNoLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, ms, ls, _ := machines(t, 2)
		n.Follow(func(from, _ int) Path {
			n.Machine(9, netip.MustParseAddr("10.0.0.9"))
			return Path{Latency: time.Duration(from+1) * time.Second}
		})
		began := time.Now()
		ours, theirs := dialed(t, ms[0], ls[1]) // 1 s there, 2 s back
		write(t, ours, "x")
		reads(t, theirs, "x", began, 4*time.Second)
		ours.Close()
		theirs.Close()
	})
}

// TestOrder: small and large pieces that are written one after the other without latency arrive in their order.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ms, ls, _ := machines(t, 1)
		ours, theirs := dialed(t, ms[0], ls[0])
		const pieces = 2000
		go func() {
			for i := range pieces {
				b := make([]byte, 4+i%2*20_000)
				for at := 0; at < len(b); at += 4 {
					binary.BigEndian.PutUint32(b[at:], uint32(i))
				}
				if _, err := ours.Write(b); err != nil {
					t.Error(err)
				}
				runtime.Gosched()
			}
		}()
		for i := range pieces {
			b := make([]byte, 4+i%2*20_000)
			if _, err := io.ReadFull(theirs, b); err != nil || binary.BigEndian.Uint32(b) != uint32(i) ||
				binary.BigEndian.Uint32(b[len(b)-4:]) != uint32(i) {
				t.Fatalf("piece %d begins with %x, %v", i, b[:4], err)
			}
		}
	})
}
