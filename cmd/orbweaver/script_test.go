package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"orbweaver": main, "probe": probe, "worker": work})
}

// TestScripts runs the program as its users do, and the program "probe" (see there) as the
// command of "testweb". Beside testscript's own
// commands there are
//
//	exits CODE PROGRAM ARG...    run to the end, and compare the exit code
//	run PROGRAM ARG...           exits 0
//	start NAME PROGRAM ARG...    run beside the script; NAME.out and NAME.err get what it says
//	ends NAME CODE [SIGNAL]      send the signal, wait for the end, compare the exit code
//	signals NAME SIGNAL          send the signal alone
//	await FILE RE                wait until a line of the file matches
//	web HOST=DIR...              "orbweaver testweb", and the environment in which it is crawled
//	jsonlines FILE               each line of the file is a JSON object
//
// "run" and "exits" run orbweaver in a worker, a process that lives as long as the script. There, a last argument
// <FILE is standard input. "exec" and "start" give it a process of its own, for signals, terminals and pipes.
//
// $NET is the beginning of loopback addresses that only this script has. There
// are the conditions [soak], that the soak runs, [shared:DIR], that the shared data are there, and [netns], that
// "testweb" can run a command. Where CI=true the last two have to be so.
func TestScripts(t *testing.T) {
	shared := must.Get(filepath.Abs("../../../shared/data"))(t)
	// A signal handler here gives the programs the default action, even if the tests were started
	// with SIGHUP ignored.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	deadline, ok := t.Deadline()
	if !ok {
		deadline = time.Now().Add(24 * time.Hour)
	}
	deadline = deadline.Add(-time.Until(deadline) / 20) // so that a script that hangs can say where
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("SHARED", shared)
			e.Setenv("NET", subnet())
			e.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise each run ends a second late
			e.Values[processesKey{}] = processes{}
			e.Values[workerKey{}] = new(*worker)
			e.Values[deadlineKey{}] = deadline
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "netns":
				return canRunCommands()
			case "soak":
				return testtier.Soak(), nil
			}
			dir, ok := strings.CutPrefix(cond, "shared:")
			if !ok {
				return false, fmt.Errorf("no such condition: %s", cond)
			}
			_, err := os.Stat(filepath.Join(shared, dir))
			if err != nil && os.Getenv("CI") != "true" {
				return false, nil
			}
			return err == nil, err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "run": runs, "start": start, "ends": ends, "signals": signals, "await": await, "web": web,
			"jsonlines": jsonlines,
		},
	})
}

// canRunCommands reports whether "testweb" can run a command here. Where CI=true it must.
func canRunCommands() (bool, error) {
	out, err := exec.Command("orbweaver", "testweb", "--demo", "--", "true").CombinedOutput()
	if err == nil {
		return true, nil
	}
	if os.Getenv("CI") == "true" {
		return false, fmt.Errorf("%w\n%s", err, out)
	}
	return false, nil
}

type processes map[string]*process

// A process is a program that runs beside the script.
type process struct {
	*exec.Cmd
	ended chan struct{} // closed after Wait
}

// processesKey is the key of a script's processes, workerKey that of its worker, deadlineKey that of the time at which
// it fails if it still waits.
type processesKey struct{}
type workerKey struct{}
type deadlineKey struct{}

// workerOf returns the worker of a script. It starts the worker if there is none.
func workerOf(ts *testscript.TestScript) *worker {
	w := ts.Value(workerKey{}).(**worker)
	if *w == nil {
		*w = newWorker(ts)
	}
	return *w
}

func usage(ts *testscript.TestScript, ok bool, text string) {
	if !ok {
		ts.Fatalf("usage: %s", text)
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 1, "exits CODE PROGRAM ARG...")
	code := 0
	if args[1] == "orbweaver" {
		code = workerOf(ts).run(ts, args[2:])
	} else if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if want, err := strconv.Atoi(args[0]); err != nil || code != want {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func runs(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 0, "run PROGRAM ARG...")
	exits(ts, false, append([]string{"0"}, args...))
}

// command returns a process with the script's directory and environment.
func command(ts *testscript.TestScript, name string, args ...string) *exec.Cmd {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p := filepath.Join(dir, name); isFile(p) {
			cmd := exec.Command(p, args...)
			cmd.Dir = ts.MkAbs(".")
			cmd.Env = environ(ts)
			return cmd
		}
	}
	ts.Fatalf("no %s", name)
	return nil
}

// done is closed when the process has ended. It is nil if p is, because the script did not start it.
func (p *process) done() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.ended
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

func start(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 1, "start NAME PROGRAM ARG...")
	cmd := command(ts, args[1], args[2:]...)
	out, err := os.Create(ts.MkAbs(args[0] + ".out"))
	ts.Check(err)
	errs, err := os.Create(ts.MkAbs(args[0] + ".err"))
	ts.Check(err)
	cmd.Stdout, cmd.Stderr = out, errs
	ts.Check(cmd.Start())
	ts.Check(out.Close())
	ts.Check(errs.Close())
	running := ts.Value(processesKey{}).(processes)
	p := &process{cmd, make(chan struct{})}
	running[args[0]] = p
	go func() {
		cmd.Wait()
		close(p.ended)
	}()
	ts.Defer(func() {
		cmd.Process.Kill() // if the script failed before the process's end
		<-p.ended
	})
}

func ends(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && (len(args) == 2 || len(args) == 3), "ends NAME CODE [SIGNAL]")
	running := ts.Value(processesKey{}).(processes)
	p := running[args[0]]
	if p == nil {
		ts.Fatalf("%s does not run", args[0])
	}
	if len(args) == 3 {
		signals(ts, false, []string{args[0], args[2]})
	}
	late := time.AfterFunc(time.Until(ts.Value(deadlineKey{}).(time.Time)), func() { p.Process.Kill() })
	<-p.ended
	late.Stop()
	delete(running, args[0])
	if got := strconv.Itoa(p.ProcessState.ExitCode()); got != args[1] {
		ts.Fatalf("exit code %s, want %s\n%s%s", got, args[1], ts.ReadFile(args[0]+".out"), ts.ReadFile(args[0]+".err"))
	}
}

func signals(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "signals NAME INT|TERM|HUP|KILL")
	cmd := ts.Value(processesKey{}).(processes)[args[0]]
	sig, ok := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP,
		"KILL": os.Kill}[args[1]]
	usage(ts, ok && cmd != nil, "signals NAME INT|TERM|HUP|KILL")
	if err := cmd.Process.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
		ts.Check(err)
	}
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 2, "await FILE RE")
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var b []byte
	over := false // the process that writes the file has ended
	name, _, _ := strings.Cut(args[0], ".")
	p := ts.Value(processesKey{}).(processes)[name]
	for end := ts.Value(deadlineKey{}).(time.Time); time.Now().Before(end) && !over; {
		select {
		case <-p.done():
			over = true // it has written all
		case <-time.After(20 * time.Millisecond):
		}
		if b, _ = os.ReadFile(ts.MkAbs(args[0])); re.Match(b) {
			return
		}
	}
	ts.Fatalf("%s never matched %s:\n%s", args[0], args[1], b)
}

func web(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) > 0, "web HOST=DIR...")
	flags := []string{"testweb", "--json", "--ca-out", ts.MkAbs("ca.pem"), "--listing"}
	for _, a := range args {
		if strings.HasPrefix(a, "--") {
			flags = append(flags, a)
		} else {
			flags = append(flags, "--folder", a)
		}
	}
	cmd := command(ts, "orbweaver", flags...)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	var said struct {
		DNS       string
		ConnectTo []string `json:"connect_to"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	ts.Check(err)
	ts.Check(json.Unmarshal(line, &said))
	for name, value := range map[string]string{"dns": said.DNS, "connect-to": strings.Join(said.ConnectTo, ","),
		"ca": ts.MkAbs("ca.pem"), "allow-private": "true", "contact": "test@example.org", "delay": "0s"} {
		ts.Setenv(envName(name), value)
	}
}

func jsonlines(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, !neg && len(args) == 1, "jsonlines FILE")
	b := []byte(ts.ReadFile(args[0]))
	if len(b) == 0 {
		ts.Fatalf("%s is empty", args[0])
	}
	for line := range bytes.Lines(b) {
		var object map[string]any
		if err := json.Unmarshal(line, &object); err != nil {
			ts.Fatalf("%s: %v: %s", args[0], err, line)
		}
	}
}
