package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"orblab": main})
}

// TestScripts runs the program as its users do. In addition to testscript's own commands there is
// "exits CODE PROGRAM ARG...", which runs a program and compares its exit code. $ORBWEAVER is the
// crawler, built from this checkout; it is also in the PATH. The condition [netns] says that "orbweaver
// testweb" can run a command, and [soak] that the soak runs.
func TestScripts(t *testing.T) {
	bin := t.TempDir()
	orbweaver := filepath.Join(bin, "orbweaver")
	build := exec.Command("go", "build", "-o", orbweaver, "./cmd/orbweaver")
	build.Dir, build.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build orbweaver: %v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("ORBWEAVER", orbweaver)
			e.Setenv("PATH", e.Getenv("PATH")+string(filepath.ListSeparator)+bin)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "soak":
				return testtier.Soak(), nil
			case "netns":
			default:
				return false, fmt.Errorf("no such condition: %s", cond)
			}
			out, err := exec.Command(orbweaver, "testweb", "--demo", "--", "true").CombinedOutput()
			if err != nil && os.Getenv("CI") == "true" {
				return false, fmt.Errorf("%w\n%s", err, out)
			}
			return err == nil, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// exits runs "exits CODE PROGRAM ARG...".
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	err := ts.Exec(args[1], args[2:]...)
	if err == nil {
		ts.Fatalf("exit code 0, want %s", args[0])
	}
	if want := "exit status " + args[0]; err.Error() != want {
		ts.Fatalf("%v, want %s", err, want)
	}
}

// The program can parse the commands that repeat the experiments of docs/lab. They run for minutes
// to hours, so this test does not run them. The tests of package lab run each experiment with
// --quick.
func TestDocumentedCommands(t *testing.T) {
	names, err := filepath.Glob("../../../docs/lab/*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("docs/lab: %d files, %v", len(names), err)
	}
	experiments := 0
	for _, name := range names {
		b := must.Get(os.ReadFile(name))(t)
		for _, m := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(b), -1) {
			for line := range strings.Lines(strings.ReplaceAll(m[1], "\\\n", "")) {
				args, ok := strings.CutPrefix(strings.TrimSpace(line), "orblab ")
				if !ok { // the tests' own commands, such as go test
					continue
				}
				experiments++
				discard := cli.NewOutput(new(strings.Builder))
				parser := must.Get(newParser(new(commands), discard, discard, func(int) {}))(t)
				if _, err := parser.Parse(strings.Fields(args)); err != nil {
					t.Errorf("%s: orblab %s: %v", name, args, err)
				}
			}
		}
	}
	if experiments < 8 {
		t.Errorf("%d commands, want at least 8", experiments)
	}
}
