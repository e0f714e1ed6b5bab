package lab

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot/plotter"

	"github.com/orbweaver/orbweaver/internal/testkit/sim"
)

// chaosTotal adds up the runs.
func chaosTotal(runs []ChaosRun) (alone, cluster, all ChaosStories) {
	for _, r := range runs {
		alone.plus(r.Alone)
		cluster.plus(r.Cluster)
	}
	all.plus(alone)
	all.plus(cluster)
	return alone, cluster, all
}

// result reports all runs together. The last element of runs is this run.
func (x *Chaos) result(t *Trial, runs []ChaosRun) *Result {
	alone, cluster, all := chaosTotal(runs)
	kinds := Table{Columns: []Column{{Name: "fault"}, {Name: "single agents"}, {Name: "clusters"},
		{Name: "bad stories with it"}}}
	for _, k := range slices.Sorted(maps.Keys(all.Faults)) {
		kinds.Add(string(k), alone.Faults[k], cluster.Faults[k], all.BadWith[k])
	}
	kinds.Add("all", alone.faults(), cluster.faults(), nil)
	failures, failed := chaosFailures(runs)
	name, title := "chaos", "Does a crawl keep its guarantees under faults?"
	checks := "The last part of this page lists all checks, the other excuses, and what the judge does not see."
	if x.Partition != "" {
		name += "-" + x.Partition
		title = "Does a crawl with --partition " + x.Partition + " keep its guarantees under faults?"
		checks = "The last part of [the page of all partitions](chaos.md) lists all checks, the other excuses, and " +
			"what the judge does not see."
	}
	return &Result{
		Name: name, Title: title,
		Question: "Random faults meet single agents and clusters: kills, power failures, lost machines, old disks, " +
			"full disks, bad networks. Does each crawl still fetch every page, none twice without a reason, and " +
			"stay polite?",
		SetUp: "A story is a crawl by whole agents in one process, in virtual time, with their disks and their " +
			"network in memory (`internal/testkit/sim`). Its plan follows from its seed: the web, the agents, and " +
			"one to three faults. The web keeps its own log, and a judge compares it with the guarantees. The seed " +
			"fixes web, faults and network. It does not fix the order of goroutines nor the random numbers of " +
			"libraries. So the experiment runs a failed plan 20 times more, and makes it smaller while it fails at " +
			"least half as often.\n\nA story is *bad* if it breaks a guarantee. If a fault may lose all copies of " +
			"what is known of a host, two failures are excused: a page of this host that was fetched before the " +
			"fault is fetched again, or a page is missed because the disks with all links to it are lost or old. " +
			"A story is *partly* excused if that holds for some hosts, and *void* if it holds for all. " + checks,
		Sections: []Section{
			{Heading: "Stories", Table: storyTable(alone, cluster, all), Shown: true,
				Text: "*Longest stall*: the longest time without a page while there was work. *On 2 cores*: stories " +
					"a minute by the processor time, as if nothing else ran on two cores. " +
					"*Excused*: a fault explains it. Runs before this was counted have 0."},
			{Heading: "Faults", Table: &kinds, Shown: t.Quick,
				Text: "Faults that happened. A plan's fault does not happen if the crawl is over before it, or if " +
					"its agent does not run."},
			{Heading: "Runs", Table: runTable(runs),
				Text: "Other programs may have used the machine meanwhile: compare the processor time."},
			{Heading: "Failures", Table: failures, Text: failed},
		},
		Data: *runTable(runs),
		Figure: &Figure{
			Alt: "How often each fault happened, and the longest time without a page of the stories",
			Panels: []Panel{faultPanel(alone, cluster, all),
				{Title: "Longest time without a page", X: "seconds", Y: "stories with a longer one (%)",
					Lines: []Line{
						{Name: "single agents", Points: longer(alone)}, {Name: "clusters", Points: longer(cluster)},
					}},
			},
		},
		Figures: map[string]any{"alone": alone, "cluster": cluster, "runs": len(runs), "first": x.Seed},
	}
}

// storyTable returns the sums over stories.
func storyTable(alone, cluster, all ChaosStories) *Table {
	table := &Table{Columns: []Column{
		{Name: "stories of"}, {Name: "told"}, {Name: "faults"}, {Name: "bad"}, {Name: "void"}, {Name: "partly"},
		{Name: "pages"}, {Name: "repeated"}, {Name: "repeats excused"}, {Name: "violations excused"},
		{Name: "virtual time", Unit: "h", Digits: 1}, {Name: "longest stall", Unit: "s"},
		{Name: "processor time each", Unit: "ms"}, {Name: "on 2 cores", Unit: "/min"},
	}}
	for _, r := range []struct {
		name string
		s    ChaosStories
	}{{"single agents", alone}, {"clusters", cluster}, {"all", all}} {
		s := r.s
		if s.Stories == 0 {
			continue
		}
		each := s.CPU / time.Duration(s.Stories)
		longest := 0
		for seconds := range s.Stalls {
			longest = max(longest, seconds)
		}
		table.Add(r.name, s.Stories, s.faults(), s.Bad, s.Void, s.Partly, s.Pages, s.Repeated, s.RepeatsExcused,
			s.ViolationsExcused, s.Virtual.Hours(), longest, each, 2*float64(time.Minute)/float64(max(each, 1)))
	}
	return table
}

// runTable returns a row for each run.
func runTable(runs []ChaosRun) *Table {
	table := &Table{Columns: []Column{
		{Name: "date"}, {Name: "commit"}, {Name: "first seed"}, {Name: "single agents"}, {Name: "their faults"},
		{Name: "clusters"}, {Name: "faults of clusters"}, {Name: "bad"}, {Name: "void"}, {Name: "partly"},
		{Name: "jobs"}, {Name: "minutes", Digits: 1}, {Name: "stories a minute", Digits: 1},
		{Name: "processor time", Unit: "s"},
	}}
	for _, r := range runs {
		table.Add(r.Date, r.Commit, int64(r.First), r.Alone.Stories, r.Alone.faults(), r.Cluster.Stories,
			r.Cluster.faults(), r.bad(), r.Alone.Void+r.Cluster.Void, r.Alone.Partly+r.Cluster.Partly, r.Jobs,
			r.Wall.Minutes(), float64(r.stories())/r.Wall.Minutes(), r.Alone.CPU+r.Cluster.CPU)
	}
	return table
}

// chaosFailures lists the failures of all runs, and the smallest plans. The table is nil if there
// are none.
func chaosFailures(runs []ChaosRun) (*Table, string) {
	table := &Table{Columns: []Column{{Name: "date"}, {Name: "commit"}, {Name: "seed"}, {Name: "reruns that failed"},
		{Name: "what failed"}}}
	var b strings.Builder
	for _, r := range runs {
		for _, f := range r.Failed {
			failed := "interrupted"
			if f.Rate.Told > 0 {
				failed = fmt.Sprintf("%d of %d", f.Rate.Failed, f.Rate.Told)
			}
			table.Add(r.Date, r.Commit, fmt.Sprint(f.Plan.Seed), failed, f.Why)
			p, rate := f.Plan, f.Rate
			if f.Smallest != nil {
				p, rate = *f.Smallest, f.SmallestRate
			}
			fmt.Fprintf(&b, "%s\n%s\n", p, rerunCommand(p))
			if rate.Told > 0 {
				fmt.Fprintf(&b, "failed %d of %d times\n", rate.Failed, rate.Told)
			}
			b.WriteString("\n")
		}
	}
	if len(table.Rows) == 0 {
		return nil, "None."
	}
	return table, "The smallest plans:\n\n```text\n" + strings.TrimSpace(b.String()) + "\n```\n"
}

// faultPanel shows how often each kind of fault happened.
func faultPanel(alone, cluster, all ChaosStories) Panel {
	p := Panel{Title: "Faults that happened", Y: "times", Bars: []Bars{{Name: "single agents"}, {Name: "clusters"}},
		Stack: true}
	kinds := slices.SortedFunc(maps.Keys(all.Faults), func(a, b sim.Kind) int { return all.Faults[b] - all.Faults[a] })
	for i, k := range kinds {
		name := strings.ReplaceAll(string(k), " ", "\n")
		if i%2 == 1 { // otherwise the names would touch
			name = "\n\n" + name
		}
		p.Groups = append(p.Groups, name)
		p.Bars[0].Values = append(p.Bars[0].Values, float64(alone.Faults[k]))
		p.Bars[1].Values = append(p.Bars[1].Values, float64(cluster.Faults[k]))
	}
	return p
}

// longer returns the share, in percent, of the stories whose longest stall is longer than x
// seconds.
func longer(s ChaosStories) (points plotter.XYs) {
	points = plotter.XYs{{X: 0, Y: percent}}
	left, longest := s.Stories, 0
	for seconds := range s.Stalls {
		longest = max(longest, seconds)
	}
	for seconds := range longest + 1 {
		left -= s.Stalls[seconds]
		share := float64(left) / float64(max(s.Stories, 1))
		points = append(points, plotter.XY{X: float64(seconds + 1), Y: percent * share})
	}
	return points
}
