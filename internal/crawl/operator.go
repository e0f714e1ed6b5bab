package crawl

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The commands of the operator for a host while the crawl runs: Explain, Waiting and Drop, see drop.go. The answer to a
// drop comes when its effect is in the synced journal. A visit under way ends as usual. No command reads a queue or a
// pool: a drop takes the dispatcher one sync of the journal, however many links it affects.
//
// Blocks, delays and pauses are orders, which all agents have: see Bar, Redelay and Pause.

// Waiting returns how many links of a host wait, as text for people, and which blocks hold for the host. If another
// agent crawls the host, the error is an *ElsewhereError. Safe for concurrent use while Run runs; ctx bounds the wait
// (ErrUnderWay).
func (c *Crawler) Waiting(ctx context.Context, host string) (text string, blocks []string, err error) {
	var why []string
	text, err = c.order(ctx, "count the links of", host, func(now time.Time) (string, error) {
		why = c.gate.WhyBarred(host)
		e, n, others := c.waiting(host, now)
		return links(n) + " wait" + verbEnding(n) + others + underWay(e), nil
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
func (c *Crawler) order(
	ctx context.Context, name, host string, what func(now time.Time) (string, error),
) (string, error) {
	return c.run.Command(ctx, name, host, func(now time.Time) (string, error) {
		if agent := c.Cluster.agentOf(host); agent != "" {
			return "", &ElsewhereError{Host: host, Agent: agent}
		}
		return what(now)
	})
}

// waiting returns how many links of host wait, as far as that is known without reading the
// disk. others is text about links in the pools, which are not counted by host.
func (c *Crawler) waiting(host string, now time.Time) (e frontier.Explanation, n int64, others string) {
	e = c.Frontier.Explain(host, now)
	if p := c.Frontier.Stats().Pooled; p > 0 {
		others = ", not counting links among the " + links(p) + " of all hosts in the pools on disk"
	}
	return e, e.Queued + c.origins.Waiting(host), others
}

// secure makes all pending records durable at once.
func (c *Crawler) secure() error {
	c.run.Fail(c.ledger.Secure())
	return c.run.Err()
}

// links returns n with the noun "link" or "links".
func links(n int64) string {
	if n == 1 {
		return "1 link"
	}
	return strconv.FormatInt(n, 10) + " links"
}

// verbEnding ends a verb whose subject is n links: "waits" for 1, else "wait".
func verbEnding(n int64) string {
	if n == 1 {
		return "s"
	}
	return ""
}

// isOrAre is the verb whose subject is n links.
func isOrAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// underWay returns text about the visit that a worker has begun at the host, if any.
func underWay(e frontier.Explanation) string {
	if e.State == "fetching" || e.State == "resolving" {
		return "; one visit is in progress and will be completed"
	}
	return ""
}

// Checkpoint makes all that the crawl knows durable, and begins a checkpoint of the journal unless one is under way. It
// returns a message for people. Safe for concurrent use while Run runs; ctx bounds the wait.
func (c *Crawler) Checkpoint(ctx context.Context) (string, error) {
	return c.run.Command(ctx, "checkpoint", "the crawl", func(time.Time) (string, error) {
		if err := c.secure(); err != nil {
			return "", err
		}
		begun, err := c.ledger.Checkpoint()
		switch {
		case c.run.Fail(err):
			return "", c.run.Err()
		case begun:
			return "saved; a checkpoint is being written", nil
		}
		return "saved; a checkpoint was being written already", nil
	})
}

// isSpread reports whether other agents may have the page of a link because pages are divided by their content. Only an
// application's link finds such a page: one of the crawl itself leads to a URL that this agent has not fetched.
func (c *Crawler) isSpread(l link.Link) bool {
	return c.Cluster.Sharing != nil && c.Cluster.Boundary != nil && l.App() != ""
}

// OpenCapture is what Capture of other agents asks: it returns the newest response of u that this agent's archive has.
// size is the number of bytes of r, which is nil if there is none. Safe for concurrent use.
func (c *Crawler) OpenCapture(u weburl.URL) (r io.ReadCloser, size int64, err error) {
	found, err := c.Archive.Find(u.String())
	if err != nil || found == nil {
		return nil, 0, err
	}
	for _, l := range found {
		size += l.Length
	}
	r, err = c.Archive.OpenCapture(found)
	return r, size, err
}
