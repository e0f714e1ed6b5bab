package warc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

const samples = "../../../shared/data/warc"

// needSamples skips the test if there is no sample collection. With CI=true it fails the test instead.
func needSamples(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(samples, "index.jsonl")); err != nil {
		missing(t, err)
	}
}

func missing(t testing.TB, why any) {
	t.Helper()
	testneed.Missing(t, why)
}

// tool returns the path of a program in the virtual environment. The gate has warcio there; pywb, which brings
// all other programs, is slow to install, and belongs to the soak. See needSamples.
func tool(t testing.TB, name string) string {
	t.Helper()
	if name != "warcio" {
		testtier.OnlySoak(t, "pywb is slow to install")
	}
	venv := os.Getenv("ORBWEAVER_VENV")
	if venv == "" {
		missing(t, "ORBWEAVER_VENV is not set; it must name a virtual environment with warcio and pywb")
	}
	path, err := filepath.Abs(filepath.Join(venv, "bin", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		missing(t, err)
	}
	return path
}

// output runs a program and returns its standard output.
func output(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", filepath.Base(name), err, b, &stderr)
	}
	return string(b)
}

type sample struct {
	File    string
	Records int64
	Errors  *int64 `json:"warchaeology_errors"`
}

// sampleWARCs returns the WARC files of the sample collection.
func sampleWARCs(t testing.TB) (list []sample) {
	t.Helper()
	needSamples(t)
	b, err := os.ReadFile(filepath.Join(samples, "index.jsonl"))
	must.Do(t, err)
	sc := bufio.NewScanner(bytes.NewReader(b))
	for sc.Scan() {
		var s sample
		must.Do(t, json.Unmarshal(sc.Bytes(), &s))
		if s.Errors != nil {
			list = append(list, s)
		}
	}
	return list
}

// TestVerifySamples compares Verify with warchaeology, another checker. A file that warchaeology accepts has no errors.
// Files with wrong lengths or digests have. An HTTP header without an empty line (an error to warchaeology), WARC/0.17,
// and a field that does not belong to its record are at most warnings.
func TestVerifySamples(t *testing.T) {
	wrong := map[string]int64{
		"pywb/example-extra.warc":                   5,
		"pywb/example-url-agnostic-orig.warc.gz":    1,
		"pywb/example-url-agnostic-revisit.warc.gz": 1,
	}
	warned := map[string]int64{
		"pywb/example.warc.gz": 2, "pywb/example-extra.warc": 5, "pywb/dupes.warc.gz": 12, "pywb/iana.warc.gz": 171,
		// wget gave two records the same ID.
		"ukwa/IAH-urls-wget.warc.gz": 1, "ukwa/sopa-wikipedia-homepage.warc.gz": 1, "ukwa/main-page.warc.gz": 1,
		"ukwa/post-blackout.warc.gz": 1, "pywb/example-wget-1-14.warc.gz": 1,
	}
	for _, s := range sampleWARCs(t) {
		b, err := os.ReadFile(filepath.Join(samples, s.File))
		must.Do(t, err)
		rep, err := new(Verifier).Verify(bytes.NewReader(b))
		if err != nil {
			t.Errorf("%s: %v", s.File, err)
			continue
		}
		if rep.Records != s.Records {
			t.Errorf("%s: %d records, want %d", s.File, rep.Records, s.Records)
		}
		if rep.Errors != wrong[s.File] || rep.Warnings != warned[s.File] {
			t.Errorf("%s: %d errors, %d warnings, want %d, %d: %v",
				s.File, rep.Errors, rep.Warnings, wrong[s.File], warned[s.File], rep.Problems)
		}
	}
}

// TestIndexMatchesPywb compares index lines with the indexes that come with pywb's samples. It leaves out two of them,
// which TestIndexMatchesTool covers: pywb made them with options that omit mime and status (example.cdxj) or put the
// form of a POST into the key (post-test.cdxj, -p).
func TestIndexMatchesPywb(t *testing.T) {
	needSamples(t)
	for _, name := range []string{"iana", "dupes", "example2"} {
		want, err := os.ReadFile(filepath.Join(samples, "pywb", name+".cdxj"))
		must.Do(t, err)
		compareLinesOf(t, name, asPywb(indexOf(t, filepath.Join(samples, "pywb", name+".warc.gz"))), string(want))
	}
}

// TestIndexMatchesTool compares index lines of all samples with those of pywb's indexer.
func TestIndexMatchesTool(t *testing.T) {
	args := []string{"-j"}
	var ours strings.Builder
	for _, s := range sampleWARCs(t) {
		file := filepath.Join(samples, s.File)
		args = append(args, file)
		ours.WriteString(indexOf(t, file))
	}
	want := output(t, tool(t, "cdx-indexer"), args...)
	compareLinesOf(t, "samples", asPywb(ours.String()), want)
}

// notPywb matches the keys of index lines that pywb does not write.
var notPywb = regexp.MustCompile(`, "(charset|languages|truncated|redirect|hops|via|fetched-status|duplicate-of|` +
	`near-duplicate-of|category|body-digest)": "([^"\\]|\\.)*"`)

// asPywb returns index lines without the keys that pywb does not write.
func asPywb(lines string) string { return notPywb.ReplaceAllString(lines, "") }

func indexOf(t testing.TB, file string) string {
	t.Helper()
	f, err := os.Open(file)
	must.Do(t, err)
	defer f.Close()
	var b strings.Builder
	err = Index(f, filepath.Base(file), func(line []byte) error { b.Write(line); return nil })
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return b.String()
}

// compareLinesOf compares two indexes as sets of lines.
func compareLinesOf(t testing.TB, name, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	slices.Sort(g)
	slices.Sort(w)
	if slices.Equal(g, w) {
		return
	}
	n := 0
	for _, l := range g {
		if !slices.Contains(w, l) && n < 5 {
			n++
			t.Errorf("%s: only in our index: %s", name, l)
		}
	}
	n = 0
	for _, l := range w {
		if !slices.Contains(g, l) && n < 5 {
			n++
			t.Errorf("%s: only in the wanted index: %s", name, l)
		}
	}
	if len(g) != len(w) {
		t.Errorf("%s: %d lines, want %d", name, len(g), len(w))
	}
}

// TestToolsAcceptOurs checks the Writer's files with other tools: warcio finds no fault, and a scan gives the
// same lines as our index, which is made while writing. In the soak pywb's indexer does, too.
func TestToolsAcceptOurs(t *testing.T) {
	warcio := tool(t, "warcio")
	for _, level := range []int{9, 1, -1}[:testtier.Rounds(1, 3)] {
		dir := t.TempDir()
		cfg := testConfig(dir)
		cfg.Level = level
		xs := everyKind()
		xs = append(xs, rawReplies(t)...)
		xs = append(xs, page("http://example.com/large", "HTTP/1.1 200 OK\nContent-Type: text/plain",
			strings.Repeat(lorem, 1500)))
		writeAll(t, cfg, xs)
		must.Do(t, BuildIndex(nil, dir))
		file := warcFiles(t, dir)[0]
		verifyClean(t, file)
		if out := output(t, warcio, "check", file); out != "" {
			t.Errorf("warcio check: %s", out)
		}
		index, err := os.ReadFile(indexPath(dir))
		must.Do(t, err)
		if testtier.Soak() {
			compareLinesOf(t, "cdx-indexer", asPywb(string(index)), output(t, tool(t, "cdx-indexer"), "-s", "-j", file))
		}
		compareLinesOf(t, "scan", string(index), indexOf(t, file))
		if !sortedBytes(string(index)) {
			t.Error("the index is not sorted")
		}
	}
}

func sortedBytes(s string) bool {
	return slices.IsSorted(strings.Split(strings.TrimSuffix(s, "\n"), "\n"))
}

// rawReplies returns exchanges with a collection of raw, often malformed, HTTP responses. Like a fetcher, it ends the
// header at the first empty line.
func rawReplies(t testing.TB) (xs []*Exchange) {
	t.Helper()
	dir := filepath.Join(samples, "..", "http")
	entries, err := os.ReadDir(dir)
	if err != nil {
		missing(t, err)
	}
	for _, e := range entries {
		if e.IsDir() || strings.HasSuffix(e.Name(), ".md") || strings.HasSuffix(e.Name(), ".jsonl") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must.Do(t, err)
		x := &Exchange{
			URL: "http://raw.example.com/" + e.Name(), Began: testTime,
			Response: Bytes(b), Request: []byte("GET / HTTP/1.1\r\n\r\n"),
		}
		for _, end := range []string{"\r\n\r\n", "\n\n", "\n\r\n"} {
			i := bytes.Index(b, []byte(end))
			if i >= 0 && bytes.HasPrefix(b, []byte("HTTP/")) && (x.HeadLen == 0 || i+len(end) < x.HeadLen) {
				x.HTTP, x.HeadLen = true, i+len(end)
			}
		}
		xs = append(xs, x)
	}
	return xs
}

// TestPywbReplays checks that pywb replays plain, chunked, compressed and revisited pages.
func TestPywbReplays(t *testing.T) {
	testtier.OnlySoak(t, "it starts pywb")
	python := tool(t, "python")
	dir := t.TempDir()
	writeAll(t, testConfig(dir), everyKind())
	must.Do(t, BuildIndex(nil, dir))
	want := map[string]string{
		"20240506070809id_/http://example.com/":                lorem,
		"20240506070812id_/http://example.com/":                lorem, // a revisit
		"20240506070809id_/http://example.com/copy":            lorem, // a revisit of another URL
		"20240506070809id_/http://example.com/chunked":         lorem + "1",
		"20240506070809id_/http://example.com/chunked-gzip":    lorem + "2",
		"20240506070809id_/http://example.com/gzip?b=2&a=1":    lorem + "4",
		"20240506070809mp_/http://example.com/chunked-gzip":    "",
		"20240506070809mp_/https://example.com/br":             "",
		"20240506070809mp_/http://example.com/chunked-trailer": "",
	}
	captures := slices.Sorted(maps.Keys(want))
	out := output(t, python, append([]string{"testdata/replay.py", dir}, captures...)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "{") }) // pywb's own messages
	if len(lines) != len(captures) {
		t.Fatalf("%d answers, want %d: %s", len(lines), len(captures), out)
	}
	for i, c := range captures {
		var got struct {
			Status int
			Body   []byte
		}
		must.Do(t, json.Unmarshal([]byte(lines[i]), &got))
		if got.Status != 200 {
			t.Errorf("%s: got status %d, want 200", c, got.Status)
		}
		// id_ gives the decoded body; mp_ gives the page with scripts that pywb adds.
		whole := string(got.Body) == want[c]
		if want[c] == "" {
			whole = bytes.Contains(got.Body, []byte("quick brown fox")) && bytes.Contains(got.Body, []byte("WB Insert"))
		}
		if !whole {
			t.Errorf("%s: %d bytes %.100q, want %d", c, len(got.Body), got.Body, len(want[c]))
		}
	}
}
