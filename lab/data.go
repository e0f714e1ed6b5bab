package lab

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Data is the measurements of an experiment in long form: each line of its CSV has one value, with the dimensions to
// which it belongs. A line without dimensions is a fact about the whole experiment.
type Data struct {
	dims   []string
	lines  []datum
	byWhat map[string][]int // the numbers of the lines of a value's name
	facts  map[string]string
}

// A datum is a line.
type datum struct {
	at          []string // a value of each dimension; empty: it has none
	what, value string
}

// newData returns empty data with these dimensions.
func newData(dims ...string) *Data {
	return &Data{dims: dims, byWhat: map[string][]int{}, facts: map[string]string{}}
}

// A spot is a set of dimensions to which values are added.
type spot struct {
	d  *Data
	at []string
}

// At returns the spot with these values of the first dimensions. The others are empty.
func (d *Data) At(dims ...any) spot {
	at := make([]string, len(d.dims))
	for i, v := range dims {
		at[i], _ = written(v)
	}
	return spot{d, at}
}

// Fact adds a value that belongs to the whole experiment.
func (d *Data) Fact(what string, v any) { d.At().Set(what, v) }

// Set adds a value: a number, a text, a truth value or a duration, which counts in seconds. It ignores nil, and numbers
// that are not finite.
func (p spot) Set(what string, v any) spot {
	if s, ok := written(v); ok {
		p.d.byWhat[what] = append(p.d.byWhat[what], len(p.d.lines))
		p.d.lines = append(p.d.lines, datum{p.at, what, s})
		if !slices.ContainsFunc(p.at, func(v string) bool { return v != "" }) {
			p.d.facts[what] = s
		}
	}
	return p
}

// All adds the exported fields of a struct, by their names in JSON, but for those with the name of a dimension. A field
// that is a struct adds its fields behind its name. A duration "x_ns" becomes "x_s". Fields of other types are ignored.
func (p spot) All(v any) spot {
	p.fields("", reflect.Indirect(reflect.ValueOf(v)))
	return p
}

func (p spot) fields(before string, v reflect.Value) {
	for i := range v.NumField() {
		f, x := v.Type().Field(i), v.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() && !f.Anonymous || name == "-" {
			continue
		}
		if name == "" {
			name = key(f.Name)
		}
		if x.Type() == reflect.TypeFor[time.Duration]() {
			name = strings.TrimSuffix(name, "ns") + "s" // the CSV has seconds
		}
		switch {
		case x.Kind() == reflect.Struct && f.Anonymous:
			p.fields(before, x)
		case x.Kind() == reflect.Struct:
			p.fields(before+name+"_", x)
		case f.IsExported() && !slices.Contains(p.d.dims, before+name):
			p.Set(before+name, x.Interface())
		}
	}
}

// written returns a value as the CSV has it. ok is false if there is none.
func written(v any) (s string, ok bool) {
	switch v := v.(type) {
	case nil:
		return "", false
	case string:
		return v, true
	case time.Duration:
		return strconv.FormatFloat(v.Seconds(), 'f', -1, 64), true
	}
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer:
		if r.IsNil() {
			return "", false
		}
		return written(r.Elem().Interface())
	case reflect.Bool:
		if r.Bool() {
			return "1", true
		}
		return "0", true
	case reflect.Float64:
		f := r.Float()
		return strconv.FormatFloat(f, 'f', -1, 64), !math.IsNaN(f) && !math.IsInf(f, 0)
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.String:
		return fmt.Sprint(v), true
	}
	return "", false
}

// CSV writes the data: the dimensions, the name of the value, and the value.
func (d *Data) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	c.Write(append(slices.Clone(d.dims), "what", "value")) // Flush returns the errors
	for _, l := range d.lines {
		c.Write(append(slices.Clone(l.at), l.what, l.value))
	}
	c.Flush()
	if err := c.Error(); err != nil {
		return fmt.Errorf("csv: %w", err)
	}
	return nil
}

// ReadData reads what CSV has written.
func ReadData(r io.Reader) (*Data, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("csv: %w", err)
	}
	if len(rows) == 0 || !slices.Equal(rows[0][max(0, len(rows[0])-2):], []string{"what", "value"}) {
		return nil, ErrOther
	}
	n := len(rows[0]) - 2
	d := newData(rows[0][:n]...)
	for _, row := range rows[1:] {
		spot{d, row[:n]}.Set(row[n], row[n+1])
	}
	return d, nil
}

// ErrOther reports data that are not those of this experiment.
var ErrOther = errors.New("no data of this experiment")

// AddUp adds the lines of b to a, which may be nil. Facts of a stay as they are.
func AddUp(a, b *Data) (*Data, error) {
	switch {
	case a == nil:
		return b, nil
	case a.facts["template"] != b.facts["template"] || !slices.Equal(a.dims, b.dims):
		return nil, ErrOther
	}
	for _, l := range b.lines {
		if _, fact := b.facts[l.what]; !fact || slices.ContainsFunc(l.at, func(v string) bool { return v != "" }) {
			spot{a, l.at}.Set(l.what, l.value)
		}
	}
	return a, nil
}
