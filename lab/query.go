package lab

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/orbweaver/orbweaver/internal/web/classify"
)

// ErrQuery reports a query that makes no sense.
var ErrQuery = errors.New("query")

// A subset is the lines of data that satisfy conditions.
type subset struct {
	d     *Data
	where []condition
}

// A condition says which values of a dimension count.
type condition struct {
	dim    int
	not    bool
	values []string
}

func (c condition) holds(l *datum) bool { return slices.Contains(c.values, l.at[c.dim]) != c.not }

// and returns the subset with more conditions, written as in "way=sites|two-level, agents!=1". A value that begins with
// a dollar sign is the value of that fact.
func (s subset) and(text string) (subset, error) {
	s.where = slices.Clone(s.where)
	for part := range strings.SplitSeq(text, ", ") {
		name, value, ok := strings.Cut(part, "=")
		not := strings.HasSuffix(name, "!")
		dim := slices.Index(s.d.dims, strings.TrimSuffix(name, "!"))
		switch n := len(s.where); {
		case ok && dim >= 0:
			s.where = append(s.where, condition{dim, not, strings.Split(value, "|")})
		case n == 0:
			return s, fmt.Errorf("%w: where %q: the dimensions are %q", ErrQuery, part, s.d.dims)
		default: // a value with a comma
			more := strings.Split(part, "|")
			values := s.where[n-1].values
			values[len(values)-1] += ", " + more[0]
			s.where[n-1].values = append(values, more[1:]...)
		}
	}
	for _, c := range s.where {
		for i, v := range c.values {
			if fact, ok := strings.CutPrefix(v, "$"); ok {
				c.values[i] = s.d.facts[fact]
			}
		}
	}
	return s, nil
}

// with returns the subset with one value of a dimension, in place of other conditions on it. "*" stands for all values.
func (s subset) with(dim, value string) (subset, error) {
	i := slices.Index(s.d.dims, dim)
	if i < 0 {
		return s, fmt.Errorf("%w: %q is no dimension of %q", ErrQuery, dim, s.d.dims)
	}
	s.where = slices.DeleteFunc(slices.Clone(s.where), func(c condition) bool { return c.dim == i })
	if value != "*" {
		s.where = append(s.where, condition{i, false, []string{value}})
	}
	return s, nil
}

// instead returns the subset with another value of a dimension, written as in "way=sites".
func (s subset) instead(text string) (subset, error) {
	dim, value, _ := strings.Cut(text, "=")
	return s.with(dim, value)
}

func (s subset) holds(l *datum) bool {
	return !slices.ContainsFunc(s.where, func(c condition) bool { return !c.holds(l) })
}

// keys returns the combinations of values of dimensions, in the order of the data. All values must be there.
func (s subset) keys(dims ...string) (keys [][]string, err error) {
	at := make([]int, len(dims))
	for i, dim := range dims {
		if at[i] = slices.Index(s.d.dims, dim); at[i] < 0 {
			return nil, fmt.Errorf("%w: %q is no dimension of %q", ErrQuery, dim, s.d.dims)
		}
	}
	known := map[string]bool{}
	for i := range s.d.lines {
		l := &s.d.lines[i]
		if !s.holds(l) {
			continue
		}
		k := make([]string, len(at))
		for i, dim := range at {
			k[i] = l.at[dim]
		}
		if id := strings.Join(k, "\x00"); !known[id] && !slices.Contains(k, "") {
			known[id] = true
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// at returns the subset of a combination of keys.
func (s subset) at(dims, key []string) subset {
	for i, dim := range dims {
		s, _ = s.with(dim, key[i]) // the dimension exists, because there is a key
	}
	return s
}

// A vec is a list of float64s and strings: the values of a name in a subset, in the order of the data.
type vec []any

// named returns the values of a dimension, each once, or of a name, or of a fact.
func (s subset) named(name string) (v vec, err error) {
	if slices.Contains(s.d.dims, name) {
		keys, err := s.keys(name)
		for _, k := range keys {
			v = append(v, numeric(k[0]))
		}
		return v, err
	}
	for _, i := range s.d.byWhat[name] {
		if l := &s.d.lines[i]; s.holds(l) {
			v = append(v, numeric(l.value))
		}
	}
	if fact, ok := s.d.facts[name]; ok && v == nil {
		v = vec{numeric(fact)}
	}
	return v, nil
}

// numeric returns a number if s is one, and else s.
func numeric(s string) any {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return f
	}
	return s
}

// numbers returns the numbers of v.
func (v vec) numbers() (fs []float64) {
	for _, x := range v {
		if f, ok := x.(float64); ok {
			fs = append(fs, f)
		}
	}
	return fs
}

// one returns the value of a cell: nil if v is empty, and the median of several numbers.
func (v vec) one() any {
	switch fs := v.numbers(); {
	case len(v) == 0:
		return nil
	case len(v) > 1 && len(fs) == len(v):
		return Median(fs)
	}
	return v[0]
}

// value returns the value of an expression in a subset: a Go expression of names, numbers, texts, operators, and calls
// of the functions below.
func (s subset) value(text string) (vec, error) {
	e, err := parser.ParseExpr(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrQuery, text, err)
	}
	v, err := s.eval(e)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	return v, nil
}

func (s subset) eval(e ast.Expr) (vec, error) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return s.eval(e.X)
	case *ast.Ident:
		return s.named(e.Name)
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			t, err := strconv.Unquote(e.Value)
			return vec{t}, err
		}
		return vec{numeric(e.Value)}, nil
	case *ast.UnaryExpr:
		v, err := s.eval(e.X)
		return pairwise(vec{0.0}, v, operators[token.SUB]), err
	case *ast.BinaryExpr:
		f, ok := operators[e.Op]
		a, err1 := s.eval(e.X)
		b, err2 := s.eval(e.Y)
		if err := errors.Join(err1, err2); err != nil || !ok {
			return nil, errors.Join(fmt.Errorf("%w: operator %s", ErrQuery, e.Op), err)
		}
		if t, ok := b.one().(string); ok && e.Op == token.EQL {
			return vec{truth(a.one() == t)}, nil
		}
		return pairwise(a, b, f), nil
	case *ast.CallExpr:
		return s.call(e)
	}
	return nil, fmt.Errorf("%w: %T is not part of an expression", ErrQuery, e)
}

// pairwise applies f to the numbers of a and b, one by one. If one of them has a single number, that is for all.
func pairwise(a, b vec, f func(a, b float64) float64) (v vec) {
	x, y := a.numbers(), b.numbers()
	if len(x) == 0 || len(y) == 0 {
		return nil
	}
	n := max(len(x), len(y))
	if len(x) > 1 && len(y) > 1 {
		n = min(len(x), len(y))
	}
	for i := range n {
		if r := f(x[min(i, len(x)-1)], y[min(i, len(y)-1)]); !math.IsNaN(r) && !math.IsInf(r, 0) {
			v = append(v, r)
		}
	}
	return v
}

var operators = map[token.Token]func(a, b float64) float64{
	token.ADD: func(a, b float64) float64 { return a + b },
	token.SUB: func(a, b float64) float64 { return a - b },
	token.MUL: func(a, b float64) float64 { return a * b },
	token.QUO: func(a, b float64) float64 { return a / b },
	token.LSS: func(a, b float64) float64 { return truth(a < b) },
	token.LEQ: func(a, b float64) float64 { return truth(a <= b) },
	token.GTR: func(a, b float64) float64 { return truth(a > b) },
	token.GEQ: func(a, b float64) float64 { return truth(a >= b) },
	token.EQL: func(a, b float64) float64 { return truth(a == b) },
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// aggregates make one number of several.
var aggregates = map[string]func([]float64) float64{
	"median": Median[float64], "mean": average, "min": slices.Min[[]float64], "max": slices.Max[[]float64],
	"first": func(v []float64) float64 { return v[0] }, "last": func(v []float64) float64 { return v[len(v)-1] },
	"sum": total,
}

func total(vs []float64) (sum float64) {
	for _, v := range vs {
		sum += v
	}
	return sum
}

func average(vs []float64) float64 { return total(vs) / float64(max(len(vs), 1)) }

// elementwise change each number.
var elementwise = map[string]func(float64) float64{"abs": math.Abs, "log10": math.Log10, "sqrt": math.Sqrt,
	"round": math.Round, "floor": math.Floor}

// forms make a text of a number.
var forms = map[string]func(float64) string{
	"comma": func(f float64) string { return humanize.Comma(int64(math.Round(f))) },
	"bytes": func(f float64) string { return humanize.Bytes(uint64(f)) },
	"short": func(f float64) string { return short10(int64(f)) },
	"count": count,
}

// call returns the value of a function. Besides aggregates, elementwise and forms there are:
//
//	raw(name)              the values of a name as texts, even if they look like numbers
//	at(e, "dim", v, ...)   e where the dimensions have these values; "*" stands for all
//	low(n, of), high(...)  Wilson's interval of 95 % confidence of the share n/of
//	size(e)                how many values e has
//	spread(e)              the median, the least and the greatest of e
//	around(e)              the mean, the least and the greatest of e
//	text("format", e, ...) a text, as of fmt.Sprintf, with all values of each e
//	pick(e, a, b)          a if e is a number other than 0, else b
//	or(a, b)               a if it has values, else b
//	join(e, "separator")   the values as one text
func (s subset) call(e *ast.CallExpr) (vec, error) {
	name := fmt.Sprint(e.Fun)
	if len(e.Args) == 0 {
		return nil, fmt.Errorf("%w: %s without arguments", ErrQuery, name)
	}
	if x, ok := e.Args[0].(*ast.Ident); ok && name == "raw" {
		var v vec
		for _, i := range s.d.byWhat[x.Name] {
			if l := &s.d.lines[i]; s.holds(l) {
				v = append(v, l.value)
			}
		}
		return v, nil
	}
	var args []vec
	for i, a := range e.Args {
		if name == "at" && i == 0 {
			continue // the arguments decide the subset of the first one
		}
		v, err := s.eval(a)
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	if name == "at" {
		for i := 0; i+1 < len(args); i += 2 {
			value, _ := written(args[i+1].one())
			var err error
			if s, err = s.with(fmt.Sprint(args[i].one()), value); err != nil {
				return nil, err
			}
		}
		return s.eval(e.Args[0])
	}
	if len(args) == 0 {
		return nil, fmt.Errorf("%w: %s with one argument", ErrQuery, name)
	}
	fs := args[0].numbers()
	if f, ok := aggregates[name]; ok {
		if len(fs) == 0 {
			return nil, nil
		}
		return vec{f(fs)}, nil
	}
	if f, ok := elementwise[name]; ok {
		return pairwise(args[0], vec{0.0}, func(a, _ float64) float64 { return f(a) }), nil
	}
	if f, ok := forms[name]; ok {
		if x, ok := args[0].one().(float64); ok {
			return vec{f(x)}, nil
		}
		return nil, nil
	}
	switch {
	case (name == "low" || name == "high") && len(args) == 2:
		n, ok1 := args[0].one().(float64)
		of, ok2 := args[1].one().(float64)
		if !ok1 || !ok2 || of == 0 {
			return nil, nil
		}
		low, high := classify.Share{Right: int(n), Of: int(of)}.Interval()
		if name == "low" {
			return vec{low}, nil
		}
		return vec{high}, nil
	case name == "size":
		return vec{float64(len(args[0]))}, nil
	case (name == "spread" || name == "around") && len(fs) > 0:
		middle := Median(fs)
		if name == "around" {
			middle = average(fs)
		}
		return vec{middle, slices.Min(fs), slices.Max(fs)}, nil
	case name == "spread" || name == "around":
		return nil, nil
	case name == "text":
		var xs []any
		for _, a := range args[1:] {
			if len(a) == 0 {
				return nil, nil
			}
			xs = append(xs, a...)
		}
		return vec{fmt.Sprintf(fmt.Sprint(args[0].one()), xs...)}, nil
	case name == "pick" && len(args) == 3:
		if x := args[0].one(); x == nil || x == 0.0 {
			return args[2], nil
		}
		return args[1], nil
	case name == "or" && len(args) == 2:
		if len(args[0]) > 0 {
			return args[0], nil
		}
		return args[1], nil
	case name == "join" && len(args) == 2:
		var texts []string
		for _, x := range args[0] {
			t, _ := written(x)
			texts = append(texts, t)
		}
		return vec{strings.Join(texts, fmt.Sprint(args[1].one()))}, nil
	}
	return nil, fmt.Errorf("%w: there is no function %s", ErrQuery, name)
}
