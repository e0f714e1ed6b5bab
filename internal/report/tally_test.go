package report

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		must.Do(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	must.Do(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got\n%s", name, diff)
	}
}

func sampleTally() *Tally {
	t := NewTally()
	t.Start(at)
	t.Found(100)
	t.Accepted(12)
	t.Sent(2)
	t.Retried(3)
	for _, r := range []string{"outOfScope", "outOfScope", "trap"} {
		t.Skipped(r)
	}
	for _, v := range []Visit{
		{Host: "a.example", Seed: "a.example", Code: 200, MIME: "text/plain", Bytes: 500, Robots: true},
		{Host: "a.example", Seed: "a.example", Code: 200, MIME: "text/html; charset=utf-8", Bytes: 22_300, Page: true,
			FromSeed: true},
		{Host: "a.example", Seed: "a.example", Code: 200, MIME: "Text/HTML", Bytes: 1_000, Page: true, Duplicate: true,
			FromSeed: true},
		{Host: "a.example", Seed: "a.example", Code: 404, MIME: "text/html", Bytes: 700},
		{Host: "b.example", Seed: "a.example", Code: CodeRobotsDenied},
		{Host: "b.example", Seed: "b.example", Code: 200, MIME: "=cmd()/x", Bytes: 5_000_000,
			Page: true, FromSeed: true, Truncated: true},
		{Host: "c.example", Seed: "b.example", Code: CodeTooManyRetries, Error: "timeout-connect"},
		{Host: "c.example", Seed: "b.example", Code: CodeDNS, Error: "dns", Bytes: -4},
		{Host: "c.example", Seed: "b.example", Code: CodeTooManyRetries, Error: "timeout-connect"},
	} {
		t.Add(v)
	}
	return t
}

func hostsCSV(t *Tally) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	t.hostRows(func(cells ...string) { w.Write(cells) })
	w.Flush()
	return b.String()
}

// A guess counts as a URL with its bytes, unless there is something.
func TestTallyGuess(t *testing.T) {
	var tally Tally
	tally.Add(Visit{Host: "a.example", Seed: "a.example", Code: 404, Bytes: 10, Guess: true})
	tally.Add(Visit{Host: "a.example", Seed: "a.example", Code: CodeTooManyRetries, Error: "reset", Guess: true})
	tally.Add(Visit{Host: "b.example", Seed: "a.example", Code: 200, Bytes: 5, File: true, Guess: true})
	s := tally.Summary(time.Second, "finished")
	if s.Finished != 3 || s.Fetched != 1 || s.Files != 1 || s.Pages != 0 || s.Bytes != 15 || len(s.Errors) != 0 ||
		len(s.Status) != 1 {
		t.Errorf("%+v", s)
	}
}

// TestReports compares all report files of a crawl with golden files.
func TestReports(t *testing.T) {
	tally := sampleTally()
	s := tally.Summary(90*time.Second, "finished")
	if s.PeakMemory < 1<<20 {
		t.Errorf("peak memory: got %d bytes, want at least 1 MiB", s.PeakMemory)
	}
	s.PeakMemory = 123_456_789
	s.Ended.Time = at.Add(90 * time.Second)
	s.Queued = 4
	fs := testdisk.NewMem()
	must.Do(t, tally.WriteReports(fs, "reports", s))
	for _, name := range []string{"summary.json", "hosts.csv", "status.csv", "mime.csv", "errors.csv", "seeds.csv"} {
		golden(t, name, file(t, fs, "reports/"+name))
	}
	s.Failing.Hosts = append(s.Failing.Hosts, HostErrors{"\x1b[2J", 1})
	golden(t, "summary.txt", s.String())

	var m map[string]any
	must.Do(t, json.Unmarshal([]byte(file(t, fs, "reports/summary.json")), &m))
	for _, k := range []string{"pages", "bytes", "elapsed_s", "pages_per_s_mean", "urls_discovered", "urls_unique",
		"urls_sent", "hosts", "duplicates", "robots_denied", "errors_by_kind", "responses_by_status", "stop_reason",
		"peak_memory_bytes"} {
		if _, ok := m[k]; !ok {
			t.Errorf("summary.json has no %s", k)
		}
	}
}

// TestReportsAreAtomic lets each write fail in turn: a report file is old or new, never a mixture.
func TestReportsAreAtomic(t *testing.T) {
	old := sampleTally()
	now := sampleTally()
	now.Add(Visit{Host: "z.example", Code: 500, MIME: "x/y", Error: "odd", Seed: "z.example"})
	for n := int64(1); ; n++ {
		mem := testdisk.NewMem()
		faulty := testdisk.NewFaulty(mem, nil)
		must.Do(t, old.WriteReports(faulty, "reports", old.Summary(0, "old")))
		_, changes := faulty.Calls()
		faulty.Break(testdisk.FailAt(changes+n, syscall.ENOSPC))
		err := now.WriteReports(faulty, "reports", now.Summary(time.Second, "new"))
		if err == nil {
			if n < 6 {
				t.Errorf("only %d writes, want at least 5", n-1)
			}
			return
		}
		if !disk.IsFull(err) {
			t.Fatalf("write %d: got %v, want a full disk", n, err)
		}
		var s Summary
		if err := json.Unmarshal([]byte(file(t, mem, "reports/summary.json")), &s); err != nil ||
			s.StopReason != "old" && s.StopReason != "new" {
			t.Errorf("write %d: the summary is neither old nor new: %+v, %v", n, s, err)
		}
		switch got := file(t, mem, "reports/hosts.csv"); got {
		case hostsCSV(old), hostsCSV(now):
		default:
			t.Errorf("write %d: hosts.csv is neither old nor new: %q", n, got)
		}
	}
}

func TestTally(t *testing.T) {
	tally := sampleTally()
	got := fmt.Sprint(tally.Pages(), tally.Fetched(), tally.Finished(), tally.Bytes(), tally.Denied(), tally.Hosts(),
		tally.HostPages("a.example"), tally.HostPages("b.example"), tally.HostPages("nowhere.example"),
		tally.Started().Equal(at), tally.Errors())
	if want := "3 4 8 5024500 1 3 2 1 0 true map[dns:1 timeout-connect:2]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	tally.Errors()["dns"] = 99
	if tally.Errors()["dns"] != 1 {
		t.Error("Errors does not return a copy")
	}
	var zero Tally
	zero.Add(Visit{Host: "a.example", Code: 200})
	zero.Skipped("x")
	if zero.Hosts() != 1 {
		t.Error("the zero Tally does not count")
	}
}

// TestTallyIsBounded: a server that invents types and codes cannot fill the memory.
func TestTallyIsBounded(t *testing.T) {
	tally := NewTally()
	const n = 5000
	for i := range n {
		tally.Add(Visit{Host: "a.example", Code: 1000 + i, MIME: fmt.Sprintf("text/x%d", i),
			Error: fmt.Sprintf("e%d%s", i, strings.Repeat("x", 1000)), Seed: "s"})
	}
	if len(tally.mimes) > maxNames+1 || len(tally.status) > maxNames+1 || len(tally.errors) > maxNames+1 {
		t.Errorf("got %d types, %d codes, %d errors, want at most %d of each",
			len(tally.mimes), len(tally.status), len(tally.errors), maxNames+1)
	}
	var mimes, codes, errs int64
	for _, c := range tally.mimes {
		mimes += c.urls
	}
	for _, c := range tally.status {
		codes += c
	}
	for k, c := range tally.errors {
		errs += c
		if len(k) > maxName {
			t.Errorf("a name has %d bytes, want at most %d", len(k), maxName)
		}
	}
	if mimes != n || codes != n || errs != n {
		t.Errorf("%d types, %d codes and %d errors counted, want %d", mimes, codes, errs, n)
	}
}

func TestMIME(t *testing.T) {
	for in, want := range map[string]string{
		"": "unknown", "unknown": "unknown", "text/html": "text/html", " Text/HTML ; charset=x": "text/html",
		"text": "invalid", "text/": "invalid", "/html": "invalid", "text/html/x": "invalid", "text/ht ml": "invalid",
		"application/vnd.ms-excel.sheet+xml": "application/vnd.ms-excel.sheet+xml", "=1/x": "invalid",
		"té/x":                          "invalid",
		"a/" + strings.Repeat("x", 200): "invalid",
	} {
		if got := MIME(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestTallyEncoding(t *testing.T) {
	tally := sampleTally()
	enc := tally.AppendTo(nil)
	golden(t, "tally-1.hex", fmt.Sprintf("%x\n", enc))
	got := NewTally()
	got.Start(at)
	got.Add(Visit{Host: "old.example"})
	must.Do(t, got.Decode(enc))
	if diff := cmp.Diff(tally.Summary(time.Second, ""), got.Summary(time.Second, ""),
		cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "PeakMemory" }, cmp.Ignore())); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if string(got.AppendTo(nil)) != string(enc) || hostsCSV(got) != hostsCSV(tally) {
		t.Error("the decoded tally has another encoding or other hosts")
	}
	for i := range enc {
		if err := got.Decode(enc[:i]); !errors.Is(err, ErrTally) {
			t.Fatalf("cut at %d: got %v, want ErrTally", i, err)
		}
	}
	if err := got.Decode(append(enc, 0)); !errors.Is(err, ErrTally) {
		t.Errorf("with an extra byte: %v, want ErrTally", err)
	}
	if got.Pages() != tally.Pages() {
		t.Error("a failed Decode changed the tally")
	}
}

// TestFiles: what pages embed counts apart from pages. A tally without files is encoded as before there were any.
// TestEarlier: duplicates of earlier crawls are counted, with and without files of pages, and outlive a restart.
func TestEarlier(t *testing.T) {
	for _, file := range []bool{false, true} {
		tally := NewTally()
		tally.Add(Visit{Host: "a.example", Code: 200, Page: !file, File: file, FromSeed: !file, Duplicate: true,
			Earlier: true})
		tally.Add(Visit{Host: "a.example", Code: 200, Page: true, FromSeed: true, Duplicate: true})
		tally.Add(Visit{Host: "b.example", Code: 200, Imported: true, Duplicate: true, Earlier: true})
		got := NewTally()
		must.Do(t, got.Decode(tally.AppendTo(nil)))
		if got.Earlier() != 2 || got.Counts().Earlier != 2 || got.Duplicates() != 3 || got.Files() != tally.Files() {
			t.Errorf("%d of earlier crawls, %d duplicates, %d files", got.Earlier(), got.Duplicates(), got.Files())
		}
	}
}

func TestFiles(t *testing.T) {
	tally := NewTally()
	tally.Add(Visit{Host: "a.example", Code: 200, MIME: "text/html", Page: true})
	before := tally.AppendTo(nil)
	tally.Add(Visit{Host: "a.example", Code: 200, MIME: "text/css", File: true})
	tally.Add(Visit{Host: "b.example", Code: 200, MIME: "image/png", File: true})
	tally.Add(Visit{Host: "b.example", Code: 200, MIME: "image/png", File: true, Again: true})
	tally.Add(Visit{Host: "b.example", Code: 404, MIME: "image/png"})
	got := NewTally()
	must.Do(t, got.Decode(tally.AppendTo(nil)))
	s := got.Summary(time.Second, "")
	if s.Pages != 1 || s.Files != 3 || s.PageHosts != 1 || got.HostFiles("b.example") != 1 ||
		got.HostPages("b.example") != 0 {
		t.Errorf("got %d pages of %d hosts and %d files, %d and %d of b.example", s.Pages, s.PageHosts, s.Files,
			got.HostPages("b.example"), got.HostFiles("b.example"))
	}
	if want := "fetched  1 page and 3 files"; !strings.Contains(s.String(), want) {
		t.Errorf("the summary lacks %q:\n%s", want, s)
	}
	if !got.HostServes("b.example") || got.HostServes("c.example") {
		t.Error("b.example has served a file, and c.example nothing")
	}
	must.Do(t, got.Decode(before))
	if got.Files() != 0 || got.Pages() != 1 {
		t.Errorf("without files: got %d pages and %d files", got.Pages(), got.Files())
	}
}

// TestCauses: the Tally keeps the first cause of each kind of error, and encodes it. The report shows it without
// characters that could harm a terminal.
func TestCauses(t *testing.T) {
	tally := NewTally()
	for _, v := range []Visit{{Error: "dns"}, {Error: "tls", Cause: "x509: \x1b[31mred \u202ename"},
		{Error: "tls", Cause: "another"}, {Error: "connect"}} {
		v.Host, v.Code = "a.example", -2
		tally.Add(v)
	}
	got := NewTally()
	must.Do(t, got.Decode(tally.AppendTo(nil)))
	mem := testdisk.NewMem()
	must.Do(t, got.WriteReports(mem, "/r", got.Summary(0, "")))
	b, err := disk.ReadFile(mem, "/r/errors.csv", 1<<20)
	want := "error,urls,first_cause\ntls,2,x509: %1B[31mred %E2%80%AEname\nconnect,1,\ndns,1,\n"
	if err != nil || string(b) != want {
		t.Errorf("got %q (%v), want %q", b, err, want)
	}
}

// TestRevisits: a URL that is visited again counts as one URL with more visits.
func TestRevisits(t *testing.T) {
	var tally Tally
	page := Visit{Host: "a.example", Code: 200, MIME: "text/html", Bytes: 10, Page: true}
	tally.Add(page)
	again := page
	again.Again = true
	tally.Add(again)
	again.Unchanged, again.Code, again.Page, again.Bytes = true, 304, false, 3
	tally.Add(again)
	again.Unchanged, again.Code, again.Error, again.Bytes = false, -4, "timeout", 0
	tally.Add(again)
	s := tally.Summary(time.Second, "")
	if s.Finished != 1 || s.Revisits != 3 || s.Unchanged != 1 || s.Changed != 1 || s.Pages != 2 ||
		s.Fetched != 3 || s.Bytes != 23 {
		t.Errorf("got %+v, want 1 URL with 3 revisits, 1 of them unchanged and 1 changed", s)
	}
	if n := tally.HostPages("a.example"); n != 1 {
		t.Errorf("%d pages of the host, want 1", n)
	}
}

// TestTallyPieces: the pieces of a tally make up its encoding. No piece is much larger than requested, however many
// hosts there are.
func TestTallyPieces(t *testing.T) {
	tally := sampleTally()
	for i := range 5000 {
		tally.Add(Visit{Host: hostName(i), Seed: hostName(i % 700), Code: 200, MIME: "text/html",
			Bytes: int64(i), Page: true})
	}
	want := string(tally.AppendTo(nil))
	const entry = 200 // upper bound for the bytes of a name and its counts
	for _, size := range []int{1, 100, 4096, 1 << 20} {
		var got []byte
		pieces, ended := 0, false
		if err := tally.EachPiece(size, func(piece []byte, last bool) error {
			if ended || len(piece) > size+entry {
				t.Fatalf("size %d: a piece has %d bytes; after the last one: %v", size, len(piece), ended)
			}
			got = append(got, piece...)
			pieces++
			ended = last
			return nil
		}); err != nil || !ended {
			t.Fatalf("size %d: error %v, last piece seen: %v", size, err, ended)
		}
		if string(got) != want {
			t.Errorf("size %d: the pieces do not make up the encoding", size)
		}
		if least := len(want) / (size + entry); pieces < least {
			t.Errorf("size %d: %d pieces, want at least %d", size, pieces, least)
		}
	}
	fails := errors.New("disk full")
	calls := 0
	if err := tally.EachPiece(100, func([]byte, bool) error { calls++; return fails }); err != fails || calls != 1 {
		t.Errorf("error %v after %d calls, want %v after one", err, calls, fails)
	}
}

func FuzzTallyDecode(f *testing.F) {
	f.Add(sampleTally().AppendTo(nil))
	f.Add(NewTally().AppendTo(nil))
	f.Add([]byte{tallyVersion, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		var tally Tally
		if tally.Decode(b) != nil {
			return
		}
		enc := tally.AppendTo(nil)
		var again Tally
		if err := again.Decode(enc); err != nil || string(again.AppendTo(nil)) != string(enc) {
			t.Fatalf("the encoding of a decoded tally differs: %v", err)
		}
		_ = tally.Summary(time.Second, "x").String()
		must.Do(t, tally.WriteReports(testdisk.NewMem(), "reports", tally.Summary(0, "")))
	})
}

func TestVmHWM(t *testing.T) {
	for in, want := range map[string]int64{
		"Name:\tx\nVmHWM:\t   1234 kB\nVmRSS:\t 5 kB\n": 1234 << 10,
		"Name:\tx\n":                          0,
		"x\nVmHWM:":                           0,
		"x\nVmHWM: -1 kB\n":                   0,
		"x\nVmHWM: 99999999999999999999 kB\n": 0,
	} {
		if got := vmHWM([]byte(in)); got != want {
			t.Errorf("%q: %d, want %d", in, got, want)
		}
	}
}

func BenchmarkTallyAdd(b *testing.B) {
	t := NewTally()
	hosts := make([]string, 1000)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("h%d.example", i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		t.Add(Visit{Host: hosts[i%len(hosts)], Seed: "s.example", Code: 200, MIME: "text/html; charset=utf-8",
			Bytes: 22300, Page: true})
		i++
	}
	b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "visits/s")
}
