package orbweaver_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Bounds of the shape of our own code, without tests and generated files. What passes a bound wants to be two things
// with a name each. Shapes that are over a bound today are in tooLarge.
const (
	maxMethods  = 60   // of a type; see shapes.methods
	maxFields   = 40   // of a struct, those of embedded ones included
	maxCalls    = 10   // methods of an interface
	maxFiles    = 40   // of a package
	maxLines    = 8000 // of a package
	maxImported = 30   // packages of ours that one package imports
)

// funcFields bounds the fields of all structs that hold functions, also those of a function type with a name of ours.
// It may only shrink. A context.CancelFunc does not count: it ends what its struct has begun.
const funcFields = 112

// tooLarge has what is over a bound, and how much it is today. A number may only shrink.
var tooLarge = map[string]int{
	"fields of cmd/orbweaver.TestwebCmd":          100,
	"fields of cmd/orbweaver.generateFlags":       48,
	"fields of internal/report.Summary":           41,
	"fields of internal/store/keyset/drum.Store":  41,
	"fields of internal/testkit/sim.Plan":         41,
	"fields of internal/testkit/sim.judge":        53,
	"fields of lab.WebSpec":                       43,
	"files of cmd/orbweaver":                      77,
	"files of lab":                                56,
	"imports of cmd/orbweaver":                    44,
	"lines of cmd/orbweaver":                      14195,
	"lines of lab":                                12136,
	"methods of interface internal/store/disk.FS": 11,
	"methods of internal/store/keyset/drum.Store": 95,
	"methods of internal/testweb/gen.Web":         88,
}

// wholes are the types on which the parts of a layer hang. A part holds none of them, so that it is tested without it.
var wholes = []string{"internal/crawl.Crawler", "internal/cluster.Clustered", "internal/node.Agent",
	"internal/node/membership.Membership"}

// holders are the other types that hold one of them today: what a whole shows of itself. No type may be added.
var holders = []string{"internal/crawl.Loop", "internal/node.Rehearsal", "internal/node.member", "internal/node.run",
	"internal/testkit/sim.process"}

// A shape is what is counted of one thing.
type shape struct {
	name string // such as "methods of internal/crawl.Crawler"
	n    int
	most int
}

// shapes knows the types of our packages, by names such as "internal/crawl.Crawler".
type shapes struct {
	structs  map[string][]part
	calls    map[string][]part
	methods  map[string]int // with functions of the package whose first parameter is the type
	files    map[string]int // by package
	lines    map[string]int
	imports  map[string]map[string]bool
	funcs    map[string]bool // the names of our function types
	fields   []string        // the types of all fields that may hold functions
	holders  []string        // the structs with a field that holds one of wholes
	kept     []methodValue   // see methodsKept
	declared map[string]bool // "internal/crawl.Crawler.Run"
}

// A part is the fields of a struct, or the methods of an interface, that are declared together.
type part struct {
	names    int
	embedded string // the type that is embedded; "" for none, or for one of another module
}

// isProduct reports whether the bounds hold for a file.
func isProduct(f source) bool {
	return !strings.HasSuffix(f.name, "_test.go") && !ast.IsGenerated(f.ast) && !strings.HasPrefix(f.name, "tools/")
}

func readShapes(t *testing.T) *shapes {
	s := &shapes{structs: map[string][]part{}, calls: map[string][]part{}, methods: map[string]int{},
		files: map[string]int{}, lines: map[string]int{}, imports: map[string]map[string]bool{},
		funcs: map[string]bool{}, declared: map[string]bool{}}
	for _, f := range sources(t) {
		if !isProduct(f) {
			continue
		}
		pkg := path.Dir(f.name)
		s.files[pkg]++
		s.lines[pkg] += bytes.Count(f.text, []byte("\n"))
		if s.imports[pkg] == nil {
			s.imports[pkg] = map[string]bool{}
		}
		for _, i := range f.imports {
			if to := relative(i); to != "" {
				s.imports[pkg][to] = true
			}
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				s.kept = append(s.kept, s.methodsKept(f, d)...)
				if of := owner(d); of != "" {
					s.methods[qualified(pkg, of)]++
					s.declared[qualified(pkg, of)+"."+d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, ok := spec.(*ast.TypeSpec); ok {
						s.add(f, qualified(pkg, spec.Name.Name), spec.Type)
					}
				}
			}
		}
	}
	return s
}

// qualified returns the name of a type of a package, or of the library.
func qualified(pkg, name string) string {
	if pkg == "." {
		pkg = "orbweaver"
	}
	return pkg + "." + name
}

// owner returns the name of the type of which a function is a method, or which is its first parameter. It may also
// return the name of a type that the package does not declare.
func owner(d *ast.FuncDecl) string {
	from := d.Recv
	if from == nil {
		from = d.Type.Params
	}
	if len(from.List) == 0 {
		return ""
	}
	return localName(from.List[0].Type)
}

// localName returns the name of a type of the same package, or of a pointer to one.
func localName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.StarExpr:
		return localName(x.X)
	case *ast.IndexExpr:
		return localName(x.X)
	case *ast.IndexListExpr:
		return localName(x.X)
	}
	return ""
}

// add reads a type.
func (s *shapes) add(f source, name string, x ast.Expr) {
	list, of := (*ast.FieldList)(nil), map[string][]part(nil)
	switch x := x.(type) {
	case *ast.StructType:
		list, of = x.Fields, s.structs
		for _, field := range list.List {
			s.fields = append(s.fields, slices.Repeat([]string{s.fieldType(f, field.Type)}, len(field.Names))...)
		}
	case *ast.InterfaceType:
		list, of = x.Methods, s.calls
	case *ast.FuncType:
		s.funcs[name] = true
		return
	default:
		return
	}
	of[name] = []part{}
	for _, field := range list.List {
		p := part{names: max(len(field.Names), 1)}
		to := s.embedded(f, field.Type)
		if len(field.Names) == 0 {
			p.embedded = to
		}
		if s.holds(f, field.Type) {
			s.holders = append(s.holders, name)
		}
		of[name] = append(of[name], p)
	}
}

// functions counts the fields that hold functions.
func (s *shapes) functions() (n int) {
	for _, name := range s.fields {
		if name == function || s.funcs[name] {
			n++
		}
	}
	return n
}

const function = "func" // the type of a field that has no name

// fieldType returns the name of the type of a field, if it is a function or one of ours, or "".
func (s *shapes) fieldType(f source, x ast.Expr) string {
	switch x := x.(type) {
	case *ast.FuncType:
		return function
	case *ast.StarExpr: // to a function: nobody does that
		return ""
	case *ast.IndexExpr:
		return s.fieldType(f, x.X)
	case *ast.IndexListExpr:
		return s.fieldType(f, x.X)
	}
	return s.embedded(f, x)
}

// holds reports whether a field of a type holds one of wholes: itself, a pointer to it, or several of them. A function
// that is given one does not hold it.
func (s *shapes) holds(f source, x ast.Expr) (found bool) {
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncType, *ast.StructType:
			return false
		case *ast.Ident, *ast.SelectorExpr:
			found = found || slices.Contains(wholes, s.embedded(f, n.(ast.Expr)))
			return false
		}
		return true
	})
	return found
}

// A methodValue is a field or a method of one of wholes, where a part may keep it.
type methodValue struct{ at, whole, name string }

// keeps are the beginnings of the names of functions that may keep their arguments.
var keeps = regexp.MustCompile("^([Nn]ew|[Oo]pen|Serve)")

// methodsKept returns what a function takes from one of wholes, without a call, and puts into a field, into a value of
// a struct, or among the arguments of a function that may keep it.
func (s *shapes) methodsKept(f source, d *ast.FuncDecl) (found []methodValue) {
	whole := map[string]string{} // by the name of a variable
	note := func(list *ast.FieldList) {
		for _, field := range list.List {
			for _, name := range field.Names {
				if of := s.embedded(f, field.Type); slices.Contains(wholes, of) {
					whole[name.Name] = of
				}
			}
		}
	}
	if d.Recv != nil {
		note(d.Recv)
	}
	if note(d.Type.Params); d.Body == nil {
		return nil
	}
	look := func(xs []ast.Expr) {
		for _, x := range xs {
			if kv, ok := x.(*ast.KeyValueExpr); ok {
				x = kv.Value
			}
			sel, ok := x.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if of, ok := sel.X.(*ast.Ident); ok && whole[of.Name] != "" {
				found = append(found, methodValue{fmt.Sprintf("%s, %s", f.name, d.Name.Name), whole[of.Name],
					sel.Sel.Name})
			}
		}
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			look(n.Elts)
		case *ast.AssignStmt:
			if _, local := n.Lhs[0].(*ast.Ident); !local {
				look(n.Rhs)
			} else if lit, ok := n.Rhs[0].(*ast.UnaryExpr); ok { // c := &Crawler{}
				if lit, ok := lit.X.(*ast.CompositeLit); ok && slices.Contains(wholes, s.embedded(f, lit.Type)) {
					whole[n.Lhs[0].(*ast.Ident).Name] = s.embedded(f, lit.Type)
				}
			}
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && keeps.MatchString(sel.Sel.Name) ||
				keeps.MatchString(localName(n.Fun)) {
				look(n.Args)
			}
		}
		return true
	})
	return found
}

// embedded returns the name of the type of a field, if it is one of ours or a pointer to it, or "".
func (s *shapes) embedded(f source, x ast.Expr) string {
	if star, ok := x.(*ast.StarExpr); ok {
		x = star.X
	}
	sel, ok := x.(*ast.SelectorExpr)
	if !ok {
		if name := localName(x); name != "" {
			return qualified(path.Dir(f.name), name)
		}
		return ""
	}
	pkg, _ := sel.X.(*ast.Ident)
	for _, i := range f.ast.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if to := relative(p); err == nil && to != "" && pkg != nil &&
			(i.Name != nil && i.Name.Name == pkg.Name || i.Name == nil && path.Base(p) == pkg.Name) {
			return qualified(to, sel.Sel.Name)
		}
	}
	return ""
}

// size counts the names of a type, with those of the types that it embeds.
func size(of map[string][]part, name string, seen ...string) (n int) {
	for _, p := range of[name] {
		switch _, known := of[p.embedded]; {
		case !known:
			n += p.names
		case !slices.Contains(seen, p.embedded):
			n += size(of, p.embedded, append(seen, name)...)
		}
	}
	return n
}

// methodsOf counts the methods of a type, with those of the types that it embeds.
func (s *shapes) methodsOf(name string, seen ...string) int {
	n := s.methods[name]
	for _, p := range s.structs[name] {
		if p.embedded != "" && !slices.Contains(seen, p.embedded) {
			n += s.methodsOf(p.embedded, append(seen, name)...)
		}
	}
	return n + size(s.calls, name)
}

// all returns each shape.
func (s *shapes) all() (list []shape) {
	for name := range s.structs {
		list = append(list, shape{"methods of " + name, s.methodsOf(name), maxMethods},
			shape{"fields of " + name, size(s.structs, name), maxFields})
	}
	for name := range s.calls {
		list = append(list, shape{"methods of interface " + name, size(s.calls, name), maxCalls})
	}
	for pkg, n := range s.files {
		list = append(list, shape{"files of " + pkg, n, maxFiles}, shape{"lines of " + pkg, s.lines[pkg], maxLines},
			shape{"imports of " + pkg, len(s.imports[pkg]), maxImported})
	}
	slices.SortFunc(list, func(a, b shape) int { return strings.Compare(a.name, b.name) })
	return list
}

// TestShape: no type and no package swallows the rest. What is over a bound does not grow.
func TestShape(t *testing.T) {
	s := readShapes(t)
	left := maps.Clone(tooLarge)
	for _, sh := range s.all() {
		was, listed := left[sh.name]
		delete(left, sh.name)
		switch {
		case sh.n <= sh.most && listed:
			t.Errorf("%s: %d, within the bound of %d: delete it from tooLarge", sh.name, sh.n, sh.most)
		case sh.n <= sh.most:
		case !listed:
			t.Errorf("%s: %d, at most %d: give a part of it a name and an owner", sh.name, sh.n, sh.most)
		case sh.n > was:
			t.Errorf("%s: %d, and it was %d: what is over the bound of %d may only shrink", sh.name, sh.n, was, sh.most)
		case sh.n < was-was/20: // some fewer lines need no change of this file
			t.Errorf("%s: %d, and it was %d: write the new number in tooLarge", sh.name, sh.n, was)
		}
	}
	for name := range left {
		t.Errorf("%s is not there any more: delete it from tooLarge", name)
	}
	if n := s.functions(); n != funcFields {
		t.Errorf("%d fields hold functions, funcFields is %d: it may only shrink; a function between packages is a "+
			"named interface", n, funcFields)
	}
}

// TestPartsHoldNoWhole: only a whole, and what it shows of itself, has a field of a whole.
func TestPartsHoldNoWhole(t *testing.T) {
	s := readShapes(t)
	for _, name := range wholes {
		if _, ok := s.structs[name]; !ok {
			t.Errorf("%s is not there any more: correct wholes", name)
		}
	}
	held := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(s.holders))), func(name string) bool {
		return slices.Contains(wholes, name)
	})
	for _, name := range held {
		if !slices.Contains(holders, name) {
			t.Errorf("%s holds a whole: give it the parts that it needs, or a named interface", name)
		}
	}
	for _, m := range s.kept {
		if s.declared[m.whole+"."+m.name] {
			t.Errorf("%s: what keeps %s of %s holds the whole: let a part of it have the method", m.at, m.name, m.whole)
		}
	}
	for _, name := range holders {
		if !slices.Contains(held, name) {
			t.Errorf("%s holds no whole any more: delete it from holders", name)
		}
	}
}
