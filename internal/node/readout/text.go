// Package readout answers: how does a person read on a terminal what a crawl answers?
//
//	a response of package operate -> Status, Event -> lines of text, as wide as the terminal
//
// Agents choose much of the text. Cell and Line make it safe to show, and bound it.
package readout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"google.golang.org/protobuf/proto"

	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/report"
)

const (
	CellMost = 100     // characters of a cell of a table
	lineMost = 4 << 10 // characters of an error of an agent
)

// Line returns text of an agent as one line that is safe to show.
func Line(s string) string { return Shorten(report.OneLine(s), lineMost) }

// Cell returns text of an agent for a cell of a table.
func Cell(s string) string { return Shorten(report.OneLine(s), CellMost) }

// Event returns an event as a line: its time, the agents that have told of it, and its sentence and name.
func Event(e *pb.Event) string {
	line := e.Time.AsTime().Format(time.RFC3339)
	agents := e.Agents
	if len(agents) == 0 && e.Agent != "" {
		agents = []string{e.Agent}
	}
	if more := len(agents) - agentsMost; more > 0 {
		agents = append(slices.Clone(agents[:agentsMost]), fmt.Sprintf("%d more", more))
	}
	for i, name := range agents {
		line += [2]string{"  ", ", "}[min(i, 1)] + Cell(name)
	}
	if e.Text == "" { // from an agent of an earlier version
		return line + "  " + Cell(e.Event) + "\n"
	}
	return line + "  " + Line(e.Text) + " [" + Cell(e.Event) + "]\n"
}

// agentsMost bounds the agents that a line names.
const agentsMost = 3

// Shorten cuts s to n characters.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// Table returns rows as text in columns. The first row has the names of the columns; those in right have numbers.
func Table(rows [][]string, right ...string) string {
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

// JSON returns a message as a JSON object; see inbound.MarshalJSON.
func JSON(m proto.Message, defaults bool) ([]byte, error) { return inbound.MarshalJSON(m, defaults) }
