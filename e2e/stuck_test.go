package e2e

import (
	"bytes"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A patience ends when nothing has happened for five minutes, or when activity never ends. It
// counts only time in which the test itself had the processor, so an overloaded machine does not
// count as stuck.
type patience struct {
	happened func() int64 // it changes with each activity

	last          int64
	quiet, waited time.Duration
	asked         time.Time
}

const (
	quietMost  = 5 * time.Minute
	waitedMost = 30 * time.Minute
	turnMost   = time.Second
)

func (p *patience) over() bool {
	now := time.Now()
	if p.asked.IsZero() {
		p.asked = now
	}
	turn := min(now.Sub(p.asked), turnMost)
	p.asked = now
	p.waited += turn
	if n := p.happened(); n != p.last {
		p.last, p.quiet = n, 0
	} else {
		p.quiet += turn
	}
	return p.quiet > quietMost || p.waited > waitedMost
}

// stuck ends a process that should have ended by itself, and logs its status, if it has an API, and
// its goroutines. begin starts a command where the API is reachable; nil means here.
func (p *process) stuck(t *testing.T, dir string, begin func(*exec.Cmd) error) string {
	t.Helper()
	var b strings.Builder
	if begin == nil {
		begin = (*exec.Cmd).Start
	}
	var out bytes.Buffer
	ask := exec.Command(orbweaver, "ctl", "--dir", dir, "status", "--json")
	ask.Stdout, ask.Stderr = &out, &out
	if begin(ask) == nil {
		late := time.AfterFunc(time.Minute, func() { ask.Process.Kill() })
		ask.Wait()
		late.Stop()
	}
	b.WriteString(out.String())
	p.cmd.Process.Signal(syscall.SIGQUIT)
	if !ended(p, time.Minute) {
		p.kill()
	}
	b.WriteString(p.out.String())
	return b.String()
}
