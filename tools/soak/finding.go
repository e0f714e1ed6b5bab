package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A finding is a test or a story that failed.
type finding struct {
	Job, Package, Test string
	Seed               uint64
	Why                string // the first line of the failure
	Repeat             string // a command for a shell in the root of the checkout
	Output             string // the file with the output, from the root
	Files              string // the folder of the files that it left, or empty
	Again              int    // how often it came again, with other seeds
}

// String returns the line that people read.
func (f finding) String() string {
	text := fmt.Sprintf("FINDING %s %s %s, seed %d: %s; repeat: %s; output: %s",
		f.Job, f.Package, f.Test, f.Seed, f.Why, f.Repeat, f.Output)
	if f.Files != "" {
		text += "; files: " + f.Files
	}
	if f.Again > 0 {
		text += fmt.Sprintf("; %d times again, with other seeds", f.Again)
	}
	return text
}

// An event is a line that go test -json writes.
type event struct {
	Action, Package, Test, Output, ImportPath string
}

func events(text string) (list []event) {
	for line := range strings.Lines(text) {
		var e event
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &e) == nil {
			list = append(list, e)
		} else {
			list = append(list, event{Action: "output", Output: line})
		}
	}
	return list
}

// plain returns what go test prints without -json. Other text stays.
func plain(text string) string {
	var b strings.Builder
	for _, e := range events(text) {
		b.WriteString(e.Output)
	}
	return b.String()
}

// readTests returns a finding for each top-level test that failed, or one for the package.
func readTests(s *step, r result) []finding {
	if r.code == 0 && !r.late {
		return nil
	}
	output := map[string]string{} // of each test; "": of the package
	var failed []string
	for _, e := range events(r.stdout) {
		output[e.Test] += e.Output
		if e.Action == "fail" && e.Test != "" {
			failed = append(failed, e.Test)
		}
	}
	var found []finding
	seen := map[string]bool{}
	for _, test := range failed { // a subtest comes before its parent
		top, _, _ := strings.Cut(test, "/")
		if seen[top] {
			continue
		}
		seen[top] = true
		found = append(found, finding{
			Package: s.dir, Test: test, Why: s.why(output[test]),
			Repeat: withSeed(r.seed, s.goTest([]string{top})),
		})
	}
	if len(found) == 0 {
		why := s.why(output[""] + r.stderr)
		if r.late {
			why = "the command did not end in " + r.took.String()
		}
		found = append(found, finding{
			Package: s.dir, Test: "(no test)", Why: why,
			Repeat: withSeed(r.seed, s.goTest(s.tests)),
		})
	}
	return found
}

var (
	grave = regexp.MustCompile(
		`(?m)WARNING: DATA RACE|^panic: |^fatal error: |CHECK failed|\[build failed\]|^SIG[A-Z]+:`)
	message = regexp.MustCompile(`^\s*([\w.-]+\.go):(\d+): (.*)`)
	errs    = regexp.MustCompile(`\.(Error|Fatal)f?\(`)
	logs    = regexp.MustCompile(`\.(Log|Skip)f?\(`)
)

// why returns the first line of the failure in a test's output: a panic or a data race, otherwise
// the first message of an error. Logs look like errors, but the source tells them apart.
func (s *step) why(output string) string {
	best, rank := "", 0
	take := func(r int, text string) {
		if r > rank {
			best, rank = strings.TrimSpace(text), r
		}
	}
	lines := strings.Split(output, "\n")
	for i, line := range lines {
		if grave.MatchString(strings.TrimSpace(line)) {
			if strings.Contains(line, "DATA RACE") {
				line += place(lines[i:])
			}
			take(5, line)
		}
		if m := message.FindStringSubmatch(line); m != nil && !strings.HasPrefix(m[3], "seed: ") {
			source := s.source(m[1], m[2])
			switch {
			case errs.MatchString(source):
				take(4, line)
			case logs.MatchString(source):
				take(2, line)
			default: // a helper that prints the place of its caller
				take(3, line)
			}
		}
		if t := strings.TrimSpace(line); t != "" && !strings.HasPrefix(t, "=== ") && !strings.HasPrefix(t, "--- ") &&
			t != "FAIL" && t != "PASS" && !strings.HasPrefix(t, "ok ") {
			take(1, line)
		}
	}
	if rank == 0 {
		return "it failed without a message"
	}
	const most = 200
	if runes := []rune(best); len(runes) > most {
		best = string(runes[:most]) + "..."
	}
	return best
}

// place returns the first line of a report of the race detector that names a function of ours.
func place(lines []string) string {
	for _, line := range lines {
		if t := strings.TrimSpace(line); strings.HasPrefix(t, "github.com/orbweaver/orbweaver") {
			return " in " + t
		}
	}
	return ""
}

// source returns a line of a file of the step's package, or "".
func (s *step) source(file, line string) string {
	text, err := os.ReadFile(filepath.Join(s.root, s.dir, file))
	if err != nil {
		return ""
	}
	n, err := strconv.Atoi(line)
	if lines := strings.Split(string(text), "\n"); err == nil && n >= 1 && n <= len(lines) {
		return lines[n-1]
	}
	return ""
}

var (
	written = regexp.MustCompile(`Failing input written to (testdata/fuzz/\S+)`)
	limit   = regexp.MustCompile(`(?m)^\s*context deadline exceeded$`) // a message of a test has its place before it
)

// readFuzz returns the finding of a fuzz target. It moves the input that fails out of the checkout,
// which must not change while the soak runs.
func readFuzz(s *step, r result) []finding {
	found := readTests(s, r)
	text := plain(r.stdout)
	m := written.FindStringSubmatch(text)
	if m == nil {
		if limit.MatchString(text) && !grave.MatchString(text) {
			return nil // of fuzzing that ends at the limit: go.dev/issue/75804
		}
		return found
	}
	from, to := filepath.Join(s.root, s.dir, m[1]), filepath.Join(r.temp, filepath.Base(m[1]))
	input, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, input, 0o644)
	}
	if err == nil {
		err = os.Remove(from)
	}
	for i := range found {
		folder := filepath.Join(s.dir, filepath.Dir(m[1]))
		args := slices.DeleteFunc(s.goTest([]string{s.tests[0] + "/" + filepath.Base(m[1])}), func(a string) bool {
			return slices.Contains(s.flags, a)
		})
		found[i].Repeat = fmt.Sprintf("mkdir -p %s && cp %s %s && %s", folder, to, folder, quoted(args))
		if err != nil {
			found[i].Why += fmt.Sprintf(" (the input is lost: %v)", err)
		}
	}
	return found
}

var story = regexp.MustCompile(`seed (\d+) failed: (.*); see (\S+)`)

// readStories returns a finding for each story of orblab that failed.
func readStories(s *step, r result) (found []finding) {
	for line := range strings.Lines(r.stdout + "\n" + r.stderr) {
		if m := story.FindStringSubmatch(line); m != nil {
			found = append(found, finding{Package: s.pkg, Test: "story " + m[1], Why: m[2],
				Repeat: "go -C lab run ./cmd/orblab chaos --stories 1 --seed " + m[1]})
		}
	}
	if len(found) == 0 && (r.code != 0 || r.late) {
		lines := strings.Split(strings.TrimSpace(r.stdout+"\n"+r.stderr), "\n")
		found = append(found, finding{Package: s.pkg, Test: "(no story)", Why: lines[len(lines)-1],
			Repeat: quoted(s.command(strconv.FormatUint(r.seed, 10), os.TempDir()))})
	}
	return found
}
