package tables

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// table reads the only file of a table as text: a line for each row, with the values in the order of the leaves.
func table(t testing.TB, fsys disk.FS, name string) (schema, rows []string) {
	t.Helper()
	found := files(t, fsys, path.Join("/out", name))
	if len(found) != 1 {
		t.Fatalf("%s has %d files, want 1", name, len(found))
	}
	for _, file := range found {
		f := footerOf(t, file)
		r := parquet.NewReader(must.Get(parquet.OpenFile(bytes.NewReader(file), int64(len(file))))(t))
		for {
			batch := make([]parquet.Row, 1)
			if n, _ := r.ReadRows(batch); n == 0 {
				break
			}
			var cells []string
			for _, v := range batch[0] {
				if v.IsNull() {
					cells = append(cells, "-")
				} else {
					cells = append(cells, v.String())
				}
			}
			rows = append(rows, strings.Join(cells, "|"))
		}
		if f.rows != int64(len(rows)) {
			t.Errorf("%s: %d rows, the footer says %d", name, len(rows), f.rows)
		}
		schema = f.schema
	}
	return schema, rows
}

// The logs of a crawl become tables with typed columns. What is damaged is counted.
func TestLogs(t *testing.T) {
	mem := newMem()
	archive(t, mem, "/c", every()...)
	at := time.Date(2026, 5, 4, 3, 2, 1, 5e6, time.UTC)
	var log []byte
	for _, l := range []report.Line{
		{Time: at, Code: 200, Size: 12, URL: "http://a.example/", MIME: "text/html", Began: at.Add(-time.Second),
			Took: 900 * time.Millisecond, HasDigest: true, Seed: "a.example",
			Notes: []string{"3t", "duplicate:digest"}},
		{Time: at, Code: -2, Size: -1, URL: "http://b.example:81/x", Hops: "LE", Via: "http://a.example/",
			Notes: []string{"error:connect"}},
		{Time: at, Code: 404, URL: "http://a.example/sitemap.xml", Hops: "M", Notes: []string{"sitemap-guess"}},
	} {
		log = l.AppendTo(log)
	}
	log = append(log, "damaged\n\xff\n"...)
	log = append(log, bytes.Repeat([]byte("x"), maxLogLine+1)...)
	log = append(log, "\nbeing writ"...)
	for name, text := range map[string]string{
		"logs/crawl.log": string(log),
		"reports/hosts.csv": "host,pages,files,urls,bytes,errors,robots_denied,duplicates,robots_txt\n" +
			"a.example,1,2,3,4,5,6,7,8\n'=b.example,0,0,1,0,1,0,0,0\nc.example,1\nd.example,x,2,3,4,5,6,7,8\n\"\n",
		"links/a.jsonl.open": `{"url":"http://a.example/","time":"2026-01-02T15:04:05.000Z","status":200,"links":[` +
			`["http://b.example:81/x","a@href","nofollow","One"],["http://a.example/1","img@src"]]}` + "\ndamaged\n",
	} {
		must.Do(t, mem.MkdirAll(path.Dir("/c/"+name), 0o777))
		must.Do(t, disk.WriteFile(mem, "/c/"+name, []byte(text)))
	}
	res, _ := write(t, config(mem, "/c"))
	for name, want := range map[string][]string{
		"log": {"1777863721005|200|-|12|http://a.example/|a.example||-|text/html|1777863720005|900|" +
			strings.Repeat("A", 32) + "|a.example|c|3t|duplicate:digest",
			"1777863721005|-2|connect|-|http://b.example:81/x|b.example|LE|http://a.example/|-|-|-|-|-|c|error:connect",
			"1777863721005|404|-|0|http://a.example/sitemap.xml|a.example|M|-|-|-|-|-|-|c|sitemap-guess"},
		"failures": {"1777863721005|-2|connect|-|http://b.example:81/x|b.example|LE|http://a.example/|-|-|-|-|-|c|" +
			"error:connect"},
		"links": {"http://a.example/|http://b.example:81/x|a@href|nofollow|One|1767366245000|200|a.example|b.example|c",
			"http://a.example/|http://a.example/1|img@src|-|-|1767366245000|200|a.example|a.example|c"},
		"hosts": {"a.example|1|2|3|4|5|6|7|8|c", "=b.example|0|0|1|0|1|0|0|0|c"},
	} {
		schema, rows := table(t, mem, name)
		if !slices.Equal(rows, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(rows, "\n"), strings.Join(want, "\n"))
		}
		golden := must.Get(os.ReadFile("testdata/" + name + ".txt"))(t)
		if got := strings.Join(schema, "\n") + "\n"; got != string(golden) {
			t.Errorf("the columns of %s are\n%swant\n%s", name, got, golden)
		}
	}
	got := map[string]int64{}
	for _, l := range res.LeftOut {
		got[l.Reason] = l.Lines
	}
	want := map[string]int64{errLogLine.Error(): 3, errHostLine.Error(): 3, errLinkLog.Error(): 1}
	if !maps.Equal(got, want) {
		t.Errorf("left out: %v, want %v", got, want)
	}

	// Another time, the crawl has no link log and no reports: their tables go.
	for _, dir := range []string{"/c/links", "/c/reports"} {
		must.Do(t, mem.RemoveAll(dir))
	}
	cfg := config(mem, "/c")
	cfg.Overwrite = true
	write(t, cfg)
	for name := range files(t, mem, "/out") {
		if strings.HasPrefix(name, "links/") || strings.HasPrefix(name, "hosts/") {
			t.Errorf("%s is left", name)
		}
	}
	if _, rows := table(t, mem, "log"); len(rows) != 3 {
		t.Error(fmt.Sprint("the log has rows ", rows))
	}
}

// A crawl without failures has a table of them without rows, because queries name its files.
func TestNoFailures(t *testing.T) {
	mem := newMem()
	archive(t, mem, "/c")
	l := report.Line{Time: time.UnixMilli(1777863721005), Code: 200, URL: "http://a.example/"}
	logOf(t, mem, string(l.AppendTo(nil)))
	res := must.Get(Write(context.Background(), config(mem, "/c")))(t)
	golden := must.Get(os.ReadFile("testdata/failures.txt"))(t)
	if schema, rows := table(t, mem, "failures"); len(rows) != 0 || strings.Join(schema, "\n")+"\n" != string(golden) {
		t.Errorf("the failures are %q, with the columns %q", rows, schema)
	}
	if i := slices.IndexFunc(res.Tables, func(t Table) bool { return t.Name == "failures" }); i < 0 {
		t.Errorf("the result has the tables %v", res.Tables)
	}
}

// A table of the hosts says which directories it does not cover. No directory is named if none has hosts.
func TestHostsWithout(t *testing.T) {
	mem := newMem()
	for _, dir := range []string{"/c", "/store"} {
		archive(t, mem, dir, every()...)
	}
	out := func(overwrite bool) string {
		cfg := config(mem, "/c", "/store")
		cfg.Overwrite = overwrite
		res := must.Get(Write(t.Context(), cfg))(t)
		var b strings.Builder
		res.Name(func(name string) string { return "s3:/" + name })
		res.Print(&b)
		return b.String()
	}
	if got := out(false); strings.Contains(got, "hosts") {
		t.Errorf("no directory has hosts: %s", got)
	}
	must.Do(t, mem.MkdirAll("/c/reports", 0o777))
	must.Do(t, disk.WriteFile(mem, "/c/reports/hosts.csv", []byte(
		"host,pages,files,urls,bytes,errors,robots_denied,duplicates,robots_txt\na.example,1,2,3,4,5,6,7,8\n")))
	if got := out(true); !strings.Contains(got, "\nhosts     1 row, 1 file (") ||
		!strings.HasSuffix(got, "\n          without those of s3://store: it has no reports/hosts.csv\n") {
		t.Errorf("one directory has hosts: %s", got)
	}
}
