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
	escaped := strings.NewReplacer("|", `\|`, "\n", " ").Replace
	return t.layout(3, "| ", " ", "|\n", escaped, func(n int, right bool) string {
		if right {
			return strings.Repeat("-", n-1) + ":"
		}
		return strings.Repeat("-", n)
	})
}

// Text returns the table for a terminal.
func (t *Table) Text() string {
	asIs := func(s string) string { return s }
	return t.layout(0, "", "  ", "\n", asIs, func(n int, _ bool) string { return strings.Repeat("─", n) })
}

// layout returns the table with a rule below its head. Columns have at least a number of places. Each cell is between
// before and after, and each line has end.
func (t *Table) layout(least int, before, after, end string, written func(string) string,
	rule func(n int, right bool) string) string {
	rows, right := t.shown()
	wide := make([]int, len(t.Columns))
	for _, r := range rows {
		for i := range r {
			r[i] = written(r[i])
			wide[i] = max(wide[i], least, runewidth.StringWidth(r[i]))
		}
	}
	var b strings.Builder
	for n, r := range rows {
		line, under := "", ""
		for i, s := range r {
			line += before + pad(s, wide[i], right[i]) + after
			under += before + rule(wide[i], right[i]) + after
		}
		lines := []string{line, under}
		for _, l := range lines[:2-min(n, 1)] {
			if before == "" {
				l = strings.TrimRight(l, " ")
			}
			b.WriteString(l + end)
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

// pad adds spaces to s up to n columns of a terminal.
func pad(s string, n int, right bool) string {
	fill := strings.Repeat(" ", max(n-runewidth.StringWidth(s), 0))
	if right {
		return fill + s
	}
	return s + fill
}
