// Command soak looks for mistakes that the gate cannot find: it runs all tests with new random seeds,
// in longer forms, under the race detector, and with fuzzing and random stories, for as long as it is
// told. "make soak" calls it. Its table of jobs is in table.go.
//
//	list of steps -> choose one, by the time of its job -> run it with a new seed -> findings -> save
//
// A step is one command, mostly the tests of one package. The program saves what is done after each
// step, by the content of the checkout, so that the next run continues. One goroutine chooses and
// saves; each running step has a goroutine that waits for its command.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const usage = `Usage: make soak [SOAK_MINUTES=60] [SOAK_JOBS=race,fuzz]
   or: go -C tools run ./soak [-minutes N] [-jobs LIST] [-steps PATTERN] [-parallel N]
                              [-root DIR] [-list]

Run all tests in their long forms, with new random seeds. A test of the soak has more rounds
than in the gate, or runs only here. The jobs:

%s
The soak runs the steps of all jobs side by side. It is whole when each step has run once;
then it says so, and continues with new seeds until the time is over. No step starts after
that, and those that run may end. To continue later, start it again: the steps that are done
for this content of the checkout are in .build/soak/state.json. If a file changes, the soak
fails, and starts from the beginning next time. To forget all, remove .build/soak.

Ctrl-C ends it within seconds. A step that was running will run again.

A finding is one line, here and in .build/soak/findings.txt:

  FINDING tests internal/frontier TestModel, seed 1234: model_test.go:81: link lost;
  repeat: ORBWEAVER_SOAK=true ORBWEAVER_TEST_SEED=1234 go test ...; output: .build/soak/3.txt

That file has all that the step printed. A finding becomes a named test with a fixed seed in the gate.

The exit code is 1 if there are findings for this content, also from earlier runs; 2 if the
soak could not run; otherwise 0.

`

func main() { os.Exit(soakMain(os.Args[1:], os.Stdout, os.Stderr)) }

func soakMain(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	minutes := flags.Float64("minutes", 60, "start steps for this many minutes")
	only := flags.String("jobs", "", "run only these jobs, separated by commas (default: all)")
	names := flags.String("steps", "", "run only the steps whose name matches this regular expression (default: all)")
	parallel := flags.Int("parallel", runtime.NumCPU(), "run so many steps at the same time")
	root := flags.String("root", "..", "the checkout of Orbweaver")
	list := flags.Bool("list", false, "list the steps, and end")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), usage, describe(table))
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	fail := func(err error) int {
		fmt.Fprintln(stderr, "soak:", err)
		return 2
	}
	if flags.NArg() > 0 || *minutes < 0 || *parallel < 1 {
		return fail(fmt.Errorf("%q: give flags only, with values above 0; see -help", flags.Args()))
	}
	dir, err := filepath.Abs(*root)
	if err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	jobs, err := chosen(table, *only)
	if err != nil {
		return fail(err)
	}
	steps, err := stepsOf(ctx, dir, jobs)
	if err != nil {
		return fail(err)
	}
	pattern, err := regexp.Compile(*names)
	if err != nil {
		return fail(fmt.Errorf("-steps: %w", err))
	}
	steps = slices.DeleteFunc(steps, func(s *step) bool { return !pattern.MatchString(s.name) })
	if len(steps) == 0 {
		return fail(fmt.Errorf("-jobs %q -steps %q: no step matches; see -list", *only, *names))
	}
	if *list {
		for _, s := range steps {
			fmt.Fprintf(stdout, "%s\t%s\t%s\n", s.job.name, s.name, strings.Join(s.command(seedWord, tempWord), " "))
		}
		return 0
	}
	out := filepath.Join(dir, ".build", "soak")
	unlock, err := lock(out)
	if err != nil {
		return fail(err)
	}
	defer unlock()
	tree, err := contentOf(ctx, dir, out)
	if err != nil {
		return fail(err)
	}
	r := &runner{
		root: dir, out: out, jobs: jobs, steps: steps, parallel: *parallel,
		time: time.Duration(*minutes * float64(time.Minute)), env: environment(),
		part:    *only != "" || *names != "",
		content: func() (content, error) { return contentOf(context.WithoutCancel(ctx), dir, out) },
	}
	if r.state, err = load(out, tree); err != nil {
		return fail(err)
	}
	r.screen = newScreen(stdout)
	for _, line := range lacks(r.env) {
		r.screen.say("%s", line)
	}
	if err := r.run(ctx); err != nil {
		return fail(err)
	}
	if len(r.state.Findings) > 0 {
		return 1
	}
	return 0
}

// environment returns the environment of all steps: places of foreign programs, as in .ci/run, and
// the variables that make tests run in the soak and fail if the machine lacks something.
func environment() []string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	env := append(os.Environ(), "ORBWEAVER_SOAK=true", "CI=true")
	if os.Getenv("GOFLAGS") == "" {
		env = append(env, "GOFLAGS=-trimpath") // as in .ci/run: one build serves the tests and the release
	}
	for name, dir := range map[string]string{
		venvVariable: "orbweaver-venv", urlFrontierVariable: "orbweaver-urlfrontier",
		judgesVariable: "orbweaver-judges",
	} {
		if os.Getenv(name) == "" {
			env = append(env, name+"="+filepath.Join(cache, dir))
		}
	}
	return env
}

const (
	venvVariable        = "ORBWEAVER_VENV"
	urlFrontierVariable = "ORBWEAVER_URLFRONTIER"
	judgesVariable      = "ORBWEAVER_JUDGES"
)
