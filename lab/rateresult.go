package lab

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot/plotter"
)

// result returns the text, table and figure.
func (x *Speed) result(t *Trial, cases []rateCase, runs []RateRun) *Result {
	table := &Table{Columns: []Column{{Name: "crawl"}, {Name: "requests/s", Digits: 1}, {Name: "Mbit/s", Digits: 2},
		{Name: "least", Unit: "%", Digits: 1}, {Name: "most", Unit: "%", Digits: 1}}}
	data := Table{Columns: []Column{{Name: "crawl"}, {Name: "s", Digits: 2}, {Name: "requests"}, {Name: "bits"}}}
	figure := &Figure{Alt: "Requests or bits in each second, by time, for each crawl, beside the rate; and requests " +
		"a second by connections on a saturated processor"}
	text := "*requests/s* and *Mbit/s*: from the tenth second on, as the web has counted them. *least* and *most*: " +
		"the requests, or bits, in any ten seconds, in per cent of the rate; *least* leaves out the first five " +
		"seconds, and ten seconds that touch the 15 s after a death.\n"
	for i, r := range runs {
		for _, p := range r.Points {
			data.Add(r.Name, p.S, p.Requests, p.Bits)
		}
		if r.Workers > 0 {
			continue
		}
		var least, most any
		if r.Most > 0 {
			least, most = 100*r.Least, 100*r.Most
		}
		table.Add(r.Name, r.Mean, r.MeanBits/1e6, least, most)
		text += fmt.Sprintf("\n- *%s*: %s.", r.Name, cases[i].Text)
		figure.Panels = append(figure.Panels, r.panel())
	}
	sections := []Section{{Heading: "Requests in ten seconds", Table: table, Shown: true, Text: text}}
	section, panel := saturated(runs)
	figure.Panels = append(figure.Panels, panel)
	return &Result{Name: "rate", Title: "Does a crawl keep its rate?",
		Question: "Polybot's authors limited their crawler by the time of day, and ended without a satisfactory way " +
			"to control its speed. `--rate` is for the whole cluster: never above 105 % in any ten seconds, and " +
			"below 95 % only within 15 s of a death. Does it hold on real machines?",
		SetUp: fmt.Sprintf("The web is generated (seed %d, 1,000 hosts, pages of 6 KB); each host has a delay of "+
			"100 ms. Web and agents are processes on this machine. Every %s the experiment asks the web how many "+
			"requests have begun and how many bytes it has sent, with headers; the agents' own counts are not used.",
			t.Seed, rateEvery),
		Sections: append(append(sections, section), besidePolybot(runs)...),
		Data:     data, Figure: figure, Figures: map[string]any{"runs": runs}}
}

// panel shows what the web has seen of a crawl in each second, the limit, and the acts as vertical lines.
func (r *RateRun) panel() Panel {
	panel := Panel{Title: r.Name, X: "time (s)", Y: "requests in the last second"}
	unit := 1.0
	if r.bits {
		panel.Y, unit = "Mbit in the last second", 1e6
	}
	line, limit, top := Line{Name: "web"}, Line{Name: "rate"}, 0.0
	for _, p := range r.Points {
		if p.S >= 1 {
			y := (r.amount(p) - r.until(p.S-1)) / unit
			line.Points, top = append(line.Points, plotter.XY{X: p.S, Y: y}), max(top, y)
		}
		if r.limit != nil {
			y := r.limit(time.Duration(p.S*float64(time.Second))) / unit
			limit.Points, top = append(limit.Points, plotter.XY{X: p.S, Y: y}), max(top, y)
		}
	}
	if panel.Lines = []Line{line}; r.limit != nil {
		panel.Lines = append(panel.Lines, limit)
	}
	// Acts of one name are one line that goes up and down.
	at := map[string]int{}
	for _, a := range r.acts {
		i, ok := at[a.name]
		if !ok {
			i, panel.Lines = len(panel.Lines), append(panel.Lines, Line{Name: a.name})
			at[a.name] = i
		}
		s := a.at.Seconds()
		panel.Lines[i].Points = append(panel.Lines[i].Points, plotter.XYs{{X: s}, {X: s, Y: top}, {X: s}}...)
	}
	return panel
}

// saturated shows how many requests a saturated processor makes by the number of connections.
func saturated(runs []RateRun) (Section, Panel) {
	table := &Table{Columns: []Column{{Name: "connections"}, {Name: "requests/s"}, {Name: "of the most", Unit: "%"}}}
	bars, panel := Bars{Name: "requests/s"}, Panel{Title: processor, X: "connections", Y: "requests a second"}
	most, best, last := 0.0, "", 0.0
	for _, r := range runs {
		if r.Workers > 0 && r.Mean > most {
			most, best = r.Mean, strconv.Itoa(r.Workers)
		}
	}
	for _, r := range runs {
		if r.Workers > 0 {
			table.Add(r.Workers, math.Round(r.Mean), math.Round(100*r.Mean/most))
			panel.Groups = append(panel.Groups, strconv.Itoa(r.Workers))
			bars.Values = append(bars.Values, r.Mean)
			last = r.Mean
		}
	}
	panel.Bars = []Bars{bars}
	text := fmt.Sprintf(workersText, best, 100*last/most)
	return Section{Heading: "A saturated processor", Table: table, Shown: true, Text: text}, panel
}

// workersText is the text on the saturated processor. Its numbers are the best number of connections, and the speed of
// the highest number in per cent of the best.
const workersText = "Polybot's authors steered the speed by the number of connections, and report that more of them " +
	"can make a busy machine slower. Here `--workers` sets the number of visits at once, and `--rate` is beyond what " +
	"the processors can do for the agent and the web. %s connections were the fastest; with the most " +
	"connections the speed is %.0f %% of that. Orbweaver limits the requests themselves, not the connections. So it " +
	"opens no more connections than the rate needs, and a crawl that is slower than its rate does not add any.\n"
