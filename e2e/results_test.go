package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// resultsBlock finds a program or queries in docs/results.md.
var resultsBlock = regexp.MustCompile("(?ms)^```(python|sql)\n(.*?)^```$")

// guessed finds a JSON file whose columns DuckDB takes from its content. There are none if the file is empty.
var guessed = regexp.MustCompile(`FROM '[^']*\.jsonl`)

// soakOnly finds a program for which the gate lacks a library.
var soakOnly = regexp.MustCompile(`import pandas|createOrReplaceTempView`)

// resultsWant has for each of them a text that it alone has, and what it must print.
var resultsWant = map[string][]string{
	`get_statuscode() == "200"`: {`(?m)^https://example.org/ \d+$`, `(?m)^https://example.org/1.html 3$`},
	`file.seek(`:                {`(?m)^\d{14} <a href=1.html>`},
	`events.jsonl`: {`'started'.*'stopped'`, `\('outOfScope', 1\)`,
		`https://example.org/ -> https://other.example/`},
	`import pandas`: {`(?m)^404\s+2\.0 +\d`, `(?m)^200\s+3\.0 +\d`},
	`hosts.csv`: {`'example.org', 3, \d+`,
		`'https://example.org/missing.html', 404, 1, 'https://example.org/'`},
	`avg(took_s)`:              {`\('example.org', 200, 3, \d+\.\d+\)`},
	`SELECT reason`:            {`\('outOfScope', 'other.example', 1\)`},
	`unnest(links)`:            {`\('https://example.org/1.html', 1, \['first'\]\)`},
	`index.cdxj', columns`:     {`\('text/html', \d+, \d+\)`, `\('warc/revisit', 1, \d+\)`},
	`WHERE crawl = 'crawl'`:    {`\('example.org', 2, \d+\)`},
	`duplicate_of IS NOT NULL`: {`'https://example.org/(1|copy).html', 'https://example.org/(1|copy).html'`},
	`GROUP BY depth`:           {`\[\(0, 1\), \(1, 1\)\]`},
	`tables/failures`:          {`\('example.org', 404, None, \d\)`, `\('https://example.org/1.html', 1\)`},
	`createOrReplaceTempView`:  {`\|\s*warc\|\s*200\|\s*2\|`, `\|crawldiagnostics\|\s*404\|\s*1\|`},
	`sparkContext`:             {`\|\s*200\|\s*\d+\|`, `\|\s*404\|\s*2\|`},
}

// runQueries runs the queries of its standard input.
const runQueries = `import duckdb, sys
for query in sys.stdin.read().split(";\n"):
    print(duckdb.sql(query).fetchall())`

// Each program and query of docs/results.md runs and reads a crawl. The gate has warcio alone; the soak has pandas and
// DuckDB, and Spark, for which testdata/spark stands in in the gate.
func TestResultsAsDocumented(t *testing.T) {
	weighs(t, 1)
	venv := venv(t)
	if venv == "" {
		t.Skip("no warcio")
	}
	site := t.TempDir()
	for name, text := range map[string]string{
		"index.html": `<a href=1.html>first</a> <a href=copy.html>copy</a> <a href=missing.html>missing</a>
			<a href=https://other.example/>other</a>`, "1.html": "one", "copy.html": "one",
	} {
		must.Do(t, os.WriteFile(filepath.Join(site, name), []byte(text), 0o644))
	}
	web := serve(t, testweb.Config{Folders: []testweb.Folder{{Host: "example.org", Dir: site}}})
	home := t.TempDir()
	crawl(context.Background(), t, flags(t, web, filepath.Join(home, "crawl"), "--delay", "0s", "--links",
		"https://example.org/")...).must(t, 0)
	crawl(context.Background(), t, "tables", filepath.Join(home, "crawl")).must(t, 0)
	withoutLines := t.TempDir() // the same crawl with empty logs
	must.Do(t, os.CopyFS(withoutLines, os.DirFS(home)))
	for _, name := range []string{"logs/crawl.jsonl", "reports/skipped.jsonl"} {
		must.Do(t, os.Truncate(filepath.Join(withoutLines, "crawl", name), 0))
	}
	python, stand := filepath.Join(venv, "bin", "python"), ""
	if exec.Command(python, "-c", "import pyspark").Run() != nil {
		stand = must.Get(filepath.Abs("testdata/spark"))(t)
	}
	run := 0
	for _, b := range resultsBlock.FindAllStringSubmatch(string(must.Get(os.ReadFile("../docs/results.md"))(t)), -1) {
		want := []string(nil)
		for has, w := range resultsWant {
			if strings.Contains(b[2], has) {
				want = append(want, w...)
				run++
			}
		}
		if want == nil {
			t.Errorf("the test does not know what this prints:\n%s", b[2])
		}
		if guessed.MatchString(b[2]) {
			t.Errorf("this fails if the file is empty; name the columns with read_json:\n%s", b[2])
		}
		if (b[1] == "sql" || soakOnly.MatchString(b[2])) && !testtier.Soak() {
			continue
		}
		out := []byte(nil)
		for _, dir := range []string{withoutLines, home} {
			if dir == withoutLines && b[1] != "sql" {
				continue
			}
			cmd := exec.Command(python, "-c", b[2])
			if b[1] == "sql" {
				cmd = exec.Command(python, "-c", runQueries)
				cmd.Stdin = strings.NewReader(strings.TrimRight(b[2], ";\n"))
			}
			cmd.Dir, cmd.Env = dir, append(os.Environ(), "PYTHONPATH="+stand,
				"PATH="+filepath.Dir(python)+":"+os.Getenv("PATH")) // as if the environment is active
			var err error
			if out, err = cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s\n%s", err, b[2], out)
			}
		}
		for _, w := range want {
			if !regexp.MustCompile(w).Match(out) {
				t.Errorf("no %s in the output of\n%s\n%s", w, b[2], out)
			}
		}
	}
	if run != len(resultsWant) {
		t.Errorf("%d programs and queries were found, want %d", run, len(resultsWant))
	}
}
