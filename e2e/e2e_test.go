package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// orbweaver is the program under test, built once.
var orbweaver string

// roomFor returns the most memory that the program may take which needs at most bytes. The race detector takes up to
// twice as much for itself.
func roomFor(bytes float64) float64 {
	if *raced {
		return 3 * bytes
	}
	return bytes
}

var raced = flag.Bool("raced", false, "test a program with the race detector in it")

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == measured {
		os.Exit(measure(os.Args[2], os.Args[3:]))
	}
	dir, err := os.MkdirTemp("", "orbweaver-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	orbweaver = filepath.Join(dir, "orbweaver")
	build, err := documentedBuild(orbweaver)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	flag.Parse()
	if err := onlyGate(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// The weights of the tests bound the load. The number of parallel tests must not: tests that
	// wait for weight would occupy the places that subtests of a running test need.
	if err := flag.Set("test.parallel", "1000"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	races := filepath.Join(dir, "race") // and the process's number
	if *raced {
		build.Args = append(build.Args[:2:2], append([]string{"-race"}, build.Args[2:]...)...)
		build.Env = append(build.Env, "CGO_ENABLED=1")
		os.Setenv("GORACE", "log_path="+races)
	}
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	found, _ := filepath.Glob(races + ".*") // the pattern compiles
	for _, name := range found {
		text, err := os.ReadFile(name)
		fmt.Fprintf(os.Stderr, "%s: %v\n%s", name, err, text)
		code = 1
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// load bounds the weights of the tests that run at the same time: three for each processor.
var (
	loadMost = int64(3 * runtime.GOMAXPROCS(0))
	load     = semaphore.NewWeighted(loadMost)
)

// weighs lets a test run in parallel with others, as long as all weights together are at most
// loadMost. A crawl by one agent weighs 1 if it mostly waits, and up to 4 if it does not; each
// agent of a cluster weighs 1. A test that does not call weighs runs alone: tests in network
// namespaces, and tests that measure.
func weighs(t *testing.T, n int64) {
	t.Helper()
	t.Parallel()
	n = min(n, loadMost)
	must.Do(t, load.Acquire(t.Context(), n))
	t.Cleanup(func() { load.Release(n) })
}

// missing skips a test because this machine lacks something. With CI=true it fails the test.
func missing(t *testing.T, what string) {
	t.Helper()
	testneed.Missing(t, what)
}

// debianWeb serves the real pages. It skips the test if they are not installed.
func debianWeb(t *testing.T, p testweb.Promise) *testweb.Web {
	t.Helper()
	folders := testweb.DebianDocs()
	for _, f := range folders {
		if _, err := os.Stat(f.Dir); err != nil && f.Dir != "" {
			missing(t, "Debian's documentation packages (sh internal/testweb/docs.sh): "+err.Error())
		}
	}
	return serve(t, testweb.Config{Folders: folders, Promise: p, Gzip: true, KeepURLs: 1 << 20, LogEntries: 1 << 20})
}

// serve runs a test web until the test ends.
func serve(t *testing.T, cfg testweb.Config) *testweb.Web {
	t.Helper()
	web := must.Get(testweb.New(cfg))(t)
	stop := web.Start()
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("testweb: %v", err)
		}
	})
	return web
}

// flags returns the flags that lead a crawl to web and to dir.
func flags(t *testing.T, web *testweb.Web, dir string, more ...string) []string {
	t.Helper()
	watch(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must.Do(t, os.WriteFile(ca, web.CAPEM(), 0o644))
	args := []string{"crawl", "--dir", dir, "--contact", "test@example.org", "--dns", web.DNSAddr(), "--ca", ca,
		"--allow-private", "--no-requisites", "--no-sitemaps"}
	for _, c := range web.ConnectTo() {
		args = append(args, "--connect-to", c)
	}
	return append(args, more...)
}

// A run is a finished process.
type run struct {
	code           int
	stdout, stderr string
	took, cpu      time.Duration
}

// crawl runs the program to its end, or until ctx kills it (kill -9).
func crawl(ctx context.Context, t *testing.T, args ...string) run {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, orbweaver, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	r := run{stdout: out.String(), stderr: errs.String(), took: time.Since(began),
		cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		r.code = exit.ExitCode() // -1: killed
	default:
		t.Fatal(err)
	}
	return r
}

// must fails the test unless the process ended with code.
func (r run) must(t *testing.T, code int) run {
	t.Helper()
	if r.code != code {
		t.Fatalf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", r.code, code, tail(r.stdout), tail(r.stderr))
	}
	return r
}

func tail(s string) string {
	if len(s) > 4000 {
		return "…" + s[len(s)-4000:]
	}
	return s
}

// summary reads reports/summary.json.
func summary(t *testing.T, dir string) map[string]any {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(dir, "reports", "summary.json")))(t)
	var m map[string]any
	must.Do(t, json.Unmarshal(b, &m))
	return m
}

// verify runs "warc verify" over a crawl.
func verify(t *testing.T, dir string) {
	t.Helper()
	crawl(context.Background(), t, "warc", "verify", dir).must(t, 0)
}

// indexed are the URLs in index.cdxj, with the number of their lines.
func indexed(t *testing.T, dir string) map[string]int {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(dir, "indexes", "index.cdxj")))(t)
	return inIndex(t, string(b))
}

// inIndex are the URLs in an index, with the number of their lines.
func inIndex(t *testing.T, index string) map[string]int {
	t.Helper()
	urls := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(index), "\n") {
		f := strings.SplitN(line, " ", 3)
		if len(f) != 3 {
			t.Fatalf("index line %q", line)
		}
		var j struct{ URL string }
		if err := json.Unmarshal([]byte(f[2]), &j); err != nil {
			t.Fatalf("index line %q: %v", line, err)
		}
		urls[j.URL]++
	}
	return urls
}

// noViolations fails the test for every violation that the web reports.
func noViolations(t *testing.T, web *testweb.Web) {
	t.Helper()
	web.WaitIdle(time.Minute)
	r := web.Report()
	for kind, n := range r.ViolationCount {
		if n > 0 {
			t.Errorf("%d violations: %s", n, kind)
		}
	}
	for i, v := range r.Violations {
		if i == 20 {
			break
		}
		t.Errorf("%s", v)
	}
}
