package lab

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/orbweaver/orbweaver/internal/testkit/sim"
)

// result returns the measurements of all runs: a place for each run, its stories of a kind, their faults and their
// stalls, and for each failure.
func (x *Chaos) result(runs []ChaosRun) *Result {
	d, name := newData("run", "of", "fault", "stall", "failure"), "chaos"
	if x.Partition != "" {
		d.Fact("partition", x.Partition)
		name += "-" + x.Partition
	}
	times := map[sim.Kind]int{}
	for i := range runs {
		r := &runs[i]
		d.At(i+1).Set("date", r.Date).Set("commit", r.Commit).Set("first", r.First).Set("jobs", r.Jobs).
			Set("wall_s", r.Wall)
		for _, of := range r.kinds() {
			d.At(i+1, of.name).All(of.ChaosStories)
			for kind, n := range of.Faults {
				times[kind] += n
			}
			for _, seconds := range slices.Sorted(maps.Keys(of.Stalls)) {
				d.At(i+1, of.name, "", seconds).Set("stall_s", seconds+1).Set("stall_stories", of.Stalls[seconds])
			}
		}
	}
	// The faults that happened the most come first.
	for _, kind := range slices.SortedFunc(maps.Keys(times), func(a, b sim.Kind) int {
		return cmp.Or(cmp.Compare(times[b], times[a]), cmp.Compare(a, b))
	}) {
		for i := range runs {
			for _, of := range runs[i].kinds() {
				if n := of.Faults[kind]; n > 0 {
					d.At(i+1, of.name, kind).Set("times", n).Set("bad_with", of.BadWith[kind])
				}
			}
		}
	}
	failures := 0
	for _, r := range runs {
		for _, f := range r.Failed {
			failures++
			d.At("", "", "", "", failures).Set("date", r.Date).Set("commit", r.Commit).Set("failed_seed", f.Plan.Seed).
				Set("again", f.Rate.String()).Set("why", f.Why).Set("smallest", f.smallest())
		}
	}
	return &Result{Name: name, Template: "chaos", Rows: d}
}

// A namedStories is the stories of single agents or of clusters.
type namedStories struct {
	name string
	ChaosStories
}

// kinds returns the stories of single agents and of clusters, if there are any.
func (r *ChaosRun) kinds() []namedStories {
	return slices.DeleteFunc([]namedStories{{"single agents", r.Alone}, {"clusters", r.Cluster}},
		func(s namedStories) bool { return s.Stories == 0 })
}

// String says how often the reruns failed.
func (r Rate) String() string {
	if r.Told == 0 {
		return "interrupted"
	}
	return fmt.Sprintf("%d of %d", r.Failed, r.Told)
}

// smallest returns the smallest plan that failed, for people.
func (f *ChaosFailure) smallest() string {
	p, rate := f.Plan, f.Rate
	if f.Smallest != nil {
		p, rate = *f.Smallest, f.SmallestRate
	}
	text := fmt.Sprintf("%s\n%s\n", p, rerunCommand(p))
	if rate.Told > 0 {
		text += fmt.Sprintf("failed %s times\n", rate)
	}
	return text
}
