package coordinator

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/assignment"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// benchHosts returns n distinct hosts with names of ordinary length, from number on.
func benchHosts(number, n int) []string {
	tops := []string{"com", "org", "net", "de", "co.uk", "fr"}
	r := rand.New(rand.NewPCG(1, uint64(number)))
	out := make([]string, n)
	for i := range out {
		name := fmt.Sprintf("%x", number+i) // distinct
		for range 1 + r.IntN(3) {
			name += string("bcdfghklmnprstvw"[r.IntN(16)]) + string("aeiou"[r.IntN(5)])
		}
		if r.IntN(2) == 0 {
			name = "www." + name
		}
		out[i] = name + "." + tops[r.IntN(len(tops))]
	}
	return out
}

// BenchmarkMachine applies a million hosts, writes a snapshot, and restores it, on the disk. With 4 MiB for the table,
// memory and hosts are in the ratio of 64 million hosts and the default.
func BenchmarkMachine(b *testing.B) {
	for name, memory := range map[string]int64{"in RAM": 0, "beyond RAM": 4 << 20} {
		b.Run(name, func(b *testing.B) { benchMachine(b, memory) })
	}
}

func benchMachine(b *testing.B, memory int64) {
	const all = 1_000_000
	for b.Loop() {
		open := func(dir string) *Machine {
			m, err := OpenMachine(MachineConfig{FS: disk.OS, Dir: dir, MemoryBytes: memory})
			if err != nil {
				b.Fatal(err)
			}
			return m
		}
		m := open(b.TempDir())
		m.Apply(1, encodeRoster(0, 0, rosterOf(1, 1, 1, 1)))
		from, bytesOf := b.Elapsed(), 0
		for n := 0; n < all; n += assignment.MaxHosts {
			c := encodeAssign(assign{}, benchHosts(n, min(assignment.MaxHosts, all-n)))
			bytesOf += len(c)
			if r := m.Apply(uint64(n+2), c); r != nil {
				b.Fatal(r)
			}
		}
		applied := b.Elapsed()
		if hosts, _ := m.counts(); hosts != all {
			b.Fatalf("%d hosts", hosts)
		}
		var snapshot bytes.Buffer
		s, err := m.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Write(&snapshot); err != nil {
			b.Fatal(err)
		}
		s.Release()
		written := b.Elapsed()
		again := open(b.TempDir())
		if err := again.Restore(io.NopCloser(&snapshot)); err != nil {
			b.Fatal(err)
		}
		restored := b.Elapsed()
		_, stream := m.Extent()
		runtime.GC()
		ram, disk := m.Bytes()
		for name, v := range map[string]float64{
			"applied-hosts/s":  all / (applied - from).Seconds(),
			"restored-hosts/s": all / (restored - written).Seconds(),
			"log-B/host":       float64(bytesOf) / all, "stream-B/host": float64(stream) / all,
			"table-ram-B/host": float64(ram) / all, "table-disk-B/host": float64(disk) / all,
		} {
			b.ReportMetric(v, name)
		}
		for _, m := range []*Machine{m, again} {
			if err := m.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
}
