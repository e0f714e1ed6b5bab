package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/mattn/go-runewidth"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// CtlStatusCmd implements "ctl status".
type CtlStatusCmd struct {
	AgentFlag `embed:""`
	ShowFlags `embed:""`
}

// Help explains the columns.
func (CtlStatusCmd) Help() string {
	return `The table has a row for each agent:

  STATE       crawling, paused (by ctl pause), waiting (for other agents,
              before the crawl starts), leaving (after ctl leave),
              stopping, or silent (it does not answer)
  PAGES       2xx responses, in all runs
  PAGES/S     pages a second, in the last seconds
  RECEIVED    bytes
  QUEUED      URLs that wait for a visit
  KNOWN       different URLs accepted
  OPEN        open requests
  ERRORS      URLs given up after an error
  WAITS FOR   what the agent waits for, if nothing comes or it leaves; why it
              is silent

The last row has the sum of the agents that answer. A line below it names the
agents that left, stopped or were lost: their pages are not counted.

Then come the limit of the crawl's rate and the table of the applications, if there
are any. "orbweaver ctl apps --help" explains its columns.

With --watch on a terminal, the table is drawn in place.

With --json, "status" of each agent has its counts; docs/reference/json.md
explains them.

  orbweaver ctl status --watch
  orbweaver ctl status --json --agent a2`
}

// Run prints the status.
func (s CtlStatusCmd) Run(c *commands, out io.Writer, errs cli.ErrorOutput) error {
	return s.show(c, out, errs, watchEvery, func(ctx context.Context, o operator) (content, error) {
		res, err := o.Status(ctx, &pb.StatusRequest{Agent: s.Agent})
		if err != nil {
			return content{}, err
		}
		return content{message: res, text: statusTable(res)}, nil
	})
}

// statusTable returns the status as a table.
func statusTable(r *pb.StatusResponse) string {
	rows := [][]string{{"AGENT", "STATE", "PAGES", "PAGES/S", "RECEIVED", "QUEUED", "KNOWN", "OPEN", "ERRORS",
		"WAITS FOR"}}
	row := func(name, state string, t *pb.Totals, waitsFor string) {
		cells := []string{inCell(name), inCell(state), "-", "-", "-", "-", "-", "-", "-", inCell(waitsFor)}
		if t != nil {
			copy(cells[2:], []string{humanize.Comma(t.Pages), fmt.Sprintf("%.1f", t.PagesPerS),
				humanize.Bytes(uint64(max(t.Bytes, 0))), humanize.Comma(t.UrlsQueued), humanize.Comma(t.UrlsUnique),
				humanize.Comma(t.OpenRequests), humanize.Comma(t.Errors)})
		}
		rows = append(rows, cells)
	}
	for _, a := range r.Agents {
		row(a.Agent, a.State, a.Totals, a.WaitsFor)
	}
	if len(r.Agents) > 1 {
		row("total", "", r.Totals, "")
	}
	if !slices.ContainsFunc(r.Agents, func(a *pb.AgentStatus) bool { return a.Agent != "" }) {
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	return textTable(rows, "PAGES", "PAGES/S", "RECEIVED", "QUEUED", "KNOWN", "OPEN", "ERRORS") + diskLine(r.Agents) +
		absentLine(r.Absent) + rateLines(r.Agents) + appLines(r.Agents) + lostLine(r.Agents) + copiesLine(r.Agents)
}

// diskLine tells how much is free on the disk of the agent that has the least, or is empty.
func diskLine(agents []*pb.AgentStatus) (line string) {
	least := math.Inf(1)
	for _, a := range agents {
		f := a.GetStatus().GetFields()["disk"].GetStructValue().GetFields()
		if free, size := f["free_bytes"].GetNumberValue(), f["size_bytes"].GetNumberValue(); size > 0 && free < least {
			least = free
			line = strings.TrimSuffix(fmt.Sprintf("free on disk: %s of %s at %s", humanize.Bytes(uint64(free)),
				humanize.Bytes(uint64(size)), inCell(a.Agent)), " at ") + "\n"
		}
	}
	return line
}

// absentLine names the agents whose counts are in no total, or is empty.
func absentLine(absent []string) string {
	if len(absent) == 0 {
		return ""
	}
	var names []string
	for _, name := range absent[:min(len(absent), absentMost)] {
		names = append(names, inCell(name))
	}
	if more := len(absent) - absentMost; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf("not counted: %s, which left, stopped or were lost\n", english.WordSeries(names, "and"))
}

// absentMost bounds the names of absent agents in a line.
const absentMost = 10

// lostLine tells of archives that were lost with their agents, or is empty.
func lostLine(agents []*pb.AgentStatus) string {
	var again, waiting float64
	for _, a := range agents {
		f := a.GetStatus().GetFields()
		again += f["refetched"].GetNumberValue()
		waiting += f["lost"].GetStructValue().GetFields()["listed_urls"].GetNumberValue()
	}
	if again+waiting == 0 {
		return ""
	}
	return fmt.Sprintf("lost archives: %s pages fetched again, %s URLs on lists\n", humanize.Comma(int64(again)),
		humanize.Comma(int64(waiting)))
}

// copiesLine tells of copies of archive files, or is empty.
func copiesLine(agents []*pb.AgentStatus) string {
	var copied, waiting, bytes float64
	for _, a := range agents {
		f := a.GetStatus().GetFields()["archive_copies"].GetStructValue().GetFields()
		copied += f["copied"].GetNumberValue()
		waiting += f["waiting"].GetNumberValue()
		bytes += f["held_bytes"].GetNumberValue()
	}
	if copied+waiting == 0 {
		return ""
	}
	return fmt.Sprintf("archive files: %s copied, %s waiting; %s of copies\n", humanize.Comma(int64(copied)),
		humanize.Comma(int64(waiting)), humanize.Bytes(uint64(max(bytes, 0))))
}

// textTable returns rows as text in columns. The first row has the names of the columns; those in right have numbers.
func textTable(rows [][]string, right ...string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], runewidth.StringWidth(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			space := strings.Repeat(" ", widths[i]-runewidth.StringWidth(cell))
			if slices.Contains(right, rows[0][i]) {
				cell = space + cell
			} else {
				cell += space
			}
			line.WriteString(cell + "  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}
