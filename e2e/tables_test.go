package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// partitions counts the captures of a crawl by its log: by "crawl subset status".
func partitions(t *testing.T, dir, crawl string) map[string]int64 {
	t.Helper()
	f := must.Get(os.Open(filepath.Join(dir, "logs", "crawl.log")))(t)
	defer f.Close()
	counts := map[string]int64{}
	for in := bufio.NewScanner(f); in.Scan(); {
		l := must.Get(report.ReadLine(in.Text()))(t)
		notes := strings.Join(l.Notes, ",")
		subset := "crawldiagnostics"
		switch {
		case l.Code <= 0:
			continue // no response
		case strings.HasSuffix(l.Hops, "P"):
			subset = "robotstxt"
		case l.Code == 200 && !strings.Contains(notes, "duplicate:"):
			subset = "warc"
		}
		counts[fmt.Sprintf("%s %s %d", crawl, subset, l.Code)]++
	}
	return counts
}

// The programs count the captures of a table by its partitions.
const countInDuckDB = `import duckdb, sys
print(*["%s %s %s %s" % row for row in duckdb.sql("""SELECT crawl, subset, fetch_status, count(*)
FROM read_parquet('%s/*/*/*.parquet', hive_partitioning = true) GROUP BY ALL""" % sys.argv[1]).fetchall()], sep="\n")`

const countInSpark = `import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
table = spark.read.option("basePath", sys.argv[1]).parquet(sys.argv[1] + "/crawl=*")
assert dict(table.dtypes)["fetch_status"] == "smallint" and dict(table.dtypes)["fetch_time"] == "timestamp"
for row in table.groupBy("crawl", "subset", "fetch_status").count().collect():
    print(*row)`

const countInIceberg = `import collections, glob, sys, tempfile
import pyarrow.parquet
from pyiceberg.catalog.sql import SqlCatalog
folder = tempfile.mkdtemp()
catalog = SqlCatalog("soak", uri="sqlite:///" + folder + "/catalog.db", warehouse="file://" + folder)
catalog.create_namespace("ccindex")
counts = collections.Counter()
for crawl in glob.glob(sys.argv[1] + "/crawl=*"):
    for subset in glob.glob(crawl + "/subset=*"):
        files = glob.glob(subset + "/*.parquet")
        name, part = crawl.split("crawl=")[1], subset.split("subset=")[1]
        table = catalog.create_table("ccindex." + name + part, schema=pyarrow.parquet.read_schema(files[0]))
        table.add_files(files)
        for status in table.scan().to_arrow()["fetch_status"].to_pylist():
            counts[name, part, status] += 1
for key, n in counts.items():
    print(*key, n)`

// The crawl log, the index and the tables of two crawls agree. The command itself counts them and, in the soak, so do
// DuckDB, Spark and Iceberg.
func TestTablesAgree(t *testing.T) {
	weighs(t, 1)
	site := t.TempDir()
	for name, text := range map[string]string{
		"index.html": `<a href=1.html>first</a> <a href=copy.html>copy</a> <a href=missing.html>missing</a>
			<a href=sub>moved</a> <a href=empty.html>empty</a>`, "1.html": "one", "copy.html": "one",
		"sub/index.html": "sub", "empty.html": "", "robots.txt": "User-agent: *\nDisallow: /x\n",
	} {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(site, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(site, name), []byte(text), 0o644))
	}
	web := serve(t, testweb.Config{Folders: []testweb.Folder{{Host: "example.org", Dir: site}}})
	home := t.TempDir()
	out, want := filepath.Join(home, "tables"), map[string]int64{}
	for _, name := range []string{"first", "second"} {
		dir := filepath.Join(home, name)
		crawl(context.Background(), t, flags(t, web, dir, "--delay", "0s", "https://example.org/",
			"https://example.org/"+name)...).must(t, 0)
		counts := partitions(t, dir, name)
		maps.Copy(want, counts)
		r := crawl(context.Background(), t, "tables", "--json", "--out", out, dir)
		r.must(t, 0)
		var made struct {
			Tables []struct {
				Rows    int64
				Subsets map[string]int64 `json:"rows_by_subset"`
			}
		}
		must.Do(t, json.Unmarshal([]byte(r.stdout), &made))
		bySubset := map[string]int64{"warc": 0, "crawldiagnostics": 0, "robotstxt": 0}
		for key, n := range counts {
			bySubset[strings.Fields(key)[1]] += n
		}
		index := must.Get(os.ReadFile(filepath.Join(dir, "indexes", "index.cdxj")))(t)
		if got := made.Tables[0]; !maps.Equal(got.Subsets, bySubset) ||
			got.Rows != int64(strings.Count(string(index), "\n")) {
			t.Errorf("%s: the table has %+v, crawl.log %v, the index\n%s", name, got, bySubset, index)
		}
	}
	if len(want) < 8 {
		t.Errorf("the crawls have too few kinds of captures: %v", want)
	}
	if !testtier.Soak() {
		return
	}
	for engine, program := range map[string]string{
		"DuckDB": countInDuckDB, "Spark": countInSpark, "Iceberg": countInIceberg,
	} {
		got := map[string]int64{}
		printed := foreign(t, filepath.Join(venv(t), "bin", "python"), "-W", "ignore", "-c", program,
			filepath.Join(out, "cc-index/table/cc-main/warc"))
		for line := range strings.Lines(printed) {
			var key [3]string
			var n int64
			if k, _ := fmt.Sscan(line, &key[0], &key[1], &key[2], &n); k == 4 {
				got[strings.Join(key[:], " ")] = n
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s counts %v, want %v\n%s", engine, got, want, printed)
		}
	}
}
