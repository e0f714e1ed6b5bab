package orbweaver_test

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/build"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
)

const module = "github.com/orbweaver/orbweaver"

// rings are the pages of the five rings, the innermost first. Each lists the packages of its ring. A package knows no
// outer ring. The commands and e2e stand outside: they may know all.
var rings = []string{"internal/crawl", "internal/cluster", "internal/report", "internal/node", "internal/testkit"}

// outside lists the packages that are in no ring, from the lowest layer to the highest.
var outside = []string{"cmd/orbweaver", "lab/cmd/orblab", "examples/go/collect", "e2e"}

// A place is where a package stands.
type place struct {
	ring, layer int    // of a package of outside: higher than all others
	answers     string // what the page of the ring says of it
}

// readPlaces reads the pages of the rings.
var readPlaces = sync.OnceValues(func() (map[string]place, error) {
	places, top := map[string]place{}, 0
	row := regexp.MustCompile("(?m)^\\| (\\d+) \\| `([^`]+)` \\| (.*) \\|$")
	for i, dir := range rings {
		text, err := os.ReadFile(path.Join(dir, "README.md"))
		if err != nil {
			return nil, err
		}
		for _, m := range row.FindAllStringSubmatch(string(text), -1) {
			layer, err := strconv.Atoi(m[1])
			if _, twice := places[m[2]]; err != nil || twice {
				return nil, fmt.Errorf("%s lists %s in layer %s; it is listed twice, or %w", dir, m[2], m[1], err)
			}
			places[m[2]], top = place{i + 1, layer, m[3]}, max(top, layer)
		}
	}
	for i, name := range outside {
		places[name] = place{ring: len(rings) + 1, layer: top + 1 + i}
	}
	return places, nil
})

// placesOf returns where each package stands.
func placesOf(t *testing.T) map[string]place {
	t.Helper()
	places := must.Get(readPlaces())(t)
	return places
}

// TestRingPages compares what the pages of the rings say of the packages with the first sentences of their comments.
func TestRingPages(t *testing.T) {
	places := placesOf(t)
	begin := regexp.MustCompile(`^Package \w+ (answers[^:]*: |answers )?`)
	sentence := regexp.MustCompile(`^.*?[?.]( |$)`)
	for _, f := range sources(t) {
		p, ok := places[path.Dir(f.name)]
		if f.ast.Doc == nil || !ok || p.answers == "" || strings.HasSuffix(f.name, "_test.go") {
			continue
		}
		text := begin.ReplaceAllString(strings.Join(strings.Fields(f.ast.Doc.Text()), " "), "")
		text = strings.TrimSpace(sentence.FindString(text))
		if want := strings.ToUpper(text[:1]) + text[1:]; p.answers != want {
			t.Errorf("the page of its ring says of %s: %q; its comment: %q", path.Dir(f.name), p.answers, want)
		}
	}
}

// testHelpers may be imported by the tests of any package.
var testHelpers = []string{"internal/testweb", "internal/testkit/must", "internal/testkit/testcost",
	"internal/testkit/testdisk", "internal/testkit/testneed", "internal/testkit/testseed",
	"internal/testkit/testparts", "internal/testkit/testwire", "internal/testkit/testtier",
	"internal/testkit/testarchive", "internal/testkit/testbrowser", "internal/testkit/textweb",
	"internal/testkit/walk", "internal/testkit/simnet", "internal/testkit/testcalls", "internal/testkit/testclock",
	"internal/testkit/testmembers", "internal/testkit/teststore"}

// A folder holds the imports of a Go package, of the files for this system.
type folder struct {
	name                 string // relative to the root
	imports, testImports []string
}

// relative returns the folder of an import path of ours, or "" for others.
func relative(path string) string {
	if path == module {
		return "."
	}
	rel, ok := strings.CutPrefix(path, module+"/")
	if !ok {
		return ""
	}
	return rel
}

// modules lists the folders of the modules that have layers. Package tools has none.
var modules = []string{".", "lab"}

// folders returns the packages of these modules.
func folders(t *testing.T) map[string]*folder {
	t.Helper()
	fs := map[string]*folder{}
	for _, f := range sources(t) {
		dir, base := path.Split(f.name)
		dir = path.Clean(dir)
		if match, err := build.Default.MatchFile(dir, base); err != nil {
			t.Fatal(err)
		} else if !match || strings.HasPrefix(f.name, "tools/") {
			continue
		}
		if fs[dir] == nil {
			fs[dir] = &folder{name: dir}
		}
		to := &fs[dir].imports
		if strings.HasSuffix(base, "_test.go") {
			to = &fs[dir].testImports
		}
		*to = append(*to, f.imports...)
	}
	return fs
}

// TestNamedPackages checks that "package x" in a comment names a package of ours, or one that the
// file's module imports.
func TestNamedPackages(t *testing.T) {
	known := map[string]bool{}
	for _, f := range sources(t) {
		known[f.ast.Name.Name], known[path.Base(path.Dir(f.name))] = true, true
		for _, i := range f.imports {
			known[path.Base(i)] = true
		}
	}
	named := regexp.MustCompile(`(\w*)\W*\bpackage\s+([a-z][a-z0-9]*)\b`)
	for _, f := range sources(t) {
		if ast.IsGenerated(f.ast) {
			continue
		}
		for _, group := range f.ast.Comments {
			for _, m := range named.FindAllStringSubmatch(group.Text(), -1) {
				if !known[m[2]] && !slices.Contains(determiners, strings.ToLower(m[1])) {
					t.Errorf("%s: a comment names package %s, which is not there", f.name, m[2])
				}
			}
		}
	}
}

// determiners lists words before "package" that show that the next word is not a name.
var determiners = []string{"a", "an", "the", "this", "that", "each", "every", "no", "one", "any",
	"which", "own", "other"}

func TestImportsFall(t *testing.T) {
	all, places := folders(t), placesOf(t)
	for p := range places {
		if all[p] == nil {
			t.Errorf("the page of its ring lists %s, but there is no such package: delete it", p)
		}
	}
	for _, p := range all {
		at, ok := places[p.name]
		if !ok {
			t.Errorf("%s has no layer: add it to the page of its ring (%v)", p.name, rings)
			continue
		}
		check := func(imports []string, what string, allowed ...string) {
			for _, path := range imports {
				to := relative(path)
				if to == "" || slices.Contains(allowed, to) {
					continue
				}
				if f, ok := places[to]; !ok || f.layer >= at.layer {
					t.Errorf("%s (layer %d) %s %s (layer %d), which is not below it", p.name, at.layer, what, to,
						f.layer)
				} else if f.ring > at.ring && what == "imports" {
					t.Errorf("%s (ring %d) imports %s (ring %d), an outer ring", p.name, at.ring, to, f.ring)
				}
			}
		}
		check(p.imports, "imports")
		check(p.testImports, "imports in its tests", append([]string{p.name}, testHelpers...)...)
	}
}

// TestNoCgo: the program is one static binary.
func TestNoCgo(t *testing.T) {
	for _, f := range sources(t) {
		if slices.Contains(f.imports, "C") {
			t.Errorf("%s imports C", f.name)
		}
	}
}

// withFlags lists the packages of the inner rings whose texts may name flags: those that read the command line, and
// those whose texts are in files for people: reports, and lists of lost pages.
var withFlags = []string{"internal/cli", "internal/node/verbs", "internal/report", "internal/report/view",
	"internal/cluster/lost"}

// TestNoFlags: the program, a library and a service have the crawl in common, but not flags. Texts of the packages
// below the commands name settings, see input.ConfigError.
func TestNoFlags(t *testing.T) {
	flag := regexp.MustCompile(`--[a-z%]`)
	for _, f := range sources(t) {
		at, ok := placesOf(t)[path.Dir(f.name)]
		if !ok || at.ring > 4 || path.Dir(f.name) == "." || slices.Contains(withFlags, path.Dir(f.name)) ||
			strings.HasSuffix(f.name, "_test.go") || ast.IsGenerated(f.ast) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.BasicLit); ok && s.Kind == token.STRING && flag.MatchString(s.Value) {
				t.Errorf("%s: the text %s names a flag; name the setting, such as {host-delay}", f.name, s.Value)
			}
			return true
		})
	}
}

// TestVet runs go vet on the first two modules. .ci/run calls it for the third one, in the folder tools. With an empty
// cache go vet may take longer than go test gives to all tests of this package, so it gets half of that.
func TestVet(t *testing.T) {
	ctx := t.Context()
	if end, ok := t.Deadline(); ok {
		half, stop := context.WithTimeout(ctx, time.Until(end)/2)
		defer stop()
		ctx = half
	}
	for _, module := range modules {
		cmd := exec.CommandContext(ctx, "go", "vet", "./...")
		cmd.Dir, cmd.WaitDelay = module, time.Second // a child of go may hold the pipe
		out, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			testneed.Missing(t, "go vet ./... needs more time: give go test a longer -timeout")
		}
		if err != nil {
			t.Errorf("go vet in %s: %v\n%s", module, err, out)
		}
	}
}

// A source is a Go file of ours, with any build constraints.
type source struct {
	name    string // relative to the root
	text    []byte
	ast     *ast.File
	imports []string // their paths
}

// readSources reads all Go files, once for all tests.
var readSources = sync.OnceValues(func() (out []source, err error) {
	err = walk(func(name string) error {
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		s := source{name, text, f, nil}
		for _, imp := range f.Imports {
			path, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, path)
		}
		out = append(out, s)
		return nil
	})
	return out, err
})

func sources(t *testing.T) []source {
	t.Helper()
	out, err := readSources()
	if err != nil || len(out) < 100 {
		t.Fatalf("%d Go files, %v", len(out), err)
	}
	return out
}

// walk calls fn for each file of the repository, except testdata and files that tools and git
// ignore. It returns the first error.
func walk(fn func(name string) error) error {
	return filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if !d.IsDir() {
			return fn(filepath.ToSlash(name))
		}
		if base == "testdata" || name != "." && (base[0] == '.' || base[0] == '_') {
			return fs.SkipDir
		}
		return nil
	})
}

// documents returns the texts of all documents by their names, and the names of all Go files.
func documents(t *testing.T) (docs map[string]string, goFiles []string) {
	t.Helper()
	docs = map[string]string{}
	must.Do(t, walk(func(name string) error {
		switch path.Ext(name) {
		case ".go":
			goFiles = append(goFiles, name)
		case ".md":
			b, err := os.ReadFile(name)
			docs[name] = string(b)
			return err
		}
		return nil
	}))
	return docs, goFiles
}

// TestRandomTestsCanBeRepeated: a test that draws at random can be repeated. It seeds its own source
// of random numbers, with a constant or with testseed. Property tests have the seed that testseed
// sets when it is imported.
func TestRandomTestsCanBeRepeated(t *testing.T) {
	property, seeded := map[string]string{}, map[string]bool{} // by folder
	own := []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"}
	for _, f := range sources(t) {
		if !strings.HasSuffix(f.name, "_test.go") {
			continue
		}
		random := false
		for _, imp := range f.imports {
			random = random || imp == "math/rand/v2"
			switch imp {
			case "math/rand":
				t.Errorf("%s imports math/rand: use math/rand/v2", f.name)
			case "pgregory.net/rapid":
				property[filepath.Dir(f.name)] = f.name
			case module + "/internal/testkit/testseed":
				seeded[filepath.Dir(f.name)] = true
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if ok && random && x.Name == "rand" && token.IsExported(sel.Sel.Name) &&
				!slices.Contains(own, sel.Sel.Name) {
				t.Errorf("%s draws with rand.%s, whose seed is unknown: use testseed.Rand(t)", f.name, sel.Sel.Name)
			}
			return true
		})
	}
	for dir, name := range property {
		if !seeded[dir] && dir != "internal/testkit/testseed" {
			t.Errorf("%s has property tests, but no test of %s imports testseed, which sets their seed", name, dir)
		}
	}
}

func TestFormatted(t *testing.T) {
	for _, f := range sources(t) {
		want, err := format.Source(f.text)
		if err != nil {
			t.Errorf("%s: %v", f.name, err)
		} else if !bytes.Equal(f.text, want) {
			t.Errorf("%s is not formatted: gofmt -w %s", f.name, f.name)
		}
	}
}

// TestLinesAreShort: a line of Go has at most 120 columns, a tab counting as 4.
// Exempt are generated files, and lines with something that cannot be broken: a
// long string in backquotes (a field's tag, for example) or without spaces, and
// a URL in a comment.
func TestLinesAreShort(t *testing.T) {
	const limit = 120
	for _, f := range sources(t) {
		if ast.IsGenerated(f.ast) {
			continue
		}
		whole := unbreakable(f)
		n := 0
		for line := range strings.Lines(string(f.text)) {
			n++
			line = strings.TrimSuffix(line, "\n")
			width := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
			if width > limit && !whole[n] && !strings.Contains(line[strings.LastIndexByte(line, ' ')+1:], "://") {
				t.Errorf("%s:%d has %d columns, at most %d", f.name, n, width, limit)
			}
		}
	}
}

// unbreakable returns the numbers of the lines with a string of more than 60 bytes
// in backquotes or without spaces, and of all lines of a string of several lines.
func unbreakable(f source) map[int]bool {
	lines := map[int]bool{}
	file := token.NewFileSet().AddFile(f.name, -1, len(f.text))
	var s scanner.Scanner
	s.Init(file, f.text, nil, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return lines
		}
		several := strings.Count(lit, "\n")
		if tok == token.STRING && (several > 0 || len(lit) > 60 && (lit[0] == '`' || !strings.Contains(lit, " "))) {
			for i := range 1 + several {
				lines[file.Line(pos)+i] = true
			}
		}
	}
}

// TestFilesAreShort checks that no file grows so long that it swallows the rest of its package.
func TestFilesAreShort(t *testing.T) {
	const limit = 600
	for _, f := range sources(t) {
		if strings.HasSuffix(f.name, "_test.go") || ast.IsGenerated(f.ast) {
			continue
		}
		if n := bytes.Count(f.text, []byte("\n")); n > limit {
			t.Errorf("%s has %d lines, at most %d: split it by noun", f.name, n, limit)
		}
	}
}

// TestPackageComments: one file of each package has a package comment. In a folder with tests only
// it may be in one of them.
func TestPackageComments(t *testing.T) {
	said := map[string]int{}
	code := map[string]bool{}
	for _, f := range sources(t) {
		dir := filepath.Dir(f.name)
		isTest := strings.HasSuffix(f.name, "_test.go")
		if !isTest {
			code[dir] = true
		}
		if f.ast.Doc == nil {
			said[dir] += 0
			continue
		}
		words := strings.Fields(f.ast.Doc.Text())
		want := f.ast.Name.Name
		if !isTest && len(words) > 1 && words[0] != "Package" && want != "main" {
			t.Errorf("%s: a package comment begins with \"Package %s\"", f.name, want)
		}
		if len(words) >= 5 {
			said[dir]++
		}
	}
	for dir, n := range said {
		if n == 0 {
			t.Errorf("%s has no package comment", dir)
		}
		if n > 1 && code[dir] {
			t.Errorf("%s has %d package comments, one is enough", dir, n)
		}
	}
}

var (
	mdFence = regexp.MustCompile("(?ms)^ *```.*?^ *```|`[^`\n]*`")
	mdLink  = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?[^)]*\)`)
	mdRef   = regexp.MustCompile(`(?m)^ *\[[^\]]+\]: +<?([^\s>]+)`)
	mdHTML  = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
)

// TestLinks: the targets of links between documents exist.
func TestLinks(t *testing.T) {
	docs, _ := documents(t)
	for name, text := range docs {
		for _, to := range links(text) {
			u, err := url.Parse(to)
			if err != nil {
				t.Errorf("%s links to %q: %v", name, to, err)
				continue
			}
			if u.Scheme != "" || u.Host != "" {
				continue // elsewhere
			}
			target := name
			if u.Path != "" {
				target = filepath.Join(filepath.Dir(name), filepath.FromSlash(u.Path))
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which is not there", name, to)
				continue
			}
			if u.Fragment != "" && strings.HasSuffix(target, ".md") &&
				!slices.Contains(anchors(docs[filepath.ToSlash(target)]), u.Fragment) {
				t.Errorf("%s links to %s, a heading that is not there", name, to)
			}
		}
	}
}

// TestNamedFiles checks that the Go files that documents name, such as `crawl/outcome.go`, exist.
// The changelog may name files of the past.
func TestNamedFiles(t *testing.T) {
	docs, files := documents(t)
	delete(docs, "CHANGELOG.md")
	named := regexp.MustCompile("`([a-zA-Z0-9_/]+\\.go)`")
	for doc, text := range docs {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if !slices.ContainsFunc(files, func(f string) bool { return strings.HasSuffix("/"+f, "/"+m[1]) }) {
				t.Errorf("%s names %s, which is not there", doc, m[1])
			}
		}
	}
}

func links(md string) []string {
	md = mdFence.ReplaceAllString(md, "")
	var out []string
	for _, re := range []*regexp.Regexp{mdLink, mdRef, mdHTML} {
		for _, m := range re.FindAllStringSubmatch(md, -1) {
			out = append(out, m[1])
		}
	}
	return out
}

var (
	fence     = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	noAnchors = regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)
)

// anchors returns the fragments that code hosts make of a document's headings.
func anchors(text string) (out []string) {
	for line := range strings.Lines(fence.ReplaceAllString(text, "")) {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			name := noAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
			out = append(out, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return out
}

func TestLinksAreFound(t *testing.T) {
	const md = "[a](b.md#c) `[no](code)`\n```\n[no](fence)\n```\n[r]: ref.md\n<img src=\"x.svg\">\n[b](c.svg \"title\")"
	got, want := links(md), []string{"b.md#c", "c.svg", "ref.md", "x.svg"}
	if !slices.Equal(got, want) {
		t.Errorf("links = %q, want %q", got, want)
	}
}
