package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// A Usage is the use of the machine by a process.
type Usage struct {
	Wall, CPU time.Duration // CPU is user and system time, all threads together
	Peak      int64         // largest resident memory in bytes; 0: not known
}

// A process is a program that the lab has started. Processor time and memory are known for
// each process.
type process struct {
	cmd    *exec.Cmd
	began  time.Time
	errors keptBytes      // its standard error
	in     io.WriteCloser // its standard input

	// peak, wall and ended are valid when over is closed.
	peak  int64
	wall  time.Duration
	ended error
	over  chan struct{}
}

// sampleEvery is the interval at which the lab reads a process's memory. The kernel's value
// of the peak is exact, but is gone when the process has ended.
const sampleEvery = 100 * time.Millisecond

// launch starts a program. Its standard output goes to out. Its standard error goes to each of
// screens, and the process keeps its beginning and its end for error messages. When ctx ends, the program gets
// SIGTERM, and is killed half a minute later. The caller must call wait.
func launch(ctx context.Context, name string, args []string, out io.Writer, screens ...io.Writer) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...), over: make(chan struct{})}
	p.cmd.Stdout = out
	p.cmd.Stderr = io.MultiWriter(append([]io.Writer{&p.errors}, screens...)...)
	p.cmd.Env = environment()
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 30 * time.Second
	// Ctrl-C at the terminal must reach orblab only, which ends its processes.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := p.cmd.StdinPipe() // it ends when this process ends
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.in, p.began = in, time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	stop := every(sampleEvery, func() { p.peak = max(p.peak, int64(statusOf(p.cmd.Process.Pid).VmHWM)) })
	go func() {
		p.ended = p.cmd.Wait()
		p.wall = time.Since(p.began)
		stop()
		close(p.over)
	}()
	return p, nil
}

// startWithin bounds the time until a program is ready. The enumeration of the reachable pages of a web takes the
// longest.
const startWithin = 2 * time.Minute

// launchUntil starts a program, and waits until it has printed a line for which ready returns true.
func launchUntil(ctx context.Context, name string, args []string, ready func(line []byte) bool) (*process, error) {
	found, is := make(chan struct{}), false
	p, err := launch(ctx, name, args, &lines{fn: func(line []byte) {
		if !is && ready(line) {
			is = true
			close(found)
		}
	}})
	if err != nil {
		return nil, err
	}
	late := time.AfterFunc(startWithin, func() { p.cmd.Process.Kill() })
	defer late.Stop()
	select {
	case <-found:
		return p, nil
	case <-p.over:
		_, err := p.wait()
		return nil, errors.Join(fmt.Errorf("%s: the process ended before it was ready", args[0]), err)
	}
}

// apart runs "orblab COMMAND SPEC" with the spec in JSON, a part of an experiment that needs a process of its own. It
// calls fn with each line that the process prints.
func (t *Trial) apart(ctx context.Context, command string, spec any, fn func(line []byte) error) (Usage, error) {
	js, err := json.Marshal(spec)
	if err != nil {
		return Usage{}, fmt.Errorf("json: %w", err)
	}
	var wrong error
	p, err := launch(ctx, t.Self, []string{command, string(js)}, &lines{fn: func(line []byte) {
		if err := fn(line); err != nil {
			wrong = fmt.Errorf("cannot read the line %q of %s: %w", line, command, err)
		}
	}})
	if err != nil {
		return Usage{}, err
	}
	u, err := p.wait()
	return u, errors.Join(err, wrong, ctx.Err())
}

// every calls f at once, and then at intervals of d in a goroutine, until the caller calls stop. stop waits for the
// last call.
func every(d time.Duration, f func()) (stop func()) {
	f()
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(d)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f()
			case <-over:
				return
			}
		}
	}()
	return func() { close(over); <-done }
}

// environment returns this process's environment without ORBWEAVER_ variables, which would
// change the crawls.
func environment() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "ORBWEAVER_") {
			env = append(env, e)
		}
	}
	return env
}

// wait waits for the end of the process. Exit codes other than 0 and codes are errors.
func (p *process) wait(codes ...int) (Usage, error) {
	<-p.over
	u, err := Usage{Wall: p.wall, Peak: p.peak}, p.ended
	if s := p.cmd.ProcessState; s != nil {
		u.CPU = s.UserTime() + s.SystemTime()
		if slices.Contains(codes, s.ExitCode()) {
			err = nil
		}
	}
	if err != nil {
		return u, fmt.Errorf("%s: %w\n%s", p.cmd.Path, err, p.errors.end())
	}
	return u, nil
}

// cpu returns the process's user and system time so far, or 0 if it is not known.
func (p *process) cpu() time.Duration { return cpuOf(p.cmd.Process.Pid) }

// proc asks the system about a process. It returns the zero T if the system does not answer.
func proc[T any](pid int, ask func(procfs.Proc) (T, error)) (v T) {
	if p, err := procfs.NewProc(pid); err == nil {
		v, _ = ask(p)
	}
	return v
}

// cpuOf returns the user and system time of a process so far, in steps of 10 ms.
func cpuOf(pid int) time.Duration {
	s := proc(pid, procfs.Proc.Stat)
	return time.Duration(s.UTime+s.STime) * 10 * time.Millisecond // USER_HZ is 100 wherever Go runs
}

// statusOf returns what the system says about the memory of a process.
func statusOf(pid int) procfs.ProcStatus { return proc(pid, procfs.Proc.NewStatus) }

// lines is a writer that calls fn with each line, without its line break. It drops what is longer than maxLine.
type lines struct {
	mu   sync.Mutex // guards rest
	rest []byte
	fn   func(line []byte)
}

const maxLine = 64 << 20

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.rest = append(l.rest, b...); ; {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			break
		}
		l.fn(line)
		l.rest = rest
	}
	if len(l.rest) > maxLine {
		l.rest = nil
	}
	return len(b), nil
}

// keptBytes keeps the beginning and the end of the data written to it: a panic begins with its reason, and other errors
// end with it.
type keptBytes struct {
	mu         sync.Mutex // guards the fields below
	head, tail []byte
}

const keepHead, keepTail = 256 << 10, 4 << 10

func (k *keptBytes) Write(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := min(len(p), keepHead-len(k.head))
	k.head, k.tail = append(k.head, p[:n]...), append(k.tail, p[n:]...)
	if len(k.tail) > 2*keepTail {
		k.tail = append(k.tail[:0], k.tail[len(k.tail)-keepTail:]...)
	}
	return len(p), nil
}

func (k *keptBytes) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.TrimSpace(string(k.head) + string(k.tail[max(0, len(k.tail)-keepTail):]))
}

// end returns the end of the data.
func (k *keptBytes) end() string {
	s := k.String()
	return s[max(0, len(s)-keepTail):]
}

func (k *keptBytes) reset() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.head, k.tail = k.head[:0], k.tail[:0]
}
