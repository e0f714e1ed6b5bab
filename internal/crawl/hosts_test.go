package crawl_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/textweb"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// pausedWorld is a crawl that is paused, with visits to n hosts behind it and links to more hosts before it.
func pausedWorld(tb testing.TB, visited, waiting int, r *rand.Rand) (w *world, all []report.HostCount) {
	tb.Helper()
	s := &story{web: &textweb.Web{}}
	s.scope.Scope = scope.Any
	for i := range waiting {
		s.seeds = append(s.seeds, weburl.MustParse(fmt.Sprintf("http://w%d.example/", i)))
	}
	w = must.Get(s.open(testdisk.NewMem()))(tb)
	for i := range visited {
		h := report.HostCount{Host: fmt.Sprintf("www.v%d.example", i), URLs: 1 + r.Int64N(3)}
		for range h.URLs {
			v := report.Visit{Host: h.Host, Code: 200, Bytes: r.Int64N(50), Page: r.IntN(2) == 0}
			if r.IntN(3) == 0 {
				v.Error = "timeout"
				h.Errors++
			}
			if v.Page {
				h.Pages++
			}
			h.Bytes += v.Bytes
			w.Tally.Add(v)
		}
		all = append(all, h)
	}
	for i := range waiting {
		all = append(all, report.HostCount{Host: fmt.Sprintf("w%d.example", i)})
	}
	must.Do(tb, w.Orders.Pause(context.Background(), true))
	return w, all
}

// The pages of Hosts are those of all hosts, sorted, whatever the order, the search and the size of a page.
func TestHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting = 40
		w, all := pausedWorld(t, 8300, waiting, testseed.Rand(t))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := w.Run(ctx); done <- err }()
		time.Sleep(time.Second)
		value := func(by crawl.HostOrder, h report.HostCount) int64 {
			switch {
			case by == crawl.ByErrors:
				return h.Errors
			case by == crawl.ByBytes:
				return h.Bytes
			case by == crawl.ByPageCount:
				return h.Pages
			case by == crawl.ByQueue && strings.HasPrefix(h.Host, "w") && h.URLs == 0:
				return 1
			}
			return 0
		}
		for _, by := range []crawl.HostOrder{crawl.ByQueue, crawl.ByErrors, crawl.ByBytes, crawl.ByPageCount,
			crawl.ByName} {
			for _, search := range []string{"", "V1", "w3", "nothing"} {
				var want, got []string
				sorted := slices.Clone(all)
				slices.SortFunc(sorted, func(a, b report.HostCount) int {
					return cmp.Or(cmp.Compare(value(by, b), value(by, a)), strings.Compare(a.Host, b.Host))
				})
				for _, h := range sorted {
					if strings.Contains(h.Host, strings.ToLower(search)) {
						want = append(want, h.Host)
					}
				}
				q := crawl.HostQuery{Search: search, By: by, Limit: 3000}
				for {
					rows, matches, err := w.View.Hosts(t.Context(), q)
					if err != nil || matches != int64(len(want)) {
						t.Fatalf("order %d, search %q: %d matches, want %d; %v", by, search, matches, len(want), err)
					}
					for _, r := range rows {
						got = append(got, r.Host)
						if r.Value != value(by, r.HostCount) {
							t.Fatalf("%+v", r)
						}
					}
					if len(rows) < q.Limit {
						break
					}
					last := rows[len(rows)-1]
					q.After = &crawl.HostMark{last.Value, last.Host}
				}
				if !slices.Equal(got, want) {
					t.Errorf("order %d, search %q: %d hosts, want %d", by, search, len(got), len(want))
				}
			}
		}
		w.blocks(t, "w7.example")
		rows, _, err := w.View.Hosts(t.Context(), crawl.HostQuery{Search: "w7.example", Limit: 5})
		if err != nil || len(rows) != 1 || rows[0].State != "blocked" || !rows[0].Blocked || rows[0].Queued != 1 {
			t.Errorf("%+v, %v", rows, err)
		}
		first := crawl.HostMark{1, "w0.example"}
		for too, want := range map[bool]string{true: "w0.example", false: "w1.example"} {
			rows, _, err := w.View.Hosts(t.Context(), crawl.HostQuery{Limit: 1, After: &first, AfterToo: too})
			if err != nil || len(rows) != 1 || rows[0].Host != want {
				t.Errorf("after w0.example, %t: %+v, %v", too, rows, err)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, _, err := w.View.Hosts(t.Context(), crawl.HostQuery{Limit: 1}); err != crawl.ErrNotRunning {
			t.Errorf("after the end: %v", err)
		}
		w.close()
	})
}

// BenchmarkHosts measures the answer to an operator: the first page of 100,000 hosts that were visited, and 20,000 that
// wait. Less than 100 ms are needed.
func BenchmarkHosts(b *testing.B) {
	w, _ := pausedWorld(b, 100000, 20000, rand.New(rand.NewPCG(1, 1)))
	defer w.close()
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { defer close(done); _, _ = w.Run(ctx) }()
	for w.View.Status() == nil {
		time.Sleep(time.Millisecond)
	}
	for name, q := range map[string]crawl.HostQuery{
		"queue": {By: crawl.ByQueue}, "errors": {By: crawl.ByErrors}, "search": {Search: "v9999"},
		"name": {By: crawl.ByName},
	} {
		q.Limit = 50
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := w.View.Hosts(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "ms/answer")
		})
	}
	cancel()
	<-done
}
