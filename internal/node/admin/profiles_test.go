package admin

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// Profiles need the token.
func TestProfiles(t *testing.T) {
	s := listen(t, func(*Config) {})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path, token string) (int, []byte) {
		t.Helper()
		req, _ := http.NewRequest("GET", "http://"+s.Addr()+path, nil)
		req.Header.Set("Authorization", "Bearer "+token)
		res := must.Get(client.Do(req))(t)
		defer res.Body.Close()
		b := must.Get(io.ReadAll(res.Body))(t)
		return res.StatusCode, b
	}
	for _, c := range []struct {
		path, token string
		code        int
		holds       string // the answer has this
	}{
		{"", "wrong", 401, ""}, {"heap", "wrong", 401, ""}, {"profile?seconds=1", "wrong", 401, ""},
		{"", "secret", 200, "goroutine"},
		{"goroutine?debug=1", "secret", 200, "admin.Listen"},
		{"heap", "secret", 200, "\x1f\x8b"}, // gzip
		{"profile?seconds=0.1", "secret", 200, "\x1f\x8b"},
		{"trace?seconds=0.01", "secret", 200, "go 1."},
		{"profile?seconds=1e9", "secret", 400, ""}, {"profile?seconds=-1", "secret", 400, ""},
		{"profile?seconds=x", "secret", 400, ""}, {"trace?seconds=NaN", "secret", 400, ""},
		{"nothing", "secret", 404, ""}, {"cmdline", "secret", 404, ""},
	} {
		if code, b := get("/debug/pprof/"+c.path, c.token); code != c.code || !strings.Contains(string(b), c.holds) {
			t.Errorf("%s with token %s: got %d, want %d with %q: %.80q", c.path, c.token, code, c.code, c.holds, b)
		}
	}
}

// A server that listens on another address answers no profile.
func TestProfilesElsewhere(t *testing.T) {
	mux := http.NewServeMux()
	profiles(mux)
	for _, c := range []struct {
		local, remote string
		code          int
	}{
		{"127.0.0.1:7480", "127.0.0.1:5555", 200},
		{"[::1]:7480", "[::1]:5555", 200},
		{"192.0.2.1:7480", "127.0.0.1:5555", 403},
		{"127.0.0.1:7480", "192.0.2.7:5555", 403},
		{"192.0.2.1:7480", "192.0.2.1:5555", 403},
		{"", "127.0.0.1:5555", 403},
	} {
		r := httptest.NewRequest("GET", "/debug/pprof/", nil)
		r.RemoteAddr = c.remote
		if addr, err := net.ResolveTCPAddr("tcp", c.local); c.local != "" && err == nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
		}
		w := httptest.NewRecorder()
		if mux.ServeHTTP(w, r); w.Code != c.code {
			t.Errorf("%s from %s: got %d, want %d", c.local, c.remote, w.Code, c.code)
		}
	}
}
