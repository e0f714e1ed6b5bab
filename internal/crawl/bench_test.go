package crawl

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// BenchmarkRead measures a worker's work for the links of a page: 200 links, most of them to the page's host, and none
// known.
func BenchmarkRead(b *testing.B) {
	var page strings.Builder
	for i := range 200 {
		host := "a.example"
		if i%5 == 0 {
			host = fmt.Sprintf("h%d.example", i)
		}
		fmt.Fprintf(&page, "<a href=\"http://%s/some/path/page-%d.html\">x</a>\n", host, i)
	}
	f, err := fetch.New(fetch.Config{UserAgent: "orbweaver", AllowPrivate: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				if _, err := http.ReadRequest(bufio.NewReader(server)); err == nil {
					fmt.Fprintf(server, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s",
						page.Len(), page.String()) // without an answer, Fetch fails
				}
			}()
			return client, nil
		}})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	seed := weburl.MustParse("http://a.example/")
	r, err := f.Fetch(context.Background(), fetch.Request{URL: seed, Addr: netip.MustParseAddr("192.0.2.1")})
	if err != nil || r.Failure != nil {
		b.Fatal(err, r)
	}
	s := &story{web: &textweb.Web{}, seeds: []weburl.URL{seed}}
	s.scope.Scope = scope.Any
	for _, depth := range []int{-1, 9} {
		if depth >= 0 {
			s.scope.HostDepth = &depth
		}
		w, err := s.open(testdisk.NewMem())
		if err != nil {
			b.Fatal(err)
		}
		defer w.close()
		b.Run(fmt.Sprintf("host-depth=%d", depth), func(b *testing.B) {
			t, _, _ := w.Frontier.Next(time.Now())
			t.Link = weburl.Link{URL: seed, Hops: "LL", Seed: "a.example"}
			v := w.take(t)
			b.ReportAllocs()
			for b.Loop() {
				v.reset(t)
				v.inHost.on = w.Scope.BoundsHostDepth()
				if err := w.read(context.Background(), v, r); err != nil || len(v.found) != 200 {
					b.Fatal(len(v.found), err)
				}
				v.page.Rest()
			}
			b.ReportMetric(200*float64(b.N)/b.Elapsed().Seconds(), "links/s")
		})
	}
}

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
