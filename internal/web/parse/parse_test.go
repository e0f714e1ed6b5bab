package parse

import (
	"testing"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

func mustURL(t testing.TB, s string) weburl.URL {
	t.Helper()
	u, err := weburl.Parse(s)
	if err != nil {
		t.Fatalf("URL %q: %v", s, err)
	}
	return u
}
