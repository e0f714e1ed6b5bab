package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/orbweaver/orbweaver/internal/cli"
	"github.com/orbweaver/orbweaver/internal/cluster/coordinator"
	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/cost"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/verbs"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/review"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// The reference pages that follow from the code are generated below this line.
const generatedMark = "<!-- Generated below this line. To rewrite it: go generate ./cmd/orbweaver -->\n"

// checkReference compares the generated part of a reference page with want. With -update it
// rewrites the page. The part above the mark is written by hand.
func checkReference(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join("../../docs/reference", name)
	b := must.Get(os.ReadFile(path))(t)
	head, got, ok := strings.Cut(string(b), generatedMark)
	if !ok {
		t.Fatalf("docs/reference/%s has no line %q", name, strings.TrimSpace(generatedMark))
	}
	want = "\n" + strings.TrimSpace(want) + "\n"
	if got == want {
		return
	}
	if !*update {
		t.Fatalf("docs/reference/%s is stale; rewrite it: go generate ./cmd/orbweaver", name)
	}
	must.Do(t, os.WriteFile(path, []byte(head+generatedMark+want), 0o644))
}

// table writes a table in Markdown.
func table(rows ...[]string) string {
	var b strings.Builder
	for i, cells := range rows {
		for _, c := range cells {
			b.WriteString("| " + strings.ReplaceAll(c, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
		}
	}
	return b.String() + "\n"
}

func code(s string) string { return "`" + s + "`" }

var (
	trailingDefault = regexp.MustCompile(`\s*\(default: (.*)\)\.?$`)
	namedFlag       = regexp.MustCompile(`--[a-z][a-z-]*[a-z]`)
	quoted          = regexp.MustCompile(`"([^"]+)"`)
)

// settingRow describes a flag of crawl in a row of docs/reference/settings.md.
func settingRow(f *kong.Flag) []string {
	flag := "--" + f.Name
	if !f.IsBool() {
		flag += " " + f.FormatPlaceHolder()
	}
	flag = code(strings.ReplaceAll(flag, ",...", ""))
	if f.Tag.Negatable != "" {
		flag += ", " + code("--no-"+f.Name)
	}
	if f.Short != 0 {
		flag = code("-"+string(f.Short)) + ", " + flag
	}
	key := code(f.Name)
	if commandLineOnly(f) {
		key = "no"
	}
	text, value := cli.HelpText(f.Value), "none"
	if f.IsBool() {
		value = "off"
	}
	if m := trailingDefault.FindStringSubmatch(text); m != nil {
		value = m[1]
		text = strings.TrimSuffix(strings.TrimSuffix(text, m[0]), ".") + "."
	}
	mark := func(s string) string {
		return namedFlag.ReplaceAllStringFunc(quoted.ReplaceAllString(s, "`$1`"), code)
	}
	return []string{flag, code(envName(f.Name)), key, mark(value), mark(text)}
}

func TestReferenceSettings(t *testing.T) {
	var c commands
	discard := cli.NewOutput(io.Discard)
	p := must.Get(newParser(&c, &c, &elsewhere{}, discard, discard, func(int) {}))(t)
	ctx := must.Get(kong.Trace(p, []string{"crawl"}))(t)
	var groups []string
	rows := map[string][][]string{}
	for _, f := range ctx.Selected().Flags {
		if f.Name == "help" || f.Name == "help-all" {
			continue
		}
		if f.Group == nil {
			t.Errorf("--%s has no group", f.Name)
			continue
		}
		if !slices.Contains(groups, f.Group.Title) {
			groups = append(groups, f.Group.Title)
		}
		rows[f.Group.Title] = append(rows[f.Group.Title], settingRow(f))
	}
	var b strings.Builder
	for _, g := range groups {
		head := []string{"flag", "variable", "key in a file", "default", "meaning"}
		b.WriteString("## " + g + "\n\n" + table(append([][]string{head}, rows[g]...)...))
	}
	checkReference(t, "settings.md", b.String())
}

func TestReferenceOrders(t *testing.T) {
	rows := [][]string{{"verb", "given by", "words", "meaning", "effect"}}
	for _, v := range verbs.All {
		by, words := code("ctl "+v.Name), ""
		switch {
		case v.Call != "":
			by = code(v.Call)
		case v.Undo != "":
			by += ", " + code("ctl "+v.Undo)
		}
		if v.Words != "" {
			words = v.Words + ", such as " + code(v.Example)
		}
		rows = append(rows, []string{code(v.Name), by, words, v.About, v.Note})
	}
	checkReference(t, "orders.md", table(rows...))
}

func TestReferenceExitCodes(t *testing.T) {
	rows := [][]string{{"code", "meaning", "what to do"}}
	for _, e := range exitCodes {
		rows = append(rows, []string{strconv.Itoa(e.code), e.meaning, e.todo})
	}
	checkReference(t, "exit-codes.md", table(rows...))
}

// inSources calls fn for each file of the packages below internal, without their tests.
func inSources(t *testing.T, fn func(dir string, f *ast.File)) {
	t.Helper()
	must.Do(t, filepath.WalkDir("../../internal", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			fn(filepath.Dir(path), f)
		}
		return err
	}))
}

// literal returns the value of a string literal, or of a sum of string literals.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, ok := literal(e.X)
		y, ok2 := literal(e.Y)
		return x + y, ok && ok2
	}
	return "", false
}

// called returns the name of the called function, and the name before it, such as "Events" and
// "Write" of c.Events.Write.
func called(e *ast.CallExpr) (of, name string) {
	switch f := e.Fun.(type) {
	case *ast.Ident:
		return "", f.Name
	case *ast.SelectorExpr:
		switch x := f.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = x.Sel.Name
		}
		return of, f.Sel.Name
	}
	return "", ""
}

// Packages local and membership describe each metric once, by a call of local.Desc or local.Histogram.
func TestReferenceMetrics(t *testing.T) {
	groups := []string{"The crawl", "The cluster", "Contents (`--partition hash`)",
		"Assignments (`--partition sites`)"}
	rows := map[string][][]string{}
	for _, g := range groups {
		rows[g] = [][]string{{"metric", "type", "labels", "meaning"}}
	}
	inSources(t, func(dir string, f *ast.File) {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			_, name := called(call)
			if name == "NewDesc" && len(call.Args) > 0 {
				if text, ok := literal(call.Args[0]); ok {
					t.Errorf("%s: describe %s with local.Desc, so that docs/reference/metrics.md has it", dir, text)
				}
			}
			if name != "Desc" && name != "Histogram" || len(call.Args) < 2 {
				return true
			}
			metric, ok := literal(call.Args[0])
			meaning, ok2 := literal(call.Args[1])
			if !ok || !ok2 {
				t.Errorf("%s: %s wants a name and a text that are literals", dir, name)
				return true
			}
			var labels []string
			for _, a := range call.Args[2:] {
				label, _ := literal(a)
				labels = append(labels, code(label))
			}
			kind := "gauge"
			if name == "Histogram" {
				kind = "histogram"
			} else if strings.HasSuffix(metric, "_total") {
				kind = "counter"
			}
			g := groups[0]
			switch {
			case strings.HasPrefix(metric, "orbweaver_contents_"):
				g = groups[2]
			case strings.HasPrefix(metric, "orbweaver_sites_"):
				g = groups[3]
			case regexp.MustCompile(`^orbweaver_(cluster|exchange|hosts|lease)_`).MatchString(metric):
				g = groups[1]
			}
			rows[g] = append(rows[g], []string{code(metric), kind, strings.Join(labels, ", "), meaning})
			return true
		})
	})
	var b strings.Builder
	for _, g := range groups {
		slices.SortFunc(rows[g][1:], func(a, b []string) int { return strings.Compare(a[0], b[0]) })
		b.WriteString("## " + g + "\n\n" + table(rows[g]...))
	}
	checkReference(t, "metrics.md", b.String())
}

// pageTable reads the first two cells of each row in the tables below a heading, up to the
// next heading of the same level. With no heading it reads the tables of the whole page.
func pageTable(t *testing.T, page, heading string) [][2]string {
	t.Helper()
	var rows [][2]string
	for line := range strings.Lines(pageSection(t, page, heading)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		rows = append(rows, [2]string{cells[1], cells[2]})
	}
	return rows
}

// pageSection reads the text below a heading, up to the next heading of the same level. With no
// heading it reads the whole page.
func pageSection(t *testing.T, page, heading string) string {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("../../docs/reference", page)))(t)
	text := string(b)
	if heading != "" {
		_, rest, ok := strings.Cut(text, "\n"+heading+"\n")
		if !ok {
			t.Fatalf("docs/reference/%s has no heading %q", page, heading)
		}
		level, _, _ := strings.Cut(heading, " ")
		text, _, _ = strings.Cut(rest, "\n"+level+" ")
	}
	return text
}

var inCode = regexp.MustCompile("`([^`]+)`")

// names returns the words in code font in a cell.
func names(cell string) []string {
	var out []string
	for _, m := range inCode.FindAllStringSubmatch(cell, -1) {
		out = append(out, m[1])
	}
	return out
}

// jsonFields returns the names of a struct's fields in JSON.
func jsonFields(t reflect.Type) []string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var out []string
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous {
			out = append(out, jsonFields(f.Type)...)
			continue
		}
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			out = append(out, name)
		}
	}
	return out
}

func compareFields(t *testing.T, heading string, want []string) {
	t.Helper()
	var got []string
	for _, row := range pageTable(t, "json.md", heading) {
		got = append(got, names(row[0])...)
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		var missing, strange []string
		for _, f := range want {
			if !slices.Contains(got, f) {
				missing = append(missing, f)
			}
		}
		for _, f := range got {
			if !slices.Contains(want, f) {
				strange = append(strange, f)
			}
		}
		t.Errorf("docs/reference/json.md, %q: add %v, remove %v (or what stands there twice)", heading, missing,
			strange)
	}
}

// docs/reference/json.md is written by hand. It has each field, and no others.
func TestReferenceJSON(t *testing.T) {
	for heading, fields := range jsonObjects(t) {
		t.Run(strings.Trim(heading, "# "), func(t *testing.T) { compareFields(t, heading, fields) })
	}
}

// jsonObjects has the objects of docs/reference/json.md, by heading.
func jsonObjects(t *testing.T) map[string][]string {
	t.Helper()
	var out strings.Builder
	p := report.NewProgress(&out, report.JSON, nil)
	p.Agent = "a1"
	p.Show(report.Snapshot{Revisits: 1, Unchanged: 1, NextIn: time.Second, RetryIn: time.Second, LastURL: "x",
		WaitingFor: "x", Agents: []string{"a1"}, Disk: disk.Space{Free: 1, Size: 2},
		Exchange:  new(report.Exchange),
		TimeLimit: time.Hour}, time.Unix(1e9, 0))
	progress := map[string]any{}
	must.Do(t, json.Unmarshal([]byte(out.String()), &progress))
	of := func(v any) []string { return jsonFields(reflect.TypeOf(v)) }
	return map[string][]string{
		"## summary.json":                                       of(report.Summary{}),
		"## Progress (`--json`)":                                slices.Collect(maps.Keys(progress)),
		"## Page (`--stream jsonl`)":                            of(streamedPage{}),
		"## Dry run (`--dry-run --json`)":                       of(plannedCrawl{}),
		"## `settings`, `join` and `coordinators` of a dry run": slices.Concat(of(plannedSetting{}), of(plannedJoin{})),
		"## Seeds and examples of a dry run": slices.Compact(slices.Sorted(slices.Values(
			slices.Concat(of(plannedSeed{}), of(plannedExample{}))))),
		"## Status (`orbweaver ctl status`)": slices.Concat(of(crawl.Status{}), of(crawl.ClusterStatus{}),
			[]string{"sizes"}, of(node.Waiting{})),
		"## `frontier`: hosts and their queues":              of(frontier.Stats{}),
		"## `sizes`: the main data structures":               of(node.Size{}),
		"## `moves`: hosts that move":                        of(report.Moves{}),
		"## `leases`: shared addresses and domains":          of(report.Leases{}),
		"## `exchange`: messages to other agents":            of(report.Exchange{}),
		"## `sites`: hosts that coordinators have assigned":  of(report.Sites{}),
		"## `contents`: duplicates (`--partition hash`)":     of(report.Contents{}),
		"## Report (`orbweaver report --json`)":              of(review.Review{}),
		"## `crawls`: the crawls of a report":                of(review.Dir{}),
		"## Coordinator (`orbweaver cluster status --json`)": of(coordination.Status{}),
		"## `agents` of a coordinator":                       of(coordinator.AgentStatus{}),
		"## Plan (`orbweaver plan --json`)":                  of(planAnswer{}),
		"## `overheads` of a plan":                           of(cost.Overhead{}),
		"## Graph (`orbweaver graph build --json`, `stats --json`)": slices.Compact(slices.Sorted(slices.Values(
			slices.Concat(of(graphBuilt{}), of(graphStats{}))))),
		"## PageRank (`orbweaver graph pagerank --json`)": of(graphRanks{}),
		"## Kendall's tau (`orbweaver graph tau --json`)": of(graphTau{}),
		"## `plans` of a plan":                            slices.Concat(of(plannedAgents{}), of(cost.Cost{})),
	}
}
