package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// operator answers one call.
type operator struct {
	pb.UnimplementedOperatorHandler
}

func (operator) Status(_ context.Context, q *pb.StatusRequest) (*pb.StatusResponse, error) {
	return &pb.StatusResponse{Agents: []*pb.AgentStatus{{Agent: q.Agent, Totals: &pb.Totals{Pages: 3}}}}, nil
}

func TestServer(t *testing.T) {
	var ready atomic.Bool
	reg := prometheus.NewRegistry()
	n := prometheus.NewCounter(prometheus.CounterOpts{Name: "orbweaver_crawl_pages_total", Help: "Pages."})
	n.Add(3)
	reg.MustRegister(n)
	s, err := Listen(Config{
		Addr: "127.0.0.1:0", Token: "secret", Metrics: reg,
		Operator: operator{}, Ready: ready.Load,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const service = "/orbweaver.operator.v1.Operator/"
	tests := []struct {
		path, token string
		status      int
		holds       string
	}{
		{"/healthz", "", 200, "ok"},
		{"/readyz", "", 503, "not ready"},
		{"POST " + service + "Status", "", 401, "state/api.json"},
		{"POST " + service + "Status", "wrong", 401, "token"},
		{"POST " + service + "Status", "secret", 200, `"totals":{"pages":"3"}`},
		{"POST " + service + "Status", "secret", 200, `"agent":"a1"`},
		{service + "Status?encoding=json&message=%7B%7D&connect=v1", "secret", 200, `"pages":"3"`},
		{service + "Status?encoding=json&message=%7B%7D&connect=v1", "", 401, "token"},
		{service + "Pause?encoding=json&message=%7B%7D&connect=v1", "secret", 405, ""},
		{"POST " + service + "Pause", "secret", 501, "unimplemented"},
		{"POST " + service + "Nothing", "secret", 404, ""},
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
		var body io.Reader
		if posted {
			body = strings.NewReader(`{"agent": "a1"}`)
		}
		if strings.HasSuffix(path, "Pause") {
			body = strings.NewReader("{}")
		}
		req, _ := http.NewRequest(method, "http://"+s.Addr()+path, body)
		req.Header.Set("Content-Type", "application/json")
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
	ready.Store(true)
	res, err := client.Get("http://" + s.Addr() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("/readyz of an agent that is ready: %s", res.Status)
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

// The calls also are gRPC and gRPC-Web, and want the token there, too.
func TestGRPC(t *testing.T) {
	s, err := Listen(Config{Addr: "127.0.0.1:0", Token: "secret", Metrics: prometheus.NewRegistry(),
		Operator: operator{},
		Ready:    func() bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	overHTTP2 := new(http.Protocols)
	overHTTP2.SetUnencryptedHTTP2(true)
	for name, c := range map[string]struct {
		protocol  connect.ClientOption
		transport *http.Transport
	}{
		"gRPC":     {connect.WithGRPC(), &http.Transport{Protocols: overHTTP2}},
		"gRPC-Web": {connect.WithGRPCWeb(), &http.Transport{}},
		"Connect":  {connect.WithProtoJSON(), &http.Transport{}},
	} {
		client := pb.NewOperatorClient(&http.Client{Transport: c.transport}, "http://"+s.Addr(), c.protocol)
		for token, want := range map[string]connect.Code{"secret": 0, "wrong": connect.CodeUnauthenticated} {
			ctx, info := connect.NewClientContext(t.Context())
			info.RequestHeader().Set("Authorization", "Bearer "+token)
			res, err := client.Status(ctx, &pb.StatusRequest{Agent: "a1"})
			if err == nil && (want != 0 || res.Agents[0].Agent != "a1") || err != nil && connect.CodeOf(err) != want {
				t.Errorf("%s with token %s: %v, %v", name, token, res, err)
			}
		}
		c.transport.CloseIdleConnections()
	}
}
