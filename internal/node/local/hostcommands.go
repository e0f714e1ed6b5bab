package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// HostCommands are about one host. They implement operate.HostCommands.
type HostCommands struct {
	Crawl    CommandCrawl
	Orders   Orders
	Owners   Owners   // nil: each agent may visit each host
	Assigned Assigned // nil: no coordinators assign the hosts
	Logs     *Logs
	Archive  *Archive
	Run      Run
}

// A CommandCrawl carries out commands for a host.
type CommandCrawl interface {
	Explain(ctx context.Context, host string) (string, error)
	// ExplainURL asks past for what the crawl loop does not know.
	ExplainURL(ctx context.Context, u weburl.URL, past func(u weburl.URL) crawl.Past) (string, error)
	// Waiting also returns the blocks that hold for a host.
	Waiting(ctx context.Context, host string) (text string, blocks []string, err error)
	Drop(ctx context.Context, host string) (string, error)
}

// Orders are those that stand.
type Orders interface{ Standing() []orders.Order }

// Owners know which agent crawls a host.
type Owners interface {
	// Peek returns "" if it is not known.
	Peek(host string) (agent string, mine bool)
}

// Assigned is what coordinators say of hosts.
type Assigned interface {
	// LookUp makes the assignment of a host known, until ctx is done.
	LookUp(ctx context.Context, host string)
	// Waits reports whether links of a host wait until its owner is known.
	Waits(host string) bool
	Explain(host string) string
}

// Explain implements operate.HostCommands. In a crawl whose pages alone are divided, each agent may visit each host.
func (o *HostCommands) Explain(ctx context.Context, host, link string) (string, error) {
	var u weburl.URL
	if link != "" {
		var err error
		if u, err = weburl.Parse(link); err != nil {
			return "", fmt.Errorf("%w: %w", operate.ErrHost, err)
		}
		host = u.Host()
	}
	return ofHost(o.Run, host, func(host string) (string, error) {
		if o.Owners != nil {
			if agent, mine := o.Owners.Peek(host); agent != "" && !mine {
				return "", fmt.Errorf("%w: %s is crawled by agent %q", operate.ErrElsewhere, host, agent)
			}
		}
		return o.explain(ctx, host, u)
	})
}

// lookupTime bounds the look-up of a host on disk for a person.
const lookupTime = time.Second

// explain returns why a host, or a URL of it, is not being crawled now. If coordinators assign the hosts, it also says
// what they say of this one. A zero URL means the host alone.
func (o *HostCommands) explain(ctx context.Context, host string, u weburl.URL) (text string, err error) {
	if o.Assigned != nil {
		short, cancel := context.WithTimeout(ctx, lookupTime)
		o.Assigned.LookUp(short, host) // without it, less is known
		cancel()
	}
	if u.IsZero() {
		text, err = o.Crawl.Explain(ctx, host)
	} else {
		text, err = o.Crawl.ExplainURL(ctx, u, func(u weburl.URL) crawl.Past { return o.past(ctx, u) })
	}
	if err == nil && o.Assigned != nil {
		if o.Assigned.Waits(host) { // its links are accepted by the agent that gets it
			text = strings.Replace(text, "  "+crawl.NothingAccepted+"\n", "", 1)
		}
		text += host + " " + o.Assigned.Explain(host) + "\n"
	}
	return text, err
}

// past returns what the ends of crawl.log and skipped.jsonl have of a URL, and the archive. What cannot be read is left
// out: the answer has the rest.
func (o *HostCommands) past(ctx context.Context, u weburl.URL) (p crawl.Past) {
	want := u.String()
	o.Logs.searchBack(ctx, o.Logs.crawlLog(), want, func(line string) bool {
		l, err := report.ReadLine(line)
		if err != nil || l.URL != want {
			return true
		}
		p.Finished = finishText(&l)
		return false
	})
	if p.Finished == "" {
		p.Finished = o.Archive.newest(ctx, u)
	}
	quoted, err := json.Marshal(want)
	if err != nil {
		return p
	}
	o.Logs.searchBack(ctx, o.Logs.skipped(), `"url":`+string(quoted), func(line string) bool {
		var s report.Skip
		if json.Unmarshal([]byte(line), &s) != nil || s.URL != want {
			return true
		}
		p.Skipped = &s
		return false
	})
	return p
}

func (o *HostCommands) Waiting(ctx context.Context, host string) (string, error) {
	return o.order(ctx, host, func(ctx context.Context, host string) (string, error) {
		text, blocks, err := o.Crawl.Waiting(ctx, host)
		if len(blocks) > 0 && !verbs.IsStanding(o.Orders.Standing(), verbs.VerbBlock, host) { // others hold
			text += "; still blocked by " + verbs.List(blocks)
		}
		return text, err
	})
}

func (o *HostCommands) Drop(ctx context.Context, host string) (string, error) {
	return o.order(ctx, host, o.Crawl.Drop)
}

// order carries out a command for a host.
func (o *HostCommands) order(ctx context.Context, host string,
	fn func(ctx context.Context, host string) (string, error)) (string, error) {
	return ofHost(o.Run, host, func(host string) (string, error) {
		text, err := fn(ctx, host)
		if _, ok := errors.AsType[*crawl.ElsewhereError](err); ok {
			err = fmt.Errorf("%w: %w", operate.ErrElsewhere, err)
		}
		return text, err
	})
}
