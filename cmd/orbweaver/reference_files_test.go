package main

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// docs/reference/files.md is written by hand. Its annotations, kinds of errors, codes and reasons
// are the same as the code's.

func compareNames(t *testing.T, what string, got, want map[string]bool) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !got[name] {
			t.Errorf("docs/reference/files.md: add the %s %s", what, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if !want[name] {
			t.Errorf("docs/reference/files.md: the code has no %s %s", what, name)
		}
	}
}

// filesTable reads the first column of the table with this header.
func filesTable(t *testing.T, heading, header string) map[string]bool {
	t.Helper()
	got := map[string]bool{}
	in := false
	for _, line := range strings.Split(pageSection(t, "files.md", heading), "\n") {
		cells := strings.Split(line, "|")
		switch {
		case len(cells) < 4:
			in = false
		case strings.TrimSpace(cells[1]) == header:
			in = true
		case in && strings.HasPrefix(strings.TrimSpace(cells[1]), "-") && header == "code":
			if code := strings.TrimSpace(cells[1]); !strings.HasPrefix(code, "--") {
				got[code] = true
			}
		case in:
			for _, name := range names(cells[1]) {
				got[name] = true
			}
		}
	}
	return got
}

func errorKinds() map[string]bool {
	kinds := map[string]bool{"robots-unreachable": true} // visit.errorKind
	for k := fetch.Kind(1); k.String() != "unknown"; k++ {
		kinds[k.String()] = true
	}
	return kinds
}

func TestReferenceErrorKinds(t *testing.T) {
	compareNames(t, "kind of error", filesTable(t, "### Kinds of errors", "kind"), errorKinds())
}

// firstLiteral is the string with which e begins.
func firstLiteral(e ast.Expr) string {
	for {
		if s, ok := literal(e); ok {
			return s
		}
		sum, ok := e.(*ast.BinaryExpr)
		if !ok {
			return ""
		}
		e = sum.X
	}
}

func TestReferenceAnnotations(t *testing.T) {
	rows := filesTable(t, "## logs/crawl.log", "annotation")
	// A try is a number and a letter. A response's time bounds are noted by their kinds.
	want := map[string]bool{"3t": true, "timeout-idle": true, "timeout-total": true, "timeout-rate": true,
		"truncated:length": true, "truncated:time": true, "truncated:disconnect": true}
	add := func(e ast.Expr) {
		s := firstLiteral(e)
		if s == "" || s == "truncated:" {
			return
		}
		for row := range rows { // links-dropped: is links-dropped:N
			if strings.HasSuffix(s, ":") && strings.HasPrefix(row, s) {
				s = row
			}
		}
		want[s] = true
	}
	found := 0
	inSources(t, func(dir string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			_, name := called(call)
			to, _ := call.Args[0].(*ast.SelectorExpr)
			switch {
			case strings.HasSuffix(dir, "web/fetch") && name == "note":
				add(call.Args[0])
				found++
			case inCrawl(dir) && name == "append" && to != nil &&
				strings.EqualFold(to.Sel.Name, "notes"):
				add(call.Args[1])
				found++
			}
			return true
		})
	})
	if found < 15 {
		t.Errorf("only %d annotations were found in the code", found)
	}
	compareNames(t, "annotation", rows, want)
}

func TestReferenceSkipReasons(t *testing.T) {
	want := map[string]bool{}
	constants := map[string]string{}
	inSources(t, func(dir string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			text, ok := literal(spec.Values[0])
			if kind, _ := spec.Type.(*ast.Ident); ok && strings.HasSuffix(dir, "web/scope") && kind != nil &&
				kind.Name == "Reason" {
				want[text] = true
			} else if ok && inCrawl(dir) {
				constants[spec.Names[0].Name] = text
			}
			return true
		})
	})
	inSources(t, func(dir string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && inCrawl(dir) && len(call.Args) == 2 {
				of, _ := call.Fun.(*ast.SelectorExpr) // Links.Skip
				id, _ := call.Args[1].(*ast.Ident)
				if of != nil && of.Sel.Name == "Skip" && id != nil && constants[id.Name] != "" {
					want[constants[id.Name]] = true
				}
			}
			made, ok := n.(*ast.CompositeLit)
			if !ok || !inCrawl(dir) || len(made.Elts) != 2 {
				return true
			}
			of := made.Type
			if s, ok := of.(*ast.SelectorExpr); ok {
				of = s.Sel
			}
			if id, _ := of.(*ast.Ident); id == nil || id.Name != "Skip" {
				return true
			}
			reason := made.Elts[1]
			if kv, ok := reason.(*ast.KeyValueExpr); ok {
				reason = kv.Value
			}
			if text, ok := literal(reason); ok {
				want[text] = true
			} else if id, ok := reason.(*ast.Ident); ok && constants[id.Name] != "" {
				want[constants[id.Name]] = true
			}
			return true
		})
	})
	compareNames(t, "reason", filesTable(t, "## reports/", "reason"), want)
}

func TestReferenceCodes(t *testing.T) {
	constants := map[string]string{}
	used := map[string]bool{}
	inSources(t, func(dir string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if !strings.HasSuffix(dir, "internal/report") || len(n.Values) != 1 {
					return true
				}
				if minus, ok := n.Values[0].(*ast.UnaryExpr); ok && minus.Op == token.SUB {
					if v, ok := minus.X.(*ast.BasicLit); ok {
						constants[n.Names[0].Name] = "-" + v.Value
					}
				}
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok && of.Name == "report" && inCrawl(dir) &&
					strings.HasPrefix(n.Sel.Name, "Code") {
					used[n.Sel.Name] = true
				}
			}
			return true
		})
	})
	want := map[string]bool{}
	for name := range used {
		if constants[name] != "" {
			want[constants[name]] = true
		}
	}
	for k := fetch.Kind(1); k.String() != "unknown"; k++ {
		want[strconv.Itoa((&fetch.Failure{Kind: k}).CrawlLogCode())] = true
	}
	compareNames(t, "code", filesTable(t, "## logs/crawl.log", "code"), want)
}

// inCrawl reports whether a directory has a part of the crawl loop.
func inCrawl(dir string) bool {
	return strings.HasSuffix(dir, "internal/crawl") || strings.HasSuffix(dir, "internal/crawl/visit") ||
		strings.HasSuffix(dir, "internal/cluster")
}
