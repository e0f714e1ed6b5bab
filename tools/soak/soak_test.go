package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell returns a step that runs a script; the script prints what go test -json prints.
func shell(j *job, name, script string) *step {
	return &step{job: j, name: name, module: ".", pkg: "./" + name, dir: name, limit: time.Minute,
		args: []string{"sh", "-c", script}, read: readTests}
}

// fake returns a runner of steps, with the state of earlier runners of the folder.
func fake(t *testing.T, out string, steps ...*step) (*runner, *bytes.Buffer) {
	t.Helper()
	st, err := load(out, content{"tree", "commit"})
	if err != nil {
		t.Fatal(err)
	}
	var screen bytes.Buffer
	r := &runner{root: out, out: out, steps: steps, parallel: 1, env: os.Environ(), state: st,
		screen: newScreen(&screen), content: func() (content, error) { return content{tree: "tree"}, nil }}
	for _, s := range steps {
		if s.root = out; !slices.Contains(r.jobs, s.job) {
			r.jobs = append(r.jobs, s.job)
		}
	}
	return r, &screen
}

// runUntil runs the steps until a file exists, and stops then.
func runUntil(t *testing.T, r *runner, file string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r.time = time.Hour
	done := make(chan error, 1)
	go func() { done <- r.run(ctx) }()
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			break
		} else if time.Now().After(limit) {
			t.Fatalf("after 30 s there is no %s", file)
		}
	}
	stop()
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the soak does not end")
	}
}

// A soak that is stopped kills its processes, also those in other groups, and keeps what it found.
// The next one runs what is left.
func TestStopAndContinue(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes in other groups are found only on Linux")
	}
	out := t.TempDir()
	file := func(name string) string { return filepath.Join(out, name) }
	j := &job{name: "tests", share: 1}
	fails := shell(j, "a", fmt.Sprintf(`echo a >>%s
printf '%%s\n' '{"Action":"output","Test":"TestX/1","Output":"    x_test.go:7: lost\n"}'
echo '{"Action":"fail","Test":"TestX/1"}'
echo '{"Action":"fail","Test":"TestX"}'
exit 1`, file("log")))
	hangs := shell(j, "b", fmt.Sprintf(`setsid sh -c 'echo $$ >%[1]s; sleep 600; true' &
while ! [ -s %[1]s ]; do sleep 0.01; done; touch %[2]s; sleep 600`, file("pid"), file("started")))
	r, screen := fake(t, out, fails, hangs)
	runUntil(t, r, file("started"))

	pid := strings.TrimSpace(read(t, file("pid")))
	if text, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && len(text) > 0 {
		t.Errorf("process %s of another group runs after the end", pid)
	}
	f := r.state.Findings
	if len(f) != 1 || f[0].Test != "TestX/1" || f[0].Why != "x_test.go:7: lost" || f[0].Seed == 0 {
		t.Fatalf("findings: %+v", f)
	}
	repeat := fmt.Sprintf("ORBWEAVER_SOAK=true ORBWEAVER_TEST_SEED=%d go test -count=1 -vet=off -run '^(TestX)$' ./a",
		f[0].Seed)
	if f[0].Repeat != repeat {
		t.Errorf("it repeats with %s\nwant %s", f[0].Repeat, repeat)
	}
	if text := read(t, file(f[0].Output)); !strings.HasSuffix(text, "\n\n    x_test.go:7: lost\n\n") {
		t.Errorf("the output of the finding:\n%s", text)
	}
	line := f[0].String()
	if got := read(t, file(findingsFile)); got != line+"\n" {
		t.Errorf("%s: %q", findingsFile, got)
	}
	for _, want := range []string{line, "not whole yet: 1 of 2 steps never ran"} {
		if !strings.Contains(screen.String(), want+"\n") && !strings.Contains(screen.String(), want+";") {
			t.Errorf("the screen lacks %q:\n%s", want, screen)
		}
	}

	// The second soak begins with the step that was stopped. Then the soak is whole, and all begins again.
	hangs.args = []string{"sh", "-c", "echo b >>" + file("log")}
	again := shell(j, "c", fmt.Sprintf(`echo c >>%s; [ $(wc -l <%[1]s) -lt 5 ] || touch %s`, file("log"),
		file("enough")))
	r, screen = fake(t, out, fails, hangs, again)
	runUntil(t, r, file("enough"))
	if got := strings.Join(strings.Fields(read(t, file("log"))), ""); !strings.HasPrefix(got, "abcabc"[:5]) {
		t.Errorf("the steps ran in the order %s, want abcab...", got)
	}
	for _, want := range []string{"did 1 steps\n" + line, "the soak is whole: each of 3 steps ran once"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("the screen lacks %q:\n%s", want, screen)
		}
	}

	if f := r.state.Findings; len(f) != 1 || f[0].Again < 1 || f[0].Seed == 0 {
		t.Errorf("a finding that comes again: %+v", f)
	}

	// Another content of the checkout begins anew.
	st, err := load(out, content{"other", "commit"})
	if err != nil || len(st.Findings) > 0 || len(st.Rounds) > 0 {
		t.Errorf("the state of another content: %+v, %v", st, err)
	}
	if _, err := os.Stat(file(f[0].Output)); err == nil {
		t.Error("the output of an earlier content's finding remains")
	}
}

// A soak that fails ends the steps that run. If the checkout changes meanwhile, the soak fails. Then all steps run
// again, and the findings stay.
func TestChanged(t *testing.T) {
	out := t.TempDir()
	file := func(name string) string { return filepath.Join(out, name) }
	j := &job{name: "tests", share: 1}
	fails := shell(j, "a", `echo '{"Action":"fail","Test":"TestX"}'; exit 1`)
	changes := shell(j, "b", "touch "+file("changed"))
	hangs := shell(j, "c", fmt.Sprintf("echo $$ >%s; exec sleep 600", file("pid")))
	changes.args[2] = fmt.Sprintf("while ! [ -s %s ]; do sleep 0.01; done; %s", file("pid"), changes.args[2])
	r, screen := fake(t, out, fails, hangs, changes)
	r.parallel, r.time = 2, time.Hour
	r.content = func() (content, error) {
		if _, err := os.Stat(file("changed")); err == nil {
			return content{tree: "other"}, nil
		}
		return content{tree: "tree"}, nil
	}
	if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "have changed") {
		t.Errorf("%v\n%s", err, screen)
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(read(t, file("pid")))); err != nil || syscall.Kill(pid, 0) == nil {
		t.Errorf("process %d runs after the end (%v)", pid, err)
	}
	st, err := load(out, content{"tree", "commit"})
	if err != nil || len(st.Rounds) > 0 || st.Whole > 0 || len(st.Findings) != 1 {
		t.Errorf("%+v, %v", st, err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The job with the least time for its share comes next, and steps that never ran come first. A step
// that needs the machine for itself waits until nothing runs.
func TestNext(t *testing.T) {
	big, small := &job{name: "big", share: 3}, &job{name: "small", share: 1}
	b1, b2, s1 := shell(big, "1", ""), shell(big, "2", ""), shell(small, "1", "")
	r, _ := fake(t, t.TempDir(), b1, b2, s1)
	want := func(s *step) {
		t.Helper()
		if got := r.next(); got != s {
			t.Errorf("next is %+v, want %+v", got, s)
		}
	}
	want(b1)
	r.state.Jobs["big"] = 2 * time.Minute
	want(s1)
	r.state.Jobs["small"] = time.Minute
	want(b1)
	r.running = []*step{b1}
	want(b2)
	r.running, r.state.Rounds = nil, map[string]int{key(b1): 1, key(s1): 1}
	r.state.Jobs["big"] = time.Hour
	want(b2)
	r.state.Rounds[key(b2)] = 1
	want(s1)
	s1.alone = true
	r.running = []*step{b1}
	if r.start(t.Context(), s1, nil) {
		t.Error("a step that needs the machine for itself started beside another")
	}
	r.running = []*step{s1}
	want(nil)
}

// repository makes a repository with one module, and makes it that of soakMain. Its test writes its
// seed, and fails if its folder has the file "fail".
func repository(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	t.Setenv("ORBWEAVER_REPO", root)
	for name, text := range map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.26\n", ".gitignore": "/.build/\n/seeds\n",
		"m_test.go": `package m

import (
	"os"
	"testing"
)

func TestM(t *testing.T) {
	f, _ := os.OpenFile("seeds", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	defer f.Close()
	f.WriteString(os.Getenv("ORBWEAVER_SOAK") + os.Getenv("ORBWEAVER_TEST_SEED") + "\n")
	if _, err := os.Stat("fail"); err == nil {
		t.Log("no error")
		t.Error("an error")
	}
}
`} {
		write(t, filepath.Join(root, name), text)
	}
	git(t, root, "init", "-q")
	git(t, root, "add", "-A")
	git(t, root, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "m")
	oldTable, oldModules := table, modules
	table, modules = []*job{{name: "tests", share: 1, steps: testSteps}}, []string{"."}
	t.Cleanup(func() { table, modules = oldTable, oldModules })
	return root
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", args, err, out)
	}
}

// The whole program, with the go command: rounds with new seeds until a signal, a finding, its exit code.
func TestSoakMain(t *testing.T) {
	root := repository(t)
	var out, errs bytes.Buffer
	soak := func(args ...string) int {
		out.Reset()
		return soakMain(append(args, "-root", root), &out, &errs)
	}
	seeds := func() []string { b, _ := os.ReadFile(filepath.Join(root, "seeds")); return strings.Fields(string(b)) }
	code := make(chan int)
	go func() { code <- soak("-parallel", "1") }()
	for len(seeds()) < 2 {
		select {
		case c := <-code:
			t.Fatalf("it ends with %d:\n%s%s", c, &out, &errs)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if c := <-code; c != 0 {
		t.Errorf("after a signal: exit code %d\n%s%s", c, &out, &errs)
	}
	if got := seeds(); got[0] == got[1] || !strings.HasPrefix(got[0], "true") {
		t.Errorf("the seeds of two rounds, each after true: %q", got)
	}
	if !strings.Contains(out.String(), "whole after") || !strings.Contains(out.String(), "no findings") {
		t.Errorf("it says:\n%s", &out)
	}

	// A new file is another content.
	write(t, filepath.Join(root, "fail"), "")
	if c := soak("-minutes", "0.0001", "-parallel", "1"); c != 1 {
		t.Errorf("with a finding: exit code %d\n%s%s", c, &out, &errs)
	}
	for _, want := range []string{"with changes", "TestM, seed ", ": m_test.go:14: an error; repeat: ORBWEAVER_"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, &out)
		}
	}
	if c := soak("-minutes", "0"); c != 1 || !strings.Contains(out.String(), "m_test.go:14: an error") {
		t.Errorf("the next soak does not show the finding: exit code %d\n%s", c, &out)
	}
	if c := soak("-jobs", "none"); c != 2 || !strings.Contains(errs.String(), `there is no job "none"`) {
		t.Errorf("a wrong job: exit code %d\n%s", c, &errs)
	}
	if c := soak("-steps", "none"); c != 2 || !strings.Contains(errs.String(), "no step matches") {
		t.Errorf("a pattern without steps: exit code %d\n%s", c, &errs)
	}
	errs.Reset()
	if c := soak("-help"); c != 0 || !strings.Contains(errs.String(), "SOAK_MINUTES") {
		t.Errorf("-help: exit code %d\n%s", c, &errs)
	}
}

// Two soaks do not share a folder.
func TestLock(t *testing.T) {
	out := t.TempDir()
	unlock, err := lock(out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock(out); err == nil || !strings.Contains(err.Error(), "another soak") {
		t.Errorf("the second lock: %v", err)
	}
	unlock()
	if unlock, err = lock(out); err != nil {
		t.Fatal(err)
	}
	unlock()
}
