package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/lab"
)

// flags are the flags of every experiment.
type flags struct {
	Quick     bool   `help:"Finish in less than a minute. The figures are then too noisy to quote."`
	Seed      uint64 `default:"1" help:"Use random seed N."`
	Out       string `placeholder:"DIR" help:"Write NAME.md, NAME.csv and NAME.svg to DIR (default: docs/lab of this checkout; with --quick, orbweaver-lab in the folder for temporary files)."`
	Work      string `placeholder:"DIR" help:"Run in a new folder in DIR, on the disk to be measured (default: the folder for temporary files)."`
	Orbweaver string `placeholder:"FILE" help:"Measure this orbweaver program (default: orbweaver beside orblab, else one built from this checkout)."`
}

// measure runs an experiment until it ends or a signal arrives. If crawls is true, the
// experiment runs orbweaver.
func (f *flags) measure(out io.Writer, crawls bool, e lab.Experiment) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	self, err := itself()
	if err != nil {
		return err
	}
	t := &lab.Trial{Again: again(os.Args[1:]), Quick: f.Quick, Seed: f.Seed, Self: self, Dir: f.Work, Screen: out}
	if crawls {
		if t.Orbweaver, err = findOrbweaver(f.Orbweaver); err != nil {
			return err
		}
	} else if f.Orbweaver != "" {
		return usageErrorf("--orbweaver: this experiment runs no crawler; remove the flag")
	}
	if file := cli.Terminal(out); file != nil && os.Getenv("TERM") != "dumb" {
		t.Live, t.Screen = true, file
		if w, _, err := term.GetSize(int(file.Fd())); err == nil {
			t.Width = w
		}
	}
	dir, err := f.dir()
	if err != nil {
		return err
	}
	err = lab.Do(ctx, e, t, dir)
	switch {
	case errors.Is(err, lab.ErrNoGraph) || errors.Is(err, lab.ErrPlan) ||
		errors.Is(err, lab.ErrSeeds):
		return &usageError{err.Error()}
	case ctx.Err() != nil:
		return errInterrupted
	}
	return err
}

// anyOf checks that the values of a flag are some of those allowed.
func anyOf(flag string, values, allowed []string) error {
	for _, v := range values {
		if !slices.Contains(allowed, v) {
			return usageErrorf("%s %s: not one of %s", flag, v, strings.Join(allowed, ", "))
		}
	}
	return nil
}

// makeDir makes the folder for profiles, if it has a name.
func makeDir(name string) error {
	if name == "" {
		return nil
	}
	if err := os.MkdirAll(name, 0o755); err != nil {
		return fmt.Errorf("cpuprofile: %w", err)
	}
	return nil
}

// dir returns the folder for the results. A quick run does not overwrite the commented
// results in docs/lab. Outside a checkout there is no docs/lab, and the error is a *usageError.
func (f *flags) dir() (string, error) {
	switch {
	case f.Out != "":
		return f.Out, nil
	case f.Quick:
		return filepath.Join(os.TempDir(), "orbweaver-lab"), nil
	}
	if root := checkout(); root != "" {
		return filepath.Join(root, "docs", "lab"), nil
	}
	return "", usageErrorf("no folder for the results: the working directory is not in a checkout of orbweaver; " +
		"name a folder with --out")
}

// checkout returns the root folder of the orbweaver source that contains the working
// directory, or "" if there is none.
func checkout() string {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if b, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil &&
			strings.HasPrefix(string(b), "module github.com/orbweaver/orbweaver\n") {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return ""
}

// itself returns the file of this program, by the name with which it was called.
func itself() (string, error) {
	if name, err := exec.LookPath(os.Args[0]); err == nil {
		return filepath.Abs(name)
	}
	return os.Executable()
}

// findOrbweaver returns the file of the crawler: name if it is not empty, else orbweaver in
// the folder of orblab, else one that it builds from the checkout.
func findOrbweaver(name string) (string, error) {
	if name != "" {
		return runnable("--orbweaver", name)
	}
	self, err := itself()
	if err != nil {
		return "", err
	}
	beside := filepath.Join(filepath.Dir(self), "orbweaver")
	if path, err := runnable("", beside); err == nil {
		return path, nil
	}
	root := checkout()
	if root == "" {
		return "", usageErrorf("no orbweaver program beside %s; name one with --orbweaver", self)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("build orbweaver: %w", err)
	}
	path := filepath.Join(cache, "orbweaver-lab", "orbweaver")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/orbweaver")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build orbweaver in %s: %w\n%s", root, err, out)
	}
	return path, nil
}

// runnable returns the absolute path of a program that a flag names. The error is a
// *usageError.
func runnable(flag, name string) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", usageErrorf("%s %s: %v", flag, name, err)
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return "", usageErrorf("%s %s is not a program; build one with \"go build -o %s ./cmd/orbweaver\"", flag,
			name, name)
	}
	return path, nil
}

// hidden are the flags that the command in a result does not have: they are about this machine.
var hidden = []string{"--out", "--work", "--orbweaver", "--cpuprofile", "--texts", "--graph", "--keep",
	"--jobs"}

// again returns the command that repeats a measurement. The file of an agent is FILE, and of other paths only the last
// part is named.
func again(args []string) string {
	words := []string{"orblab"}
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		switch {
		case slices.Contains(hidden, name):
			if !joined {
				i++
			}
		case !strings.HasPrefix(name, "--"):
			words = append(words, named(args[i]))
		case joined:
			words = append(words, name, named(value))
		default:
			words = append(words, name)
		}
	}
	return strings.Join(words, " ")
}

// named returns a value without paths.
func named(value string) string {
	if name, _, ok := strings.Cut(value, "="); ok {
		return name + "=FILE"
	}
	if strings.ContainsRune(value, filepath.Separator) {
		return filepath.Base(value)
	}
	return value
}
