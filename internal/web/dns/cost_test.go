package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/recent"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testcost"
)

// BenchmarkCost measures the CPU time that a lookup of an uncached name costs this process, with 64
// callers. The server runs in another process.
//
//	go test -run - -bench Cost -benchtime 30000x ./internal/web/dns
func BenchmarkCost(b *testing.B) {
	addr := testcost.StartServer(b)
	for _, six := range []bool{false, true} {
		b.Run(fmt.Sprintf("ipv6=%v", six), func(b *testing.B) {
			r := open(b, Config{Servers: []string{addr}, IPv6: six, CacheEntries: 1 << 20, Timeout: 10 * time.Second})
			names := make([]string, b.N)
			for i := range names {
				names[i] = "www.host" + strconv.Itoa(i) + ".example"
			}
			runtime.GC()
			b.ReportAllocs()
			b.ResetTimer()
			before := testcost.CPU()
			var next atomic.Int64
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
						a, err := r.Lookup(context.Background(), names[i])
						if err != nil || a.Addrs[0] != netip.AddrFrom4([4]byte{192, 0, 2, 1}) {
							b.Error(a, err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64((testcost.CPU()-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
		})
	}
}

// BenchmarkCacheMemory measures the memory of an entry of a full cache.
func BenchmarkCacheMemory(b *testing.B) {
	for b.Loop() {
		const entries = 1 << 20
		before := testcost.Heap()
		c := recent.New[string, entry](entries)
		soon := time.Now().Add(time.Hour)
		for i := range entries {
			addrs := []netip.Addr{netip.AddrFrom4([4]byte{192, byte(i >> 16), byte(i >> 8), byte(i)})}
			c.Set(strings.Clone("www.host"+strconv.Itoa(i)+".example"), entry{Answer: Answer{addrs, soon}})
		}
		b.ReportMetric(float64(testcost.Heap()-before)/entries, "B/entry")
		runtime.KeepAlive(c)
	}
}

// TestBenchServer is the server of BenchmarkCost, in its own process. It answers A with one address
// and AAAA with no address.
func TestBenchServer(t *testing.T) {
	testcost.IsServer(t)
	pc := must.Get(net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	pc.SetReadBuffer(4 << 20)
	fmt.Println(pc.LocalAddr())
	b := make([]byte, 4096)
	for {
		n, from, err := pc.ReadFromUDPAddrPort(b)
		if err != nil || n < headerLen+5 {
			return
		}
		q := questionLen(b[:n])
		reply := b[:q]
		reply[2], reply[3] = 0x81, 0x80
		clear(reply[6:12])
		if reply[q-3] == 1 {
			reply[7] = 1
			reply = append(reply, "\xc0\x0c\x00\x01\x00\x01\x00\x00\x0e\x10\x00\x04\xc0\x00\x02\x01"...)
		} else {
			reply[9] = 1 // an SOA record: no record of this type
			reply = append(reply,
				"\xc0\x0c\x00\x06\x00\x01\x00\x00\x0e\x10\x00\x16\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x0e\x10"...)
		}
		pc.WriteToUDPAddrPort(reply, from)
	}
}
