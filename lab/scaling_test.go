package lab

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

func TestPagesAt(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(0, int64(s*1e9)) }
	ps := []paged{{at: at(1)}, {at: at(2), pages: 10, bytes: 100}, {at: at(4), pages: 50, bytes: 500}}
	for _, c := range []struct {
		at, want float64
		ok       bool
	}{{0.5, 0, false}, {1, 0, true}, {1.5, 5, true}, {2, 10, true}, {3, 30, true}, {4, 0, false}} {
		if got, ok := pagesAt(ps, at(c.at)); ok != c.ok || math.Abs(got.pages-c.want) > 1e-9 ||
			math.Abs(got.bytes-10*c.want) > 1e-9 {
			t.Errorf("at %v s: %v, %v, want %v, %v", c.at, got, ok, c.want, c.ok)
		}
	}
}

func TestScalingPoints(t *testing.T) {
	x := &Scaling{Agents: []int{1, 7}}
	ps := x.points([]ScalingRun{
		{Agents: 1, Line: 1, PagesPerS: 100}, {Agents: 7, Line: 0.9, PagesPerS: 90,
			costs: costs{Overhead: 4, Exchanged: 500, CPU: 2000, Peak: 9, Pages: 10}},
		{Agents: 1, Line: 0.5, PagesPerS: 50}, {Agents: 7, Line: 0.51, PagesPerS: 53,
			costs: costs{Overhead: 2, Exchanged: 700, CPU: 1000, Peak: 5, Pages: 40}},
		{Agents: 1, Line: 1, PagesPerS: 100}, {Agents: 7, Line: 0.98, PagesPerS: 98,
			costs: costs{Overhead: 3, Exchanged: 600, CPU: 3000, Peak: 7, Pages: 40}},
	})
	if p := ps[1]; math.Abs(p.OfOne-0.98) > 1e-9 || p.LowOfOne != 0.9 || p.TopOfOne != 1.02 || p.PagesPerS != 90 {
		t.Errorf("%+v", p)
	}
	if got, want := ps[1].costs, (costs{Overhead: 3, Exchanged: 600, CPU: 2000, Peak: 9, Pages: 29}); got != want {
		t.Errorf("costs %+v, want %+v", got, want)
	}
	x.Bandwidth = 1_000_000
	verdict := "7 agents 3.00 links and 600 bytes a page, which is 6.0 % of the 10,000 bytes that a page takes"
	if v := x.lineVerdict(ps); !strings.Contains(v, verdict) {
		t.Errorf("costs %q", v)
	}
	if row := x.lineCosts(ps).Rows[1]; row[0] != 7 || row[2] != 3.0 || row[4] != 600.0 {
		t.Errorf("%v", row)
	}
	if v := x.verdict(ps); !strings.Contains(v, "missed: 98.0 %") {
		t.Errorf("verdict %q", v)
	}
}

// The whole experiment, with two agents for a short time.
func TestScalingExperiment(t *testing.T) {
	testtier.OnlySoak(t, "measures the speed for some seconds")
	finishes(t, &Scaling{Agents: []int{1, 2}, Warm: time.Second, Measured: 2 * time.Second, Hosts: 20, Again: "again"},
		buildTrial(t))
}
