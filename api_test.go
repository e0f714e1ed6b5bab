package orbweaver_test

import (
	"errors"
	"go/ast"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestNoInternalTypesInTheAPI: a program that imports this package can name each type of its API.
func TestNoInternalTypesInTheAPI(t *testing.T) {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}={{.Export}}", ".").Output()
	must.Do(t, err)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "=")
		files[path] = file
	}
	pkg := must.Get(importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, errors.New("no export data")
		}
		return os.Open(files[path])
	}).Import(module))(t)
	a := api{seen: map[types.Type]bool{}}
	for _, name := range pkg.Scope().Names() {
		if obj := pkg.Scope().Lookup(name); obj.Exported() {
			a.walk(name, obj.Type())
		}
	}
	for _, name := range []string{"Crawl", "Options.OnPage", "Strategy.Follow", "Link.Host", "Result.FailedSeeds"} {
		if !slices.Contains(a.names, name) {
			t.Errorf("%s was not looked at", name)
		}
	}
	for _, l := range a.leaks {
		t.Error(l)
	}
}

// An api collects the types that an importer of the package can reach.
type api struct {
	seen         map[types.Type]bool
	names, leaks []string
}

func (a *api) walk(name string, t types.Type) {
	a.names = append(a.names, name)
	if a.seen[t] {
		return
	}
	a.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		a.walk(name, types.Unalias(t))
	case *types.Named:
		if p := t.Obj().Pkg(); p != nil && strings.Contains(p.Path()+"/", module+"/internal/") {
			a.leaks = append(a.leaks, name+" has the type "+t.String())
			return
		}
		if p := t.Obj().Pkg(); p == nil || p.Path() != module {
			return // the standard library
		}
		for _, of := range []types.Type{t, types.NewPointer(t)} {
			methods := types.NewMethodSet(of)
			for i := range methods.Len() {
				if m := methods.At(i).Obj(); m.Exported() {
					a.walk(t.Obj().Name()+"."+m.Name(), m.Type())
				}
			}
		}
		a.walk(t.Obj().Name(), t.Underlying())
	case *types.Struct:
		for i := range t.NumFields() {
			if f := t.Field(i); f.Exported() {
				a.walk(name+"."+f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for i := range t.NumMethods() {
			if m := t.Method(i); m.Exported() {
				a.walk(name+"."+m.Name(), m.Type())
			}
		}
	case *types.Signature:
		for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for i := range tuple.Len() {
				a.walk(name, tuple.At(i).Type())
			}
		}
	case *types.Map:
		a.walk(name, t.Key())
		a.walk(name, t.Elem())
	case interface{ Elem() types.Type }: // pointers, slices, arrays, channels
		a.walk(name, t.Elem())
	}
}

// ofTheProcess lists names that change or end the whole process, or act for it, by import path.
// Only a program may use them.
var ofTheProcess = map[string]*regexp.Regexp{
	"os":             regexp.MustCompile(`^(Exit|Setenv|Unsetenv|Clearenv|Chdir|Stdin|Stdout|Args|Getenv|LookupEnv|Environ)$`),
	"os/signal":      regexp.MustCompile(`.`),
	"log":            regexp.MustCompile(`^(Fatal|Panic|Print|Set|Default|Output|Writer)`),
	"log/slog":       regexp.MustCompile(`^(SetDefault|SetLogLoggerLevel|Default|Debug|Info|Warn|Error|Log|With)`),
	"fmt":            regexp.MustCompile(`^(Print|Scan)(f|ln)?$`),
	"flag":           regexp.MustCompile(`.`),
	"expvar":         regexp.MustCompile(`.`),
	"runtime/debug":  regexp.MustCompile(`^Set`),
	"runtime":        regexp.MustCompile(`^(Set|GC$|NumCgoCall$)`),
	"syscall":        regexp.MustCompile(`^(Exit|Setrlimit|Umask|Kill|Set.?[ug]id|Chdir|Setenv)$`),
	"net/http":       regexp.MustCompile(`^(Default(ServeMux|Client|Transport)|Handle|HandleFunc|Get|Head|Post|PostForm|ListenAndServe(TLS)?)$`),
	"net/http/pprof": regexp.MustCompile(`.`),
	"math/rand":      regexp.MustCompile(`.`),
	prometheusClient: regexp.MustCompile(`^(Default|MustRegister|Register|Unregister)`),
	promauto:         regexp.MustCompile(`.`),
}

const (
	prometheusClient = "github.com/prometheus/client_golang/prometheus"
	promauto         = prometheusClient + "/promauto"
)

// exempt lists the files that may use such names, with the names that they may use.
var exempt = map[string][]string{
	// Only tests import these. The environment holds the seed of random tests, and says if this is CI or the soak. The
	// server of a benchmark is a process of its own, which the environment names and which ends with its input.
	"internal/testkit/testneed/testneed.go": {"os.Getenv"},
	"internal/testkit/testseed/testseed.go": {"os.Getenv", "flag.Set"},
	"internal/testkit/testtier/testtier.go": {"os.Getenv"},
	"internal/testkit/testcost/testcost.go": {
		"os.Args", "os.Environ", "os.Exit", "os.Getenv", "os.Stdin", "runtime.GC",
	},
}

// TestNothingOfTheProcess: two crawls run in one process, and the process belongs to another
// program. No package below the programs sets signal handlers, exits, bounds the garbage collector,
// reads the environment, or uses registries of the whole process.
func TestNothingOfTheProcess(t *testing.T) {
	checked, used := 0, map[string]bool{}
	for _, f := range sources(t) {
		dir := filepath.ToSlash(filepath.Dir(f.name))
		at, ok := placesOf(t)[dir]
		if !ok || at.ring > len(rings) || dir == "lab" || strings.HasPrefix(dir, "lab/") ||
			strings.HasSuffix(f.name, "_test.go") || f.ast.Name.Name == "main" {
			continue // a program, a test, or the generator of a file
		}
		checked++
		paths := map[string]string{} // by the name in this file
		for i, imp := range f.ast.Imports {
			path := f.imports[i]
			name := path[strings.LastIndexByte(path, '/')+1:]
			if imp.Name != nil {
				name = imp.Name.Name
			}
			if paths[name] = path; ofTheProcess[path] != nil && name == "." {
				t.Errorf("%s: imports all names of %s", f.name, path)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			rule := ofTheProcess[paths[x.Name]]
			if rule == nil || !rule.MatchString(sel.Sel.Name) {
				return true
			}
			name := x.Name + "." + sel.Sel.Name
			if slices.Contains(exempt[f.name], name) {
				used[f.name] = true
				return true
			}
			t.Errorf("%s uses %s, which belongs to the whole process: only a program may", f.name, name)
			return true
		})
	}
	if checked < 100 {
		t.Errorf("only %d files were checked", checked)
	}
	for name := range exempt {
		if !used[name] {
			t.Errorf("%s needs no exemption", name)
		}
	}
}
