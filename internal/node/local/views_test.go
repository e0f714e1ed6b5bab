package local

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/placement"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// backwards returns the complete lines from the end, however the pieces cut them.
func TestBackwards(t *testing.T) {
	var text strings.Builder
	var want []string
	for i := range 5000 {
		line := fmt.Sprintf("%d %s", i, strings.Repeat("x", i%97))
		want = append(want, line)
		text.WriteString(line + "\n")
	}
	slices.Reverse(want)
	for _, end := range []string{"", "an incomplete line"} {
		all := text.String() + end
		var got []string
		err := backwards(strings.NewReader(all), int64(len(all)), 1<<30, func(line string) bool {
			got = append(got, line)
			return true
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d lines, want %d; %v", len(got), len(want), err)
		}
		got = nil
		_ = backwards(strings.NewReader(all), int64(len(all)), 1<<30, func(line string) bool {
			got = append(got, line)
			return len(got) < 3
		})
		if !slices.Equal(got, want[:3]) {
			t.Errorf("got %q", got)
		}
		n := 0
		_ = backwards(strings.NewReader(all), int64(len(all)), 1, func(string) bool { n++; return true })
		if n == 0 || n == len(want) {
			t.Errorf("%d lines of a part of the file", n)
		}
	}
	none := func(string) bool { t.Error("a line"); return true }
	if err := backwards(strings.NewReader(""), 0, 10, none); err != nil {
		t.Error(err)
	}
}

// The arcs cover the circle, and each agent's are as long as its share.
func TestArcs(t *testing.T) {
	agents := []placement.Owner{{Name: "a", Capacity: 1}, {Name: "b", Capacity: 1}, {Name: "c", Capacity: 2}}
	ring := must.Get(placement.NewRing(agents, 100))(t)
	hash := must.Get(placement.NewRendezvous(agents, 1<<12))(t)
	for _, p := range []placement.Placement{ring, hash} {
		list, at, of := arcs(p, p.Agents()), 0.0, map[string]float64{}
		for _, a := range list {
			if a.From != at || a.To <= a.From {
				t.Fatalf("an arc from %g to %g, want from %g", a.From, a.To, at)
			}
			at = a.To
			of[a.Agent] += a.To - a.From
		}
		if at != 1 || len(of) != 3 || math.Abs(of["c"]-0.5) > 0.1 || math.Abs(of["a"]-0.25) > 0.1 {
			t.Errorf("%T: %d arcs up to %g, shares %v", p, len(list), at, of)
		}
	}
}

// Samples are left out at the same times at all agents. The last one stays.
func TestThin(t *testing.T) {
	series := func(from, n int64) (list []*pb.HistorySample) {
		for i := range n {
			list = append(list, &pb.HistorySample{UnixS: 30 * (from + i)})
		}
		return list
	}
	a, b := thin(series(100, 1000), 100), thin(series(101, 999), 100)
	if len(a) > 102 || len(a) < 80 || a[len(a)-1].UnixS != 30*1099 {
		t.Errorf("%d samples up to %d", len(a), a[len(a)-1].UnixS)
	}
	times := map[int64]bool{}
	for _, s := range a {
		times[s.UnixS] = true
	}
	for _, s := range b {
		if !times[s.UnixS] {
			t.Errorf("a sample of %d is in one series only", s.UnixS)
		}
	}
	if got := thin(series(0, 5), 100); len(got) != 5 {
		t.Errorf("%d of 5 samples", len(got))
	}
}

func TestEventOf(t *testing.T) {
	e := eventOf(`{"type":"event","time":"2026-01-02T15:04:05.000Z","event":"host-paused","host":"a.example","n":3}`)
	if e.Event != "host-paused" || e.Time.AsTime().Unix() != 1767366245 || len(e.Fields.Fields) != 2 ||
		e.Fields.Fields["host"].GetStringValue() != "a.example" || e.Fields.Fields["n"].GetNumberValue() != 3 {
		t.Errorf("got %v", e)
	}
}

// Each hour has what was done in it, also over a restart and a loss of counts. The number of hours is bounded.
func TestHistoryHours(t *testing.T) {
	const hour = 3600
	h := &History{}
	sample := func(at, pages, size, errs, checkpoints int64) {
		p := &pb.HistorySample{UnixS: at, Pages: pages, Bytes: size, Errors: errs}
		h.count(p, 30, checkpoints)
		h.samples = append(h.samples, p)
	}
	sample(hour+30, 10, 100, 0, 0)
	sample(hour+60, 25, 300, 1, 1)
	sample(2*hour, 30, 400, 1, 0) // ends the first hour
	sample(2*hour+30, 31, 410, 1, 2)
	sample(2*hour+60, 20, 200, 0, 0) // the state of an earlier moment
	sample(4*hour+30, 50, 900, 3, 0)
	var got []string
	for _, x := range h.hours {
		got = append(got, fmt.Sprint(x.UnixS/hour, x.Pages, x.Bytes, x.Errors, x.Checkpoints))
	}
	if want := []string{"1 30 400 1 1", "2 1 10 0 2", "4 30 700 3 0"}; !slices.Equal(got, want) {
		t.Errorf("hours %q, want %q", got, want)
	}
	late := &History{}
	if late.count(&pb.HistorySample{UnixS: hour, Pages: 5000}, 2*hour, 0); late.hours[0].Pages != 0 {
		t.Errorf("%d pages of an earlier hour", late.hours[0].Pages)
	}
	for i := range int64(hoursMost + 50) {
		sample((10+i)*hour, 50+i, 900, 3, 0)
	}
	if n := len(h.hours); n != hoursMost || h.hours[n-1].UnixS != (8+hoursMost+50)*hour {
		t.Errorf("%d hours up to %d", n, h.hours[n-1].UnixS/hour)
	}
}
