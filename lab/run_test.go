package lab

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// programs builds orblab and orbweaver once, without the race detector, which takes additional memory. It returns their
// folder, which TestMain removes.
var programs = sync.OnceValues(func() (string, error) {
	bin, err := os.MkdirTemp("", "orbweaver-lab-test-")
	if err != nil {
		return "", err
	}
	for _, b := range []struct{ dir, name string }{{".", "orblab"}, {"..", "orbweaver"}} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(bin, b.name), "./cmd/"+b.name)
		cmd.Dir, cmd.Env = b.dir, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return bin, fmt.Errorf("go build %s: %w\n%s", b.name, err, out)
		}
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if built.Load() {
			bin, _ := programs()
			os.RemoveAll(bin)
		}
		os.Exit(code)
	}))
}

// built says that a test has called programs.
var built atomic.Bool

// buildTrial returns a quick trial with the programs.
func buildTrial(t *testing.T) *Trial {
	t.Helper()
	built.Store(true)
	bin, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	return &Trial{Quick: true, Seed: 1, Dir: t.TempDir(), Screen: new(bytes.Buffer),
		Self: filepath.Join(bin, "orblab"), Orbweaver: filepath.Join(bin, "orbweaver")}
}

// finishes runs an experiment, which must succeed and leave its files.
func finishes(t *testing.T, e Experiment, trial *Trial) (out string) {
	t.Helper()
	out = t.TempDir()
	err := Do(context.Background(), e, trial, out)
	t.Log(trial.Screen)
	if err != nil {
		t.Fatal(err)
	}
	for _, ext := range []string{".md", ".csv", ".svg"} {
		if m, err := filepath.Glob(filepath.Join(out, "*"+ext)); len(m) != 1 || err != nil {
			t.Errorf("files *%s: %v, %v", ext, m, err)
		}
	}
	return out
}

// The memory run compares the peak with the bound.
func TestMemory(t *testing.T) {
	trial := buildTrial(t)
	run := func(bound int64) *Memory {
		return &Memory{Agent: Program{"agent", trial.Orbweaver}, Hosts: 10, Pages: 10, Bound: bound}
	}
	finishes(t, run(1e9), trial)
	if err := Do(context.Background(), run(1e6), trial, t.TempDir()); !errors.Is(err, ErrMemory) {
		t.Errorf("10 pages in 1 MB: %v, want %v", err, ErrMemory)
	}
}

// The short version of the memory run: 60,000 pages of a web of 30,000 hosts. It bounds the memory,
// and asserts nothing about the speed.
func TestMemoryIsBounded(t *testing.T) {
	testtier.OnlySoak(t, "60,000 pages")
	trial := buildTrial(t)
	// 3 million pages must stay below 1 GB, so 60,000 pages must stay well below.
	finishes(t, &Memory{Agent: Program{"agent", trial.Orbweaver}, Bound: 300e6}, trial)
}

// hasProfile checks that a file is a profile: compressed, and not empty.
func hasProfile(t *testing.T, name string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if n, err := io.Copy(io.Discard, z); err != nil || n < 100 {
		t.Errorf("%s has %d bytes, %v", name, n, err)
	}
}

// A crawl that finishes misses nothing, and a web ends when its experiment ends.
func TestCrawlToTheEnd(t *testing.T) {
	trial := buildTrial(t)
	dir := t.TempDir()
	spec := WebSpec{Spec: gen.Plain(5, 40), Truth: true, Identity: true}
	spec.PagesMean = 10
	w, err := startWeb(context.Background(), trial.Self, dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	job := crawlJob{Program: trial.Orbweaver, Web: w, Dir: filepath.Join(dir, "crawl"),
		Profile: filepath.Join(dir, "profile"),
		Tick:    func(progressLine, Sample) { lines++ }}
	r, err := job.run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	// The web has served all pages before another crawl of it begins.
	again := job
	again.Dir, again.Profile = filepath.Join(dir, "twice"), ""
	var cover *CoverageError
	if _, err := again.run(context.Background()); !errors.As(err, &cover) ||
		cover.Twice != r.Summary.Pages || cover.Missed != 0 {
		t.Errorf("crawled twice: %v, want each of %d pages", err, r.Summary.Pages)
	}
	if o := r.Report.Origin; o == nil || o.Reachable < 100 || o.Missed != 0 || o.Twice != 0 ||
		o.Fetched != r.Summary.Pages {
		t.Errorf("the web's account: %+v; %d pages", o, r.Summary.Pages)
	}
	if r.Summary.StopReason != "finished" || r.Usage.CPU <= 0 || r.Usage.Peak < 1<<20 || r.Fetching <= 0 ||
		r.Fetching > r.Usage.Wall || lines == 0 {
		t.Errorf("%+v, fetching %v, %d lines, stop %s", r.Usage, r.Fetching, lines, r.Summary.StopReason)
	}
	hasProfile(t, job.Profile)
	if u, err := w.stop(); err != nil || u.CPU <= 0 {
		t.Errorf("the web: %+v, %v", u, err)
	}
	// A crawl of an empty web says that it archived no pages.
	job.Dir, job.TimeLimit = filepath.Join(dir, "again"), 300*time.Millisecond
	if _, err := job.run(context.Background()); err == nil {
		t.Error("a crawl of a web that is gone is no error")
	}
	if _, err := startWeb(context.Background(), "/bin/false", dir, spec); err == nil {
		t.Error("what is no web was started")
	}
}

// An impolite crawl is an error, even if it is fast. Here the crawl keeps no delay, but the web
// expects a second.
func TestImpolite(t *testing.T) {
	trial := buildTrial(t)
	dir := t.TempDir()
	spec := WebSpec{Spec: gen.Plain(5, 5), Promise: testweb.Promise{HostDelay: time.Second}}
	w, err := startWeb(context.Background(), trial.Self, dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	_, err = crawlJob{Program: trial.Orbweaver, Web: w, Dir: filepath.Join(dir, "crawl"),
		PageLimit: 20}.run(context.Background())
	var impolite *ImpoliteError
	if !errors.As(err, &impolite) || !strings.Contains(impolite.Violations, "of gap") {
		t.Errorf("err = %v, want violations of the delay", err)
	}
	if _, err := w.stop(); err != nil {
		t.Error(err)
	}
}

// If a crawl ends by itself and has missed pages, the experiment fails, and the error names some of
// them. A crawl that was stopped does not fail.
func TestMissed(t *testing.T) {
	trial := buildTrial(t)
	for _, limit := range []int64{0, 1} {
		dir := t.TempDir()
		spec := WebSpec{Spec: gen.Plain(5, 20), Truth: true}
		spec.PagesMean = 10
		w, err := startWeb(context.Background(), trial.Self, dir, spec)
		if err != nil {
			t.Fatal(err)
		}
		job := crawlJob{Program: trial.Orbweaver, Web: w, Dir: filepath.Join(dir, "crawl"), PageLimit: limit,
			Flags: []string{"--depth", "0"}}
		r, err := job.run(context.Background())
		if r == nil || r.Report == nil {
			t.Fatal("no report: ", err)
		}
		var cover *CoverageError
		switch o := r.Report.Origin; {
		case limit > 0 && err != nil:
			t.Errorf("stopped after a page: %v", err)
		case limit == 0 && (!errors.As(err, &cover) || cover.Missed != o.Reachable-1 || cover.Twice != 0 ||
			len(cover.URLs) != 10):
			t.Errorf("the seed alone: %v, want all others of %d missed", err, o.Reachable)
		}
		if _, err := w.stop(); err != nil {
			t.Error(err)
		}
	}
}
