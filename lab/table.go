package lab

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-runewidth"
)

// A Table holds values in rows. Markdown and Text format it for people, with rounded numbers.
type Table struct {
	Columns []Column
	Rows    [][]any // strings, float64s, shownNumbers or nil, one for each column
}

// A Column is a column of a Table.
type Column struct {
	Name string
	// Digits is the number of digits after the decimal point.
	Digits int
}

// Add appends a row.
func (t *Table) Add(cells ...any) { t.Rows = append(t.Rows, cells) }

// show formats a cell for people. right reports whether it is a number, aligned to the right.
func (c Column) show(cell any) (s string, right bool) {
	switch v := cell.(type) {
	case nil:
		return "", true
	case string:
		return v, false
	case float64:
		return humanize.FormatFloat(format(c.Digits), v), true
	case shownNumber:
		return humanize.FormatFloat(format(v.digits), v.f), true
	}
	return fmt.Sprint(cell), false
}

// format returns the format of numbers with separators of thousands and a number of decimals.
func format(digits int) string { return "#,###." + strings.Repeat("#", digits) }

// shown returns the head and the cells for people, and which columns hold numbers.
func (t *Table) shown() (rows [][]string, right []bool) {
	right = make([]bool, len(t.Columns))
	head := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		head[i] = c.Name
		right[i] = true
	}
	rows = append(rows, head)
	for _, r := range t.Rows {
		cells := make([]string, len(t.Columns))
		for i := range min(len(r), len(cells)) {
			s, number := t.Columns[i].show(r[i])
			cells[i] = s
			right[i] = right[i] && number
		}
		rows = append(rows, cells)
	}
	return rows, right
}

// Markdown returns the table in Markdown, with aligned columns in the source.
func (t *Table) Markdown() string {
	rows, right := t.shown()
	for _, r := range rows {
		for i := range r {
			r[i] = strings.NewReplacer("|", `\|`, "\n", " ").Replace(r[i])
		}
	}
	wide := widths(rows)
	var b strings.Builder
	for n, r := range rows {
		for i, s := range r {
			b.WriteString("| " + pad(s, max(wide[i], 3), right[i]) + " ")
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for i := range r {
			dashes := strings.Repeat("-", max(wide[i], 3)-1)
			if right[i] {
				b.WriteString("| " + dashes + ": ")
			} else {
				b.WriteString("| -" + dashes + " ")
			}
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// Text returns the table for a terminal.
func (t *Table) Text() string {
	rows, right := t.shown()
	wide := widths(rows)
	var b strings.Builder
	for n, r := range rows {
		line := ""
		for i, s := range r {
			line += pad(s, wide[i], right[i]) + "  "
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
		if n == 0 {
			rule := ""
			for _, w := range wide {
				rule += strings.Repeat("─", w) + "  "
			}
			b.WriteString(strings.TrimRight(rule, " ") + "\n")
		}
	}
	return b.String()
}

// key returns a name in lower case with underscores, for programs.
func key(s string) string {
	s = strings.NewReplacer("µs", "us", "/", "_per_", "%", "percent").Replace(strings.ToLower(s))
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, s), "_")
}

func widths(rows [][]string) []int {
	var wide []int
	for _, r := range rows {
		for i, s := range r {
			if i == len(wide) {
				wide = append(wide, 0)
			}
			wide[i] = max(wide[i], runewidth.StringWidth(s))
		}
	}
	return wide
}

// pad adds spaces to s up to n columns of a terminal.
func pad(s string, n int, right bool) string {
	fill := strings.Repeat(" ", max(n-runewidth.StringWidth(s), 0))
	if right {
		return fill + s
	}
	return s + fill
}
