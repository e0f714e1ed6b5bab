package cluster

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// TestPageKeysOfApplications: if pages move, the page of an application's URL does not stand for the page of the crawl
// itself, whose links would not be followed then.
func TestPageKeysOfApplications(t *testing.T) {
	own := link.Link{URL: weburl.MustParse("http://a.example/")}
	app := own
	app.SetApp("news", "")
	keys := hostKeys{moves: true}
	if got := keys.Page(nil, own); len(got) != 1 {
		t.Errorf("a page of the crawl has the keys %v, want one", got)
	}
	if got := keys.Page(nil, app); len(got) != 0 {
		t.Errorf("an application's page has the keys %v, want none", got)
	}
}
