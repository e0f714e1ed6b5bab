package lab

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot/plotter"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// measurements are two runs of two ways, and a fact.
func measurements() *Data {
	d := newData("way", "run")
	d.Fact("aim", 1.5)
	for run, speeds := range [][2]float64{{10, 20}, {30, 90}} {
		d.At("alone", run).Set("speed", speeds[0]).Set("time", 1500*time.Millisecond)
		d.At("two, sites", run).Set("speed", speeds[1]).Set("end", "done")
	}
	return d
}

// An expression is evaluated over the lines that satisfy the conditions.
func TestQuery(t *testing.T) {
	for _, c := range []struct {
		where, e string
		want     vec
	}{
		{"way=alone", "speed", vec{10.0, 30.0}},
		{"way!=alone", "speed*2 - 1", vec{39.0, 179.0}},
		{"way=two, sites", "speed/at(speed, \"way\", \"alone\")", vec{2.0, 3.0}},
		{"way=two, sites, run=1", "speed > aim", vec{1.0}},
		{"way=alone|two, sites", "max(speed)", vec{90.0}},
		{"way=alone", "text(\"%g (%g to %g)\", spread(speed))", vec{"20 (10 to 30)"}},
		{"way=alone", "mean(time)", vec{1.5}},
		{"way=two, sites", "pick(end == \"done\", size(speed), none)", vec{2.0}},
		{"way=alone", "or(nothing, -1)", vec{-1.0}},
		{"way=alone", "speed/0", nil},
		{"run=7", "sum(speed)", nil},
	} {
		s := must.Get(subset{d: measurements()}.and(c.where))(t)
		if got, err := s.value(c.e); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s where %s: got %v, want %v, %v", c.e, c.where, got, c.want, err)
		}
	}
}

// A query that makes no sense is an error, as is a word that tables and panels do not know.
func TestQueryErrors(t *testing.T) {
	p := &page{d: measurements()}
	for _, e := range []string{"hurry(speed)", "speed +", "at(speed, \"place\", 1)", "sum()", "speed[0]"} {
		if _, err := p.num(e); !errors.Is(err, ErrQuery) {
			t.Errorf("%s: %v, want %v", e, err, ErrQuery)
		}
	}
	for _, s := range []string{"where place=1\nspeed = speed", "rows place\nspeed = speed", "shrink",
		"line of nothing"} {
		if _, err := p.table(s); !errors.Is(err, ErrQuery) {
			t.Errorf("%q: %v, want %v", s, err, ErrQuery)
		}
	}
}

// Data are the same after they were written and read. Several add up; those of another experiment do not.
func TestDataAddUp(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, measurements().CSV(&b))
	written := b.String()
	d, err := ReadData(strings.NewReader(written))
	must.Do(t, err)
	more := newData("way", "run")
	more.Fact("aim", 7)
	more.At("alone", 2).Set("speed", 50)
	if d, err = AddUp(d, more); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	if err := d.CSV(&b); err != nil || b.String() != written+"alone,2,speed,50\n" {
		t.Errorf("got %q, %v", b.String(), err)
	}
	if _, err := AddUp(d, newData("stream")); !errors.Is(err, ErrOther) {
		t.Errorf("other dimensions: %v", err)
	}
	if _, err := ReadData(strings.NewReader("agents,pages\n1,2\n")); !errors.Is(err, ErrOther) {
		t.Errorf("another CSV: %v", err)
	}
}

// A distribution falls at each of its values, by their weights.
func TestLonger(t *testing.T) {
	d := newData("run")
	for i, v := range []float64{4, 1, 2, 2} {
		d.At(i).Set("stall", v).Set("stories", []int{1, 4, 2, 3}[i])
	}
	for _, c := range []struct {
		e    []string
		want plotter.XYs
	}{
		{[]string{"stall"}, plotter.XYs{{X: 0, Y: 100}, {X: 1, Y: 100}, {X: 1, Y: 75}, {X: 2, Y: 75}, {X: 2, Y: 50},
			{X: 2, Y: 50}, {X: 2, Y: 25}, {X: 4, Y: 25}, {X: 4, Y: 0}}},
		{[]string{"stall", "stories"}, plotter.XYs{{X: 0, Y: 100}, {X: 1, Y: 100}, {X: 1, Y: 60}, {X: 2, Y: 60},
			{X: 2, Y: 40}, {X: 2, Y: 40}, {X: 2, Y: 10}, {X: 4, Y: 10}, {X: 4, Y: 0}}},
	} {
		var p Panel
		if err := (subset{d: d}).longer(&p, "all", c.e); err != nil || len(p.Lines) != 1 {
			t.Fatalf("%q: %v, %+v", c.e, err, p)
		}
		if diff := cmp.Diff(c.want, p.Lines[0].Points); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.e, diff)
		}
	}
}
