package testweb

import (
	"net/http/httptest"
	"testing"
)

// A site of a few pages knows its URLs with their queries, and sends a redirect as it was written.
func TestPagesKnowQueries(t *testing.T) {
	site := Pages(map[string]string{"/a?x=1": "->/b?y=2", "/p": "<p>hi"})
	for target, want := range map[string]struct {
		status int
		to     string
	}{"/a?x=1": {302, "/b?y=2"}, "/a": {404, ""}, "/p": {200, ""}, "/p?z=1": {404, ""}} {
		rw := httptest.NewRecorder()
		site.ServeHTTP(rw, httptest.NewRequest("GET", "http://a.example"+target, nil))
		if to := rw.Header().Get("Location"); rw.Code != want.status || to != want.to {
			t.Errorf("%s: %d to %q, want %v", target, rw.Code, to, want)
		}
	}
}
