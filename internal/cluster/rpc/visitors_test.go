package rpc_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/simnet"
)

// TestVisitors: an agent without keys closes and counts connections that bring no call. It does not count callers, and
// clients that connect and close.
func TestVisitors(t *testing.T) {
	inMemory(t, func(t *testing.T, _ *simnet.Network, here *simnet.Machine) {
		l, s := agent(t, here, "127.0.0.1:7470", nil, func(string, rpc.Caller, any) (any, error) { return nil, nil })
		malformed := func() uint64 { synctest.Wait(); return s.Counts().Refused["malformed"] }
		var header [9]byte // of a DATA frame of 2^24 - 1 octets
		binary.BigEndian.PutUint32(header[:], 0xffffff<<8)
		const settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
		for what, sent := range map[string]string{
			"HTTP/1":           "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
			"garbage":          strings.Repeat("\x00\xff\x17garbage", 100),
			"a bad preface":    "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
			"a frame too long": http2.ClientPreface + settings + string(header[:]),
			"not even a frame": http2.ClientPreface + strings.Repeat("x", 100),
		} {
			before := malformed()
			conn := must.Get(here.Dial(t.Context(), "tcp", l.Addr()))(t)
			io.WriteString(conn, sent)
			conn.SetReadDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("%s: the connection stays open", what)
			}
			conn.Close()
			if n := malformed() - before; n != 1 {
				t.Errorf("%s is counted %d times", what, n)
			}
		}
		before := malformed()
		c := client(t, nil, caller("a2"), here.Dial)
		if err := ask(t.Context(), c.Peer("a1", l.Addr()), rpc.CallPulse); err != nil {
			t.Error(err)
		}
		c.Close()
		conn := must.Get(here.Dial(t.Context(), "tcp", l.Addr()))(t)
		io.WriteString(conn, http2.ClientPreface+settings)
		synctest.Wait()
		conn.Close()
		time.Sleep(time.Minute)
		if n := malformed() - before; n != 0 {
			t.Errorf("%d of those that call, or go, were counted", n)
		}
	})
}

// TestSilentStrangers: silent connections, from one address or many, keep no agent out. Its first call and its first
// stream of gossip succeed, and no known agent loses its place.
func TestSilentStrangers(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, addresses := range []bool{false, true} {
			inMemory(t, func(t *testing.T, network *simnet.Network, here *simnet.Machine) {
				var k map[string]*rpc.Keys
				if secure {
					k = bundles(t, "a1", "a2", "a3")
				}
				l, s := agent(t, here, "127.0.0.1:7470", k["a2"],
					func(string, rpc.Caller, any) (any, error) { return nil, nil })
				const n = 1000
				busy := uint64(n - inbound.Share(16, 16, 256)) // the others have places
				from := here
				silence := func(addresses bool) {
					before := s.Counts().Refused["busy"]
					for i := range n {
						if addresses {
							from = network.Machine(2+i, netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)}))
						}
						conn := must.Get(from.Dial(t.Context(), "tcp", l.Addr()))(t)
						t.Cleanup(func() { conn.Close() })
					}
					synctest.Wait()
					if gone := s.Counts().Refused["busy"] - before; gone < busy {
						t.Errorf("%d of %d silent connections were closed, want %d", gone, n, busy)
					}
				}
				pulse := func(name string) error {
					return ask(t.Context(), client(t, k[name], caller(name), here.Dial).Peer("a2", l.Addr()),
						rpc.CallPulse)
				}
				silence(addresses)
				if err := pulse("a1"); err != nil {
					t.Errorf("the first call: %v", err)
				}
				conn, err := rpc.DialGossip(t.Context(), k["a3"], here.Dial, l.Addr(), "a2")
				if err != nil {
					t.Fatalf("the first stream of gossip: %v", err)
				}
				defer conn.Close()
				if taken, err := l.Gossip().Accept(); err != nil {
					t.Error(err)
				} else {
					taken.Close()
				}
				l.SetMembers([]netip.Addr{netip.MustParseAddr("127.0.0.1")})
				slow := must.Get(here.Dial(t.Context(), "tcp", l.Addr()))(t)
				defer slow.Close()
				silence(true)
				slow.SetReadDeadline(time.Now().Add(time.Second))
				if _, err := slow.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("a member's connection before its first call: %v", err)
				}
				if err := pulse("a3"); err != nil {
					t.Errorf("a member's call: %v", err)
				}
			})
		}
	}
}

// TestSlowCallers: a member whose requests do not arrive keeps no other member out, and loses its places after a while.
func TestSlowCallers(t *testing.T) {
	const asked, stall = 4, 30 * time.Second
	inMemory(t, func(t *testing.T, _ *simnet.Network, here *simnet.Machine) {
		l, s := coordinator(t, here, "127.0.0.1:7480", nil,
			func(string, rpc.Caller, any) (any, error) { return nil, nil })
		tr := plain(t)
		tr.DialContext = here.Dial
		ended := make(chan error, asked)
		for range asked {
			body, more := io.Pipe()
			t.Cleanup(func() { more.Close() })
			r := must.Get(raw{call: "Discover", who: who(caller("slow"))}.request(t.Context(), l.Addr()))(t)
			r.Body, r.ContentLength = body, -1
			go func() {
				began := time.Now()
				res, err := tr.RoundTrip(r)
				if err == nil {
					res.Body.Close()
				}
				if took := time.Since(began); err == nil && res.StatusCode == 200 || took > stall+time.Second {
					err = errors.Join(err, errors.New("it lasts too long, or succeeds"))
				} else {
					err = nil
				}
				ended <- err
			}()
		}
		time.Sleep(time.Millisecond) // the calls arrive
		discover := func(name string) error {
			return ask(t.Context(), client(t, nil, caller(name), here.Dial).Coordinator(l.Addr()),
				rpc.CallDiscover)
		}
		if err := discover("slow"); !errors.Is(err, rpc.ErrUnreachable) {
			t.Errorf("one more call of the slow agent: %v", err)
		}
		began := time.Now()
		if err := discover("a2"); err != nil || time.Since(began) > 0 {
			t.Errorf("the call of another agent: %v after %v", err, time.Since(began))
		}
		for range asked {
			if err := <-ended; err != nil {
				t.Errorf("a slow call: %v", err)
			}
		}
		if err := discover("slow"); err != nil {
			t.Errorf("the slow agent's next call: %v", err)
		}
		if n := s.Counts().Refused["busy"]; n != 1 {
			t.Errorf("%d refused as busy", n)
		}
	})
}
