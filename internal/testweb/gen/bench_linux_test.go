package gen

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// cpuTime returns the CPU time of this thread. Unlike wall time it does not depend on other processes.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		b.Skip(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportCPU runs f and reports the CPU time for each of its n units.
func reportCPU(b *testing.B, unit string, f func() (n int64)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ReportAllocs()
	start, n := cpuTime(b), int64(0)
	for b.Loop() {
		n += f()
	}
	b.ReportMetric(float64(cpuTime(b)-start)/float64(n), "cpu-ns/"+unit)
}

type request struct {
	host   int64
	target string
}

func someRequests(w *Web, n int) []request {
	rng := rand.New(rand.NewPCG(1, 2))
	list := make([]request, n)
	for i := range list {
		h := rng.Int64N(w.Hosts())
		list[i] = request{h, w.Target(h, rng.Int64N(w.Pages(h)))}
	}
	return list
}

func BenchmarkAnswer(b *testing.B) {
	for _, bench := range []struct {
		name string
		spec Spec
		gzip bool
	}{
		{"identity", Plain(1, 20000), false},
		{"gzip", Plain(1, 20000), true},
		{"wild-gzip", Wild(1, 20000), true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			w := newWeb(b, bench.spec)
			list := someRequests(w, 20000)
			var dst []byte
			var bytes, i int
			for _, r := range list { // makes all blocks in advance
				dst, _ = w.Answer(dst[:0], testweb.Query{Host: r.host, Target: r.target, Gzip: bench.gzip})
				bytes += len(dst)
			}
			reportCPU(b, "page", func() int64 {
				dst, _ = w.Answer(dst[:0], testweb.Query{Host: list[i].host, Target: list[i].target, Gzip: bench.gzip})
				i = (i + 1) % len(list)
				return 1
			})
			b.ReportMetric(float64(bytes)/float64(len(list)), "bytes/page")
		})
	}
}

func BenchmarkLinks(b *testing.B) {
	w := newWeb(b, Plain(1, 20000))
	rng := rand.New(rand.NewPCG(1, 2))
	var refs []Ref
	hosts := make([]int64, 1000)
	for i := range hosts {
		hosts[i] = rng.Int64N(w.Hosts())
	}
	i := 0
	reportCPU(b, "link", func() int64 {
		h := hosts[i]
		i = (i + 1) % len(hosts)
		refs = w.Links(h, int64(i)%w.Pages(h), refs[:0])
		return int64(len(refs))
	})
}

func BenchmarkHost(b *testing.B) {
	w := newWeb(b, Plain(1, 1e8))
	name, _ := w.Name(77_777_777)
	reportCPU(b, "host", func() int64 {
		h, _ := w.Find(name)
		if w.Host(h).Pages < 1 {
			b.Fatal("no pages")
		}
		return 1
	})
}

func BenchmarkReachable(b *testing.B) {
	w := newWeb(b, Plain(1, 2000))
	reportCPU(b, "page", func() int64 {
		tr, err := w.Reachable(Bounds{Seeds: []Seed{{0, 0}}, Robots: true})
		must.Do(b, err)
		return tr.Reachable()
	})
}
