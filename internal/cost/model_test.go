package cost

import (
	"math"
	"testing"
)

// near fails the test unless got is want within a share of want.
func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if !(math.Abs(got-want) <= within*math.Abs(want)) {
		t.Errorf("%s: got %.6g, want %.6g within %.2g %%", what, got, want, 100*within)
	}
}

// TestPaper compares the model with the results in the text of the paper.
func TestPaper(t *testing.T) {
	m := Paper()
	const google = 30e9 // pages
	days := func(n int) float64 { return google / m.Speed(n, google) / 86400 }

	// Section 4.3.2 and figure 8 are measured: 12,251.75 pages/s with seven agents, 6.87 times one machine alone, and
	// one agent 0.58 % slower than it. The model gives less for seven, because each of its constants is the greatest
	// difference that was measured (5.1).
	near(t, "7 agents, pages/s", m.Speed(7, 1e6), 12_251.75, 0.002)
	near(t, "7 agents, of one machine", m.Speed(7, 1e6)/m.Single, 6.867, 0.002)
	near(t, "1 agent, pages/s", m.Speed(1, 1e6), 1784.22*(1-0.0058), 0.001)

	// Eq. 4. The exact value is 7.35 days; the paper says 7.4.
	near(t, "31 agents, days", days(31), 7.4, 0.008)

	// Figure 12 has its peak at 180 agents, with 55.8 h. It has a point every 20 agents. The formula has its peak at
	// 179, where 180 agents differ by less than 0.01 %, and gives 55.9 h.
	peak, ok := m.Peak(google)
	if peak != 179 || !ok {
		t.Errorf("the peak is at %d agents, want 179", peak)
	}
	near(t, "180 agents, of the peak", m.Speed(180, google)/m.Speed(peak, google), 1, 0.0001)
	near(t, "180 agents, hours", 24*days(180), 55.8, 0.003)
	for n := 20; n <= 300; n += 20 { // the points of figure 12
		if s := m.Speed(n, google); s > m.Speed(180, google) || s > 160_000 {
			t.Errorf("%d agents: %.0f pages/s, want at most what 180 have, and 160,000", n, s)
		}
	}

	// Section 4.3.2 divides 30 billion pages by the speed that was measured for one million: 28.4 days, which the paper
	// calls 29. The model of section 5 says 30.3, because the overhead grows with the pages.
	near(t, "7 agents, days at the measured speed", google/12_251.75/86400, 28.34, 0.001)
	near(t, "7 agents, days by the model", days(7), 30.3, 0.002)

	// Sections 4.1 and 5.4: one agent takes 320 Mbit/s.
	near(t, "Mbit/s of one machine", m.Single*m.PageBytes*8/1e6, 320, 0.006)
}

// TestEq4ByHand compares the model with a calculation of Eq. 2 to 4 by hand, for 30 billion pages: m is 30,000, and its
// logarithm to base 2 is 14.87267. The overheads are 4.04; 1.11 + 0.36 * 14.87267 = 6.46416; 3.83 + 1.59 * 14.87267 =
// 27.47755 and 0.28 for each agent; 5.5 * 14.87267 = 81.79971 and 4.39 for each other agent. The sum is
// 119.78142 + 0.28 n + 4.39 (n - 1) = 115.39142 + 4.67 n.
func TestEq4ByHand(t *testing.T) {
	m := Paper()
	for _, row := range []struct {
		n                         int
		overhead, pagesPerS, days float64
	}{
		{1, 120.0614, 1_664.159, 208.647},
		{7, 148.0814, 11_452.970, 30.3172},
		{31, 260.1614, 47_245.816, 7.34927}, // Eq. 4: 7.4
		{100, 582.3914, 120_182.858, 2.88912},
		{180, 955.9914, 149_081.144, 2.32908}, // 55.90 h; the paper says 55.8
		{300, 1_516.3914, 80_348.574, 4.32145},
		{356, 1_777.9114, 2_245.855, 154.606},
	} {
		near(t, "overhead", m.Overhead(row.n, 30e9), row.overhead, 1e-6)
		near(t, "pages/s", m.Speed(row.n, 30e9), row.pagesPerS, 1e-5)
		near(t, "days", 30e9/m.Speed(row.n, 30e9)/86400, row.days, 1e-5)
	}
	// A parabola: half of (1784.22 - 115.39142)/4.67 agents are fastest.
	if peak, _ := m.Peak(30e9); math.Abs(float64(peak)-357.3508/2) > 0.5 {
		t.Errorf("peak at %d agents, want the number nearest to 178.675", peak)
	}
}

// TestFigure10 compares the model with the overheads that the paper measured with seven agents. The total is within 9 %
// but two of the kinds are not: the paper takes the constants of the kinds from different numbers of agents.
func TestFigure10(t *testing.T) {
	m := Paper()
	for _, row := range []struct {
		pages                               float64
		setup, sending, partition, exchange float64
	}{
		{1e6, 4.04, 0.54, 4.72, 24.97},
		{2e6, 4.04, 0.88, 6.31, 30.47},
		{4e6, 4.04, 1.23, 7.74, 35.15},
		{8e6, 4.04, 1.59, 9.16, 40.06},
	} {
		want := map[string]float64{
			Setup: row.setup, Sending: row.sending, Partition: row.partition, Exchange: row.exchange,
		}
		within := map[string]float64{Setup: 1e-9, Sending: 1.06, Partition: 0.23, Exchange: 0.07}
		sum := 0.0
		for _, o := range m.Overheads {
			near(t, o.Kind, o.At(7, row.pages), want[o.Kind], within[o.Kind])
			sum += want[o.Kind]
		}
		near(t, "all kinds", m.Overhead(7, row.pages), sum, 0.1)
		near(t, "speed", m.Speed(7, row.pages), 7*(m.Single-sum), 0.003)
	}
}

func TestOverheadIsBounded(t *testing.T) {
	m := Paper()
	if got := m.Overhead(1, 1); got != 4.04 { // the formulas of all kinds but the set-up are below zero
		t.Errorf("one page: overhead %g, want 4.04", got)
	}
	if got := m.Speed(MaxAgents, 1e12); got != 0 {
		t.Errorf("too many agents: %g pages/s, want 0", got)
	}
}

func TestAnswer(t *testing.T) {
	m := Paper()
	q := &Question{
		Pages: 30e9, PageBytes: 22_300, Bandwidth: 10e9 / 8, Replicas: 2, Hosts: 300e6,
		Prices: Prices{Machine: 0.5, Disk: 20, Traffic: 0.01},
	}
	p := m.Answer(q, 31)
	near(t, "days", p.Days, 7.35, 0.001)
	if p.LineFull {
		t.Error("the line is full, want 84 % of it")
	}
	near(t, "share of the line", p.LineShare, 0.843, 0.001) // the paper says that 31 agents share the line in full
	near(t, "disk", p.DiskBytes, 30e9*(22_300+1870+662+643+2*121), 1e-9)
	near(t, "memory", p.Memory, (30e9/31*0.82/0.22+24<<20)*8/7, 0.001)
	near(t, "machines", p.Cost.Machines, 0.5*31*24*p.Days, 1e-9)
	near(t, "disk for a month", p.Cost.Disk*30/p.Days, 20*p.DiskBytes/1e12, 1e-9)
	near(t, "traffic", p.Cost.Traffic, 0.01*30e9*22_300/1e9, 1e-9)
	near(t, "per million pages", p.Cost.PerMillionPg*30e3, p.Cost.Machines+p.Cost.Disk+p.Cost.Traffic, 1e-9)

	// The best number is the least that fills the line.
	n, ok := m.Best(q)
	if full, less := m.Answer(q, n), m.Answer(q, n-1); !ok || !full.LineFull || less.LineFull {
		t.Errorf("best %d, %v: full %v, one less: full %v", n, ok, full.LineFull, less.LineFull)
	}
	near(t, "speed of the line", m.Answer(q, n).PagesPerS, 10e9/8/22_300, 1e-9)
	q.Bandwidth = 0
	if n, ok := m.Best(q); n != 179 || !ok {
		t.Errorf("best without a line: %d, want 179", n)
	}

	// Larger pages take longer on the line of an agent; smaller ones are not faster than what was measured.
	q.PageBytes = 2 * 22_300
	near(t, "pages twice as large", m.Answer(q, 31).PagesPerS, m.Speed(31, 30e9)/2, 1e-9)
	q.PageBytes = 1000
	near(t, "small pages", m.Answer(q, 31).PagesPerS, m.Speed(31, 30e9), 1e-9)
	q.AgentSpeed = 5000
	near(t, "fast agents", m.Answer(q, 31).PagesPerS, m.Speed(31, 30e9)*5000/m.Single, 1e-9)
	if p := m.Answer(&Question{Pages: 10}, 1); p.Memory != leastMem || p.Cost != (Cost{}) {
		t.Errorf("ten pages: %+v, want 128 MiB and no cost", p)
	}
}
