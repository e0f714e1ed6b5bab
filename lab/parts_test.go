package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// The system tells the processor time, the memory and the bytes of this process, and nothing of a process that is not
// there.
func TestProc(t *testing.T) {
	pid, n := os.Getpid(), 0
	for end := time.Now().Add(time.Minute); cpuOf(pid) < 20*time.Millisecond; n++ {
		if time.Now().After(end) {
			t.Fatalf("this process has worked for %s after %d rounds", cpuOf(pid), n)
		}
	}
	if s := statusOf(pid); s.VmHWM < s.VmRSS || s.VmRSS < 1<<20 || ownMemory().anon < 1<<20 || ownIO().Read == 0 {
		t.Errorf("%+v, %+v after %d rounds", s, ownIO(), n)
	}
	if cpu, s := cpuOf(1<<30), statusOf(1<<30); cpu != 0 || s.VmRSS != 0 {
		t.Errorf("no process has %v and %+v", cpu, s)
	}
	if got := field([]byte("a: b\nmodel name\t: Some CPU @ 2 GHz\n"), "model name"); got != "Some CPU @ 2 GHz" {
		t.Errorf("field = %q", got)
	}
}

func TestProcess(t *testing.T) {
	var out strings.Builder
	p, err := launch(context.Background(), "/bin/sh", []string{"-c", "echo here; echo there >&2; exit 12"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if u, err := p.wait(12, 15); err != nil || u.Wall <= 0 {
		t.Errorf("%+v, %v", u, err)
	}
	if out.String() != "here\n" || p.errors.String() != "there" {
		t.Errorf("out %q, errors %q", out.String(), p.errors.String())
	}
	p, err = launch(context.Background(), "/bin/sh", []string{"-c", "echo why >&2; exit 3"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.wait(12); err == nil || !strings.Contains(err.Error(), "why") {
		t.Errorf("the error does not say why: %v", err)
	}
	if _, err := launch(context.Background(), "/nowhere/at/all", nil, nil); err == nil {
		t.Error("a program that is not there was started")
	}
	// A process ends with the context.
	ctx, cancel := context.WithCancel(context.Background())
	p, err = launch(ctx, "/bin/sleep", []string{"600"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := p.wait(); err == nil {
		t.Error("an end by a signal is no error")
	}
}

func TestKeptBytes(t *testing.T) {
	var k keptBytes
	k.Write([]byte("the beginning\n"))
	if s := k.end(); s != "the beginning" {
		t.Errorf("%q", s)
	}
	for range 10_000 {
		k.Write([]byte(strings.Repeat("x", 99) + "\n"))
	}
	k.Write([]byte("the end\n"))
	if s := k.String(); len(s) > keepHead+keepTail || !strings.HasPrefix(s, "the beginning\nx") ||
		!strings.HasSuffix(s, "x\nthe end") || len(k.end()) > keepTail || !strings.HasSuffix(k.end(), "the end") {
		t.Errorf("%d bytes, %q", len(s), k.end())
	}
	if k.reset(); k.String() != "" {
		t.Errorf("%q after reset", k.String())
	}
}

func TestProgressLines(t *testing.T) {
	var got []int64
	p := progress(func(l progressLine) { got = append(got, l.Pages) })
	for _, s := range []string{`{"type":"progress","pages":1}` + "\n",
		`{"type":"note","message":"m"}` + "\n" + `{"type":"progress","pa`,
		`ges":22}`, "\nno JSON\n" + `{"type": bad}` + "\n" + `{"type":"progress","pages":3}` + "\n"} {
		if n, err := p.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatal(n, err)
		}
	}
	if d := cmp.Diff([]int64{1, 22, 3}, got); d != "" {
		t.Error(d)
	}
}

func TestFetchingTime(t *testing.T) {
	const log = "2026-11-21T08:00:00.500Z   200        100 http://a.example/robots.txt P http://a.example/ " +
		"text/plain #001 20261121075959000+10 - - -\n" +
		"2026-11-21T08:00:00.500Z   404         10 http://a.example/no L http://a.example/ text/html #001 " +
		"20261121080000000+10 - - -\n" +
		"2026-11-21T08:00:00.500Z   200      22300 http://a.example/ - - text/html #001 20261121080000100+250 - " +
		"- -\n" +
		"2026-11-21T08:00:00.500Z -9998          - http://a.example/denied L http://a.example/ unknown #001 - - - -\n" +
		"2026-11-21T08:00:02.500Z   301          5 http://a.example/r L http://a.example/ text/html #002 " +
		"20261121080002000+150 - - -\n"
	dir := t.TempDir()
	write := func(log string) {
		must.Do(t, os.MkdirAll(filepath.Join(dir, "logs"), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(dir, "logs", "crawl.log"), []byte(log), 0o644))
	}
	write(log)
	got, err := fetchingTime(dir)
	if want := 2050 * time.Millisecond; err != nil || got != want {
		t.Errorf("fetching took %v, %v, want %v", got, err, want)
	}
	const quick = "2026-11-21T08:00:00.500Z   200      22300 http://a.example/ - - text/html #001 " +
		"20261121080000100+0 - - -\n"
	write(quick)
	if got, err := fetchingTime(dir); err != nil || got != time.Millisecond {
		t.Errorf("one page within a millisecond took %v, %v", got, err)
	}
	for _, bad := range []string{"", "torn line\n"} {
		write(bad)
		if _, err := fetchingTime(dir); err == nil {
			t.Errorf("the log %q is no error", bad)
		}
	}
}

func TestWriteURLs(t *testing.T) {
	name := filepath.Join(t.TempDir(), "urls")
	spec := gen.Plain(7, 20)
	if err := writeURLs(name, spec, 50); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) != 50 {
		t.Fatalf("%d lines", len(lines))
	}
	w, err := gen.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		host, _, _ := strings.Cut(strings.TrimPrefix(l, "http://"), "/")
		if _, ok := w.Find(host); !ok {
			t.Errorf("%q is not of this web", l)
		}
	}
}

func TestIdentity(t *testing.T) {
	w, err := gen.New(gen.Plain(1, 10))
	if err != nil {
		t.Fatal(err)
	}
	q := testweb.Query{Host: 0, Target: w.Target(0, 0), Gzip: true}
	got, _ := identity{w}.Answer(nil, q)
	q.Gzip = false
	want, _ := w.Answer(nil, q)
	if string(got) != string(want) {
		t.Error("the body is not as it is")
	}
}

func TestViolations(t *testing.T) {
	if got := violations(&testweb.Report{ViolationCount: map[string]int64{"gap": 0}}); got != "" {
		t.Errorf("a polite crawl: %q", got)
	}
	got := violations(&testweb.Report{ViolationCount: map[string]int64{"robots": 2},
		Violations: make([]testweb.Violation, 12)})
	if !strings.Contains(got, "2 of robots") || strings.Count(got, "\n") != 11 {
		t.Errorf("%q", got)
	}
}

// The tables and the verdict follow from given measurements.
func TestVerdict(t *testing.T) {
	x := &Throughput{Agents: []Program{{Name: "agent"}}}
	x.defaults(false)
	var ms []measurement
	for i, rates := range [][2]float64{{10000, 4000}, {9000, 4500}, {11000, 6600}} {
		for j, who := range []string{"bare", "agent"} {
			m := measurement{Kind: "gzip", Who: who, Round: i + 1, Pages: 100, PagesPerS: rates[j],
				FetchingPerS: rates[j] * 1.1, CPU: time.Duration(j+1) * 80 * time.Microsecond}
			if who == "agent" {
				m.Crawl = &crawlRun{Report: &testweb.Report{TLS: testweb.TLSReport{Full: 1, Resumed: 3},
					Origin: &testweb.OriginReport{Reachable: 100, Missed: 1}}}
				m.Crawl.Summary.StopReason = "finished"
			}
			ms = append(ms, m)
		}
	}
	ms = append(ms, measurement{Kind: "gzip", Who: "agent", Round: 0, PagesPerS: 1, FetchingPerS: 1, Pages: 10,
		CPU: time.Millisecond})
	r := x.result([]kind{kinds[1]}, ms)
	ratio := `at(pages_per_s, "program", "agent", "round", %d)/at(pages_per_s, "program", "bare", "round", %d)`
	holds(t, r, fmt.Sprintf(ratio+" == 0.4", 1, 1), fmt.Sprintf(ratio+" == 0.5", 2, 2), "size(wall_s) == 7")
	text := rendered(t, r)
	// The ratio is the middle of 0.4, 0.5 and 0.6, and the rate that of 4000, 4500 and 6600: round 0 does not count.
	for _, want := range []string{"above the floor", "|  0.50 |", "|           4,500 |", "seed 1", " 75.0 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
	for i, rate := range []float64{900, 900} { // in the first two of three rounds, with 4000 and 4500 with gzip
		ms = append(ms, measurement{Kind: "tls", Who: "agent", Round: i + 1, Pages: 10, PagesPerS: rate,
			FetchingPerS: rate})
	}
	if text := rendered(t, x.result(kinds, ms)); !strings.Contains(text, "|          0.21 |") {
		t.Errorf("TLS to gzip is not 0.21, the middle of 0.225 and 0.2:\n%s", text)
	}
	for _, c := range []struct {
		rate float64
		want string
	}{{3990, "below the floor"}, {4000, "above the floor"}, {7500, "the aim is reached"}} {
		ms := []measurement{{Kind: "gzip", Who: "bare", Round: 1, PagesPerS: 10000, FetchingPerS: 10000},
			{Kind: "gzip", Who: "agent", Round: 1, PagesPerS: c.rate, FetchingPerS: 9000}}
		if text := rendered(t, x.result(kinds, ms)); !strings.Contains(text, c.want) {
			t.Errorf("with %g of 10000 pages/s the text does not say %q:\n%s", c.rate, c.want, text)
		}
	}
}
