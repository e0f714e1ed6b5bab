package lab

import (
	"math"
	"slices"

	"github.com/orbweaver/orbweaver/internal/cost"
)

// googlePages is the number of pages of the paper's projection.
const googlePages = 30e9

// lost returns the pages a second that an agent loses to each kind of message if it has the paper's
// line, the pages have the paper's size, and the messages use the same line. The bytes of heartbeats
// depend on the time, so a faster agent has fewer of them for each page.
func (p *TwoLevelPoint) lost() (kinds map[string]float64, all float64) {
	m, bytes := cost.Paper(), map[string]float64{}
	sum := 0.0
	for kind, n := range p.Kinds {
		if kind == kindHeartbeats {
			n *= p.Speed / m.Single
		}
		bytes[kind] = n
		sum += n
	}
	all = m.Single * sum / (m.PageBytes + sum)
	for kind, n := range bytes {
		bytes[kind] = n * m.Single / (m.PageBytes + sum)
	}
	return bytes, all
}

// bySpeed returns the runs of a way for the fit, with the measured speeds.
func bySpeed(ps []TwoLevelPoint, way string) (runs []cost.Run) {
	for _, p := range ps {
		r := cost.Run{Agents: p.Agents, Pages: p.Pages, Speed: p.Speed, Bytes: p.Received * p.Pages}
		switch p.Way {
		case wayAlone:
			r.Agents = 0
		case way:
		default:
			continue
		}
		runs = append(runs, r)
	}
	return runs
}

// A form says how an overhead depends on the numbers of agents and pages.
type form string

const (
	// formPaper is that of section 5.2: linear in the number of agents and in the logarithm of the number of pages.
	formPaper form = "paper's form"
	// formOurs is that of our crawler's messages.
	formOurs form = "our form"
)

// part returns the form of a kind, without samples.
func (f form) part(way, kind string) cost.Part {
	p := cost.Part{Form: cost.Overhead{Kind: kind}}
	switch {
	case f == formPaper:
		p.ByAgents, p.ByPages = true, true
	case kind == kindHosts: // one agent asks for a host, whose pages are more and more
		p.ByPages = true
	case kind == kindPartition: // all agents are told
		p.Form.Share, p.ByPages = cost.Each, true
	case kind == kindExchange: // an agent sends a link once
		p.Form.Share, p.Form.Own, p.ByPages = cost.Others, true, true
	case kind == kindReplicas:
		p.Form.Share, p.Form.Own, p.ByPages = cost.Cluster, true, true
	case way == wayRendezvous: // heartbeats and transport
		p.Form.Share, p.ByAgents = cost.Cluster, true
	default: // and those of one agent with its coordinator
		p.ByAgents = true
	}
	return p
}

// fitLost fits the overheads of a way on the paper's line.
func fitLost(ps []TwoLevelPoint, way string, f form) (*cost.FittedParts, error) {
	paper := cost.Paper()
	m := cost.Model{Name: way, Single: paper.Single, PageBytes: paper.PageBytes}
	parts := make([]cost.Part, len(overheadKinds))
	for i, kind := range overheadKinds {
		parts[i] = f.part(way, kind)
		for _, p := range ps {
			if p.Way == way {
				lost, _ := p.lost()
				parts[i].Samples = append(parts[i].Samples, cost.Sample{Agents: p.Agents, Pages: p.Pages,
					Overhead: lost[kind]})
				m.MostPages, m.MostAgents = max(m.MostPages, p.Pages), max(m.MostAgents, p.Agents)
			}
		}
	}
	return cost.FitParts(m, parts)
}

// halves divides the crawls by their numbers of agents: the first, third and so on to fit, the others to check. Points
// of one crawl depend on each other, so they stay together. An agent alone is in both.
func (x *TwoLevel) halves(ps []TwoLevelPoint) (fit, check []TwoLevelPoint) {
	for _, p := range ps {
		i := slices.Index(x.Agents, p.Agents)
		if p.Way == wayAlone || i%2 == 0 {
			fit = append(fit, p)
		}
		if p.Way == wayAlone || i%2 == 1 {
			check = append(check, p)
		}
	}
	return fit, check
}

// What a TwoLevelCheck compares beside the kinds of overhead.
const (
	whatAll   = "all overheads"
	whatSpeed = "speed"
)

// A TwoLevelCheck compares the model, fitted to half of the crawls, with the other half.
type TwoLevelCheck struct {
	Way  string `json:"way"`
	Form form   `json:"form"`
	// What is a kind of overhead, "all overheads" or "speed".
	What      string  `json:"what"`
	Points    int     `json:"points"`
	Mean      float64 `json:"mean_deviation"`  // of |estimated/measured - 1|
	Worst     float64 `json:"worst_deviation"` // the largest
	WorstAt   int     `json:"worst_agents"`
	WorstWith float64 `json:"worst_pages"`
	// Pairs are the points themselves, for "all overheads" and "speed".
	Pairs []TwoLevelPair `json:"-"`
}

// A TwoLevelPair is a point that was not fitted, as estimated and as measured, in pages a second of an agent.
type TwoLevelPair struct {
	Agents    int     `json:"agents"`
	Pages     float64 `json:"pages"`
	Estimated float64 `json:"estimated"`
	Measured  float64 `json:"measured"`
}

func (c *TwoLevelCheck) add(p *TwoLevelPoint, estimated, measured float64) {
	if measured == 0 {
		return
	}
	if c.What == whatAll || c.What == whatSpeed {
		c.Pairs = append(c.Pairs, TwoLevelPair{p.Agents, p.Pages, estimated, measured})
	}
	d := math.Abs(estimated/measured - 1)
	c.Mean = (c.Mean*float64(c.Points) + d) / float64(c.Points+1)
	c.Points++
	if d >= c.Worst {
		c.Worst, c.WorstAt, c.WorstWith = d, p.Agents, p.Pages
	}
}

// check fits each kind of overhead of a way to half of the crawls, and compares the other half.
func (x *TwoLevel) check(ps []TwoLevelPoint, way string, f form) (cs []TwoLevelCheck) {
	fit, check := x.halves(ps)
	fitted, err := fitLost(fit, way, f)
	if err != nil {
		return nil // half of the crawls cannot tell the constants
	}
	all := TwoLevelCheck{Way: way, Form: f, What: whatAll}
	sums := make([]float64, len(check))
	for k, kind := range overheadKinds {
		c := TwoLevelCheck{Way: way, Form: f, What: kind}
		for i, p := range check {
			if p.Way == way {
				lost, _ := p.lost()
				estimate := max(0, fitted.Overheads[k].At(p.Agents, p.Pages))
				sums[i] += estimate
				c.add(&p, estimate, lost[kind])
			}
		}
		if c.Points > 0 {
			cs = append(cs, c)
		}
	}
	for i, p := range check {
		if p.Way == way {
			_, lost := p.lost()
			all.add(&p, sums[i], lost)
		}
	}
	return append(cs, all)
}

// checkSpeed does the same for the measured speed of an agent, which the paper's form estimates.
func (x *TwoLevel) checkSpeed(ps []TwoLevelPoint, way string) (cs []TwoLevelCheck) {
	fit, check := x.halves(ps)
	f, err := cost.Fit(bySpeed(fit, way))
	if err != nil {
		return nil
	}
	speed := TwoLevelCheck{Way: way, Form: formPaper, What: whatSpeed}
	for _, p := range check {
		if p.Way == way {
			speed.add(&p, f.Speed(p.Agents, p.Pages)/float64(p.Agents), p.Speed)
		}
	}
	return []TwoLevelCheck{speed}
}

// A TwoLevelAnswer is one of the paper's numbers beside ours.
type TwoLevelAnswer struct {
	What        string
	Paper, Ours float64
}

// answers returns the numbers of sections 4.3, 5.3 and 5.4, and what the model gives for them.
func answers() []TwoLevelAnswer {
	m := cost.Paper()
	hours := func(n int) float64 { return googlePages / m.Speed(n, googlePages) / 3600 }
	line := m.Single * m.PageBytes * 8
	peak, _ := m.Peak(googlePages)
	return []TwoLevelAnswer{
		{"one agent among one, % slower than alone (figure 8)", 0.58, percent * (1 - m.Speed(1, 1e6)/m.Single)},
		{"7 agents, pages/s (figure 8)", 12_251.75, m.Speed(7, 1e6)},
		{"7 agents, of one agent (figure 8)", 6.91, m.Speed(7, 1e6) / m.Speed(1, 1e6)},
		{"7 agents, days for 30 billion pages (4.3.2)", 29, hours(7) / 24},
		{"agents on a line of 10 Gbit/s (5.4)", 31, math.Floor(10e9 / line)},
		{"agents on a line of 100 Gbit/s (5.4)", 313, math.Floor(100e9 / line)},
		{"31 agents, days (Eq. 4)", 7.4, hours(31) / 24},
		{"agents at the peak (figure 12)", 180, float64(peak)},
		{"180 agents, hours (figure 12)", 55.8, hours(180)},
	}
}

// A TwoLevelProjection is the speed of many agents that crawl 30 billion pages, by the paper's constants
// and by fits to the crawls of this experiment on the paper's line.
type TwoLevelProjection struct {
	Agents int                `json:"agents"`
	Paper  float64            `json:"paper_pages_per_s"`
	Ours   map[string]banding `json:"ours_pages_per_s,omitempty"` // by way
}

// A banding is a speed with its band of 95 % confidence.
type banding struct {
	Speed float64 `json:"speed"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	// Peak is the number of agents with the highest speed; 0: up to cost.MaxAgents each adds speed.
	Peak int `json:"peak_agents"`
}

// projectedWays are the ways of the projection.
var projectedWays = []string{waySites, wayRendezvous}

// project returns the points of figure 12.
func project(ps []TwoLevelPoint) (out []TwoLevelProjection) {
	m := cost.Paper()
	fits, peaks := map[string]*cost.FittedParts{}, map[string]int{}
	for _, way := range projectedWays {
		f, err := fitLost(ps, way, formOurs)
		if err != nil || len(f.Overheads) == 0 || f.MostPages == 0 {
			continue // too few crawls
		}
		fits[way] = f
		if peak, ok := f.Peak(googlePages); ok {
			peaks[way] = peak
		}
	}
	sizes := []int{1, 7, 31}
	for n := 20; n <= 300; n += 20 {
		sizes = append(sizes, n)
	}
	slices.Sort(sizes)
	for _, n := range sizes {
		p := TwoLevelProjection{Agents: n, Paper: m.Speed(n, googlePages), Ours: map[string]banding{}}
		for way, f := range fits {
			low, high, _ := f.Band(n, googlePages)
			p.Ours[way] = banding{f.Speed(n, googlePages), low, high, peaks[way]}
		}
		out = append(out, p)
	}
	return out
}
