package replay

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/output/captures"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/warc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A served is a replay server that records the requests it gets.
type served struct {
	*Server
	mu       sync.Mutex // guards the requests
	requests []string   // method, Host and URI
}

// serve starts a server for crawl directories.
func serve(t testing.TB, dirs ...string) *served {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	archive := captures.New(nil, warc.Places(dirs...), nil)
	s := &served{Server: New(Config{Archive: archive, Addr: ln.Addr().String(), Name: "test"})}
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.Host+r.RequestURI)
		s.mu.Unlock()
		s.ServeHTTP(w, r)
	}))
	web.Listener.Close()
	web.Listener = ln
	web.Start()
	t.Cleanup(web.Close)
	return s
}

// asked reports whether the server got a request that contains text.
func (s *served) asked(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.requests, func(r string) bool { return strings.Contains(r, text) })
}
