package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
)

// TestSigned: a call carries who makes it, by its header or else by its address.
func TestSigned(t *testing.T) {
	long := strings.Repeat("é", 150)
	for _, c := range []struct{ name, header, from, want string }{
		{"a name", "alice@ws", "127.0.0.1:5", "alice@ws"},
		{"a name in UTF-8", "J%C3%BCrgen%20B", "[::1]:5", "Jürgen B"},
		{"a plain name in UTF-8", "Jürgen", "[::1]:5", "Jürgen"},
		{"no encoding", "100%", "127.0.0.1:5", "100%"},
		{"control characters", "a%0Ab%1b[2J", "127.0.0.1:5", "ab[2J"},
		{"no UTF-8", "a%ff", "127.0.0.1:5", "a\ufffd"},
		{"no header", "", "127.0.0.1:5", "127.0.0.1"},
		{"a blank header", "%20", "[::ffff:192.0.2.7]:5", "192.0.2.7"},
		{"from another machine", "alice@ws", "192.0.2.7:5", "alice@ws from 192.0.2.7"},
		{"from another machine by IPv6", "alice@ws", "[2001:db8::7]:5", "alice@ws from 2001:db8::7"},
		{"a long name", long, "127.0.0.1:5", strings.Repeat("é", 100)},
		{"a long name from another machine", long, "192.0.2.7:5", strings.Repeat("é", 92) + " from 192.0.2.7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := "no call"
			h := signed(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				got = orders.Caller(r.Context())
			}))
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.RemoteAddr = c.from
			if c.header != "" {
				r.Header.Set(By, c.header)
			}
			h.ServeHTTP(httptest.NewRecorder(), r)
			if got != c.want || len(got) > orders.MaxText {
				t.Errorf("caller %q (%d bytes), want %q", got, len(got), c.want)
			}
		})
	}
}
