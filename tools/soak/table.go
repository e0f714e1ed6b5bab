package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A job is a row of the table: a kind of search for mistakes.
type job struct {
	name string
	what string
	// share is the part of the time that the job gets, in relation to those of the others.
	share float64
	// steps returns the job's steps for the packages of the checkout.
	steps func(j *job, packages []pack) []*step
}

// table lists all jobs.
var table = []*job{
	{name: "tests", share: 5, steps: testSteps,
		what: "all tests of all modules: random stories, network namespaces, power failures,\n" +
			"long property tests, other people's judges"},
	{name: "race", share: 5, steps: raceSteps,
		what: "the same under the race detector"},
	{name: "fuzz", share: 2, steps: fuzzSteps,
		what: "each fuzz target for some seconds; go keeps the corpus in its cache"},
	{name: "calls", share: 2, steps: callSteps,
		what: "mutated calls of readers, operators and other agents to whole agents"},
	{name: "stories", share: 2, steps: storySteps,
		what: `random stories of "orblab chaos": agents and clusters with faults, in virtual time`},
	{name: "measures", share: 1, steps: measureSteps,
		what: "tests that compare times or memory; nothing runs beside them"},
}

// describe returns the jobs for the help text.
func describe(jobs []*job) string {
	var b strings.Builder
	for _, j := range jobs {
		fmt.Fprintf(&b, "  %-9s %s\n", j.name, strings.ReplaceAll(j.what, "\n", "\n"+strings.Repeat(" ", 12)))
	}
	return b.String()
}

// chosen returns the jobs in a list of names, separated by commas. An empty list chooses all.
func chosen(jobs []*job, names string) ([]*job, error) {
	if names == "" {
		return jobs, nil
	}
	var list []*job
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(jobs, func(j *job) bool { return j.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("-jobs %s: there is no job %q; see -help", names, name)
		}
		list = append(list, jobs[i])
	}
	return list, nil
}

// A step is one command of a job.
type step struct {
	job    *job
	name   string   // unique in the job
	module string   // the folder of its module
	pkg    string   // the package, from its module
	root   string   // the checkout
	dir    string   // the package's folder, from the root
	tests  []string // top-level tests; nil: all of the package
	skip   string   // a pattern of tests to leave out; the command that repeats a finding lacks it
	flags  []string // of go test, before the package
	own    []string // of the test program, after the package
	env    []string
	alone  bool // nothing runs beside it
	limit  time.Duration
	args   []string                          // the command, if it is not go test; see seedWord
	read   func(s *step, r result) []finding // finds what a round found
}

// seedWord and tempWord stand for the seed and the folder of a round in args.
const seedWord, tempWord = "SEED", "DIR"

// command returns the command of a round, to run in the root. The seed is in the environment, too.
// The folder temp is removed after the round, unless there are findings.
func (s *step) command(seed, temp string) []string {
	if s.args == nil {
		more := []string{"-json", "-timeout", s.limit.String()}
		if s.skip != "" {
			more = append(more, "-skip", s.skip)
		}
		return s.goTest(s.tests, more...)
	}
	args := slices.Clone(s.args)
	for i, a := range args {
		switch a {
		case seedWord:
			args[i] = seed
		case tempWord:
			args[i] = temp
		}
	}
	return args
}

// goTest returns the command of go test that runs these tests of the package; nil: all.
func (s *step) goTest(tests []string, more ...string) []string {
	args := []string{"go"}
	if s.module != "." {
		args = append(args, "-C", s.module)
	}
	args = append(args, "test", "-count=1", "-vet=off")
	args = append(args, more...)
	if len(tests) > 0 {
		args = append(args, "-run", "^("+strings.Join(tests, "|")+")$")
	}
	args = append(args, s.flags...)
	return append(append(args, s.pkg), s.own...)
}

// A pack is a package with tests.
type pack struct {
	module string
	path   string // from the module, such as ./internal/hours
	dir    string // from the root
	tests  []string
	idle   []string // the tests that call testtier.OnlyIdle
	fuzz   []string
}

// modules lists the folders of all modules.
var modules = []string{".", "lab", "tools"}

// stepsOf returns the steps of the jobs.
func stepsOf(ctx context.Context, root string, jobs []*job) ([]*step, error) {
	var packages []pack
	for _, module := range modules {
		ps, err := packagesOf(ctx, root, module)
		if err != nil {
			return nil, err
		}
		packages = append(packages, ps...)
	}
	var steps []*step
	for _, j := range jobs {
		for _, s := range j.steps(j, packages) {
			s.root = root
			steps = append(steps, s)
		}
	}
	return steps, nil
}

// packagesOf lists the packages of a module that have tests.
func packagesOf(ctx context.Context, root, module string) ([]pack, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=Dir,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir, cmd.Stderr = filepath.Join(root, module), os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list ./... in %s: %w", cmd.Dir, err)
	}
	base, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	var packages []pack
	for d := json.NewDecoder(strings.NewReader(string(text))); ; {
		var l struct {
			Dir                       string
			TestGoFiles, XTestGoFiles []string
		}
		if err := d.Decode(&l); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		files := append(l.TestGoFiles, l.XTestGoFiles...)
		if len(files) == 0 {
			continue
		}
		folder, err := filepath.EvalSymlinks(l.Dir)
		if err != nil {
			return nil, err
		}
		p := pack{module: module}
		if p.dir, err = filepath.Rel(base, folder); err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(filepath.Join(base, module), folder)
		if err != nil {
			return nil, err
		}
		if p.path = "."; rel != "." {
			p.path = "./" + filepath.ToSlash(rel)
		}
		for _, name := range files {
			text, err := os.ReadFile(filepath.Join(l.Dir, name))
			if err != nil {
				return nil, err
			}
			p.add(string(text))
		}
		packages = append(packages, p)
	}
}

// The declarations of tests. The formatter puts the end of a function in the first column.
var (
	testDecl = regexp.MustCompile(`(?ms)^func ((?:Test|Fuzz)\w*)\(\w+ \*testing\.[TF]\) \{.*?^\}`)
	oneLine  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\(\w+ \*testing\.[TF]\) \{.*\}$`)
	example  = regexp.MustCompile(`(?m)^func (Example\w*)\(\) \{`)
)

// add adds the tests in the text of a file.
func (p *pack) add(text string) {
	for _, m := range oneLine.FindAllStringSubmatch(text, -1) {
		p.test(m[1], m[0])
	}
	text = oneLine.ReplaceAllString(text, "")
	for _, m := range testDecl.FindAllStringSubmatch(text, -1) {
		p.test(m[1], m[0])
	}
	for _, m := range example.FindAllStringSubmatch(text, -1) {
		p.tests = append(p.tests, m[1])
	}
}

func (p *pack) test(name, body string) {
	if strings.Contains(body, "testtier.OnlyIdle(") {
		p.idle = append(p.idle, name)
	}
	p.tests = append(p.tests, name)
	if strings.HasPrefix(name, "Fuzz") {
		p.fuzz = append(p.fuzz, name)
	}
}

// longest bounds the tests of one step. On a busy machine, the named stories take half an hour with the race detector.
const longest = 60 * time.Minute

// parts are the packages whose tests take long. Each of their steps has so many tests. Under the
// race detector a process with too many simulated crawls ends with a failure of the detector's own
// runtime (CHECK failed: tsan_rtl.cpp:346, Go 1.26).
var parts = map[string]int{"e2e": 6, "internal/testkit/sim": 8, "cmd/orbweaver": 24, "internal/node": 40}

// busy is the environment of steps that run beside others: testtier.OnlyIdle skips there.
var busy = []string{"ORBWEAVER_SOAK_BUSY=true"}

func testSteps(j *job, packages []pack) []*step { return goSteps(j, packages, parts) }

// text matches the tests that compare texts or sources. They start few goroutines of ours, so that
// the race detector finds nothing in them.
const text = `^Test(Scripts|Document.*|Reference.*|Completion.*|Mistakes|ManualPages|Licenses|` +
	`Vet|Layers.*|ImportsFall|NoCgo|Formatted|LinesAreShort|FilesAreShort|NamedPackages|PackageComments)$`

func raceSteps(j *job, packages []pack) []*step {
	smaller := map[string]int{}
	for dir, n := range parts {
		smaller[dir] = max(1, n/2)
	}
	smaller["internal/testkit/sim"] = 1
	steps := goSteps(j, packages, smaller)
	for _, s := range steps {
		s.flags, s.skip = append(s.flags, "-race"), text
		s.env = append(s.env, "RAPID_CHECKS=100") // the job "tests" looks for rare values
		switch s.dir {
		case "e2e":
			s.own = []string{"-raced"} // the program, too
		case "internal/testkit/sim":
			s.own = []string{"-stories", "4", "-alone", "10"} // more of them end the detector, see parts
		}
	}
	return steps
}

// goSteps returns a step for each package, and several for those in parts.
func goSteps(j *job, packages []pack, parts map[string]int) []*step {
	var steps []*step
	for _, p := range packages {
		s := step{job: j, name: filepath.ToSlash(p.dir), module: p.module, pkg: p.path, dir: p.dir, env: busy,
			limit: longest, read: readTests}
		n, ok := parts[s.name]
		if !ok || len(p.tests) <= n {
			steps = append(steps, &s)
			continue
		}
		i := 0
		for tests := range slices.Chunk(p.tests, n) {
			i++
			part := s
			part.name, part.tests = fmt.Sprintf("%s %d/%d", s.name, i, (len(p.tests)+n-1)/n), tests
			steps = append(steps, &part)
		}
	}
	return steps
}

func measureSteps(j *job, packages []pack) []*step {
	var steps []*step
	for _, p := range packages {
		if len(p.idle) == 0 {
			continue
		}
		steps = append(steps, &step{job: j, name: filepath.ToSlash(p.dir), module: p.module, pkg: p.path, dir: p.dir,
			tests: p.idle, alone: true, limit: longest, read: readTests})
	}
	return steps
}

// fuzzTime is the time of a fuzz target in one step.
const fuzzTime = 10 * time.Second

func fuzzSteps(j *job, packages []pack) []*step {
	var steps []*step
	for _, p := range packages {
		for _, target := range p.fuzz {
			steps = append(steps, &step{job: j, name: filepath.ToSlash(p.dir) + " " + target, module: p.module,
				pkg: p.path, dir: p.dir, tests: []string{target}, limit: longest, env: busy, read: readFuzz,
				// Without the last flag, go may spend the whole time on making one input smaller.
				flags: []string{"-fuzz", "^" + target + "$", "-fuzztime", fuzzTime.String(), "-parallel", "1",
					"-fuzzminimizetime", "1s"}})
		}
	}
	return steps
}

// mutatedCalls is the test of the job "calls". Each run draws new calls.
const mutatedCalls = "TestMutatedCalls"

func callSteps(j *job, packages []pack) []*step {
	var steps []*step
	for _, p := range packages {
		if slices.Contains(p.tests, mutatedCalls) {
			steps = append(steps, &step{job: j, name: filepath.ToSlash(p.dir), module: p.module, pkg: p.path,
				dir: p.dir, tests: []string{mutatedCalls}, limit: longest, env: busy, read: readTests})
		}
	}
	return steps
}

// The stories of one pass. orblab makes the plan of a story that fails smaller, which may take minutes.
const (
	storySlices = 5
	storyTime   = 2 * time.Minute
)

func storySteps(j *job, _ []pack) []*step {
	var steps []*step
	for i := range storySlices {
		steps = append(steps, &step{job: j, name: strconv.Itoa(i+1) + "/" + strconv.Itoa(storySlices), module: "lab",
			pkg: "orblab chaos", limit: longest, read: readStories, args: []string{"go", "-C", "lab", "run",
				"./cmd/orblab", "chaos", "--for", storyTime.String(), "--seed", seedWord, "--jobs", "1",
				"--keep", tempWord, "--out", tempWord}})
	}
	return steps
}
