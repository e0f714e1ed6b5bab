package main

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// docs/reference/events.md is written by hand. It has each event of the code with its fields, and
// no other.
func TestReferenceEvents(t *testing.T) {
	w := &writers{t: t, events: map[string][]string{}, calls: map[types.Object][]*ast.CallExpr{}}
	typed(t, w.read)
	for _, s := range w.open {
		w.follow(s)
	}
	if len(w.events) < 30 {
		t.Fatalf("%d events in the code", len(w.events))
	}
	page := map[string][]string{}
	for _, row := range pageTable(t, "events.md", "") {
		for _, kind := range names(row[0]) {
			page[kind] = slices.Sorted(slices.Values(names(row[1])))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(w.events)) {
		got, ok := page[kind]
		if !ok {
			t.Errorf("docs/reference/events.md: add the event %s with the fields %v", kind, w.events[kind])
		} else if !slices.Equal(got, w.events[kind]) {
			t.Errorf("docs/reference/events.md: %s has the fields %v, want %v", kind, got, w.events[kind])
		}
	}
	for kind := range page {
		if _, ok := w.events[kind]; !ok {
			t.Errorf("docs/reference/events.md: nothing writes the event %s", kind)
		}
	}
}

// typed calls fn for each file of the program's packages below internal, with the types of its expressions.
func typed(t *testing.T, fn func(f *ast.File, info *types.Info)) {
	t.Helper()
	const own = "github.com/orbweaver/orbweaver/internal/"
	out := must.Get(exec.Command("go", "list", "-export", "-deps", "-f",
		`{{.ImportPath}}={{.Export}}={{.Dir}}={{join .GoFiles ","}}`, ".").Output())(t)
	exports, files := map[string]string{}, map[string][]string{}
	for line := range strings.Lines(string(out)) {
		p := strings.Split(strings.TrimSpace(line), "=")
		exports[p[0]] = p[1]
		if strings.HasPrefix(p[0], own) && !strings.HasSuffix(p[0], "/pb") {
			for name := range strings.SplitSeq(p[3], ",") {
				files[p[0]] = append(files[p[0]], filepath.Join(p[2], name))
			}
		}
	}
	set := token.NewFileSet()
	imports := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, errors.New("no export data")
		}
		return os.Open(exports[path])
	})
	for _, path := range slices.Sorted(maps.Keys(files)) {
		var parsed []*ast.File
		for _, name := range files[path] {
			f := must.Get(parser.ParseFile(set, name, nil, parser.SkipObjectResolution))(t)
			parsed = append(parsed, f)
		}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
			Defs: map[*ast.Ident]types.Object{}}
		must.Get((&types.Config{Importer: imports}).Check(path, set, parsed, info))(t)
		for _, f := range parsed {
			fn(f, info)
		}
	}
}

// writers are the calls that write events.
type writers struct {
	t      *testing.T
	events map[string][]string // the fields, by kind
	calls  map[types.Object][]*ast.CallExpr
	open   []openKind
}

// An openKind is a call in the function fn whose kind of event is a variable.
type openKind struct {
	fields []string
	fn     *ast.FuncDecl
	kind   *ast.Ident
	info   *types.Info
}

// read notes the calls of a file.
func (w *writers) read(f *ast.File, info *types.Info) {
	for _, d := range f.Decls {
		fn, _ := d.(*ast.FuncDecl)
		ast.Inspect(d, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if o := callee(call, info); o != nil {
				w.calls[o] = append(w.calls[o], call)
			}
			fields, ok := eventFields(call, info)
			if !ok {
				return true
			}
			if kind, ok := literal(call.Args[0]); ok {
				w.note(kind, fields)
			} else if id, ok := call.Args[0].(*ast.Ident); ok {
				w.open = append(w.open, openKind{fields, fn, id, info})
			} else {
				w.t.Errorf("%s: the kind of an event is neither a literal nor a variable", fn.Name.Name)
			}
			return true
		})
	}
}

// callee returns the function or the method that is called, or nil.
func callee(call *ast.CallExpr, info *types.Info) types.Object {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return info.Uses[f]
	case *ast.SelectorExpr:
		return info.Uses[f.Sel]
	}
	return nil
}

// eventFields returns the fields of a call that writes an event: of a function of a string and either report.Fields, or
// names and values that are called fields. A function that passes its own fields on is not meant.
func eventFields(call *ast.CallExpr, info *types.Info) (fields []string, ok bool) {
	s, ok := types.Unalias(info.Types[call.Fun].Type).Underlying().(*types.Signature)
	if !ok || !s.Variadic() || s.Params().Len() != 2 || s.Results().Len() > 0 || call.Ellipsis.IsValid() ||
		!types.Identical(s.Params().At(0).Type(), types.Typ[types.String]) {
		return nil, false
	}
	last := s.Params().At(1)
	switch of := last.Type().(*types.Slice).Elem(); {
	case strings.HasSuffix(of.String(), "/internal/report.Field"):
		for _, a := range call.Args[1:] {
			if c, ok := a.(*ast.CallExpr); ok {
				if field, ok := literal(c.Args[0]); ok {
					fields = append(fields, field)
				}
			}
		}
	case last.Name() == "fields":
		for i := 1; i < len(call.Args); i += 2 {
			if field, ok := literal(call.Args[i]); ok {
				fields = append(fields, field)
			}
		}
	default:
		return nil, false
	}
	return fields, true
}

// note records an event.
func (w *writers) note(kind string, fields []string) {
	all := append(w.events[kind], fields...)
	slices.Sort(all)
	w.events[kind] = slices.Compact(all)
}

// follow records the events of a call by the values that its variable has.
func (w *writers) follow(s openKind) {
	found, at := false, 0
	kind := s.info.Uses[s.kind]
	is := func(id *ast.Ident) bool { return s.info.Defs[id] == kind || s.info.Uses[id] == kind }
	value := func(e ast.Expr) {
		if kind, ok := literal(e); ok {
			w.note(kind, s.fields)
			found = true
		}
	}
	for _, p := range s.fn.Type.Params.List { // a parameter: what the callers pass
		for _, id := range p.Names {
			if is(id) {
				for _, c := range w.calls[s.info.Defs[s.fn.Name]] {
					value(c.Args[at])
				}
			}
			at++
		}
	}
	ast.Inspect(s.fn, func(n ast.Node) bool { // a variable: what is assigned to it
		if a, ok := n.(*ast.AssignStmt); ok && len(a.Lhs) == 1 {
			if id, ok := a.Lhs[0].(*ast.Ident); ok && is(id) {
				value(a.Rhs[0])
			}
		}
		return true
	})
	if !found {
		w.t.Errorf("%s: no literal leads to the kind %s of this event", s.fn.Name.Name, s.kind.Name)
	}
}
