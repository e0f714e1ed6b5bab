package strategy

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testparts"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/sheet"
)

// With Keep, pages that the archive does not get are compared and visited again like others. The archive gets no
// record of them, not even of a confirmation.
func TestRecrawlKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, map[string]*doc{
			"http://a.example/":  {links: []string{"/1", "/2"}, etag: true, dated: true},
			"http://a.example/1": {dated: true, changes: every(100 * time.Second)},
			"http://a.example/2": {etag: true},
		}, recrawl(RecrawlConfig{Min: time.Minute, Max: 2 * time.Minute, Rounds: 2}), "http://a.example/")
		var err error
		if w.cfg.Keep, err = sheet.ParseKeep("keep", []string{"/2$"}); err != nil {
			t.Fatal(err)
		}
		w.run(t, nil, func(p *process, stop crawl.Stop, last bool) {
			s := p.Tally.Summary(0, "")
			if stop != crawl.Finished || s.Finished != 3 || s.Revisits != 6 || s.Unchanged != 5 || s.Changed != 1 ||
				s.Unkept != 6 || s.Duplicates != 0 {
				t.Errorf("%s, %+v", stop, s)
			}
			must.Do(t, p.Archive.Close())
			must.Do(t, warc.BuildIndex(w.mem, dir))
		})
		for u, want := range map[string]int{"http://a.example/": 0, "http://a.example/1": 0, "http://a.example/2": 3} {
			if n := len(testparts.Captures(t, w.mem, u)); n != want {
				t.Errorf("%d captures of %s, want %d", n, u, want)
			}
		}
	})
}
