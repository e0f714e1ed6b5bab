package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// A crawlJob is one crawl of a web by a program.
type crawlJob struct {
	Program   string
	Web       *web
	Dir       string // of the crawl; it must not exist yet
	TimeLimit time.Duration
	PageLimit int64
	Profile   string   // file for a processor profile; empty: none
	Flags     []string // further ones
	Revisits  bool     // pages are visited repeatedly, and the crawl need not reach all
	// Tick, if not nil, is called each second with the progress of the crawl, its memory
	// and the processor time of crawl and web.
	Tick func(s progressLine, now Sample)
}

// A crawlRun is the result of a crawl.
type crawlRun struct {
	Summary report.Summary
	Report  *testweb.Report
	Usage   Usage
	WebCPU  time.Duration // processor time of the web during the crawl
	// Fetching is the time from the first page's request to the end of the last fetch.
	// Usage.Wall is the time from the start of the process to its end.
	Fetching time.Duration
}

// PagesPerS returns the archived pages divided by the time of the whole process. It is the
// stricter of the two rates.
func (r *crawlRun) PagesPerS() float64 {
	return float64(r.Summary.Pages) / max(r.Usage.Wall, r.Fetching).Seconds()
}

// FetchingPerS returns the archived pages divided by the time in which the crawl fetched.
func (r *crawlRun) FetchingPerS() float64 {
	return float64(r.Summary.Pages) / r.Fetching.Seconds()
}

// A progressLine is a line that "crawl --json" prints each second.
type progressLine struct {
	Type      string  `json:"type"`
	ElapsedS  float64 `json:"elapsed_s"`
	Pages     int64   `json:"pages"`
	PagesPerS float64 `json:"pages_per_s"`
	Bytes     int64   `json:"bytes"`
	// Exchange is zero for an agent that is not in a cluster.
	Exchange report.Exchange `json:"exchange"`
}

// progress returns a writer that calls tick with each progressLine.
func progress(tick func(progressLine)) *lines {
	return &lines{fn: func(line []byte) {
		var l progressLine
		if json.Unmarshal(line, &l) == nil && l.Type == "progress" {
			tick(l)
		}
	}}
}

// finished is the stop reason of a crawl without links left.
const finished = "finished"

// Exit codes with which a crawl may end here.
const (
	exitPageLimit = 12
	exitTimeLimit = 15
	exitSignal    = 11
)

// run crawls, and compares the crawl with the web's own report, as judge does.
func (j crawlJob) run(ctx context.Context) (*crawlRun, error) {
	var flags []string
	if j.TimeLimit > 0 {
		flags = append(flags, "--time-limit", j.TimeLimit.String())
	}
	if j.PageLimit > 0 {
		flags = append(flags, "--page-limit", strconv.FormatInt(j.PageLimit, 10))
	}
	if j.Profile != "" {
		flags = append(flags, "--cpuprofile", j.Profile)
	}
	before := j.Web.cpu()
	var p *process
	started := make(chan struct{})
	p, err := j.Web.crawl(ctx, j.Program, j.Dir, "0", func(s progressLine) {
		<-started
		if j.Tick != nil && p != nil {
			now := int64(statusOf(p.cmd.Process.Pid).VmRSS)
			j.Tick(s, Sample{time.Duration(s.ElapsedS * float64(time.Second)), s.Pages, now, p.cpu(),
				j.Web.cpu() - before})
		}
	}, append(flags, j.Flags...)...)
	close(started)
	if err != nil {
		return nil, err
	}
	r := new(crawlRun)
	if r.Usage, err = p.wait(exitPageLimit, exitTimeLimit); err != nil {
		return nil, err
	}
	r.WebCPU = j.Web.cpu() - before
	if err := errors.Join(readSummary(j.Dir, &r.Summary), ctx.Err()); err != nil {
		return nil, err
	}
	r.Usage.Peak = max(r.Usage.Peak, r.Summary.PeakMemory)
	if r.Fetching, err = fetchingTime(j.Dir); err != nil {
		return nil, err
	}
	if r.Summary.Pages == 0 {
		return nil, fmt.Errorf("crawl %s: it archived no pages\n%s", j.Web.Seed, p.errors.end())
	}
	r.Report, err = j.Web.judge(ctx, r.Summary.StopReason, false)
	if cover := (*CoverageError)(nil); j.Revisits && errors.As(err, &cover) {
		err = nil
	}
	return r, err
}

// An ImpoliteError reports a crawl that broke delays or robots.txt, as the server saw it.
type ImpoliteError struct{ Violations string }

func (e *ImpoliteError) Error() string { return "the web saw violations:\n" + e.Violations }

// A CoverageError reports a crawl that did not fetch every page exactly once.
type CoverageError struct {
	Twice, Missed, Reachable int64
	URLs                     []string // some of the missed pages
}

func (e *CoverageError) Error() string {
	var b strings.Builder
	if e.Twice > 0 {
		fmt.Fprintf(&b, "the web saw pages fetched more than once: %s", humanize.Comma(e.Twice))
	}
	if e.Missed > 0 {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "the crawl ended by itself and missed %s of %s pages", humanize.Comma(e.Missed),
			humanize.Comma(e.Reachable))
		for _, u := range e.URLs {
			b.WriteString("\n" + u)
		}
	}
	return b.String()
}

// misfetched returns the CoverageError of a crawl, by the web's report, or nil. stop is the
// crawl's stop reason: only a finished crawl can have missed pages.
func misfetched(r *testweb.Report, stop string) error {
	o := r.Origin
	if o == nil {
		return nil
	}
	e := &CoverageError{Twice: o.Twice, Reachable: o.Reachable}
	if stop == finished {
		e.Missed, e.URLs = o.Missed, o.MissedURLs[:min(len(o.MissedURLs), 10)]
	}
	if e.Twice == 0 && e.Missed == 0 {
		return nil
	}
	return e
}

func readSummary(dir string, s *report.Summary) error {
	name := filepath.Join(dir, "reports", "summary.json")
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, s)
	}
	if err != nil {
		return fmt.Errorf("summary: %w", err)
	}
	return nil
}

// fetchingTime reads from the crawl.log of a crawl the time from the first page's request to the
// end of the last fetch, at least 1 ms, the resolution of the log. Fetches of robots.txt count
// for the end only.
func fetchingTime(dir string) (time.Duration, error) {
	var first, last time.Time
	err := eachLogLine(dir, func(l *report.Line) {
		if l.Began.IsZero() {
			return
		}
		page := l.Code >= 200 && l.Code < 300 && !strings.HasSuffix(l.URL, "/robots.txt")
		if page && (first.IsZero() || l.Began.Before(first)) {
			first = l.Began
		}
		if end := l.Began.Add(l.Took); end.After(last) {
			last = end
		}
	})
	if err == nil && (first.IsZero() || last.Before(first)) {
		err = fmt.Errorf("the crawl.log of %s has no pages", dir)
	}
	return max(last.Sub(first), time.Millisecond), err
}

// eachLogLine calls fn with each line of the crawl.log of a crawl. One that cannot be read ends it.
func eachLogLine(dir string, fn func(*report.Line)) error {
	return eachLine(dir, "crawl.log", func(line []byte) error {
		l, err := report.ReadLine(string(line))
		if err == nil {
			fn(&l)
		}
		return err
	})
}

// eachLine calls fn with each line of a log of a crawl, until fn fails.
func eachLine(dir, name string, fn func(line []byte) error) error {
	f, err := os.Open(filepath.Join(dir, "logs", name))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		if err := fn(sc.Bytes()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return sc.Err()
}
