package outbox

import (
	"fmt"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// benchLinks has n links of n/perHost hosts.
func benchLinks(n, perHost int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		u := fmt.Sprintf("http://h%d.example/section/page-%d.html", i%(n/perHost), i)
		all[i] = link.Link{URL: weburl.MustParse(u), Hops: "LL"}.AppendTo(nil)
	}
	return all
}

func hostKey(encoded []byte) uint64 {
	host, _ := link.PeekHost(encoded)
	return link.HostKey(host)
}

// BenchmarkViewChange measures a change of the view with 1 million queued links, of which an eighth
// gets another owner: an eighth agent joins. The first time is that of Changed and Route, the second
// one ends when all links are sent.
func BenchmarkViewChange(b *testing.B) {
	fileBytes, pageBytes = 32<<20, 16<<10
	const links = 1_000_000
	all := benchLinks(links, 10)
	agent := func(link []byte, agents uint64) string {
		key := hostKey(link)
		if key>>32%8 == 7 && agents == 8 {
			return "a7"
		}
		return fmt.Sprintf("a%d", key%7)
	}
	var routed, sent time.Duration
	var moved int
	for b.Loop() {
		b.StopTimer()
		o, err := Open(disk.OS, b.TempDir(), Config{})
		must.Do(b, err)
		for i, l := range all {
			must.Do(b, o.Push(agent(l, 7), uint64(i+1), 0, l))
		}
		way := func(n uint64, l []byte) (To, error) { return To{Agent: agent(l, 8)}, nil }
		b.StartTimer()
		began := time.Now()
		o.Changed()
		for o.Loose() {
			must.Do(b, o.Route(256, way))
		}
		routed += time.Since(began)
		for o.Len() > 0 {
			batch, _, err := o.Next(began, way)
			must.Do(b, err)
			if batch != nil {
				if batch.Agent == "a7" {
					moved += len(batch.Numbers)
				}
				o.Done(batch, true, began)
			}
		}
		sent += time.Since(began)
		b.StopTimer()
		must.Do(b, o.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(moved)/float64(b.N)/links, "moved/link")
	b.ReportMetric(float64(routed.Microseconds())/float64(b.N)/1e3, "ms/change")
	b.ReportMetric(float64(sent.Microseconds())/float64(b.N)/1e3, "ms/sent")
}

// BenchmarkAssigned measures the assignment of one host while a million hosts with a link each wait
// for an owner.
func BenchmarkAssigned(b *testing.B) {
	fileBytes, pageBytes = 32<<20, 16<<10
	const hosts = 1_000_000
	all := benchLinks(hosts, 1)
	o, err := Open(disk.OS, b.TempDir(), Config{})
	must.Do(b, err)
	began := time.Now()
	for i, l := range all {
		must.Do(b, o.PushWaiting(hostKey(l), uint64(i+1), l))
	}
	w := o.waiting
	var size int64
	for _, f := range w.files {
		size += f.end
	}
	b.Logf("%d hosts in %s: %d MB of disk, %d KB of RAM for %d leaves, %d KB for links", hosts,
		time.Since(began).Round(time.Millisecond), size>>20, len(w.leaves)*leafBytes>>10, len(w.leaves), w.ram>>10)
	i := 0
	for b.Loop() {
		i = (i + 600_011) % hosts
		l, released := all[i], 0
		o.Assigned(hostKey(l))
		if err := o.Route(256, func(n uint64, _ []byte) (To, error) {
			released++
			return To{Agent: "a"}, nil
		}); err != nil || released > 1 {
			b.Fatal(released, err)
		}
		if released == 1 { // wait again
			if _, _, err := o.Next(began, func(uint64, []byte) (To, error) {
				return To{Way: Wait, Key: hostKey(l)}, nil
			}); err != nil {
				b.Fatal(err)
			}
		}
	}
	must.Do(b, o.Close())
}
