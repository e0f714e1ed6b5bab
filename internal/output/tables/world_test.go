package tables

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

var began = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// exchange returns one of a crawl. head is the status and header without the line end of the last line.
func exchange(url, head, body string, fields ...warc.Field) *warc.Exchange {
	head = strings.ReplaceAll("HTTP/1.1 "+head, "\n", "\r\n") + "\r\n\r\n"
	return &warc.Exchange{URL: url, Began: began, Request: []byte("GET / HTTP/1.1\r\n\r\n"),
		Response: warc.Bytes(head + body), HTTP: true, HeadLen: len(head), Metadata: fields}
}

func via(hops, from string) []warc.Field {
	return []warc.Field{{Name: warc.FieldVia, Value: from}, {Name: warc.FieldHops, Value: hops}}
}

// archive writes the archive of a crawl with its index to dir.
func archive(t testing.TB, fsys disk.FS, dir string, xs ...*warc.Exchange) {
	t.Helper()
	archiveAs(t, warc.Config{FS: fsys, Dir: dir}, xs...)
}

func archiveAs(t testing.TB, cfg warc.Config, xs ...*warc.Exchange) {
	t.Helper()
	w, _, err := warc.Open(cfg)
	must.Do(t, err)
	for _, x := range xs {
		must.Get(w.Write(x))(t)
	}
	must.Do(t, w.Close())
	must.Do(t, warc.BuildIndex(cfg.FS, cfg.Dir))
}

// every has every kind of capture.
func every() []*warc.Exchange {
	const home = "http://www.shop.co.uk/"
	robots := exchange("http://www.shop.co.uk/robots.txt", "200 OK\nContent-Type: text/plain", "User-agent: *\n",
		via("P", home)...)
	robots.Robots = true
	page := exchange("http://www.shop.co.uk/page?a=b", "200 OK\nContent-Type: text/html; charset=utf-8",
		"<title>Page</title>", append(via("L", home), warc.Field{Name: warc.FieldNear, Value: home},
			warc.Field{Name: warc.FieldLanguages, Value: "eng,deu"},
			warc.Field{Name: warc.FieldCategory, Value: "sports"})...)
	page.PayloadType, page.Truncated = "text/html", "length"
	unchanged := exchange("http://www.shop.co.uk/old", "304 Not Modified", "", via("LL", home)...)
	unchanged.NotModified = &warc.Original{URL: "http://www.shop.co.uk/old", Date: began}
	raw := exchange("http://www.shop.co.uk/raw", "", "no HTTP", via("L", home)...)
	raw.HTTP, raw.HeadLen, raw.Response = false, 0, warc.Bytes("no HTTP")
	return []*warc.Exchange{
		robots, exchange(home, "200 OK\nContent-Type: text/html", "home", warc.Field{Name: "seed"}), page,
		exchange("https://blog.example:8443/copy", "200 OK\nContent-Type: text/html", "home", via("LR", home)...),
		exchange("http://www.shop.co.uk/moved", "301 Moved\nLocation: /page?a=b", "", via("L", home)...),
		exchange("http://www.shop.co.uk/missing", "404 Not Found\nContent-Type: text/html", "no", via("LE", home)...),
		exchange("http://www.shop.co.uk/partial", "206 Partial\nContent-Type: text/html", "pa", via("L", home)...),
		exchange("http://www.shop.co.uk/robots.txt?", "200 OK", "a page", via("L", home)...),
		unchanged, raw,
	}
}

// config is that of the tables of the crawl directory /c.
func config(fsys disk.FS, dirs ...string) Config {
	cfg := Config{FS: fsys, Out: "/out", Crawl: "2026-05"}
	for _, dir := range dirs {
		cfg.Dirs = append(cfg.Dirs, DirOf(warc.Place{Dir: dir}))
	}
	return cfg
}

// files returns the files below dir, by name.
func files(t testing.TB, fsys disk.FS, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return all
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			for k, v := range files(t, fsys, name) {
				all[path.Join(e.Name(), k)] = v
			}
			continue
		}
		all[e.Name()] = must.Get(disk.ReadFile(fsys, name, 1<<30))(t)
	}
	return all
}

// A read row has the values of a row as text; "null" is one. It has the subset, too.
type readRow map[string]string

var fileName = regexp.MustCompile(`subset=(\w+)/part-\d{5}-[0-9a-f-]{36}\.c000\.gz\.parquet$`)

// rows reads the table of the index in out, in the order of subsets, files and rows. It fails the test unless each file
// is in order.
func rows(t testing.TB, fsys disk.FS, out string) (all []readRow) {
	t.Helper()
	found := files(t, fsys, filepath.Join(out, indexPath))
	names := []string{}
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	before, last := "", ""
	for _, name := range names {
		subset := fileName.FindStringSubmatch(name)
		if subset == nil {
			t.Fatalf("the file %s", name)
		}
		if path.Dir(name) != before {
			before, last = path.Dir(name), ""
		}
		f := must.Get(parquet.OpenFile(bytes.NewReader(found[name]), int64(len(found[name]))))(t)
		r := parquet.NewReader(f)
		n := int64(0)
		for ; ; n++ {
			batch := make([]parquet.Row, 1)
			if k, _ := r.ReadRows(batch); k == 0 {
				break
			}
			row := readRow{"subset": subset[1]}
			for i, v := range batch[0] {
				if row[indexColumns[i].name] = v.String(); v.IsNull() {
					row[indexColumns[i].name] = "null"
				}
			}
			if row["url_surtkey"] < last {
				t.Errorf("%s: %s after %s", name, row["url_surtkey"], last)
			}
			last = row["url_surtkey"]
			all = append(all, row)
		}
		if want := footerOf(t, found[name]).rows; n != want {
			t.Errorf("%s: %d rows can be read, the footer says %d", name, n, want)
		}
	}
	return all
}

// write writes tables, and returns the rows.
func write(t testing.TB, cfg Config) (Result, []readRow) {
	t.Helper()
	res, err := Write(context.Background(), cfg)
	must.Do(t, err)
	all := rows(t, cfg.FS, cfg.Out)
	if n := res.Tables[0].Rows; n != int64(len(all)) {
		t.Errorf("%d rows are written, %d are said to be", len(all), n)
	}
	return res, all
}

func byURL(t testing.TB, all []readRow) map[string]readRow {
	t.Helper()
	rows := map[string]readRow{}
	for _, r := range all {
		if rows[r["url"]] != nil {
			t.Errorf("%s has two rows", r["url"])
		}
		rows[r["url"]] = r
	}
	return rows
}

func newMem() *testdisk.Mem { return testdisk.NewMem() }

var errKilled = fmt.Errorf("killed: %w", fs.ErrClosed)
