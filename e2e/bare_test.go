package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// lab is the environment variable that enables tests that measure. They take minutes, print their
// measurements and assert nothing about them.
const lab = "ORBWEAVER_LAB"

// debianBoth serves the real pages by http and https alike, so that a crawl may stay with http as
// the yardstick does.
func debianBoth(t *testing.T) (*testweb.Web, []string) {
	t.Helper()
	folders, seeds := testweb.DebianDocs(), []string(nil)
	for i, f := range folders {
		if _, err := os.Stat(f.Dir); err != nil && f.Dir != "" {
			missing(t, "Debian's documentation packages (sh internal/testweb/docs.sh): "+err.Error())
		}
		if folders[i].Scheme = ""; f.Seed() != "" {
			_, rest, _ := strings.Cut(f.Seed(), "://")
			seeds = append(seeds, "http://"+rest)
		}
	}
	return serve(t, testweb.Config{Folders: folders, Gzip: true}), seeds
}

// pageList writes the URLs of a crawl's pages in the form that the yardstick reads, and counts
// them. It turns https URLs into http URLs, which serve the same pages.
func pageList(t *testing.T, a *ledger) (name string, n int) {
	t.Helper()
	urls := map[string]bool{}
	for u, l := range a.final {
		if _, rest, ok := strings.Cut(u, "://"); ok && l.Code == http.StatusOK {
			urls["http://"+rest] = true
		}
	}
	list := make([]string, 0, len(urls))
	for u := range urls {
		list = append(list, u)
	}
	slices.Sort(list)
	name = filepath.Join(t.TempDir(), "urls.txt")
	must.Do(t, os.WriteFile(name, []byte(strings.Join(list, "\n")+"\n"), 0o644))
	return name, len(list)
}

// buildLab builds orblab, which contains the yardstick, once for all tests.
var buildLab = func() func(t *testing.T) string {
	build := sync.OnceValues(func() (string, error) {
		name := filepath.Join(filepath.Dir(orbweaver), "orblab")
		cmd := exec.Command("go", "build", "-o", name, "./cmd/orblab")
		cmd.Dir, cmd.Env = "../lab", append(os.Environ(), "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("build orblab: %w\n%s", err, out)
		}
		return name, err
	})
	return func(t *testing.T) string {
		t.Helper()
		name := must.Get(build())(t)
		return name
	}
}()

// runBare returns the yardstick's pages per second over d, and its processor time per page.
func runBare(t *testing.T, urls, addr string, conns int, d time.Duration) (rate float64, cost time.Duration) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "bare.warc.gz")
	defer os.Remove(out)
	cmd := exec.Command(buildLab(t), "bare", "--", "-urls", urls, "-addr", addr, "-c", strconv.Itoa(conns),
		"-d", d.String(), "-gzip", "-o", out)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("bare: %v\n%s", err, tail(stderr.String()))
	}
	var res struct {
		Pages     int64
		PagesPerS float64 `json:"pages_per_s"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &res); err != nil {
		t.Fatalf("bare: %v: %q", err, stdout.String())
	}
	return res.PagesPerS, (cmd.ProcessState.UserTime() +
		cmd.ProcessState.SystemTime()) / time.Duration(max(res.Pages, 1))
}

// The comparison itself works: both programs fetch pages from the same server.
func TestBare(t *testing.T) {
	web, seeds := debianBoth(t)
	dir := filepath.Join(t.TempDir(), "crawl")
	crawl(context.Background(), t, flags(t, web, dir,
		append([]string{"--delay", "0", "--quiet", "--page-limit", "300"}, seeds...)...)...).must(t, 12)
	urls, n := pageList(t, audit(t, dir))
	if n < 250 {
		t.Fatalf("%d pages for the yardstick, want some 300", n)
	}
	before := web.Report().Pages
	if rate, _ := runBare(t, urls, web.HTTPAddr(), 8, time.Second); rate <= 0 {
		t.Errorf("bare fetched %v pages/s", rate)
	}
	if got := web.Report().Pages - before; got == 0 {
		t.Error("the server saw no page of bare's")
	}
}

// The test measures pages per second with --delay 0 and those of the yardstick, on the same server
// and with the same URLs, in turns.
func TestLabBare(t *testing.T) {
	if os.Getenv(lab) == "" {
		t.Skipf("a measurement: set %s=1", lab)
	}
	plain, httpSeeds := debianBoth(t)
	secure := debianWeb(t, testweb.Promise{})
	const runs = 3
	rates, costs := map[string][]float64{}, map[string][]time.Duration{}
	var urls string
	measure := func(name string, web *testweb.Web, seeds []string, more ...string) {
		dir := filepath.Join(t.TempDir(), "crawl")
		args := append([]string{"--delay", "0", "--quiet"}, append(more, seeds...)...)
		r := crawl(context.Background(), t, flags(t, web, dir, args...)...).must(t, 0)
		a := audit(t, dir)
		if urls == "" {
			n := 0
			urls, n = pageList(t, a)
			t.Logf("%d URLs for the yardstick", n)
		}
		rate := float64(a.sum.Pages) / r.took.Seconds()
		cost := r.cpu / time.Duration(a.sum.Pages)
		rates[name], costs[name] = append(rates[name], rate), append(costs[name], cost)
		t.Logf("%s: %d pages, %.2f s from start to end, %.2f s of them crawling: %.0f pages/s, %v of processor time "+
			"a page; peak memory %d MB",
			name, a.sum.Pages, r.took.Seconds(), a.sum.DurationS, rate, cost, a.sum.PeakMemory/1e6)
		os.RemoveAll(dir)
	}
	for range runs {
		// Some pages link to their own site by https, and this web serves them by both schemes.
		measure("http", plain, httpSeeds, "--exclude", "^https:")
		measure("https", secure, testweb.DebianSeeds())
		for _, conns := range []int{8, 64} {
			rate, cost := runBare(t, urls, plain.HTTPAddr(), conns, 5*time.Second)
			name := "bare -c " + strconv.Itoa(conns)
			rates[name] = append(rates[name], rate)
			costs[name] = append(costs[name], cost)
			t.Logf("%s: %.0f pages/s, %v of processor time a page", name, rate, cost)
		}
	}
	for _, name := range []string{"http", "https", "bare -c 8", "bare -c 64"} {
		rate := middle(rates[name])
		t.Logf("%-10s  median %5.0f pages/s; to bare -c 8 %.2f, to bare -c 64 %.2f; %v of processor time a page",
			name, rate, rate/middle(rates["bare -c 8"]), rate/middle(rates["bare -c 64"]), middle(costs[name]))
	}
}

// middle returns the median.
func middle[T cmp.Ordered](s []T) T {
	s = slices.Sorted(slices.Values(s))
	return s[len(s)/2]
}
