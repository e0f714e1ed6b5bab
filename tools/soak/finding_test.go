package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The line of a finding has the failure, not what the test logs before it.
func TestWhy(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "x_test.go"), "t.Log(plan)\nt.Errorf(\"no\")\ncheck(t, 1)\n")
	s := &step{root: root, dir: "."}
	for _, c := range []struct{ output, want string }{
		{"=== RUN   TestX\n    x_test.go:1: a plan\n    x_test.go:2: broken\n--- FAIL: TestX (0.0s)\n",
			"x_test.go:2: broken"},
		{"    x_test.go:1: a plan\n    x_test.go:3: by a helper\n", "x_test.go:3: by a helper"},
		{"    x_test.go:3: seed: ORBWEAVER_TEST_SEED=1\n    x_test.go:1: a plan\n", "x_test.go:1: a plan"},
		{"    x_test.go:2: broken\npanic: runtime error [recovered]\n", "panic: runtime error [recovered]"},
		{"WARNING: DATA RACE\nWrite at 0x1 by goroutine 7:\n  runtime.mapassign()\n" +
			"  github.com/orbweaver/orbweaver/a.F()\n",
			"WARNING: DATA RACE in github.com/orbweaver/orbweaver/a.F()"},
		{"# a\n./a.go:1:1: undefined: f\nFAIL\ta [build failed]\n", "FAIL\ta [build failed]"},
		{"--- FAIL: TestX (0.0s)\n", "it failed without a message"},
		{"    x_test.go:2: " + strings.Repeat("é", 300), "x_test.go:2: " + strings.Repeat("é", 187) + "..."},
	} {
		if got := s.why(c.output); got != c.want {
			t.Errorf("of %q:\ngot  %s\nwant %s", c.output, got, c.want)
		}
	}
}

// A package that fails without a test is a finding of the step, and one finding stands for a test
// with all its subtests.
func TestReadTests(t *testing.T) {
	s := &step{job: table[0], module: "lab", pkg: "./a", dir: "lab/a", tests: []string{"TestA", "TestB"}}
	for _, c := range []struct {
		stdout string
		want   []string
	}{
		{`{"Action":"fail","Test":"TestA/1"}` + "\n" + `{"Action":"fail","Test":"TestA/2"}` + "\n" +
			`{"Action":"fail","Test":"TestA"}` + "\n" + `{"Action":"fail","Test":"TestB"}`,
			[]string{"TestA/1 ^(TestA)$", "TestB ^(TestB)$"}},
		{`{"Action":"output","Output":"exit status 2\n"}`, []string{"(no test) ^(TestA|TestB)$"}},
	} {
		var got []string
		for _, f := range readTests(s, result{stdout: c.stdout, code: 1}) {
			_, pattern, _ := strings.Cut(f.Repeat, "go -C lab test -count=1 -vet=off -run '")
			pattern, _, _ = strings.Cut(pattern, "' ./a")
			got = append(got, f.Test+" "+pattern)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("of %s:\ngot  %q\nwant %q", c.stdout, got, c.want)
		}
	}
	if got := readTests(s, result{}); got != nil {
		t.Errorf("of success: %+v", got)
	}
}

// The input that a fuzz target found leaves the checkout. The finding says how to bring it back.
func TestReadFuzz(t *testing.T) {
	root, temp := t.TempDir(), t.TempDir()
	folder := filepath.Join(root, "a", "testdata", "fuzz", "FuzzX")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "0123"), "input")
	s := fuzzSteps(table[2], []pack{{module: ".", path: "./a", dir: "a", fuzz: []string{"FuzzX"}}})[0]
	s.root = root
	r := result{round: round{temp: temp}, code: 1, stdout: `{"Action":"output","Test":"FuzzX",` +
		`"Output":"    --- FAIL: FuzzX\n        x_test.go:1: bad\n    Failing input written to testdata/fuzz/FuzzX/0123\n"}
{"Action":"fail","Test":"FuzzX"}`}
	found := readFuzz(s, r)
	input := filepath.Join(temp, "0123")
	want := "mkdir -p a/testdata/fuzz/FuzzX && cp " + input + " a/testdata/fuzz/FuzzX && " +
		"go test -count=1 -vet=off -run '^(FuzzX/0123)$' ./a"
	if len(found) != 1 || found[0].Why != "x_test.go:1: bad" || found[0].Repeat != want {
		t.Errorf("got %+v\nwant to repeat it with %s", found, want)
	}
	if read(t, input) != "input" {
		t.Error("the input is not kept")
	}
	if left, _ := os.ReadDir(folder); len(left) > 0 {
		t.Error("the input remains in the checkout")
	}
	r.stdout = `{"Action":"output","Test":"FuzzX","Output":"context deadline exceeded\n"}` + "\n" +
		`{"Action":"fail","Test":"FuzzX"}`
	if found := readFuzz(s, r); found != nil {
		t.Errorf("fuzzing that ends at its limit: %+v", found)
	}
	for _, text := range []string{"x_test.go:1: context deadline exceeded", "context deadline exceeded\\npanic: bad"} {
		r.stdout = `{"Action":"output","Test":"FuzzX","Output":"` + text + `\n"}` + "\n" +
			`{"Action":"fail","Test":"FuzzX"}`
		if found := readFuzz(s, r); len(found) != 1 {
			t.Errorf("%s: %+v", text, found)
		}
	}
}

func TestReadStories(t *testing.T) {
	s := storySteps(table[3], nil)[0]
	found := readStories(s, result{code: 1,
		stdout: "stories from seed 7 on   3.1 s  seed 9 failed: 2 pages missed; see /tmp/x.log\n"})
	if len(found) != 1 || found[0].Test != "story 9" || found[0].Why != "2 pages missed" ||
		!strings.HasSuffix(found[0].Repeat, "chaos --stories 1 --seed 9") {
		t.Errorf("got %+v", found)
	}
	found = readStories(s, result{code: 1, stderr: "orblab: no space\n"})
	if len(found) != 1 || found[0].Why != "orblab: no space" {
		t.Errorf("of a failure without a story: %+v", found)
	}
	if found := readStories(s, result{}); found != nil {
		t.Errorf("of success: %+v", found)
	}
}

// The jobs of the table have steps with different names for the packages of this repository: among
// them the parts of long packages, and the tests that run alone.
func TestTable(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := stepsOf(t.Context(), root, table)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]*step{}
	for _, s := range steps {
		if names[key(s)] != nil {
			t.Errorf("two steps have the name %s", key(s))
		}
		names[key(s)] = s
	}
	for dir := range parts {
		part := func(s *step) bool { return s.dir == filepath.FromSlash(dir) && s.tests != nil }
		if !slices.ContainsFunc(steps, part) {
			t.Errorf("there is no package %s with more than %d tests", dir, parts[dir])
		}
	}
	for _, name := range []string{"tests: tools/soak", "race: internal/web/weburl", "stories: 1/5"} {
		if names[name] == nil {
			t.Errorf("there is no step %s", name)
		}
	}
	if got := quoted(names["tests: tools/soak"].command("1", "")); got !=
		"go -C tools test -count=1 -vet=off -json -timeout 1h0m0s ./soak" {
		t.Errorf("the command for tools/soak: %s", got)
	}
	raced := names["race: tools/soak"]
	if got := quoted(raced.command("1", "")); !strings.Contains(got, " -skip ") || !strings.Contains(got, " -race ") {
		t.Errorf("the command for tools/soak under the race detector: %s", got)
	}
	if got := quoted(raced.goTest([]string{"TestA"})); got !=
		"go -C tools test -count=1 -vet=off -run '^(TestA)$' -race ./soak" {
		t.Errorf("the command that repeats a test under the race detector: %s", got)
	}
	p := pack{}
	p.add("package x\n\nfunc TestA(t *testing.T) {\n\ttesttier.OnlyIdle(t, \"time\")\n}\n\n" +
		"func TestB(t *testing.T) {}\n\n" +
		"func TestMain(m *testing.M) {}\n\nfunc FuzzC(f *testing.F) {\n}\n\nfunc Example_d() {\n}\n")
	if !slices.Equal(p.idle, []string{"TestA"}) || !slices.Equal(p.fuzz, []string{"FuzzC"}) ||
		!slices.Equal(slices.Sorted(slices.Values(p.tests)), []string{"Example_d", "FuzzC", "TestA", "TestB"}) {
		t.Errorf("got %+v", p)
	}
	if s := measureSteps(table[4], []pack{p})[0]; !s.alone || len(s.env) > 0 {
		t.Errorf("a test that measures: %+v", s)
	}
}
