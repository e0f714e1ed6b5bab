package cluster

import (
	"errors"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// counterOf is the Counter of an agent with this name and this disk.
func counterOf(name string) uint64 { return xxhash.Sum64String(name) }

// checkPages checks what the agents that may crawl a host know at the end of the host's pages: as many as all agents
// have counted, and as many as those have fetched whose disks are lost, least to most.
func checkPages(t *testing.T, agents, others []*world, least, most map[string]int64) {
	t.Helper()
	checked := 0
	for _, w := range agents {
		for host := range most {
			_, mine, since := w.cl.Placement.Tenure(host)
			if !mine || !w.cl.tenants.isTenant(link.HostKey(host), since) {
				continue
			}
			counted := int64(0)
			for _, o := range append(others, agents...) {
				counted += o.Tally.HostPages(host)
			}
			checked++
			n := w.Tally.HostPages(host) + w.cl.PagesElsewhere(host)
			if n < counted+least[host] || n > counted+most[host] {
				t.Errorf("%s: its owner knows %d pages; %d are counted, and %d to %d are those of lost agents", host, n,
					counted, least[host], most[host])
			}
		}
	}
	t.Logf("the pages of %d of %d hosts are counted", checked, len(most))
}

// TestManyCounts: an agent that invents counters cannot fill the memory of another one. The counts that were known
// before still grow.
func TestManyCounts(t *testing.T) {
	mine := static{func(string) (string, bool) { return "", true }}
	mem := testdisk.NewMem()
	box := must.Get(outbox.Open(mem, "outbox", outbox.Config{}))(t)
	s := newStory(t, "seed http://a.example/")
	s.with = func() (Others, error) { return Others{Placement: mine, Exchange: mine, Outbox: box, Counter: 7}, nil }
	b := must.Get(s.open(mem))(t)
	learn := func(counter, pages uint64) {
		b.cl.tenants.learnPages(&handoff.Record{Kind: handoff.Pages, Name: "a.example", Counter: counter, Pages: pages})
	}
	for i := range uint64(3 * maxCounts) {
		learn(100+i, 1)
	}
	learn(100, 11)
	n, all := len(b.cl.counts.of["a.example"]), b.cl.PagesElsewhere("a.example")
	if left := b.cl.tenants.moves().CountsLeftOut; n != maxCounts || all != maxCounts+10 || left != 2*maxCounts {
		t.Errorf("%d counts of %d pages, and %d are left out; want %d, %d and %d", n, all, left, maxCounts,
			maxCounts+10, 2*maxCounts)
	}
	must.Do(t, errors.Join(b.close(), box.Close()))
}

// TestRestoredCount: an agent whose disk was restored from an older copy takes its own count from the others.
func TestRestoredCount(t *testing.T) {
	mine := static{func(string) (string, bool) { return "", true }}
	for _, tt := range []struct{ own, told, more, want int64 }{{3, 5, 0, 5}, {3, 5, 1, 6}, {5, 3, 0, 5}, {0, 2, 2, 4}} {
		mem := testdisk.NewMem()
		box := must.Get(outbox.Open(mem, "outbox", outbox.Config{}))(t)
		s := newStory(t, "seed http://a.example/")
		s.with = func() (Others, error) { return Others{Placement: mine, Exchange: mine, Outbox: box, Counter: 7}, nil }
		b := must.Get(s.open(mem))(t)
		fetched := func() { b.Tally.Add(report.Visit{Host: "a.example", Code: 200, Page: true}) }
		for range tt.own {
			fetched()
		}
		for range 2 { // a record may come again
			b.cl.tenants.learnPages(&handoff.Record{Kind: handoff.Pages, Name: "a.example", Counter: 7,
				Pages: uint64(tt.told)})
		}
		for range tt.more {
			fetched()
		}
		b.cl.tenants.learnPages(&handoff.Record{Kind: handoff.Pages, Name: "a.example", Counter: 8, Pages: 10})
		b.cl.tenants.learnPages(&handoff.Record{Kind: handoff.Pages, Name: "a.example", Counter: 8, Pages: 9})
		own, all := b.cl.counts.ownPages("a.example"), b.Tally.HostPages("a.example")+b.cl.PagesElsewhere("a.example")
		if int64(own) != tt.want || all != tt.want+10 {
			t.Errorf("%+v: %d own pages, %d in all", tt, own, all)
		}
		must.Do(t, errors.Join(b.close(), box.Close()))
	}
}
