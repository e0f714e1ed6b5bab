package admin

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Profiles need the token.
func TestProfiles(t *testing.T) {
	s, err := Listen(Config{Addr: "127.0.0.1:0", Token: "secret", Metrics: prometheus.NewRegistry(),
		Operator: operator{}, Ready: func() bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path, token string) (int, []byte) {
		t.Helper()
		req, _ := http.NewRequest("GET", "http://"+s.Addr()+path, nil)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, b
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile?seconds=1"} {
		if code, b := get(path, "wrong"); code != 401 {
			t.Errorf("%s with a wrong token: %d %.80s", path, code, b)
		}
	}
	if code, b := get("/debug/pprof/", "secret"); code != 200 || !strings.Contains(string(b), "goroutine") {
		t.Errorf("index: %d %.80s", code, b)
	}
	if code, b := get("/debug/pprof/goroutine?debug=1", "secret"); code != 200 ||
		!strings.Contains(string(b), "admin.Listen") {
		t.Errorf("goroutines: %d %.200s", code, b)
	}
	for _, path := range []string{"/debug/pprof/heap", "/debug/pprof/profile?seconds=0.1"} {
		code, b := get(path, "secret")
		if _, err := gzip.NewReader(bytes.NewReader(b)); code != 200 || err != nil {
			t.Errorf("%s: %d, %v, %.80q", path, code, err, b)
		}
	}
	code, b := get("/debug/pprof/trace?seconds=0.01", "secret")
	if code != 200 || !bytes.HasPrefix(b, []byte("go 1.")) {
		t.Errorf("trace: %d %.80q", code, b)
	}
	for path, want := range map[string]int{
		"profile?seconds=1e9": 400, "profile?seconds=-1": 400, "profile?seconds=x": 400, "trace?seconds=NaN": 400,
		"nothing": 404, "cmdline": 404,
	} {
		if code, b := get("/debug/pprof/"+path, "secret"); code != want {
			t.Errorf("%s: got %d, want %d: %.80s", path, code, want, b)
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
