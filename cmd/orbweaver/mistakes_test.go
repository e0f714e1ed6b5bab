package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// mistakesFile has command lines, each with what the program prints and its exit code. A line that
// begins with "$ " is a command; the test runs it, and with -update writes the lines below it. To add
// a mistake, add its command and run: go test ./cmd/orbweaver -run TestMistakes -update
const mistakesFile = "testdata/mistakes.txt"

// A mistake is a command of mistakesFile, with the lines above it and the result below it.
type mistake struct {
	above, command, result string
}

func readMistakes(t *testing.T) (all []mistake, rest string) {
	t.Helper()
	b := must.Get(os.ReadFile(mistakesFile))(t)
	var above strings.Builder
	lines := slices.Collect(strings.Lines(string(b)))
	for i := 0; i < len(lines); i++ {
		command, ok := strings.CutPrefix(lines[i], "$ ")
		if !ok {
			above.WriteString(lines[i])
			continue
		}
		m := mistake{above: above.String(), command: strings.TrimSuffix(command, "\n")}
		above.Reset()
		for i+1 < len(lines) && strings.TrimSpace(lines[i+1]) != "" && !strings.HasPrefix(lines[i+1], "$ ") {
			i++
			m.result += lines[i]
		}
		all = append(all, m)
	}
	return all, above.String()
}

// TestMistakes makes the mistakes of mistakesFile and compares what the program says. Every text must
// say what is wrong and what would be right.
func TestMistakes(t *testing.T) {
	all, rest := readMistakes(t)
	if len(all) < 100 {
		t.Errorf("%d mistakes, want at least 100", len(all))
	}
	path := must.Get(filepath.Abs(mistakesFile))(t)
	for _, e := range os.Environ() { // variables of the shell that runs the test
		if name, _, _ := strings.Cut(e, "="); strings.HasPrefix(name, envPrefix) {
			t.Setenv(name, "")
		}
	}
	t.Setenv("ORBWEAVER_CONTACT", "ops@example.org")
	s := newSituation(t)
	var text strings.Builder
	for _, m := range all {
		began := time.Now()
		got, skipped := s.run(t, m.command)
		if took := time.Since(began); took > time.Second {
			t.Logf("%s took %s", m.command, took)
		}
		if skipped {
			got = m.result
		}
		fmt.Fprintf(&text, "%s$ %s\n%s", m.above, m.command, got)
		if got != m.result && !*update {
			t.Errorf("$ %s\ngot:\n%swant:\n%s", m.command, got, m.result)
		}
		if _, err := os.Stat("crawl"); err == nil {
			t.Fatalf("$ %s\nThere is a crawl directory.", m.command)
		}
		if err := judgeText(got); err != nil {
			t.Errorf("$ %s\n%s%v", m.command, got, err)
		}
	}
	text.WriteString(rest)
	if *update {
		must.Do(t, os.WriteFile(path, []byte(text.String()), 0o644))
	}
	for _, command := range leaves(t) {
		if _, err := verbs.Of(strings.TrimPrefix(command, "ctl ")); err == nil {
			// The table of verbs makes the command, so its mistake is made here, too: no order has this argument.
			line := "orbweaver " + command + " '('"
			if got, _ := s.run(t, line); !strings.HasSuffix(got, "[exit code 4]\n") || judgeText(got) != nil {
				t.Errorf("$ %s\n%s%v", line, got, judgeText(got))
			}
			continue
		}
		if !slices.ContainsFunc(all, func(m mistake) bool {
			_, line, _ := strings.Cut(m.command, "orbweaver ")
			return line == command || strings.HasPrefix(line, command+" ") || ofRunning.MatchString(line) &&
				strings.HasPrefix(ofRunning.ReplaceAllString(line, "ctl "), command)
		}) {
			t.Errorf("%s has no mistake of %q; add one", mistakesFile, "orbweaver "+command)
		}
	}
}

// ofRunning matches a command to a running crawl, with its directory.
var ofRunning = regexp.MustCompile(`^ctl (-o|--dir) \S+ `)

// leaves returns the commands that have no commands.
func leaves(t *testing.T) (names []string) {
	t.Helper()
	discard := cli.NewOutput(&bytes.Buffer{})
	var c commands
	p := must.Get(newParser(&c, &c, &elsewhere{}, discard, discard, func(int) {}))(t)
	for _, n := range p.Model.Leaves(true) {
		names = append(names, strings.TrimSpace(regexp.MustCompile(` \(.*?\)`).ReplaceAllString(n.Path(), "")))
	}
	return names
}

var (
	// remedy matches words that say what to do.
	remedy = regexp.MustCompile(`\b(give|write|use|choose|name|add|leave|remove|start|stop|continue|correct|restore|` +
		`raise|save|put|See|did you mean|allow|make|run|ask|needs|Check|change|exists?|needed|trusts|know|check|` +
		`checks|try|listed|correct)\b|--[a-z]`)
	// unclear matches words of programmers.
	unclear = regexp.MustCompile(`%!|0x[0-9a-f]{6}|<nil>|goroutine|failed to|unexpected|` +
		`\bis no (duration|number|size|URL)`)
	// twice matches a prefix that stands there twice.
	twice = regexp.MustCompile(`(?:^|: )([^:]{3,}): ([^:]{3,})(?:: |$)`)
)

// judgeText judges the output of a mistake by the rules for messages.
func judgeText(got string) error {
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	code := lines[len(lines)-1]
	lines = lines[:len(lines)-1]
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("BAD TEXT: "+format, args...)) }
	most := 3
	if code == "[exit code 16]" || strings.Contains(lines[0], "needs a command:") {
		most = 5 // the seed, its cause and the remedies have lines of their own; or a list of commands
	}
	if len(lines) < 1 || len(lines) > most {
		bad("%d lines, want 1 to %d", len(lines), most)
	}
	if code == "[exit code 0]" {
		bad("the mistake is accepted")
	}
	for i, line := range lines {
		if i == 0 && !strings.HasPrefix(line, "orbweaver: ") && !strings.HasPrefix(line, "stdout: ") {
			bad("the first line does not begin with the program's name")
		}
		if utf8.RuneCountInString(line) > 120 && !strings.Contains(line, "/") {
			bad("%d columns", utf8.RuneCountInString(line))
		}
		line = strings.TrimPrefix(line, "orbweaver: ")
		if strings.HasPrefix(line, "orbweaver") || unclear.MatchString(line) {
			bad("unclear words")
		}
		for rest := line; rest != ""; {
			m := twice.FindStringSubmatchIndex(rest)
			if m == nil {
				break
			}
			if strings.EqualFold(rest[m[2]:m[3]], rest[m[4]:m[5]]) {
				bad("%q stands there twice", rest[m[2]:m[3]])
			}
			rest = rest[m[3]:]
		}
	}
	if !remedy.MatchString(got) {
		bad("it does not say what to do")
	}
	return errors.Join(errs...)
}

// A situation is a directory with all that the mistakes refer to.
type situation struct {
	busy string // the address of a web server
}

// onePage is a crawl.log. A crawl without a page would be begun anew.
const onePage = "2026-01-02T15:04:05.000Z   200        100 http://a.example/ - - text/html #001 20260102150405000+10 " +
	"- a.example -\n"

// newSituation makes the files, and makes their directory the current one.
func newSituation(t *testing.T) *situation {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.Chmod(dir, 0o777))
	t.Chdir(dir)
	for name, text := range map[string]string{
		"empty.txt":              "# nothing\n",
		"bom-utf16.txt":          "\xff\xfeh\x00",
		"bom-utf8.txt":           "\ufeffhttp://\n",
		"bad-seed.txt":           "# sites\nhttp://a.example/\nftp://a.example/\n",
		"long-line.txt":          strings.Repeat("x", maxSeedLine+2),
		"seeds.txt":              "http://a.example/\n",
		"number.yaml":            "# How many?\npage-limit: many\n",
		"typo.yaml":              "pagelimit: 3\n",
		"broken.yaml":            "contact: \"x\n",
		"twice.yaml":             "delay: 1s\ndelay: 2s\n",
		"word.yaml":              "contact\n",
		"resume.yaml":            "resume: true\n",
		"delay.yaml":             "depth: 3\ndelay: 3\n",
		"list.yaml":              "page-limit: [1, 2]\n",
		"map.yaml":               "include: {a: b}\n",
		"nested.yaml":            "exclude: [[a]]\n",
		"no-value.yaml":          "contact:\n",
		"far.yaml":               "politeness: {delay: 3s}\n",
		"help.yaml":              "help: true\n",
		"overwrite.yaml":         "overwrite: true\n",
		"rings.yaml":             "partition: rings\n",
		"kind.yaml":              "scope: site\n",
		"open.yaml":              "delay: 1s\nname: \"x\n",
		"text.txt":               "this is no archive\n",
		"void.txt":               "",
		"edges.txt":              "0\t1\n1\t2\n",
		"far.txt":                "0\t1\n0\t4294967295\n",
		"vertices.txt":           "0\tcom.a\n1\tcom.b\n",
		"gap.txt":                "0\tcom.a\n2\tcom.b\n",
		"ranks.tsv":              "0.5\ta\n0.25\tb\n",
		"other.tsv":              "0.5\tc\n0.25\td\n",
		"equal.tsv":              "0.5\ta\n0.5\tb\n",
		"twice.tsv":              "0.5\ta\n0.5\ta\n",
		"robots.txt":             "User-agent: *\nDisallow: /\n",
		"full/mine.txt":          "mine\n",
		"old/crawl.yaml":         "{}\n",
		"old/state/lock":         "99\n",
		"old/logs/crawl.log":     onePage,
		"topic/crawl.yaml":       "listen: 127.0.0.1:1\npartition: topic\nboundary: urls\n",
		"topic/state/agent.json": `{"name":"a1","begun":true,"partition":"topic, model x"}`, "topic/state/lock": "",
		"running/crawl.yaml": "header: ['X-API-Key: [redacted]']\n", "running/state/lock": "",
		"watched/crawl.yaml": "{}\n", "watched/state/lock": "", "watched/state/api.json": `{"addr":"127.0.0.1:1"}`,
		"damaged/crawl.yaml": "{}\n", "damaged/state/api.json": "{",
		"program/crawl.yaml":    crawldir.ProgramMark + "\n{}\n",
		"nothing/readme":        "",
		"archive-only/archive/": "",
		"keys/a1/ca.pem":        "no key\n",
		"keys/authority/ca.pem": "no key\n",
		"secret/seeds.txt":      "http://a.example/\n", "secret/crawl.yaml": "{}\n", "secret/ca.pem": "x",
		"secret/state/api.json": "{}",
		"theirs/archive/":       "", "theirs/logs/": "", "theirs/crawl.yaml": "{}\n",
		"locked/archive/": "", "locked/indexes/index.cdxj": "", "locked/logs/crawl.log": "",
		"hosts.yaml":   "hosts:\n  a..b:\n    delay: 1s\n",
		"maybe.yaml":   "links: maybe\n",
		"include.yaml": "hosts:\n  a.example:\n    include: ['(']\n",
		"keep.yaml":    "hosts:\n  a.example:\n    keep: [mime:x]\n",
		"cookies.txt":  "a.example\tFALSE\t/\tFALSE\t1\tname\tvalue\n",
		"netrc":        "# mine\nmachine a..b login me password secret\n",
	} {
		path := filepath.FromSlash(name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if strings.HasSuffix(name, "/") {
			continue
		}
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
	}
	for _, running := range []string{"running", "watched"} {
		lock := must.Get(disk.Lock(disk.OS, filepath.Join(running, "state")))(t)
		t.Cleanup(func() { lock.Close() })
		// The lock belongs to this process. The mistakes are those beside another one.
		must.Do(t, os.WriteFile(filepath.Join(running, "state", disk.LockName), []byte("4242\n"), 0o600))
	}
	for path, mode := range map[string]os.FileMode{"secret/seeds.txt": 0, "secret/crawl.yaml": 0, "secret/ca.pem": 0,
		"secret/state": 0, "full": 0o555, "theirs": 0, "locked/indexes": 0o555, "locked/indexes/index.cdxj": 0,
		"locked/logs/crawl.log": 0, "locked": 0o555} {
		must.Do(t, os.Chmod(path, mode))
	}
	t.Cleanup(func() { // so that TempDir can be removed
		for _, name := range []string{"secret/state", "full", "theirs", "locked/indexes", "locked"} {
			os.Chmod(name, 0o755)
		}
	})
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	web := &http.Server{Handler: http.NotFoundHandler()}
	go web.Serve(l)
	t.Cleanup(func() { web.Close() })
	return &situation{busy: l.Addr().String()}
}

// run runs a command line and returns what it prints to standard error, or to standard output if that
// is all, and its exit code. "sudo -u nobody" in front of it runs it without the rights of root.
// skipped reports that this system cannot do that.
func (s *situation) run(t *testing.T, line string) (result string, skipped bool) {
	t.Helper()
	words := shellWords(t, strings.ReplaceAll(line, "BUSY", s.busy))
	as := func(fn func()) bool { fn(); return true }
	if len(words) > 3 && words[0] == "sudo" {
		words, as = words[3:], asNobody
	}
	for len(words) > 0 && strings.Contains(words[0], "=") {
		name, value, _ := strings.Cut(words[0], "=")
		before := os.Getenv(name)
		os.Setenv(name, value)
		defer os.Setenv(name, before)
		words = words[1:]
	}
	if len(words) == 0 || words[0] != "orbweaver" {
		t.Fatalf("%s: %q is no command of orbweaver", mistakesFile, line)
	}
	code := 0
	var stdout, stderr bytes.Buffer
	if !as(func() { code = run(words[1:], &stdout, &stderr) }) {
		return "", true
	}
	text := stderr.String()
	if text == "" {
		for out := range strings.Lines(stdout.String()) {
			text += "stdout: " + out
		}
	}
	text = strings.ReplaceAll(text, s.busy, "BUSY")
	if strings.TrimSpace(text) == "" || !utf8.ValidString(text) || json.Valid([]byte(text)) {
		t.Errorf("$ %s: no message: %q", line, text)
	}
	return fmt.Sprintf("%s[exit code %d]\n", text, code), false
}

// shellWords splits a command line as a shell does. Only single quotes are known.
func shellWords(t *testing.T, line string) (words []string) {
	t.Helper()
	word, in, quoted := "", false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, in = !quoted, true
		case r == ' ' && !quoted:
			if in {
				words = append(words, word)
			}
			word, in = "", false
		default:
			word, in = word+string(r), true
		}
	}
	if quoted {
		t.Fatalf("%s: %q: the quote has no end", mistakesFile, line)
	}
	if in {
		words = append(words, word)
	}
	return words
}
