package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC)

func fullLine() Line {
	l := Line{
		Time: at, Code: 200, Size: 12345, URL: "http://a.example/x?y", Hops: "LLE", Via: "http://a.example/",
		MIME: "text/html", Thread: 7, Began: at.Add(-1500 * time.Millisecond), Took: 1234567 * time.Microsecond,
		HasDigest: true, Seed: "a.example", Notes: []string{"2t", "truncated:length"},
	}
	for i := range l.Digest {
		l.Digest[i] = byte(i * 13)
	}
	return l
}

func TestLine(t *testing.T) {
	full := fullLine()
	tests := []struct {
		name string
		line Line
		want string
	}{
		{"full", full,
			"2026-01-02T03:04:05.678Z   200      12345 http://a.example/x?y LLE http://a.example/ text/html #007 " +
				"20260102030404178+1234 sha1:AAGRUJZUIFHFW2DVQKHZZKNWYPIN32XX a.example 2t,truncated:length"},
		{"least", Line{Time: at, Code: CodeDNS, Size: -1, URL: "http://a.example/"},
			"2026-01-02T03:04:05.678Z    -1          - http://a.example/ - - unknown #000 - - - -"},
		{"wide", Line{Time: at, Code: CodeRobotsDenied, Size: 123456789012, URL: "u", Thread: 12345},
			"2026-01-02T03:04:05.678Z -9998 123456789012 u - - unknown #12345 - - - -"},
		{"two digits", Line{Time: at, Code: 404, Size: 0, URL: "u", Thread: 42},
			"2026-01-02T03:04:05.678Z   404          0 u - - unknown #042 - - - -"},
		{"hostile", Line{Time: at, Code: 1, Size: -5, URL: "a b\nc\x1b[2Jd\u202ee\xffé\u0085\u00a0",
			MIME: "text/\thtml\r\n", Seed: "x y", Notes: []string{"rule: a,b", "", "\n"}, Took: -time.Second, Began: at,
			Thread: -1},
			"2026-01-02T03:04:05.678Z     1          - a%20b%0Ac%1B[2Jd%E2%80%AEe%FFé%C2%85%C2%A0 - - " +
				"text/%09html%0D%0A #000 20260102030405678+0 - x%20y rule:%20a%2Cb,%0A"},
		{"another zone", Line{Time: at.In(time.FixedZone("", 3600)), Code: 200, Size: -1, URL: "u",
			Began: at.In(time.FixedZone("", -7200))},
			"2026-01-02T03:04:05.678Z   200          - u - - unknown #000 20260102030405678+0 - - -"},
	}
	for _, tt := range tests {
		got := string(tt.line.AppendTo([]byte("before ")))
		if diff := cmp.Diff("before "+tt.want+"\n", got); diff != "" {
			t.Errorf("%s: -want +got\n%s", tt.name, diff)
		}
		if n := len(strings.Fields(tt.want)); n != 12 {
			t.Errorf("%s: got %d columns, want 12", tt.name, n)
		}
	}
	// A very long URL is cut.
	long := Line{Time: at, Code: 200, Size: 1, URL: strings.Repeat("x", 1<<20)}
	if n := len(long.AppendTo(nil)); n > maxColumn+200 {
		t.Errorf("a line has %d bytes, want at most %d", n, maxColumn+200)
	}
}

func TestReadLine(t *testing.T) {
	full := fullLine()
	got, err := ReadLine(string(full.AppendTo(nil)))
	must.Do(t, err)
	want := full // times are kept in milliseconds
	want.Time, want.Began, want.Took = at.Truncate(time.Millisecond), full.Began.Truncate(time.Millisecond),
		1234*time.Millisecond
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}

	// Lines of Heritrix.
	for _, tt := range []struct {
		line string
		want Line
	}{
		{"2009-04-09T08:23:41.640Z     1         53 dns:www.archive.org P http://www.archive.org/ text/dns #013 " +
			"20090409082341471+164 sha1:TIIYQ5UNYGUR65HYDBKNXCYVZD5ZZNBN - ",
			Line{Code: 1, Size: 53, URL: "dns:www.archive.org", Hops: "P", Via: "http://www.archive.org/",
				MIME: "text/dns", Thread: 13, Took: 164 * time.Millisecond, HasDigest: true}},
		{"2009-04-09T08:23:41.640Z -9998          - http://a.example/ L http://b.example/ unknown #041 - - " +
			"http://b.example/ 1t,in scope",
			Line{Code: -9998, Size: -1, URL: "http://a.example/", Hops: "L", Via: "http://b.example/", Thread: 41,
				Seed: "http://b.example/", Notes: []string{"1t", "in scope"}}},
	} {
		got, err := ReadLine(tt.line)
		if err != nil {
			t.Errorf("%s: %v", tt.line, err)
			continue
		}
		if tt.want.Took > 0 && got.Began.Format(startTime) != "20090409082341.471" {
			t.Errorf("began: got %v, want 2009-04-09 08:23:41.471", got.Began)
		}
		got.Time, got.Began, got.Digest = time.Time{}, time.Time{}, [20]byte{}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", tt.line, diff)
		}
	}

	good := strings.TrimSuffix(string(full.AppendTo(nil)), "\n")
	for _, bad := range []string{
		"", " ", "x", good[:30], good[5:],
		strings.Replace(good, "200", "2oo", 1),
		strings.Replace(good, " 12345", " -2", 1),
		strings.Replace(good, "#007", "007", 1),
		strings.Replace(good, "#007", "#-07", 1),
		strings.Replace(good, "+1234", "", 1),
		strings.Replace(good, "+1234", "+-1", 1),
		strings.Replace(good, "+1234", "+9223372036854775807", 1),
		strings.Replace(good, "20260102030404178", "20261302030404178", 1),
		strings.Replace(good, "sha1:", "md5:", 1),
		strings.Replace(good, "sha1:AAG", "sha1:A", 1),
	} {
		if l, err := ReadLine(bad); !errors.Is(err, ErrLine) {
			t.Errorf("ReadLine(%q): got %+v, %v, want ErrLine", bad, l, err)
		}
	}
}

func FuzzReadLine(f *testing.F) {
	full := fullLine()
	f.Add(string(full.AppendTo(nil)))
	f.Add("2009-04-09T08:23:41.640Z -9998          - http://a.example/ L http://b.example/ unknown #041 - - - 1t,in " +
		"scope")
	f.Add("2009-04-09T08:23:41.640Z 1 - - - - - #1 - - -")
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ReadLine(s)
		if err != nil {
			return
		}
		// A line that was read can be written again as one line of twelve columns. From then on reading and writing do
		// not change it.
		once := string(l.AppendTo(nil))
		if strings.Count(once, "\n") != 1 || len(strings.Fields(once)) != 12 {
			t.Fatalf("%q becomes %q", s, once)
		}
		again, err := ReadLine(once)
		if err != nil {
			t.Fatalf("%q becomes %q: %v", s, once, err)
		}
		if twice := string(again.AppendTo(nil)); twice != once {
			t.Fatalf("%q becomes %q", once, twice)
		}
	})
}

func TestCodeText(t *testing.T) {
	for code, want := range map[int]string{200: "", 404: "", -1: "DNS look-up failed", -9998: "denied by robots.txt",
		-12345: "code -12345", 0: "not tried"} {
		if got := CodeText(code); got != want {
			t.Errorf("%d: %q, want %q", code, got, want)
		}
	}
}

// file returns the content of a log's file.
func file(t *testing.T, fs disk.FS, name string) string {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	must.Do(t, err)
	defer f.Close()
	b, err := io.ReadAll(f)
	must.Do(t, err)
	return string(b)
}

// TestTornLine opens a log that a crash has truncated at any byte: complete lines stay.
func TestTornLine(t *testing.T) {
	lines := "one\ntwo\n" + strings.Repeat("x", 5000) + "\n" + strings.Repeat("y", 9000) + "\n"
	for cut := 0; cut <= len(lines); cut++ {
		if cut > 20 && cut < len(lines)-3 && cut%997 != 0 && cut != 5008 && cut != 5009 {
			continue
		}
		fs := testdisk.NewMem()
		name := filepath.Join("logs", "crawl.log")
		must.Do(t, fs.MkdirAll("logs", 0o755))
		must.Do(t, disk.WriteFile(fs, name, []byte(lines[:cut])))
		l, err := OpenLog(fs, name)
		must.Do(t, err)
		l.Write(Line{Time: at, Code: 200, Size: 1, URL: "new"})
		must.Do(t, l.Close())
		whole := lines[:strings.LastIndexByte(lines[:cut], '\n')+1]
		got := file(t, fs, name)
		if rest, ok := strings.CutPrefix(got, whole); !ok || !strings.HasPrefix(rest, "2026-") ||
			strings.Count(rest, "\n") != 1 {
			t.Errorf("cut at %d: got %.60q, want the complete lines and a new one", cut, got)
		}
	}
}

// TestStickyError: after an error nothing more is written, so that the log has no gap, and all methods return the
// error.
func TestStickyError(t *testing.T) {
	faulty := testdisk.NewFaulty(testdisk.NewMem(), nil)
	l, err := OpenLog(faulty, "logs/crawl.log")
	must.Do(t, err)
	l.Write(Line{Time: at, URL: "kept"})
	must.Do(t, l.Sync())
	faulty.Break(testdisk.FullAfter(10))
	l.Write(Line{Time: at, URL: "torn"})
	if err := l.Flush(); !disk.IsFull(err) || !strings.Contains(err.Error(), "logs/crawl.log") {
		t.Fatalf("flush on a full disk: got %v, want an error with the log's name", err)
	}
	faulty.Heal()
	l.Write(Line{Time: at, URL: "late"})
	for name, err := range map[string]error{"flush": l.Flush(), "sync": l.Sync(), "err": l.Err()} {
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s after the error: %v", name, err)
		}
	}
	if err := l.Close(); !disk.IsFull(err) {
		t.Errorf("close: got %v, want ENOSPC", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("second close: got %v, want nil", err)
	}
	// The next run removes the incomplete line.
	if l, err = OpenLog(faulty, "logs/crawl.log"); err != nil {
		t.Fatal(err)
	}
	l.Write(Line{Time: at, URL: "next"})
	must.Do(t, l.Close())
	got := file(t, faulty, "logs/crawl.log")
	if strings.Count(got, "\n") != 2 || !strings.Contains(got, " kept ") || !strings.Contains(got, " next ") {
		t.Errorf("got %q, want the lines \"kept\" and \"next\"", got)
	}
}

// TestOpenFails lets each call of the disk fail: OpenSkipped returns the error.
func TestOpenFails(t *testing.T) {
	for n := int64(1); n <= 2; n++ {
		faulty := testdisk.NewFaulty(testdisk.NewMem(), testdisk.FailAt(n, syscall.EIO))
		if _, err := OpenSkipped(faulty, "reports/skipped.jsonl"); !errors.Is(err, syscall.EIO) {
			t.Errorf("call %d: got %v, want EIO", n, err)
		}
	}
}

// TestOpenErrorNamesTheLogOnce: an error of package os repeats the path; the log's error does not.
func TestOpenErrorNamesTheLogOnce(t *testing.T) {
	name := filepath.Join(t.TempDir(), "crawl.log")
	must.Do(t, os.Mkdir(name, 0o755))
	_, err := OpenLog(disk.OS, name)
	if want := "log " + name + ": open: " + syscall.EISDIR.Error(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestConcurrentLines(t *testing.T) {
	fs := testdisk.NewMem()
	l, err := OpenLog(fs, "crawl.log")
	must.Do(t, err)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 500 {
				l.Write(Line{Time: at, Code: 200, Size: 5, URL: "http://a.example/", Thread: i})
				if i == 0 {
					l.Flush()
				}
			}
		})
	}
	wg.Wait()
	must.Do(t, l.Close())
	got := strings.Split(strings.TrimSuffix(file(t, fs, "crawl.log"), "\n"), "\n")
	if len(got) != 2000 {
		t.Fatalf("%d lines, want 2000", len(got))
	}
	threads := map[int]int{}
	for _, s := range got {
		l, err := ReadLine(s)
		must.Do(t, err)
		threads[l.Thread]++
	}
	if diff := cmp.Diff(map[int]int{0: 500, 1: 500, 2: 500, 3: 500}, threads); diff != "" {
		t.Error(diff)
	}
}

func TestEvents(t *testing.T) {
	fs := testdisk.NewMem()
	now := at
	e, err := OpenEvents(fs, "logs/events.jsonl", testclock.Func(func() time.Time { return now }))
	must.Do(t, err)
	e.Write("started")
	now = now.Add(time.Second)
	e.Write("host-paused", F("host", "a\n\u2028.example"), F("status", 429), F("until", at),
		F("for", 1500*time.Millisecond), F("never", time.Time{}))
	e.Write("error", F("error", fmt.Errorf("disk: %w", syscall.ENOSPC)), F("odd", make(chan int) == nil),
		F("bad", func() {}))
	must.Do(t, e.Close())
	got := strings.Split(file(t, fs, "logs/events.jsonl"), "\n")
	want := []string{
		`{"type":"event","time":"2026-01-02T03:04:05.678Z","event":"started"}`,
		`{"type":"event","time":"2026-01-02T03:04:06.678Z","event":"host-paused","host":"a\n\u2028.example","status":429,"until":"2026-01-02T03:04:05.678Z","for":1.5,"never":null}`,
	}
	if diff := cmp.Diff(want, got[:2]); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, l := range got[:3] {
		if !json.Valid([]byte(l)) {
			t.Errorf("not JSON: %s", l)
		}
	}
	if !strings.Contains(got[2], `"error":"disk: no space left on device"`) {
		t.Errorf("the error event lacks its text: %s", got[2])
	}
}

func TestSkipped(t *testing.T) {
	fs := testdisk.NewMem()
	s, err := OpenSkipped(fs, "reports/skipped.jsonl")
	must.Do(t, err)
	s.Write(Skip{Time: at, URL: "http://b.example/?a&b", Via: "http://a.example/", Hops: "LE", Depth: 1,
		Seed: "a.example", Reason: "outOfScope"})
	s.Write(Skip{URL: "http://a.example/\"", Reason: "trap", Rule: "path of 99 segments",
		Time: at.Truncate(time.Second)})
	must.Do(t, s.Close())
	want :=
		`{"ts":"2026-01-02T03:04:05.678Z","url":"http://b.example/?a\u0026b","via":"http://a.example/","hops":"LE",` +
			`"seed":"a.example","reason":"outOfScope","depth":1}
{"ts":"2026-01-02T03:04:05.000Z","url":"http://a.example/\"","reason":"trap","rule":"path of 99 segments","depth":0}
`
	if diff := cmp.Diff(want, file(t, fs, "reports/skipped.jsonl")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAppendTime(t *testing.T) {
	check := func(at time.Time) {
		t.Helper()
		if got, want := string(appendTime(nil, at, true)), at.UTC().Format(logTime); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := string(appendTime(nil, at, false)),
			strings.Replace(at.UTC().Format(startTime), ".", "", 1); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		check(time.Unix(rnd.Int64N(1<<39)-1<<37, rnd.Int64N(1e9)).In(time.FixedZone("x", 3600)))
	}
	for _, year := range []int{-1, 0, 1, 9999, 10000, 123456} {
		check(time.Date(year, 2, 28, 23, 59, 59, 999_999_999, time.UTC))
	}
}

// BenchmarkLog writes lines of pages, as a crawl does.
func BenchmarkLog(b *testing.B) {
	l, err := OpenLog(disk.OS, filepath.Join(b.TempDir(), "crawl.log"))
	must.Do(b, err)
	defer l.Close()
	b.ReportAllocs()
	n := 0
	for ; b.Loop(); n++ {
		l.Write(Line{
			Time: at.Add(time.Duration(n) * time.Millisecond), Code: 200, Size: 22300,
			URL: "http://h000123.example/section/page-4567.html", Hops: "LLL",
			Via: "http://h000077.example/other/page-12.html", MIME: "text/html; charset=utf-8", Thread: 123,
			Began: at, Took: 12345678, Digest: [20]byte{1, 2, 3, byte(n)}, HasDigest: true, Seed: "h000000.example",
		})
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "lines/s")
}

// FuzzSkip compares the meaning of a line with the output of encoding/json. The line may have more escapes, because
// people read it on terminals.
func FuzzSkip(f *testing.F) {
	f.Add("http://a.example/?a=1&b=2", "", "LL", "a.example", "outOfScope", "x\u2028<>\"\\", int64(0))
	f.Add("http://é.example/\xff", "\x00\n", "", "", "", "", int64(1<<40))
	f.Fuzz(func(t *testing.T, url, via, hops, seed, reason, rule string, unix int64) {
		k := Skip{URL: url, Via: via, Hops: hops, Seed: seed, Reason: reason, Rule: rule}
		k.Time = time.UnixMilli(unix % (1 << 47)).UTC()
		k.Depth = len(hops)
		want, err := json.Marshal(k)
		if err != nil {
			return // JSON has no form for this time
		}
		line := k.appendTo(nil)
		var got, expected Skip
		if err := errors.Join(json.Unmarshal(line, &got), json.Unmarshal(want, &expected)); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if got != expected {
			t.Errorf("%q means\n     %+v\nwant %+v", line, got, expected)
		}
		if text := strings.TrimSuffix(string(line), "\n"); text != OneLine(text) {
			t.Errorf("%q is not safe to show", line)
		}
	})
}

// BenchmarkSkipped writes lines of links that are not followed.
func BenchmarkSkipped(b *testing.B) {
	s, err := OpenSkipped(disk.OS, filepath.Join(b.TempDir(), "skipped.jsonl"))
	must.Do(b, err)
	defer s.Close()
	b.ReportAllocs()
	for b.Loop() {
		s.Write(Skip{URL: "http://h000123.example/section/page-4567.html?a=1&b=2",
			Via: "http://h000077.example/other/page-12.html", Hops: "LLL", Seed: "h000000.example",
			Reason: "outOfScope", Rule: "host"})
	}
}

// A Tail has the lines of the log, however their URLs and times are written.
func TestTail(t *testing.T) {
	fs := testdisk.NewMem()
	l, err := OpenLog(fs, "/logs/crawl.log")
	must.Do(t, err)
	began := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	if tail, err := l.Tail(); err != nil || !tail.Empty() {
		t.Fatalf("a new log is not empty: %v", err)
	}
	long := "http://a.example/" + strings.Repeat("x", 2*maxColumn)
	for _, line := range []Line{
		{Code: 200, URL: "http://a.example/", Began: began}, {Code: -9998, URL: "http://a.example/no"},
		{Code: 200, URL: long, Began: began},
	} {
		l.Write(line)
	}
	must.Do(t, l.Flush())
	tail, err := l.Tail()
	if err != nil || tail.Empty() {
		t.Fatal("the log is empty", err)
	}
	for _, c := range []struct {
		url   string
		code  int
		began time.Time
		want  bool
	}{
		{"http://a.example/", 200, began, true},
		{"http://a.example/", 404, began, false},
		{"http://a.example/", 200, began.Add(time.Second), false},
		{"http://a.example/", 200, time.Time{}, false},
		{"http://a.example/no", -9998, time.Time{}, true},
		{"http://a.example/n", -9998, time.Time{}, false},
		{long, 200, began, true},
	} {
		if got := tail.Has(c.url, c.code, c.began); got != c.want {
			t.Errorf("Has(%.30s, %d, %s) = %v", c.url, c.code, c.began, got)
		}
	}
	// Of a long log, the last lines are there, and none that was cut.
	for n := range 2 * unsynced / maxColumn {
		l.Write(Line{Code: 200, URL: fmt.Sprint(n, long)})
	}
	must.Do(t, l.Flush())
	if tail, err = l.Tail(); err != nil || !tail.Has(fmt.Sprint(2*unsynced/maxColumn-1, long), 200, time.Time{}) ||
		tail.Has("http://a.example/", 200, began) {
		t.Error("the tail does not have the last lines only", err)
	}
	must.Do(t, l.Close())
}
