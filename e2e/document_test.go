package e2e

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// buildLine finds the README's line that builds the program.
var buildLine = regexp.MustCompile(`(?m)^((?:[A-Z0-9_]+=\S+ )*)(go build .*)$`)

// documentedBuild returns the README's build command, changed to write the program to name.
func documentedBuild(name string) (*exec.Cmd, error) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		return nil, err
	}
	found := buildLine.FindAllSubmatch(readme, -1)
	if len(found) != 1 {
		return nil, fmt.Errorf("README.md has %d lines that build the program, want 1", len(found))
	}
	args := strings.Fields(string(found[0][2]))
	if i := slices.Index(args, "-o"); i > 0 && i+1 < len(args) && args[i+1] == "orbweaver" {
		args[i+1] = name
	} else {
		return nil, errors.New("README.md: the build command has no -o orbweaver")
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = ".."
	// The command itself must turn cgo off; the machine's settings do not.
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=1"), strings.Fields(string(found[0][1]))...)
	return cmd, nil
}

// The README's build command makes a static program: no dynamic linker, no
// shared library.
func TestStaticBinary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("ELF is Linux's format")
	}
	name := orbweaver
	if *raced { // then the test uses another program
		name = filepath.Join(t.TempDir(), "orbweaver")
		build := must.Get(documentedBuild(name))(t)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", build.Args, err, out)
		}
	}
	f := must.Get(elf.Open(name))(t)
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("the program has a dynamic interpreter")
		}
	}
	if libs, err := f.ImportedLibraries(); err != nil || len(libs) > 0 {
		t.Errorf("the program needs shared libraries: %v, %v", libs, err)
	}
}

// replayConfig is the configuration of pywb, and waybackArgs are the arguments of its command, as
// in docs/archive.md.
func replayConfig(t *testing.T) (config string, waybackArgs []string) {
	t.Helper()
	b := must.Get(os.ReadFile("../docs/archive.md"))(t)
	configs := regexp.MustCompile("(?s)```yaml\n(collections:\n.*?\n)```").FindAllSubmatch(b, -1)
	commands := regexp.MustCompile(`(?m)^wayback (.*)$`).FindAllSubmatch(b, -1)
	if len(configs) != 1 || len(commands) != 1 {
		t.Fatalf("docs/archive.md has %d configurations and %d commands of pywb, want one each",
			len(configs), len(commands))
	}
	return string(configs[0][1]), strings.Fields(string(commands[0][1]))
}

// pywb replays a crawl with the configuration and the command of
// docs/archive.md.
func TestReplayAsDocumented(t *testing.T) {
	weighs(t, 1)
	venv := venv(t)
	if venv == "" {
		t.Skip("no pywb")
	}
	const page = "<title>A page to replay</title>"
	site := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(site, "index.html"), []byte(page), 0o644))
	web := serve(t, testweb.Config{Folders: []testweb.Folder{{Host: "www.example.org", Dir: site}}})
	dir := filepath.Join(t.TempDir(), "crawl")
	crawl(context.Background(), t, flags(t, web, dir, "https://www.example.org/")...).must(t, 0)
	status, body := replay(t, wayback(t, venv, dir), "id_", "https://www.example.org/")
	if status != http.StatusOK || string(body) != page {
		t.Errorf("pywb replays %d, %q; want the page", status, body)
	}
}
