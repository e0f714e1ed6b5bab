package node_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parquet-go/parquet-go"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// inSegments returns how many records of each URL the committed segments have, as their indexes and the records
// themselves tell. Every segment must be committed, with the number of records that its manifest has.
func inSegments(fs disk.FS) (records map[string]int, segments int, err error) {
	const root = "/crawl/crawl-data/web/segments"
	records = map[string]int{}
	dirs, err := fs.ReadDir(root)
	for _, d := range dirs {
		if _, err := fs.Stat(root + "/" + d.Name() + "/_SUCCESS"); err != nil {
			return records, 0, fmt.Errorf("%s is not committed: %w", d.Name(), err)
		}
		var manifest struct{ Records int }
		b, err := disk.ReadFile(fs, root+"/"+d.Name()+"/manifest.json", 1<<20)
		if err = errors.Join(err, json.Unmarshal(b, &manifest)); err != nil {
			return records, 0, err
		}
		index, err := disk.ReadFile(fs, root+"/"+d.Name()+"/index.cdxj", 1<<20)
		if err != nil {
			return records, 0, err
		}
		n := 0
		for line := range strings.Lines(string(index)) {
			_, object, _ := strings.Cut(line, "{")
			var l struct{ URL, Filename, Offset, Length string }
			if err := json.Unmarshal([]byte("{"+object), &l); err != nil {
				return records, 0, err
			}
			if err := isRecord(fs, "/crawl/"+l.Filename, l.Offset, l.Length, l.URL); err != nil {
				return records, 0, fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
			}
			records[l.URL]++
			n++
		}
		if n == 0 && !strings.Contains(d.Name(), "-logs-") || n != manifest.Records {
			return records, 0, fmt.Errorf("%s: %d lines, %d records", d.Name(), n, manifest.Records)
		}
	}
	return records, len(dirs), err
}

// isRecord checks that a file has a record of a URL in a gzip member of its own.
func isRecord(fs disk.FS, name, offset, length, url string) error {
	b, err := disk.ReadFile(fs, name, 1<<20)
	from, bad := strconv.Atoi(offset)
	n, worse := strconv.Atoi(length)
	if err = errors.Join(err, bad, worse); err != nil || from+n > len(b) {
		return fmt.Errorf("%d bytes, %w", len(b), err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b[from : from+n]))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(z)
	if !strings.HasPrefix(string(text), "WARC/1.1\r\n") || !strings.Contains(string(text), "-URI: "+url+"\r\n") {
		return fmt.Errorf("not a record of %s: %.60q, %w", url, text, err)
	}
	return err
}

// logsInSegments checks that the segments have each line of crawl.log and of the link log, once.
func logsInSegments(fs disk.FS) error {
	const root = "/crawl/crawl-data/web/segments"
	left := map[string]int{}
	count := func(name string, n int) error {
		b, err := disk.ReadFile(fs, name, 1<<20)
		if err == nil && strings.HasSuffix(name, ".gz") {
			var z *gzip.Reader
			if z, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
				b, err = io.ReadAll(z)
			}
		}
		for line := range strings.Lines(string(b)) {
			left[line] += n
		}
		return err
	}
	err := count("/crawl/logs/crawl.log", 1)
	links, bad := fs.ReadDir("/crawl/links")
	for _, e := range links {
		bad = errors.Join(bad, count("/crawl/links/"+e.Name(), 1))
	}
	all := len(left)
	dirs, worse := fs.ReadDir(root)
	for _, d := range dirs {
		for _, file := range []string{"logs/crawl.log.gz", "links/" + d.Name() + ".jsonl.gz"} {
			if _, none := fs.Stat(root + "/" + d.Name() + "/" + file); none == nil {
				bad = errors.Join(bad, count(root+"/"+d.Name()+"/"+file, -1))
			}
		}
	}
	for line, n := range left {
		if n != 0 {
			bad = errors.Join(bad, fmt.Errorf("%d too few in the segments: %s", n, line))
		}
	}
	if all < 10 || len(links) == 0 {
		bad = errors.Join(bad, fmt.Errorf("%d lines, %d link logs", all, len(links)))
	}
	return errors.Join(err, bad, worse)
}

// tablesOfSegments checks that the Parquet tables have a row for each record in the segments and for each line of
// crawl.log, and that no file is in no manifest.
func tablesOfSegments(fs disk.FS, records map[string]int) error {
	left, named := map[string]int{}, map[string]bool{}
	for u, n := range records {
		left[u] = n
	}
	log, err := disk.ReadFile(fs, "/crawl/logs/crawl.log", 1<<20)
	for line := range strings.Lines(string(log)) {
		left["log "+strings.Fields(line)[3]]++
	}
	const root = "/crawl/crawl-data/web/segments"
	dirs, bad := fs.ReadDir(root)
	for _, d := range dirs {
		b, worse := disk.ReadFile(fs, root+"/"+d.Name()+"/manifest.json", 1<<20)
		for _, m := range regexp.MustCompile(`"name": "(cc-index/[^"]*)"`).FindAllSubmatch(b, -1) {
			named["/crawl/"+string(m[1])] = true
		}
		bad = errors.Join(bad, worse)
	}
	walk := []string{"/crawl/cc-index"}
	for len(walk) > 0 {
		dir := walk[0]
		walk = walk[1:]
		entries, worse := fs.ReadDir(dir)
		bad = errors.Join(bad, worse)
		for _, e := range entries {
			name := dir + "/" + e.Name()
			if e.IsDir() {
				walk = append(walk, name)
				continue
			}
			b, worse := disk.ReadFile(fs, name, 1<<20)
			if bad = errors.Join(bad, worse); !named[name] {
				bad = errors.Join(bad, fmt.Errorf("%s is in no manifest", name))
			}
			prefix := ""
			if strings.Contains(name, "/orbweaver/log/") {
				prefix = "log "
			} else if !strings.Contains(name, "/cc-main/") {
				continue
			}
			rows, worse := parquet.Read[struct {
				URL string `parquet:"url"`
			}](bytes.NewReader(b), int64(len(b)))
			bad = errors.Join(bad, worse)
			for _, r := range rows {
				left[prefix+r.URL]--
			}
		}
	}
	for u, n := range left {
		if n != 0 {
			bad = errors.Join(bad, fmt.Errorf("%d rows too few in the tables: %s", n, u))
		}
	}
	return errors.Join(err, bad)
}

// TestSegmentsKilled kills a crawl with segments at many operations of the disk, or cuts the power, and goes on. At the
// end each page is in a committed segment, each line of the logs in one of them, and the index of the archive has the
// records of the segments.
func TestSegmentsKilled(t *testing.T) {
	changes := int64(0)
	for n, power := int64(0), false; n == 0 || n < changes; power = !power {
		synctest.Test(t, func(t *testing.T) {
			w, mem := newSmallWeb(t), testdisk.NewMem()
			cfg := w.config(t, mem)
			cfg.Links, cfg.SegmentTables = true, "all"
			cfg.Archive.Segments = warc.Segments{Crawl: "web", Bytes: 12 << 10}
			dead := errors.New("killed")
			faulty := testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
				if n > 0 && c.Change >= n {
					return testdisk.Fault{Err: dead}
				}
				return testdisk.Fault{}
			})
			cfg.FS = faulty
			_, err := life(cfg)
			_, made := faulty.Calls()
			if n == 0 {
				must.Do(t, err)
				changes = made
			} else if err != nil && !errors.Is(err, dead) || err == nil && made >= n {
				t.Errorf("killed at operation %d: %v", n, err)
			}
			if power {
				mem = mem.Crash(uint64(n))
			}
			_, err = mem.Stat("/crawl/crawl.yaml")
			cfg.FS, cfg.Resume, cfg.Effective = mem, err == nil, nil
			res := must.Get(life(cfg))(t)
			records, segments, err := inSegments(mem)
			if err != nil || res.Stop != crawl.Finished || segments < 3 {
				t.Errorf("killed at operation %d: %s, %d segments, %v", n, res.Stop, segments, err)
			}
			if err := logsInSegments(mem); err != nil {
				t.Errorf("killed at operation %d: %v", n, err)
			}
			if err := tablesOfSegments(mem, records); err != nil {
				t.Errorf("killed at operation %d: %v", n, err)
			}
			all := 0
			for _, k := range records {
				all += k
			}
			for _, u := range smallURLs() {
				if records[u] == 0 {
					t.Errorf("killed at operation %d: %s is in no segment", n, u)
				}
			}
			if lines := strings.Count(read(t, mem, "indexes/index.cdxj"), "\n"); lines != all {
				t.Errorf("killed at operation %d: the index has %d records, the segments have %d", n, lines, all)
			}
			if logged := strings.Count(read(t, mem, "logs/crawl.log"), "\n"); n == 0 && logged != all {
				t.Errorf("the log has %d lines, the segments have %d records", logged, all)
			}
		})
		n += max(1, changes/int64(testtier.Rounds(24/testtier.Stride(3), 400)))
	}
}
