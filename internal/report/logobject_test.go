package report

import (
	"bytes"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A logObject is a line of crawl.jsonl.
type logObject struct {
	TS     string   `json:"ts"`
	Status int      `json:"status"`
	Size   *int64   `json:"size"`
	URL    string   `json:"url"`
	Hops   string   `json:"hops"`
	Via    string   `json:"via"`
	MIME   string   `json:"mime"`
	Worker int      `json:"worker"`
	Time   string   `json:"time"`
	TookS  float64  `json:"took_s"`
	Digest string   `json:"digest"`
	Seed   string   `json:"seed"`
	Error  string   `json:"error"`
	Notes  []string `json:"notes"`
}

// objectOf returns what the object for a line of crawl.log must say, by ReadLine.
func objectOf(l Line) logObject {
	o := logObject{TS: l.Time.Format(logTime), Status: l.Code, URL: l.URL, Hops: l.Hops, Via: l.Via, MIME: l.MIME,
		Worker: l.Thread, Seed: l.Seed, Notes: l.Notes}
	if l.Size >= 0 {
		o.Size = &l.Size
	}
	if !l.Began.IsZero() {
		o.Time, o.TookS = l.Began.Format(logTime), float64(l.Took.Milliseconds())/1000
	}
	if l.HasDigest {
		o.Digest = "sha1:" + base32.StdEncoding.EncodeToString(l.Digest[:])
	}
	for _, n := range l.Notes {
		if kind, ok := strings.CutPrefix(n, "error:"); ok {
			o.Error = kind
			break
		}
	}
	return o
}

// checkObject checks the object for a line of crawl.log that Line.AppendTo has written.
func checkObject(t *testing.T, line []byte) {
	t.Helper()
	read, err := ReadLine(string(line))
	must.Do(t, err)
	text := appendObject(nil, bytes.TrimSuffix(line, []byte("\n")))
	var got logObject
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil || bytes.IndexByte(text, '\n') != len(text)-1 {
		t.Fatalf("%q becomes %q: %v", line, text, err)
	}
	if diff := cmp.Diff(objectOf(read), got); diff != "" {
		t.Errorf("%q becomes %q: -want +got\n%s", line, text, diff)
	}
}

func TestObject(t *testing.T) {
	full := fullLine()
	full.Notes = append(full.Notes, "error:connect", "cause:dial \"x\"")
	for _, c := range []struct {
		line Line
		want string
	}{
		{full, `{"ts":"2026-01-02T03:04:05.678Z","status":200,"size":12345,"url":"http://a.example/x?y","hops":"LLE",` +
			`"via":"http://a.example/","mime":"text/html","worker":7,"time":"2026-01-02T03:04:04.178Z",` +
			`"took_s":1.234,"digest":"sha1:AAGRUJZUIFHFW2DVQKHZZKNWYPIN32XX","seed":"a.example","error":"connect",` +
			`"notes":["2t","truncated:length","error:connect","cause:dial%20\"x\""]}`},
		{Line{Time: at, Code: CodeDNS, Size: -1, URL: "http://a.example/"},
			`{"ts":"2026-01-02T03:04:05.678Z","status":-1,"url":"http://a.example/","worker":0}`},
		{Line{Time: at, Code: 200, URL: "http://a.example/é\\", Began: at, Took: 20 * time.Millisecond},
			`{"ts":"2026-01-02T03:04:05.678Z","status":200,"size":0,"url":"http://a.example/é\\","worker":0,` +
				`"time":"2026-01-02T03:04:05.678Z","took_s":0.020}`},
	} {
		line := c.line.AppendTo(nil)
		if diff := cmp.Diff(c.want+"\n", string(appendObject(nil, bytes.TrimSuffix(line, []byte("\n"))))); diff != "" {
			t.Errorf("%s-want +got\n%s", line, diff)
		}
		checkObject(t, line)
	}
	for _, bad := range []string{"", "x", strings.Repeat("x ", 20),
		"2009-04-09T08:23:41.640Z 1 53 dns:a P b c #1 - - -"} {
		if got := appendObject(nil, []byte(bad)); len(got) > 0 {
			t.Errorf("%q becomes %q", bad, got)
		}
	}
}

// FuzzObject writes hostile texts to crawl.log: the object must be JSON, by package json, and say the same.
func FuzzObject(f *testing.F) {
	f.Add("http://a.example/\"\\\x00\xff", "LL", "http://b\u2028/", "text/html;\r\n<>", "seed&", "error:dns",
		"cause:a,b", 200, int64(5), int64(1e12))
	f.Add("", "", "", "", "", "", "", -1, int64(-1), int64(0))
	f.Add("-", "unknown", "\x7f", "\xc2\x85", "%", "error:", ",", 0, int64(0), int64(-1))
	f.Fuzz(func(t *testing.T, url, hops, via, mime, seed, note, more string, code int, size, ms int64) {
		if mime == "-" { // is none in a line of Heritrix
			return
		}
		l := Line{Time: at, Code: code % 1e6, Size: size % 1e17, URL: url, Hops: hops, Via: via, MIME: mime, Seed: seed,
			Thread: len(url), HasDigest: size%2 == 0, Notes: []string{note, more}}
		if ms > 0 {
			l.Began, l.Took = time.UnixMilli(ms%4e12).UTC(), time.Duration(ms%1e9)*time.Millisecond
		}
		checkObject(t, l.AppendTo(nil))
	})
}

// FuzzObjectOfDamage damages a line of crawl.log: its object is JSON, by package json, or the line is left out.
func FuzzObjectOfDamage(f *testing.F) {
	l := fullLine()
	line := bytes.TrimSuffix(l.AppendTo(nil), []byte("\n"))
	for at := range line {
		f.Add(at, []byte(`"`))
	}
	f.Add(bytes.IndexByte(line, '+')+1, []byte("-5")) // no time is negative
	f.Add(bytes.IndexByte(line, '#')+1, []byte("-5"))
	f.Add(0, []byte("2026-01-02T03:04:05.678\xff"))
	f.Fuzz(func(t *testing.T, at int, damage []byte) {
		damaged := bytes.Clone(line)
		copy(damaged[min(max(at, 0), len(line)):], bytes.ReplaceAll(damage, []byte("\n"), nil))
		text := appendObject(nil, damaged)
		if len(text) > 0 && (!json.Valid(text) || bytes.IndexByte(text, '\n') != len(text)-1) {
			t.Errorf("%q becomes %q", damaged, text)
		}
	})
}

// TestObjectOfDamage leaves a line out if one of its numbers or times is damaged.
func TestObjectOfDamage(t *testing.T) {
	l := fullLine()
	line := bytes.TrimSuffix(l.AppendTo(nil), []byte("\n"))
	for _, old := range []string{"2026-01-02T", " 200 ", " 12345 ", "#007", "20260102030404178", "+1234"} {
		if n := bytes.Count(line, []byte(old)); n != 1 {
			t.Fatalf("%q is %d times in %q", old, n, line)
		}
		for i := range old {
			damaged := bytes.Clone(line)
			if damaged[bytes.Index(line, []byte(old))+i] = '"'; old[i] == ' ' {
				continue
			}
			if got := appendObject(nil, damaged); len(got) > 0 {
				t.Errorf("%q becomes %q", damaged, got)
			}
		}
	}
}

// TestLogObjects: crawl.jsonl has the object of each line of crawl.log.
func TestLogObjects(t *testing.T) {
	fs := testdisk.NewMem()
	l := must.Get(OpenLog(fs, "logs/crawl.log"))(t)
	for n := range 100 {
		line := fullLine()
		line.URL = fmt.Sprintf("http://a.example/%d", n)
		l.Write(line)
	}
	must.Do(t, l.Flush())
	objects := strings.Split(strings.TrimSuffix(file(t, fs, "logs/crawl.jsonl"), "\n"), "\n")
	for i, line := range strings.Split(strings.TrimSuffix(file(t, fs, "logs/crawl.log"), "\n"), "\n") {
		want := strings.TrimSuffix(string(appendObject(nil, []byte(line))), "\n")
		if i >= len(objects) || objects[i] != want {
			t.Fatalf("crawl.jsonl does not agree with crawl.log in line %d", i)
		}
	}
	must.Do(t, l.Close())
}

// BenchmarkObject makes the object for the line of a page. It must take less than 1 % of the time of a page, which is
// some 200 µs of a processor, and allocate nothing.
func BenchmarkObject(b *testing.B) {
	l := Line{Time: at, Code: 200, Size: 22300, URL: "http://h000123.example/section/page-4567.html", Hops: "LLL",
		Via: "http://h000077.example/other/page-12.html", MIME: "text/html", Thread: 123, Began: at, Took: 12345678,
		HasDigest: true, Seed: "h000000.example", Notes: []string{"2t", "truncated:length"}}
	line := bytes.TrimSuffix(l.AppendTo(nil), []byte("\n"))
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = appendObject(buf[:0], line)
	}
}

// TestObjectAllocates nothing for the line of a page.
func TestObjectAllocates(t *testing.T) {
	l := fullLine()
	line := bytes.TrimSuffix(l.AppendTo(nil), []byte("\n"))
	buf := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() { buf = appendObject(buf[:0], line) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
