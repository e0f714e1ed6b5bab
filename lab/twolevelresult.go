package lab

import (
	"maps"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cost"
)

// point returns the point of a way, or nil.
func point(ps []TwoLevelPoint, way string, n int, pages int64) *TwoLevelPoint {
	i := slices.IndexFunc(ps, func(p TwoLevelPoint) bool {
		return p.Way == way && p.Agents == n && int64(p.Pages) == pages
	})
	if i < 0 {
		return nil
	}
	return &ps[i]
}

// crawlOf returns the crawl of a way, which must be one of cs.
func crawlOf(cs []TwoLevelCrawl, way string, n int) TwoLevelCrawl {
	return cs[slices.IndexFunc(cs, func(c TwoLevelCrawl) bool { return c.Way == way && c.Agents == n })]
}

// result returns the measurements: a place for each crawl, and each of its points and kinds of messages. What a figure
// or a table shows of them, in its order, has its number or name as the dimension "figure".
func (x *TwoLevel) result(r *twoLevelRun) *Result {
	d, name := newData("figure", "way", "agents", "pages", "kind", "form"), "twolevel"
	if len(x.Parts) == 1 {
		name += "-" + x.Parts[0]
	}
	d.Fact("parts", strings.Join(x.Parts, ", "))
	d.Fact("page_bytes", x.PageBytes)
	d.Fact("bandwidth", x.Bandwidth)
	d.Fact("hosts_of_web", x.Hosts)
	d.Fact("agents_of_coverage", coverageAgents)
	d.Fact("common", x.common())
	d.Fact("most", x.Agents[len(x.Agents)-1])
	for _, c := range r.crawls {
		d.At("", c.Way, c.Agents).All(c).Set("crawl_pages", c.Pages)
	}
	for _, p := range r.points {
		d.At("", p.Way, p.Agents, p.Pages).Set("speed", p.Speed).Set("received", p.Received).Set("links", p.Links).
			Set("coordinator_calls", p.Coordinator).Set("agent_calls", p.Others)
		for _, kind := range slices.Sorted(maps.Keys(p.Kinds)) {
			d.At("", p.Way, p.Agents, p.Pages, kind).Set("bytes", p.Kinds[kind])
		}
	}
	d.Fact("timed_line", x.Bandwidth/2)
	d.Fact("warm", x.Timed.Warm.String())
	d.Fact("measured", x.Timed.Measured.String())
	for _, s := range r.speeds {
		d.At(7, s.Kind, s.Agents, "", s.Run).All(s)
	}
	if x.has(partCrawls) {
		x.overheads(d, r)
		x.estimates(d, r)
	}
	if x.has(partModel) {
		for _, a := range answers() {
			d.At("answers", "", "", "", a.What).Set("paper", a.Paper).Set("model", a.Ours)
		}
		for _, p := range project(r.points) {
			d.At(12, "paper", p.Agents).Set("speed", p.Paper)
			for _, way := range projectedWays {
				if o, ok := p.Ours[way]; ok {
					d.At(12, way, p.Agents).All(o)
				}
			}
		}
	}
	for _, c := range r.coverage {
		d.At("coverage", c.Way, coverageAgents, "", int(percent*c.Crosslinked+0.5)).All(c)
	}
	return &Result{Name: name, Template: "twolevel", Rows: d}
}

// figure10 has the paper's overheads with seven agents, by millions of pages.
var figure10 = []struct {
	million                    float64
	hosts, partition, exchange float64
}{{1, 0.54, 4.72, 24.97}, {2, 0.88, 6.31, 30.47}, {4, 1.23, 7.74, 35.15}, {8, 1.59, 9.16, 40.06}}

// The paper's overheads of set-up, which do not depend on the crawl (5.1): of the connections to other agents, and to
// the coordinator.
const (
	paperJoined = 0.45
	paperBegun  = 3.59
)

// lostToSetUp returns what an agent of the paper's speed loses to the two kinds of set-up in a crawl of so many pages.
func (x *TwoLevel) lostToSetUp(r *twoLevelRun, p *TwoLevelPoint) (joined, begun float64) {
	c, single := crawlOf(r.crawls, p.Way, p.Agents), cost.Paper().Single
	each := single * single * float64(p.Agents) / p.Pages // for a second
	return c.Joined * each, max(0, c.Begun-c.Joined) * each
}

// overheads adds figures 9 and 10.
func (x *TwoLevel) overheads(d *Data, r *twoLevelRun) {
	add := func(figure int, way string, n int, pages, joined, begun float64, lost map[string]float64, all float64) {
		d.At(figure, way, n, pages).Set("joined_lost", joined).Set("begun_lost", begun).Set("all_lost", all)
		for _, kind := range overheadKinds {
			if v, ok := lost[kind]; ok {
				d.At(figure, way, n, pages, kind).Set("lost", v)
			}
		}
	}
	ours := func(figure int, p *TwoLevelPoint) {
		if p == nil {
			return
		}
		lost, all := p.lost()
		for _, kind := range overheadKinds {
			lost[kind] += 0 // a kind without messages loses nothing
		}
		joined, begun := x.lostToSetUp(r, p)
		add(figure, p.Way, p.Agents, p.Pages, joined, begun, lost, all)
	}
	for _, n := range x.Agents {
		of, all := map[string]float64{}, 0.0
		for _, o := range cost.Paper().Overheads {
			of[o.Kind] = o.At(n, 1e6)
		}
		for _, kind := range []string{cost.Sending, cost.Partition, cost.Exchange} {
			all += of[kind]
		}
		add(9, "paper's model", n, 1e6, paperJoined, paperBegun, of, all)
		for _, way := range projectedWays {
			ours(9, point(r.points, way, n, x.common()))
		}
	}
	for _, f := range figure10 {
		add(10, "paper", 7, f.million*1e6, paperJoined, paperBegun, map[string]float64{kindHosts: f.hosts,
			kindPartition: f.partition, kindExchange: f.exchange}, f.hosts+f.partition+f.exchange)
	}
	for _, way := range projectedWays {
		for _, pages := range x.Pages {
			ours(10, point(r.points, way, x.Agents[len(x.Agents)-1], pages))
		}
	}
}

// estimates adds figure 11, and our constants of the model.
func (x *TwoLevel) estimates(d *Data, r *twoLevelRun) {
	for _, way := range projectedWays {
		var checks []TwoLevelCheck
		for _, f := range []form{formPaper, formOurs} {
			checks = append(checks, x.check(r.points, way, f)...)
		}
		for _, c := range append(checks, x.checkSpeed(r.points, way)...) {
			aim := 20
			if c.What == whatSpeed || c.What == whatAll {
				aim = 5
			}
			d.At(11, way, "", "", c.What, c.Form).All(c).Set("aim", aim)
			for _, p := range c.Pairs {
				d.At(11, way, p.Agents, p.Pages, c.What, c.Form).All(p)
			}
		}
	}
	for _, way := range projectedWays {
		f, err := fitLost(r.points, way, formOurs)
		if err != nil {
			continue
		}
		for _, o := range f.Overheads {
			if o != (cost.Overhead{Kind: o.Kind, Share: o.Share, Own: o.Own}) {
				d.At("constants", way, "", "", o.Kind).Set("times", times(o.Share)).Set("m", whose(o.Own)).
					Set("base", o.Base).Set("per_agent", o.Agent).Set("per_doubling", o.Doubling)
			}
		}
	}
}

// times says what an overhead is multiplied with.
func times(s cost.Share) string {
	switch s {
	case cost.Each:
		return "n"
	case cost.Others:
		return "(n-1)/n"
	case cost.Cluster:
		return "1, but 0 with one agent"
	}
	return "1"
}

func whose(own bool) string {
	if own {
		return "of one"
	}
	return "of all"
}
