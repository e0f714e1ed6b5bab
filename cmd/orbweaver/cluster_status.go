package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/coordination"
)

// ClusterStatusCmd implements "cluster status".
type ClusterStatusCmd struct {
	Coordinator []string `help:"${status_coordinators}" default:"127.0.0.1:7490" placeholder:"ADDR"`
	Keys        string   `help:"${status_keys}" placeholder:"DIR"`
	JSON        bool     `name:"json" help:"Print a JSON object for each coordinator that answers."`
}

// Help explains the columns.
func (ClusterStatusCmd) Help() string {
	return `The command asks each coordinator, and prints a line for each. "entry" is the
last entry of the stream that the agents read; all coordinators reach the same.
"voting" is no while a coordinator that has lost its directory catches up.

The second table has the agents, as the leading coordinator knows them, or another
one if none leads: hosts assigned, URLs that wait, the last entry that the agent
has read, and how long ago it called. Only the leading coordinator knows the last
three.

The exit code is 0 if a leading coordinator answers, and 1 otherwise: then new
hosts wait, and the agents go on with the hosts that they have.`
}

// statusPatience bounds the question to one coordinator.
const statusPatience = 5 * time.Second

// Run asks all coordinators at once and prints their answers.
func (c *ClusterStatusCmd) Run(out io.Writer) error {
	ask, err := coordination.Ask(c.Keys, c.Coordinator)
	if err != nil {
		return err
	}
	defer ask.Close()
	states, errs := make([]*coordination.Status, len(c.Coordinator)), make([]error, len(c.Coordinator))
	ctx, cancel := context.WithTimeout(context.Background(), statusPatience)
	defer cancel()
	var wg sync.WaitGroup
	for i, addr := range c.Coordinator {
		wg.Go(func() { states[i], errs[i] = ask.Status(ctx, addr) })
	}
	wg.Wait()
	if c.JSON {
		for _, s := range states {
			if s != nil {
				if err := json.NewEncoder(out).Encode(s); err != nil {
					return err
				}
			}
		}
	} else if err := c.print(out, states, errs); err != nil {
		return err
	}
	return c.judge(states, errs)
}

// judge returns an error unless a coordinator leads.
func (c *ClusterStatusCmd) judge(states []*coordination.Status, errs []error) error {
	answered, leader, by := 0, "", ""
	for _, s := range states {
		if s != nil {
			answered++
			if s.Leads {
				return nil
			}
			if s.Leader != "" && !slices.Contains(c.Coordinator, s.Leader) {
				leader, by = s.Leader, s.Address
			}
		}
	}
	if answered == 0 {
		return &exitError{exitOther, fmt.Sprintf("no coordinator answers (%s: %v)\nStart one with \"orbweaver "+
			"coordinator\", or correct --coordinator or --keys.", c.Coordinator[0], errs[0])}
	}
	if leader != "" {
		return &exitError{exitOther, fmt.Sprintf("%s follows the coordinator at %s, which was not asked; name all "+
			"coordinators with --coordinator", by, leader)}
	}
	return &exitError{exitOther, "no coordinator that answers leads: new hosts wait until more than half of the " +
		"coordinators run\nStart the others, or ask all with --coordinator."}
}

// print prints a table of the coordinators, and one of the agents.
func (c *ClusterStatusCmd) print(out io.Writer, states []*coordination.Status, errs []error) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "COORDINATOR\tNAME\tSTATE\tVOTING\tENTRY\tHOSTS\tVERSION")
	var best *coordination.Status
	for i, s := range states {
		if s == nil {
			fmt.Fprintf(w, "%s\t-\tno answer: %v\n", c.Coordinator[i], errs[i])
			continue
		}
		if best == nil || s.Leads || !best.Leads && s.Entries > best.Entries {
			best = s
		}
		voting := "yes"
		if !s.Voting {
			voting = "no"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", s.Address, s.Name, roleOf(s), voting, s.Entries,
			humanize.Comma(int64(s.Hosts)), s.Version)
	}
	if best == nil {
		return w.Flush()
	}
	fmt.Fprintf(w, "\n%s\n", stateLine(best))
	if len(best.Agents) == 0 {
		return w.Flush()
	}
	fmt.Fprintln(w, "\nAGENT\tSTATE\tADDRESS\tHOSTS\tWAITING URLS\tREAD\tHEARD")
	for _, a := range best.Agents {
		waiting, read, heard := "-", "-", "-"
		if a.HeardMS > 0 {
			waiting, read = humanize.Comma(int64(a.WaitingURLs)), fmt.Sprint(a.Read)
			heard = fmt.Sprintf("%s ago", time.Duration(a.HeardMS)*time.Millisecond)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Name, a.State, a.Addr, humanize.Comma(int64(a.Hosts)),
			waiting, read, heard)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return silentAgents(out, best)
}

// longSilence is how long an agent may be silent before a person should look at it. Usually it is lost after 9 s.
const longSilence = 20 * time.Second

// silentAgents names the agents that are up for the coordinators and were not heard of for long, and says what to do.
func silentAgents(out io.Writer, s *coordination.Status) error {
	for _, a := range s.Agents {
		silence := time.Duration(a.HeardMS) * time.Millisecond
		if s.Ended || a.State != "up" || silence < longSilence {
			continue
		}
		if _, err := fmt.Fprintf(out, "\nAgent %s was not heard of for %v, and no other agent can confirm that it is "+
			"gone. Its hosts wait.\nStart it again with --resume. If it never comes back: "+
			"orbweaver cluster forget %s\n",
			a.Name, silence.Round(time.Second), a.Name); err != nil {
			return err
		}
	}
	return nil
}
