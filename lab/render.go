package lab

import (
	"bytes"
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

//go:embed *.md.tmpl
var templates embed.FS

// A page is a result in the making: the text of a template, whose tables and panels are queries over data. The
// functions of a template:
//
//	head "TITLE"       the heading, the machine, and the heading of the question
//	picture "TEXT"     the picture of all panels; TEXT describes it
//	keys "DIM"         the values of a dimension
//	items "FORMAT" "E; E" "DIM" "WHERE"   a line of FORMAT for each value of DIM for which all E have a value
//	commas TEXT        lines as a list with commas
//	table `SPEC` A     a table, which the terminal shows, too, unless it is hidden
//	                   every @ of SPEC stands for A
//	panel `SPEC` A     a panel of the picture, which leaves nothing in the text
//	val N "E" "WHERE"  an expression with N decimals; num "E" "WHERE" is the same as a number, for conditions;
//	                   WHERE may be missing
//	raw "NAME"         a fact as the CSV has it; {{.NAME}} has commas between thousands
//
// A SPEC has a line for each of these:
//
//	where DIM=VALUE, ...      the lines of the data that count; see subset.and
//	rows DIM, DIM:TITLE, ...  a row for each combination of values; a dimension with the title - has no column; a
//	                          title may end with the decimals, as in ".1"
//	TITLE .N = E              a column; without rows a line of a table with the columns of head
//	across DIM                the columns whose titles have a %s repeat for each value of DIM; with "short" behind it
//	                          the title has 20 M for 20,000,000
//	head TITLE | TITLE        the columns of a table without rows; cells of more columns follow a semicolon
//	only E                    only the rows of which E has a value
//	total TITLE               one more row, of all lines
//	more TITLE: DIM=VALUE     one more row, of the lines where the dimension has another value than in where
//	hidden                    the terminal does not show the table
//
// and for panels
//
//	title TEXT     x LABEL = DIM     y LABEL     top E     digits N     first N
//	log     stack     aside     stagger
//	by DIM, DIM               lines and bars whose names have a %s repeat for each combination of values
//	line NAME #N = E          a line over the values of x, with the Nth colour
//	groups DIM                groups of bars; with a number behind it, the names are cut to so many letters
//	group NAME: WHERE         a group of bars with a condition of its own
//	longer NAME = E; WEIGHTS  a distribution: the share of the values of E, in per cent, that are more than x; they
//	                          may have weights
//	bar NAME = E              bars, whose whiskers (with whiskers) reach from the least to the greatest value
//	level NAME = E            a horizontal line
//	bold NAME                 a line that is drawn bold
type page struct {
	d     *Data
	name  string
	text  bytes.Buffer
	fig   Figure
	shown []Section // for the terminal
}

// render makes the text above the marker, and the picture.
func (d *Data) render(name, tmpl string) (*page, error) {
	p := &page{d: d, name: name}
	t, err := template.New(tmpl+".md.tmpl").Funcs(template.FuncMap{
		"head": p.head, "picture": p.picture, "table": p.table, "panel": p.panel, "val": p.val, "num": p.num,
		"keys": p.keys, "items": p.items,
		"commas": func(lines string) string { return strings.ReplaceAll(lines, "\n", ", ") },
		"raw":    func(fact string) string { return d.facts[fact] },
	}).ParseFS(templates, tmpl+".md.tmpl")
	if err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	facts := map[string]any{}
	for what, v := range d.facts {
		facts[what] = v
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			facts[what] = count(f)
			if v == "0" { // false
				facts[what] = ""
			}
		}
	}
	if err := t.Execute(&p.text, facts); err != nil {
		return nil, fmt.Errorf("template: %w", err)
	}
	p.text.Truncate(len(bytes.TrimRight(p.text.Bytes(), "\n")))
	fmt.Fprintf(&p.text, "\n\n## Repeat the experiment\n\n```sh\n%s\n```\n\n", d.facts["again"])
	return p, nil
}

func (p *page) head(title string) string {
	s := "# " + title + "\n\n" + p.d.facts["machine"] + ".\n"
	if p.d.facts["quick"] == "1" {
		s += "\nA quick run: too short to quote.\n"
	}
	return s + "\n## Question"
}

func (p *page) picture(alt string) string {
	p.fig.Alt = alt
	return fmt.Sprintf("![%s](%s.svg)", alt, p.name)
}

// value returns the value of an expression, in the lines that satisfy conditions.
func (p *page) value(e string, where []string) (v vec, err error) {
	s := subset{d: p.d}
	for _, w := range where {
		if s, err = s.and(w); err != nil {
			return nil, err
		}
	}
	return s.value(e)
}

// num returns an expression as a number. Without a value it is 0.
func (p *page) num(e string, where ...string) (float64, error) {
	v, err := p.value(e, where)
	f, _ := v.one().(float64)
	return f, err
}

// val returns an expression for people, with some digits after the decimal point.
func (p *page) val(digits int, e string, where ...string) (string, error) {
	v, err := p.value(e, where)
	text, _ := Column{Digits: digits}.show(v.one())
	return text, err
}

// keys returns the values of a dimension.
func (p *page) keys(dim string) (values []string, err error) {
	keys, err := subset{d: p.d}.keys(dim)
	for _, k := range keys {
		values = append(values, k[0])
	}
	return values, err
}

// items returns a line for each value of a dimension.
func (p *page) items(format, exprs, dim, where string) (string, error) {
	s, err := subset{d: p.d}.and(where)
	if err != nil {
		return "", err
	}
	keys, err := s.keys(dim)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, k := range keys {
		var values []any
		for e := range strings.SplitSeq(exprs, "; ") {
			v, err := s.at([]string{dim}, k).value(e)
			if err != nil {
				return "", err
			}
			values = append(values, v.one())
		}
		if !slices.Contains(values, nil) {
			lines = append(lines, fmt.Sprintf(format, values...))
		}
	}
	return strings.Join(lines, "\n"), nil
}

// A spec is the declaration of a table or a panel.
type spec struct {
	subset subset
	// said has what follows each word, and is nil if the word is missing.
	said map[string][]string
	// columns are the lines of tables, and parts those of panels.
	columns, parts []declared
}

// A declared is a name with expressions.
type declared struct {
	kind, name string // kind is that of a part
	digits     []int
	e          []string
}

// options are the first words of lines that are no columns.
var options = []string{"where", "only", "rows", "across", "head", "total", "more", "hidden", "title", "x", "y", "top",
	"digits", "first", "log", "stack", "aside", "stagger", "by", "groups", "bold", "whiskers"}

// read reads a declaration, in which @ stands for the first of with.
func (p *page) read(text string, with []string) (s spec, err error) {
	if len(with) > 0 {
		text = strings.ReplaceAll(text, "@", with[0])
	}
	s = spec{subset: subset{d: p.d}, said: map[string][]string{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "":
		case slices.Contains([]string{"line", "longer", "bar", "level", "group"}, word):
			separator := " = "
			if word == "group" {
				separator = ": "
			}
			name, e, ok := strings.Cut(rest, separator)
			if !ok {
				return s, fmt.Errorf("%w: %q is not NAME%sE", ErrQuery, line, separator)
			}
			s.parts = append(s.parts, declared{kind: word, name: name, e: strings.Split(e, "; ")})
		case strings.Contains(line, " = ") && !slices.Contains([]string{"x", "where", "only", "more"}, word):
			name, e, _ := strings.Cut(line, " = ")
			c := declared{}
			var digits int
			c.name, digits = decimals(name)
			for e := range strings.SplitSeq(e, "; ") {
				more := digits
				if i := strings.LastIndex(e, " ."); i >= 0 {
					e, more = decimals(e)
				}
				c.e, c.digits = append(c.e, e), append(c.digits, more)
			}
			s.columns = append(s.columns, c)
		case slices.Contains(options, word):
			s.said[word] = append(s.said[word], rest)
		default:
			return s, fmt.Errorf("%w: %q", ErrQuery, line)
		}
	}
	if where := s.said["where"]; where != nil {
		s.subset, err = s.subset.and(where[0])
	}
	return s, err
}

// decimals cuts the number of decimals from the end of a text: "name .2".
func decimals(text string) (rest string, digits int) {
	if i := strings.LastIndex(text, " ."); i >= 0 {
		if n, err := strconv.Atoi(text[i+2:]); err == nil {
			return text[:i], n
		}
	}
	return text, 0
}

// list returns the names of a list, and what follows them behind a colon, or the names again.
func list(said []string) (names, titles []string) {
	for _, text := range said {
		for part := range strings.SplitSeq(text, ", ") {
			name, title, ok := strings.Cut(part, ":")
			if !ok {
				title = name
			}
			names, titles = append(names, name), append(titles, title)
		}
	}
	return names, titles
}

// table returns a table in Markdown.
func (p *page) table(text string, with ...string) (string, error) {
	s, err := p.read(text, with)
	if err != nil {
		return "", err
	}
	t := &Table{}
	if head := s.said["head"]; head != nil {
		err = p.lines(t, s, strings.Split(head[0], " | "))
	} else {
		err = p.rows(t, s)
	}
	if err != nil {
		return "", err
	}
	if s.said["hidden"] == nil {
		_, heading, _ := strings.Cut(p.text.String()[max(0, strings.LastIndex(p.text.String(), "\n## ")):], "\n## ")
		heading, _, _ = strings.Cut(heading, "\n")
		p.shown = append(p.shown, Section{Heading: heading, Table: t})
	}
	return strings.TrimSuffix(t.Markdown(), "\n"), nil
}

// lines fills a table without keys.
func (p *page) lines(t *Table, s spec, head []string) error {
	for _, name := range head {
		t.Columns = append(t.Columns, Column{Name: name})
	}
	for _, c := range s.columns {
		row := []any{c.name}
		for i, e := range c.e {
			v, err := s.subset.value(e)
			if err != nil {
				return err
			}
			cell := v.one()
			if f, ok := cell.(float64); ok && len(s.columns) > 0 {
				cell = shownNumber{f, c.digits[i]}
			}
			row = append(row, cell)
		}
		t.Add(row...)
	}
	return nil
}

// A shownNumber has its own number of decimals.
type shownNumber struct {
	f      float64
	digits int
}

// rows fills a table with a row for each combination of keys.
func (p *page) rows(t *Table, s spec) error {
	dims, titles := list(s.said["rows"])
	var shown []int // the dimensions with a column
	for i, title := range titles {
		if title != "-" {
			name, digits := decimals(title)
			t.Columns = append(t.Columns, Column{Name: name, Digits: digits})
			shown = append(shown, i)
		}
	}
	keys, err := s.subset.keys(dims...)
	if err != nil {
		return err
	}
	type cell struct {
		e           string
		across, key []string
	}
	var cells []cell
	across, _ := list(s.said["across"])
	short := false
	for i := range across {
		across[i], short = strings.CutSuffix(across[i], " short")
	}
	values, err := s.subset.keys(across...)
	if err != nil {
		return err
	}
	for _, c := range s.columns {
		if !strings.Contains(c.name, "%s") {
			t.Columns = append(t.Columns, Column{Name: c.name, Digits: c.digits[0]})
			cells = append(cells, cell{e: c.e[0]})
			continue
		}
		for _, v := range values {
			title := people(v)
			if n, err := strconv.ParseInt(v[0], 10, 64); short && err == nil {
				title = short10(n)
			}
			t.Columns = append(t.Columns, Column{Name: strings.Replace(c.name, "%s", title, 1), Digits: c.digits[0]})
			cells = append(cells, cell{c.e[0], across, v})
		}
	}
	add := func(row []any, at subset) error {
		empty := true
		for _, c := range cells {
			v, err := at.at(c.across, c.key).value(c.e)
			if err != nil {
				return err
			}
			row = append(row, v.one())
			empty = empty && v.one() == nil
		}
		if !empty {
			t.Add(row...)
		}
		return nil
	}
	for _, k := range keys {
		var row []any
		for _, i := range shown {
			row = append(row, numeric(k[i]))
		}
		if only := s.said["only"]; only != nil {
			if v, err := s.subset.at(dims, k).value(only[0]); err != nil {
				return err
			} else if len(v) == 0 {
				continue
			}
		}
		if err := add(row, s.subset.at(dims, k)); err != nil {
			return err
		}
	}
	for _, said := range append(s.said["total"], s.said["more"]...) {
		row, at := make([]any, len(shown)), s.subset
		title, where, more := strings.Cut(said, ": ")
		if row[0] = title; more {
			if at, err = at.instead(where); err != nil {
				return err
			}
		}
		if err := add(row, at); err != nil {
			return err
		}
	}
	t.dropEmpty(len(shown))
	return nil
}

// dropEmpty removes the columns without a cell, but for the first ones.
func (t *Table) dropEmpty(first int) {
	for i := len(t.Columns) - 1; i >= first; i-- {
		if !slices.ContainsFunc(t.Rows, func(row []any) bool { return row[i] != nil }) {
			t.Columns = slices.Delete(t.Columns, i, i+1)
			for k := range t.Rows {
				t.Rows[k] = slices.Delete(t.Rows[k], i, i+1)
			}
		}
	}
}

// people returns the values of a key for people.
func people(key []string) string {
	shown := make([]string, len(key))
	for i, v := range key {
		shown[i], _ = Column{}.show(numeric(v))
	}
	return strings.Join(shown, ", ")
}
