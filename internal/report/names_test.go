package report

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestNamesModel compares the table with a map.
func TestNamesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got names[int]
		want := map[string]int{}
		var order []string
		for _, s := range rapid.SliceOfN(rapid.StringN(0, 6, 12), 0, 400).Draw(t, "names") {
			if len(s) == 5 {
				s = strings.Repeat(s, longName/5-1) // nearly the longest name that is not cut
			}
			if p := got.find(s); (p != nil) != (want[s] > 0) || p != nil && *p != want[s] {
				t.Fatalf("%.20q: found %v, want %d", s, p, want[s])
			}
			if want[s] == 0 {
				order = append(order, s)
			}
			want[s]++
			*got.findOrAdd(s)++
		}
		if got.count != len(want) {
			t.Fatalf("%d names, want %d", got.count, len(want))
		}
		i := 0
		for k, v := range got.all() {
			if string(k) != order[i] || *v != want[order[i]] {
				t.Fatalf("%d: %.20q %d, want %.20q %d", i, k, *v, order[i], want[order[i]])
			}
			i++
		}
		last := -1
		for _, k := range got.descending(func(v *int) int64 { return int64(*v) }) {
			if last >= 0 {
				a, b := *got.find(order[last]), *got.find(order[k])
				if a < b || a == b && order[last] > order[k] {
					t.Fatalf("%.20q %d before %.20q %d", order[last], a, order[k], b)
				}
			}
			last = k
		}
	})
}

func TestLongNamesAreCut(t *testing.T) {
	var n names[int]
	*n.findOrAdd(strings.Repeat("x", longName+5)) = 7
	if p := n.find(strings.Repeat("x", longName)); p == nil || *p != 7 {
		t.Error("a long name is not found by its first longName bytes")
	}
}

func hostName(i int) string { return fmt.Sprintf("h%06d.example.net", i) }

// size returns the bytes that t occupies.
func (t *names[V]) size() int {
	n := 8 * len(t.slots)
	for _, e := range t.entries {
		n += len(e) * int(unsafe.Sizeof(e[0]))
	}
	for _, b := range t.text {
		n += cap(b)
	}
	return n
}

// TestHostsAreSmall bounds the memory that a Tally needs for each host.
func TestHostsAreSmall(t *testing.T) {
	tally := NewTally()
	const n = 100_000
	for i := range n {
		tally.Add(Visit{Host: hostName(i), Seed: "s.example", Code: 200, MIME: "text/html", Bytes: 22300, Page: true})
	}
	if got := tally.hosts.size() / n; got > 84 {
		t.Errorf("%d bytes for each host, want at most 84", got)
	}
}

// BenchmarkManyHosts measures a Tally of a million hosts: its memory, its encoding and its reports.
func BenchmarkManyHosts(b *testing.B) {
	const n = 1_000_000
	hosts := make([]string, n)
	for i := range hosts {
		hosts[i] = hostName(i * 7919 % n)
	}
	heap := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		before := heap()
		tally := NewTally()
		from := time.Now()
		for i := range 3 * n {
			tally.Add(Visit{Host: hosts[i*31%n], Seed: "s.example", Code: 200, MIME: "text/html", Bytes: 22300,
				Page: true})
		}
		b.ReportMetric(float64(time.Since(from).Nanoseconds())/(3*n), "ns/visit")
		b.ReportMetric((heap()-before)/n, "B/host")
		from = time.Now()
		enc := tally.AppendTo(nil)
		b.ReportMetric(time.Since(from).Seconds()*1000, "encode-ms")
		b.ReportMetric(float64(len(enc))/n, "encoded-B/host")
		dir := b.TempDir()
		var m, after runtime.MemStats
		runtime.ReadMemStats(&m)
		from = time.Now()
		must.Do(b, tally.WriteReports(disk.OS, filepath.Join(dir, "reports"), tally.Summary(0, "")))
		b.ReportMetric(time.Since(from).Seconds(), "reports-s")
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.TotalAlloc-m.TotalAlloc)/1e6, "reports-MB-allocated")
		runtime.KeepAlive(tally)
	}
}
