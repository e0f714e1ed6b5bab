package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/web/classify"
)

// fake is an experiment with given results.
type fake struct {
	err   error
	wrote string // a file of its run
}

func (f *fake) Run(_ context.Context, t *Trial) (*Result, error) {
	f.wrote = filepath.Join(t.Dir, "large")
	if err := os.WriteFile(f.wrote, nil, 0o644); err != nil {
		return nil, err
	}
	done := t.step("a step, %d", 1)
	t.partial("%d", 7)
	done("%s", "well")
	r := (&Near{}).result(&nearRun{pages: 1234567, scores: []NearScore{{Truth: "versions", Level: 0.9,
		Detector: "odd sketch", Precision: classify.Share{Right: 1, Of: 2}, Recall: classify.Share{Right: 3, Of: 4}}}})
	r.Name, r.Template = "fake", "near"
	return r, f.err
}

// rendered returns the text of a result, whose picture must be well-formed.
func rendered(t *testing.T, r *Result) string {
	t.Helper()
	out := t.TempDir()
	if _, err := r.render(out, Machine{}, true, 1); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(out, r.Name+".svg"))
	if err != nil {
		t.Fatal(err)
	}
	words(t, svg)
	text, err := os.ReadFile(filepath.Join(out, r.Name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// holds checks expressions over the measurements of a result: the value of each must be 1, for true.
func holds(t *testing.T, r *Result, expressions ...string) {
	t.Helper()
	for _, e := range expressions {
		if v, err := (subset{d: r.Rows}).value(e); err != nil || v.one() != 1.0 {
			t.Errorf("%s is %v, %v", e, v, err)
		}
	}
}

// The stored results are what the templates make of their data.
func TestStoredResults(t *testing.T) {
	names, err := filepath.Glob("../docs/lab/*.csv")
	if err != nil {
		t.Fatal(err)
	}
	rendered := 0
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := ReadData(f)
		f.Close()
		if err != nil || d.facts["template"] == "" {
			continue // of an experiment that has no template
		}
		rendered++
		want, err := os.ReadFile(strings.TrimSuffix(name, ".csv") + ".md")
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.render(d.facts["name"], d.facts["template"])
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		above, _, _ := strings.Cut(string(want), Marker)
		if diff := cmp.Diff(strings.Split(above, "\n"), strings.Split(p.text.String(), "\n")); diff != "" {
			t.Errorf("%s: \"orblab render\" would change the text (-stored +rendered):\n%s", name, diff)
		}
	}
	if rendered == 0 {
		t.Error("no stored result has a template")
	}
}

func TestDo(t *testing.T) {
	out := filepath.Join(t.TempDir(), "docs", "lab")
	var screen bytes.Buffer
	trial := &Trial{Quick: true, Seed: 9, Again: "orblab fake", Dir: t.TempDir(), Screen: &screen}
	e := &fake{}
	if err := Do(context.Background(), e, trial, out); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(e.wrote); err == nil {
		t.Errorf("%s is still there", e.wrote)
	}
	read := func(ext string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(out, "fake"+ext))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	md := read(".md")
	for _, want := range []string{"# Which detector", "A quick run", "](fake.svg)", "## Precision and recall",
		"1,234,567 pages", "|       75.0 |", "orblab fake", Marker} {
		if !strings.Contains(md, want) {
			t.Errorf("the text does not say %q:\n%s", want, md)
		}
	}
	words(t, []byte(read(".svg")))
	d, err := ReadData(strings.NewReader(read(".csv")))
	if err != nil {
		t.Fatal(err)
	}
	if got := d.facts; got["name"] != "fake" || got["quick"] != "1" || got["seed"] != "9" ||
		!strings.Contains(got["machine"], "cores of") {
		t.Errorf("facts: %v", got)
	}
	for _, want := range []string{"a step, 1", "well", "Precision and recall", "75.0"} {
		if !strings.Contains(screen.String(), want) {
			t.Errorf("the screen does not say %q:\n%s", want, screen.String())
		}
	}

	// Do keeps text written by hand, and writes a wrong result, too.
	const mine = "\n## Before and after\n\nMy words.\n"
	if err := os.WriteFile(filepath.Join(out, "fake.md"), []byte("# Old\n"+Marker+mine), 0o644); err != nil {
		t.Fatal(err)
	}
	wrong := errors.New("wrong")
	if err := Do(context.Background(), &fake{err: wrong}, trial, out); !errors.Is(err, wrong) {
		t.Errorf("err = %v, want %v", err, wrong)
	}
	md = read(".md")
	if !strings.HasSuffix(md, Marker+mine) || !strings.HasPrefix(md, "# Which detector") ||
		strings.Contains(md, "# Old") {
		t.Errorf("what people wrote is not as it was:\n%s", md)
	}
}

func TestMisfetched(t *testing.T) {
	origin := func(twice, missed int64) *testweb.Report {
		o := &testweb.OriginReport{Twice: twice, Reachable: 2000, Missed: missed}
		for range missed {
			o.MissedURLs = append(o.MissedURLs, "http://h.example/")
		}
		return &testweb.Report{Origin: o}
	}
	for _, c := range []struct {
		name   string
		report *testweb.Report
		stop   string
		want   string // empty: no error
	}{
		{"no numbered pages", &testweb.Report{}, finished, ""},
		{"all once", origin(0, 0), finished, ""},
		{"stopped", origin(0, 1500), "page-limit", ""},
		{"missed", origin(0, 1), finished, "the crawl ended by itself and missed 1 of 2,000 pages\nhttp://h.example/"},
		{"twice, stopped", origin(1200, 5), "time-limit", "the web saw pages fetched more than once: 1,200"},
		{"both", origin(3, 1), finished, "the web saw pages fetched more than once: 3\n" +
			"the crawl ended by itself and missed 1 of 2,000 pages\nhttp://h.example/"},
		{"many", origin(0, 1100), finished, "the crawl ended by itself and missed 1,100 of 2,000 pages" +
			strings.Repeat("\nhttp://h.example/", 10)},
	} {
		err := misfetched(c.report, c.stop)
		if got := fmt.Sprint(err); err == nil && c.want != "" || err != nil && got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestTrialLive(t *testing.T) {
	var screen bytes.Buffer
	trial := (&Trial{Screen: &screen, Live: true, Width: 60}).with("")
	done := trial.step("a step")
	trial.partial("%s", strings.Repeat("long ", 30))
	done("%s pages/s, %s", count(12345.6), micros(84250*time.Nanosecond))
	for _, line := range strings.Split(screen.String(), "\r\x1b[K") {
		if len(strings.TrimRight(line, "\n")) > 75 {
			t.Errorf("%d columns of 60: %q", len(line), line)
		}
	}
	if s := screen.String(); !strings.HasSuffix(s, "12,346 pages/s, 84 µs\n") || strings.Count(s, "\n") != 1 {
		t.Errorf("%q", s)
	}
}

func TestCount(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 0.456: "0.46", 12.34: "12.3", 99: "99",
		1234.5: "1,235", 3e6: "3,000,000"} {
		if got := count(f); got != want {
			t.Errorf("count(%v) = %q, want %q", f, got, want)
		}
	}
}

// The memory run has its text and pictures, here for a crawl that slowed down.
func TestMemoryResult(t *testing.T) {
	x := &Memory{Hosts: 30000, Pages: 1000, PagesMean: 20, Bound: 1e9}
	samples := []Sample{{}}
	pages := int64(0)
	for i := range 14 {
		rate := int64(100)
		if i >= 6 {
			rate = 50
		}
		pages += rate
		samples = append(samples, Sample{
			At: time.Duration(i+1) * time.Second, Pages: pages, Resident: int64(i+1) * 10e6,
			CPU: time.Duration(i+1) * time.Second, // so that a page takes twice the time if there are half as many
		})
	}
	run := &crawlRun{Report: &testweb.Report{}, Fetching: 14 * time.Second,
		Usage: Usage{Wall: 15 * time.Second, Peak: 150e6, CPU: time.Second}}
	run.Summary.Pages = pages
	r := x.result(samples, run)
	holds(t, r, `abs(at(rate, "tenth", 10)/at(rate, "tenth", 1) - 0.5) < 0.001`,
		`abs(at(cpu, "tenth", 10)/at(cpu, "tenth", 1) - 2) < 0.01`, `at(in_tenth, "time", 14) == 50`,
		`at(resident_bytes, "time", 14) == 140000000`, fmt.Sprintf("size(resident_bytes) == %d", len(samples)))
	text := rendered(t, r)
	for _, want := range []string{"more than 10 % slower", "more than 10 % more", "CPU to the first",
		"1.0 GB", "30,000 hosts"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
	x.Budget, x.PageBytes = 256<<20, 3000
	r = x.result(samples, run)
	text = rendered(t, r)
	for _, want := range []string{"--memory 256MiB", "each of 3.0 kB on average"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text of a run with a budget does not say %q:\n%s", want, text)
		}
	}
	if want := "throughput-memory-256MiB"; r.Name != want {
		t.Errorf("name %s, want %s", r.Name, want)
	}
	if text := rendered(t, x.result([]Sample{{}}, run)); !strings.Contains(text, "too short for a comparison") {
		t.Errorf("the text of a short run is\n%s", text)
	}
}
