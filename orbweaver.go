package orbweaver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/node"
)

// Result is how a crawl stands when Crawl returns.
type Result struct {
	// Stop is why Crawl returned.
	Stop Stop
	// Resumed says that this call continued an earlier crawl.
	Resumed bool
	// Pages counts the responses with status 200 to 299, Bytes the bytes received, over all
	// calls for the directory.
	Pages, Bytes int64
	// Queued is how many known URLs are left to be fetched.
	Queued int64
	// Duration is how long the crawl ran, over all calls for the directory.
	Duration time.Duration
	// FailedSeeds are the first 100 seeds that brought no response in this call.
	FailedSeeds []FailedSeed
}

// A FailedSeed is a seed, or a URL that a seed redirected to, that brought no response.
type FailedSeed struct {
	URL string
	// Reason says why, in words for people. It may contain text that a server sent.
	Reason string
}

// A Stop is why a crawl returned.
type Stop string

// The reasons. Finished and Left leave nothing to do. The next call for the same directory
// continues after any other.
const (
	Finished  Stop = "finished"   // nothing is left to fetch
	Canceled  Stop = "canceled"   // the context is done
	Stopped   Stop = "stopped"    // OnPage returned ErrStop
	PageLimit Stop = "page-limit" // Options.PageLimit
	SizeLimit Stop = "size-limit" // Options.SizeLimit
	DiskLow   Stop = "disk-low"   // less than 1 GB is free on the file system of Options.Dir
	TimeLimit Stop = "time-limit" // Options.TimeLimit
	Blocked   Stop = "blocked"    // only links of blocked hosts are left
	Left      Stop = "left"       // the agent has handed its hosts to the others of its Cluster
	Failed    Stop = "failed"     // Crawl returned an error
)

// Crawl begins the crawl that o describes, or continues the one in o.Dir, and returns when it
// has ended. Then no goroutine of the crawl is left, and all files are written and closed.
//
// If ctx is done, Crawl begins no more requests. It waits up to 30 seconds for the requests
// under way, and until OnPage has returned. Then it saves the state and returns an error that
// wraps ctx's cause.
//
// If OnPage returns an error other than ErrStop, Crawl returns that error, wrapped. Other
// errors are ErrOptions, ErrInUse, ErrDiskFull, ErrNothingFetched, and those of the file
// system. The Result is valid with an error, too. Reaching a limit is no error.
func Crawl(ctx context.Context, o Options) (Result, error) {
	if ctx.Err() != nil {
		return Result{Stop: Canceled}, canceled(ctx)
	}
	cfg, err := o.config(ctx)
	if err != nil && ctx.Err() != nil {
		return Result{Stop: Canceled}, canceled(ctx)
	}
	if err != nil {
		return Result{Stop: Failed}, err
	}
	calls := newCalls(&o)
	if calls != nil {
		cfg.PagesTo = "OnPage to return"
		cfg.Pages = visit.PagesFunc(func(run context.Context, p *visit.Page) error { return calls.page(ctx, run, p) })
	}
	a, err := node.Open(cfg)
	if err != nil {
		return Result{Stop: Failed, Resumed: cfg.Resume}, explain(err)
	}
	r, err := a.Run(ctx)
	err = errors.Join(err, a.Close())
	res := result(&r)
	res.Resumed = cfg.Resume
	refused := calls.refused()
	switch {
	case err != nil:
		res.Stop = Failed
		return res, errors.Join(explain(err), refused)
	case refused != nil:
		res.Stop = Failed
		return res, refused
	case res.Stop == Canceled:
		return res, canceled(ctx)
	case r.Nothing && (r.FailedCount > 0 || r.OnlyRedirects || o.Cluster != nil):
		res.Stop = Failed
		return res, nothing(&r, res.FailedSeeds)
	}
	return res, nil
}

func result(r *node.Result) Result {
	res := Result{
		Stop: Stop(r.Stop), Pages: r.Summary.Pages, Bytes: r.Summary.Bytes, Queued: r.Summary.Queued,
		Duration: time.Duration(r.Summary.DurationS * float64(time.Second)),
	}
	switch r.Stop {
	case crawl.Signal, crawl.ByOperator:
		res.Stop = Canceled
	case crawl.ByPages:
		res.Stop = Stopped
	}
	for _, s := range r.Failed {
		res.FailedSeeds = append(res.FailedSeeds, FailedSeed{URL: s.URL.String(), Reason: reason(s)})
	}
	return res
}

func reason(s crawl.FailedSeed) string {
	if s.Kind == "" {
		return "robots.txt forbids it: " + s.Cause
	}
	if s.Cause == "" {
		return s.Kind
	}
	return s.Kind + ": " + strings.TrimPrefix(s.Cause, s.Kind+": ")
}

// nothing is the error of a crawl that fetched nothing.
func nothing(r *node.Result, failed []FailedSeed) error {
	text := ErrNothingFetched.Error()
	switch {
	case r.OnlyRedirects:
		text += " but redirects that lead to no page of the crawl"
	case len(failed) > 0:
		text += fmt.Sprintf(": %s: %s", failed[0].URL, failed[0].Reason)
		if more := r.FailedCount - 1; more > 0 {
			text += fmt.Sprintf(" (and %s)", english.Plural(int(more), "more seed", ""))
		}
	}
	return &crawlError{ErrNothingFetched, text, nil}
}
