package node_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestAPI asks an agent before its crawl begins, in a pause, and when the crawl has ended.
func TestAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mem := newSmallWeb(t), testdisk.NewMem()
		cfg := w.config(t, mem)
		cfg.MemoryBytes, cfg.Frontier.MemoryBytes = 256<<20, 0
		a, closes := open(t, cfg)
		defer closes()
		get := serve(t, a, mem)
		metrics := func(want map[string]float64) map[string]float64 {
			t.Helper()
			return checkMetrics(t, get, want)
		}
		ready := func(want int) {
			t.Helper()
			if res, _ := get("/readyz"); res.StatusCode != want {
				t.Errorf("/readyz: %s, want %d", res.Status, want)
			}
		}

		early := metrics(map[string]float64{"orbweaver_agent_info": 1, "orbweaver_crawl_ready": 0,
			"orbweaver_crawl_paused": 0, "orbweaver_time_seconds": float64(time.Now().UnixMicro()) / 1e6})
		if _, ok := early["orbweaver_crawl_pages_total"]; ok {
			t.Error("there are counts before the crawl")
		}
		ready(503)
		calls(t, a, `Status -> state:"waiting" waits_for:"the start of the crawl"`)
		asked := make(chan *pb.StatusResponse, 1)
		go func() { // it waits for the start
			s, err := a.Operator().Status(t.Context(), &pb.StatusRequest{})
			if err != nil {
				t.Error(err)
			}
			asked <- s
		}()
		time.Sleep(time.Second)
		ended := make(chan error, 1)
		go func() { _, err := a.Run(t.Context()); ended <- err }()
		if s := <-asked; s.Agents[0].State != "crawling" {
			t.Errorf("a crawl that begins: %v", s)
		}
		ready(200)
		calls(t, a, `Give verb:"pause"`)
		time.Sleep(time.Hour)
		ready(200) // a crawl in a pause is ready
		calls(t, a, `Status -> state:"paused"
			Give verb:"pause" off:true`)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		ready(503)

		pages := float64(len(smallURLs()))
		got := metrics(map[string]float64{
			"orbweaver_crawl_pages_total": pages, "orbweaver_seen_urls": pages, "orbweaver_frontier_queued_urls": 0,
			"orbweaver_frontier_pooled_urls": 0, "orbweaver_frontier_aside_urls": 0,
			"orbweaver_frontier_active_hosts": 500,
			"orbweaver_robots_origins":        2, "orbweaver_robots_forgotten_total": 0,
		})
		if b := got["orbweaver_robots_memory_bytes"]; b < 100 || b > 10_000 {
			t.Errorf("robots.txt of two origins in %v bytes", b)
		}
		checkSizes(t, a)
		checkArchived(t, a, func(path string) (int, string) {
			res, text := get(path)
			if p := res.Header.Get("Content-Security-Policy"); !strings.HasPrefix(p, "sandbox; default-src 'none'; ") {
				t.Errorf("%s has the policy %q", path, p)
			}
			return res.StatusCode, text
		})
	})
}

// checkMetrics reads /metrics. The linter of Prometheus can parse it and finds no fault. It returns the sum of each
// metric over its labels.
func checkMetrics(t *testing.T, get func(path string) (*http.Response, string), want map[string]float64) (
	got map[string]float64) {
	t.Helper()
	got = map[string]float64{}
	_, text := get("/metrics")
	if faults, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(faults) > 0 {
		t.Errorf("/metrics: %v, %v", err, faults)
	}
	for line := range strings.Lines(text) {
		var name string
		var value float64
		if n, _ := fmt.Sscan(line, &name, &value); n == 2 && line[0] != '#' {
			name, _, _ = strings.Cut(name, "{")
			got[name] += value
		}
	}
	for name, n := range want {
		if v, ok := got[name]; !ok || v != n {
			t.Errorf("%s: %v, %v, want %v", name, v, ok, n)
		}
	}
	return got
}

// The counters of a resumed crawl begin at zero, and its totals go on. Its responses have waited and were received.
func TestMetricsOverRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mem := newSmallWeb(t), testdisk.NewMem()
		cfg := w.config(t, mem)
		all := float64(len(smallURLs()))
		for _, run := range []struct{ limit, counted, total float64 }{{10, 10, 10}, {0, all - 10, all}, {0, 0, all}} {
			cfg.Crawl.PageLimit = int64(run.limit)
			a, closes := open(t, cfg)
			get := serve(t, a, mem)
			must.Get(a.Run(t.Context()))(t)
			got := checkMetrics(t, get, map[string]float64{"orbweaver_crawl_pages_total": run.counted,
				"orbweaver_fetch_responses_total": run.counted, "orbweaver_all_runs_pages": run.total})
			phases := got["orbweaver_fetch_duration_seconds_count"]
			if least := 2 * run.counted; phases < least || run.counted == 0 && phases > 0 {
				t.Errorf("%v phases of %v responses", phases, run.counted)
			}
			closes()
			cfg.Resume = true
		}
	})
}

// checkSizes: the status tells how large the main data structures are, and their limits.
func checkSizes(t *testing.T, a *node.Agent) {
	t.Helper()
	r, err := a.Operator().Status(t.Context(), &pb.StatusRequest{})
	must.Do(t, err)
	b, err := json.Marshal(r.Agents[0].Status)
	var s struct{ Sizes []node.Size }
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	must.Do(t, err)
	pages := int64(len(smallURLs()))
	entries := map[string]int64{
		"process": 0, "known_urls": pages, "queues": 0, "robots": 2, "host_counts": 2, "addresses": 0,
		"payloads": pages + 1, // with two of robots.txt; two pages are the same
	}
	limits := int64(0)
	for _, z := range s.Sizes {
		if want, ok := entries[z.Name]; !ok || z.Entries != want {
			t.Errorf("%s has %d entries, want %d", z.Name, z.Entries, want)
		}
		delete(entries, z.Name)
		if z.Name == "process" {
			continue // its limit is that of the test
		}
		limits += z.Limit
		if z.Entries > 0 && z.Memory == 0 || z.Limit > 0 && z.Memory > z.Limit {
			t.Errorf("%+v", z)
		}
	}
	if len(entries) > 0 || limits < 64<<20 || limits > 256<<20 {
		t.Errorf("missing: %v; all limits are %d bytes", entries, limits)
	}
}

// checkArchived: what a crawl has written is found and read while its archive file is open. Browsers read pages with a
// key that lasts for one to two hours.
func checkArchived(t *testing.T, a *node.Agent, get func(path string) (int, string)) {
	t.Helper()
	const u = "http://a.example/"
	r, err := a.Operator().Captures(t.Context(), &pb.CapturesRequest{Url: u})
	if err != nil || len(r.Captures) != 1 || r.Captures[0].Url != u || r.Captures[0].Status != 200 {
		t.Fatalf("captures of %s: %v, %v", u, r, err)
	}
	c := r.Captures[0]
	calls(t, a, `
		Captures url:"a.example" limit:1000 match:CAPTURE_MATCH_HOST -> captures:{url:"http://a.example/1"
		Record file:"%s" offset:%d most:5 -> warc:{name:"WARC
		-> status:200 http:{name:"
		-> body:"<!-- " more:true
		Record file:"../../state/api.json" -> ! unavailable is not in the archive
		Record file:"%[1]s" offset:1099511627776 -> ! unavailable`, c.File, c.Offset)
	page := func(key, url string, code int, text string) {
		t.Helper()
		got, body := get("/archive/" + key + "/20260101000000?u=" + url)
		if got != code || !strings.Contains(body, text) {
			t.Errorf("key %q, %s: %d\n%s", key, url, got, body)
		}
	}
	page(r.Key, u, 200, "<!-- "+u+" -->")
	page(r.Key, "http://nowhere.example/", 404, "Not in this archive")
	for _, wrong := range []string{"", "x", r.Key[1:], strings.ToUpper(r.Key)} {
		page(wrong, u, 403, "")
	}
	time.Sleep(time.Hour)
	page(r.Key, u, 200, "")
	time.Sleep(time.Hour)
	page(r.Key, u, 403, "")
}
