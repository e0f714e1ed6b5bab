package handoff_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// BenchmarkCompact compacts a million accepts with their finishes. It also reports the bytes that
// a finished URL takes in the snapshot, and the bytes that were sent of it.
func BenchmarkCompact(b *testing.B) {
	const urls = 1_000_000
	id := source(1)
	via := "http://www.via.example/" + strings.Repeat("v", 40)
	for b.Loop() {
		b.StopTimer()
		s, err := handoff.Open(disk.OS, b.TempDir(), handoff.Config{CompactBytes: 1 << 40})
		must.Do(b, err)
		var batch []byte
		for i := range urls {
			l := link.Link{
				URL: weburl.MustParse(fmt.Sprintf("http://www.host%d.example/some/path/to/page-%d.html", i%20_000, i)),
				Via: via, Hops: "LL", Seed: "seed.example",
			}
			r := handoff.Record{Kind: handoff.Accept, Number: uint64(i + 1), Link: l.AppendTo(nil)}
			batch = r.AppendTo(batch)
			l.Via = ""
			r.Kind, r.Disposition, r.Link = handoff.Finish, handoff.Archived, l.AppendTo(nil)
			batch = r.AppendTo(batch)
			if len(batch) > 200_000 || i == urls-1 {
				must.Do(b, s.Append(id, batch))
				batch = batch[:0]
			}
		}
		must.Do(b, s.Sync(id))
		sent := s.Sources()[0].Bytes
		b.StartTimer()
		must.Do(b, s.Compact(ctx, id))
		b.StopTimer()
		b.ReportMetric(float64(sent)/urls, "sent-B/url")
		b.ReportMetric(float64(s.Sources()[0].Bytes)/urls, "B/url")
		must.Do(b, s.Close())
		b.StartTimer()
	}
}
