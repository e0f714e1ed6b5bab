package lab

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-runewidth"
)

// A Table holds measurements in rows. Markdown and Text format it for people, with rounded
// numbers; CSV writes the full numbers.
type Table struct {
	Columns []Column
	Rows    [][]any // strings, integers, float64s, time.Durations or nil, one for each column
}

// A Column is a column of a Table.
type Column struct {
	Name string
	Unit string // of the numbers; durations are shown in it: s, ms or µs
	// Digits is the number of digits after the decimal point, for people.
	Digits int
}

// Add appends a row.
func (t *Table) Add(cells ...any) { t.Rows = append(t.Rows, cells) }

// unit returns a column's unit of time.
func (c Column) unit() time.Duration {
	switch c.Unit {
	case "ms":
		return time.Millisecond
	case "µs":
		return time.Microsecond
	}
	return time.Second
}

// show formats a cell for people. right reports whether it is a number, aligned to the right.
func (c Column) show(cell any) (s string, right bool) {
	switch v := cell.(type) {
	case nil:
		return "", true
	case string:
		return v, false
	case int:
		return humanize.Comma(int64(v)), true
	case int64:
		return humanize.Comma(v), true
	case time.Duration:
		return humanize.FormatFloat(format(c.Digits), float64(v)/float64(c.unit())), true
	case float64:
		return humanize.FormatFloat(format(c.Digits), v), true
	case shownNumber:
		return humanize.FormatFloat(format(v.digits), v.f), true
	}
	return fmt.Sprint(cell), false
}

// format returns the format of numbers with separators of thousands and a number of decimals.
func format(digits int) string { return "#,###." + strings.Repeat("#", digits) }

// raw formats a cell for programs.
func (c Column) raw(cell any) string {
	switch v := cell.(type) {
	case nil:
		return ""
	case time.Duration:
		return strconv.FormatFloat(float64(v)/float64(c.unit()), 'f', -1, 64)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(cell)
}

// title returns the head of a column: its name, and its unit if the name does not contain it.
func (c Column) title() string {
	if c.Unit == "" {
		return c.Name
	}
	return c.Name + " (" + c.Unit + ")"
}

// shown returns the head and the cells for people, and which columns hold numbers.
func (t *Table) shown() (rows [][]string, right []bool) {
	right = make([]bool, len(t.Columns))
	head := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		head[i] = c.title()
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

// CSV writes the table with a line of names. A unit follows the name: pages_per_s, cpu_us.
func (t *Table) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	row := make([]string, len(t.Columns))
	for i, col := range t.Columns {
		row[i] = key(col.Name)
		if col.Unit != "" {
			row[i] += "_" + key(col.Unit)
		}
	}
	c.Write(row) // Flush returns the errors
	for _, r := range t.Rows {
		for i := range row {
			row[i] = ""
			if i < len(r) {
				row[i] = t.Columns[i].raw(r[i])
			}
		}
		c.Write(row)
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return fmt.Errorf("csv: %w", err)
	}
	return nil
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
