package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// Each line is typed into a shell, followed by Tab. want is what the line is then.
var completed = []struct{ typed, want string }{
	{"orbweaver cr", "orbweaver crawl "},
	{"orbweaver ctl expl", "orbweaver ctl explain "},
	{"orbweaver crawl --page-l", "orbweaver crawl --page-limit "},
	{"orbweaver crawl --scope dom", "orbweaver crawl --scope domain "},
	{"orbweaver crawl --scope=dom", "orbweaver crawl --scope=domain "},
	{"orbweaver crawl --partition h", "orbweaver crawl --partition hash "},
	{"orbweaver crawl --config sett", "orbweaver crawl --config settings.yaml "},
	{"orbweaver crawl --config=sett", "orbweaver crawl --config=settings.yaml "},
	{"orbweaver crawl --dir fol", "orbweaver crawl --dir folder/"},
	{"orbweaver warc ls sett", "orbweaver warc ls settings.yaml "},
	{"orbweaver completion fi", "orbweaver completion fish "},
	{"orbweaver help check rob", "orbweaver help check robots "},
	{"orbweaver man cr", "orbweaver man crawl "},
	{"orbweaver man check rob", "orbweaver man check robots "},
}

// An interactive bash and an interactive zsh complete command lines. Control-X writes the line to
// the file "line".
func TestCompletionInShells(t *testing.T) {
	testtier.OnlySoak(t, "TestComplete of package cli judges the words; here shells do")
	for shell, setup := range map[string]string{
		"bash": `PS1='$ '; source <(orbweaver completion bash)
bind -x '"\C-x": printf %s "$READLINE_LINE" >line.new && mv line.new line'
PROMPT_COMMAND='touch ready'
`,
		"zsh": `autoload -Uz compinit && compinit -D -u
source <(orbweaver completion zsh)
show() { print -rn -- $BUFFER >line.new && mv line.new line }
zle -N show && bindkey '^X' show
line-ready() { touch ready }
zle -N zle-line-init line-ready
`,
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			program, err := exec.LookPath(shell)
			if err != nil {
				testneed.Missing(t, shell)
			}
			script, err := exec.LookPath("script") // it gives the shell a terminal
			if err != nil {
				testneed.Missing(t, "script (of util-linux)")
			}
			dir := completionFolder(t)
			rc := map[string]string{"bash": "rc", "zsh": ".zshrc"}[shell]
			must.Do(t, os.WriteFile(filepath.Join(dir, rc), []byte(setup), 0o644))
			command := program + " -i"
			if shell == "bash" {
				command = program + " --noprofile --rcfile rc -i"
			}
			cmd := exec.Command(script, "-qfc", command, "/dev/null")
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "ZDOTDIR=" + dir, "TERM=dumb", "LC_ALL=C"}
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			keys := must.Get(cmd.StdinPipe())(t)
			must.Do(t, cmd.Start())
			defer func() {
				cmd.Process.Kill()
				cmd.Wait()
				if t.Failed() {
					t.Logf("the terminal:\n%s", out.String())
				}
			}()
			appears(t, dir, "ready")
			for _, c := range completed {
				io.WriteString(keys, c.typed+"\t\x18")
				if got := appears(t, dir, "line"); got != c.want {
					t.Errorf("%q and Tab: got %q, want %q", c.typed, got, c.want)
				}
				io.WriteString(keys, "\x15") // Control-U deletes the line
			}
		})
	}
}

// completionFolder returns a folder with a file and a folder.
func completionFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "settings.yaml"), nil, 0o644))
	must.Do(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	return dir
}

// appears waits for a file, reads and removes it.
func appears(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(path); err == nil {
			must.Do(t, os.Remove(path))
			return string(b)
		}
	}
	t.Fatalf("the shell never wrote the file %s", name)
	return ""
}

// fish prints the completions of a line, with their descriptions.
func TestCompletionInFish(t *testing.T) {
	testtier.OnlySoak(t, "TestComplete of package cli judges the words; here a shell does")
	t.Parallel()
	fish, err := exec.LookPath("fish")
	if err != nil {
		testneed.Missing(t, "fish")
	}
	dir := completionFolder(t)
	var script strings.Builder
	script.WriteString("orbweaver completion fish | source\n")
	for _, c := range completed {
		fmt.Fprintf(&script, "complete -C '%s'\necho :end\n", c.typed)
	}
	cmd := exec.Command(fish, "-N", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	answers := strings.Split(string(out), ":end\n")
	for i, c := range completed {
		word, _, _ := strings.Cut(answers[i], "\t")
		got := c.typed[:strings.LastIndexByte(c.typed, ' ')+1] + strings.TrimSpace(word)
		if want := strings.TrimSpace(c.want); got != want {
			t.Errorf("%q: fish says %q, want %q", c.typed, answers[i], want)
		}
	}
	if !strings.HasPrefix(answers[0], "crawl\tCrawl from seeds") {
		t.Errorf("%q: no description in %q", completed[0].typed, answers[0])
	}
}

// The manual pages have what people look for in them. In the soak, groff and mandoc give no warnings about them.
func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	orbweaver(t, 0, "man", "--out", dir)
	pages, err := filepath.Glob(filepath.Join(dir, "orbweaver*.1"))
	if err != nil || len(pages) < 10 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	crawl := must.Get(os.ReadFile(filepath.Join(dir, "orbweaver-crawl.1")))(t)
	for _, want := range []string{`\-\-page\-limit`, ".SH \"EXIT STATUS\"", ".SH \"ENVIRONMENT\"", ".SH \"FILES\"",
		"orbweaver crawl \\-\\-resume\n"} {
		if !strings.Contains(string(crawl), want) {
			t.Errorf("orbweaver-crawl.1 lacks %q", want)
		}
	}
	testtier.OnlySoak(t, "groff and mandoc judge the pages")
	for _, judge := range [][]string{{"groff", "-man", "-ww", "-Tutf8", "-z"}, {"mandoc", "-Tlint", "-Wwarning"}} {
		if _, err := exec.LookPath(judge[0]); err != nil {
			testneed.Missing(t, judge[0])
		}
		cmd := exec.Command(judge[0], append(judge[1:], pages...)...)
		said, _ := cmd.CombinedOutput() // mandoc's exit code reports notes, too
		for line := range strings.Lines(string(said)) {
			if !strings.Contains(line, "missing date") { // a test program has no commit
				t.Errorf("%s: %s", judge[0], line)
			}
		}
	}
}

// The values that a shell offers are those that the flags accept.
func TestCompletionValues(t *testing.T) {
	var c commands
	discard := cli.NewOutput(io.Discard)
	p := must.Get(newParser(&c, &c, &elsewhere{}, discard, discard, func(int) {}))(t)
	accepts := map[string]func(string) error{
		"--scope":     func(s string) error { _, err := scope.ParseKind(s); return err },
		"--partition": func(s string) error { return membership.CheckPartition(s, nil) },
		"--strategy":  func(s string) error { return parseLine(t, []string{"crawl", "--strategy", s}, false) },
	}
	for flag, accept := range accepts {
		words := cli.Complete(p.Model, []string{"crawl", flag, ""}).Words
		if len(words) < 3 {
			t.Errorf("crawl %s: the values are %v", flag, words)
		}
		for _, w := range words {
			if err := accept(w.Word); err != nil {
				t.Errorf("crawl %s %s: %v", flag, w.Word, err)
			}
		}
		if err := accept("x"); err == nil {
			t.Errorf("crawl %s accepts x", flag)
		}
	}
}
