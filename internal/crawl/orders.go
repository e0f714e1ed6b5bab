package crawl

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/crawl/applications"
	"github.com/orbweaver/orbweaver/internal/crawl/ledger"
	"github.com/orbweaver/orbweaver/internal/crawl/orders"
	"github.com/orbweaver/orbweaver/internal/crawl/plan"
	"github.com/orbweaver/orbweaver/internal/crawl/retry"
	"github.com/orbweaver/orbweaver/internal/crawl/run"
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/scope"
)

// A Bar keeps the crawl from a host, from the hosts of a domain, or from a range of addresses.
type Bar = orders.Bar

// An Exclusion is a rule for links that must wait.
type Exclusion = orders.Exclusion

// Orders carries out what the operator orders while the crawl runs: blocks, exclusions, pauses, delays and paces, which
// all agents have, and commands for one host. The answer to a drop comes when its effect is in the synced journal. A
// visit in progress ends as usual. No command reads a queue or a pool: a drop takes the dispatcher one sync of the
// journal, however many links it affects.
type Orders struct {
	cfg      *Config
	run      *run.Run
	gate     *orders.Gate
	frontier *frontier.Frontier
	book     *retry.Book
	origins  *retry.Origins
	ledger   *ledger.Ledger
	events   *report.Events
	scope    *scope.Scope
	cluster  *Cluster
	plan     *plan.Plan
	apps     *applications.Set
	progress *progress
}

// Bar replaces the Bars that are in force. The links of a blocked host stay and wait, and new ones are accepted. A
// visit under way ends as usual. Safe for concurrent use, also before Run; ctx bounds the wait.
func (o *Orders) Bar(ctx context.Context, list []Bar) error {
	o.gate.SetBars(list)
	return o.run.Heed(ctx, "bar", func(time.Time) { o.gate.HeedBars() })
}

// HeedBars blocks the hosts of the Bars that the frontier has, so that its Stats count them. Call it between Recover
// and Run, which does it as well.
func (o *Orders) HeedBars() { o.gate.HeedBars() }

// Excluded returns why a link must wait; "" if it need not. Safe for concurrent use.
func (o *Orders) Excluded(l link.Link) (why string) { return o.gate.WhyExcluded(&l) }

// Exclude replaces the Exclusions that are in force. When it returns, no visit of a URL that they exclude begins any
// more; visits in progress end as usual. Safe for concurrent use, also before Run; ctx bounds the wait.
func (o *Orders) Exclude(ctx context.Context, list []Exclusion) error {
	if err := o.gate.SetExclusions(list); err != nil {
		return err
	}
	return o.run.Heed(ctx, "exclude", func(time.Time) { o.gate.HeedExclusions() })
}

// Pause keeps visits from beginning while on is set, also before Run. When it returns, no visit begins any more. Safe
// for concurrent use; ctx bounds the wait.
func (o *Orders) Pause(ctx context.Context, on bool) error {
	o.gate.SetPause(on)
	return o.run.Heed(ctx, "pause", func(now time.Time) { o.gate.HeedPause(now) })
}

// SetApplications replaces all applications. The waiting links of an application that is no longer there are finished
// without a visit, and its pages that were not collected are deleted. Safe for concurrent use, also before Run.
func (o *Orders) SetApplications(all []visit.Application) error { return o.apps.Define(all) }

// Repace tells the Frontier of domains that its Pace may hold back; see Frontier.Repace. Safe for concurrent use,
// also before Run; ctx bounds the wait.
func (o *Orders) Repace(ctx context.Context, domains []string) error {
	o.gate.SetPaced(domains)
	return o.run.Heed(ctx, "pace", func(now time.Time) {
		o.run.Stir()
		o.gate.HeedPaces(now)
	})
}

// Redelay applies delays that the Frontier's Delays have changed to the hosts that rest now; see Frontier.Redelay. Safe
// for concurrent use, also before Run; ctx bounds the wait.
func (o *Orders) Redelay(ctx context.Context, was func(host string) (d time.Duration, ok bool)) error {
	return o.run.Heed(ctx, "delay", func(now time.Time) {
		o.run.Stir()
		o.frontier.Redelay(was, now)
	})
}

// Amend puts what operators have changed of the scope in force. Links found from now on are judged by it. The error
// names a pattern that is wrong. Safe for concurrent use, also before Run.
func (o *Orders) Amend(a scope.Amendment) error { return o.scope.Amend(a) }

// pauseLook is how long a paused dispatcher may sleep. It looks again at each command and at each Status.
const pauseLook = time.Hour

// paused reports whether no visit may begin, and when to look again.
func (o *Orders) paused(now time.Time) (paused bool, ask time.Time) {
	if !o.gate.HeedPause(now) {
		return false, ask
	}
	if o.frontier.Pending() > 0 || o.book.Waiting() > 0 { // the run must not end
		ask = now.Add(pauseLook)
	}
	return true, ask
}

func (o *Orders) whyPaused(now time.Time) Hindrance {
	by := ""
	if o.cfg.Reasons != nil {
		by = o.cfg.Reasons.WhyPaused()
	}
	by = cmp.Or(by, "the operator")
	_, since := o.gate.Paused()
	return Hindrance{Text: fmt.Sprintf("the crawl is paused for %s by %s", duration(now.Sub(run.Later(since,
		o.progress.began))), by), Until: `after "orbweaver ctl resume"`}
}

// Drop discards all waiting links of host, in its queue, in the pools and among the
// retries. From now on the crawl fetches none of them, and it finishes them one after the
// other. It accepts links that it finds later as before, unless the host is blocked. Drop
// returns a message that says how many links waited in the queue; links in the pools are
// not counted by host. Otherwise it is like Block.
func (o *Orders) Drop(ctx context.Context, host string) (string, error) {
	return o.order(ctx, "drop", host, func(now time.Time) (string, error) {
		e, n, _ := o.waiting(host, now)
		if err := o.drop(host, now); err != nil {
			o.run.Fail(err)
			return "", err
		}
		o.events.Write("host-dropped", report.F("host", host), report.F("links", n))
		if err := secure(o.run, o.ledger); err != nil {
			return "", err
		}
		s := host + ": " + links(n) + " dropped"
		if p := o.frontier.Stats().Pooled; p > 0 {
			s += "; those among the " + links(p) +
				" of all hosts in the pools on disk follow as the pools are read"
		}
		return s + underWay(e), nil
	})
}

func (o *Orders) drop(host string, now time.Time) error {
	o.run.Stir()
	o.ledger.Add(state.Drop, o.gate.Drop(host, o.ledger.Accepted(), now))
	o.frontier.Withdraw(host)
	o.frontier.ReviewAside()
	if err := o.origins.Withdraw(host); err != nil {
		return fmt.Errorf("drop %s: %w", host, err)
	}
	o.plan.Forget(host, now)
	return nil
}

// Waiting returns how many links of a host wait, as text for people, and which blocks hold for the host. If another
// agent crawls the host, the error is an *ElsewhereError. Safe for concurrent use while Run runs; ctx bounds the wait
// (ErrUnderWay).
func (o *Orders) Waiting(ctx context.Context, host string) (text string, blocks []string, err error) {
	var why []string
	text, err = o.order(ctx, "count the links of", host, func(now time.Time) (string, error) {
		why = o.gate.WhyBarred(host)
		e, n, others := o.waiting(host, now)
		return links(n) + english.PluralWord(int(n), " waits", " wait") + others + underWay(e), nil
	})
	if err != nil { // what is still in progress may write why
		return "", nil, err
	}
	return text, why, nil
}

// An ElsewhereError refuses a command for a host that another agent crawls. Nothing has
// changed.
type ElsewhereError struct{ Host, Agent string }

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("%s is crawled by agent %q", e.Host, e.Agent)
}

// order runs a command that only the agent that crawls host can carry out. On any other
// agent, the error is an *ElsewhereError.
func (o *Orders) order(
	ctx context.Context, name, host string, what func(now time.Time) (string, error),
) (string, error) {
	return o.run.Command(ctx, name, host, func(now time.Time) (string, error) {
		if agent := o.cluster.agentOf(host); agent != "" {
			return "", &ElsewhereError{Host: host, Agent: agent}
		}
		return what(now)
	})
}

// waiting returns how many links of host wait, as far as that is known without reading the
// disk. others is text about links in the pools, which are not counted by host.
func (o *Orders) waiting(host string, now time.Time) (e frontier.Explanation, n int64, others string) {
	e = o.frontier.Explain(host, now)
	if p := o.frontier.Stats().Pooled; p > 0 {
		others = ", not counting links among the " + links(p) + " of all hosts in the pools on disk"
	}
	return e, e.Queued + o.origins.Waiting(host), others
}

// underWay returns text about the visit that a worker has begun at the host, if any.
func underWay(e frontier.Explanation) string {
	if e.State == "fetching" || e.State == "resolving" {
		return "; one visit is in progress and will be completed"
	}
	return ""
}

// Checkpoint makes all that the crawl knows durable, and begins a checkpoint of the journal unless one is under way, or
// the journal is being read. It returns a message for people. Safe for concurrent use while Run runs; ctx bounds the
// wait.
func (o *Orders) Checkpoint(ctx context.Context) (string, error) {
	return o.run.Command(ctx, "checkpoint", "the crawl", func(time.Time) (string, error) {
		if err := secure(o.run, o.ledger); err != nil {
			return "", err
		}
		begun, err := o.ledger.Checkpoint()
		switch {
		case o.run.Fail(err):
			return "", o.run.Err()
		case begun:
			return "saved; a checkpoint is being written", nil
		}
		return "saved; no checkpoint was begun: one is being written, or the journal is being read", nil
	})
}

// Cut lets take look at the crawl's state while it is at rest: all that the crawl knows is durable, in the journal and
// in the logs, and nothing writes to them until take returns. Before that the dispatcher calls settle, and finish,
// which finishes the files of the archive. ok is false if the crawl stops, or if the journal is being read or replaced:
// then a later call may succeed. An error of settle or finish ends the crawl, one of take does not. Safe for concurrent
// use while Run runs; ctx bounds the wait for the dispatcher.
func (o *Orders) Cut(ctx context.Context, settle, finish, take func() error) (ok bool, err error) {
	if !o.run.Begun() {
		return false, nil
	}
	bad := o.run.Do(ctx, "save the state", func(time.Time) {
		if o.run.Stopping() || o.run.Fail(settle()) {
			return
		}
		_, fault := o.ledger.Cut(finish, func() error {
			ok, err = true, take()
			return nil
		})
		o.run.Fail(fault)
	})
	return ok && err == nil, cmp.Or(err, bad)
}

// secure makes all pending records durable at once.
func secure(r *run.Run, l *ledger.Ledger) error {
	r.Fail(l.Secure())
	return r.Err()
}
