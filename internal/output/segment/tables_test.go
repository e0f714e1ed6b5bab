package segment

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// parquetFiles returns the Parquet files below a folder, by their names below /c.
func parquetFiles(fsys disk.FS, dir string, found map[string][]byte) error {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		name := dir + "/" + e.Name()
		if e.IsDir() {
			err = errors.Join(err, parquetFiles(fsys, name, found))
			continue
		}
		b, bad := disk.ReadFile(fsys, name, 1<<20)
		found[strings.TrimPrefix(name, "/c/")] = b
		err = errors.Join(err, bad)
	}
	return err
}

// judgeTables checks that the tables in cc-index have the rows of the committed segments and no others: those of the
// index against index.cdxj, those of the logs by their number.
func judgeTables(fsys disk.FS, done []string) error {
	have := map[string][]byte{}
	if err := parquetFiles(fsys, "/c/cc-index", have); err != nil {
		return err
	}
	lines, rows := map[string]int{}, map[string]int64{}
	records := map[string]bool{}
	for _, s := range done {
		dir := "/c/crawl-data/web/segments/" + s
		b, err := disk.ReadFile(fsys, dir+"/manifest.json", 1<<20)
		var m struct {
			Files []struct {
				Name  string
				Lines int
			}
			Tables []struct {
				Name, SHA256 string
				Bytes, Rows  int64
			}
		}
		index, bad := disk.ReadFile(fsys, dir+"/index.cdxj", 1<<20)
		if err = errors.Join(err, bad, json.Unmarshal(b, &m)); err != nil {
			return err
		}
		for line := range strings.Lines(string(index)) {
			_, object, _ := strings.Cut(line, "{")
			var l struct{ URL, Filename, Offset string }
			if err := json.Unmarshal([]byte("{"+object), &l); err != nil {
				return err
			}
			records[fmt.Sprintf("%s %s@%s in %s", l.URL, l.Filename, l.Offset, s)] = true
		}
		for _, f := range m.Files {
			lines[path.Dir(f.Name)] += f.Lines
		}
		for _, t := range m.Tables {
			b := have[t.Name]
			if int64(len(b)) != t.Bytes || fmt.Sprintf("%x", sha256.Sum256(b)) != t.SHA256 {
				return fmt.Errorf("%s has %d bytes, the manifest says %+v", t.Name, len(b), t)
			}
			delete(have, t.Name)
			_, table, _ := strings.Cut(path.Dir(t.Name), "cc-index/table/")
			table, _, _ = strings.Cut(table, "/crawl=web")
			rows[table] += t.Rows
			n, err := readTable(b, t.Name, s, records)
			if err != nil || n != t.Rows {
				return fmt.Errorf("%s has %d rows, want %d, %w", t.Name, n, t.Rows, err)
			}
		}
	}
	for name := range have {
		return fmt.Errorf("no manifest has %s", name)
	}
	for r := range records {
		return fmt.Errorf("no table has %s", r)
	}
	if rows["orbweaver/log"] != int64(lines["logs"]) || rows["orbweaver/links"] != 2*int64(lines["links"]) {
		return fmt.Errorf("%v rows, %v lines", rows, lines)
	}
	return nil
}

// readTable reads a table, and removes what its rows tell from records. It returns how many rows the table has.
func readTable(b []byte, name, segment string, records map[string]bool) (n int64, err error) {
	if !strings.HasPrefix(name, "cc-index/table/cc-main/") {
		f, err := parquet.OpenFile(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return 0, err
		}
		return f.NumRows(), nil
	}
	type row struct {
		URL     string `parquet:"url"`
		File    string `parquet:"warc_filename"`
		Offset  int32  `parquet:"warc_record_offset"`
		Segment string `parquet:"warc_segment"`
	}
	all, err := parquet.Read[row](bytes.NewReader(b), int64(len(b)))
	for _, r := range all {
		key := fmt.Sprintf("%s %s@%d in %s", r.URL, r.File, r.Offset, r.Segment)
		subset := path.Base(path.Dir(r.File))
		if !records[key] || r.Segment != segment || path.Base(path.Dir(name)) != "subset="+subset {
			err = errors.Join(err, fmt.Errorf("the row %s is in the wrong place, or there twice", key))
		}
		delete(records, key)
	}
	return int64(len(all)), err
}

// TestTables: a segment gets tables of its index and its logs, if it is told to.
func TestTables(t *testing.T) {
	for _, kind := range TableKinds() {
		mem := testdisk.NewMem()
		archive(t, mem)
		c := committer(mem)
		for _, name := range must.Get(c.Waiting())(t) {
			c.Tables = AllTables // as if a kill had left tables of a commit
			_, _, err := c.Commit(context.Background(), name)
			must.Do(t, err)
			must.Do(t, mem.Remove(c.path(name)+"/_SUCCESS"))
		}
		c.Tables = kind
		for _, name := range must.Get(c.Waiting())(t) {
			_, _, err := c.Commit(context.Background(), name)
			must.Do(t, err)
		}
		have := map[string][]byte{}
		must.Do(t, parquetFiles(mem, "/c/cc-index", have))
		index := 0
		for name := range have {
			if strings.HasPrefix(name, "cc-index/table/cc-main/warc/crawl=web/subset=") {
				index++
			}
		}
		if (index >= 6) != (kind != NoTables) || (len(have) > index) != (kind == AllTables) {
			t.Errorf("%s: %d files, %d of the index", kind, len(have), index)
		}
		if kind == AllTables {
			must.Do(t, judgeTables(mem, segmentsOf(t, mem)))
		}
	}
}

// TestForeignTables refuses manifests that name tables elsewhere, or of another segment.
func TestForeignTables(t *testing.T) {
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/s", 0o755))
	const table = "cc-index/table/orbweaver/log/crawl=web/"
	for name, ok := range map[string]bool{
		table + "part-00000-here.c000.gz.parquet": true, table + "part-00000-there.c000.gz.parquet": false,
		"cc-index/../part-00000-here.c000.gz.parquet": false, "state/part-00000-here.c000.gz.parquet": false,
		table + "here": false, "/" + table + "part-00000-here.c000.gz.parquet": false,
	} {
		must.Do(t, disk.WriteFile(mem, "/s/manifest.json", fmt.Appendf(nil,
			`{"format":"orbweaver-segment-1","segment":"here","tables":[{"name":%q}]}`, name)))
		if _, err := ReadManifest(mem, "/s"); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
