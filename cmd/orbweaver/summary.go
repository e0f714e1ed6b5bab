package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// summary prints how a crawl ended, what it fetched, where its files are and what to do next.
func (d *display) summary(dir string, r node.Result) error {
	switch {
	case d.quiet:
		return nil
	case d.json:
		return json.NewEncoder(d.out).Encode(r.Summary)
	}
	var b strings.Builder
	b.WriteByte('\n')
	if d.agent != "" {
		fmt.Fprintf(&b, "agent %s\n", d.agent)
	}
	b.WriteString(d.outcome(r) + "\n")
	b.WriteString(standstill(r))
	if len(r.Others) > 0 {
		fmt.Fprintf(&b, "Other agents continue the crawl: %s.\n", strings.Join(r.Others, ", "))
	}
	b.WriteString("\n" + r.Summary.String())
	if d.resumable {
		b.WriteString("\n" + report.FormatRows([]report.Row{
			{Name: "archive", Text: warc.Folder(nil, dir) + whyEmpty(r)},
			{Name: "log", Text: filepath.Join(dir, "logs", "crawl.log")},
			{Name: "reports", Text: filepath.Join(dir, "reports")},
		}))
		b.WriteByte('\n')
		for _, s := range nextSteps(dir, r, d.raisedLimit(r)) {
			fmt.Fprintf(&b, "%-*s %s\n", len("Tables and charts:"), s[0]+":", s[1])
		}
	}
	_, err := d.out.Write([]byte(b.String()))
	return err
}

// outcome says in a sentence how the crawl ended.
func (d *display) outcome(r node.Result) string {
	left := plural(r.Summary.Queued, "URL")
	switch r.Stop {
	case crawl.Finished:
		if d.agent != "" {
			return "The crawl has finished: no agent has a URL left."
		}
		return "The crawl has finished: no URL is left."
	case crawl.OnlyBlocked:
		return fmt.Sprintf("Done, except for links that are blocked or excluded: %s.", humanize.Comma(r.Summary.Queued))
	case crawl.Left:
		return "The agent has left the cluster."
	case crawl.PageLimit, crawl.SizeLimit, crawl.TimeLimit:
		return fmt.Sprintf("Stopped by --%s with %s to do.", r.Stop, left)
	case crawl.DiskLow:
		return fmt.Sprintf("Stopped by --min-free-disk with %s to do. Make room, or give less, then continue.", left)
	case crawl.Signal:
		return fmt.Sprintf("Stopped by a signal with %s to do.", left)
	case crawl.ByOperator:
		return fmt.Sprintf("Stopped by the operator with %s to do.", left)
	case crawl.OutputClosed:
		output := "its output"
		if name := d.closed.Load(); name != nil {
			output = *name
		}
		return fmt.Sprintf("Stopped because %s was closed, with %s to do.", output, left)
	}
	return fmt.Sprintf("Stopped by %s with %s to do.", r.Stop, left)
}

// standstill says why a run that was stopped has fetched nothing; "" if that is not known, or if it has fetched
// something.
func standstill(r node.Result) string {
	s := r.Standstill
	switch {
	case r.Stop == crawl.Finished || r.Stop == crawl.OnlyBlocked || r.Stop == crawl.Left || r.Stop == crawl.DiskLow ||
		r.Summary.Fetched > 0:
		return ""
	case s.Last != nil:
		why, remedy := explainSeed(*s.Last, true)
		text := report.Clean(s.Last.URL.String()) + "  " + report.CleanText(why)
		return "Nothing was fetched. The last visit failed:\n  " + strings.TrimSpace(text+"\n"+remedy) + "\n"
	case s.Waited != "":
		return "Nothing was fetched. The crawl waited for " + report.OneLine(s.Waited) + ".\n"
	}
	return ""
}

// whyEmpty says that the archive is empty and why; "" if it is not.
func whyEmpty(r node.Result) string {
	switch {
	case !r.EmptyArchive:
		return ""
	case r.Summary.Fetched == 0:
		return ", empty: nothing was fetched"
	case r.Summary.Unkept > 0:
		return ", empty: --keep or --obey-noarchive left out all responses"
	}
	return ", empty"
}

// nextSteps returns what the user may want to do next, each with its command. limit is the flag that raises the limit
// which stopped the crawl.
func nextSteps(dir string, r node.Result, limit string) (steps [][2]string) {
	add := func(what, command string) { steps = append(steps, [2]string{what, command}) }
	if r.Summary.Pages > 0 && !r.EmptyArchive {
		add("Browse the pages", "orbweaver replay "+shellWord(dir))
	}
	if r.Summary.Hosts > 0 {
		add("Tables and charts", "orbweaver report"+dirArgument(dir))
	}
	switch r.Stop {
	case crawl.Finished, crawl.Left:
	case crawl.OnlyBlocked:
		if r.ByOrders || r.Blacklist == "" {
			add("Unblock a host", "orbweaver crawl --resume --unblock HOST"+dirFlag(dir))
		}
		if r.Blacklist != "" {
			add("Shorten "+r.Blacklist+", then", "orbweaver crawl --resume"+dirFlag(dir))
		}
	default:
		add("Continue", "orbweaver crawl --resume"+limit+dirFlag(dir))
	}
	return steps
}

// raisedLimit returns the flag that raises the limit which stopped the crawl, to twice its
// value, or "". Without it, a resumed crawl would stop at once.
func (d *display) raisedLimit(r node.Result) string {
	switch r.Stop {
	case crawl.PageLimit:
		return fmt.Sprintf(" --page-limit %d", 2*max(d.pageLimit, r.Summary.Pages))
	case crawl.SizeLimit:
		size := humanize.Bytes(uint64(2 * max(d.sizeLimit, r.Summary.Bytes)))
		return " --size-limit " + strings.ReplaceAll(size, " ", "")
	}
	return ""
}

// dirFlag returns the flag --dir for dir, quoted for a shell, or "" for the default.
func dirFlag(dir string) string {
	if dir == defaultDir {
		return ""
	}
	return " --dir " + shellWord(dir)
}

// dirArgument returns dir as an argument, quoted for a shell, or "" for the default.
func dirArgument(dir string) string {
	if dir == defaultDir {
		return ""
	}
	return " " + shellWord(dir)
}

func shellWord(s string) string {
	if strings.ContainsAny(s, " '\"$`\\!*?[]{}()<>|&;~#\t\n") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}
