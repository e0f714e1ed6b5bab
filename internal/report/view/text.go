package view

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/review"
)

// Text writes the sections as tables with aligned columns. It writes no table without rows. A table that is wider than
// columns gets a line for each cell of text; 0 means that no table is too wide.
func Text(w io.Writer, sections []Section, columns int) error {
	b := bufio.NewWriter(w)
	for i, s := range sections {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(strings.ToUpper(s.Title) + "\n")
		for _, n := range s.Notes {
			wrapped(b, n, columns)
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
			if columns > 0 && t.width() > columns && t.stacks() {
				t.stacked(b, columns)
			} else {
				t.text(b, max(columns, widest))
			}
		}
	}
	return b.Flush()
}

// wrapped writes a text in lines of so many columns, broken between words. 0 means one line.
func wrapped(b *bufio.Writer, text string, columns int) {
	used := 0
	for i, word := range strings.Fields(text) {
		n := runewidth.StringWidth(word)
		switch {
		case i == 0:
		case columns > 0 && used+1+n > columns:
			b.WriteString("\n")
			used = 0
		default:
			b.WriteString(" ")
			used++
		}
		b.WriteString(word)
		used += n
	}
	b.WriteString("\n")
}

// widest is the greatest width to which a column of texts is aligned if the output is no terminal. A longer text moves
// the rest of its row.
const widest = 60

// text writes t. A text that is longer than limit does not widen its column.
func (t Table) text(b *bufio.Writer, limit int) {
	if t.Title != "" {
		b.WriteString("  " + t.Title + "\n")
	}
	width := t.aligned(limit)
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

// width returns the number of columns that the widest line of t takes.
func (t Table) width() (most int) {
	for i, c := range t.Columns {
		n := runewidth.StringWidth(c.Title)
		for _, row := range t.Rows {
			n = max(n, runewidth.StringWidth(row[i].Text))
		}
		most += 2 + n
	}
	return most
}

// texts returns the index of the first column of text.
func (t Table) texts() int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return !c.Number })
}

// stacks reports whether all numbers of t come before its texts.
func (t Table) stacks() bool {
	i := t.texts()
	return i >= 0 && !t.pairs && !slices.ContainsFunc(t.Columns[i:], func(c Column) bool { return c.Number })
}

// stacked writes t with the numbers of a row in front, and each text on lines of its own. It breaks texts between
// words, so that URLs stay whole.
func (t Table) stacked(b *bufio.Writer, columns int) {
	first := t.texts()
	numbers := Table{Title: t.Title, Columns: t.Columns[:first], Rows: t.Rows}.aligned(columns)
	indent := 2
	for _, n := range numbers {
		indent += 2 + n
	}
	if t.Title != "" {
		b.WriteString("  " + t.Title + "\n")
	}
	write := func(cell func(i int) string, head bool) {
		for i, n := range numbers {
			b.WriteString("  " + strings.Repeat(" ", max(n-runewidth.StringWidth(cell(i)), 0)) + cell(i))
		}
		b.WriteString("  ")
		used, fresh := indent, true
		for i := first; i < len(t.Columns); i++ {
			for j, word := range strings.Fields(cell(i)) {
				n := runewidth.StringWidth(word)
				switch {
				case fresh:
				case j == 0 && !head, used+1+n > columns:
					b.WriteString("\n" + strings.Repeat(" ", indent))
					used = indent
				default:
					b.WriteString(" ")
					used++
				}
				b.WriteString(word)
				used, fresh = used+n, false
			}
			if head && i+1 < len(t.Columns) {
				b.WriteString(" /")
				used += 2
			}
		}
		b.WriteString("\n")
	}
	write(func(i int) string { return strings.ToUpper(t.Columns[i].Title) }, true)
	for _, row := range t.Rows {
		write(func(i int) string { return row[i].Text }, false)
	}
	if t.More != "" {
		b.WriteString("  " + t.More + "\n")
	}
}

// aligned returns the width of each column. A text that is longer than limit does not count.
func (t Table) aligned(limit int) []int {
	width := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		width[i] = runewidth.StringWidth(c.Title)
		for _, row := range t.Rows {
			if n := runewidth.StringWidth(row[i].Text); n <= limit {
				width[i] = max(width[i], n)
			}
		}
	}
	return width
}

// PrintBroken prints a broken link as lines that begin with the linking page, as compilers print messages that begin
// with the file.
func PrintBroken(out io.Writer, b review.Broken) error {
	pages := b.Pages
	if len(pages) == 0 {
		pages = []string{"seed"}
	}
	for i, p := range pages {
		url := b.URL
		if via := Through(b, i); via != "" {
			url = via + " to " + b.URL
		}
		_, err := fmt.Fprintf(out, "%s: broken link: %s: %s\n", report.OneLine(p), report.OneLine(url),
			report.OneLine(Result(b)))
		if err != nil {
			return err
		}
	}
	if more := b.Links - int64(len(b.Pages)); more > 0 {
		_, err := fmt.Fprintf(out, "%s: broken link: %s: %s\n", report.Count(more, "other page"), report.OneLine(b.URL),
			report.OneLine(Result(b)))
		return err
	}
	return nil
}
