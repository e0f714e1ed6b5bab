package view

import (
	"bufio"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Text writes the sections as tables with aligned columns. It writes no table without rows.
func Text(w io.Writer, sections []Section) error {
	b := bufio.NewWriter(w)
	for i, s := range sections {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(strings.ToUpper(s.Title) + "\n")
		for _, n := range s.Notes {
			b.WriteString(n + "\n")
		}
		first := true
		for _, t := range s.Tables {
			if len(t.Rows) == 0 {
				continue
			}
			if !first {
				b.WriteString("\n")
			}
			first = false
			t.text(b)
		}
	}
	return b.Flush()
}

// widest is the greatest width to which a column of texts is aligned. A longer text moves the rest of its row.
const widest = 60

// text writes t.
func (t Table) text(b *bufio.Writer) {
	if t.Title != "" {
		b.WriteString("  " + t.Title + "\n")
	}
	width := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		width[i] = runewidth.StringWidth(c.Title)
	}
	for _, row := range t.Rows {
		for i, c := range row {
			if n := runewidth.StringWidth(c.Text); n <= widest {
				width[i] = max(width[i], n)
			}
		}
	}
	line := func(cell func(i int) string) {
		var l strings.Builder
		for i, c := range t.Columns {
			text := cell(i)
			space := strings.Repeat(" ", max(width[i]-runewidth.StringWidth(text), 0))
			l.WriteString("  ")
			if c.Number {
				l.WriteString(space + text)
			} else {
				l.WriteString(text + space)
			}
		}
		b.WriteString(strings.TrimRight(l.String(), " ") + "\n")
	}
	if !t.pairs {
		line(func(i int) string { return strings.ToUpper(t.Columns[i].Title) })
	}
	for _, row := range t.Rows {
		line(func(i int) string { return row[i].Text })
	}
	if t.More != "" {
		b.WriteString("  " + t.More + "\n")
	}
}
