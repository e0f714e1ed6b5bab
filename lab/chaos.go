package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/sim"
)

// ErrChaos reports that a story broke a guarantee.
var ErrChaos = errors.New("a story failed")

// ErrPlan reports that Chaos.Plan is not a plan.
var ErrPlan = errors.New("not a plan")

// Chaos asks: does a crawl keep its guarantees under faults?
//
// It runs random stories of package sim, of single agents and of clusters, in worker processes, and
// adds the results to those of earlier runs.
type Chaos struct {
	// Time bounds the run. Zero means until Stories are done.
	Time time.Duration `name:"for" placeholder:"D" help:"Tell stories for D (default: until --stories are told)."`
	// Stories bounds the number of stories. Zero means no limit if Time is set, otherwise 60, with
	// --quick 20.
	Stories int `placeholder:"N" help:"Tell N stories at most (default: 60, no limit with --for)."`
	// Seed is the seed of the first story; each story has the next one. Zero means the seed after
	// all those in Append.
	Seed uint64 `placeholder:"N" help:"${chaos_seed}"`
	// Alone is the share of stories of single agents. Zero means none.
	Alone float64 `kong:"-"`
	// Partition is the partition of all clusters. Empty means that each plan has its own.
	Partition string `enum:",rendezvous,ring,hash,sites" default:"" placeholder:"KIND" help:"${chaos_partition}"`
	// Append is a file of earlier runs. The experiment adds this run to it. Empty means no file.
	Append string `placeholder:"FILE" help:"${chaos_append}"`
	// Keep is the folder for the event logs of failures.
	Keep string `placeholder:"DIR" help:"${chaos_keep}"`
	// Jobs is the number of worker processes. Zero means one for each processor.
	Jobs int `placeholder:"N" help:"${chaos_jobs}"`
	// Plan is a plan in JSON. If it is not empty, the experiment runs its story 20 times, and no
	// other.
	Plan string `placeholder:"FILE|JSON" help:"Tell the story of this plan 20 times, and say how often it fails."`
	// Profiles is a folder for processor profiles of the workers. Empty means no profiles.
	Profiles string `name:"cpuprofile" placeholder:"DIR" help:"Write processor profiles of these processes to DIR."`
	// Commit is the commit of orblab. Empty means that it is not known.
	Commit string `kong:"-"`

	every time.Duration // between two writes of the run's line in Append; zero: a minute
	added bool          // the run is in the file Append
}

// A ChaosRun is the result of one run: a line of the file Append.
type ChaosRun struct {
	Date    string         `json:"date"`
	Commit  string         `json:"commit,omitempty"` // of orblab; empty: not known
	First   uint64         `json:"first"`            // seed
	Last    uint64         `json:"last"`             // seed
	Untold  []uint64       `json:"untold,omitempty"` // seeds below Last whose stories did not end
	Alone   ChaosStories   `json:"alone"`
	Cluster ChaosStories   `json:"cluster"`
	Wall    time.Duration  `json:"wall_ns"` // for all stories without reruns
	Jobs    int            `json:"jobs"`
	Failed  []ChaosFailure `json:"failures,omitempty"`
}

// ChaosStories holds sums over stories.
type ChaosStories struct {
	Stories  int              `json:"stories"`
	Bad      int              `json:"bad"`
	Void     int              `json:"void"`   // all copies of what is known of every host may be lost
	Partly   int              `json:"partly"` // that of some hosts
	Faults   map[sim.Kind]int `json:"faults"`
	BadWith  map[sim.Kind]int `json:"bad_with"` // bad stories that had the fault
	Pages    int64            `json:"pages"`
	Repeated int64            `json:"repeated"` // fetches beyond the first of each page
	// RepeatsExcused and ViolationsExcused count those that a fault explains.
	RepeatsExcused    int64         `json:"repeats_excused"`
	ViolationsExcused int64         `json:"violations_excused"`
	Virtual           time.Duration `json:"virtual_ns"`
	CPU               time.Duration `json:"cpu_ns"`
	// Stalls counts stories by their longest time without a page, in whole seconds.
	Stalls map[int]int `json:"stalls"`
}

// A ChaosFailure is a story that failed, and the smallest plan that fails like it.
type ChaosFailure struct {
	Plan         sim.Plan  `json:"plan"`
	Why          string    `json:"why"`
	Rate         Rate      `json:"rate"`               // of reruns; a rerun fails if it fails like this story
	Smallest     *sim.Plan `json:"smallest,omitempty"` // nil: no rerun failed
	SmallestRate Rate      `json:"smallest_rate"`
}

// add adds a story.
func (s *ChaosStories) add(t Told) {
	s.Stories++
	s.CPU += t.CPU
	if s.Faults == nil {
		s.Faults, s.BadWith, s.Stalls = map[sim.Kind]int{}, map[sim.Kind]int{}, map[int]int{}
	}
	if t.bad() {
		s.Bad++
	}
	v := t.Verdict
	if v == nil {
		return
	}
	for _, k := range v.Struck {
		s.Faults[k]++
	}
	if t.bad() {
		for _, k := range slices.Compact(slices.Sorted(slices.Values(v.Struck))) {
			s.BadWith[k]++
		}
	}
	if v.Void() {
		s.Void++
	}
	if v.Partly() {
		s.Partly++
	}
	s.Pages += v.Fetched
	s.Repeated += v.Twice
	s.RepeatsExcused += v.Twice - v.Unexcused
	s.ViolationsExcused += int64(len(v.Excused))
	s.Virtual += v.Took
	s.Stalls[int(v.Stall/time.Second)]++
}

// stories returns the number of stories of the run.
func (r *ChaosRun) stories() int { return r.Alone.Stories + r.Cluster.Stories }

// bad returns the number of stories that failed.
func (r *ChaosRun) bad() int { return r.Alone.Bad + r.Cluster.Bad }

// add adds a story to the run.
func (r *ChaosRun) add(t Told) {
	if isAlone(t.Plan) {
		r.Alone.add(t)
	} else {
		r.Cluster.add(t)
	}
	r.Last = max(r.Last, t.Plan.Seed)
}

func isAlone(p sim.Plan) bool { return p.Agents <= 1 && p.Spare == 0 }

// storyOf returns the story of a seed. The share alone of all stories has a single agent. The others have
// this partition, or that of their plan if it is empty.
func storyOf(seed uint64, alone float64, partition string) sim.Plan {
	if before := float64(seed - 1); math.Floor(float64(seed)*alone) > math.Floor(before*alone) {
		return sim.RandomAlone(seed)
	}
	p := sim.Random(seed)
	if partition != "" {
		p = p.Divided(partition)
	}
	return p
}

func (x *Chaos) defaults(quick bool) {
	if x.Time == 0 {
		if quick {
			def(&x.Stories, 20)
		}
		def(&x.Stories, 60)
	}
	if x.Stories == 0 {
		x.Stories = math.MaxInt
	}
	def(&x.Jobs, defaultJobs())
	def(&x.Keep, filepath.Join(os.TempDir(), "orblab-chaos"))
	def(&x.every, time.Minute)
}

// Run implements Experiment.
func (x *Chaos) Run(ctx context.Context, t *Trial) (*Result, error) {
	x.defaults(t.Quick)
	ws := &workers{self: t.Self, jobs: x.Jobs, profile: x.Profiles, keep: x.Keep}
	if x.Plan != "" {
		return nil, x.rerun(ctx, t, ws)
	}
	var runs []ChaosRun
	if x.Append != "" {
		var err error
		if runs, err = readRuns(x.Append); err != nil {
			return nil, err
		}
	}
	if x.Seed == 0 {
		x.Seed = nextSeed(runs)
	}
	last := uint64(math.MaxUint64)
	if n := uint64(x.Stories); n <= last-x.Seed {
		last = x.Seed + n - 1
	}
	if err := overlap(runs, x.Commit, x.Seed, last); err != nil {
		return nil, fmt.Errorf("--append %s: %w", x.Append, err)
	}
	run, failures, err := x.tell(ctx, t, ws, runs)
	if err != nil {
		_, more := x.addTo(runs, *run)
		return nil, errors.Join(err, more)
	}
	all, err := x.addTo(runs, *run)
	if err != nil {
		return nil, err
	}
	for i, told := range failures {
		f, err := x.investigate(ctx, t, ws, told)
		if err != nil {
			return nil, err
		}
		run.Failed[i] = f
		if all, err = x.addTo(runs, *run); err != nil { // now, because the next one may take long
			return nil, err
		}
	}
	if n := run.bad(); n > 0 {
		err = fmt.Errorf("%w: %d of %d; their event logs are in %s", ErrChaos, n, run.stories(), x.Keep)
	}
	return x.result(all), err
}

// tell runs stories until the time is over or the number of stories is reached. It adds what has
// been told to those in before about every minute, so that a killed run keeps its stories. The run
// is never nil. Its failures have the order of the told stories.
func (x *Chaos) tell(ctx context.Context, t *Trial, ws *workers, before []ChaosRun) (*ChaosRun, []Told, error) {
	began := time.Now()
	run := &ChaosRun{
		Date: began.UTC().Format("2006-01-02 15:04"), Commit: x.Commit, First: x.Seed, Last: x.Seed, Jobs: x.Jobs,
	}
	var failures []Told
	var broken error
	planned, saved := 0, began
	var ahead []uint64 // seeds of stories under way
	next := func() (sim.Plan, bool) {
		if planned == x.Stories || x.Time > 0 && time.Since(began) >= x.Time || broken != nil {
			return sim.Plan{}, false
		}
		planned++
		p := storyOf(x.Seed+uint64(planned-1), x.Alone, x.Partition)
		ahead = append(ahead, p.Seed)
		return p, true
	}
	sum := func() {
		run.Wall = time.Since(began)
		run.Untold = nil
		for _, seed := range ahead {
			if seed < run.Last {
				run.Untold = append(run.Untold, seed)
			}
		}
	}
	perMinute := func() float64 { return float64(run.stories()) / time.Since(began).Minutes() }
	done := t.step("stories from seed %d on", x.Seed)
	err := ws.tellAll(ctx, next, func(told Told) {
		run.add(told)
		ahead = slices.DeleteFunc(ahead, func(seed uint64) bool { return seed == told.Plan.Seed })
		if told.bad() {
			failures = append(failures, told)
			run.Failed = append(run.Failed, ChaosFailure{Plan: told.Plan, Why: told.why()})
			name, err := x.keep(told)
			broken = errors.Join(broken, err)
			t.say("seed %d failed: %s; see %s", told.Plan.Seed, told.why(), name)
		}
		t.partial("%d stories, %.0f a minute, %d failed", run.stories(), perMinute(), run.bad())
		if x.Append != "" && time.Since(saved) >= x.every {
			sum()
			_, err := x.addTo(before, *run)
			broken = errors.Join(broken, err)
			saved = time.Now()
		}
	})
	sum()
	done("%d stories, %.0f a minute, %d failed", run.stories(), perMinute(), run.bad())
	return run, failures, errors.Join(err, broken)
}

// keep writes the data of a failure to a file in the folder Keep, and returns the file's name.
func (x *Chaos) keep(told Told) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n\n%s\n", told.Plan, told.Plan.JSON(), told.why())
	if v := told.Verdict; v != nil {
		fmt.Fprintf(&b, "\n%s\n\n%s\n", v, strings.Join(v.Log, "\n"))
		fmt.Fprintf(&b, "\nevents of the agents, by their clocks:\n%s\n", strings.Join(v.AgentEvents, "\n"))
	}
	if told.events != "" {
		b.WriteString("\n" + told.events)
	}
	b.WriteString("\n" + told.Output)
	name := x.logOf(told.Plan)
	if err := os.MkdirAll(x.Keep, 0o755); err != nil {
		return "", fmt.Errorf("lab: %w", err)
	}
	if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
		return "", fmt.Errorf("lab: %w", err)
	}
	return name, nil
}

// logOf returns the file for a failure's event log.
func (x *Chaos) logOf(p sim.Plan) string {
	kind := "cluster"
	if isAlone(p) {
		kind = "alone"
	}
	return filepath.Join(x.Keep, fmt.Sprintf("%s-%d.log", kind, p.Seed))
}

// shrinkBudget bounds the stories that are run to shrink one plan.
const shrinkBudget = 400

// investigate measures how often a failed plan fails, and makes it smaller.
func (x *Chaos) investigate(ctx context.Context, t *Trial, ws *workers, told Told) (f ChaosFailure, err error) {
	f = ChaosFailure{Plan: told.Plan, Why: told.why()}
	if ctx.Err() != nil {
		return f, nil
	}
	s := &shrinker{budget: shrinkBudget, tell: func(p sim.Plan, most, enough int) Rate {
		r, e := ws.rate(ctx, p, most, enough, told.likewise, nil)
		err = errors.Join(err, e)
		return r
	}}
	done := t.step("seed %d again", told.Plan.Seed)
	if f.Rate = s.tell(told.Plan, reruns, 0); f.Rate.Failed == 0 || err != nil {
		done("failed %d of %d times", f.Rate.Failed, f.Rate.Told)
		return f, err
	}
	p, rate := s.shrink(told.Plan, f.Rate)
	f.Smallest, f.SmallestRate = &p, rate
	done("failed %d of %d times; the smallest plan %d of %d times:", f.Rate.Failed, f.Rate.Told, rate.Failed, rate.Told)
	t.print("%s\n%s", p, rerunCommand(p))
	return f, err
}

// rerunCommand returns the command that runs a plan again.
func rerunCommand(p sim.Plan) string { return fmt.Sprintf("orblab chaos --plan '%s'", p.JSON()) }

// rate runs a plan at most most times, and counts its failures. It stops when enough stories have
// failed, or when enough cannot be reached any more; zero means that it does not stop early. failed
// says which stories failed. It calls heard, if not nil, with each of them.
func (ws *workers) rate(ctx context.Context, p sim.Plan, most, enough int, failed func(Told) bool,
	heard func(Told)) (r Rate, err error) {
	planned := 0
	next := func() (sim.Plan, bool) {
		decided := enough > 0 && (r.Failed >= enough || r.Told-r.Failed > most-enough)
		if planned == most || decided {
			return p, false
		}
		planned++
		return p, true
	}
	err = ws.tellAll(ctx, next, func(told Told) {
		r.Told++
		if failed(told) {
			r.Failed++
			if heard != nil {
				heard(told)
			}
		}
	})
	return r, err
}

// rerun runs the story of the plan several times, and reports how often it failed.
func (x *Chaos) rerun(ctx context.Context, t *Trial, ws *workers) error {
	text := x.Plan
	if b, err := os.ReadFile(text); err == nil {
		text = string(b)
	} else if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return fmt.Errorf("--plan %s: %w and no file that can be read: %w", text, ErrPlan, err)
	}
	plan, err := sim.Parse(text)
	if err != nil {
		return fmt.Errorf("--plan %s: %w: %w", x.Plan, ErrPlan, err)
	}
	t.print("%s", plan)
	done := t.step("the story, %d times", reruns)
	name := ""
	var unkept error
	r, err := ws.rate(ctx, plan, reruns, 0, Told.bad, func(told Told) {
		t.say("%s", told.why())
		if name == "" && unkept == nil {
			name, unkept = x.keep(told)
		}
	})
	done("failed %d of %d times", r.Failed, r.Told)
	if err = errors.Join(err, unkept); r.Failed > 0 && err == nil {
		err = fmt.Errorf("%w: %d of %d times; the first event log is %s", ErrChaos, r.Failed, r.Told, name)
	}
	return err
}
