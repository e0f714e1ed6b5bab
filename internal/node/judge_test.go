package node_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// A capture is one fetch, as each of the sources tells it.
type capture struct{ URL, Time, Status, Subset string }

// A lot says how often there is each of something.
type lot[T comparable] map[T]int

// less returns what a has more often than b.
func (a lot[T]) less(b lot[T]) lot[T] {
	rest := lot[T]{}
	for x, n := range a {
		if n > b[x] {
			rest[x] = n - b[x]
		}
	}
	return rest
}

func (a lot[T]) add(b lot[T]) {
	for x, n := range b {
		a[x] += n
	}
}

func (a lot[T]) sum() (n int) {
	for _, k := range a {
		n += k
	}
	return n
}

// A judge reads the files of a crawl with segments. It shares no code with what writes them.
type judge struct {
	t       *testing.T
	fs      disk.FS
	what    string
	headers map[capture]int64 // the bytes of the HTTP header
	kills   int
	torn    bool // the power was cut
}

// same compares two sources.
func same[T comparable](j judge, name string, got lot[T], than string, want lot[T]) {
	j.t.Helper()
	if less, more := want.less(got), got.less(want); len(less)+len(more) > 0 {
		j.t.Errorf("%s: %s has %d, %s has %d\nonly in %s: %v\nonly in %s: %v", j.what, name, got.sum(), than,
			want.sum(), name, more, than, less)
	}
}

// text returns a file, decompressed.
func (j judge) text(name string) string {
	j.t.Helper()
	b := must.Get(disk.ReadFile(j.fs, name, 1<<24))(j.t)
	if strings.HasSuffix(name, ".gz") {
		b = must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(b)))(j.t)))(j.t)
	}
	return string(b)
}

// files lists the files below a folder.
func (j judge) files(dir string) (names []string) {
	j.t.Helper()
	entries, err := j.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must.Do(j.t, err)
	for _, e := range entries {
		if name := path.Join(dir, e.Name()); e.IsDir() {
			names = append(names, j.files(name)...)
		} else {
			names = append(names, name)
		}
	}
	return names
}

// records reads the captures of a WARC file.
func (j judge) records(name string) lot[capture] {
	j.t.Helper()
	found := lot[capture]{}
	in := bufio.NewReader(must.Get(j.fs.OpenFile(name, os.O_RDONLY, 0))(j.t))
	z := must.Get(gzip.NewReader(in))(j.t)
	for {
		z.Multistream(false)
		head, block, _ := strings.Cut(string(must.Get(io.ReadAll(z))(j.t)), "\r\n\r\n")
		field := map[string]string{}
		for _, line := range strings.Split(head, "\r\n")[1:] {
			k, v, _ := strings.Cut(line, ": ")
			field[k] = v
		}
		if k := field["WARC-Type"]; k == "response" || k == "revisit" {
			at := must.Get(time.Parse(time.RFC3339, field["WARC-Date"]))(j.t).Format("20060102150405")
			c := capture{field["WARC-Target-URI"], at, strings.Fields(block)[1], subsetOf(name)}
			header, _, _ := strings.Cut(block, "\r\n\r\n")
			found[c]++
			j.headers[c] = int64(len(header) + 4)
		} else if k == "resource" {
			j.t.Errorf("%s: %s has a resource record, of which the web has none", j.what, name)
		}
		if err := z.Reset(in); err == io.EOF {
			return found
		} else if err != nil {
			j.t.Fatalf("%s: %s: %v", j.what, name, err)
		}
	}
}

func subsetOf(name string) string { return path.Base(path.Dir(name)) }

// cdxj reads an index. Its files are in the given subsets.
func (j judge) cdxj(name string, subsets map[string]string) lot[capture] {
	j.t.Helper()
	found := lot[capture]{}
	for line := range strings.Lines(j.text(name)) {
		f := strings.SplitN(line, " ", 3)
		var l struct {
			URL, Status, Filename string
			Fetched               string `json:"fetched-status"`
		}
		must.Do(j.t, json.Unmarshal([]byte(f[2]), &l))
		found[capture{l.URL, f[1], l.Status + l.Fetched, subsets[path.Base(l.Filename)]}]++
	}
	return found
}

// A logLine is what the log and its table both have of a fetch.
type logLine struct {
	At, URL, Hops string
	Status, Size  int64
	Notes         string
}

// A lineOf is a line of the log, and the capture that it tells of if there was a response.
type lineOf struct {
	logLine
	Of capture
}

// lines reads crawl.log, or the part of it that a segment has.
func (j judge) lines(name string) (visits []lineOf, lines lot[logLine]) {
	j.t.Helper()
	lines = lot[logLine]{}
	for line := range strings.Lines(j.text(name)) {
		f := strings.Fields(line)
		if len(f) != 12 {
			j.t.Fatalf("%s: %s: %q", j.what, name, line)
		}
		l := logLine{At: f[0], URL: f[3], Hops: strings.TrimPrefix(f[4], "-"), Notes: strings.TrimPrefix(f[11], "-")}
		must.Get(fmt.Sscan(f[1], &l.Status))(j.t)
		if f[2] != "-" {
			must.Get(fmt.Sscan(f[2], &l.Size))(j.t)
		}
		v := lineOf{logLine: l}
		if l.Status > 0 {
			subset := "crawldiagnostics"
			if l.isRobots() {
				subset = "robotstxt"
			} else if l.Status == 200 && !l.has("duplicate:digest") {
				subset = "warc"
			}
			v.Of = capture{l.URL, f[8][:14], f[1], subset}
		}
		visits = append(visits, v)
		lines[l]++
	}
	return visits, lines
}

func (l logLine) isRobots() bool { return strings.HasSuffix(l.Hops, "P") }

func (l logLine) has(note string) bool { return slices.Contains(strings.Split(l.Notes, ","), note) }

// rows reads a Parquet file.
func rows[T any](j judge, name string) []T {
	j.t.Helper()
	b := must.Get(disk.ReadFile(j.fs, name, 1<<24))(j.t)
	return must.Get(parquet.Read[T](bytes.NewReader(b), int64(len(b))))(j.t)
}

// count counts the crawl in all its files, and compares them.
func (j judge) count() {
	j.t.Helper()
	const root = "/crawl/crawl-data/web/segments"
	visits, lines := j.lines("/crawl/logs/crawl.log")
	records, indexed, parts := lot[capture]{}, lot[capture]{}, lot[logLine]{}
	manifests, tables, subsets := 0, map[string]int{}, map[string]string{}
	for _, d := range must.Get(j.fs.ReadDir(root))(j.t) {
		dir := path.Join(root, d.Name())
		var m struct {
			Records int
			Files   []struct {
				Name, Sha256   string
				Bytes          int64
				Records, Lines int
			}
			Tables []struct {
				Name, Sha256 string
				Bytes        int64
				Rows         int
			}
			Logs []struct {
				Log   string
				Lines int
			}
		}
		must.Do(j.t, json.Unmarshal([]byte(j.text(dir+"/manifest.json")), &m))
		manifests += m.Records
		named := []string{dir + "/_SUCCESS", dir + "/manifest.json"}
		inFiles, inLog := lot[capture]{}, 0
		for _, f := range m.Files {
			name := path.Join(dir, f.Name)
			named = append(named, name)
			j.content(name, f.Bytes, f.Sha256)
			switch {
			case strings.HasSuffix(name, ".warc.gz"):
				has := j.records(name)
				subsets[path.Base(name)] = subsetOf(name)
				if n := has.sum(); n != f.Records {
					j.t.Errorf("%s: %s has %d records, its manifest says %d", j.what, name, n, f.Records)
				}
				inFiles.add(has)
			case f.Name == "logs/crawl.log.gz":
				_, lines := j.lines(name)
				if inLog = lines.sum(); inLog != f.Lines {
					j.t.Errorf("%s: %s has %d lines, its manifest says %d", j.what, name, inLog, f.Lines)
				}
				parts.add(lines)
			}
		}
		for _, l := range m.Logs {
			if l.Log == "logs/crawl.log" {
				inLog -= l.Lines
			}
		}
		if inLog != 0 {
			j.t.Errorf("%s: %s has %d lines more than the positions in its manifest say", j.what, dir, inLog)
		}
		if n := inFiles.sum(); n != m.Records {
			j.t.Errorf("%s: %s has %d records, its manifest says %d", j.what, dir, n, m.Records)
		}
		if slices.Contains(named, dir+"/index.cdxj") {
			index := j.cdxj(dir+"/index.cdxj", subsets)
			same(j, dir+"/index.cdxj", index, "its WARC files", inFiles)
			indexed.add(index)
		}
		records.add(inFiles)
		for _, f := range m.Tables {
			j.content("/crawl/"+f.Name, f.Bytes, f.Sha256)
			tables["/crawl/"+f.Name] = f.Rows
		}
		for _, name := range j.files(dir) {
			if !slices.Contains(named, name) && path.Base(name) != "_STORED" {
				j.t.Errorf("%s: %s is in no manifest", j.what, name)
			}
		}
	}
	same(j, "the index of the archive", j.cdxj("/crawl/indexes/index.cdxj", subsets), "the segments' indexes", indexed)
	if n := records.sum(); n != manifests {
		j.t.Errorf("%s: %d records, the manifests have %d", j.what, n, manifests)
	}
	same(j, "the segments' logs", parts, "crawl.log", lines)
	j.tables(tables, records, lines)
	j.fetches(visits, records)
	j.summary(visits)
}

// content checks the bytes of a file.
func (j judge) content(name string, size int64, sum string) {
	j.t.Helper()
	b := must.Get(disk.ReadFile(j.fs, name, 1<<24))(j.t)
	if is := sha256.Sum256(b); int64(len(b)) != size || hex.EncodeToString(is[:]) != sum {
		j.t.Errorf("%s: %s is not the file that its manifest describes", j.what, name)
	}
}

// tables compares the Parquet files with the records and the log. The manifests name their rows.
func (j judge) tables(named map[string]int, records lot[capture], logged lot[logLine]) {
	j.t.Helper()
	captures, lines, failures, want := lot[capture]{}, lot[logLine]{}, lot[string]{}, lot[string]{}
	for _, name := range j.files("/crawl/cc-index/table") {
		n := 0
		switch {
		case strings.Contains(name, "/cc-main/"):
			_, subset, _ := strings.Cut(subsetOf(name), "subset=")
			for _, r := range rows[struct {
				URL    string    `parquet:"url"`
				Time   time.Time `parquet:"fetch_time,timestamp(millisecond)"`
				Status int32     `parquet:"fetch_status"`
			}](j, name) {
				captures[capture{r.URL, r.Time.UTC().Format("20060102150405"), fmt.Sprint(r.Status), subset}]++
				n++
			}
		case strings.Contains(name, "/orbweaver/log/"):
			for _, r := range rows[struct {
				Time   time.Time `parquet:"time,timestamp(millisecond)"`
				Status int32     `parquet:"status"`
				Size   int64     `parquet:"size,optional"`
				URL    string    `parquet:"url"`
				Hops   string    `parquet:"hops"`
				Notes  []string  `parquet:"annotations,list"`
			}](j, name) {
				lines[logLine{r.Time.UTC().Format("2006-01-02T15:04:05.000Z"), r.URL, r.Hops, int64(r.Status), r.Size,
					strings.Join(r.Notes, ",")}]++
				n++
			}
		case strings.Contains(name, "/orbweaver/failures/"):
			for _, r := range rows[struct {
				URL string `parquet:"url"`
			}](j, name) {
				failures[r.URL]++
				n++
			}
		default:
			n = named[name]
		}
		if rows, ok := named[name]; !ok || rows != n {
			j.t.Errorf("%s: %s has %d rows, the manifests have %d (named: %v)", j.what, name, n, rows, ok)
		}
		delete(named, name)
	}
	for name := range named {
		j.t.Errorf("%s: a manifest names %s, which is not there", j.what, name)
	}
	same(j, "the table of the index", captures, "the archive", records)
	for l, n := range logged {
		if l.Status >= 400 || l.Status < 0 && l.Status != -9998 || l.has("bad-redirect") {
			want[l.URL] += n
		}
	}
	same(j, "the table of the log", lines, "crawl.log", logged)
	same(j, "the table of failures", failures, "crawl.log", want)
}

// fetches compares the visits in crawl.log with the records. Each visit with a response has its record. A record
// without a line is that of a visit that a kill has ended: its URL was visited again.
func (j judge) fetches(visits []lineOf, records lot[capture]) {
	j.t.Helper()
	answered, last := lot[capture]{}, map[string]capture{}
	for _, v := range visits {
		if v.Of.URL != "" {
			answered[v.Of]++
			last[v.URL] = v.Of
		}
	}
	for c, n := range answered.less(records) {
		if !j.torn || last[c.URL] == c {
			j.t.Errorf("%s: %d lines of %v have no record", j.what, n, c)
		}
	}
	for c, n := range records.less(answered) {
		if last[c.URL].Time < c.Time {
			j.t.Errorf("%s: %d records of %v, and no line for them or later", j.what, n, c)
		}
	}
}

// summary compares the summary with the last line of each URL in crawl.log. Of a robots.txt each line counts. After a
// kill, lines that are not the last of their robots.txt may not count.
func (j judge) summary(visits []lineOf) {
	j.t.Helper()
	last := map[string]lineOf{}
	for _, v := range visits {
		last[v.URL] = v
	}
	type counts struct {
		Pages      int64 `json:"pages"`
		Files      int64 `json:"files"`
		Fetched    int64 `json:"fetched"`
		Bytes      int64 `json:"bytes"`
		Finished   int64 `json:"urls_finished"`
		Queued     int64 `json:"urls_queued"`
		Duplicates int64 `json:"duplicates"`
		Truncated  int64 `json:"truncated"`
		RobotsTxt  int64 `json:"robots_txt"`
		Denied     int64 `json:"robots_denied"`

		Errors map[string]int64 `json:"errors_by_kind"`
		Status map[string]int64 `json:"responses_by_status"`
	}
	var got counts
	must.Do(j.t, json.Unmarshal([]byte(j.text("/crawl/reports/summary.json")), &got))
	want := counts{Errors: map[string]int64{}, Status: map[string]int64{}}
	type robots struct{ lines, bytes int64 }
	possible := map[robots]bool{{}: true}
	for _, l := range visits {
		if !l.isRobots() {
			continue
		}
		more := map[robots]bool{}
		for p := range possible {
			more[robots{p.lines + 1, p.bytes + l.Size + j.headers[l.Of]}] = true
			if j.kills > 0 && l != last[l.URL] {
				more[p] = true
			}
		}
		possible = more
	}
	for _, l := range last {
		if l.isRobots() {
			continue
		}
		want.Bytes += l.Size + j.headers[l.Of]
		want.Finished++
		want.Status[fmt.Sprint(l.Status)]++
		if l.Status > 0 {
			want.Fetched++
		}
		if l.Status/100 == 2 {
			want.Pages++
		}
		if l.Status == -9998 {
			want.Denied++
		}
		if l.has("duplicate:digest") {
			want.Duplicates++
		}
		for note := range strings.SplitSeq(l.Notes, ",") {
			if kind, ok := strings.CutPrefix(note, "error:"); ok {
				want.Errors[kind]++
			}
			if strings.HasPrefix(note, "truncated:") {
				want.Truncated++
			}
		}
	}
	r := robots{got.RobotsTxt, got.Bytes - want.Bytes}
	if want.RobotsTxt, want.Bytes = got.RobotsTxt, got.Bytes; !possible[r] {
		j.t.Errorf("%s: summary.json has %+v, the lines of robots.txt make %v", j.what, r, possible)
	}
	if !reflect.DeepEqual(got, want) {
		j.t.Errorf("%s: summary.json has\n%+v, crawl.log\n%+v", j.what, got, want)
	}
}
