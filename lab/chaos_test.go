package lab

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/sim"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// The shrinker finds the one fault that matters and the agents that it needs, although the plan
// fails only now and then.
func TestShrink(t *testing.T) {
	rng := testseed.Rand(t)
	plan := sim.Plan{Seed: 7, Agents: 4, Spare: 1, Hosts: 30, Pages: 16, Partition: "ring", Latency: time.Millisecond,
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
				old := slices.ContainsFunc(p.Faults, func(f sim.Fault) bool { return f.Kind == sim.Old })
				if old && p.Agents+p.Spare >= 3 && p.Hosts >= 8 && rng.Float64() < often {
					r.Failed++
				}
			}
			told += r.Told
			return r
		}
		s := &shrinker{tell: tell, budget: 2000}
		p, rate := s.shrink(plan, tell(plan, reruns, 0))
		want := sim.Plan{Seed: 7, Agents: 3, Hosts: 8, Pages: 4,
			Faults: []sim.Fault{{Kind: sim.Old, Agent: p.Faults[0].Agent, At: 0.3, For: 5 * time.Second}}}
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
	first := ChaosRun{First: 1, Wall: time.Minute, Jobs: 2}
	first.add(Told{Plan: sim.Plan{Seed: 1, Agents: 1}, CPU: time.Second, Verdict: &sim.Verdict{Reachable: 9, Fetched: 9,
		Struck: []sim.Kind{sim.Kill, sim.Power}, Took: time.Hour, Stall: 1500 * time.Millisecond}})
	first.add(Told{Plan: sim.Plan{Seed: 2, Agents: 3}, CPU: 2 * time.Second, Verdict: &sim.Verdict{Reachable: 9,
		Fetched: 7, Twice: 4, Missed: []string{"a", "b"}, Struck: []sim.Kind{sim.Kill, sim.Kill},
		Stall: 12 * time.Second}})
	first.add(Told{Plan: sim.Plan{Seed: 3, Agents: 2}, Verdict: &sim.Verdict{Lost: 2, Hosts: 2}})
	first.add(Told{Plan: sim.Plan{Seed: 3, Agents: 2}, Verdict: &sim.Verdict{Lost: 1, Hosts: 2}})
	smallest := sim.Plan{Seed: 2, Agents: 2, Faults: []sim.Fault{{Kind: sim.KillAll, At: 0.5}}}
	first.Failed = []ChaosFailure{{Plan: sim.Random(2), Why: "2 pages missed", Rate: Rate{3, 20}, Smallest: &smallest,
		SmallestRate: Rate{2, 20}}}
	second := ChaosRun{First: 4}
	second.add(Told{Plan: sim.Plan{Seed: 4, Agents: 2}, Output: "panic: all goroutines sleep\n\nlong"})
	if err := writeRuns(name, []ChaosRun{first, second}); err != nil {
		t.Fatal(err)
	}
	if runs, err = readRuns(name); err != nil || len(runs) != 2 || nextSeed(runs) != 5 {
		t.Fatalf("%d runs, %v, next seed %d", len(runs), err, nextSeed(runs))
	}
	alone, cluster, all := chaosTotal(runs)
	want := ChaosStories{Stories: 5, Bad: 2, Void: 1, Partly: 1, Faults: map[sim.Kind]int{sim.Kill: 3, sim.Power: 1},
		BadWith: map[sim.Kind]int{sim.Kill: 1}, Pages: 16, Repeated: 4, Virtual: time.Hour, CPU: 3 * time.Second,
		Stalls: map[int]int{0: 2, 1: 1, 12: 1}}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("all (-want +got)\n%s", diff)
	}
	if alone.Stories != 1 || alone.faults() != 2 || cluster.Stories != 4 || cluster.Bad != 2 {
		t.Errorf("%+v and %+v", alone, cluster)
	}
	if diff := cmp.Diff(first.Failed, runs[0].Failed); diff != "" {
		t.Errorf("failures (-want +got)\n%s", diff)
	}
	r := (&Chaos{Again: "orblab chaos"}).result(&Trial{}, runs)
	text := r.markdown(Machine{}, false)
	for _, want := range []string{"3 of 20", "2 pages missed", "kill all", rerunCommand(smallest),
		"failed 2 of 20 times"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
	if err := r.Figure.SVG(new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(name, []byte("{}\nnonsense\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readRuns(name); err == nil || !strings.Contains(err.Error(), "chaos.jsonl:2") {
		t.Errorf("a broken file: %v", err)
	}
}

func TestShareOfSingleAgents(t *testing.T) {
	for _, share := range []float64{0, 0.25, 1.0 / 3, 2.0 / 3, 1} {
		alone := 0
		for seed := range uint64(600) {
			if isAlone(storyOf(seed+1, share)) {
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
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// If a worker ends in the middle of a story, that story has failed, and the other stories still
// run.
func TestWorkerEnds(t *testing.T) {
	trial := (&Trial{Screen: new(bytes.Buffer), Dir: t.TempDir(), Self: script(t, `while read -r plan; do
	case $plan in
	'{"Seed":3,'*) echo 'panic: deadlock: all goroutines are blocked' >&2; echo 'goroutine 1:' >&2; exit 2;;
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
	kept, err := os.ReadFile(filepath.Join(x.Keep, "cluster-3.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"goroutine 1:", "exit status 2"} {
		if !strings.Contains(string(kept), want) {
			t.Errorf("the log does not say %q:\n%s", want, kept)
		}
	}
	if r == nil || r.Figures["first"] != uint64(1) {
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
