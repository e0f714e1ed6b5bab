package past

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

type kinds []string

func (k *kinds) Write(kind string, _ ...report.Field) { *k = append(*k, kind) }

// A damaged file keeps its own segment from being complete, and no other one. While the crawl runs, it is told once.
func TestDamagedSegment(t *testing.T) {
	mem := testdisk.NewMem()
	w, _, err := warc.Open(warc.Config{Dir: "/c", FS: mem, Segments: warc.Segments{Crawl: "web", Bytes: 1}})
	must.Do(t, err)
	head := "HTTP/1.1 200 OK\r\n\r\n"
	for range 3 {
		must.Get(w.Write(&warc.Exchange{URL: "http://a.example/", HTTP: true, HeadLen: len(head),
			Response: warc.Bytes(head + "text"), Request: []byte("GET / HTTP/1.1\r\n\r\n")}))(t)
	}
	must.Do(t, w.Close())
	foreign := warc.SegmentsDir("/c", "web") + "/0-foreign/warc"
	must.Do(t, mem.MkdirAll(foreign, 0o755))
	must.Do(t, disk.WriteFile(mem, foreign+"/x.warc.gz", []byte("damaged")))

	var told kinds
	s := &Segments{FS: mem, Dir: "/c", Crawl: "web", Events: &told}
	none := func() string { return "" }
	must.Do(t, s.commit(context.Background(), beside, none))
	must.Do(t, s.commit(context.Background(), beside, none))
	const want = "segment-failed segment-committed segment-committed segment-committed"
	if got := strings.Join(told, " "); got != want {
		t.Errorf("the events are %s, want %s", got, want)
	}
	if err := s.Rest(context.Background()); !errors.Is(err, warc.ErrDamaged) {
		t.Errorf("the end of the crawl: %v", err)
	}
}

// TestElsewhere: a crawl goes on with another store, and the first one, which alone has the files of earlier segments,
// is lost. One error tells how many segments and records that are. It is an event once, and the end of the crawl has
// it, too. When the first store is back, the segments go to the other one.
func TestElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := testdisk.NewMem()
		must.Do(t, errors.Join(mem.MkdirAll("/s1", 0o755), mem.MkdirAll("/s2", 0o755)))
		w, _, err := warc.Open(warc.Config{Dir: "/c", FS: mem, Segments: warc.Segments{Crawl: "web", Bytes: 1}})
		must.Do(t, err)
		head := "HTTP/1.1 200 OK\r\n\r\n"
		for range 3 {
			must.Get(w.Write(&warc.Exchange{URL: "http://a.example/", HTTP: true, HeadLen: len(head),
				Response: warc.Bytes(head + "text"), Request: []byte("GET / HTTP/1.1\r\n\r\n")}))(t)
		}
		must.Do(t, w.Close())
		var told kinds
		segments := func(url string, most *int64) *Segments {
			at := placeAt(url)
			return &Segments{FS: Moved(mem, at), Dir: "/c", Crawl: "web", Events: &told, Store: at, Most: most}
		}
		first := segments("file:///s1", new(int64))
		must.Do(t, errors.Join(first.Rest(t.Context()), first.SendRest(t.Context(), false)))
		must.Do(t, mem.Rename("/s1", "/lost"))
		told = nil

		s := segments("file:///s2/", nil)
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		s.ended = make(chan struct{}, 1)
		s.keepSending(ctx)
		stop()
		if got := strings.Join(told, " "); got != "store-failed" {
			t.Errorf("the events are %s", got)
		}
		err = s.SendRest(t.Context(), false)
		const want = "3 segments with 3 records are only in file:///s1/, which cannot be read now: "
		if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "lost for good") {
			t.Errorf("the end says: %v", err)
		}
		must.Do(t, mem.Rename("/lost", "/s1"))
		must.Do(t, s.SendRest(t.Context(), false))
		if _, err := mem.Stat("/s2/crawl-data/web/warc.paths.gz"); err != nil {
			t.Error(err)
		}
	})
}
