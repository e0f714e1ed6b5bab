package crawl

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A page that is fetched again because its agent left, and not because its archive was lost, does not count as one of a
// lost archive. The note tells how often it was fetched again.
func TestCountsOfRefetches(t *testing.T) {
	again, ok := RefetchLink(weburl.Link{URL: weburl.MustParse("http://a.example/")})
	if !ok || !visitOf(&state.Finish{Link: again}).Refetched {
		t.Error("a page of a lost archive does not count")
	}
	again.SetApp("news", "http://a.example/")
	if visitOf(&state.Finish{Link: again}).Refetched {
		t.Error("an application's page counts as one of a lost archive")
	}
	for note, n := range map[string]uint8{"": 0, "refetch:1": 1, "shared,refetch:12,2t": 12, "refetch:x": 0,
		"near-duplicate:refetch:3": 0} {
		if got := (&Delivery{Note: note}).refetches(); got != n {
			t.Errorf("note %q: %d, want %d", note, got, n)
		}
	}
}
