package lab

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// words returns the texts of an SVG, which must be well-formed.
func words(t *testing.T, svg []byte) string {
	t.Helper()
	var b strings.Builder
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String()
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, svg)
		}
		if c, ok := tok.(xml.CharData); ok {
			b.Write(c)
			b.WriteByte('\n')
		}
	}
}

func TestFigure(t *testing.T) {
	f := &Figure{Panels: []Panel{
		{Title: "Pages a second", Y: "pages/s", Groups: []string{"identity", "gzip", "close"},
			Bars: []Bars{
				{Name: "bare", Values: []float64{10800, 12900, math.NaN()}, Low: []float64{10500, 12000, 0},
					High: []float64{11000, 13100, 0}},
				{Name: "agent & <co>", Values: []float64{6400, 7100, 3900}},
			}},
		{Title: "Beside bare", Y: "agent / bare", Digits: 2, Groups: []string{"identity", "gzip"},
			Bars:   []Bars{{Values: []float64{0.59, 0.55}}},
			Levels: []Level{{"floor 0.40", 0.4}, {"aim 0.75", 0.75}}},
		{Title: "Over time", X: "time (s)", Y: "pages/s",
			Lines: []Line{{Name: "agent", Points: plotter.XYs{{X: 0, Y: 0}, {X: 60, Y: 4000}, {X: 120, Y: 3900}}}}},
		{Title: "Nothing", Groups: []string{"none"}, Bars: []Bars{{Values: []float64{math.NaN()}}}},
	}}
	var b bytes.Buffer
	must.Do(t, f.SVG(&b))
	if name := os.Getenv("FIGURE"); name != "" {
		os.WriteFile(name, b.Bytes(), 0o644)
	}
	got := words(t, b.Bytes())
	for _, want := range []string{"Pages a second", "pages/s", "identity", "bare", "agent & <co>", "10,800", "0.59",
		"floor 0.40", "time (s)", "4,000"} {
		if !strings.Contains(got, want) {
			t.Errorf("the picture does not say %q:\n%s", want, got)
		}
	}
	for _, no := range []string{"NaN", "Inf"} {
		if bytes.Contains(b.Bytes(), []byte(no)) {
			t.Errorf("the picture holds %q", no)
		}
	}
	var empty bytes.Buffer
	if err := (&Figure{}).SVG(&empty); err != nil || !bytes.Contains(empty.Bytes(), []byte("</svg>")) {
		t.Errorf("a figure without panels: %v, %q", err, empty.String())
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		want      string
	}{
		{0, 7500, "0 2,000 4,000 6,000"},
		{0, 0.97, "0.0 0.2 0.4 0.6 0.8"},
		{0, 20, "0 5 10 15 20"},
		{-1, 1, "-1.0 -0.5 0.0 0.5 1.0"},
		{0, 0.013, "0.000 0.002 0.004 0.006 0.008 0.010 0.012"},
		{5, 5, ""},
		{0, math.Inf(1), ""},
		{math.NaN(), 1, ""},
	} {
		var got []string
		for _, m := range (ticks{}).Ticks(c.low, c.high) {
			got = append(got, m.Label)
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("ticks from %v to %v: %s, want %s", c.low, c.high, g, c.want)
		}
	}
}
