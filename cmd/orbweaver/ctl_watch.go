package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/readout"
	"github.com/orbweaver/orbweaver/internal/report"
)

// The API refuses more rows and events in one response.
const (
	mostRows   = 1000
	mostEvents = 500
)

// CtlHostsCmd implements "ctl hosts".
type CtlHostsCmd struct {
	Search    string `arg:"" name:"host" optional:"" help:"List hosts that have this text in their name (default: all)."`
	By        string `help:"Sort by this count, the largest first: ${enum}." enum:"queue,errors,bytes,latency,pages,name" default:"queue" placeholder:"COUNT"`
	Limit     int    `short:"n" help:"List at most N hosts, up to 1000." default:"20" placeholder:"N"`
	After     string `help:"Go on with the next page, as the last line of the page before says." placeholder:"PLACE"`
	ShowFlags `embed:""`
}

// Help explains the columns.
func (CtlHostsCmd) Help() string {
	return `The list has the hosts of all agents that were visited or have links in a queue:

  QUEUED   links in the host's queue; "ctl explain" tells of links in pools
  PAGES    2xx responses
  URLS     done, with any result
  DENIED   URLs that robots.txt forbids
  LATENCY  mean time of the last responses; "-" after a restart

  orbweaver ctl hosts --by errors
  orbweaver ctl hosts example.org --json`
}

// Run prints the hosts.
func (h CtlHostsCmd) Run(c *commands, out io.Writer, errs cli.ErrorOutput) error {
	if h.Limit < 1 || h.Limit > mostRows {
		return bad("--limit %d: give a number from 1 to 1000", h.Limit)
	}
	by := pb.HostOrder(pb.HostOrder_value["HOST_ORDER_"+strings.ToUpper(h.By)])
	return h.show(c, out, errs, watchEvery, func(ctx context.Context, o operator) (content, error) {
		res, err := o.Hosts(ctx, &pb.HostsRequest{Search: h.Search, By: by, Limit: int32(h.Limit), After: h.After})
		if err != nil {
			return content{}, err
		}
		columns, narrow := widthOf(out)
		text := readout.Hosts(res, columns, narrow)
		if res.Next != "" {
			text += fmt.Sprintf("%s of %s; for more: --after %s\n", humanize.Comma(int64(len(res.Hosts))),
				humanize.Comma(res.Matches), strconv.Quote(readout.Line(res.Next)))
		}
		return content{message: res, text: text + unanswering(res.Silent)}, nil
	})
}

// unanswering names the agents that have not answered.
func unanswering(silent []*pb.Answer) string {
	var text strings.Builder
	for _, a := range silent {
		fmt.Fprintf(&text, "%s does not answer: %s\n", readout.Cell(a.Agent), readout.Line(a.Error))
	}
	return text.String()
}

// CtlEventsCmd implements "ctl events".
type CtlEventsCmd struct {
	Name   []string `arg:"" optional:"" help:"Print events of these names, such as host-paused (default: all)."`
	Follow bool     `short:"f" help:"Also print all events from now on, until Ctrl-C or the end of the crawl."`
	Last   int      `short:"n" help:"Begin with the last N events of each agent, up to 500." default:"20" placeholder:"N"`
	JSON   bool     `name:"json" help:"Print a JSON object for each event."`
}

// Help explains where the events come from.
func (CtlEventsCmd) Help() string {
	return `The command prints the events since the start of each agent's process, as
sentences: the time, the agents that saw it, what happened, and the event's
name in brackets. What several agents tell of one thing, such as an order, is
printed once. logs/events.jsonl of each agent has all of its events;
docs/reference/events.md lists them.

  orbweaver ctl events
  orbweaver ctl events --follow host-paused order`
}

// Run prints the events.
func (e CtlEventsCmd) Run(c *commands, out io.Writer, errs cli.ErrorOutput) error {
	if e.Last < 0 || e.Last > mostEvents {
		return bad("--last %d: give a number from 0 to %d", e.Last, mostEvents)
	}
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		o.http.Timeout = 0 // a stream lasts
		stream, err := o.Events(ctx, &pb.EventsRequest{Names: e.Name, Last: int32(e.Last), Follow: e.Follow})
		if err != nil {
			return c.Ctl.plain(o.addr, err)
		}
		defer stream.Close()
		heard := false
		for stream.Receive() {
			heard = true
			text, err := eventLine(stream.Msg(), e.JSON)
			if err == nil {
				_, err = io.WriteString(out, text)
			}
			if err != nil {
				return err
			}
		}
		switch err := stream.Err(); {
		case ctx.Err() != nil:
			return nil
		case err == nil && !e.Follow:
			if !heard && !e.JSON {
				_, err = io.WriteString(out, "No event.\n")
			}
			return err
		case e.Follow && c.Ctl.ended():
			fmt.Fprintf(errs, "orbweaver: the crawl in %s has ended\n", c.Ctl.Dir)
			return nil
		case err == nil:
			return nil
		default:
			return c.Ctl.plain(o.addr, err)
		}
	})
}

// eventLine returns an event as a line.
func eventLine(e *pb.Event, asJSON bool) (string, error) {
	if asJSON {
		return shortLine(e)
	}
	var b strings.Builder
	if e.Missed > 0 {
		fmt.Fprintf(&b, "%s events are missing\n", humanize.Comma(e.Missed))
	}
	b.WriteString(readout.Event(e))
	return b.String(), nil
}

// CtlLogCmd implements "ctl log".
type CtlLogCmd struct {
	HostName  string `name:"host" help:"Print visits to this host, or to all hosts of a domain such as *.example.org." placeholder:"HOST"`
	Status    string `help:"Print visits with this status: a code such as 404 or -2, a class such as 4xx, or failed." placeholder:"CODE"`
	AgentFlag `embed:""`
	Limit     int `short:"n" help:"Print the last N lines, up to 1000." default:"20" placeholder:"N"`
	ShowFlags `embed:""`
}

// Help explains the columns.
func (CtlLogCmd) Help() string {
	return `The lines are those at the end of logs/crawl.log of each agent, by time. The
command reads the last 16 MB of each log. docs/reference/files.md explains the
codes.

  orbweaver ctl log --status failed
  orbweaver ctl log --host www.example.org -n 100`
}

// Run prints the lines.
func (l CtlLogCmd) Run(c *commands, out io.Writer, errs cli.ErrorOutput) error {
	if l.Limit < 1 || l.Limit > mostRows {
		return bad("--limit %d: give a number from 1 to 1000", l.Limit)
	}
	q := &pb.LogRequest{Host: l.HostName, Status: l.Status, Agent: l.Agent, Limit: int32(l.Limit)}
	if _, err := report.LogFilter(q.Host, q.Status); err != nil {
		return bad("--%v", err)
	}
	return l.show(c, out, errs, watchEvery, func(ctx context.Context, o operator) (content, error) {
		res, err := o.Log(ctx, q)
		if err != nil {
			return content{}, err
		}
		return content{message: res, text: readout.Log(res) + unanswering(res.Silent)}, nil
	})
}
