package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/operate"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Explain implements operate.HostCommands. In a crawl whose pages alone are divided, each agent may visit each host.
func (o local) Explain(ctx context.Context, host, link string) (string, error) {
	var u weburl.URL
	if link != "" {
		var err error
		if u, err = weburl.Parse(link); err != nil {
			return "", fmt.Errorf("%w: %w", operate.ErrHost, err)
		}
		host = u.Host()
	}
	return o.a.ofHost(func(ctx context.Context, host string) (string, error) {
		if o.a.cluster != nil && !o.a.byPages() {
			if agent, mine := o.a.cluster.Peek(host); agent != "" && !mine {
				return "", fmt.Errorf("%w: %s is crawled by agent %q", operate.ErrElsewhere, host, agent)
			}
		}
		return o.a.explain(ctx, host, u)
	})(ctx, host)
}

// lookupTime bounds the look-up of a host on disk for a person.
const lookupTime = time.Second

// explain returns why a host, or a URL of it, is not being crawled now. If coordinators assign the hosts, it also says
// what they say of this one. A zero URL means the host alone.
func (a *Agent) explain(ctx context.Context, host string, u weburl.URL) (text string, err error) {
	c := a.membership
	if c != nil && c.sites != nil && c.sites.IsAttached() {
		short, cancel := context.WithTimeout(ctx, lookupTime)
		_, _ = c.sites.Table.Lookup(short, []string{host}) // without it, less is known
		cancel()
	}
	if u.IsZero() {
		text, err = a.crawler.Explain(ctx, host)
	} else {
		text, err = a.crawler.ExplainURL(ctx, u, func(u weburl.URL) crawl.Past { return a.past(ctx, u) })
	}
	if err == nil && c != nil && c.sites != nil {
		if c.sites.Table.Waits(host) { // its links are accepted by the agent that gets it
			text = strings.Replace(text, "  "+crawl.NothingAccepted+"\n", "", 1)
		}
		text += host + " " + c.sites.Table.Explain(host) + "\n"
	}
	return text, err
}

// past returns what the ends of crawl.log and skipped.jsonl have of a URL, and the archive. What cannot be read is left
// out: the answer has the rest.
func (a *Agent) past(ctx context.Context, u weburl.URL) (p crawl.Past) {
	want := u.String()
	a.searchBack(ctx, a.dir("logs", "crawl.log"), want, func(line string) bool {
		l, err := report.ReadLine(line)
		if err != nil || l.URL != want {
			return true
		}
		p.Finished = finishText(&l)
		return false
	})
	if p.Finished == "" {
		p.Finished = a.archivedText(ctx, u)
	}
	quoted, err := json.Marshal(want)
	if err != nil {
		return p
	}
	a.searchBack(ctx, a.dir("reports", "skipped.jsonl"), `{"url":`+string(quoted), func(line string) bool {
		var s report.Skip
		if json.Unmarshal([]byte(line), &s) != nil || s.URL != want {
			return true
		}
		p.Skipped = &s
		return false
	})
	return p
}

// searchBack passes the last lines of a log that contain a text to fn, the last one first, until fn returns false. It
// reads a bounded part of the log.
func (a *Agent) searchBack(ctx context.Context, name, text string, fn func(line string) bool) {
	f, err := a.fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return
	}
	_ = backwards(f, info.Size(), logSearch, func(line string) bool {
		return ctx.Err() == nil && (!strings.Contains(line, text) || fn(line))
	})
}

// finishText describes a line of crawl.log.
func finishText(l *report.Line) string {
	what := report.CodeText(l.Code)
	if l.Code > 0 {
		what = strings.TrimSpace(fmt.Sprint("status ", l.Code, " ", http.StatusText(l.Code)))
	}
	if l.MIME != "" && l.MIME != "-" {
		what += ", " + l.MIME
	}
	if l.Size > 0 {
		what += ", " + humanize.Bytes(uint64(l.Size))
	}
	for _, note := range l.Notes {
		if name, value, ok := strings.Cut(note, ":"); ok && (name == "error" || name == "cause" || name == "rule") {
			if plain, err := url.PathUnescape(value); err == nil {
				value = plain
			}
			what += "; " + name + ": " + report.OneLine(value)
		}
	}
	return "at " + l.Time.UTC().Format("2006-01-02 15:04:05Z") + ": " + what
}

// archivedText describes the newest record of a URL in this agent's archive; empty: it has none.
func (a *Agent) archivedText(ctx context.Context, u weburl.URL) (text string) {
	r, err := local{a}.Captures(ctx, &pb.CapturesRequest{Url: u.String(), Limit: 100})
	if err != nil {
		return ""
	}
	for _, c := range r.Captures {
		if c.Url == u.String() {
			text = fmt.Sprintf("archived %s: status %s, %s, in %s", c.Time.AsTime().Format("2006-01-02 15:04:05Z"),
				c.Status, c.Mime, c.File)
		}
	}
	return text
}
