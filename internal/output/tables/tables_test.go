package tables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// The footer of a file, read without the library that has written it, has the columns of Common Crawl and ours, the
// bounds and the page index of each, and the sort key.
func TestSchema(t *testing.T) {
	var want []string
	for line := range strings.Lines(string(must.Get(os.ReadFile("testdata/schema.txt"))(t))) {
		if !strings.HasPrefix(line, "#") {
			want = append(want, strings.TrimSpace(line))
		}
	}
	mem := newMem()
	archive(t, mem, "/c", every()...)
	write(t, config(mem, "/c"))
	found := files(t, mem, "/out/"+indexPath+"/crawl=2026-05")
	if len(found) != 3 {
		t.Errorf("%d files, want one of each subset: %q", len(found), slices.Collect(maps.Keys(found)))
	}
	for name, file := range found {
		f := footerOf(t, file)
		if !slices.Equal(f.schema, want) {
			t.Errorf("%s has the columns\n%s\nwant\n%s", name, strings.Join(f.schema, "\n"),
				strings.Join(want, "\n"))
		}
		for g, group := range f.groups {
			if by := group[4]; !reflect.DeepEqual(by, []any{map[int64]any{1: int64(0), 2: false, 3: false}}) {
				t.Errorf("%s: sorted by %v, want the first column, ascending", name, by)
			}
			for i := range want {
				meta, indexed := f.column(g, i)
				stats, ok := meta[12].(map[int64]any)
				if !indexed || !ok || meta[4] != int64(2) {
					t.Errorf("%s, %s: page index %t, statistics %v, compression %v, want gzip (2) and all", name,
						want[i], indexed, stats, meta[4])
				}
				if i == 0 && (stats[5] == nil || stats[6] == nil) {
					t.Errorf("%s: the sort key has no bounds: %v", name, stats)
				}
			}
		}
	}
}

// Each kind of capture has its subset, its status and its columns.
func TestRows(t *testing.T) {
	mem := newMem()
	archive(t, mem, "/data/agent-1", every()...)
	res, all := write(t, config(mem, "/data/agent-1"))
	want := map[string]int64{"warc": 3, "crawldiagnostics": 6, "robotstxt": 1}
	if got := res.Tables[0].Subsets; !maps.Equal(got, want) {
		t.Errorf("rows by subset: %v, want %v", got, want)
	}
	rows := byURL(t, all)
	for url, want := range map[string]string{
		"http://www.shop.co.uk/robots.txt": "subset=robotstxt fetch_status=200 hops=P depth=0",
		"http://www.shop.co.uk/": "subset=warc fetch_status=200 hops= depth=0 referrer=null " +
			"url_path=/ url_query=null " +
			"url_port=null url_protocol=http url_host_tld=uk url_host_2nd_last_part=co url_host_3rd_last_part=shop " +
			"url_host_4th_last_part=www url_host_5th_last_part=null " +
			"url_host_registry_suffix=co.uk " +
			"url_host_registered_domain=shop.co.uk url_host_name_reversed=uk.co.shop.www url_surtkey=uk,co,shop)/ " +
			"duplicate_of=null warc_segment=agent-1",
		"http://www.shop.co.uk/page?a=b": "subset=warc fetch_status=200 hops=L depth=1 " +
			"referrer=http://www.shop.co.uk/ " +
			"near_duplicate_of=http://www.shop.co.uk/ category=sports content_languages=eng,deu " +
			"content_charset=UTF-8 " +
			"content_mime_type=text/html content_mime_detected=text/html content_truncated=length " +
			"url_query=a=b",
		"https://blog.example:8443/copy": "subset=crawldiagnostics fetch_status=200 " +
			"content_mime_type=warc/revisit " +
			"hops=LR depth=1 duplicate_of=http://www.shop.co.uk/ url_port=8443 " +
			"url_host_registry_suffix=null",
		"http://www.shop.co.uk/moved": "subset=crawldiagnostics fetch_status=301 " +
			"fetch_redirect=http://www.shop.co.uk/page?a=b",
		"http://www.shop.co.uk/missing":     "subset=crawldiagnostics fetch_status=404 hops=LE depth=1",
		"http://www.shop.co.uk/partial":     "subset=crawldiagnostics fetch_status=206",
		"http://www.shop.co.uk/robots.txt?": "subset=warc fetch_status=200 url_query=",
		"http://www.shop.co.uk/old": "subset=crawldiagnostics fetch_status=304 content_digest=null " +
			"duplicate_of=http://www.shop.co.uk/old hops=LL depth=2",
		"http://www.shop.co.uk/raw": "subset=crawldiagnostics fetch_status=-1 hops=L",
	} {
		r := rows[url]
		for _, w := range strings.Fields(want) {
			if name, value, _ := strings.Cut(w, "="); r[name] != value {
				t.Errorf("%s: %s is %q, want %q", url, name, r[name], value)
			}
		}
		if file := r["warc_filename"]; !regexp.MustCompile(`^/data/agent-1/archive/.*\.warc\.gz$`).MatchString(file) {
			t.Errorf("%s: warc_filename is %q", url, file)
		}
	}
}

// With segments, the folder of a record is its subset, and the rows say where its file is.
func TestSegments(t *testing.T) {
	mem := newMem()
	archive(t, mem, "/plain", every()...)
	archiveAs(t, warc.Config{FS: mem, Dir: "/c", Segments: warc.Segments{Crawl: "big", Bytes: 1 << 30}}, every()...)
	_, all := write(t, config(mem, "/c"))
	cfg := config(mem, "/plain")
	cfg.Out = "/out2"
	_, plain := write(t, cfg)
	want := byURL(t, plain)
	for url, r := range byURL(t, all) {
		if _, err := mem.Stat(r["warc_filename"]); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		path := "/c/crawl-data/big/segments/" + r["warc_segment"] + "/" + r["subset"] + "/"
		if !strings.HasPrefix(r["warc_filename"], path) || r["subset"] != want[url]["subset"] {
			t.Errorf("%s is in %s, subset %s; want %s, subset %s", url, r["warc_filename"], r["subset"], path,
				want[url]["subset"])
		}
	}
	if len(all) != len(plain) {
		t.Errorf("%d rows with segments, %d without", len(all), len(plain))
	}
}

// Several directories become one table in order, in files of the size that is asked for, and twice the same bytes.
func TestFiles(t *testing.T) {
	mem := newMem()
	var dirs []string
	for a := range 3 {
		dir := fmt.Sprintf("/agent-%d", a)
		dirs = append(dirs, dir)
		xs := every()[:1]
		for i := range 200 {
			xs = append(xs, exchange(fmt.Sprintf("http://h%d.example/%d", i%20, i*3+a), "200 OK", fmt.Sprint(a, i),
				via("L", "http://h.example/")...))
		}
		archive(t, mem, dir, xs...)
	}
	cfg := config(mem, dirs...)
	cfg.FileBytes, cfg.GroupBytes = 30_000, 10_000
	res, all := write(t, cfg)
	if len(all) != 3*200+3 || res.Tables[0].Files < 4 {
		t.Errorf("%d rows in %d files, want %d in several", len(all), res.Tables[0].Files, 3*200+3)
	}
	first := files(t, mem, "/out")
	if _, err := Write(context.Background(), cfg); !errors.Is(err, ErrThere) {
		t.Errorf("a second time: %v, want ErrThere", err)
	}
	cfg.Overwrite = true
	write(t, cfg)
	if !reflect.DeepEqual(files(t, mem, "/out"), first) {
		t.Error("the same index lines gave other files")
	}
	cfg.Crawl, cfg.Dirs = "2026-06", cfg.Dirs[:1]
	must.Get(Write(context.Background(), cfg))(t)
	if both := rows(t, mem, "/out"); len(both) != 4*200+4 {
		t.Errorf("%d rows of two crawls, want %d", len(both), 4*200+4)
	}
}

// The index of an older version lacks columns. They come from the archive, unless the WARC file is missing.
func TestOlderIndex(t *testing.T) {
	mem := newMem()
	archive(t, mem, "/c", every()...)
	_, want := write(t, config(mem, "/c"))
	lines := must.Get(disk.ReadFile(mem, "/c/indexes/index.cdxj", 1<<20))(t)
	old := regexp.MustCompile(`, "(hops|via|fetched-status|duplicate-of|near-duplicate-of|category)": "[^"]*"`).
		ReplaceAll(lines, nil)
	must.Do(t, disk.WriteFile(mem, "/c/indexes/index.cdxj", old))
	cfg := config(mem, "/c")
	cfg.Overwrite = true
	res, got := write(t, cfg)
	if !reflect.DeepEqual(got, want) || res.Renewed != 1 {
		t.Errorf("%d files were read; the rows are\n%v\nwant\n%v", res.Renewed, got, want)
	}
	entries := must.Get(mem.ReadDir("/c/archive"))(t)
	must.Do(t, mem.Remove("/c/archive/"+entries[0].Name()))
	res, got = write(t, cfg)
	if len(got) != len(want) || res.Renewed != 0 {
		t.Errorf("without the archive: %d rows, %d files read, want %d and none", len(got), res.Renewed, len(want))
	}
	if r := byURL(t, got)["http://www.shop.co.uk/"]; r["depth"] != "null" || r["hops"] != "null" {
		t.Errorf("nothing tells the path, but depth is %s and hops %s", r["depth"], r["hops"])
	}
}

// Write counts and names the lines that cannot be rows.
func TestHostileIndex(t *testing.T) {
	const good = `example,a)/ 20260504030201 {"url": "http://a.example/", "status": "200", "length": "5", ` +
		`"offset": "1", "filename": "a.warc.gz"}`
	other := func(old, with string) string { return strings.ReplaceAll(good, old, with) }
	mem := newMem()
	must.Do(t, mem.MkdirAll("/c/archive", 0o777))
	must.Do(t, mem.MkdirAll("/c/indexes", 0o777))
	must.Do(t, disk.WriteFile(mem, "/c/indexes/index.cdxj", []byte(strings.Join([]string{
		other(`"offset": "1"`, `"offset": "2147483648"`),
		other(`"offset": "1"`, `"offset": "-1"`),
		other(`"offset": "1"`, `"offset": "x"`),
		other(`"length": "5"`, `"length": "99999999999999999999"`),
		good,
		other(`"200"`, `"99999"`), // the same record: it is there once
		strings.ReplaceAll(other(`"200"`, `"banana"`), `"offset": "1"`, `"offset": "7"`),
		other("20260504030201", "20269904030201"),
		"example,b)/\xff" + good[len("example,a)/"):],
		"example,c)/ 20260504030201 {}",
		"example,c)/ 20260504030201 [",
		"example,c)/ 20260504030201 " + strings.Repeat("x", maxLine),
		"\x00\x01garbage",
		good[:30],
		"",
		other("example,a)/", "example,d)/"),
		good,
		"example,e)/ 20260504030201 " + good[27:60],
	}, "\n"))))
	cfg := config(mem, "/c")
	res, all := write(t, cfg)
	if len(all) != 3 || all[0]["fetch_status"] != "-1" {
		t.Errorf("rows: %v", all)
	}
	got := map[string]int64{}
	for _, l := range res.LeftOut {
		got[l.Reason] = l.Lines
		if l.First == "" {
			t.Errorf("nothing names the first line of %+v", l)
		}
	}
	want := map[string]int64{errOffset.Error(): 2, errTime.Error(): 1, errUTF8.Error(): 1, errLong.Error(): 1,
		errOrder.Error(): 1, errCut.Error(): 1, "not a line of a CDXJ index": 6}
	if !maps.Equal(got, want) {
		t.Errorf("left out: %v, want %v", got, want)
	}
}

// After a kill at any moment the tables are as before or complete, and the next call makes them.
func TestWholeOrAbsent(t *testing.T) {
	base := newMem()
	archive(t, base, "/c", every()...)
	counted := testdisk.NewFaulty(base.Clone(), nil)
	before, _ := counted.Calls()
	_, want := write(t, config(counted, "/c"))
	calls, _ := counted.Calls()
	for n := int64(1); n <= calls-before; n++ {
		mem := base.Clone()
		faulty := testdisk.NewFaulty(mem, testdisk.FailFrom(n, errKilled))
		_, err := Write(context.Background(), config(faulty, "/c"))
		left := rows(t, mem, "/out")
		if len(left) != 0 && len(left) != len(want) {
			t.Fatalf("killed at operation %d: %d rows are left, want none or %d", n, len(left), len(want))
		}
		if err == nil && len(left) == 0 {
			t.Fatalf("killed at operation %d: no error and no rows", n)
		}
		again := config(mem, "/c")
		again.Overwrite = len(left) > 0
		if _, all := write(t, again); !reflect.DeepEqual(all, want) {
			t.Fatalf("after a kill at operation %d: %d rows, want %d", n, len(all), len(want))
		}
		for name := range files(t, mem, "/out") {
			if strings.Contains(name, "unfinished") {
				t.Fatalf("after a kill at operation %d: %s is left", n, name)
			}
		}
	}
}

// An empty archive has no tables, and a name that leads elsewhere is refused.
func TestRefused(t *testing.T) {
	mem := newMem()
	archive(t, mem, "/c")
	if _, err := Write(context.Background(), config(mem, "/c")); !errors.Is(err, ErrNothing) {
		t.Errorf("an empty archive: %v", err)
	}
	if _, err := mem.Stat("/out"); err == nil {
		t.Error("an empty folder is left")
	}
	for _, name := range []string{"", ".", "..", "../x", "a/b", "a=b", "ü", strings.Repeat("x", 101)} {
		cfg := config(mem, "/c")
		cfg.Crawl = name
		if _, err := Write(context.Background(), cfg); !errors.Is(err, ErrName) {
			t.Errorf("the name %q: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	archive(t, mem, "/d", every()...)
	if _, err := Write(ctx, config(mem, "/d")); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// FuzzIndex gives any bytes as an index: each file that is written can be read, in order.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`example,a)/ 20260504030201 {"url": "http://a.example/", "status": "200", "length": "5", ` +
		`"offset": "1", "filename": "a.warc.gz", "hops": "LP", "fetched-status": "7"}` + "\n"))
	f.Add([]byte(`dns:x 20260504030201 {"url": "dns:x", "offset": "1", "filename": "../a"}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		mem := newMem()
		must.Do(t, mem.MkdirAll("/c/archive", 0o777))
		must.Do(t, mem.MkdirAll("/c/indexes", 0o777))
		must.Do(t, disk.WriteFile(mem, "/c/indexes/index.cdxj", b))
		if _, err := Write(context.Background(), config(mem, "/c")); err != nil && !errors.Is(err, ErrNothing) {
			t.Fatal(err)
		}
		rows(t, mem, "/out")
	})
}
