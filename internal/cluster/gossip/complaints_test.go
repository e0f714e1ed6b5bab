package gossip

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestRefused: packets and streams that are no gossip of this crawl are counted, with and without a
// secret. Gossip of this crawl is not.
func TestRefused(t *testing.T) {
	for _, secret := range [][]byte{nil, bytes.Repeat([]byte{7}, 32)} {
		story(t, func(t *testing.T, w *world) {
			w.secret = secret
			a, b := w.agent("a1"), w.agent("a2")
			a.mustStart()
			b.mustStart(a)
			w.settle(a, b)
			time.Sleep(time.Minute)
			if n := a.refused.Load(); n != 0 {
				t.Errorf("%d refused of a cluster alone", n)
			}
			const packets = 20
			stranger := w.machine(99)
			_, from, err := stranger.Listen("10.0.0.99:1")
			must.Do(t, err)
			to := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(a.addr))
			for i := range packets {
				from.WriteTo(bytes.Repeat([]byte{byte(100 + i)}, 50+i), to)
				time.Sleep(time.Second)
			}
			if n := a.refused.Load(); n != packets {
				t.Errorf("%d of %d packets were counted", n, packets)
			}
			ours := must.Get(stranger.Dial(t.Context(), "tcp", a.addr))(t)
			ours.Write([]byte("no gossip at all, but as long as a header is"))
			time.Sleep(time.Minute)
			ours.Close()
			if n := a.refused.Load(); n != packets+1 {
				t.Errorf("%d refused after a stream, want %d", n, packets+1)
			}
			w.settle(a, b)
		})
	}
}
