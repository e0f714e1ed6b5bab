package robots

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testcost"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// BenchmarkCacheMemory measures the memory of an origin, by how similar the files are.
func BenchmarkCacheMemory(b *testing.B) {
	for _, kind := range []struct {
		name  string
		reply func(i int) Reply
	}{
		{"none", func(int) Reply { return Reply{Status: 404} }},
		{"same", func(int) Reply {
			return Reply{Status: 200,
				Body: []byte("User-agent: *\nCrawl-delay: 2\nDisallow: /private/\nDisallow: /*?session=\nAllow: " +
					"/private/open/\n")}
		}},
		{"same-sitemap", func(i int) Reply {
			return Reply{Status: 200, Body: fmt.Appendf(nil, "User-agent: *\nCrawl-delay: 2\nDisallow: /private/\n"+
				"Disallow: /*?session=\nAllow: /private/open/\nSitemap: http://host%d.example/sitemap.xml\n", i)}
		}},
		{"own", func(i int) Reply {
			return Reply{Status: 200, Body: fmt.Appendf(nil, "User-agent: *\nCrawl-delay: 2\nDisallow: /private%d/\n"+
				"Disallow: /*?session=\nAllow: /private/open/\n", i)}
		}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			const origins = 100_000
			before := testcost.Heap()
			var c *Cache
			for b.Loop() {
				c = NewCache(Config{Agent: "orbweaver", MemoryBytes: 1 << 30})
				for i := range origins {
					u := mustParse(b, fmt.Sprintf("http://host%d.example/", i))
					c.Learn(u, u, kind.reply(i), start)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/origins, "ns/learn")
			b.ReportMetric(float64(testcost.Heap()-before)/origins, "B/origin")
			runtime.KeepAlive(c)
		})
	}
}

// BenchmarkAskMany asks about an allowed page of each of 100,000 origins in turn, from all
// processors.
func BenchmarkAskMany(b *testing.B) {
	c := NewCache(Config{Agent: "orbweaver", MemoryBytes: 1 << 30})
	pages := make([]weburl.URL, 100_000)
	for i := range pages {
		u := mustParse(b, fmt.Sprintf("http://host%d.example/a/page.html?id=7", i))
		pages[i] = u
		c.Learn(u, u, Reply{Status: 200,
			Body: []byte(
				"User-agent: *\nCrawl-delay: 2\nDisallow: /private/\nDisallow: /*?session=\nAllow: /private/open/\n")},
			start)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		i := 0
		for pb.Next() {
			i = (i + 7919) % len(pages)
			if a := c.Ask(pages[i], start); a.Verdict != Allowed {
				b.Fatal(a.Verdict)
			}
		}
	})
}
