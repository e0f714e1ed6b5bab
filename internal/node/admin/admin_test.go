package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServer(t *testing.T) {
	reg := prometheus.NewRegistry()
	n := prometheus.NewCounter(prometheus.CounterOpts{Name: "orbweaver_crawl_pages_total", Help: "Pages."})
	n.Add(3)
	reg.MustRegister(n)
	s, err := Listen(Config{
		Addr: "127.0.0.1:0", Token: "secret", Metrics: reg,
		Status: func() any { return map[string]int{"pages": 3} },
		Explain: func(_ context.Context, host string) (string, error) {
			if host == "stopped.example" {
				return "", errors.New("the crawl is not running")
			}
			return host + ": in its quiet time", nil
		},
		Block: func(_ context.Context, host string) (string, error) { return host + ": blocked", nil },
		Unblock: func(_ context.Context, host string) (string, error) {
			return "", fmt.Errorf("%s: %w", host, ErrElsewhere)
		},
		Drop: func(_ context.Context, host string) (string, error) {
			return "", fmt.Errorf("%q: %w", host, ErrHost)
		},
		Leave: func(context.Context) (string, error) { return "it leaves", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tests := []struct {
		path, token string
		status      int
		holds       string
	}{
		{"/healthz", "", 200, "ok"},
		{"/status", "", 401, "state/api.json"},
		{"/status", "wrong", 401, "token"},
		{"/status", "secret", 200, `"pages": 3`},
		{"/explain?host=a.example", "secret", 200, "a.example: in its quiet time"},
		{"/explain", "secret", 400, "no host"},
		{"/explain?host=stopped.example", "secret", 503, "not running"},
		{"POST /block?host=a.example", "secret", 200, "a.example: blocked"},
		{"POST /unblock?host=a.example", "secret", 409, "a.example: this agent has changed nothing"},
		{"POST /drop?host=a/b", "secret", 400, `"a/b": not a host name`},
		{"POST /drop", "secret", 400, "no host: add one, such as /drop?host="},
		{"POST /block?host=a.example", "", 401, "token"},
		{"POST /leave", "secret", 200, "it leaves"},
		{"POST /leave", "", 401, "token"},
		{"/leave", "secret", 405, "Not Allowed"},
		{"/block?host=a.example", "secret", 405, "Not Allowed"},
		{"POST /explain?host=a.example", "secret", 405, "Not Allowed"},
		{"/metrics", "secret", 200, "orbweaver_crawl_pages_total 3"},
		{"/metrics", "", 401, "token"},
		{"/nothing", "secret", 404, "not found"},
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, tt := range tests {
		method, path, posted := strings.Cut(tt.path, " ")
		if !posted {
			method, path = "GET", tt.path
		}
		req, _ := http.NewRequest(method, "http://"+s.Addr()+path, nil)
		if tt.token != "" {
			req.Header.Set("Authorization", "Bearer "+tt.token)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != tt.status || !strings.Contains(string(b), tt.holds) {
			t.Errorf("%s with token %q: got %d %q, want %d and %q", tt.path, tt.token, res.StatusCode, b, tt.status,
				tt.holds)
		}
	}
}

func TestListenRefusesOtherAddresses(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:7480", ":7480", "192.0.2.1:80", "localhost:80", "127.0.0.1"} {
		if s, err := Listen(Config{Addr: addr}); !errors.Is(err, ErrAddr) {
			t.Errorf("Listen(%q): got %v, want ErrAddr", addr, err)
			if s != nil {
				s.Close()
			}
		}
	}
}
