package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot/plotter"
)

// Frontier answers: how many links per second can the frontier take and give back, in how much
// memory, and do large hosts slow the other hosts down?
type Frontier struct {
	// Hosts and Links are the numbers of queued hosts and links at the end. Zero means 1
	// million hosts with 20 links each, with --quick 20,000 hosts.
	Hosts, Links int64
	// Memory bounds the memory that the run may take, in bytes. Zero means 1 GB.
	Memory int64
}

const (
	// wantedOps is the least number of operations per second, each a push or a pop.
	wantedOps = 500_000
	// wantedShare is the least share of the fetches that politeness allows.
	wantedShare = 0.95
)

// Errors of the experiment.
var (
	ErrUnfair = errors.New("below the politeness ceiling")
	ErrOrder  = errors.New("links came out twice, or out of order")
)

// Run implements Experiment.
func (x *Frontier) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	if t.Quick {
		def(&y.Hosts, 20_000)
	}
	def(&y.Hosts, 1_000_000)
	def(&y.Links, 20*y.Hosts)
	def(&y.Memory, 1e9)
	dir := filepath.Join(t.Dir, "frontier")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	spec, err := json.Marshal(QueueSpec{Dir: dir, Seed: t.Seed, Hosts: y.Hosts, Points: points(y.Links)})
	if err != nil {
		return nil, fmt.Errorf("json: %w", err)
	}
	done := t.step("%s hosts, %s links", humanize.Comma(y.Hosts), humanize.Comma(y.Links))
	out := &queueLines{trial: t}
	p, err := launch(ctx, t.Self, []string{"frontier-queue", string(spec)}, out)
	if err != nil {
		return nil, err
	}
	usage, err := p.wait()
	if err := errors.Join(err, out.err, ctx.Err()); err != nil {
		return nil, err
	}
	if len(out.points) == 0 {
		return nil, errors.New("the frontier's process ended without a result")
	}
	l := &out.points[len(out.points)-1]
	done("%s ops/s, %d MB, %s B a link on disk", count(l.OpsPerS()), l.RAM/1e6,
		count(float64(l.Disk)/float64(l.Queued)))
	scale := int64(1)
	if t.Quick {
		scale = 20
	}
	var fair []*fairRun
	for _, s := range fairScenarios(scale) {
		done := t.step("fairness: %s", s.name)
		r, err := s.run(ctx, filepath.Join(t.Dir, "fair"), t.Seed)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		done("%.4f of the ceiling, in the worst %v %.4f", r.share(), fairWindow, r.worst)
		fair = append(fair, r)
	}
	r := y.result(t, out.points, fair, usage)
	for _, p := range out.points {
		if p.Wrong > 0 {
			err = errors.Join(err, fmt.Errorf("%w: %d of those until %s links", ErrOrder, p.Wrong,
				humanize.Comma(p.Queued)))
		}
	}
	for _, f := range fair {
		if f.share() < wantedShare || f.worst < wantedShare {
			err = errors.Join(err, fmt.Errorf("%w: %s: %.4f, in the worst %v %.4f", ErrUnfair, f.name, f.share(),
				fairWindow, f.worst))
		}
	}
	return r, err
}

// result returns the text, tables and figures of the experiment.
func (x *Frontier) result(t *Trial, ps []QueuePoint, fair []*fairRun, usage Usage) *Result {
	byLinks := &Table{Columns: []Column{{Name: "links waiting"}, {Name: "hosts waiting"},
		{Name: "pushes/s while it grew"}, {Name: "pushes and pops/s"}, {Name: "CPU", Unit: "µs/op", Digits: 2},
		{Name: "RAM", Unit: "MB"},
		{Name: "disk", Unit: "B/link", Digits: 1}, {Name: "in pools"}, {Name: "hosts in RAM"},
		{Name: "Next, 99.9 %", Unit: "ms", Digits: 2}, {Name: "longest Next", Unit: "ms", Digits: 1},
		{Name: "longest Push", Unit: "ms", Digits: 1}, {Name: "twice or out of order"}}}
	data := Table{Columns: []Column{{Name: "links"}, {Name: "hosts"}, {Name: "push", Unit: "s"}, {Name: "pushes"},
		{Name: "ops"}, {Name: "time", Unit: "s"}, {Name: "cpu", Unit: "s"}, {Name: "ram bytes"}, {Name: "disk bytes"},
		{Name: "in pools"}, {Name: "hosts in ram"},
		{Name: "read bytes"}, {Name: "written bytes"}, {Name: "next p99.9", Unit: "µs"}, {Name: "next max", Unit: "µs"},
		{Name: "push max", Unit: "µs"}, {Name: "wrong"}}}
	var ops, ram plotter.XYs
	for i := range ps {
		p := &ps[i]
		byLinks.Add(p.Queued, p.Hosts, p.PushesPerS(), p.OpsPerS(), float64(p.CPU)/1e3/float64(max(p.Ops, 1)),
			float64(p.RAM)/1e6,
			float64(p.Disk)/float64(max(p.Queued, 1)), p.Pooled, p.InRAM, p.Next.P999, p.Next.Max, p.Push.Max, p.Wrong)
		data.Add(p.Queued, p.Hosts, p.PushTime, p.Pushed, p.Ops, p.Time, p.CPU, p.RAM, p.Disk, p.Pooled, p.InRAM,
			p.IO.Read, p.IO.Written, p.Next.P999, p.Next.Max, p.Push.Max, p.Wrong)
		ops = append(ops, plotter.XY{X: float64(p.Queued), Y: p.OpsPerS()})
		ram = append(ram, plotter.XY{X: float64(p.Queued), Y: max(float64(p.RAM)/1e6, 0.1)})
	}
	last := &ps[len(ps)-1]
	verdict := fmt.Sprintf("With all links waiting, the frontier has %s operations a second (target: %s) and takes "+
		"%s of RAM (bound: %s). One goroutine pushes and pops. Another generates the links meanwhile, up to %s a "+
		"second. Timing and checking take %.2f µs of each operation, which are not subtracted. The processor time "+
		"also includes the generation of the links.",
		count(last.OpsPerS()), count(wantedOps), humanize.Bytes(uint64(last.RAM)), humanize.Bytes(uint64(x.Memory)),
		count(last.Made), float64(last.Own)/1e3)
	fairness := &Table{Columns: []Column{{Name: "waiting"}, {Name: "links"}, {Name: "hosts"},
		{Name: "virtual time", Unit: "s"}, {Name: "fetched"}, {Name: "ceiling"}, {Name: "share", Digits: 4},
		{Name: "worst window", Digits: 4}, {Name: "others, share", Digits: 4}}}
	rates := Panel{Title: "Share of the politeness ceiling over virtual time (dashed: 0.95)", X: "virtual time (s)",
		Y: "share", Levels: []Level{{"", wantedShare}}, Aside: true}
	figures := map[string]any{}
	for _, f := range fair {
		fairness.Add(f.name, f.links, f.hosts, f.time, f.fetched, f.ceiling, f.share(), f.worst, f.others)
		figures[f.name] = map[string]any{"share": f.share(), "worst": f.worst, "others": f.others}
		rates.Lines = append(rates.Lines, Line{Name: f.name, Points: f.windows})
	}
	return &Result{
		Name: "frontier", Title: "Speed and fairness of the frontier",
		Question: "How many links a second can be pushed and popped as the number of waiting links grows, and how " +
			"much memory do they take? Does a host with a million links slow the other hosts? Do a million hosts " +
			"with one link each?",
		SetUp: fmt.Sprintf("**Load.** A process of its own pushes %s links of %s hosts (seed %d). Every twentieth "+
			"link belongs to a new host. A power law chooses the host of the others, so the largest hosts have "+
			"millions of links. An encoded link has about 150 bytes. The process pushes %d links at a time, as pages "+
			"have them.\n\nIt measures at certain numbers of waiting links. Then it pops, resolves, finishes and "+
			"pushes links in turn, in virtual time, with %d workers and 100 ms a fetch. The delay is 2 s for hosts, "+
			"and 0.5 s for addresses and registered domains; each host has its own. The experiment checks that every "+
			"link comes out once, in its host's order.\n\n**Fairness.** The frontier runs in virtual time, with %d "+
			"workers, 100 ms a fetch and a delay of 1 s. A whale is one host with a million links. A crowd is a "+
			"million hosts with one link each.\n\nThe ceiling is the rate that politeness and the workers allow. It "+
			"is the sum of 1/(delay + fetch) over the hosts (or addresses) that have work. It is workers/fetch if "+
			"some hosts were never asked, or if the hosts allow more than the workers can do.",
			humanize.Comma(x.Links), humanize.Comma(x.Hosts), t.Seed, pageLinks, queueWorkers, fairWorkers),
		Sections: []Section{
			{Heading: "Operations by the number of waiting links", Table: byLinks, Shown: true, Text: verdict},
			{Heading: "Share of the politeness ceiling", Table: fairness, Shown: true,
				Text: fmt.Sprintf("*Worst window*: the smallest share in any %v. *Others*: the fetches of the hosts "+
					"of the first line, divided by their fetches in the first line in the same time. If the workers "+
					"are the limit, these hosts share them with the crowd.", fairWindow)},
		},
		Data: data,
		Figure: &Figure{Alt: "Operations a second and memory by the number of waiting links, and the share of the " +
			"politeness ceiling over virtual time", Panels: []Panel{
			{Title: "Pushes and pops a second", X: "links waiting", Y: "operations/s", Log: true,
				Lines: []Line{{Name: "frontier", Points: ops, Bold: true}}},
			{Title: "Resident memory", X: "links waiting", Y: "MB", Log: true,
				Lines: []Line{{Name: "frontier", Points: ram, Bold: true}}},
			rates,
		}},
		Figures: map[string]any{"points": ps, "ops_per_s": last.OpsPerS(), "ram_bytes": last.RAM,
			"bound_bytes": x.Memory, "peak_bytes": usage.Peak, "fairness": figures},
	}
}

// queueLines reads the lines that RunQueue writes.
type queueLines struct {
	rest   []byte
	points []QueuePoint
	err    error
	trial  *Trial // shows the points; nil: nothing does
}

func (l *queueLines) Write(b []byte) (int, error) {
	l.rest = eachLine(append(l.rest, b...), func(line []byte) {
		var p QueuePoint
		if err := json.Unmarshal(line, &p); err != nil {
			l.err = fmt.Errorf("frontier: cannot read the line %q of its process", line)
			return
		}
		l.points = append(l.points, p)
		if l.trial != nil {
			l.trial.partial("%s links: %s ops/s, %d MB", humanize.Comma(p.Queued), count(p.OpsPerS()), p.RAM/1e6)
		}
	})
	return len(b), nil
}

// fairWindow is the span of virtual time for which the result names the worst share.
const fairWindow = 10 * time.Second
