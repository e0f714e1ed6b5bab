package crawl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// BenchmarkCrawl measures a crawl in memory, with its simulated servers: 2,000 pages of 100 hosts with 100 links each,
// most of which are known.
func BenchmarkCrawl(b *testing.B) {
	crawl.OrdinarySizes()
	const pages = 2000
	url := func(n int) string { return fmt.Sprintf("http://h%d.example/some/path/page-%d.html", n%100, n%pages) }
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "dns h%d.example 192.0.2.%d\n", i, i+1)
	}
	for n := range pages {
		text.WriteString(url(n))
		for i := range 100 {
			text.WriteString(" " + url(n+i*i))
		}
		text.WriteByte('\n')
	}
	for b.Loop() {
		s := &story{web: textweb.Parse(b, text.String()), seeds: []weburl.URL{weburl.MustParse(url(0))}}
		s.scope.Scope = scope.Any
		s.frontier.HostDelay = -1
		s.fetch = fetch.Config{UserAgent: "orbweaver", AllowPrivate: true}
		w := s.opened(b, testdisk.NewMem())
		if stop, err := w.Run(b.Context()); stop != crawl.Finished || err != nil || w.Tally.Pages() != pages {
			b.Fatal(stop, err, w.Tally.Pages())
		}
		must.Do(b, w.close())
	}
	b.ReportMetric(float64(pages*b.N)/b.Elapsed().Seconds(), "pages/s")
}
