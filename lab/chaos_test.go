package lab

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/sim"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// The shrinker finds the one fault that matters and the agents that it needs, although the plan
// fails only now and then.
func TestShrink(t *testing.T) {
	rng := testseed.Rand(t)
	plan := sim.Plan{Seed: 7, Agents: 4, Spare: 1, Hosts: 30, Pages: 16, Partition: "ring", Latency: time.Millisecond,
		Replicas: 2, Mirrors: true, Busy: 0.1, Delays: 0.3, Pause: time.Second, Kappa: 30, Addresses: 9,
		Faults: []sim.Fault{
			{Kind: sim.Kill, Agent: 2, At: 0.1, For: time.Second},
			{Kind: sim.Old, Agent: 3, At: 0.3, For: 5 * time.Second, After: time.Second},
			{Kind: sim.Join, Agent: 5, At: 0.5},
		}}
	for _, often := range []float64{1, 0.6} {
		told := 0
		tell := func(p sim.Plan, most, enough int) (r Rate) {
			for r.Told < most && (enough == 0 || r.Failed < enough) {
				r.Told++
				old := slices.ContainsFunc(p.Faults, func(f sim.Fault) bool {
					return f.Kind == sim.Old && f.For >= 2*time.Second
				})
				if old && p.Agents+p.Spare >= 3 && p.Hosts >= 8 && rng.Float64() < often {
					r.Failed++
				}
			}
			told += r.Told
			return r
		}
		s := &shrinker{tell: tell, budget: 2000}
		p, rate := s.shrink(plan, tell(plan, reruns, 0))
		want := sim.Plan{Seed: 7, Agents: 3, Hosts: 8, Pages: 4, Replicas: 1,
			Faults: []sim.Fault{{Kind: sim.Old, Agent: p.Faults[0].Agent, At: 0.3, For: 2500 * time.Millisecond}}}
		if p.Agents == 2 {
			want.Agents, want.Spare = 2, 1
		}
		if diff := cmp.Diff(want, p); diff != "" {
			t.Errorf("fails with %g: (-want +got)\n%s", often, diff)
		}
		if rate.Told != reruns || rate.Failed == 0 {
			t.Errorf("fails with %g: the smallest plan failed %d of %d times", often, rate.Failed, rate.Told)
		}
		if told > 2000+2*reruns {
			t.Errorf("fails with %g: %d stories, want at most the budget", often, told)
		}
	}
}

// A plan that rarely fails ends the search when the budget is used up.
func TestShrinkBudget(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	told := 0
	s := &shrinker{budget: 50, tell: func(p sim.Plan, most, enough int) (r Rate) {
		for r.Told < most && (enough == 0 || r.Failed < enough) {
			r.Told++
			if rng.IntN(20) == 0 {
				r.Failed++
			}
		}
		told += r.Told
		return r
	}}
	s.shrink(sim.Random(5), Rate{1, 20})
	if told > 50+reruns {
		t.Errorf("%d stories, want at most %d", told, 50+reruns)
	}
}

// If a plan has one agent less, its faults name only agents that exist.
func TestLessenedNumbers(t *testing.T) {
	for seed := range uint64(300) {
		p := sim.Random(seed)
		for _, c := range lessened(p) {
			if c.Agents < 1 || c.Agents+c.Spare < 2 {
				t.Fatalf("%s\nbecame\n%s", p, c)
			}
			for _, f := range c.Faults {
				if f.Agent > c.Agents+c.Spare || f.Kind == sim.Join && f.Agent <= c.Agents {
					t.Fatalf("%s\nbecame\n%s", p, c)
				}
			}
		}
	}
}

func TestChaosAddsUp(t *testing.T) {
	name := filepath.Join(t.TempDir(), "chaos.jsonl")
	runs, err := readRuns(name)
	if err != nil || len(runs) != 0 || nextSeed(runs) != 1 {
		t.Fatalf("no file: %v, %v, next seed %d", runs, err, nextSeed(runs))
	}
	first := ChaosRun{Date: "2026-11-23 10:00", First: 1, Wall: time.Minute, Jobs: 2}
	first.add(Told{Plan: sim.Plan{Seed: 1, Agents: 1}, CPU: time.Second, Verdict: &sim.Verdict{Reachable: 9, Fetched: 9,
		Struck: []sim.Kind{sim.Kill, sim.Power}, Took: time.Hour, Stall: 1500 * time.Millisecond}})
	first.add(Told{Plan: sim.Plan{Seed: 2, Agents: 3}, CPU: 2 * time.Second, Verdict: &sim.Verdict{Reachable: 9,
		Fetched: 7, Twice: 4, Unexcused: 1, Excused: make([]sim.Violation, 2),
		Missed: []string{"a", "b"}, Struck: []sim.Kind{sim.Kill, sim.Kill},
		Stall: 12 * time.Second}})
	first.add(Told{Plan: sim.Plan{Seed: 3, Agents: 2}, Verdict: &sim.Verdict{Lost: 2, Hosts: 2}})
	first.add(Told{Plan: sim.Plan{Seed: 3, Agents: 2}, Verdict: &sim.Verdict{Lost: 1, Hosts: 2}})
	smallest := sim.Plan{Seed: 2, Agents: 2, Faults: []sim.Fault{{Kind: sim.KillAll, At: 0.5}}}
	first.Failed = []ChaosFailure{{Plan: sim.Random(2), Why: "2 pages missed", Rate: Rate{3, 20}, Smallest: &smallest,
		SmallestRate: Rate{2, 20}}}
	second := ChaosRun{Date: "2026-11-23 10:00", First: 4}
	second.add(Told{Plan: sim.Plan{Seed: 4, Agents: 2}, Output: "panic: all goroutines sleep\n\nlong"})
	must.Do(t, writeRuns(name, []ChaosRun{first, second}))
	if runs, err = readRuns(name); err != nil || len(runs) != 2 || nextSeed(runs) != 5 {
		t.Fatalf("%d runs, %v, next seed %d", len(runs), err, nextSeed(runs))
	}
	if diff := cmp.Diff(first.Failed, runs[0].Failed); diff != "" {
		t.Errorf("failures (-want +got)\n%s", diff)
	}
	r := (&Chaos{}).result(runs)
	holds(t, r, `sum(stories) == 5`, `sum(bad) == 2`, `sum(void) == 1`, `sum(partly) == 1`, `sum(pages) == 16`,
		`sum(repeated) == 4`, `sum(repeats_excused) == 3`, `sum(violations_excused) == 2`, `sum(virtual_s) == 3600`,
		`sum(cpu_s) == 3`, `sum(at(times, "fault", "kill")) == 3`, `sum(at(times, "fault", "power")) == 1`,
		`sum(at(bad_with, "fault", "kill")) == 1`, `sum(at(stall_stories, "stall", 0)) == 2`, `max(stall) == 12`,
		`sum(at(stories, "of", "single agents")) == 1`, `sum(at(times, "of", "single agents")) == 2`,
		`sum(at(stories, "of", "clusters")) == 4`, `sum(at(bad, "of", "clusters")) == 2`)
	text := rendered(t, r)
	for _, want := range []string{"3 of 20", "2 pages missed", "kill all", rerunCommand(smallest),
		"failed 2 of 20 times"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
	whole := must.Get(os.ReadFile(name))(t)
	unknown := bytes.Replace(whole, []byte(`{"date"`), []byte(`{"weather":"fine","date"`), 1)
	for _, c := range []struct {
		text []byte
		want string
	}{
		{append(bytes.Clone(whole), "nonsense\n"...), "chaos.jsonl:3: "},
		{append(bytes.Clone(whole), "{}\n"...), "chaos.jsonl:3: no run"},
		{unknown, `chaos.jsonl:1: json: unknown field "weather"`},
	} {
		must.Do(t, os.WriteFile(name, c.text, 0o644))
		if _, err := readRuns(name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a broken file: got error %v, want %q", err, c.want)
		}
	}
}

// A run of seeds that the file has from the same commit is refused.
func TestChaosOverlap(t *testing.T) {
	runs := []ChaosRun{
		{Date: "d", Commit: "a", First: 10, Last: 20, Untold: []uint64{13, 14}}, {Commit: "b", First: 30, Last: 31},
	}
	for _, c := range []struct {
		commit      string
		first, last uint64
		bad         bool
	}{
		{"a", 1, 9, false}, {"a", 1, 10, true}, {"a", 20, 20, true}, {"a", 21, math.MaxUint64, false},
		{"a", 13, 14, false}, {"a", 13, 15, true}, {"b", 10, 20, false}, {"b", 1, math.MaxUint64, true},
		{"", 1, 99, false},
	} {
		if err := overlap(runs, c.commit, c.first, c.last); errors.Is(err, ErrSeeds) != c.bad {
			t.Errorf("%s from %d to %d: got error %v, want one: %t", c.commit, c.first, c.last, err, c.bad)
		}
	}
}

// The program reads the file of the repository.
func TestChaosReadsTheRuns(t *testing.T) {
	if runs, err := readRuns("../docs/lab/chaos.jsonl"); err != nil || len(runs) == 0 {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

// Two processes that add runs to a file at the same time lose none.
func TestChaosAddsAtOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "chaos.jsonl")
	var adding sync.WaitGroup
	for i := range uint64(8) {
		adding.Go(func() {
			x := &Chaos{Append: name}
			for range 5 {
				run := ChaosRun{Date: "d", First: 10*i + 1, Last: 10*i + 3, Alone: ChaosStories{Stories: 3}}
				if _, err := x.addTo(nil, run); err != nil {
					t.Error(err)
				}
			}
		})
	}
	adding.Wait()
	if runs, err := readRuns(name); err != nil || len(runs) != 8 {
		t.Errorf("%d runs, %v; want 8", len(runs), err)
	}
	x := &Chaos{Append: name}
	same := ChaosRun{Date: "d", First: 1, Last: 1, Alone: ChaosStories{Stories: 1}}
	if _, err := x.addTo(nil, same); !errors.Is(err, ErrSeeds) {
		t.Errorf("the run of another process: got error %v, want %v", err, ErrSeeds)
	}
}

// The gravest kind of failure decides whether two stories failed alike.
func TestLikewise(t *testing.T) {
	ended, good := Told{}, Told{Verdict: &sim.Verdict{}}
	twice := Told{Verdict: &sim.Verdict{Unexcused: 1, Stalled: true}}
	stalled := Told{Verdict: &sim.Verdict{Stalled: true}}
	for _, c := range []struct {
		name     string
		first, t Told
		want     bool
	}{
		{"both ended", ended, ended, true}, {"ended, stalled", ended, stalled, false},
		{"twice, twice", twice, twice, true}, {"twice, stalled", twice, stalled, false},
		{"stalled, twice and stalled", stalled, twice, true}, {"stalled, good", stalled, good, false},
	} {
		if got := c.first.likewise(c.t); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}

// A run is in the file before it ends.
func TestChaosSavesMeanwhile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chaos.jsonl")
	trial := (&Trial{Screen: new(bytes.Buffer), Dir: t.TempDir(), Self: script(t, `while read -r plan; do
	case $plan in
	'{"Seed":4,'*) test "$(grep -c '"last":3,' `+file+`)" = 1 || exit 2;;
	esac
	echo 'verdict: {"Verdict":{"Reachable":5,"Fetched":5},"CPU":1000}'
done
`)}).with(t.TempDir())
	x := &Chaos{Stories: 4, Seed: 1, Jobs: 1, Keep: filepath.Join(t.TempDir(), "kept"), Append: file, every: 1}
	must.Get(x.Run(context.Background(), trial))(t)
	again := &Chaos{Stories: 4, Seed: 4, Jobs: 1, Keep: x.Keep, Append: file}
	if _, err := again.Run(context.Background(), trial); !errors.Is(err, ErrSeeds) {
		t.Errorf("the same seeds again: got error %v, want %v", err, ErrSeeds)
	}
	if _, err := os.Stat(x.Keep); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder for logs of failures: got %v, want none", err)
	}
}

// If the log of a failure cannot be kept, the error says so.
func TestChaosCannotKeep(t *testing.T) {
	keep := filepath.Join(t.TempDir(), "kept")
	must.Do(t, os.WriteFile(keep, nil, 0o644))
	trial := (&Trial{Screen: new(bytes.Buffer), Dir: t.TempDir(), Self: script(t, "exit 2\n")}).with(t.TempDir())
	for _, x := range []*Chaos{{Plan: `{"Seed":1}`, Jobs: 1, Keep: keep}, {Stories: 3, Jobs: 1, Keep: keep}} {
		if _, err := x.Run(context.Background(), trial); err == nil || !strings.Contains(err.Error(), keep) {
			t.Errorf("got error %v, want one that names %s", err, keep)
		}
	}
}

func TestShareOfSingleAgents(t *testing.T) {
	for _, share := range []float64{0, 0.25, 1.0 / 3, 2.0 / 3, 1} {
		alone := 0
		for seed := range uint64(600) {
			if isAlone(storyOf(seed+1, share, "")) {
				alone++
			}
		}
		if want := int(share * 600); alone < want-1 || alone > want+1 {
			t.Errorf("share %g: %d of 600", share, alone)
		}
	}
}

// script writes a program that replaces orblab as a worker.
func script(t *testing.T, text string) string {
	name := filepath.Join(t.TempDir(), "orblab")
	must.Do(t, os.WriteFile(name, []byte("#!/bin/sh\n"+text), 0o755))
	return name
}

// If a worker ends in the middle of a story, that story has failed, and the other stories still
// run.
func TestWorkerEnds(t *testing.T) {
	trial := (&Trial{Screen: new(bytes.Buffer), Dir: t.TempDir(), Self: script(t, `while read -r plan; do
	case $plan in
	'{"Seed":3,'*) echo '     1.500s  a1 is killed' >"$3"
	   echo 'panic: deadlock: all goroutines are blocked' >&2; echo 'goroutine 1:' >&2; exit 2;;
	*) echo 'a line of package testing'
	   echo 'verdict: {"Verdict":{"Reachable":5,"Fetched":5,"Struck":["kill"]},"CPU":1000}';;
	esac
done
`)}).with(t.TempDir())
	x := &Chaos{Stories: 6, Seed: 1, Jobs: 2, Keep: filepath.Join(t.TempDir(), "kept"),
		Append: filepath.Join(t.TempDir(), "chaos.jsonl")}
	r, err := x.Run(context.Background(), trial)
	if !errors.Is(err, ErrChaos) {
		t.Fatalf("%v, want %v", err, ErrChaos)
	}
	runs, err := readRuns(x.Append)
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	run := runs[0]
	if run.stories() != 6 || run.bad() != 1 || run.Cluster.Faults[sim.Kill] != 5 || run.Last != 6 {
		t.Errorf("%+v", run)
	}
	if len(run.Failed) != 1 || run.Failed[0].Rate != (Rate{20, 20}) || run.Failed[0].Smallest == nil {
		t.Fatalf("%+v", run.Failed)
	}
	f := run.Failed[0]
	if f.Plan.Seed != 3 || f.Why != "the process ended: panic: deadlock: all goroutines are blocked" {
		t.Errorf("%+v", f)
	}
	if len(f.Smallest.Faults) != 0 || f.Smallest.Agents+f.Smallest.Spare != 2 {
		t.Errorf("the smallest plan is\n%s", f.Smallest)
	}
	kept := must.Get(os.ReadFile(filepath.Join(x.Keep, "cluster-3.log")))(t)
	for _, want := range []string{"goroutine 1:", "exit status 2", "1.500s  a1 is killed"} {
		if !strings.Contains(string(kept), want) {
			t.Errorf("the log does not say %q:\n%s", want, kept)
		}
	}
	if r == nil || len(r.Rows.byWhat["first"]) != 1 || r.Rows.lines[r.Rows.byWhat["first"][0]].value != "1" {
		t.Errorf("%+v", r)
	}
}

// An interrupted run reports the stories that have ended. A story that the interruption ended with
// its worker has not failed.
func TestChaosInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	trial := (&Trial{Screen: new(bytes.Buffer), Dir: t.TempDir(), Self: script(t, "exec sleep 60\n")}).with(t.TempDir())
	x := &Chaos{Stories: 6, Jobs: 2, Keep: filepath.Join(t.TempDir(), "kept"),
		Append: filepath.Join(t.TempDir(), "chaos.jsonl")}
	if _, err := x.Run(ctx, trial); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(x.Append); err == nil {
		t.Error("a run of no story was added")
	}
}
