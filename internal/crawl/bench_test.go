package crawl

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// BenchmarkSettle measures the dispatcher's work for a page with 100 links, five of them new. This
// work limits the pages per second of all workers together.
func BenchmarkSettle(b *testing.B) {
	s := &story{web: &textweb.Web{}}
	s.frontier.HostDelay = -1
	s.fetch.UserAgent = "orbweaver"
	seed, err := weburl.Parse("http://a.example/")
	if err != nil {
		b.Fatal(err)
	}
	s.seeds = []weburl.URL{seed}
	w, err := s.open(testdisk.NewMem())
	if err != nil {
		b.Fatal(err)
	}
	defer w.close()
	w.publish(time.Now())
	n := 0
	now := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		t, _, ok := w.Frontier.Next(now)
		if !ok {
			b.Fatal("no link")
		}
		if !t.Addr.IsValid() {
			v := w.take(t)
			v.resolved, v.addr, v.expires = true, netip.AddrFrom4([4]byte{192, 0, 2, 1}), now.Add(time.Hour)
			w.settle(v, now)
			if t, _, ok = w.Frontier.Next(now); !ok {
				b.Fatal("no link")
			}
		}
		v := w.take(t)
		v.outcome, v.status, v.began, v.size, v.mime = Fetched, 200, now, 20000, "text/html"
		for i := range 100 {
			k := n % 1000
			if i < 5 {
				n++
				k = n
			}
			u, err := weburl.Parse(fmt.Sprintf("http://h%d.example/some/path/page-%d.html", k%100, k))
			if err != nil {
				b.Fatal(err)
			}
			v.add(weburl.Link{URL: u, Via: t.Link.URL.String(), Hops: "LL", Seed: "a.example"}, u.Key(), false)
		}
		b.StartTimer()
		w.settle(v, now)
		w.save(time.Now())
		if w.fatal != nil {
			b.Fatal(w.fatal)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
}
