package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
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
	Time time.Duration
	// Stories bounds the number of stories. Zero means no limit if Time is set, otherwise 60, with
	// --quick 20.
	Stories int
	// Seed is the seed of the first story; each story has the next one. Zero means the seed after
	// all those in Append.
	Seed uint64
	// Alone is the share of stories of single agents. Zero means none.
	Alone float64
	// Append is a file of earlier runs. The experiment adds this run to it. Empty means no file.
	Append string
	// Keep is the folder for the event logs of failures.
	Keep string
	// Jobs is the number of worker processes. Zero means one for each processor.
	Jobs int
	// Plan is a plan in JSON. If it is not empty, the experiment runs its story 20 times, and no
	// other.
	Plan string
	// Profiles is a folder for processor profiles of the workers. Empty means no profiles.
	Profiles string
	// Commit is the commit of orblab. Empty means that it is not known.
	Commit string
	Again  string
}

// A ChaosRun is the result of one run: a line of the file Append.
type ChaosRun struct {
	Date    string         `json:"date"`
	Commit  string         `json:"commit,omitempty"` // of orblab; empty: not known
	First   uint64         `json:"first"`            // seed
	Last    uint64         `json:"last"`             // seed
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
	Virtual  time.Duration    `json:"virtual_ns"`
	CPU      time.Duration    `json:"cpu_ns"`
	// Stalls counts stories by their longest time without a page, in whole seconds.
	Stalls map[int]int `json:"stalls"`
}

// A ChaosFailure is a story that failed, and the smallest plan that fails like it.
type ChaosFailure struct {
	Plan         sim.Plan  `json:"plan"`
	Why          string    `json:"why"`
	Rate         Rate      `json:"rate"`               // of reruns
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
	s.Virtual += v.Took
	s.Stalls[int(v.Stall/time.Second)]++
}

// plus adds the stories of another run.
func (s *ChaosStories) plus(o ChaosStories) {
	s.Stories += o.Stories
	s.Bad += o.Bad
	s.Void += o.Void
	s.Partly += o.Partly
	s.Pages += o.Pages
	s.Repeated += o.Repeated
	s.Virtual += o.Virtual
	s.CPU += o.CPU
	s.Faults, s.BadWith, s.Stalls = sum(s.Faults, o.Faults), sum(s.BadWith, o.BadWith), sum(s.Stalls, o.Stalls)
}

// sum adds the counts of b to a.
func sum[K comparable](a, b map[K]int) map[K]int {
	c := maps.Clone(a)
	if c == nil {
		c = map[K]int{}
	}
	for k, n := range b {
		c[k] += n
	}
	return c
}

// faults returns the number of faults that happened.
func (s *ChaosStories) faults() (n int) {
	for _, m := range s.Faults {
		n += m
	}
	return n
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

// storyOf returns the story of a seed. The share alone of all stories has a single agent.
func storyOf(seed uint64, alone float64) sim.Plan {
	if before := float64(seed - 1); math.Floor(float64(seed)*alone) > math.Floor(before*alone) {
		return sim.RandomAlone(seed)
	}
	return sim.Random(seed)
}

// readRuns reads the runs in a file. If there is no file, there are no runs.
func readRuns(name string) (runs []ChaosRun, err error) {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, len(b)+1)
	for n := 1; lines.Scan(); n++ {
		var r ChaosRun
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// writeRuns writes runs to a file, which stays whole if the machine stops.
func writeRuns(name string, runs []ChaosRun) error {
	var b bytes.Buffer
	for _, r := range runs {
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("lab: %w", err)
		}
		b.Write(append(line, '\n'))
	}
	if err := disk.WriteFile(disk.OS, name, b.Bytes()); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// nextSeed returns the seed after those of some runs.
func nextSeed(runs []ChaosRun) uint64 {
	last := uint64(0)
	for _, r := range runs {
		last = max(last, r.Last)
	}
	return last + 1
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
}

// Run implements Experiment.
func (x *Chaos) Run(ctx context.Context, t *Trial) (*Result, error) {
	x.defaults(t.Quick)
	ws := &workers{self: t.Self, jobs: x.Jobs, profile: x.Profiles}
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
	run, failures, err := x.tell(ctx, t, ws)
	if err != nil {
		return nil, err
	}
	all, err := x.addTo(runs, *run)
	if err != nil {
		return nil, err
	}
	for _, told := range failures {
		f, err := x.investigate(ctx, t, ws, told)
		if err != nil {
			return nil, err
		}
		run.Failed = append(run.Failed, f)
	}
	if len(failures) > 0 { // shrinking their plans takes long, so the run is in the file before
		if all, err = x.addTo(runs, *run); err != nil {
			return nil, err
		}
	}
	if n := run.bad(); n > 0 {
		err = fmt.Errorf("%w: %d of %d; their event logs are in %s", ErrChaos, n, run.stories(), x.Keep)
	}
	return x.result(t, all), err
}

// addTo adds the run to those in the file Append, or replaces it there. It returns all runs.
// Another orblab may have added runs since those in before were read.
func (x *Chaos) addTo(before []ChaosRun, run ChaosRun) ([]ChaosRun, error) {
	if x.Append == "" || run.stories() == 0 {
		return append(before, run), nil
	}
	runs, err := readRuns(x.Append)
	if err != nil {
		return nil, err
	}
	same := func(r ChaosRun) bool { return r.Date == run.Date && r.First == run.First }
	if i := slices.IndexFunc(runs, same); i >= 0 {
		runs[i] = run
	} else {
		runs = append(runs, run)
	}
	return runs, writeRuns(x.Append, runs)
}

// tell runs stories until the time is over or the number of stories is reached.
func (x *Chaos) tell(ctx context.Context, t *Trial, ws *workers) (*ChaosRun, []Told, error) {
	began := time.Now()
	run := &ChaosRun{
		Date: began.UTC().Format("2006-01-02 15:04"), Commit: x.Commit, First: x.Seed, Last: x.Seed, Jobs: x.Jobs,
	}
	var failures []Told
	var broken error
	planned := 0
	next := func() (sim.Plan, bool) {
		if planned == x.Stories || x.Time > 0 && time.Since(began) >= x.Time || broken != nil {
			return sim.Plan{}, false
		}
		planned++
		return storyOf(x.Seed+uint64(planned-1), x.Alone), true
	}
	perMinute := func() float64 { return float64(run.stories()) / time.Since(began).Minutes() }
	done := t.step("stories from seed %d on", x.Seed)
	err := ws.tellAll(ctx, next, func(told Told) {
		run.add(told)
		if told.bad() {
			failures = append(failures, told)
			name, err := x.keep(told)
			if err != nil {
				broken = err
			}
			t.say("seed %d failed: %s; see %s", told.Plan.Seed, told.why(), name)
		}
		t.partial("%d stories, %.0f a minute, %d failed", run.stories(), perMinute(), run.bad())
	})
	run.Wall = time.Since(began)
	done("%d stories, %.0f a minute, %d failed", run.stories(), perMinute(), run.bad())
	return run, failures, errors.Join(err, broken)
}

// keep writes the data of a failure to a file in the folder Keep, and returns the file's name.
func (x *Chaos) keep(told Told) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n\n%s\n", told.Plan, told.Plan.JSON(), told.why())
	if v := told.Verdict; v != nil {
		fmt.Fprintf(&b, "\n%s\n\n%s\n", v, strings.Join(v.Log, "\n"))
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
		r, e := ws.rate(ctx, p, most, enough, nil)
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
// failed, or when enough cannot be reached any more; zero means that it does not stop early. It
// calls heard, if not nil, with each story that failed.
func (ws *workers) rate(ctx context.Context, p sim.Plan, most, enough int, heard func(Told)) (r Rate, err error) {
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
		if told.bad() {
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
	r, err := ws.rate(ctx, plan, reruns, 0, func(told Told) {
		t.say("%s", told.why())
		if name == "" {
			name, err = x.keep(told)
		}
	})
	done("failed %d of %d times", r.Failed, r.Told)
	if r.Failed > 0 && err == nil {
		err = fmt.Errorf("%w: %d of %d times; the first event log is %s", ErrChaos, r.Failed, r.Told, name)
	}
	return err
}
