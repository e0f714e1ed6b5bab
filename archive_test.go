package orbweaver_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver"
)

// The segments of an archive go to a store, with their tables. A second crawl refers to the first one, by its store.
func TestArchiveStore(t *testing.T) {
	o := local(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			html(w, strings.Repeat("a long page ", 200))
			return
		}
		http.NotFound(w, r)
	})+"/")
	store := filepath.Join(t.TempDir(), "store")
	if err := os.Mkdir(store, 0o755); err != nil {
		t.Fatal(err)
	}
	o.Archive = orbweaver.Archive{Segment: "end", Store: "file://" + store, LocalBytes: 1}
	first, last := o.Dir, ""
	for _, part := range []string{"warc", "crawldiagnostics"} {
		last = o.Dir
		if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Pages != 1 {
			t.Fatalf("%v, %+v", err, res)
		}
		crawl := filepath.Base(o.Dir)
		for _, pattern := range []string{"crawl-data/" + crawl + "/segments/*/_SUCCESS",
			"crawl-data/" + crawl + "/segments/*/" + part + "/*.warc.gz",
			"cc-index/table/cc-main/warc/crawl=" + crawl + "/subset=" + part + "/*.parquet"} {
			if found, err := filepath.Glob(filepath.Join(store, pattern)); err != nil || len(found) == 0 {
				t.Errorf("the store has no %s, %v", pattern, err)
			}
		}
		o.Dir, o.Archive.DedupFrom = filepath.Join(t.TempDir(), "second"), []string{first}
	}
	index, err := os.ReadFile(filepath.Join(last, "indexes", "index.cdxj"))
	if err != nil || !strings.Contains(string(index), "warc/revisit") {
		t.Errorf("no revisit record: %v\n%s", err, index)
	}
	o.Archive = orbweaver.Archive{Store: "file://" + store}
	want := "Options.Archive.Store file://" + store + ": a store gets segments, so give Options.Archive.Segment, too"
	if _, err := orbweaver.Crawl(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v\nwant %s", err, want)
	}
}

// Sends the archive to a store, one segment an hour, and keeps at most 20 GB of it here.
func ExampleArchive() {
	o := orbweaver.Options{
		Dir: "crawl", Seeds: []string{"https://www.example.org/"}, Contact: "ops@example.org",
		Archive: orbweaver.Archive{Segment: "1h", Store: "s3://bucket/archive", LocalBytes: 20e9,
			DedupFrom: []string{"crawl-of-last-month"}},
	}
	fmt.Println(o.Archive.Segment, o.Archive.Store) // orbweaver.Crawl(ctx, o) begins the crawl
	// Output: 1h s3://bucket/archive
}
