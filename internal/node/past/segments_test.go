package past

import (
	"context"
	"errors"
	"strings"
	"testing"

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
