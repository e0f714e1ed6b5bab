package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb/gen"
)

// One of three agents is killed, and its directory is removed. With --archive-copies 2 the others have its finished
// archive files. Each page of the web is in an archive or in a copy, and the pages in copies were not fetched again.
func TestClusterArchiveCopies(t *testing.T) {
	weighs(t, 3)
	spec := gen.Plain(37, 15)
	spec.PageBytes = 24_000
	b := bandOf(t, spec, bandDelay, 3, "2")
	b.with = []string{"--on-loss", "refetch", "--archive-copies", "2", "--warc-size", "1MB"}
	for i := range 3 {
		b.begin(i, "--agents", "3", "--api", "127.0.0.1:0", b.seed())
	}
	reachable := b.truth.Reachable()
	b.await(reachable * 6 / 10)
	for end := time.Now().Add(2 * time.Minute); len(eventsOf(t, b.home(2), "copied")) == 0; {
		if time.Now().After(end) {
			t.Fatalf("no file of a3 is copied:\n%s", events(t, b.home(2)))
		}
		time.Sleep(100 * time.Millisecond)
	}
	if _, killed := b.ps[2].kill(); !killed {
		t.Fatalf("a3 had ended before:\n%s", tail(b.ps[2].out.String()))
	}
	lost := b.web.Report().Origin.Fetched
	must.Do(t, os.RemoveAll(b.home(2)))
	b.ps[2] = nil
	b.finish(lost)
	again, has, copied := 0.0, map[string]bool{}, map[string]bool{}
	for _, i := range []int{0, 1} {
		again += sum(eventsOf(t, b.home(i), "refetch"), "urls")
		b.add(has, filepath.Join(b.home(i), "archive"))
		folders := must.Get(filepath.Glob(filepath.Join(b.home(i), "copies", "a3-*")))(t)
		for _, folder := range folders {
			verify(t, folder)
			b.add(copied, filepath.Join(folder, "archive"))
			out := filepath.Join(t.TempDir(), "mirror")
			if p := crawl(context.Background(), t, "export", "--mirror", out, folder); p.code != 0 {
				t.Errorf("export of copies: exit code %d\n%s", p.code, p.stderr)
			}
		}
	}
	missing, both := 0, 0
	b.truth.Each(func(host, number int64) {
		url := b.truth.URL(host, number)
		if has[url] && copied[url] {
			both++
		}
		if !has[url] && !copied[url] {
			if missing++; missing <= 5 {
				t.Errorf("no archive and no copy has %s", url)
			}
		}
	})
	twice := b.web.Report().Origin.Twice
	t.Logf("%d URLs in copies, %d of them in an archive, too; %.0f on lists, %d pages fetched twice, %d of %d missing",
		len(copied), both, again, twice, missing, reachable)
	if len(copied) == 0 || both > 100 || float64(twice) > again+100 { // the last moments of the lost agent
		t.Errorf("%d URLs in copies, %d of them fetched again; %.0f on lists, %d pages fetched twice", len(copied),
			both, again, twice)
	}
}

// add adds the URLs of the responses in the WARC files of a directory.
func (b *band) add(urls map[string]bool, dir string) {
	b.t.Helper()
	for u := range inIndex(b.t, crawl(b.t.Context(), b.t, "warc", "index", dir).must(b.t, 0).stdout) {
		urls[u] = true
	}
}
