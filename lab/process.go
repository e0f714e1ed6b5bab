package lab

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
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
	errors lastBytes // the end of its standard error

	mu   sync.Mutex // guards peak
	peak int64

	wall       time.Duration // wall and ended are valid when over is closed
	ended      error
	over, idle chan struct{} // idle is closed when watch has returned
}

// sampleEvery is the interval at which the lab reads a process's memory. The kernel's value
// of the peak is exact, but is gone when the process has ended.
const sampleEvery = 100 * time.Millisecond

// launch starts a program. Its standard output goes to out. Its standard error goes to each of
// screens, and the process keeps its end for error messages. When ctx ends, the program gets
// SIGTERM, and is killed half a minute later. The caller must call wait.
func launch(ctx context.Context, name string, args []string, out io.Writer, screens ...io.Writer) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, name, args...), over: make(chan struct{}), idle: make(chan struct{})}
	p.cmd.Stdout = out
	p.cmd.Stderr = io.MultiWriter(append([]io.Writer{&p.errors}, screens...)...)
	p.cmd.Env = environment()
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 30 * time.Second
	// Its standard input is empty and ends when this process ends.
	if _, err := p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.began = time.Now()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.watch()
	go func() {
		p.ended = p.cmd.Wait()
		p.wall = time.Since(p.began)
		close(p.over)
	}()
	return p, nil
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

// watch samples the memory of the process and keeps the peak.
func (p *process) watch() {
	defer close(p.idle)
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		_, peak := memoryOf(p.cmd.Process.Pid)
		p.mu.Lock()
		p.peak = max(p.peak, peak)
		p.mu.Unlock()
		select {
		case <-tick.C:
		case <-p.over:
			return
		}
	}
}

// wait waits for the end of the process. Exit codes other than 0 and codes are errors.
func (p *process) wait(codes ...int) (Usage, error) {
	<-p.over
	<-p.idle
	u, err := Usage{Wall: p.wall}, p.ended
	if s := p.cmd.ProcessState; s != nil {
		u.CPU = s.UserTime() + s.SystemTime()
		for _, c := range codes {
			if s.ExitCode() == c {
				err = nil
			}
		}
	}
	p.mu.Lock()
	u.Peak = p.peak
	p.mu.Unlock()
	if err != nil {
		return u, fmt.Errorf("%s: %w\n%s", p.cmd.Path, err, p.errors.String())
	}
	return u, nil
}

// cpu returns the process's user and system time so far, or 0 if it is not known.
func (p *process) cpu() time.Duration {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/stat")
	if err != nil {
		return 0
	}
	return cpuOf(b)
}

// cpuOf reads the fields utime and stime of proc(5)'s stat, in ticks of 10 ms. The program's
// name before them is in parentheses and may contain any characters.
func cpuOf(stat []byte) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 13 {
		return 0
	}
	user, err1 := strconv.ParseInt(string(f[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(f[12]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * tick
}

// memoryOf returns the resident memory of a process and its peak, in bytes, or 0 if the system does
// not report it.
func memoryOf(pid int) (now, peak int64) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, 0
	}
	return kilobytes(b, "VmRSS:"), kilobytes(b, "VmHWM:")
}

// kilobytes reads a line such as "VmHWM:    1234 kB" of proc(5)'s status.
func kilobytes(status []byte, name string) int64 {
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte(name)); ok {
			if f := bytes.Fields(rest); len(f) > 0 {
				n, err := strconv.ParseInt(string(f[0]), 10, 64)
				if err == nil && n >= 0 && n < 1<<50 {
					return n << 10
				}
			}
		}
	}
	return 0
}

// lastBytes keeps the end of the data written to it.
type lastBytes struct {
	mu sync.Mutex // guards b
	b  []byte
}

const keepBytes = 4 << 10

func (l *lastBytes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	if len(l.b) > 2*keepBytes {
		l.b = append(l.b[:0], l.b[len(l.b)-keepBytes:]...)
	}
	return len(p), nil
}

func (l *lastBytes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.b[max(0, len(l.b)-keepBytes):]))
}
