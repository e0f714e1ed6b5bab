package lab

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

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
