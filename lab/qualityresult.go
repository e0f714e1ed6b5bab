package lab

import (
	"slices"
)

// A QualityDraw is the result of one order with one set of seeds.
type QualityDraw struct {
	Reached int
	// Mean is the mean indegree of the first 100, 200, 500, 1000, ... pages (see
	// qualityPoints), and of all pages.
	Mean []float64
	All  float64
	// Top is the share of the best hundredth of all fetched pages that is among these.
	Top []float64
}

// A QualityCurve is the result of an order with all sets of seeds.
type QualityCurve struct {
	Order  string
	Agents int
	Hosts  string
	Draws  []QualityDraw
}

// qualityPoints returns the numbers of pages at which the experiment takes the mean.
func qualityPoints(reached int) (ps []int) {
	for p := 100; p <= reached; p *= 10 {
		for _, times := range []int{1, 2, 5} {
			if p*times <= reached {
				ps = append(ps, p*times)
			}
		}
	}
	return ps
}

// add adds a draw with its pages in the order of their fetches.
func (c *QualityCurve) add(w *linkWeb, pages []uint32) {
	best := slices.Clone(pages)
	w.byIndegree(best)
	best = best[:(len(best)+99)/100]
	isBest := make(map[uint32]bool, len(best))
	for _, p := range best {
		isBest[p] = true
	}
	d := QualityDraw{Reached: len(pages)}
	at, sum, top := qualityPoints(len(pages)), 0.0, 0.0
	for i, p := range pages {
		sum += float64(w.indegree[p])
		if isBest[p] {
			top++
		}
		if len(d.Mean) < len(at) && at[len(d.Mean)] == i+1 {
			d.Mean = append(d.Mean, sum/float64(i+1))
			d.Top = append(d.Top, top/float64(len(best)))
		}
	}
	d.All = sum / float64(max(len(pages), 1))
	c.Draws = append(c.Draws, d)
}

// result returns the measurements: a place for each draw of each order at each number of pages, and for each division
// into hosts.
func (q *qualityRun) result() *Result {
	d := newData("order", "hosts", "agents", "draw", "pages")
	d.Fact("web_pages", q.web.g.Nodes())
	d.Fact("web_links", q.web.g.Links())
	d.Fact("host_bits", hostCosts[0].bits)
	d.Fact("draws", q.Draws)
	d.Fact("seeds", q.Seeds)
	d.Fact("delay", qualityDelay.String())
	d.Fact("fetch", fetchTime.String())
	d.Fact("at_a_time", atATime)
	d.Fact("slow_at_a_time", slowAtATime)
	for _, c := range q.got {
		for i, draw := range c.Draws {
			for k, n := range qualityPoints(draw.Reached) {
				d.At(c.Order, c.Hosts, c.Agents, i, n).Set("mean_indegree", draw.Mean[k]).Set("top_share", draw.Top[k])
			}
			d.At(c.Order, c.Hosts, c.Agents, i, "all").Set("mean_indegree", draw.All).Set("reached", draw.Reached)
		}
	}
	for _, h := range q.all {
		d.At("", h.name).Set("number", h.hosts()).Set("median_pages", Median(h.sizes)).
			Set("largest", slices.Max(h.sizes)).Set("links_inside", h.inside)
	}
	return &Result{Name: "quality", Rows: d}
}
