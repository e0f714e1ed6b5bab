package sim

import (
	"io"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowLine sends data over a slow line. Writing must take no time, and the data must arrive as
// fast as the line carries it, also if several connections share the line. Packets overtake it.
func TestSlowLine(t *testing.T) {
	const writes, size, rate, latency = 100, 16 << 10, 50_000, 300 * time.Millisecond
	for _, conns := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(1)
			n.follow(func(from, to int) path {
				if from == 1 {
					return path{latency: latency, rate: rate, line: 1}
				}
				return path{}
			})
			var there []*machine
			for i := range 3 {
				there = append(there, n.machine(i, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})))
			}
			var outs, ins []*stream
			for i := range conns {
				out, in := there[1].connect(there[2*(i%2)], netip.AddrPort{}, netip.AddrPort{})
				outs, ins = append(outs, out), append(ins, in)
			}
			began := time.Now()
			for i := range writes {
				if _, err := outs[i%conns].Write(make([]byte, size)); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("writing took %s", took)
			}
			if takes, _ := n.fate(1, 2, 500); takes != latency+10*time.Millisecond {
				t.Errorf("a packet takes %s", takes)
			}
			for _, in := range ins {
				if _, err := io.ReadFull(in, make([]byte, writes/conns*size)); err != nil {
					t.Fatal(err)
				}
			}
			want := latency + writes*size*time.Second/rate
			if got := time.Since(began); got.Round(time.Millisecond) != want.Round(time.Millisecond) {
				t.Errorf("%d connections: the data arrived after %s, want %s", conns, got, want)
			}
		})
	}
}
