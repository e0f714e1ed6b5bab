package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A ledger is the crawl's own report: its log, its archive and its summary, read together so that
// the test can compare them.
type ledger struct {
	dir    string
	lines  []report.Line
	final  map[string]report.Line // by URL, without the fetches of robots.txt
	robots map[string]int         // robots.txt fetches by URL
	// records counts the WARC records with a URL's responses.
	records map[string]int
	sum     report.Summary
	// again reports whether a kill made the crawl visit a URL again.
	again func(u string) bool
}

// audit reads a crawl and fails the test for every contradiction in it: a URL with two ends, counts
// that differ, a line without its record or a record without its line.
func audit(t *testing.T, dir string) *ledger {
	t.Helper()
	return auditKilled(t, dir, func(string) bool { return false })
}

// auditKilled is audit for a crawl that was killed. URLs for which again is true may have lines and
// records of two visits; the last line counts.
func auditKilled(t *testing.T, dir string, again func(u string) bool) *ledger {
	t.Helper()
	a := &ledger{dir: dir, final: map[string]report.Line{}, robots: map[string]int{}, records: map[string]int{},
		again: again}
	b := must.Get(os.ReadFile(filepath.Join(dir, "reports", "summary.json")))(t)
	must.Do(t, json.Unmarshal(b, &a.sum))
	b = must.Get(os.ReadFile(filepath.Join(dir, "logs", "crawl.log")))(t)
	if err := testparts.Agree(disk.OS, dir); err != nil {
		t.Error(err)
	}
	status := map[string]int64{}
	lineRecords := map[string]int{}
	for s := range strings.Lines(string(b)) {
		l, err := report.ReadLine(s)
		if err != nil {
			t.Errorf("crawl.log: %v: %q", err, s)
			continue
		}
		a.lines = append(a.lines, l)
		// A response may have a header and no content. Without both there is no record with a
		// digest.
		if l.HasDigest != (l.Size > 0 || l.Code > 0) {
			t.Errorf("crawl.log: %d bytes came, and digest is %v: %q", l.Size, l.HasDigest, s)
		}
		if l.HasDigest {
			lineRecords[l.URL]++
		}
		if strings.HasSuffix(l.Hops, "P") {
			a.robots[l.URL]++
			continue
		}
		if old, twice := a.final[l.URL]; twice && !again(l.URL) {
			t.Errorf("two ends of %s: %d at %s, %d at %s", l.URL, old.Code, old.Time, l.Code, l.Time)
		}
		a.final[l.URL] = l
	}
	for _, l := range a.final {
		status[fmt.Sprint(l.Code)]++
	}
	if n := int64(len(a.final)); n != a.sum.Finished {
		t.Errorf("crawl.log ends %d URLs, the summary says %d", n, a.sum.Finished)
	}
	if a.sum.Unique != a.sum.Finished+a.sum.Queued {
		t.Errorf("%d URLs accepted, but %d finished and %d queued", a.sum.Unique, a.sum.Finished, a.sum.Queued)
	}
	if a.sum.StopReason == "finished" && a.sum.Queued != 0 {
		t.Errorf("finished with %d URLs queued", a.sum.Queued)
	}
	for code, n := range status {
		if a.sum.Status[code] != n {
			t.Errorf("code %s: %d lines in crawl.log, %d in the summary", code, n, a.sum.Status[code])
		}
	}
	for code, n := range a.sum.Status {
		if status[code] == 0 {
			t.Errorf("code %s: no line in crawl.log, %d in the summary", code, n)
		}
	}
	a.readArchive(t)
	for u, n := range lineRecords {
		if a.records[u] != n && !again(u) {
			t.Errorf("%s: %d lines with a digest, %d records", u, n, a.records[u])
		}
	}
	for u, n := range a.records {
		if lineRecords[u] == 0 && !again(u) {
			t.Errorf("%s: %d records, no line", u, n)
		}
	}
	return a
}

// warcs returns the crawl's archive files.
func (a *ledger) warcs(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(a.dir, "archive", "*.warc.gz"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no archive files in %s: %v", a.dir, err)
	}
	return names
}

func (a *ledger) readArchive(t *testing.T) {
	t.Helper()
	for _, name := range a.warcs(t) {
		f, err := os.Open(name)
		must.Do(t, err)
		err = warc.List(f, func(r warc.Row) error {
			switch r.Type {
			case "response", "revisit", "resource":
				a.records[r.URL]++
			}
			return nil
		})
		f.Close()
		if err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// accepted fails the test unless our own verifier, warcio and pywb accept every file.
func (a *ledger) accepted(t *testing.T) {
	t.Helper()
	verify(t, a.dir)
	if venv := venv(t); venv != "" {
		for _, name := range a.warcs(t) {
			foreign(t, filepath.Join(venv, "bin", "warcio"), "check", name)
		}
	}
	a.indexed(t)
}

// indexed fails the test unless pywb finds every HTTP response.
func (a *ledger) indexed(t *testing.T) {
	t.Helper()
	venv := venv(t)
	if venv == "" {
		return
	}
	found, want := 0, 0
	for _, name := range a.warcs(t) {
		found += strings.Count(foreign(t, filepath.Join(venv, "bin", "cdx-indexer"), "-j", name), "\n")
	}
	for _, l := range a.lines {
		if l.HasDigest && l.Code > 0 {
			want++
		}
	}
	if found < want {
		t.Errorf("cdx-indexer finds %d records, want at least %d", found, want)
	}
}

// venv returns the virtual environment with warcio and pywb, or "" if there is none and CI does not
// require it.
func venv(t *testing.T) string {
	t.Helper()
	v := os.Getenv("ORBWEAVER_VENV")
	switch {
	case v != "":
	case os.Getenv("CI") == "true":
		t.Fatal("ORBWEAVER_VENV names no virtual environment with warcio and pywb")
	default:
		t.Log("without ORBWEAVER_VENV neither warcio nor pywb is asked")
	}
	return v
}

func foreign(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s%s", filepath.Base(name), args, err, tail(out.String()), tail(errs.String()))
	}
	return out.String()
}

// An end is the expected line of a URL in crawl.log: a code, and words in its annotations.
type end struct {
	code  int
	notes []string
}

func ends(code int, notes ...string) end { return end{code, notes} }

// want fails the test unless u ended as e.
func (a *ledger) want(t *testing.T, u string, e end) {
	t.Helper()
	l, ok := a.final[u]
	if !ok {
		t.Errorf("%s: no end in crawl.log", u)
		return
	}
	ok = l.Code == e.code
	for _, n := range e.notes {
		ok = ok && slices.Contains(l.Notes, n)
	}
	if !ok {
		t.Errorf("%s: ended as %d %v, want %d %v", u, l.Code, l.Notes, e.code, e.notes)
	}
}
