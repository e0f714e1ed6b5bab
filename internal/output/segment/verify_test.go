package segment

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// copied copies a folder.
func copied(t *testing.T, fsys disk.FS, from, to string) {
	t.Helper()
	must.Do(t, fsys.MkdirAll(to, 0o755))
	for _, e := range must.Get(fsys.ReadDir(from))(t) {
		if e.IsDir() {
			copied(t, fsys, from+"/"+e.Name(), to+"/"+e.Name())
			continue
		}
		must.Do(t, disk.WriteFile(fsys, to+"/"+e.Name(), must.Get(disk.ReadFile(fsys, from+"/"+e.Name(), 1<<20))(t)))
	}
}

// TestVerifyWhole finds nothing wrong with whole segments, wherever they have been copied.
func TestVerifyWhole(t *testing.T) {
	mem := testdisk.NewMem()
	archive(t, mem)
	must.Do(t, commitAll(mem))
	names := segmentsOf(t, mem)
	segments := "/c/crawl-data/web/segments/"
	copied(t, mem, "/c/crawl-data", "/copy")
	copied(t, mem, segments+names[0], "/one/"+names[0])
	must.Do(t, mem.MkdirAll(segments+"unfinished/warc", 0o755))
	must.Do(t, mem.MkdirAll("/none/archive", 0o755))
	for dir, want := range map[string]struct {
		n     int
		named bool
	}{
		"/c": {len(names), false}, "/c/crawl-data": {len(names), true}, "/c/crawl-data/web": {len(names), true},
		segments + names[0]: {1, true}, "/copy": {len(names), true}, "/copy/web": {len(names), true},
		"/one/" + names[0]: {1, true}, "/none": {0, false},
	} {
		a := must.Get(Among(mem, []string{dir, "/file"}))(t)
		if len(a.Folders) != want.n || (len(a.Others) == 1) != want.named || (len(a.WARCs) > 0) != want.named {
			t.Errorf("%s: %+v, want %+v", dir, a, want)
		}
		for _, f := range a.Folders {
			if rep := must.Get(Verify(mem, f))(t); rep.Errors+rep.Warnings > 0 || rep.Records == 0 {
				t.Errorf("%+v: %+v", f, rep)
			}
		}
	}
}

// TestVerifyDamage names what does not agree with the manifest.
func TestVerifyDamage(t *testing.T) {
	whole := testdisk.NewMem()
	archive(t, whole)
	must.Do(t, commitAll(whole))
	dir := "/c/crawl-data/web/segments/" + segmentsOf(t, whole)[0]
	m := must.Get(ReadManifest(whole, dir))(t)
	page := must.Get(warc.SegmentFiles(whole, dir))(t)[0]
	edit := func(from, to string) func(*testdisk.Mem) {
		return func(mem *testdisk.Mem) {
			b := string(must.Get(disk.ReadFile(mem, dir+"/manifest.json", 1<<20))(t))
			if !strings.Contains(b, from) {
				t.Errorf("the manifest lacks %q", from)
			}
			must.Do(t, disk.WriteFile(mem, dir+"/manifest.json", []byte(strings.Replace(b, from, to, 1))))
		}
	}
	rewrite := func(name string, change func(string) string) func(*testdisk.Mem) {
		return func(mem *testdisk.Mem) {
			b := must.Get(disk.ReadFile(mem, name, 1<<20))(t)
			must.Do(t, disk.WriteFile(mem, name, []byte(change(string(b)))))
		}
	}
	table := "/c/" + m.Tables[0].Name
	for name, c := range map[string]struct {
		change func(*testdisk.Mem)
		want   string
		errors int64
	}{
		"no _SUCCESS":     {func(m *testdisk.Mem) { must.Do(t, m.Remove(dir+"/_SUCCESS")) }, "not complete", 1},
		"no manifest":     {func(m *testdisk.Mem) { must.Do(t, m.Remove(dir+"/manifest.json")) }, "file is missing", 1},
		"a missing file":  {func(m *testdisk.Mem) { must.Do(t, m.Remove(page.Path)) }, "is missing", 2},
		"a missing table": {func(m *testdisk.Mem) { must.Do(t, m.Remove(table)) }, "is missing", 1},
		"a folder": {func(m *testdisk.Mem) {
			must.Do(t, m.Remove(page.Path))
			must.Do(t, m.Mkdir(page.Path, 0o755))
		}, "is not a file", 2},
		"another byte": {rewrite(table, func(s string) string { return s[:9] + "?" + s[10:] }), "has the SHA-256", 1},
		"a cut file":   {rewrite(page.Path, func(s string) string { return s[:len(s)-20] }), "the manifest says", 3},
		"a line of another record": {rewrite(dir+"/index.cdxj", func(s string) string {
			return strings.Replace(s, `"status": "200"`, `"status": "201"`, 1)
		}), "does not have the lines of the records", 2},
		"no order": {rewrite(dir+"/index.cdxj", func(s string) string {
			first, rest, _ := strings.Cut(s, "\n")
			return rest + first + "\n"
		}), "not in the order", 2},
		"one more file": {func(m *testdisk.Mem) {
			must.Do(t, disk.WriteFile(m, dir+"/warc/more.warc.gz", []byte("x")))
		}, "does not name", 1},
		"records":         {edit(`"records": `, `"records": 1`), "records from", 1},
		"an absurd size":  {edit(`"bytes": `, `"bytes": 9000000`), "bytes and", 1},
		"another segment": {edit(`"segment": "2`, `"segment": "3`), "is not a table of the segment", 1},
		"twice":           {edit(`"name": "warc/`, `"name": "index.cdxj"},{"name": "warc/`), "twice", 1},
	} {
		mem := whole.Clone()
		c.change(mem)
		rep, err := Verify(mem, Folder{dir, "/c"})
		if err != nil || rep.Errors != c.errors || !strings.Contains(fmt.Sprint(rep.Problems), c.want) {
			t.Errorf("%s: %d errors, %v, %q; want %d, %q", name, rep.Errors, err, rep.Problems, c.errors, c.want)
		}
	}
}

// FuzzVerify gives Verify manifests of strangers: it ends without a panic, and reads nothing outside of the folder.
func FuzzVerify(f *testing.F) {
	for _, s := range []string{
		`{"format":"orbweaver-segment-1","segment":"s","files":[{"name":"index.cdxj","bytes":-1,"sha256":"x"}]}`,
		`{"format":"orbweaver-segment-1","segment":"s","bytes":9223372036854775807,"records":-5,
			"files":[{"name":"logs/a.gz","bytes":9223372036854775807,"lines":-3},{"name":"logs/a.gz"}]}`,
		`{"format":"orbweaver-segment-1","segment":"s","files":[{"name":"warc/\u0000/x"}],"logs":[{"log":"","from":-1}]}`,
		`{"format":"orbweaver-segment-1","tables":[{"name":"cc-index/part-0-.c000.gz.parquet"}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, manifest []byte) {
		mem := testdisk.NewMem()
		must.Do(t, mem.MkdirAll("/x/s/logs", 0o755))
		for _, name := range []string{"logs/a.gz", "index.cdxj", SuccessName} {
			must.Do(t, disk.WriteFile(mem, "/x/s/"+name, []byte("text\n")))
		}
		must.Do(t, disk.WriteFile(mem, "/x/s/manifest.json", manifest))
		outside := testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
			if rel, err := filepath.Rel("/x", c.Name); err != nil || !filepath.IsLocal(rel) {
				t.Errorf("reads %s", c.Name)
			}
			return testdisk.Fault{}
		})
		if rep, err := Verify(outside, Folder{"/x/s", "/x"}); err == nil && rep.OK() {
			t.Errorf("nothing is wrong with %s", manifest)
		}
	})
}
