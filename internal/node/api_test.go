package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestMetrics checks that the metrics include those of each part.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallWeb()
		a := opened(t, w.config(t, testdisk.NewMem()))
		reg, always := prometheus.NewPedanticRegistry(), prometheus.NewPedanticRegistry()
		reg.MustRegister(gauges{a})
		always.MustRegister(monitored{a})
		of := func(reg *prometheus.Registry) map[string]float64 {
			t.Helper()
			fs, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for _, f := range fs {
				for _, m := range f.Metric {
					got[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
			return got
		}
		if got := of(reg); len(got) != 0 {
			t.Errorf("before the crawl: %v", got)
		}
		early := of(always)
		for name, want := range map[string]float64{
			"orbweaver_agent_info": 1, "orbweaver_crawl_ready": 0, "orbweaver_crawl_paused": 0,
			"orbweaver_time_seconds": float64(time.Now().UnixMicro()) / 1e6,
		} {
			if v, ok := early[name]; !ok || v != want {
				t.Errorf("before the crawl %s: got %v, %v, want %v", name, v, ok, want)
			}
		}
		if _, err := a.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		got := of(reg)
		pages := float64(len(w.urls()))
		for name, want := range map[string]float64{
			"orbweaver_crawl_pages_total": pages, "orbweaver_seen_urls": pages, "orbweaver_frontier_queued_urls": 0,
			"orbweaver_frontier_pooled_urls": 0, "orbweaver_frontier_aside_urls": 0,
			"orbweaver_frontier_active_hosts": 500,
			"orbweaver_robots_origins":        2, "orbweaver_robots_forgotten_total": 0,
		} {
			if v, ok := got[name]; !ok || v != want {
				t.Errorf("%s: got %v, %v, want %v", name, v, ok, want)
			}
		}
		if b := got["orbweaver_robots_memory_bytes"]; b < 100 || b > 10_000 {
			t.Errorf("robots.txt of two origins in %v bytes", b)
		}
	})
}

// A status request that comes before the crawl has begun waits for the start.
func TestStatusWaitsForTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallWeb()
		a := opened(t, w.config(t, testdisk.NewMem()))
		if s, ok := a.status().(Waiting); !ok || s.For != "the start of the crawl" {
			t.Errorf("a crawl that does not begin: %+v", s)
		}
		asked := make(chan any)
		go func() { asked <- a.status() }()
		time.Sleep(time.Second)
		if _, err := a.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		if s, ok := (<-asked).(*crawl.Status); !ok || s == nil {
			t.Errorf("a crawl that begins: %+v", s)
		}
	})
}

// An agent is ready from the start of its crawl to the end, also while an operator has paused it.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran *Agent
		runApart(t, newSmallWeb().config(t, testdisk.NewMem()), func(a *Agent) {
			ran = a
			if s := a.Status(); !a.ready() || s.Paused {
				t.Errorf("a crawl that runs: ready %t, paused %t", a.ready(), s.Paused)
			}
			if _, err := a.operator.Pause(t.Context(), &pb.PauseRequest{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if s := a.Status(); !a.ready() || !s.Paused {
				t.Errorf("a crawl in a pause: ready %t, paused %t", a.ready(), s.Paused)
			}
		})
		if ran.ready() {
			t.Error("a crawl that has ended is ready")
		}
	})
}
