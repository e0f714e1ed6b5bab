package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/orbweaver/orbweaver/internal/cli"
)

// A worker is a process that runs the commands of a script one after the other. The start of a process for each of
// them would take most of the time of the tests.
type worker struct {
	cmd     *exec.Cmd
	asks    *json.Encoder
	answers *json.Decoder
	said    [2]*os.File // standard output and standard error
	late    *time.Timer // kills the process
}

// A task is a command for a worker.
type task struct {
	Args, Env  []string
	Dir, Stdin string
}

// The worker gets its tasks from taskFile and writes the exit codes to codeFile. So standard output and standard error
// belong to the commands.
const taskFile, codeFile = 3, 4

// work is the main function of a worker.
func work() {
	os.Args[0] = "orbweaver"
	asks, answers := json.NewDecoder(os.NewFile(taskFile, "tasks")), json.NewEncoder(os.NewFile(codeFile, "codes"))
	for {
		var t task
		if err := asks.Decode(&t); err == io.EOF {
			return
		} else if err != nil {
			panic(err)
		}
		os.Clearenv()
		for _, e := range t.Env {
			name, value, _ := strings.Cut(e, "=")
			os.Setenv(name, value)
		}
		if err := os.Chdir(t.Dir); err != nil {
			panic(err)
		}
		stdin, err := os.Open(t.Stdin)
		if err != nil {
			panic(err)
		}
		os.Stdin = stdin
		code := run(t.Args, os.Stdout, os.Stderr)
		stdin.Close()
		if err := answers.Encode(code); err != nil {
			panic(err)
		}
	}
}

// newWorker starts a worker for a script. It ends with the script.
func newWorker(ts *testscript.TestScript) *worker {
	w := &worker{cmd: command(ts, "worker")}
	for i := range w.said {
		f, err := os.CreateTemp("", "orbweaver-said-")
		ts.Check(err)
		name := f.Name()
		ts.Check(f.Close())
		w.said[i], err = os.OpenFile(name, os.O_RDWR|os.O_APPEND, 0)
		ts.Check(err)
		ts.Defer(func() { w.said[i].Close() })
		ts.Check(os.Remove(name))
	}
	taskRead, taskWrite, err := os.Pipe()
	ts.Check(err)
	codeRead, codeWrite, err := os.Pipe()
	ts.Check(err)
	w.asks, w.answers = json.NewEncoder(taskWrite), json.NewDecoder(codeRead)
	w.cmd.Stdout, w.cmd.Stderr, w.cmd.ExtraFiles = w.said[0], w.said[1], []*os.File{taskRead, codeWrite}
	ts.Check(w.cmd.Start())
	ts.Check(taskRead.Close())
	ts.Check(codeWrite.Close())
	w.late = time.AfterFunc(time.Until(ts.Value(deadlineKey{}).(time.Time)), func() { w.cmd.Process.Kill() })
	ts.Defer(func() {
		taskWrite.Close()
		w.cmd.Wait()
		codeRead.Close()
		w.late.Stop()
	})
	return w
}

// run runs the program to its end, and returns its exit code. The script can compare what it says. A last argument
// <FILE is standard input.
func (w *worker) run(ts *testscript.TestScript, args []string) (code int) {
	t := task{Args: args, Env: environ(ts), Dir: ts.MkAbs("."), Stdin: os.DevNull}
	if n := len(args) - 1; n >= 0 && strings.HasPrefix(args[n], "<") {
		t.Args, t.Stdin = args[:n], ts.MkAbs(args[n][1:])
	}
	for _, f := range w.said {
		ts.Check(f.Truncate(0))
	}
	ts.Check(w.asks.Encode(t))
	err := w.answers.Decode(&code)
	for i, to := range []io.Writer{ts.Stdout(), ts.Stderr()} {
		size, err := w.said[i].Seek(0, io.SeekEnd)
		ts.Check(err)
		_, err = io.Copy(to, io.NewSectionReader(w.said[i], 0, size))
		ts.Check(err)
	}
	if err != nil {
		ts.Fatalf("the program has ended, or did not end in time: %v", err)
	}
	return code
}

// variables are the names of the variables that programs get from a script.
var variables = sync.OnceValue(func() []string {
	discard := cli.NewOutput(&bytes.Buffer{})
	var c commands
	p, err := newParser(&c, &c, &elsewhere{}, discard, discard, func(int) {})
	if err != nil {
		panic(err)
	}
	names := []string{"PATH", "HOME", "TMPDIR", "NO_COLOR", "TERM", "GOCOVERDIR", "GORACE", "ORBWEAVER_SOMETHING_ELSE"}
	for _, n := range p.Model.Children {
		for _, f := range n.Flags {
			if n.Name == "crawl" {
				for _, name := range append([]string{f.Name}, f.Aliases...) {
					names = append(names, envName(name))
				}
			}
		}
	}
	return names
})

// environ returns the environment of programs that a script starts.
func environ(ts *testscript.TestScript) []string {
	env := []string{"PWD=" + ts.MkAbs(".")}
	for _, name := range variables() {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}
