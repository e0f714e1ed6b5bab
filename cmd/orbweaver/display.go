package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/readout"
	"github.com/orbweaver/orbweaver/internal/report"
)

// A display shows a crawl to its user: progress on standard error, the summary on out.
type display struct {
	out, errs            io.Writer
	json, quiet          bool
	plain                bool // lines instead of the live display: the terminal gets other lines, too
	resumable            bool // false for a demo: its web ends with the program
	pageLimit, sizeLimit int64
	timeLimit            time.Duration
	agent                string // the agent's name in a cluster; empty: it is alone
	dir                  string // the crawl directory
	progress             *report.Progress
	mode                 report.Mode
	size                 func() (cols, lines int) // of the terminal; 0: not known
	opened               time.Time
	running              atomic.Pointer[shown]   // nil: it is being opened
	stop                 context.CancelCauseFunc // stops the crawl: the reader of an output has closed it
	closed               atomic.Pointer[string]  // the first such output
}

// A shown is the crawl that a display shows: a *node.Agent, or the agents of a demo. Safe for concurrent use.
type shown interface {
	// Watch makes the next Status have the state of so many hosts.
	Watch(hosts int)
	Status() *crawl.Status
	Waiting() *node.Waiting
}

// crawling returns the crawl that is shown, or nil while it is being opened.
func (d *display) crawling() shown {
	if c := d.running.Load(); c != nil {
		return *c
	}
	return nil
}

// open prepares the display for notes and progress. The display calls stop if the reader
// of a pipe closes it.
func (d *display) open(stop context.CancelCauseFunc) {
	signal.Ignore(syscall.SIGPIPE) // a write to a closed pipe then returns EPIPE
	d.stop = stop
	d.out = pipe{d.out, d, stdout}
	fd := int(os.Stderr.Fd())
	d.mode = report.ModeFor(d.quiet, d.json, term.IsTerminal(fd) && !d.plain, os.Getenv("TERM"))
	d.size = func() (cols, lines int) {
		cols, lines, err := term.GetSize(fd)
		if err != nil {
			return 0, 0
		}
		return cols, lines
	}
	d.errs = pipe{os.Stderr, d, stderr}
	d.progress = report.NewProgress(d.errs, d.mode, d.size)
	d.progress.Color = os.Getenv("NO_COLOR") == ""
	d.progress.Agent = d.agent
	d.progress.Hint = "Ctrl-C stops"
	if d.resumable {
		d.progress.Hint = "Ctrl-C saves"
	}
	d.progress.Background = func() bool { return inBackground(fd) }
	d.opened = time.Now()
}

// rowsMax is the number of hosts that the live display shows at most, on a terminal that has the lines. It bounds what
// a look at the frontier costs.
const rowsMax = 200

// tick is the time between two looks at the crawl. startAfter is the time after which the live display shows a crawl
// that is still being opened: before, it may turn out that the settings are wrong.
const (
	tick       = 100 * time.Millisecond
	startAfter = 500 * time.Millisecond
)

// show starts to show the progress of the agent that d.began names. stop ends it and waits for the last output; done
// says that the crawl has ended without an error.
func (d *display) show() (stop func(done bool)) {
	over, end := make(chan bool), make(chan struct{})
	go func() {
		defer close(end)
		ticks := time.NewTicker(tick)
		defer ticks.Stop()
		for {
			select {
			case now := <-ticks.C:
				// Standard output gets nothing until the end, and with --quiet nothing is written.
				// So no write would show that the reader of the pipe has closed it.
				if isAbandoned(1) {
					d.close(stdout)
				} else if isAbandoned(2) {
					d.close(stderr)
				}
				d.look(now, false)
			case done := <-over:
				d.look(time.Now(), done)
				d.progress.Close(time.Now())
				return
			}
		}
	}()
	var once sync.Once
	return func(done bool) { once.Do(func() { over <- done; <-end }) }
}

// look shows the present state of the crawl. done says that it has ended.
func (d *display) look(now time.Time, done bool) {
	a := d.crawling()
	if a != nil {
		if d.mode == report.Live {
			a.Watch(d.rows())
		}
		if s := a.Status(); s != nil {
			d.progress.Show(d.snapshot(s, done), now)
			return
		}
	}
	if d.mode != report.Live || now.Sub(d.opened) < startAfter {
		return
	}
	s := report.Snapshot{State: "starting", Elapsed: now.Sub(d.opened), WaitingFor: "the state of the crawl to be read"}
	if a != nil {
		s.WaitingFor = ""
		if w := a.Waiting(); w != nil {
			s.WaitingFor, s.Agents = w.For, w.Agents
		}
	}
	d.progress.Show(s, now)
}

// rows returns the number of hosts that the terminal may have room for.
func (d *display) rows() int {
	_, lines := d.size()
	return min(max(lines, 24), rowsMax)
}

// began tells the display that the crawl of a has been opened.
func (d *display) began(a *node.Agent) {
	for _, h := range a.NotBlocked {
		d.note(h + ": is not blocked")
	}
	if r := a.Recovered; r.Accepted > 0 {
		d.note(fmt.Sprintf("resuming: %s known, %d finished, %d to do", plural(int64(r.Accepted), "URL"),
			r.Finished, r.Pending))
		if r.Repeated > 0 {
			d.note(plural(int64(r.Repeated), "URL") + " will be fetched again: the crash lost records or links")
		}
		if r.Lost > 0 {
			d.note("lost from state/seen: up to " + plural(int64(r.Lost), "waiting link"))
		}
	}
	d.shows(a)
}

// shows sets the crawl that is shown.
func (d *display) shows(c shown) { d.running.Store(&c) }

const stdout, stderr = "standard output", "standard error"

// close stops the crawl, because the reader of an output has closed it.
func (d *display) close(output string) {
	d.closed.CompareAndSwap(nil, &output)
	d.stop(crawl.ErrOutputClosed)
}

// A pipe is an output that stops the crawl if a write finds that the reader has closed it.
type pipe struct {
	io.Writer
	display *display
	output  string
}

func (p pipe) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		p.display.close(p.output)
	}
	return n, err
}

// snapshot turns the status of a crawl into the numbers that the progress shows.
func (d *display) snapshot(s *crawl.Status, done bool) report.Snapshot {
	p := readout.Snapshot(s, done)
	p.Memory, p.PageLimit, p.SizeLimit, p.TimeLimit = memoryInUse(), d.pageLimit, d.sizeLimit, d.timeLimit
	if d.timeLimit > 0 {
		p.Ran = d.timeLimit - s.Live.TimeLeft
	}
	return p
}

// memoryInUse returns the memory in bytes that the Go runtime holds.
func memoryInUse() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}

// note prints a message between the lines of progress, with --json as an object, with --quiet not at all.
func (d *display) note(text string) {
	if d.progress != nil {
		d.progress.Message(text)
	}
}

// partingTime bounds the time that the last message may take: a terminal or a pipe may have stopped reading.
const partingTime = time.Second

// forced prints the last message of a process that exits at once. With --quiet it is printed, too.
func (d *display) forced() {
	text, over := d.parting(), make(chan struct{})
	go func() {
		defer close(over)
		if d.mode == report.Quiet {
			report.NewProgress(d.errs, report.Plain, nil).Message("orbweaver: " + text)
			return
		}
		d.progress.Close(time.Now())
		d.progress.Message(text)
	}()
	select {
	case <-over:
	case <-time.After(partingTime):
	}
}

// parting says what an exit without saving loses, and how to continue.
func (d *display) parting() string {
	var s *crawl.Status
	if a := d.crawling(); a != nil {
		s = a.Status()
	}
	switch {
	case !d.resumable:
		return "exited at once"
	case s == nil:
		return "exited at once, before the crawl began: nothing is lost; start it again with the same command"
	}
	again := ""
	if s.Open > 0 {
		again = " and repeats " + plural(int64(s.Open), "open request")
	}
	return "exited at once: no accepted URL is lost; the next run writes the reports" + again +
		". Continue: orbweaver crawl --resume" + dirFlag(d.dir)
}

// certPool returns a pool with the one authority in pem.
func certPool(pem []byte) *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(pem)
	return p
}
