package lab

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot/plotter"
)

// panel adds a panel to the picture.
func (p *page) panel(text string, with ...string) (string, error) {
	s, err := p.read(text, with)
	if err != nil {
		return "", err
	}
	said := func(word string) string { return strings.Join(s.said[word], " ") }
	whole := func(word string) int {
		n, _ := strconv.Atoi(said(word))
		return n
	}
	has := func(word string) bool { return s.said[word] != nil }
	panel := Panel{Title: said("title"), Y: said("y"), Log: has("log"), Stack: has("stack"), Aside: has("aside"),
		Stagger: has("stagger"), Digits: whole("digits"), First: whole("first")}
	label, dim, _ := strings.Cut(said("x"), " = ")
	panel.X = label
	if has("top") {
		v, err := s.subset.value(said("top"))
		if err != nil {
			return "", err
		}
		panel.Top, _ = v.one().(float64)
	}
	groups, err := s.groups(&panel)
	if err != nil {
		return "", err
	}
	by, _ := list(s.said["by"])
	keys, err := s.subset.keys(by...)
	if err != nil {
		return "", err
	}
	drawn := 0
	for _, part := range s.parts {
		if part.kind == "level" {
			v, err := s.subset.value(part.e[0])
			if f, ok := v.one().(float64); ok {
				panel.Levels = append(panel.Levels, Level{part.name, f})
			}
			if err != nil {
				return "", err
			}
			continue
		}
		at := [][]string{nil}
		if strings.Contains(part.name, "%s") {
			at = keys
		}
		for _, k := range at {
			sub, name := s.subset, part.name
			if k != nil {
				sub, name = s.subset.at(by, k), strings.Replace(part.name, "%s", people(k), 1)
			}
			switch part.kind {
			case "line":
				drawn++
				color := drawn
				if before, after, ok := strings.Cut(name, " #"); ok {
					name = before
					color, _ = strconv.Atoi(after)
				}
				err = sub.line(&panel, color, name, dim, part.e[0], slices.Contains(s.said["bold"], name))
			case "longer":
				err = sub.longer(&panel, name, part.e)
			case "bar":
				err = sub.bars(&panel, name, part.e[0], groups, has("whiskers"))
			}
			if err != nil {
				return "", err
			}
		}
	}
	panel.dropEmpty()
	if len(panel.Lines)+len(panel.Groups) > 0 {
		p.fig.Panels = append(p.fig.Panels, panel)
	}
	return "", nil
}

// dropEmpty removes the groups without a bar.
func (p *Panel) dropEmpty() {
	for g := len(p.Groups) - 1; g >= 0; g-- {
		if slices.ContainsFunc(p.Bars, func(b Bars) bool { return !math.IsNaN(b.Values[g]) }) {
			continue
		}
		p.Groups = slices.Delete(p.Groups, g, g+1)
		for i := range p.Bars {
			b := &p.Bars[i]
			b.Values = slices.Delete(b.Values, g, g+1)
			if b.Low != nil {
				b.Low, b.High = slices.Delete(b.Low, g, g+1), slices.Delete(b.High, g, g+1)
			}
		}
	}
}

// A grouping narrows a subset to a group of bars.
type grouping func(subset) (subset, error)

// groups returns the groups of bars, and adds their names to the panel.
func (s *spec) groups(panel *Panel) (groups []grouping, err error) {
	for _, text := range s.said["groups"] {
		dim, letters, cut := strings.Cut(text, " ")
		keys, err := s.subset.keys(dim)
		if err != nil {
			return nil, err
		}
		n, _ := strconv.Atoi(letters)
		for _, k := range keys {
			name := people(k)
			if cut {
				name = name[:min(n, len(name))]
			}
			panel.Groups = append(panel.Groups, name)
			groups = append(groups, func(s subset) (subset, error) { return s.with(dim, k[0]) })
		}
	}
	for _, part := range s.parts {
		if part.kind == "group" {
			panel.Groups = append(panel.Groups, part.name)
			groups = append(groups, func(s subset) (subset, error) { return s.and(part.e[0]) })
		}
	}
	return groups, nil
}

// line adds a line of a colour. On logarithmic axes it leaves out what has no logarithm.
func (s subset) line(panel *Panel, color int, name, dim, e string, bold bool) error {
	keys, err := s.keys(dim)
	if err != nil {
		return err
	}
	l := Line{Name: name, Color: color, Bold: bold}
	for _, k := range keys {
		at, err := s.with(dim, k[0])
		if err != nil {
			return err
		}
		v, err := at.value(e)
		if err != nil {
			return err
		}
		x, ok1 := numeric(k[0]).(float64)
		y, ok2 := v.one().(float64)
		if ok1 && ok2 && (!panel.Log || y > 0) {
			l.Points = append(l.Points, plotter.XY{X: x, Y: y})
		}
	}
	slices.SortStableFunc(l.Points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
	if len(l.Points) > 0 {
		panel.Lines = append(panel.Lines, l)
	}
	return nil
}

// longer adds a distribution: a line that falls at each of its values by their share.
func (s subset) longer(panel *Panel, name string, e []string) error {
	values, err := s.value(e[0])
	if err != nil {
		return err
	}
	weights := vec{1.0}
	if len(e) > 1 {
		if weights, err = s.value(e[1]); err != nil {
			return err
		}
	}
	var steps plotter.XYs
	w := weights.numbers()
	for i, x := range values.numbers() {
		steps = append(steps, plotter.XY{X: x, Y: w[min(i, len(w)-1)]})
	}
	slices.SortFunc(steps, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
	whole := 0.0
	for _, step := range steps {
		whole += step.Y
	}
	l, left := Line{Name: name, Points: plotter.XYs{{Y: percent}}}, whole
	for _, step := range steps {
		l.Points = append(l.Points, plotter.XY{X: step.X, Y: percent * left / whole})
		left -= step.Y
		l.Points = append(l.Points, plotter.XY{X: step.X, Y: percent * left / whole})
	}
	if whole > 0 {
		panel.Lines = append(panel.Lines, l)
	}
	return nil
}

// bars adds the bars of one colour.
func (s subset) bars(panel *Panel, name, e string, groups []grouping, whiskers bool) error {
	b := Bars{Name: name}
	for _, narrow := range groups {
		at, err := narrow(s)
		if err != nil {
			return err
		}
		v, err := at.value(e)
		if err != nil {
			return err
		}
		y, ok := v.one().(float64)
		if !ok {
			y = math.NaN()
		}
		b.Values = append(b.Values, y)
		if fs := v.numbers(); whiskers && len(fs) > 0 {
			b.Low, b.High = append(b.Low, slices.Min(fs)), append(b.High, slices.Max(fs))
		} else if whiskers {
			b.Low, b.High = append(b.Low, 0), append(b.High, 0)
		}
	}
	panel.Bars = append(panel.Bars, b)
	return nil
}
