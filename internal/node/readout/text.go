// Package readout answers: how does a person read on a terminal what a crawl answers?
//
//	a response of package operate -> Status -> lines of text, as wide as the terminal
//
// Agents choose much of the text. Cell and Line make it safe to show, and bound it.
package readout

import (
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

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
