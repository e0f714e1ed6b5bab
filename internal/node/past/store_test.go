package past

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/output/segment"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// A store that is away for a minute ends a last try, with the error of the store. One that answers in between does not.
func TestWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, give := context.WithCancelCause(t.Context())
		var told kinds
		w := &watched{events: &told, clock: clock.System, give: give}
		away := errors.New("away")
		for range 3 {
			w.Waits(away, 0)
			time.Sleep(50 * time.Second)
			w.there(nil)
		}
		if ctx.Err() != nil || len(told) != 3 {
			t.Errorf("given up (%v) after events %q", context.Cause(ctx), told)
		}
		w.Waits(away, 0)
		time.Sleep(59 * time.Second)
		w.Waits(away, 0)
		if ctx.Err() != nil {
			t.Error("given up after 59 s")
		}
		time.Sleep(time.Second)
		if w.Waits(away, 0); context.Cause(ctx) != away || len(told) != 4 {
			t.Errorf("the cause is %v after a minute, events %q", context.Cause(ctx), told)
		}
	})
}

// TestCheckStore refuses places that cannot be stores of the crawl.
func TestCheckStore(t *testing.T) {
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/store", 0o755))
	for url, want := range map[string]string{
		"": "", "file:///store": "", "file:///c": "is in the crawl directory", "s3://": "s3",
		"file:///c/store": "is in the crawl directory", "file:///none": "does not exist",
		"http://a.example/": "names no store", "file://host/x": "absolute path",
	} {
		err := CheckStore(mem, "/c", placeAt(url), false)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", url, err, want)
		}
	}
}

// TestEmptyStore: a crawl with segments in a store is not resumed while the store is empty, as a directory is if its
// disk is not mounted.
func TestEmptyStore(t *testing.T) {
	mem := testdisk.NewMem()
	in := "/c/crawl-data/web/segments/1"
	for _, dir := range []string{"/store", "/other", in} {
		must.Do(t, mem.MkdirAll(dir, 0o755))
	}
	check := func(url string, resume bool, want string) {
		t.Helper()
		err := CheckStore(mem, "/c", placeAt(url), resume)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q, resumed %t: %v, want %q", url, resume, err, want)
		}
	}
	check("file:///store", true, "")
	must.Do(t, disk.WriteFile(mem, in+"/"+segment.StoredName, []byte("file:///store/\n")))
	check("file:///store", true, "mounted")
	check("file:///store", false, "")
	check("file:///other", true, "")
	must.Do(t, mem.MkdirAll("/store/crawl-data/web", 0o755))
	must.Do(t, disk.WriteFile(mem, "/store/crawl-data/web/warc.paths.gz", nil))
	check("file:///store", true, "")
}

func placeAt(url string) Place { return Place{URL: url, Env: noEnv{}} }

type noEnv struct{}

func (noEnv) LookupEnv(string) (string, bool) { return "", false }
