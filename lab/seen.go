package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/lab/rivals"
	"github.com/orbweaver/orbweaver/lab/stream"
)

// Seen answers: what does it cost to find out which links are new, as the number of known URLs
// grows?
//
// The stores run one after the other, each in a process of its own, on the same stream.
type Seen struct {
	// Stores names the stores to measure. Nil means all.
	Stores []string `name:"only" placeholder:"STORE" help:"Measure only these stores: ${stores}."`
	// Shapes names the shapes of the stream. Nil means all.
	Shapes []string `name:"shape" placeholder:"SHAPE" help:"Measure only these shapes of the stream: uniform, zipf."`
	// Keys is the largest number of known keys. Zero means 100 million, with --quick a million.
	Keys int64 `placeholder:"N" help:"Measure up to N known keys (default: 100000000, quick 1000000)."`
	// Memory bounds the memory of a store in bytes, if the store's memory can be bounded. Zero
	// means 512 MB, 2 GB from a billion keys on, 32 MB with --quick.
	Memory int64 `placeholder:"BYTES" help:"${store_memory}"`
	// Most is the memory in bytes at which the experiment stops a store. Zero means 8 GB.
	Most int64 `placeholder:"BYTES" help:"Stop a store that takes more than BYTES of memory (default: 8 GB)."`
	// Common is the number of known keys up to which all stores are measured, in the same
	// time. Only ours continue to Keys. Zero means 20 million, with --quick 200,000, or Keys
	// if that is less.
	Common int64 `placeholder:"N" help:"${common}"`
	// Each bounds the time of a store up to Common, with one shape. Ours get as much again
	// for each further Common keys. Zero means 15 min, with --quick 3 s.
	Each time.Duration `placeholder:"D" help:"${each}"`
	// Profiles is the folder for processor profiles of the last measurement of each store.
	// Empty means no profiles.
	Profiles string `name:"cpuprofile" placeholder:"DIR" help:"Write a processor profile of the last measurement of each store to DIR."`
}

// ErrFalse reports a store that gave a wrong answer.
var ErrFalse = errors.New("false answers")

// commonKeys is the default of Seen.Common.
const commonKeys = 20_000_000

// windowChecks bounds the number of checks of a measurement.
const windowChecks = 100_000_000

func (x *Seen) defaults(quick bool) {
	size(quick, &x.Keys, 100_000_000, 1_000_000)
	if x.Keys >= 1e9 && !quick {
		def(&x.Memory, 2e9)
	}
	size(quick, &x.Memory, 512e6, 32e6)
	def(&x.Most, 8e9)
	size(quick, &x.Common, commonKeys, 200_000)
	x.Common = min(x.Common, x.Keys)
	size(quick, &x.Each, 15*time.Minute, 3*time.Second)
	if len(x.Stores) == 0 {
		x.Stores = StoreNames()
	}
	if len(x.Shapes) == 0 {
		x.Shapes = ShapeNames()
	}
}

// name returns the name of the result's files. Large numbers of keys have files of their own.
func (x *Seen) name() string {
	name := "seen"
	if x.Keys >= 1e9 {
		name = "seen-billion"
	}
	return name
}

// StoreNames returns the names of the stores that Seen can measure, ours first.
func StoreNames() (names []string) {
	for _, k := range rivals.Kinds {
		names = append(names, k.Name)
	}
	return names
}

// ShapeNames returns the names of the shapes of the stream.
func ShapeNames() []string { return []string{stream.Uniform.String(), stream.Zipf.String()} }

// windowParts bounds the time of a measurement: a store's time divided by windowParts.
const windowParts = 15

// points returns the numbers of keys, up to most, at which a store is measured: the points of
// Keys, and Common.
func (x *Seen) points(most int64) (ps []int64) {
	for _, p := range append(points(x.Keys), x.Common) {
		if p <= most {
			ps = append(ps, p)
		}
	}
	slices.Sort(ps)
	return slices.Compact(ps)
}

// points returns 1, 2, 5, 10... times a power of ten, over two decades, up to most.
func points(most int64) []int64 {
	return slices.DeleteFunc(steps(1000, most), func(n int64) bool { return n < most/100 })
}

// steps returns 1, 2, 5, 10... times from, up to most, which is the last.
func steps(from, most int64) (ps []int64) {
	for p := from; p < most; p *= 10 {
		for _, times := range []int64{1, 2, 5} {
			if p*times < most {
				ps = append(ps, p*times)
			}
		}
	}
	return append(ps, most)
}

// A storeResult is the result of one store with one shape.
type storeResult struct {
	Kind   rivals.Kind
	Shape  string
	Points []StorePoint
	End    StoreEnd
	Usage  Usage
}

// line adds a line that RunStore has written. It shows points on the screen of t, if t is not nil.
func (r *storeResult) line(b []byte, t *Trial) error {
	var end StoreEnd
	if json.Unmarshal(b, &end) == nil && end.Why != "" {
		r.End = end
		return nil
	}
	var p StorePoint
	if err := json.Unmarshal(b, &p); err != nil || p.Keys == 0 {
		return fmt.Errorf("store: cannot read the line %q of its process", b)
	}
	r.Points = append(r.Points, p)
	if t != nil {
		t.partial("%s keys: %s checks/s", humanize.Comma(p.Keys), count(p.PerS()))
	}
	return nil
}

// last returns the last measurement, or nil if there is none.
func (r *storeResult) last() *StorePoint {
	if len(r.Points) == 0 {
		return nil
	}
	return &r.Points[len(r.Points)-1]
}

// Run implements Experiment.
func (x *Seen) Run(ctx context.Context, t *Trial) (*Result, error) {
	y := *x
	y.defaults(t.Quick)
	var rs []*storeResult
	for _, shape := range y.Shapes {
		for _, name := range y.Stores {
			kind, ok := rivals.Find(name)
			if !ok {
				return nil, fmt.Errorf("seen: there is no store %q", name)
			}
			r, err := y.store(ctx, t, kind, shape)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", shape, name, err)
			}
			rs = append(rs, r)
		}
	}
	return y.result(rs), wrong(rs)
}

// wrong returns ErrFalse if a store that must be exact gave a wrong answer.
func wrong(rs []*storeResult) error {
	var lines []string
	for _, r := range rs {
		for _, p := range r.Points {
			if r.Kind.Exact && p.False() > 0 {
				lines = append(lines, fmt.Sprintf("%s, %s at %s keys: %d known taken as new, %d new taken as known, "+
					"%d answers without a question",
					r.Shape, r.Kind.Name, humanize.Comma(p.Keys), p.Twice, p.Missing, p.Foreign))
				break
			}
		}
	}
	if lines == nil {
		return nil
	}
	return fmt.Errorf("%w:\n%s", ErrFalse, strings.Join(lines, "\n"))
}

// store measures one store in a process of its own.
func (x *Seen) store(ctx context.Context, t *Trial, kind rivals.Kind, shape string) (r *storeResult, err error) {
	keys, limit, window := x.Common, x.Each, x.Each/windowParts
	if kind.Ours {
		keys, limit = x.Keys, x.Each*time.Duration(max(1, x.Keys/x.Common))
	}
	dir := filepath.Join(t.Dir, shape+"-"+kind.Name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	defer os.RemoveAll(dir)
	profile := ""
	if x.Profiles != "" {
		profile = filepath.Join(x.Profiles, kind.Name+"-"+shape+".pprof")
	}
	spec := StoreSpec{Profile: profile, Store: kind.Name, Shape: shape, Seed: t.Seed, Dir: dir, Memory: x.Memory,
		Most: x.Most, Points: x.points(keys), Checks: windowChecks, Window: window, Limit: limit}
	// A process that takes longer than this hangs. A merge may take as long as all work before.
	ctx, cancel := context.WithTimeout(ctx, 3*limit+time.Minute)
	defer cancel()
	done := t.step("%s: %s", shape, kind.Title)
	r = &storeResult{Kind: kind, Shape: shape}
	r.Usage, err = t.apart(ctx, "seen-store", spec, func(line []byte) error { return r.line(line, t) })
	if err != nil {
		return nil, err
	}
	if r.End.Why == "" {
		return nil, errors.New("the store's process ended without a result")
	}
	switch l := r.last(); {
	case l == nil:
		done("stopped by %s at %s keys, before the first measurement", r.End.Why, humanize.Comma(r.End.Keys))
	default:
		done("%s keys: %s checks/s, %s B/check, %d MB, %s B/key on disk%s", humanize.Comma(l.Keys), count(l.PerS()),
			count(perCheck(l, l.IO.Read+l.IO.Written)), l.RAM/1e6, count(float64(l.Disk)/float64(l.Known)), r.stopped())
	}
	return r, nil
}

// stopped returns text that says why a store ended before its last point, or "".
func (r *storeResult) stopped() string {
	if r.End.Why == "done" {
		return ""
	}
	return fmt.Sprintf("; stopped by %s at %s", r.End.Why, humanize.Comma(r.End.Keys))
}

// perCheck returns n per check.
func perCheck(p *StorePoint, n int64) float64 { return float64(n) / float64(max(p.Checks, 1)) }
