package urlfrontier

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/urlfrontier/pb"
)

// BenchmarkPut puts discovered URLs of a thousand hosts, with a sync for each thousand of them. It reports how much
// memory a URL takes, and how much of it the accounting counts.
func BenchmarkPut(b *testing.B) {
	s, err := Open(disk.OS, b.TempDir(), Config{MemoryBytes: 64 << 30})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	for b.Loop() {
		item := discovered(fmt.Sprintf("http://www.host-%d.example/folder/page-%d.html", n%1000, n), "")
		item.GetDiscovered().Info.Metadata = map[string]*pb.StringList{"depth": {Values: []string{"3"}},
			"url.path": {Values: []string{"http://www.start.example/"}}}
		_, change, err := s.Put(item, start)
		if n++; err == nil && n%1000 == 0 {
			err = s.commit(change)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "urls/s")
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "B/url")
	b.ReportMetric(float64(s.bytes)/float64(n), "counted-B/url")
}

// BenchmarkTake leases the URLs of a hundred thousand queues, ten queues a call, with a sync for each.
func BenchmarkTake(b *testing.B) {
	s, err := Open(disk.OS, b.TempDir(), Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for i := range 200_000 {
		item := discovered(fmt.Sprintf("http://www.host-%d.example/page-%d.html", i%100_000, i), "")
		if _, _, err := s.Put(item, start); err != nil {
			b.Fatal(err)
		}
	}
	now, urls := start, 0
	for b.Loop() {
		now += 10
		infos, change, err := s.Take(Want{Any: true, Queues: 10, URLs: 10, Lease: 60}, now)
		if err == nil {
			err = s.commit(change)
		}
		if err != nil {
			b.Fatal(err)
		}
		urls += len(infos)
	}
	b.ReportMetric(float64(urls)/b.Elapsed().Seconds(), "urls/s")
}
