package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/mattn/go-runewidth"
	"golang.org/x/term"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
)

// CtlStatusCmd implements "ctl status".
type CtlStatusCmd struct {
	AgentFlag `embed:""`
	JSON      bool `name:"json" help:"Print all counts of the agents as one JSON object."`
	Watch     bool `short:"w" help:"Print the state again every 2 s, until Ctrl-C or the end of the crawl."`
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

// watchEvery is the time between two answers of --watch.
const watchEvery = 2 * time.Second

// Run prints the status.
func (s CtlStatusCmd) Run(c *commands, out io.Writer, errs cli.ErrorOutput) error {
	return c.Ctl.call(func(ctx context.Context, o operator) error {
		look := func(ctx context.Context) (string, error) {
			res, err := o.Status(ctx, &pb.StatusRequest{Agent: s.Agent})
			if err != nil {
				return "", err
			}
			if s.JSON {
				return asJSON(res)
			}
			return statusTable(res), nil
		}
		if !s.Watch {
			text, err := look(ctx)
			if err != nil {
				return err
			}
			_, err = io.WriteString(out, text)
			return err
		}
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		ended, err := watch(ctx, look, screenOf(out, s.JSON), c.Ctl.ended)
		if ended {
			fmt.Fprintf(errs, "orbweaver: the crawl in %s has ended\n", c.Ctl.Dir)
		}
		return err
	})
}

// watch shows what look returns every watchEvery until ctx is done. It also ends if look fails after the crawl has
// ended; over says whether it has.
func watch(
	ctx context.Context, look func(context.Context) (string, error), show func(string) error, over func() bool,
) (ended bool, err error) {
	ticks := time.NewTicker(watchEvery)
	defer ticks.Stop()
	for first := true; ; first = false {
		text, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return false, nil
		case err != nil:
			if !first && over() {
				return true, nil
			}
			return false, err
		}
		if err := show(text); err != nil {
			return false, err
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return false, nil
		}
	}
}

// ended reports whether a crawl that has answered before ends or has ended: it removes its api.json first.
func (c *CtlCmd) ended() bool {
	if _, err := os.Stat(filepath.Join(c.Dir, node.APIFile)); errors.Is(err, fs.ErrNotExist) {
		return true
	}
	pid, err := node.CrawledBy(c.Dir)
	return err == nil && pid == 0
}

// screenOf returns a function that shows a text: on a terminal in the place of the text before, elsewhere below it.
// JSON gets no empty lines in between.
func screenOf(out io.Writer, json bool) func(text string) error {
	if f := cli.Terminal(out); f != nil {
		return func(text string) error {
			cols, lines, err := term.GetSize(int(f.Fd()))
			if err != nil {
				cols, lines = 80, 24
			}
			_, err = f.WriteString(redraw(text, cols, lines))
			return err
		}
	}
	above := ""
	return func(text string) error {
		_, err := io.WriteString(out, above+text)
		if !json {
			above = "\n"
		}
		return err
	}
}

// redraw returns what draws text on a terminal of a size, from its upper left corner. Lines and columns that do not fit
// are left out.
func redraw(text string, cols, lines int) string {
	rows := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if lines = max(lines-1, 1); len(rows) > lines {
		rows = append(rows[:lines-1:lines-1], "…")
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, row := range rows {
		b.WriteString(runewidth.Truncate(report.OneLine(row), max(cols-1, 1), "…") + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	return b.String()
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
	return textTable(rows, "PAGES", "PAGES/S", "RECEIVED", "QUEUED", "KNOWN", "OPEN", "ERRORS") +
		absentLine(r.Absent) + rateLines(r.Agents) + appLines(r.Agents) + lostLine(r.Agents) + copiesLine(r.Agents)
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

// asJSON returns a message as an indented JSON object, with the names of its fields in the .proto file.
func asJSON(m proto.Message) (string, error) {
	b, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, b, "", "  "); err != nil {
		return "", err
	}
	return text.String() + "\n", nil
}
