package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	"github.com/orbweaver/orbweaver/internal/testkit/must"
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
	s := listen(t, func(c *Config) {
		c.Metrics, c.Ready = reg, ready.Load
		c.Settings = []Setting{{Group: "G", Name: "page-limit", Value: "3", Default: "0"}}
	})
	tests := []struct {
		path, token string
		status      int
		holds       string
	}{
		{"/healthz", "", 200, "ok"},
		{"/readyz", "", 503, "not ready"},
		{"POST " + service + "Status", "", 401, "state/api.json"},
		{"POST " + service + "Status", "wrong", 401, "token"},
		{"POST " + service + "Status", "secret", 200, `"totals":{"pages":3}`},
		{"POST " + service + "Status", "secret", 200, `"agent":"a1"`},
		{service + "Status?encoding=json&message=%7B%7D&connect=v1", "secret", 200, `"pages":3`},
		{service + "Status?encoding=json&message=%7B%7D&connect=v1", "", 401, "token"},
		{service + "Give?encoding=json&message=%7B%7D&connect=v1", "secret", 405, ""},
		{"POST " + service + "Give", "secret", 501, "unimplemented"},
		{"POST " + service + "Nothing", "secret", 404, ""},
		{"/metrics", "secret", 200, "orbweaver_crawl_pages_total 3"},
		{"/metrics", "", 401, "token"},
		{"/settings", "secret", 200, `[{"group":"G","name":"page-limit","value":"3","default":"0"}]`},
		{"/settings", "", 401, "token"},
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
		if strings.HasSuffix(path, "Give") {
			body = strings.NewReader("{}")
		}
		req, _ := http.NewRequest(method, "http://"+s.Addr()+path, body)
		req.Header.Set("Content-Type", "application/json")
		if tt.token != "" {
			req.Header.Set("Authorization", "Bearer "+tt.token)
		}
		res := must.Get(client.Do(req))(t)
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != tt.status || !strings.Contains(string(b), tt.holds) {
			t.Errorf("%s with token %q: got %d %q, want %d and %q", tt.path, tt.token, res.StatusCode, b, tt.status,
				tt.holds)
		}
	}
	ready.Store(true)
	res := must.Get(client.Get("http://" + s.Addr() + "/readyz"))(t)
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

// The calls also are gRPC and gRPC-Web, and want the token there, too. With TLS, the API answers on any address.
func TestProtocols(t *testing.T) {
	cert := certificate(t, "localhost")
	leaf := must.Get(x509.ParseCertificate(cert.Certificate[0]))(t)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	plain := listen(t, func(*Config) {})
	secure := listen(t, func(c *Config) { c.Addr, c.Cert = "0.0.0.0:0", cert })
	_, port, _ := strings.Cut(secure.Addr(), "]:")
	overHTTP2 := new(http.Protocols)
	overHTTP2.SetUnencryptedHTTP2(true)
	withTLS := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	defer withTLS.CloseIdleConnections()
	for name, c := range map[string]struct {
		url       string
		protocol  connect.ClientOption
		transport *http.Transport
	}{
		"gRPC":              {"http://" + plain.Addr(), connect.WithGRPC(), &http.Transport{Protocols: overHTTP2}},
		"gRPC-Web":          {"http://" + plain.Addr(), connect.WithGRPCWeb(), &http.Transport{}},
		"Connect":           {"http://" + plain.Addr(), connect.WithProtoJSON(), &http.Transport{}},
		"gRPC with TLS":     {"https://localhost:" + port, connect.WithGRPC(), withTLS},
		"Connect with TLS":  {"https://localhost:" + port, connect.WithProtoJSON(), withTLS},
		"gRPC-Web with TLS": {"https://localhost:" + port, connect.WithGRPCWeb(), withTLS},
	} {
		client := pb.NewOperatorClient(&http.Client{Transport: c.transport}, c.url, c.protocol)
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
	res := must.Get(http.Get("http://localhost:" + port + "/healthz"))(t)
	res.Body.Close()
	if res.StatusCode != 400 {
		t.Errorf("without TLS: %s", res.Status)
	}
}
