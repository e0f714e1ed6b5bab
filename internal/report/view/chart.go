package view

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/report/review"
)

// A share is a part of a whole.
type share struct {
	Name  string
	Tone  string
	Count int64
}

// A chart shows series over time, stacked.
type chart struct {
	Title  string
	series []series
	start  time.Time
	width  time.Duration // of a span
	spans  int
	octets bool // the values are octets a second, otherwise numbers a second
}

type series struct {
	Name, Tone string
	values     []float64 // of the spans
}

func speedCharts(l review.Timeline) []chart {
	width := float64(l.WidthS)
	per := func(n func(review.Span) int64) (values []float64) {
		for _, s := range l.Spans {
			values = append(values, float64(n(s))/width)
		}
		return values
	}
	base := chart{start: l.Start.Time, width: time.Duration(l.WidthS) * time.Second, spans: len(l.Spans)}
	visits, received := base, base
	visits.Title = "Visits a second"
	visits.series = []series{
		{"pages", "good", per(func(s review.Span) int64 { return s.Pages })},
		{"other responses", "note", per(func(s review.Span) int64 { return s.Other })},
		{"failed", "bad", per(func(s review.Span) int64 { return s.Failed })},
	}
	received.Title, received.octets = "Content received a second", true
	received.series = []series{{"bytes", "plain", per(func(s review.Span) int64 { return s.Bytes })}}
	return []chart{visits, received}
}

// A drawing is a chart in the coordinates of an SVG image.
type drawing struct {
	Class      string
	W, H       int
	Left, Base float64 // where the axes cross
	Right      float64
	YTicks     []tick
	XTicks     []tick
	Areas      []area
	Spans      []hover
}

type tick struct {
	At     float64
	Text   string
	Anchor string
}

type area struct{ Tone, Path string }

type hover struct {
	X, Y, W, H float64
	Title      string
}

// Drawings returns the chart for wide and for narrow windows. The style sheet shows one of them.
func (c chart) Drawings() []drawing {
	return []drawing{c.draw("wide", 1000, 240, 6), c.draw("narrow", 380, 210, 3)}
}

// value formats a value of the chart.
func (c chart) value(x float64) string {
	if c.octets {
		return humanize.Bytes(uint64(x))
	}
	return rate(x)
}

// axis formats a value of the y axis.
func (c chart) axis(x float64) string {
	if c.octets {
		return c.value(x)
	}
	return axisNumber(x)
}

// Legend returns the series that have a value.
func (c chart) Legend() []series {
	var out []series
	for _, s := range c.series {
		for i := range c.spans {
			if s.values[i] > 0 {
				out = append(out, s)
				break
			}
		}
	}
	return out
}

func (c chart) draw(class string, w, h, labels int) drawing {
	d := drawing{Class: class, W: w, H: h, Left: 58, Base: float64(h) - 26, Right: float64(w) - 8}
	const top = 10
	highest := 0.0
	for i := range c.spans {
		sum := 0.0
		for _, s := range c.series {
			sum += s.values[i]
		}
		highest = max(highest, sum)
	}
	step := niceStep(highest / 4)
	ticks := max(math.Ceil(highest/step-1e-9), 1)
	scale := (d.Base - top) / (ticks * step)
	for i := 0.0; i <= ticks; i++ {
		d.YTicks = append(d.YTicks, tick{At: round1(d.Base - i*step*scale), Text: c.axis(i * step)})
	}
	dx := (d.Right - d.Left) / float64(c.spans)
	x := func(i int) float64 { return round1(d.Left + float64(i)*dx) }
	below := make([]float64, c.spans)
	for _, s := range c.Legend() {
		above := make([]float64, c.spans)
		for i := range above {
			above[i] = below[i] + s.values[i]
		}
		d.Areas = append(d.Areas, area{s.Tone, steps(x, func(i int) float64 { return round1(d.Base - below[i]*scale) },
			func(i int) float64 { return round1(d.Base - above[i]*scale) }, c.spans)})
		below = above
	}
	for i := range c.spans {
		var b strings.Builder
		b.WriteString(c.start.Add(time.Duration(i) * c.width).UTC().Format("2006-01-02 15:04:05 UTC"))
		for _, s := range c.Legend() {
			fmt.Fprintf(&b, "\n%s: %s", s.Name, c.value(s.values[i]))
		}
		d.Spans = append(d.Spans, hover{x(i), top, round1(x(i+1) - x(i)), round1(d.Base - top), b.String()})
	}
	begin, end := c.start.Unix(), c.start.Add(time.Duration(c.spans)*c.width).Unix()
	every := niceTime(end-begin, labels)
	for t := (begin + every - 1) / every * every; t <= end; t += every {
		at := round1(d.Left + float64(t-begin)/float64(end-begin)*(d.Right-d.Left))
		anchor := "middle"
		switch {
		case at > d.Right-30:
			anchor = "end"
		case at < d.Left+10:
			anchor = "start"
		}
		d.XTicks = append(d.XTicks, tick{at, time.Unix(t, 0).UTC().Format(layout(every)), anchor})
	}
	return d
}

const (
	minute = 60
	hour   = 60 * minute
	day    = 24 * hour
)

// niceTime returns the seconds between two labels of the x axis: so many that at most n+1 intervals fit into all.
func niceTime(all int64, n int) int64 {
	for _, s := range [...]int64{1, 2, 5, 10, 20, 30, minute, 2 * minute, 5 * minute, 10 * minute, 20 * minute,
		30 * minute, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour, day, 2 * day, 5 * day, 10 * day, 30 * day,
		100 * day, 300 * day} {
		if all <= s*int64(n+1) {
			return s
		}
	}
	return 1000 * day * (1 + all/(1000*day*int64(n+1)))
}

// layout returns how times are written on the x axis.
func layout(every int64) string {
	switch {
	case every >= 100*day:
		return "Jan 2006"
	case every >= day:
		return "Jan 2"
	case every >= 6*hour:
		return "Jan 2 15:04"
	case every >= minute:
		return "15:04"
	}
	return "15:04:05"
}

// axisNumber formats a multiple of a nice step.
func axisNumber(x float64) string {
	if x == math.Trunc(x) {
		return humanize.Comma(int64(x))
	}
	return strconv.FormatFloat(math.Round(x*1e9)/1e9, 'f', -1, 64)
}

// steps returns the path of an area whose upper and lower edges are steps.
func steps(x func(int) float64, low, high func(int) float64, n int) string {
	var b strings.Builder
	point := func(op byte, x, y float64) {
		b.WriteByte(op)
		b.WriteString(strconv.FormatFloat(x, 'f', -1, 64) + " " + strconv.FormatFloat(y, 'f', -1, 64))
	}
	point('M', x(0), low(0))
	for i := range n {
		point('L', x(i), high(i))
		point('L', x(i+1), high(i))
	}
	for i := n - 1; i >= 0; i-- {
		point('L', x(i+1), low(i))
		point('L', x(i), low(i))
	}
	b.WriteByte('Z')
	return b.String()
}

func round1(x float64) float64 { return math.Round(x*10) / 10 }

// niceStep returns the least of 1, 2, 5, 10, 20, … and 0.1, 0.2, 0.5, … that is at least x.
func niceStep(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range [...]float64{1, 2, 5} {
		if m*unit >= x*0.9999 {
			return m * unit
		}
	}
	return 10 * unit
}
