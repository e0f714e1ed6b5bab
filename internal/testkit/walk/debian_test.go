package walk

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// TestDebianDocs walks the web of Debian's documentation in its full size.
func TestDebianDocs(t *testing.T) {
	testtier.OnlySoak(t, "it has about 9,000 pages")
	folders := testweb.DebianDocs()
	for _, f := range folders {
		if _, err := os.Stat(f.Dir); err != nil && f.Dir != "" {
			testneed.Missing(t, err)
		}
	}
	seeds, most := testweb.DebianSeeds(), 9000
	if testtier.Raced {
		seeds, most = []string{"https://docs.sqlalchemy.org/"}, 200
	}
	w, pool := serving(t, testweb.Config{Folders: folders})
	began := time.Now()
	res := must.Get(Walk(context.Background(), Config{Seeds: seeds, DialContext: w.DialContext, RootCAs: pool}))(t)
	took := time.Since(began)
	t.Logf("%v in %v", res, took.Round(time.Millisecond))
	for _, s := range seeds {
		if p := res.Pages[s]; p.Status != 200 {
			t.Errorf("%s: got %+v", s, p)
		}
	}
	if got := res.Count(200); got < most {
		t.Errorf("got %d pages, want %d or more", got, most)
	}
	w.WaitIdle(time.Minute)
	r := w.Report()
	if int(r.URLs) < len(res.Pages) || r.Repeated != 0 {
		t.Errorf("the server saw %d URLs, the walk %d; fetched twice: %v", r.URLs, len(res.Pages), r.Twice)
	}
	var bytes int64
	for _, p := range res.Pages {
		bytes += p.Bytes
	}
	t.Logf("%d bytes", bytes)
}
