package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A runner runs the steps of jobs until its time is over. One goroutine owns it.
type runner struct {
	root, out string // the checkout; the folder for the state and for what is found
	jobs      []*job
	steps     []*step
	parallel  int
	time      time.Duration
	env       []string
	state     *state
	screen    *screen
	part      bool // steps are not all of the table, so that the soak cannot become whole
	// content names what is checked out now. It is compared with the state's.
	content func() (content, error)

	running []*step
	began   time.Time
}

// A round is one run of a step.
type round struct {
	step  *step
	seed  uint64
	temp  string // the folder for its temporary files
	began time.Time
}

// A result is what a round's command came to.
type result struct {
	round
	stdout, stderr string
	code           int // of the exit; -1: a signal
	late           bool
	took           time.Duration
	ended          bool // the soak ended it; there is no result
	err            error
}

// run runs steps until the time is over or ctx ends, and says what it came to. If it fails, it ends
// the steps that run.
func (r *runner) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var failed error
	r.began = time.Now()
	before := r.state.Spent
	r.screen.say("%s", r.opening())
	ends := make(chan result)
	over := time.NewTimer(r.time)
	defer over.Stop()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	defer r.screen.close()
	timeIsOver := false
	for {
		for !timeIsOver && ctx.Err() == nil && len(r.running) < r.parallel {
			s := r.next()
			if s == nil || !r.start(ctx, s, ends) {
				break
			}
		}
		if len(r.running) == 0 {
			break
		}
		select {
		case res := <-ends:
			if err := r.end(res, before); err != nil {
				failed = cmp.Or(failed, err)
				stop()
			}
		case <-over.C:
			timeIsOver = true
			r.screen.say("%s: the time is over; %d running steps may end (Ctrl-C ends them now)", clock(),
				len(r.running))
		case <-second.C:
			r.screen.show(r.progress())
		}
	}
	if failed == nil {
		failed = r.unchanged()
	}
	if failed != nil {
		return failed
	}
	r.state.Spent = before + time.Since(r.began)
	if err := r.state.save(r.out); err != nil {
		return err
	}
	r.screen.show(r.progress())
	r.screen.close()
	r.screen.say("%s", r.closing())
	return nil
}

// next returns the step that is due, or nil. It belongs to the job that had the least time for its
// share, of those with steps that never ran, if there are any. In a job it is the first of the steps
// that ran least often.
func (r *runner) next() *step {
	if len(r.running) > 0 && r.running[0].alone {
		return nil
	}
	fewest := map[*job]*step{}
	fresh := false
	for _, s := range r.steps {
		if slices.Contains(r.running, s) {
			continue
		}
		if f := fewest[s.job]; f == nil || r.state.rounds(s) < r.state.rounds(f) {
			fewest[s.job] = s
		}
		fresh = fresh || r.state.rounds(s) == 0
	}
	var due []*step
	for _, j := range r.jobs {
		if s := fewest[j]; s != nil && (!fresh || r.state.rounds(s) == 0) {
			due = append(due, s)
		}
	}
	if len(due) == 0 {
		return nil
	}
	return slices.MinFunc(due, func(a, b *step) int { return cmp.Compare(r.spent(a.job), r.spent(b.job)) })
}

// spent returns a job's time for its share. Steps that run count as a minute.
func (r *runner) spent(j *job) float64 {
	spent := r.state.Jobs[j.name]
	for _, s := range r.running {
		if s.job == j {
			spent += time.Minute
		}
	}
	return float64(spent) / j.share
}

// start starts a round of the step. It reports false if the step must wait until nothing runs.
func (r *runner) start(ctx context.Context, s *step, ends chan<- result) bool {
	if s.alone && len(r.running) > 0 {
		return false
	}
	r.running = append(r.running, s)
	rd := round{step: s, seed: 1 + uint64(rand.Uint32()>>1), began: time.Now()} // short: people copy the seed
	go func() { ends <- execute(ctx, r.root, r.env, rd) }()
	return true
}

// end takes the result of a round.
func (r *runner) end(res result, before time.Duration) error {
	s := res.step
	r.running = slices.DeleteFunc(r.running, func(other *step) bool { return other == s })
	if res.ended {
		os.RemoveAll(res.temp)
		return nil
	}
	if res.err != nil {
		return fmt.Errorf("%s %s: %w", s.job.name, s.name, res.err)
	}
	found := s.read(s, res)
	kept := false
	if found = r.unknown(s.job, found); len(found) > 0 {
		name, err := r.keep(res)
		if err != nil {
			return err
		}
		files, err := os.ReadDir(res.temp)
		kept = err == nil && len(files) > 0
		for _, f := range found {
			f.Job, f.Seed, f.Output = s.job.name, res.seed, name
			if kept {
				f.Files = res.temp
			}
			r.state.Findings = append(r.state.Findings, f)
			r.screen.say("%s", f)
		}
	}
	if !kept {
		os.RemoveAll(res.temp)
	}
	r.state.Jobs[s.job.name] += res.took
	r.state.Rounds[key(s)]++
	r.state.Spent = before + time.Since(r.began)
	// A fuzz target that runs may have written its input into the checkout.
	if !slices.ContainsFunc(r.running, func(s *step) bool { return slices.Contains(s.flags, "-fuzz") }) {
		if err := r.unchanged(); err != nil {
			return err
		}
	}
	if r.state.Whole == 0 && r.fresh() == 0 && !r.part {
		r.state.Whole = r.state.Spent
		r.screen.say("%s: the soak is whole: each of %d steps ran once, in %s", clock(), len(r.steps),
			minutes(r.state.Whole))
	}
	return r.state.save(r.out)
}

// unchanged fails if a file of the checkout has changed since the soak began: nobody knows then which
// content the steps have tested. All of them run again, also if the change is undone.
func (r *runner) unchanged() error {
	now, err := r.content()
	if err != nil || now.tree == r.state.Tree {
		return nil // git fails if a test removes a file meanwhile; the next step asks again
	}
	r.state.Whole, r.state.Rounds = 0, map[string]int{}
	if err := r.state.save(r.out); err != nil {
		return err
	}
	return fmt.Errorf("the files of the checkout have changed since the soak of %s began; start it again, or use "+
		"another clone for the soak", r.state.Commit)
}

// unknown counts the findings that are there already, and returns the others.
func (r *runner) unknown(j *job, found []finding) []finding {
	return slices.DeleteFunc(found, func(f finding) bool {
		i := slices.IndexFunc(r.state.Findings, func(old finding) bool {
			return old.Job == j.name && old.Package == f.Package && old.Test == f.Test && old.Why == f.Why
		})
		if i >= 0 {
			r.state.Findings[i].Again++
		}
		return i >= 0
	})
}

// keep writes the output of a round into a file, and returns its name from the root.
func (r *runner) keep(res result) (string, error) {
	name := filepath.Join(r.out, strconv.Itoa(len(r.state.Findings)+1)+".txt")
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s, seed %d, %s\n\n", res.step.job.name, res.step.name, res.seed, res.took)
	fmt.Fprintf(&b, "%s\n\n", quoted(res.step.command(strconv.FormatUint(res.seed, 10), res.temp)))
	b.WriteString(plain(res.stdout) + "\n" + res.stderr)
	if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
		return "", err
	}
	return filepath.Rel(r.root, name)
}

// fresh returns the number of steps that never ran.
func (r *runner) fresh() (n int) {
	for _, s := range r.steps {
		if r.state.rounds(s) == 0 {
			n++
		}
	}
	return n
}

// opening says what is there at the start.
func (r *runner) opening() string {
	done := len(r.steps) - r.fresh()
	text := fmt.Sprintf("%s: soak of %s for %s, %d steps at the same time, %d steps in all", clock(), r.state.Commit,
		minutes(r.time), r.parallel, len(r.steps))
	if r.state.Spent > 0 {
		text += fmt.Sprintf("\nearlier runs took %s and did %d steps", minutes(r.state.Spent), done)
		for _, f := range r.state.Findings {
			text += "\n" + f.String()
		}
	}
	return text
}

// closing says what the soak came to.
func (r *runner) closing() string {
	whole := fmt.Sprintf("not whole yet: %d of %d steps never ran; run it again to continue", r.fresh(), len(r.steps))
	switch {
	case r.fresh() == 0 && r.part:
		whole = "each of the chosen steps ran at least once"
	case r.fresh() == 0:
		whole = "whole after " + minutes(r.state.Whole)
	}
	findings := "no findings"
	if n := len(r.state.Findings); n > 0 {
		findings = fmt.Sprintf("%d findings, in %s", n, filepath.Join(".build", "soak", findingsFile))
	}
	return fmt.Sprintf("%s: soak of %s, %s in all, %s; %s", clock(), r.state.Commit, minutes(r.state.Spent), whole,
		findings)
}

// progress returns a line for each job, and one for the steps that run.
func (r *runner) progress() (lines []string) {
	for _, j := range r.jobs {
		steps, done, rounds, found := 0, 0, 0, 0
		for _, s := range r.steps {
			if s.job != j {
				continue
			}
			steps++
			n := r.state.rounds(s)
			done += min(n, 1)
			rounds += n
		}
		for _, f := range r.state.Findings {
			if f.Job == j.name {
				found++
			}
		}
		if steps == 0 {
			continue
		}
		line := fmt.Sprintf("%-8s %3d %%, %d of %d steps", j.name, 100*done/steps, done, steps)
		if rounds > done {
			line += fmt.Sprintf(", %d again", rounds-done)
		}
		lines = append(lines, fmt.Sprintf("%s, %s, %d findings", line, minutes(r.state.Jobs[j.name]), found))
	}
	var now []string
	for _, s := range r.running {
		now = append(now, s.job.name+" "+s.name)
	}
	if len(now) == 0 {
		return lines
	}
	left := max(0, r.time-time.Since(r.began))
	return append(lines, fmt.Sprintf("%s left; now: %s", minutes(left), strings.Join(now, ", ")))
}

func clock() string { return time.Now().Format("15:04") }

func minutes(d time.Duration) string {
	if d < 10*time.Minute {
		return fmt.Sprintf("%.1f minutes", d.Minutes())
	}
	return fmt.Sprintf("%.0f minutes", d.Minutes())
}
