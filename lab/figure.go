package lab

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Figure is a picture: panels below each other.
type Figure struct {
	Alt    string // says what is to be seen, in a sentence
	Panels []Panel
}

// A Panel is a plot: bars in groups, or lines.
type Panel struct {
	Title string
	X, Y  string // labels of the axes, with units

	Groups []string // below the bars
	Bars   []Bars   // one of each in every group
	Stack  bool     // on top of each other rather than side by side
	First  int      // number of the first bars' colour
	Digits int      // of the numbers on the bars

	Lines  []Line
	Levels []Level
	Log    bool    // both axes are logarithmic, and the legend stands beside the lines
	Aside  bool    // the legend stands beside them
	Top    float64 // the upper end of the y axis; 0: as the lines need
}

// Bars are the bars of one colour.
type Bars struct {
	Name string
	// Values has one for each group; NaN leaves it out. Low and High, if there, are the
	// ends of whiskers.
	Values, Low, High []float64
}

// A Line goes through points.
type Line struct {
	Name   string
	Points plotter.XYs
	Color  int  // its number, from 1 on; 0: in order
	Bold   bool // with logarithmic axes
}

// A Level is a horizontal line to hold the rest against.
type Level struct {
	Name string
	Y    float64
}

// colors are Okabe's and Ito's, told apart by the colour-blind, too.
var colors = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x00, 0x9e, 0x73, 0xff},
	color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	color.RGBA{0xf0, 0xe4, 0x42, 0xff}, color.RGBA{0x66, 0x66, 0x66, 0xff},
}

func colorOf(i int) color.Color { return colors[i%len(colors)] }

const (
	figureWidth = 8 * vg.Inch
	panelHeight = 3.1 * vg.Inch
)

// SVG writes the picture.
func (f *Figure) SVG(w io.Writer) error {
	n := len(f.Panels)
	height := panelHeight * vg.Length(max(n, 1))
	img := vgsvg.New(figureWidth, height)
	all := draw.New(img)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	plots := make([][]*plot.Plot, n)
	legends := make([]*plot.Legend, n)
	beside := vg.Length(0)
	for i, p := range f.Panels {
		pl, legend := p.plot()
		plots[i], legends[i] = []*plot.Plot{pl}, legend
		if legend != nil {
			beside = legendWidth
		}
	}
	if n > 0 {
		tiles := draw.Tiles{Rows: n, Cols: 1, PadTop: 8, PadBottom: 8, PadLeft: 8, PadRight: 16 + beside, PadY: 14}
		for i, row := range plot.Align(plots, tiles, all) {
			plots[i][0].Draw(row[0])
			if legends[i] != nil {
				c := row[0]
				c.Min.X, c.Max.X = c.Max.X+6, all.Max.X
				c.Max.Y -= 26 // below the title
				legends[i].Draw(c)
			}
		}
	}
	var b bytes.Buffer
	if _, err := img.WriteTo(&b); err != nil {
		return fmt.Errorf("svg: %w", err)
	}
	// Where there is no Liberation, another font of its measures will do.
	out := bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif"))
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("svg: %w", err)
	}
	return nil
}

// sans is the font of all text.
func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// plot makes the plot, and the legend if that is to stand beside it.
func (p *Panel) plot() (*plot.Plot, *plot.Legend) {
	pl := plot.New()
	pl.Title.Text, pl.X.Label.Text, pl.Y.Label.Text = p.Title, p.X, p.Y
	for style, size := range map[*text.Style]vg.Length{
		&pl.Title.TextStyle: 13, &pl.X.Label.TextStyle: 11, &pl.Y.Label.TextStyle: 11,
		&pl.X.Tick.Label: 10, &pl.Y.Tick.Label: 10, &pl.Legend.TextStyle: 10,
	} {
		style.Font = sans(size)
	}
	pl.Title.Padding = 6
	if p.Log {
		return pl, p.addLogLines(pl)
	}
	pl.Y.Min = 0
	pl.Y.Tick.Marker = ticks{}
	pl.Legend.Top = true
	pl.Legend.Padding = 2
	pl.Legend.YOffs = -2
	grid := plotter.NewGrid()
	grid.Vertical.Color = nil
	grid.Horizontal.Color = color.Gray{0xdd}
	pl.Add(grid)
	var numbers []plot.Plotter
	if len(p.Groups) > 0 {
		numbers = p.addBars(pl)
	}
	for i, l := range p.Lines {
		line := &plotter.Line{XYs: l.Points, LineStyle: draw.LineStyle{Color: colorOf(p.First + i), Width: 1.5}}
		pl.Add(line)
		if l.Name != "" {
			pl.Legend.Add(l.Name, line)
		}
	}
	for _, v := range p.Levels {
		l := &level{y: v.Y, style: draw.LineStyle{Color: color.RGBA{0xc0, 0, 0, 0xff}, Width: 1,
			Dashes: []vg.Length{5, 3}}, name: v.Name, font: sans(9)}
		pl.Add(l)
	}
	pl.Add(numbers...) // above the levels
	switch {
	case p.Top > 0:
		pl.Y.Max = p.Top
	case !p.Aside:
		pl.Y.Max = headroom(pl.Y.Max)
	}
	if len(p.Lines) > 0 {
		pl.X.Min = min(pl.X.Min, 0)
		pl.X.Tick.Marker = ticks{}
	}
	if p.Aside {
		legend := pl.Legend
		legend.Left, legend.YOffs, legend.Padding = true, 0, 3
		pl.Legend = plot.NewLegend()
		return pl, &legend
	}
	return pl, nil
}

// headroom is a bit above the highest, for numbers and the legend.
func headroom(top float64) float64 {
	if top <= 0 || math.IsInf(top, 0) || math.IsNaN(top) {
		return 1
	}
	return top * 1.3
}

// addBars draws the bars; the groups stand at 0, 1, 2... The numbers on them are
// still to be added.
func (p *Panel) addBars(pl *plot.Plot) (numbers []plot.Plotter) {
	n := len(p.Bars)
	width := 0.6
	if n > 1 {
		width = 0.8
	}
	if !p.Stack {
		width /= float64(max(n, 1))
	}
	base := make([]float64, len(p.Groups))
	for i := range p.Bars {
		b := &bars{Bars: p.Bars[i], color: colorOf(p.First + i), width: width, digits: p.Digits, base: base,
			groups: len(p.Groups)}
		if p.Stack {
			next := make([]float64, len(base))
			for g := range next {
				next[g] = base[g]
				if g < len(b.Values) && !math.IsNaN(b.Values[g]) {
					next[g] += b.Values[g]
				}
			}
			base = next
		} else {
			b.offset = (float64(i) - float64(n-1)/2) * width
		}
		pl.Add(b)
		if !p.Stack || i == n-1 {
			numbers = append(numbers, numbersOf{b})
		}
		if b.Name != "" && n > 1 {
			pl.Legend.Add(b.Name, b)
		}
	}
	pl.NominalX(p.Groups...)
	pl.X.Tick.Label.Font = sans(10)
	pl.X.Min, pl.X.Max = -0.5, float64(len(p.Groups))-0.5
	side := 0.14 * float64(len(p.Groups))
	if len(p.Levels) > 0 { // room for their names
		pl.X.Min -= side
	}
	if n > 1 { // and for the legend
		pl.X.Max += side
	}
	return numbers
}

// bars draws Bars in units of the axes.
type bars struct {
	Bars
	color         color.Color
	width, offset float64
	digits        int
	base          []float64 // below each bar
	groups        int
}

func (b *bars) each(f func(g int, x, low, high float64)) {
	for g, v := range b.Values {
		if g < b.groups && !math.IsNaN(v) {
			f(g, float64(g)+b.offset, b.base[g], b.base[g]+v)
		}
	}
}

// whisker are the ends of a group's whisker.
func (b *bars) whisker(g int) (low, high float64, ok bool) {
	if g >= len(b.Low) || g >= len(b.High) || !(b.High[g] > b.Low[g]) {
		return 0, 0, false
	}
	return b.Low[g], b.High[g], true
}

// Plot implements plot.Plotter.
func (b *bars) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	b.each(func(g int, at, low, high float64) {
		l, r := x(at-b.width*0.47), x(at+b.width*0.47)
		c.FillPolygon(b.color, []vg.Point{{X: l, Y: y(low)}, {X: r, Y: y(low)}, {X: r, Y: y(high)}, {X: l, Y: y(high)}})
		if from, to, ok := b.whisker(g); ok {
			line := draw.LineStyle{Color: color.Black, Width: 1}
			m := x(at)
			c.StrokeLines(line, []vg.Point{{X: m, Y: y(from)}, {X: m, Y: y(to)}},
				[]vg.Point{{X: m - 3, Y: y(from)}, {X: m + 3, Y: y(from)}},
				[]vg.Point{{X: m - 3, Y: y(to)}, {X: m + 3, Y: y(to)}})
		}
	})
}

// numbersOf are the numbers on bars, on white.
type numbersOf struct{ *bars }

// Plot implements plot.Plotter.
func (b numbersOf) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	label := text.Style{Font: sans(8.5), Color: color.Black, XAlign: text.XCenter, YAlign: text.YBottom,
		Handler: p.Title.TextStyle.Handler}
	b.each(func(g int, at, _, high float64) {
		s, _ := Column{Digits: b.digits}.show(high)
		if _, to, ok := b.whisker(g); ok {
			high = max(high, to)
		}
		r := label.Rectangle(s).Add(vg.Point{X: x(at), Y: y(high) + 2})
		r.Min.Y = y(high) + 1 // not over the bar or its whisker
		c.FillPolygon(color.White, []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}})
		c.FillText(label, vg.Point{X: x(at), Y: y(high) + 2}, s)
	})
}

// DataRange implements plot.DataRanger.
func (b *bars) DataRange() (xmin, xmax, ymin, ymax float64) {
	b.each(func(g int, _, _, high float64) {
		ymax = max(ymax, high)
		if _, to, ok := b.whisker(g); ok {
			ymax = max(ymax, to)
		}
	})
	return -0.5, float64(b.groups) - 0.5, 0, ymax
}

// Thumbnail implements plot.Thumbnailer.
func (b *bars) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(b.color, []vg.Point{{X: c.Min.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Max.Y},
		{X: c.Min.X, Y: c.Max.Y}})
}

// level draws a Level with its name on it, at the left.
type level struct {
	y     float64
	name  string
	style draw.LineStyle
	font  font.Font
}

// Plot implements plot.Plotter.
func (l *level) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	c.StrokeLine2(l.style, c.Min.X, y(l.y), c.Max.X, y(l.y))
	c.FillText(text.Style{Font: l.font, Color: l.style.Color, XAlign: text.XLeft, YAlign: text.YBottom,
		Handler: p.Title.TextStyle.Handler},
		vg.Point{X: c.Min.X + 2, Y: y(l.y) + 1}, l.name)
}

// DataRange implements plot.DataRanger.
func (l *level) DataRange() (xmin, xmax, ymin, ymax float64) {
	return math.Inf(1), math.Inf(-1), 0, l.y
}

// ticks stand at round numbers, with thousands marked.
type ticks struct{}

// Ticks implements plot.Ticker.
func (ticks) Ticks(low, high float64) (marks []plot.Tick) {
	if !(high > low) || math.IsInf(high-low, 0) {
		return nil
	}
	const most = 7 // so many at the most
	step := math.Pow(10, math.Floor(math.Log10((high-low)/most)))
	for _, times := range []float64{2, 2.5, 2} { // 1, 2, 5, 10
		if (high-low)/step <= most {
			break
		}
		step *= times
	}
	digits := int(max(0, math.Ceil(-math.Log10(step)-1e-9)))
	for i := math.Ceil(low/step - 1e-9); i*step <= high*(1+1e-9); i++ {
		label, _ := Column{Digits: digits}.show(i * step)
		marks = append(marks, plot.Tick{Value: i * step, Label: label})
	}
	return marks
}
