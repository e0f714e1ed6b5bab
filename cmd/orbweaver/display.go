package main

import (
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
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/report"
)

// A display shows a crawl to its user: progress on standard error, the summary on out.
type display struct {
	out                  io.Writer
	json, quiet          bool
	plain                bool // lines instead of the live display: the terminal gets other lines, too
	resumable            bool // false for a demo: its web ends with the program
	pageLimit, sizeLimit int64
	timeLimit            time.Duration
	agent                string // the agent's name in a cluster; empty: it is alone
	progress             *report.Progress
	mode                 report.Mode
	opened               time.Time
	running              atomic.Pointer[node.Agent] // nil: it is being opened
	stop                 func()                     // stops the crawl
}

// open prepares the display for notes and progress. The display calls stop if the reader
// of a pipe closes it.
func (d *display) open(stop func()) {
	signal.Ignore(syscall.SIGPIPE) // a write to a closed pipe then returns EPIPE
	d.out, d.stop = pipe{d.out, stop}, stop
	fd := int(os.Stderr.Fd())
	d.mode = report.ModeFor(d.quiet, d.json, term.IsTerminal(fd) && !d.plain, os.Getenv("TERM"))
	d.progress = report.NewProgress(pipe{os.Stderr, stop}, d.mode, func() (cols, lines int) {
		cols, lines, err := term.GetSize(fd)
		if err != nil {
			return 0, 0
		}
		return cols, lines
	})
	d.progress.Color = os.Getenv("NO_COLOR") == ""
	d.progress.Agent = d.agent
	d.progress.Hint = "Ctrl-C stops"
	if d.resumable {
		d.progress.Hint = "Ctrl-C saves"
	}
	d.progress.Background = func() bool { return inBackground(fd) }
	d.opened = time.Now()
}

// rowsMax is the number of hosts that the live display shows at most.
const rowsMax = 30

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
				if isAbandoned(1) || isAbandoned(2) {
					d.stop()
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
	a := d.running.Load()
	if a != nil {
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

// began tells the display that the crawl of a has been opened.
func (d *display) began(a *node.Agent) {
	for _, h := range a.NotBlocked {
		d.note(h + ": is not blocked")
	}
	if r := a.Recovered; r.Accepted > 0 {
		d.note(fmt.Sprintf("resuming: %d URLs known, %d finished, %d to do", r.Accepted, r.Finished, r.Pending))
		if r.Repeated > 0 {
			d.note(fmt.Sprintf("%d URLs will be fetched again: the crash lost their records or their links",
				r.Repeated))
		}
		if r.Lost > 0 {
			d.note(fmt.Sprintf("up to %d links that were waiting in state/seen are lost", r.Lost))
		}
	}
	if d.mode == report.Live {
		a.Watch(rowsMax)
	}
	d.running.Store(a)
}

// A pipe is an output that calls closed if a write finds that the reader has closed it.
type pipe struct {
	io.Writer
	closed func()
}

func (p pipe) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		p.closed()
	}
	return n, err
}

// snapshot turns the status of a crawl into the numbers that the progress shows.
func (d *display) snapshot(s *crawl.Status, done bool) report.Snapshot {
	p := report.Snapshot{
		Revisits: s.Revisits, Unchanged: s.Unchanged, NextIn: until(s.NextVisit, s.At),
		Elapsed: s.Elapsed, Pages: s.Pages, Fetched: s.Fetched, Bytes: s.Bytes,
		Queued: s.Queued, Unique: s.Unique, InFlight: s.InFlight, Resolving: s.Resolving,
		Ready: s.Frontier.Ready + s.Frontier.Parked, Waiting: s.Frontier.Waiting, Slowed: s.Frontier.Slowed,
		Denied: s.Denied, Duplicates: s.Duplicates, Skipped: s.Skipped, Errors: s.Errors, Retrying: s.Retrying,
		RetryIn: until(s.NextRetry, s.At), Memory: memoryInUse(), Exchange: s.Exchange,
		LastURL: s.LastURL, NowURL: s.NowURL, WaitingFor: s.WaitsFor, Agents: s.Agents,
		PageLimit: d.pageLimit, SizeLimit: d.sizeLimit, TimeLimit: d.timeLimit,
	}
	switch {
	case done:
		p.State, p.WaitingFor = "done", ""
		return p
	case s.Stop != "":
		p.State = "stopping"
		if p.WaitingFor == "" {
			p.WaitingFor = "the index and the reports to be written"
		}
	case s.WaitsFor != "":
		p.State = "waiting"
	}
	for _, g := range s.Hosts {
		if r := row(g, s.At); s.Stop == "" || r.Open > 0 && !g.Leased { // no other request will begin
			p.Hosts = append(p.Hosts, r)
		}
	}
	return p
}

// until returns the time from now until t; 0 if t is zero or past.
func until(t, now time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(t.Sub(now), 0)
}

// row returns the row of a host in the live display.
func row(g frontier.Glimpse, now time.Time) report.HostRow {
	r := report.HostRow{Host: g.Host, Links: g.Links, URL: g.URL, State: g.State, In: until(g.Due, now)}
	switch g.State {
	case "in process":
		r.State, r.Open = "fetching", max(now.Sub(g.Since), 1)
	case "resolving":
		r.State, r.Open = "DNS", max(now.Sub(g.Since), 1)
	case "waiting":
		r.State = "resting"
	case "slowed":
		r.State = "paused"
	case "parked":
		r.State, r.Why = "resting", "after "+g.Behind
		if g.Leased {
			r.State, r.Why, r.Open = "lease", g.Behind, now.Sub(g.Since)
		}
	}
	return r
}

// memoryInUse returns the memory in bytes that the Go runtime holds.
func memoryInUse() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64())
}

// note prints a message between the lines of progress, unless --quiet or --json is set.
func (d *display) note(text string) {
	if d.progress != nil && !d.quiet && !d.json {
		d.progress.Message(text)
	}
}

// certPool returns a pool with the one authority in pem.
func certPool(pem []byte) *x509.CertPool {
	p := x509.NewCertPool()
	p.AppendCertsFromPEM(pem)
	return p
}
