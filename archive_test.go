package orbweaver_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
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
		o.Archive.DedupMinSize = -1
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

// A crawl goes on in an empty directory, from its state in the store. A crawl with another name does not.
func TestArchiveStoreState(t *testing.T) {
	site := &chain{n: 12}
	o := local(t, serve(t, site.ServeHTTP)+"/0")
	o.PageLimit = 5
	o.Archive = orbweaver.Archive{Segment: "1h", Store: "file://" + t.TempDir(), StoreState: time.Minute,
		StoreRate: "1GB/s"}
	if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Stop != orbweaver.PageLimit || res.Resumed {
		t.Fatalf("%v, %+v", err, res)
	}
	must.Do(t, os.RemoveAll(o.Dir))
	var notes []string
	o.PageLimit, o.Seeds = 0, nil
	o.Note = func(text string) { notes = append(notes, text) }
	if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Stop != orbweaver.Finished || !res.Resumed ||
		res.Pages != 12 {
		t.Fatalf("%v, %+v", err, res)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "the crawl goes on from its state of ") {
		t.Errorf("notes: %q", notes)
	}
	site.once(t)
	index := must.Get(os.ReadFile(filepath.Join(o.Dir, "indexes", "index.cdxj")))(t)
	if n := strings.Count(string(index), `"status": "200"`); n != 12 {
		t.Errorf("the index has %d pages of 12", n)
	}
	o.Dir = filepath.Join(t.TempDir(), "other")
	o.Seeds = []string{serve(t, site.ServeHTTP) + "/0"}
	if res, err := orbweaver.Crawl(t.Context(), o); err != nil || res.Resumed || res.Pages != 12 {
		t.Errorf("another name: %v, %+v", err, res)
	}
}

// Wrong values, and fields without an effect, are told with the names of their fields.
func TestArchiveMistakes(t *testing.T) {
	store := "file://" + t.TempDir()
	wants := map[string]orbweaver.Archive{
		"Options.Archive.StoreState 1m0s has no effect without Options.Archive.Store URL; leave it out, or add " +
			"Options.Archive.Store URL": {Segment: "end", StoreState: time.Minute},
		"Options.Archive.LocalBytes 5 has no effect without":       {Segment: "end", LocalBytes: 5},
		"Options.Archive.StoreRate 1000000 has no effect":          {Segment: "end", StoreRate: "1MB/s"},
		"Options.Archive.DedupMinSize 2 has no effect without":     {DedupMinSize: 2},
		"Options.Archive.SegmentTables few: give all, index, none": {Segment: "end", SegmentTables: "few"},
		`Options.Archive.StoreRate: "fast" is not a bandwidth`:     {Segment: "end", StoreRate: "fast"},
		"Options.Archive.StoreState -1s is negative":               {Segment: "end", StoreState: -time.Second},
		`Options.Archive.StoreOptions "class=COLD": a mounted directory has no options`: {
			Segment: "end", Store: store, StoreOptions: []string{"class=COLD"}},
	}
	for want, a := range wants {
		o := local(t, "http://127.0.0.1:1/")
		o.Archive = a
		if _, err := orbweaver.Crawl(t.Context(), o); !errors.Is(err, orbweaver.ErrOptions) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// Sends the archive to a store and keeps at most 20 GB of it here. If the machine is lost, the same program continues
// the crawl on another one.
func ExampleArchive() {
	o := orbweaver.Options{
		Dir: "crawl", Seeds: []string{"https://www.example.org/"}, Contact: "ops@example.org",
		Archive: orbweaver.Archive{Segment: "1h", Store: "s3://bucket/archive", LocalBytes: 20e9,
			StoreState: 10 * time.Minute, DedupFrom: []string{"crawl-of-last-month"}},
	}
	fmt.Println(o.Archive.Segment, o.Archive.Store) // orbweaver.Crawl(ctx, o) begins the crawl
	// Output: 1h s3://bucket/archive
}
