package lab

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Figure is a picture: a column of panels.
type Figure struct {
	Alt    string // describes the picture in a sentence
	Panels []Panel
}

// A Panel is a plot: bars in groups, or lines.
type Panel struct {
	Title string
	X, Y  string // labels of the axes, with units

	Groups []string // names below the bars
	Bars   []Bars   // each has a bar in every group
	Stack  bool     // stack the bars of a group
	// Stagger writes each word of a group's name on a line, and every second name lower.
	Stagger bool
	First   int // number of the colour of the first Bars
	Digits  int // after the decimal point, of the numbers on the bars

	Lines  []Line
	Levels []Level
	Log    bool    // both axes are logarithmic, and the legend is beside the lines
	Aside  bool    // the legend is beside the lines
	Top    float64 // the upper end of the y axis; 0: fitted to the lines
}

// Bars are the bars of one colour.
type Bars struct {
	Name string
	// Values has one value for each group; NaN draws no bar. Low and High, if not nil, are the
	// ends of the whiskers.
	Values, Low, High []float64
}

// A Line goes through points.
type Line struct {
	Name   string
	Points plotter.XYs
	Color  int  // number of the colour, from 1; 0: the next one
	Bold   bool // draw it bold, if the axes are logarithmic
}

// A Level is a horizontal line for comparison.
type Level struct {
	Name string
	Y    float64
}

// colors is the palette of Okabe and Ito, which colour-blind people can tell apart.
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
				c.Max.Y -= 26 // leave space for the title
				legends[i].Draw(c)
			}
		}
	}
	var b bytes.Buffer
	if _, err := img.WriteTo(&b); err != nil {
		return fmt.Errorf("svg: %w", err)
	}
	// Where Liberation Sans is missing, a font of the same measures replaces it.
	out := bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif"))
	if _, err := w.Write(out); err != nil {
		return fmt.Errorf("svg: %w", err)
	}
	return nil
}

// sans returns the font of all text.
func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

// plot returns the plot, and the legend if its place is beside the plot.
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
	pl.Add(numbers...) // drawn on top of the levels
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

// headroom returns a y value above top that leaves space for numbers and the legend.
func headroom(top float64) float64 {
	if top <= 0 || math.IsInf(top, 0) || math.IsNaN(top) {
		return 1
	}
	return top * 1.3
}

// addBars adds the bars; the groups are at x = 0, 1, 2... It returns the numbers on the bars,
// which the caller adds last.
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
	names := slices.Clone(p.Groups)
	for i := range names {
		if p.Stagger {
			names[i] = strings.Repeat("\n", i%2*2) + strings.ReplaceAll(names[i], " ", "\n")
		}
	}
	pl.NominalX(names...)
	pl.X.Tick.Label.Font = sans(10)
	pl.X.Min, pl.X.Max = -0.5, float64(len(p.Groups))-0.5
	side := 0.14 * float64(len(p.Groups))
	if len(p.Levels) > 0 { // space for their names
		pl.X.Min -= side
	}
	if n > 1 { // space for the legend
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
	base          []float64 // lower end of each bar
	groups        int
}

func (b *bars) each(f func(g int, x, low, high float64)) {
	for g, v := range b.Values {
		if g < b.groups && !math.IsNaN(v) {
			f(g, float64(g)+b.offset, b.base[g], b.base[g]+v)
		}
	}
}

// whisker returns the ends of the whisker of group g.
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

// numbersOf draws the numbers on bars, on a white background.
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
		r.Min.Y = y(high) + 1 // do not cover the bar or its whisker
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

// level draws a Level with its name at the left.
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

// ticks are at round numbers, with separators of thousands.
type ticks struct{}

// Ticks implements plot.Ticker.
func (ticks) Ticks(low, high float64) (marks []plot.Tick) {
	if !(high > low) || math.IsInf(high-low, 0) {
		return nil
	}
	const most = 7 // number of ticks
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

// legendWidth is the space for the legend beside a panel with logarithmic axes, whose lines
// fill the whole panel.
const legendWidth = 150

// shapes are the marks of the points of lines.
var shapes = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.RingGlyph{},
	draw.PyramidGlyph{}, draw.BoxGlyph{}}

// lineColor returns colorOf(i), but replaces yellow, which is too faint for a thin line.
func lineColor(i int) color.Color {
	if i%len(colors) == 6 {
		return color.RGBA{0x8a, 0x6d, 0x00, 0xff}
	}
	return colorOf(i)
}

// addLogLines draws p's lines into a plot with logarithmic axes. It returns the legend, whose
// place is beside the plot.
func (p *Panel) addLogLines(pl *plot.Plot) *plot.Legend {
	legend := plot.NewLegend()
	legend.TextStyle = pl.Legend.TextStyle
	legend.Top, legend.Left = true, true
	legend.Padding = 3
	legend.ThumbnailWidth = 22
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe8}, color.Gray{0xdd}
	pl.Add(grid)
	low, high := math.Inf(1), math.Inf(-1)
	left, right := math.Inf(1), math.Inf(-1)
	for i, l := range p.Lines {
		at := p.First + i
		if l.Color > 0 {
			at = l.Color - 1
		}
		style := draw.LineStyle{Color: lineColor(at), Width: 1.3}
		if l.Bold {
			style.Width = 2.6
		}
		if at >= len(colors) {
			style.Dashes = []vg.Length{4, 2}
		}
		line := &plotter.Line{XYs: l.Points, LineStyle: style}
		marks := &plotter.Scatter{XYs: l.Points,
			GlyphStyle: draw.GlyphStyle{Color: lineColor(at), Radius: 2.6, Shape: shapes[at%len(shapes)]}}
		pl.Add(line, marks)
		legend.Add(l.Name, line, marks)
		for _, xy := range l.Points {
			low, high = min(low, xy.Y), max(high, xy.Y)
			left, right = min(left, xy.X), max(right, xy.X)
		}
	}
	if !(low > 0) || !(left > 0) || math.IsInf(high, 0) {
		low, high, left, right = 1, 10, 1, 10
	}
	pl.X.Scale, pl.Y.Scale = plot.LogScale{}, plot.LogScale{}
	pl.X.Tick.Marker, pl.Y.Tick.Marker = decades{}, decades{}
	pl.X.Min, pl.X.Max = left*0.9, right*1.1
	if right <= left {
		pl.X.Min, pl.X.Max = left/2, left*2
	}
	pl.Y.Min, pl.Y.Max = math.Pow(10, math.Floor(math.Log10(low)+1e-9)), math.Pow(10, math.Ceil(math.Log10(high)-1e-9))
	if pl.Y.Max <= pl.Y.Min {
		pl.Y.Max = pl.Y.Min * 10
	}
	return &legend
}

// decades are ticks at the powers of ten, with unnumbered marks between them. If the axis has
// only one or two powers of ten, 2 and 5 times a power have numbers, too.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(low, high float64) (marks []plot.Tick) {
	if !(low > 0) || !(high > low) || math.IsInf(high, 0) {
		return nil
	}
	few := math.Log10(high/low) < 2.5
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for times := 1.0; times < 10; times++ {
			v := times * math.Pow(10, e)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			label := ""
			if times == 1 || few && (times == 2 || times == 5) {
				label = short10of(v)
			}
			marks = append(marks, plot.Tick{Value: v, Label: label})
		}
	}
	return marks
}

// short10of is short10 for a number that may be less than 1.
func short10of(v float64) string {
	if v < 1 {
		s, _ := Column{Digits: int(math.Ceil(-math.Log10(v) - 1e-9))}.show(v)
		return s
	}
	return short10(int64(math.Round(v)))
}
