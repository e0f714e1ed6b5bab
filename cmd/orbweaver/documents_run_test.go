package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// documentsFile has the commands of the documents in their order, and those that the test adds between them. The
// commands of a document are below its name. A command has "$ " before it, or "+ " if the test adds it. Lines before a
// command say how it runs; see step. Lines that begin with # are comments.
const documentsFile = "testdata/documents.txt"

// A step is a command of documentsFile.
type step struct {
	command string
	added   bool   // "+ ": no document has the command
	not     string // why the test does not run it unchanged; empty: it does
	instead string // the command to run instead; empty: none
	code    int    // the exit code
	// A step with beside runs in parallel with the steps that follow, until the next step with last
	// has ended. Then it gets the signal, if there is one, and must end with code.
	beside, last bool
	signal       os.Signal
	// await is a file, empty for the step's output, and a regular expression. The file must match
	// it before the next step begins.
	await [2]string
	dir   string   // a folder below the sandbox, created if missing; empty: the sandbox
	env   []string // instead of the variables that lead to the test web
}

// documentSteps reads documentsFile.
func documentSteps(t *testing.T) map[string][]step {
	t.Helper()
	steps := map[string][]step{}
	doc, s := "", step{}
	for line := range strings.Lines(fileText(t, documentsFile)) {
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "", "#":
		case "==":
			doc = value
		case "not:":
			s.not = value
		case "instead:":
			s.instead = value
		case "dir:":
			s.dir = value
		case "env:":
			s.env = append([]string{}, strings.Fields(value)...)
		case "code:":
			code, err := strconv.Atoi(value)
			if err != nil {
				t.Fatalf("%s: %s: %v", documentsFile, line, err)
			}
			s.code = code
		case "signal:":
			s.signal = map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "KILL": os.Kill}[value]
		case "await:":
			s.await[0], s.await[1], _ = strings.Cut(value, " ")
		case "await-output:":
			s.await[1] = value
		case "beside:":
			s.beside = true
		case "last:":
			s.last = true
		case "$", "+":
			s.command, s.added = value, key == "+"
			steps[doc] = append(steps[doc], s)
			s = step{}
		default:
			t.Fatalf("%s: %s: unknown key", documentsFile, line)
		}
	}
	return steps
}

// The test runs every command of the documents unchanged, or names a reason not to.
func TestDocumentCommands(t *testing.T) {
	steps := documentSteps(t)
	for _, d := range readDocuments(t) {
		var want []string
		for _, s := range steps[d.name] {
			if !s.added {
				want = append(want, s.command)
			}
		}
		var got []string
		for _, b := range d.blocks {
			if b.kind == "sh" {
				got = append(got, b.commands()...)
			}
		}
		if !slices.Equal(got, want) {
			for _, c := range got {
				if !slices.Contains(want, c) {
					t.Errorf("%s: the test does not know this command:\n%s", d.name, c)
				}
			}
			for _, c := range want {
				if !slices.Contains(got, c) {
					t.Errorf("%s: this command of the test is not in the document:\n%s", d.name, c)
				}
			}
			t.Errorf("%s: the commands of the test are not those of the document, in their order", d.name)
		}
		if len(want) > 0 && !t.Failed() {
			t.Run(filepath.Base(d.name), func(t *testing.T) {
				t.Parallel()
				runSteps(t, steps[d.name])
			})
		}
	}
}

// exampleHosts are the hosts of the documents, which the test web serves.
var exampleHosts = []string{"example.org", "www.example.org", "example.net", "example.com"}

// exampleWeb serves the example hosts. It returns the variables that lead a crawl to them.
func exampleWeb(t *testing.T) []string {
	t.Helper()
	site := t.TempDir()
	for name, text := range map[string]string{
		"index.html": `<a href="1.html">1</a> <a href="paper.pdf">2</a>`, "1.html": "one", "paper.pdf": "%PDF-1.4",
	} {
		must.Do(t, os.WriteFile(filepath.Join(site, name), []byte(text), 0o644))
	}
	var folders []testweb.Folder
	for _, h := range exampleHosts {
		folders = append(folders, testweb.Folder{Host: h, Dir: site})
	}
	web := must.Get(testweb.New(testweb.Config{Folders: folders}))(t)
	stop := web.Start()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("testweb: %v", err)
		}
	})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must.Do(t, os.WriteFile(ca, web.CAPEM(), 0o644))
	return []string{
		envName("dns") + "=" + web.DNSAddr(), envName("connect-to") + "=" + strings.Join(web.ConnectTo(), ","),
		envName("ca") + "=" + ca, envName("allow-private") + "=true", envName("delay") + "=0s",
	}
}

// agentAddr is the address at which the documents' agents listen.
var agentAddr = regexp.MustCompile(`(127\.0\.0|192\.0\.2)\.(\d+):74\d\d\b`)

// subnets counts the calls of subnet.
var subnets atomic.Int32

// subnet returns the first three numbers of loopback addresses that no other test has. Agents of other tests, and of
// other processes, may listen at the same port. Only Linux has more than one loopback address.
func subnet() string {
	if runtime.GOOS != "linux" {
		return "127.0.0"
	}
	n := 64*os.Getpid() + int(subnets.Add(1))
	return fmt.Sprintf("127.%d.%d", 128+n/256%100, n%256)
}

// runSteps runs the commands of one document in a directory of their own, with the program as
// ./orbweaver.
func runSteps(t *testing.T, steps []step) {
	program := must.Get(exec.LookPath("orbweaver"))(t)
	sandbox := t.TempDir()
	must.Do(t, os.Symlink(program, filepath.Join(sandbox, "orbweaver")))
	toWeb := exampleWeb(t)
	net := subnet()
	var beside []*started
	for i, s := range steps {
		if s.instead != "" && s.not == "" {
			t.Errorf("%s: no reason says why another command is run in its place", s.command)
		}
		if s.not != "" && s.instead == "" {
			if args, ok := strings.CutPrefix(s.command, "orbweaver "); ok {
				if err := parseLine(t, strings.Fields(args), false); err != nil {
					t.Errorf("%s: %v", s.command, err)
				}
			}
			continue
		}
		command := agentAddr.ReplaceAllStringFunc(cmp.Or(s.instead, s.command), func(addr string) string {
			return net + addr[strings.LastIndexByte(addr, '.'):]
		})
		if !strings.HasPrefix(command, "for ") && !strings.Contains(command, " && ") {
			command = "exec " + command // signals reach the program itself
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = filepath.Join(sandbox, s.dir)
		must.Do(t, os.MkdirAll(cmd.Dir, 0o755))
		env := s.env
		if env == nil {
			env = toWeb
		}
		cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + sandbox, "GORACE=atexit_sleep_ms=0"}, env...)
		p := startStep(t, cmd, filepath.Join(sandbox, fmt.Sprintf("%d.out", i)), s)
		beside = append(beside, p)
		if file, re := s.await[0], s.await[1]; re != "" {
			if file = filepath.Join(sandbox, file); file == sandbox {
				file = p.out
			}
			p.await(t, file, regexp.MustCompile(re))
		}
		if s.beside {
			continue
		}
		if s.last || len(beside) == 1 {
			slices.Reverse(beside) // the last one ends first
			for _, p := range beside {
				p.end(t)
			}
			beside = nil
		} else {
			p.end(t)
			beside = beside[:len(beside)-1]
		}
	}
	for _, p := range beside {
		t.Errorf("no last step ends %s", p.step.command)
	}
}

// A started is a command that runs.
type started struct {
	step  step
	cmd   *exec.Cmd
	out   string // the file with its output
	ended chan error
}

func startStep(t *testing.T, cmd *exec.Cmd, out string, s step) *started {
	t.Helper()
	f := must.Get(os.Create(out))(t)
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v", s.command, err)
	}
	p := &started{s, cmd, out, make(chan error, 1)}
	go func() { p.ended <- cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		cmd.Process.Kill() // if the test failed before the command's end
		<-p.ended
	})
	return p
}

// patience bounds the time of a command on a busy machine.
const patience = 2 * time.Minute

// await waits until the file matches.
func (p *started) await(t *testing.T, file string, re *regexp.Regexp) {
	t.Helper()
	var b []byte
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if b, _ = os.ReadFile(file); re.Match(b) {
			return
		}
	}
	t.Fatalf("%s: %s never matched %s:\n%s\n%s", p.step.command, file, re, b, p.said())
}

func (p *started) said() string {
	b, err := os.ReadFile(p.out)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// end waits for the end of the command, and compares its exit code.
func (p *started) end(t *testing.T) {
	t.Helper()
	if p.step.signal != nil {
		if err := p.cmd.Process.Signal(p.step.signal); err != nil {
			t.Errorf("%s: %v", p.step.command, err)
		}
	}
	select {
	case err := <-p.ended:
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatalf("%s: %v", p.step.command, err)
		}
	case <-time.After(patience):
		t.Fatalf("%s: it does not end\n%s", p.step.command, p.said())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != p.step.code {
		t.Fatalf("%s: exit code %d, want %d\n%s", p.step.command, code, p.step.code, p.said())
	}
}
