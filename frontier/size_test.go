package frontier

import (
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/orbweaver/orbweaver/weburl"
)

// TestSizes: what is counted for each thing holds it.
func TestSizes(t *testing.T) {
	for name, v := range map[string]struct {
		size    uintptr
		counted int
	}{
		"host": {unsafe.Sizeof(host{}), 128}, "history": {unsafe.Sizeof(history{}), historyOverhead},
		"queue": {unsafe.Sizeof(queue{}), queueOverhead}, "rest": {unsafe.Sizeof(rest{}), restOverhead},
		"block": {unsafe.Sizeof(block{}), blockOverhead}, "place": {unsafe.Sizeof(place{}), placeOverhead},
		"group": {unsafe.Sizeof(group{}), groupOverhead}, "bucket": {unsafe.Sizeof(bucket{}), bucketOverhead},
	} {
		if int(v.size) > v.counted {
			t.Errorf("a %s takes %d bytes, %d are counted", name, v.size, v.counted)
		}
	}
}

// TestHostSize measures what a host costs that waits for its first request,
// all in all but the bytes of its links, and that the frontier's own account
// says the same.
func TestHostSize(t *testing.T) {
	if testing.Short() {
		t.Skip("200,000 hosts")
	}
	const hosts = 200_000
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	f := open(t, Config{Active: -1})
	before := heap()
	for i := range hosts {
		if err := f.Push([]weburl.Link{link(t, fmt.Sprintf("http://www.host-%d.example/", i), 0)}); err != nil {
			t.Fatal(err)
		}
	}
	took := heap() - before
	s := f.Stats()
	per := float64(took-f.ram) / hosts
	t.Logf("%.0f bytes a host, and %.0f of links; struct %d, history %d, block %d", per, float64(f.ram)/hosts,
		unsafe.Sizeof(host{}), unsafe.Sizeof(history{}), unsafe.Sizeof(block{}))
	if s.Hosts != hosts || s.Queued != hosts {
		t.Fatalf("stats %+v", s)
	}
	if per > 200 {
		t.Errorf("a host takes %.0f bytes, want at most 200", per)
	}
	if said := float64(s.RAMBytes); said < 0.9*float64(took) || said > 1.15*float64(took) {
		t.Errorf("%d bytes, RAMBytes says %.0f", took, said)
	}
	runtime.KeepAlive(f)
}
