package frontier

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// TestSizes checks that memory accounting counts at least the size of each struct.
func TestSizes(t *testing.T) {
	for name, v := range map[string]struct {
		size    uintptr
		counted int
	}{
		"host": {unsafe.Sizeof(host{}), 112}, "extra": {unsafe.Sizeof(extra{}), extraOverhead},
		"queue": {unsafe.Sizeof(queue{}), queueOverhead}, "rest": {unsafe.Sizeof(queueTail{}), restOverhead},
		"block": {unsafe.Sizeof(tailBlock{}), blockOverhead},
		"group": {unsafe.Sizeof(group{}), groupOverhead}, "bucket": {unsafe.Sizeof(bucket{}), bucketOverhead},
	} {
		if int(v.size) > v.counted {
			t.Errorf("a %s takes %d bytes, but %d are counted", name, v.size, v.counted)
		}
	}
}

// TestHostSize measures the memory of a host with one link, without the bytes of its links: before its first request,
// while it waits after a request, with an address and a site of its own whose quiet times are kept, and after all these
// times are over. Stats must report the same. The load of the tables depends on their number and on the hash.
func TestHostSize(t *testing.T) {
	for _, c := range []struct {
		name  string
		cfg   Config
		asked bool
		want  float64
	}{
		{"before its first request", Config{}, false, 200},
		{"asked", Config{}, true, 200},
		{"asked, with an address and a site", Config{IPDelay: time.Second / 2, SiteDelay: time.Second / 2}, true, 225},
		{
			"asked, its address and site quiet for longer",
			Config{HostDelay: time.Second / 2, IPDelay: time.Second, SiteDelay: 2 * time.Second}, true, 225,
		},
		{"asked, with leases", Config{IPDelay: time.Second / 2, SiteDelay: time.Second / 2, Lease: freeLease{}}, true,
			660},
	} {
		t.Run(c.name, func(t *testing.T) { hostSize(t, c.cfg, c.asked, c.want) })
	}
}

func hostSize(t *testing.T, cfg Config, asked bool, want float64) {
	hosts := testtier.Rounds(12_500, 100_000) // the load of the tables is the same
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	cfg.Active = -1
	f := open(t, cfg)
	before := heap()
	for i := range hosts {
		l := linkOf(t, fmt.Sprintf("http://www.host-%d.example/", i), 0)
		must.Do(t, f.Push([]link.Link{l}))
		if asked {
			must.Do(t, f.Push([]link.Link{l}))
		}
	}
	for i := 0; asked && i < hosts; {
		task, _, ok := f.Next(start)
		switch {
		case !ok:
			t.Fatalf("nothing is due after %d requests: %+v, %v", i, f.Stats(), f.Err())
		case !task.Addr.IsValid():
			a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
			f.Resolved(task.Host, a, start.Add(time.Hour), start)
		default:
			must.Do(t, f.Done(task.Host, Done{}, start))
			i++
		}
	}
	took := heap() - before
	s := f.Stats()
	per := float64(took-f.queues.ram) / float64(hosts)
	t.Logf("%.0f bytes a host, and %.0f of links; struct %d, extra %d, block %d", per,
		float64(f.queues.ram)/float64(hosts),
		unsafe.Sizeof(host{}), unsafe.Sizeof(extra{}), unsafe.Sizeof(tailBlock{}))
	if s.Hosts != hosts || s.Queued != int64(hosts) {
		t.Fatalf("stats %+v", s)
	}
	if per > want {
		t.Errorf("a host takes %.0f bytes, want at most %.0f", per, want)
	}
	if said := float64(s.RAMBytes); said < 0.9*float64(took) || said > 1.15*float64(took) {
		t.Errorf("%d bytes used, but RAMBytes is %.0f", took, said)
	}
	f.tick(start.Add(time.Minute))
	if s, per := f.Stats(), float64(heap()-before-f.queues.ram)/float64(hosts); s.Ready != hosts || per > want {
		t.Errorf("a ready host takes %.0f bytes, want at most %.0f; %+v", per, want, s)
	}
	runtime.KeepAlive(f)
}
