package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/dustin/go-humanize/english"

	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/node/readout"
	"github.com/orbweaver/orbweaver/internal/node/settings"
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
)

// CtlCmd implements "ctl": commands to a running crawl.
type CtlCmd struct {
	by string // who gives the commands; empty: the person who runs the program

	Dir        string           `short:"o" help:"${ctl_dir}" default:"./crawl" placeholder:"DIR"`
	Status     CtlStatusCmd     `cmd:"" help:"Print the state of each agent of the crawl."`
	Hosts      CtlHostsCmd      `cmd:"" help:"List the hosts with the longest queues, the most errors and so on."`
	Events     CtlEventsCmd     `cmd:"" help:"Print the last events of all agents, or with --follow all that come."`
	Log        CtlLogCmd        `cmd:"" help:"Print the last lines of the agents' crawl.log."`
	Explain    CtlExplainCmd    `cmd:"" help:"Explain why a URL or a host is not being fetched now, and when it will be."`
	Verbs      kong.Plugins     `embed:""` // they give orders
	Drop       CtlDropCmd       `cmd:"" help:"Discard the waiting links of a host."`
	Queue      CtlQueueCmd      `cmd:"" help:"Print the links that wait, or export them as text."`
	Scope      CtlScopeCmd      `cmd:"" help:"Print or change the scope of the running crawl."`
	Seed       CtlSeedCmd       `cmd:"" help:"Add seeds to the running crawl."`
	App        CtlAppCmd        `cmd:"" help:"Define an application of the running crawl, change or remove it."`
	Apps       CtlAppsCmd       `cmd:"" help:"List the applications with their counts."`
	Orders     CtlOrdersCmd     `cmd:"" help:"List the orders that hold for all agents, such as a pause."`
	TakeBack   CtlTakeBackCmd   `cmd:"" help:"Take back an order of the list."`
	Checkpoint CtlCheckpointCmd `cmd:"" help:"Make the state of the crawl durable now, on all agents."`
	Stop       CtlStopCmd       `cmd:"" help:"End the crawl on all agents as Ctrl-C does; --resume continues."`
	Leave      CtlLeaveCmd      `cmd:"" help:"Hand all hosts of an agent to the other agents, then end it."`
	Health     CtlHealthCmd     `cmd:"" help:"Exit with code 0 if the crawl runs or has ended; for health checks."`
}

// Help explains what the commands require.
func (CtlCmd) Help() string {
	return `The crawl must run on this machine, without --api none:

  orbweaver ctl status
  orbweaver ctl explain www.example.org
  orbweaver ctl block www.example.org --why "a complaint"

In a cluster, give the command to any agent. It passes the command on to the
other agents and prints their answers.

The command reads the address and the token from state/api.json in the crawl
directory. If a command takes longer than 10 s, its result appears in
logs/events.jsonl.

Each command that only shows something has --watch. With --json a command prints
one JSON object, which docs/reference/json.md explains; seed, events, and all
commands with --watch print one on each line.`
}

// AfterApply takes the crawl of the current directory if there is none in ./crawl.
func (c *CtlCmd) AfterApply() error {
	c.Dir = runningDir(c.Dir)
	return nil
}

// runningDir returns dir, or the current directory if dir is the default and only the current directory holds a crawl.
func runningDir(dir string) string {
	if dir != defaultDir {
		return dir
	}
	if there, err := crawldir.HoldsCrawl(nil, dir); there || err != nil {
		return dir
	}
	if here, err := crawldir.HoldsCrawl(nil, "."); !here || err != nil {
		return dir
	}
	return "."
}

// CtlDropCmd implements "ctl drop".
type CtlDropCmd struct {
	HostArg  `embed:""`
	JSONFlag `embed:""`
	WhyFlag  `embed:""`
}

// Run discards the host's links.
func (d CtlDropCmd) Run(c *commands, out io.Writer) error {
	host, err := input.Host(d.Host)
	if err != nil {
		return err
	}
	return c.Ctl.tell(out, d.JSONFlag, func(ctx context.Context, o operator) ([]*pb.Answer, error) {
		res, err := o.Drop(ctx, &pb.DropRequest{Host: host, Why: d.Why})
		return res.GetAnswers(), err
	})
}

// heard names the agents that have an order, with the verb that fits.
func heard(answers []*pb.Answer, one, several string) (names, verb string) {
	var all []string
	for _, a := range answers {
		if a.Error == "" && a.Agent != "" {
			all = append(all, readout.Cell(a.Agent))
		}
	}
	switch len(all) {
	case 0:
		return "the crawl", one
	case 1:
		return all[0], one
	}
	return english.WordSeries(all, "and"), several
}

// ignorant returns an error that names the agents that do not know yet what an operator has ordered, or nil.
func ignorant(answers []*pb.Answer, what string) error {
	var lines []string
	for _, a := range answers {
		if a.Error != "" {
			lines = append(lines, fmt.Sprintf("%s does not know %s yet, and is told as soon as it answers: %s",
				readout.Cell(a.Agent), what, readout.Line(a.Error)))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return &exitError{exitOther, strings.Join(lines, "\n")}
}

// printWaits says what an agent waits for that has got an order before the crawl begins.
func printWaits(out io.Writer, answers []*pb.Answer) (err error) {
	for _, a := range answers {
		if a.WaitsFor != "" {
			_, werr := fmt.Fprintf(out, "the agent waits for %s; other agents are told when they join\n",
				readout.Line(a.WaitsFor))
			err = cmp.Or(err, werr)
		}
	}
	return err
}

// CtlCheckpointCmd implements "ctl checkpoint".
type CtlCheckpointCmd struct {
	AgentFlag `embed:""`
	JSONFlag  `embed:""`
	WhyFlag   `embed:""`
}

// Help explains what is durable.
func (CtlCheckpointCmd) Help() string {
	return `When the command answers, everything that the agents have done is on their disks.
They also save it regularly by themselves.`
}

// Run makes the state of the agents durable.
func (k CtlCheckpointCmd) Run(c *commands, out io.Writer) error {
	return c.Ctl.tell(out, k.JSONFlag, func(ctx context.Context, o operator) ([]*pb.Answer, error) {
		res, err := o.Checkpoint(ctx, &pb.AgentRequest{Agent: k.Agent, Why: k.Why})
		return res.GetAnswers(), err
	})
}

// CtlStopCmd implements "ctl stop".
type CtlStopCmd struct {
	AgentFlag `embed:""`
	JSONFlag  `embed:""`
	WhyFlag   `embed:""`
}

// Help explains how to continue.
func (CtlStopCmd) Help() string {
	return `Each agent waits for its open requests and saves, as after Ctrl-C. Continue the
crawl on each machine:

  orbweaver crawl --resume

With --agent, the other agents go on with the work of the stopped one.`
}

// Run stops the agents.
func (s CtlStopCmd) Run(c *commands, out io.Writer) error {
	return c.Ctl.tell(out, s.JSONFlag, func(ctx context.Context, o operator) ([]*pb.Answer, error) {
		res, err := o.Stop(ctx, &pb.AgentRequest{Agent: s.Agent, Why: s.Why})
		return res.GetAnswers(), err
	})
}

// CtlLeaveCmd implements "ctl leave".
type CtlLeaveCmd struct {
	Agent    string `help:"Tell this agent instead of the one in --dir." placeholder:"AGENT"`
	JSONFlag `embed:""`
	WhyFlag  `embed:""`
}

// Run asks the agent to leave its cluster.
func (l CtlLeaveCmd) Run(c *commands, out io.Writer) error {
	return c.Ctl.tell(out, l.JSONFlag, func(ctx context.Context, o operator) ([]*pb.Answer, error) {
		res, err := o.Leave(ctx, &pb.AgentRequest{Agent: l.Agent, Why: l.Why})
		return res.GetAnswers(), err
	})
}

// silent returns the error for a directory in which no crawl with an API is running.
func (c *CtlCmd) silent() error {
	there, err := crawldir.HoldsCrawl(nil, c.Dir)
	if err != nil {
		return err
	}
	pid, err := crawldir.CrawledBy(c.Dir)
	switch waits := settings.StoreWait(c.Dir); {
	case err == nil && pid != 0 && waits != "":
		return bad("process %d %s; ask again then", pid, waits)
	case err == nil && pid != 0:
		return bad("process %d crawls in %s without an API: it is starting, or has --api none; wait, or give it one:"+
			"\n  kill %[1]d\n  orbweaver crawl --resume --api 127.0.0.1:0%[3]s",
			pid, c.Dir, dirFlag(c.Dir))
	case there:
		ended := ""
		if end, err := node.Ended(c.Dir); err == nil && end.Reason != "" { // a process with --stay may still wait
			ended = fmt.Sprintf(": the last run has ended (%s)", end.Reason)
		}
		return bad("no process is crawling in %s%s; to continue the crawl:\n"+
			"  orbweaver crawl --resume%s", c.Dir, ended, dirFlag(c.Dir))
	}
	return bad("there is no crawl in %s; name the directory of a running crawl with --dir", c.Dir)
}
