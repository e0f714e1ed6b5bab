package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// indexVariable names a checkout of Common Crawl's cc-index-table, whose example queries then run, too.
const indexVariable = "ORBWEAVER_CC_INDEX_TABLE"

var (
	crawlName = regexp.MustCompile(`CC-MAIN-\d{4}-\d{2}`)

	// athena has the examples of cc-index-table that need functions or syntax of Athena, by engine.
	athena = map[string][]string{
		"duckdb": {"count-hostname-elements", "count-idna", "count-robotstxt-url-paths", "count-url-path-elements",
			"get-language-translations-url-path", "get-records-home-pages", "random-sample-extract",
			"random-sample-urls", "similar-domains", "site-discovery-by-language", "site-discovery-hungarian",
			"discovery-of-non-english-sites"},
		"spark": {"count-hostname-elements", "count-robotstxt-url-paths", "count-url-path-elements",
			"get-home-pages-languages", "get-language-translations-url-path", "random-sample-extract",
			"random-sample-urls", "similar-domains", "site-discovery-by-language", "site-discovery-hungarian",
			"discovery-of-non-english-sites"},
	}
)

// Queries as people write them for Common Crawl's index run unchanged in DuckDB and Spark, on the tables of several
// crawls as one table. Their answers are those of crawl.log.
func TestQueriesOfCommonCrawl(t *testing.T) {
	testtier.OnlySoak(t, "it needs DuckDB and Spark")
	weighs(t, 2)
	site := t.TempDir()
	for name, text := range exampleSite {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(site, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(site, name), []byte(text), 0o644))
	}
	web := serve(t, testweb.Config{Folders: []testweb.Folder{{Host: "example.org", Dir: site}}})
	files := must.Get(filepath.Glob("testdata/queries/*.sql"))(t)
	if dir := os.Getenv(indexVariable); dir != "" {
		files = append(files, must.Get(filepath.Glob(filepath.Join(dir, "src/sql/examples/cc-index/*.sql")))(t)...)
	}
	names := []string{"CC-MAIN-2018-05", "CC-MAIN-2018-17"}
	for _, f := range files {
		names = append(names, crawlName.FindAllString(string(must.Get(os.ReadFile(f))(t)), -1)...)
	}
	slices.Sort(names)
	names = slices.Compact(names)

	// Every second crawl has one page more, which the web does not have.
	home := t.TempDir()
	out := filepath.Join(home, "tables")
	var kinds [2][]logLine
	for i, dir := range []string{filepath.Join(home, "a"), filepath.Join(home, "b")} {
		seeds := []string{"https://example.org/", "https://example.org/gone"}[:i+1]
		crawl(context.Background(), t, flags(t, web, dir, append([]string{"--delay", "0s"}, seeds...)...)...).must(t, 0)
		kinds[i] = logLines(t, dir)
	}
	if len(kinds[1]) != len(kinds[0])+1 {
		t.Errorf("the crawls have %d and %d visits", len(kinds[0]), len(kinds[1]))
	}
	of := map[string][]logLine{}
	for i, name := range names {
		crawl(context.Background(), t, "tables", "--out", out, "--crawl", name,
			filepath.Join(home, string(rune('a'+i%2)))).must(t, 0)
		of[name] = kinds[i%2]
	}

	one := of["CC-MAIN-2018-05"]
	pages, shares := 0, []string(nil)
	var partitions []string
	for name, lines := range of {
		n := 0
		for _, l := range lines {
			if l.subset() == "warc" {
				n++
			}
		}
		pages += n
		shares = append(shares, fmt.Sprintf("%s\t%d", name, n))
		partitions = append(partitions, counted(lines, func(l logLine) string { return name + "\t" + l.subset() })...)
	}
	in := func(subset string, key func(logLine) string) []string {
		return counted(one, func(l logLine) string {
			if l.subset() != subset {
				return ""
			}
			return key(l)
		})
	}
	want := map[string][]string{
		"partitions.sql": partitions,
		"status.sql":     in("crawldiagnostics", func(l logLine) string { return l.status }),
		"types.sql":      in("warc", func(l logLine) string { return l.mime }),
		"domains.sql":    {fmt.Sprintf("org\t%d\t1\t1", pages)},
		"ranks.sql":      {fmt.Sprintf("example.org\t%d", len(one))},
		"robots.sql":     {"https://example.org/robots.txt\t200"},
		"shares.sql":     shares,
	}
	for engine, needs := range athena {
		printed := foreign(t, filepath.Join(venv(t), "bin", "python"), append([]string{"-W", "ignore",
			"testdata/queries.py", engine, filepath.Join(out, "cc-index/table/cc-main/warc")}, files...)...)
		answers := map[string]bool{}
		for line := range strings.Lines(printed) {
			var got struct {
				Name, Error string
				Rows        [][]any
			}
			must.Do(t, json.Unmarshal([]byte(line), &got))
			answers[got.Name] = true
			if expected := slices.Contains(needs, strings.TrimSuffix(got.Name, ".sql")); expected != (got.Error != "") {
				t.Errorf("%s: %s: error %q; an error is expected: %v", engine, got.Name, got.Error, expected)
			}
			var rows []string
			for _, row := range got.Rows {
				rows = append(rows, strings.ReplaceAll(strings.Trim(fmt.Sprint(row), "[]"), " ", "\t"))
			}
			slices.Sort(rows)
			if w := slices.Sorted(slices.Values(want[got.Name])); w != nil && !slices.Equal(rows, w) {
				t.Errorf("%s: %s answers %q, want %q", engine, got.Name, rows, w)
			}
		}
		if len(answers) != len(files) {
			t.Errorf("%s answers %v, want %v", engine, slices.Collect(maps.Keys(answers)), files)
		}
	}
}
