package local

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/web/robots"
)

// apps are the states of applications.
type apps []applications.State

func (a apps) States() []applications.State { return a }

// samples returns the values of all counters and gauges by name and labels.
func samples(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	got := map[string]float64{}
	for _, f := range must.Get(reg.Gather())(t) {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return got
}

// Counters tell of this run, and gauges of all runs.
func TestCountersBeginWithTheProcess(t *testing.T) {
	status := &crawl.Status{Pages: 100, Files: 50, Bytes: 9000, Errors: map[string]int64{"dns": 7}}
	counts := report.Counts{Pages: 10, Files: 5, Bytes: 900, Denied: 1, Near: 2, Refetched: 3, Revisits: 4,
		Unchanged: 6, Sent: 8, Errors: map[string]int64{"dns": 0, "connect": 1}, Codes: map[int]int64{200: 15, 404: 2}}
	mails := applications.State{Name: "mails", Fetched: 20, Shared: 8}
	mails.Before.Fetched, mails.Before.Shared = 12, 5
	got := samples(t, &CrawlMetrics{Robots: robots.NewCache(robots.Config{}), Apps: apps{mails},
		Files: new(atomic.Int64), Run: &fake{status: status, counts: counts}})
	for name, want := range map[string]float64{
		"crawl_pages_total": 10, "crawl_files_total": 5, "fetch_received_bytes_total": 900, "robots_denied_total": 1,
		"crawl_near_duplicates_total": 2, "crawl_refetched_total": 3, "crawl_revisits_total": 4,
		"crawl_unchanged_total": 6, "exchange_urls_sent_total": 8, "fetch_errors_total kind=dns": 0,
		"fetch_errors_total kind=connect": 1, "fetch_responses_total code=200": 15,
		"fetch_responses_total code=404": 2, "application_fetched_total application=mails": 8,
		"application_shared_total application=mails": 3, "all_runs_pages": 100, "all_runs_files": 50,
		"all_runs_received_bytes": 9000,
	} {
		if n, ok := got["orbweaver_"+name]; !ok || n != want {
			t.Errorf("%s: %v, %v, want %v", name, n, ok, want)
		}
	}
}

// A hostile server cannot make many metrics, whatever its status lines say. No response is lost.
func TestCodesAreBounded(t *testing.T) {
	all := map[int]int64{12345: 1}
	for code := 100; code <= 999; code++ {
		all[code] = 1
	}
	got, sum := byCode(all), int64(0)
	for _, n := range got {
		sum += n
	}
	if len(got) > 70 || sum != 901 {
		t.Errorf("%d values for %d responses, want at most 70 for 901", len(got), sum)
	}
	for status, label := range map[int]string{200: "200", 404: "404", 418: "418", 299: "2xx", 599: "5xx", 799: "other",
		12345: "other"} {
		if n := byCode(map[int]int64{status: 3})[label]; n != 3 {
			t.Errorf("status %d: not under %s: %v", status, label, byCode(map[int]int64{status: 3}))
		}
	}
	if n, ok := byCode(nil)["200"]; !ok || n != 0 {
		t.Error("without a response there is no counter to compute a rate of")
	}
}

// BenchmarkPhases measures what the two phases of a page over a kept connection cost, with many workers.
func BenchmarkPhases(b *testing.B) {
	phases := NewPhases()
	wait, receive := phases.WithLabelValues("wait"), phases.WithLabelValues("receive")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			wait.Observe(0.03)
			receive.Observe(0.002)
		}
	})
}
