package main

import (
	"bytes"
	"fmt"
	"go/format"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A document is README.md, or a file of docs or of examples.
type document struct {
	name   string // as in "docs/start.md"
	blocks []block
	prose  string // everything outside the blocks
}

// A block is a fenced block of code.
type block struct {
	kind string // after the fence, such as sh
	line int
	text string
}

// readDocuments reads README.md, and the files of docs, docs/operate, docs/reference, and of examples and its folders.
func readDocuments(t *testing.T) []document {
	t.Helper()
	names := []string{"../../README.md"}
	for _, dir := range []string{"docs", "docs/operate", "docs/reference", "examples", "examples/*"} {
		files, err := filepath.Glob("../../" + dir + "/*.md")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		names = append(names, files...)
	}
	var docs []document
	for _, name := range names {
		b := must.Get(os.ReadFile(name))(t)
		d := document{name: strings.TrimPrefix(filepath.ToSlash(name), "../../")}
		inside := false
		for i, line := range strings.Split(string(b), "\n") {
			switch {
			case strings.HasPrefix(strings.TrimSpace(line), "```"):
				if inside = !inside; inside {
					d.blocks = append(d.blocks, block{kind: strings.TrimPrefix(strings.TrimSpace(line), "```"),
						line: i + 1})
				}
			case inside:
				d.blocks[len(d.blocks)-1].text += line + "\n"
			default:
				d.prose += line + "\n"
			}
		}
		if inside {
			t.Errorf("%s: the last fence is open", d.name)
		}
		docs = append(docs, d)
	}
	return docs
}

// commands returns the commands of a sh block. Lines that end in a backslash
// are joined with the next one.
func (b block) commands() []string {
	var commands []string
	for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", "")) {
		if line = strings.Join(strings.Fields(line), " "); line != "" && !strings.HasPrefix(line, "#") {
			commands = append(commands, line)
		}
	}
	return commands
}

// parseLine reads a command line as the program does, without running it. With
// incomplete, arguments and flags that are required may be missing.
func parseLine(t *testing.T, args []string, incomplete bool) error {
	t.Helper()
	return parseInto(t, &commands{}, args, incomplete)
}

// parseInto is parseLine, and sets the flags of c.
func parseInto(t *testing.T, c *commands, args []string, incomplete bool) error {
	t.Helper()
	discard := cli.NewOutput(io.Discard)
	parser, err := newParser(c.only(args), c, &elsewhere{}, discard, discard, func(int) {})
	must.Do(t, err)
	_, err = parser.Parse(args)
	if err == nil || !incomplete {
		return err
	}
	if text := err.Error(); strings.HasPrefix(text, "expected ") || strings.HasPrefix(text, "missing flags: ") {
		return nil
	}
	return err
}

// Each block names its language, so that the tests find every command.
func TestDocumentBlocks(t *testing.T) {
	program := regexp.MustCompile(`(?m)^\s*(\./)?orbweaver `)
	for _, d := range readDocuments(t) {
		for _, b := range d.blocks {
			switch b.kind {
			case "sh", "yaml", "ini", "go", "promql":
			case "python", "sql":
				if d.name != "docs/results.md" {
					t.Errorf("%s:%d: a block of %s; no test runs those outside docs/results.md", d.name, b.line, b.kind)
				}
			case "text":
				if program.MatchString(b.text) {
					t.Errorf("%s:%d: a command in a text block; make it a sh block", d.name, b.line)
				}
			default:
				t.Errorf("%s:%d: a block of kind %q, want sh, yaml, ini, go, promql, python, sql or text", d.name,
					b.line, b.kind)
			}
		}
	}
}

// Each Go block is a program that compiles with the library, and go vet finds nothing.
func TestDocumentPrograms(t *testing.T) {
	programs := 0
	for _, d := range readDocuments(t) {
		for _, b := range d.blocks {
			if b.kind != "go" {
				continue
			}
			programs++
			file := filepath.Join(t.TempDir(), "main.go")
			must.Do(t, os.WriteFile(file, []byte(b.text), 0o644))
			if text, err := format.Source([]byte(b.text)); err != nil || string(text) != b.text {
				t.Errorf("%s:%d: not formatted, %v", d.name, b.line, err)
			}
			if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", d.name, b.line, err, out)
			}
		}
	}
	if programs == 0 {
		t.Error("no programs")
	}
}

// A crawl can start with each block of settings as the file of --config, and the program can parse each
// command of a container. A block of settings is a whole file, not a part of one.
func TestDocumentSettings(t *testing.T) {
	settings, embedded, replays, netrcs := 0, 0, 0, 0
	for _, d := range readDocuments(t) {
		file := filepath.Join(t.TempDir(), "crawl.yaml")
		for _, b := range d.blocks {
			at := fmt.Sprintf("%s:%d", d.name, b.line)
			switch {
			case b.kind == "ini":
				t.Errorf("%s: put the unit into packaging, where a test verifies it", at)
			case b.kind != "yaml":
			case strings.HasPrefix(b.text, "collections:"):
				replays++ // pywb's: e2e replays a crawl with it
			case strings.HasPrefix(b.text, "apiVersion:"):
				must.Do(t, os.WriteFile(file, nil, 0o644))
				embedded += checkKubernetes(t, at, b.text, file)
			default:
				settings++
				if err := tryToCrawl(t, b.text); err != nil {
					t.Errorf("%s: %v", at, err)
				}
			}
			if b.kind == "text" && strings.HasPrefix(b.text, "machine ") {
				netrcs++
				must.Do(t, os.WriteFile(file, []byte(b.text), 0o600))
				if err := tryToCrawl(t, "auth-file: "+file); err != nil {
					t.Errorf("%s: %v", at, err)
				}
			}
		}
	}
	if settings < 4 || embedded != 3 || replays != 1 || netrcs < 1 {
		t.Errorf("%d blocks of settings, %d commands in containers, %d configurations of pywb, %d files of credentials",
			settings, embedded, replays, netrcs)
	}
}

// tryToCrawl checks settings as a crawl does before its first request. A file of seeds need not exist, and the settings
// of a cluster are only read.
func tryToCrawl(t *testing.T, settings string) error {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "crawl.yaml")
	must.Do(t, os.WriteFile(file, []byte(settings), 0o644))
	var c commands
	if err := parseInto(t, &c, []string{"crawl", "--config", file, "--dir", filepath.Join(dir, "crawl"),
		"example.org"}, false); err != nil {
		return err
	}
	c.Crawl.Seeds = nil
	if c.Crawl.Settings.Politeness.Contact == "" {
		c.Crawl.Settings.Politeness.Contact = "you@example.org"
	}
	cfg, err := c.Crawl.config()
	if err != nil {
		return err
	}
	cfg.Cluster = nil // the keys belong to another machine
	r, err := node.Rehearse(cfg)
	if err != nil {
		return err
	}
	return r.Close()
}

// checkKubernetes checks the objects of a file for Kubernetes, and parses the commands of its
// containers with file as their settings. It returns the number of commands.
func checkKubernetes(t *testing.T, at, text, file string) (commands int) {
	t.Helper()
	type probe struct {
		Exec struct{ Command []string }
	}
	for part := range strings.SplitSeq(text, "\n---\n") {
		var v struct {
			Kind     string
			Metadata map[string]any
			Spec     struct {
				ClusterIP string `yaml:"clusterIP"`
				Template  struct {
					Spec struct {
						Containers []struct {
							Command, Args []string
							Startup       probe `yaml:"startupProbe"`
							Liveness      probe `yaml:"livenessProbe"`
						}
					}
				}
			}
		}
		if err := yaml.Unmarshal([]byte(part), &v); err != nil || v.Kind == "" || v.Metadata == nil {
			t.Errorf("%s: no object with kind and metadata: %v\n%s", at, err, part)
		}
		for _, c := range v.Spec.Template.Spec.Containers {
			if c.Command != nil {
				t.Errorf("%s: %q: the image's own command is the program", at, c.Command)
			}
			for _, args := range [][]string{c.Args, c.Startup.Exec.Command[1:], c.Liveness.Exec.Command[1:]} {
				commands++
				for i, a := range args {
					args[i] = strings.NewReplacer("$(POD_NAME)", "crawl-0", "$(POD_IP)", "192.0.2.1",
						"/config/crawl.yaml", file).Replace(a)
				}
				if err := parseLine(t, args, false); err != nil {
					t.Errorf("%s: %v\n%q", at, err, args)
				}
			}
		}
	}
	return commands
}

// systemd accepts the units of the Debian package, and the program their command lines and the settings.
func TestUnit(t *testing.T) {
	for _, name := range []string{"orbweaver@.service", "orbweaver-coordinator.service"} {
		b := must.Get(os.ReadFile("../../packaging/" + name))(t)
		verifyUnit(t, name, string(b))
		_, command, ok := strings.Cut(string(b), "\nExecStart=/usr/bin/orbweaver ")
		if !ok {
			t.Fatalf("%s: no ExecStart", name)
		}
		command, _, _ = strings.Cut(command, "\n")
		_, flags, _ := strings.Cut(string(b), "#   FLAGS=")
		flags, _, _ = strings.Cut(flags, "\n")
		command = strings.NewReplacer("%i", "crawl", "/etc/orbweaver", "../../packaging/etc", "$FLAGS", flags).
			Replace(command)
		if err := parseLine(t, strings.Fields(command), false); err != nil {
			t.Errorf("%s: %v\n%s", name, err, command)
		}
	}
	// Settings that begin with # take effect when it is removed.
	settings := must.Get(os.ReadFile("../../packaging/etc/crawl.yaml"))(t)
	all := regexp.MustCompile(`(?m)^#([a-z-]+: )`).ReplaceAll(settings, []byte("$1"))
	if err := tryToCrawl(t, string(all)); err != nil || bytes.Equal(all, settings) {
		t.Errorf("%v\n%s", err, all)
	}
}

// verifyUnit checks a unit with systemd, if it is installed, and a program that exists.
func verifyUnit(t *testing.T, unit, text string) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("no systemd-analyze: the unit is not verified")
		return
	}
	program := must.Get(exec.LookPath("orbweaver"))(t)
	name := filepath.Join(t.TempDir(), strings.ReplaceAll(unit, "@", "@crawl"))
	text = strings.ReplaceAll(text, "/usr/bin/orbweaver", program)
	text = strings.ReplaceAll(text, "User=orbweaver", "User=daemon")
	must.Do(t, os.WriteFile(name, []byte(text), 0o644))
	out, err := exec.Command(analyze, "verify", "--man=no", name).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "orbweaver@") || strings.Contains(line, "orbweaver-coordinator") {
			t.Errorf("systemd-analyze: %s", line)
		}
	}
	t.Logf("systemd-analyze verify: %v\n%s", err, out)
}

// othersFlags has flags of other programs that documents name.
var othersFlags = []string{"from-file", "now", "rm", "system"}

// The commands and flags in the text exist.
func TestDocumentProse(t *testing.T) {
	code := regexp.MustCompile("`([^`\n]+)`")
	dashes := regexp.MustCompile(`(?:^|[\s\[(])--([a-z][a-z-]*[a-z])`)
	theirs := regexp.MustCompile(`(?m)^\|[^|]*\|`) // the column of other programs
	known := map[string]bool{"help": true}
	var c commands
	parser, err := newParser(&c, &c, &elsewhere{}, cli.NewOutput(io.Discard), cli.NewOutput(io.Discard), func(int) {})
	must.Do(t, err)
	must.Do(t, kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok {
			known[f.Name] = true
			known["no-"+f.Name] = known["no-"+f.Name] || f.Tag.Negatable != ""
		}
		return next(nil)
	}))
	commands, flags := 0, 0
	for _, d := range readDocuments(t) {
		prose := d.prose
		if d.name == "docs/users.md" {
			prose = theirs.ReplaceAllString(prose, "")
		}
		for _, m := range code.FindAllStringSubmatch(prose, -1) {
			text := m[1]
			for _, f := range dashes.FindAllStringSubmatch(text, -1) {
				flags++
				if !known[f[1]] && !strings.HasSuffix(text, "...") && !slices.Contains(othersFlags, f[1]) {
					t.Errorf("%s: `%s`: no command has the flag --%s", d.name, text, f[1])
				}
			}
			command, ok := strings.CutPrefix(strings.TrimPrefix(text, "./"), "orbweaver ")
			if !ok {
				continue
			}
			commands++
			command, _, _ = strings.Cut(command, "…")
			if err := parseLine(t, strings.Fields(command), true); err != nil {
				t.Errorf("%s: `%s`: %v", d.name, text, err)
			}
		}
	}
	if commands < 10 || flags < 50 {
		t.Errorf("%d commands, %d flags", commands, flags)
	}
}

// README names the Go version of go.mod.
func TestDocumentGoVersion(t *testing.T) {
	mod := must.Get(os.ReadFile("../../go.mod"))(t)
	readme := must.Get(os.ReadFile("../../README.md"))(t)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if version == nil || !strings.Contains(string(readme), "- Go "+string(version[1])+" or later") {
		t.Errorf("README.md does not ask for the Go of go.mod: %s", version)
	}
}

// Until CHANGELOG.md has a section for the version, the program calls itself a development
// version of it.
func TestDocumentVersion(t *testing.T) {
	changes := must.Get(os.ReadFile("../../CHANGELOG.md"))(t)
	section := regexp.MustCompile(`(?m)^## \[(.*?)\](?: \((.*)\))?`).FindStringSubmatch(string(changes))
	if section == nil {
		t.Fatal("CHANGELOG.md has no section of a version")
	}
	want := section[1]
	if want == "Unreleased" {
		want = section[2] + "-dev"
	}
	if node.Version != want {
		t.Errorf("the program's version is %s; by CHANGELOG.md it is %s", node.Version, want)
	}
}

// docs/dependencies.md has a reason for each module that go.mod and lab/go.mod require.
func TestDocumentDependencies(t *testing.T) {
	doc := must.Get(os.ReadFile("../../docs/dependencies.md"))(t)
	required := regexp.MustCompile(`(?m)^\t([^\s/]+\S*) v\S+$`) // without "// indirect"
	for _, name := range []string{"../../go.mod", "../../lab/go.mod"} {
		mod := must.Get(os.ReadFile(name))(t)
		modules := required.FindAllSubmatch(mod, -1)
		if len(modules) < 5 {
			t.Errorf("%s requires %d modules", name, len(modules))
		}
		for _, m := range modules {
			path := string(m[1])
			if path != "github.com/orbweaver/orbweaver" && !strings.Contains(string(doc), "`"+path+"`") {
				t.Errorf("docs/dependencies.md does not say why %s is needed", path)
			}
		}
	}
}
