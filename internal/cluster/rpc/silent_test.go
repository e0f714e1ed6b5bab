package rpc

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// silence opens connections to l that send nothing: all from one address, or each from another
// loopback address. It returns when l has accepted all of them.
func silence(t *testing.T, l *Listener, addresses bool) {
	t.Helper()
	n := 1000
	if most := disk.MaxOpen(); most > 0 {
		n = min(n, most/4)
	}
	before := l.counts.refused[Busy].Load()
	for i := range n {
		var d net.Dialer
		if addresses && runtime.GOOS == "linux" { // elsewhere loopback has one address
			d.LocalAddr = &net.TCPAddr{IP: net.IPv4(127, 1, byte(i>>8), byte(i))}
		}
		conn, err := d.Dial("tcp", l.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
	// Each is in the pool, was evicted, or has timed out.
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		open, _ := l.pool.Open()
		gone := l.counts.refused[Busy].Load() - before + l.counts.refused[Stranger].Load()
		if open+int(gone) >= n || open == 0 && gone > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("of %d silent connections %d are open and %d gone", n, open, gone)
		}
	}
}

// TestSilentStrangers: silent connections, from one address or many, keep no agent out. Its first
// call and its first gossip stream succeed, and no known agent loses its place.
func TestSilentStrangers(t *testing.T) {
	keys := bundles(t, "a1", "a2", "a3")
	for _, secure := range []bool{true, false} {
		for _, addresses := range []bool{false, true} {
			t.Run(fmt.Sprintf("secure=%v,addresses=%v", secure, addresses), func(t *testing.T) {
				k1, k2, k3 := keys["a1"], keys["a2"], keys["a3"]
				if !secure {
					k1, k2, k3 = nil, nil, nil
				}
				l, _ := serve(t, k2, Handlers{Pulse: func(context.Context, Caller, uint64) (Pulse, error) {
					return Pulse{}, nil
				}})
				silence(t, l, addresses)
				c := client(t, k1, caller("a1"), nil)
				if _, err := c.Peer("a2", l.Addr()).Pulse(t.Context(), 1); err != nil {
					t.Errorf("the first call: %v", err)
				}
				conn, err := DialGossip(t.Context(), k3, nil, l.Addr(), "a2")
				if err != nil {
					t.Fatalf("the first stream of gossip: %v", err)
				}
				defer conn.Close()
				taken, err := l.Gossip().Accept()
				if err != nil {
					t.Fatal(err)
				}
				taken.Close()

				l.SetMembers([]netip.Addr{netip.MustParseAddr("127.0.0.1")})
				before, _ := l.pool.Open()
				silence(t, l, true)
				if after, _ := l.pool.Open(); after > before+maxShaking {
					t.Errorf("%d connections are open that have proved nothing", after)
				}
				late := client(t, k3, caller("a3"), nil)
				if _, err := late.Peer("a2", l.Addr()).Pulse(t.Context(), 1); err != nil {
					t.Errorf("a member's call: %v", err)
				}
			})
		}
	}
}
