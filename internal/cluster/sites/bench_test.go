package sites

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// BenchmarkOwner measures look-ups of owners: of hosts in the cache, by several goroutines, and of hosts that wait
// for an answer. Beside them, in the same run: the rendezvous alone (what the other placements do), and a map with a
// lock.
func BenchmarkOwner(b *testing.B) {
	const hosts = 100_000
	names := make([]string, hosts)
	for i := range names {
		names[i] = fmt.Sprintf("www.host%d.example", i)
	}
	s, err := Open(Config{FS: disk.OS, Dir: b.TempDir() + "/sites", Self: Self{"a", [16]byte{1}, 1},
		MemoryBytes: 64 << 20})
	must.Do(b, err)
	r := &assignment.Roster{Term: 1}
	var agents []placement.Owner
	for i := range 10 {
		name := string(rune('a' + i))
		r.Members = append(r.Members,
			assignment.Member{Name: name, Instance: [16]byte{1}, Capacity: 1, State: assignment.Up})
		agents = append(agents, placement.Owner{Name: name, Capacity: 1})
	}
	must.Do(b, s.apply(&applying{entries: []assignment.Entry{{Number: 1, Roster: r}}, last: 1}))
	locked := struct {
		sync.RWMutex
		m map[string]place
	}{m: map[string]place{}}
	for i, h := range names {
		p := placeOf(i%10, 2)
		s.cache.put(s.cache.hash(h), p, false)
		locked.m[h] = p
	}
	alone, err := placement.NewRendezvous(agents, 0)
	must.Do(b, err)
	o := s.owners.Load()
	for what, get := range map[string]func(h string){
		"cached":     func(h string) { s.Owner(h) },
		"tenure":     func(h string) { s.Tenure(h) },
		"rendezvous": func(h string) { alone.Owner(link.HostKey(h)) },
		"locked map": func(h string) {
			locked.RLock()
			p := locked.m[h]
			locked.RUnlock()
			o.owner(p, link.HostKey(h))
		},
		"not assigned": func(h string) { s.Owner(h[4:]) },
	} {
		b.Run(what, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				get(names[i*7919%hosts])
			}
		})
		b.Run(what+"/parallel", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					get(names[i*7919%hosts])
				}
			})
		})
	}
	must.Do(b, s.Close())
}

// BenchmarkTable applies a million hosts in entries of 4096, and looks them all up, on a disk. It reports what they
// take.
func BenchmarkTable(b *testing.B) {
	const hosts = 1 << 20
	for b.Loop() {
		b.StopTimer()
		var entries []assignment.Entry
		a := assignment.Member{Name: "a", Instance: [16]byte{1}, Capacity: 1, State: assignment.Up}
		entries = append(entries, assignment.Entry{Number: 1,
			Roster: &assignment.Roster{Term: 1, Members: []assignment.Member{a}}})
		name := func(i int) string { return fmt.Sprintf("www.host%d.example", i) }
		for i := 0; i < hosts; i += assignment.MaxHosts {
			var e assignment.Entry
			e.Number = uint64(len(entries)) + 1
			e.Shares = []assignment.Share{{Agent: "a"}}
			for j := range assignment.MaxHosts {
				e.Shares[0].Hosts = append(e.Shares[0].Hosts, name(i+j))
			}
			entries = append(entries, e)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		s, err := Open(Config{FS: disk.OS, Dir: b.TempDir() + "/sites", Self: Self{"a", [16]byte{1}, 1},
			MemoryBytes: 16 << 20})
		must.Do(b, err)
		b.StartTimer()
		began := time.Now()
		step := func(err error) {
			must.Do(b, s.settle(err, false))
			select {
			case err := <-s.table.synced:
				must.Do(b, s.settle(s.table.endSync(err), false))
			default:
			}
		}
		for i := range entries {
			step(s.apply(&applying{entries: entries[i : i+1], last: uint64(len(entries))}))
		}
		b.ReportMetric(hosts/time.Since(began).Seconds(), "applied/s")
		began = time.Now()
		l := &lookup{places: make([]place, hosts), left: 1, done: make(chan struct{})}
		for i := range hosts {
			l.hosts = append(l.hosts, name(i))
		}
		step(s.lookUp(l))
		if l.left != 0 {
			b.Fatalf("%d hosts have no answer", l.left)
		}
		b.ReportMetric(hosts/time.Since(began).Seconds(), "found/s")
		st := s.table.drum.Stats()
		b.ReportMetric(float64(st.DiskBytes)/hosts, "disk-B/host")
		b.StopTimer()
		l, entries = nil, nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-min(before.HeapAlloc, after.HeapAlloc))/(1<<20), "heap-MiB")
		b.ReportMetric(setBytes/float64(ways), "cache-B/host")
		must.Do(b, s.Close())
		b.StartTimer()
	}
}
