package strategy

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

func sampleHistory() *history {
	return &history{
		visits: 7, changes: 3, seen: evidence{6, 3, 100.5, 50.25, 1, 77},
		last: 1234567890123, changed: 1234567000000, due: 1234999990123, interval: 42 * time.Minute,
		before: visit.Before{
			If: fetch.Condition{ETag: `W/"x"`, LastModified: "Sun, 06 Nov 1994 08:49:37 GMT"}, Print: 1 << 60,
			Digest: [20]byte{1, 2, 3},
			Original: warc.Original{URL: "http://a.example/", Date: time.UnixMilli(1234567890123).UTC(),
				Stored: [20]byte{7}, ID: [16]byte{4, 5}},
		},
	}
}

func TestHistoryRoundTrip(t *testing.T) {
	for _, h := range []*history{sampleHistory(), {visits: 1}} {
		enc := h.appendTo(nil)
		got, err := decodeHistory(enc)
		must.Do(t, err)
		if diff := cmp.Diff(h, got, cmp.AllowUnexported(history{}, evidence{})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		for n := range enc {
			if _, err := decodeHistory(enc[:n]); !errors.Is(err, errState) {
				t.Errorf("%d of %d bytes: %v", n, len(enc), err)
			}
		}
		if _, err := decodeHistory(append(enc, 0)); !errors.Is(err, errState) {
			t.Errorf("a byte too many: %v", err)
		}
	}
	// This and the link and the entry's overhead are what a page takes in the schedule.
	l := link.Link{URL: mustURL(t, "http://www.example.org/an/ordinary/page.html"), Hops: "LLLL",
		Seed: "www.example.org"}
	if n := len(sampleHistory().appendTo(l.AppendTo(nil))); n > 250 {
		t.Errorf("a page takes %d bytes", n)
	} else {
		t.Logf("a page takes %d bytes", n)
	}
}

func FuzzHistory(f *testing.F) {
	f.Add(sampleHistory().appendTo(nil))
	f.Add((&history{visits: 1}).appendTo(nil))
	f.Add([]byte{stateRecrawl, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHistory(b)
		if err != nil {
			return
		}
		again, err := decodeHistory(h.appendTo(nil))
		must.Do(t, err)
		if diff := cmp.Diff(h, again, cmp.AllowUnexported(history{}, evidence{})); diff != "" {
			t.Errorf("(-first +again):\n%s", diff)
		}
	})
}
