package s3

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/orbweaver/orbweaver/internal/store/object"
)

// An Environment has the variables of a process, as os.LookupEnv returns them.
type Environment interface {
	LookupEnv(name string) (string, bool)
}

// variable returns the first of several variables that is set and not empty.
func variable(env Environment, names ...string) string {
	for _, name := range names {
		if v, ok := env.LookupEnv(name); ok && v != "" {
			return v
		}
	}
	return ""
}

// newTransport returns what carries requests: with the proxies and the certificate authorities of the environment.
func newTransport(env Environment) (*http.Transport, error) {
	proxy := (&httpproxy.Config{HTTPProxy: variable(env, "HTTP_PROXY", "http_proxy"),
		HTTPSProxy: variable(env, "HTTPS_PROXY", "https_proxy"),
		NoProxy:    variable(env, "NO_PROXY", "no_proxy")}).ProxyFunc()
	t := &http.Transport{
		Proxy:       func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
		DialContext: (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		// Uploads in parts of several files at once use some connections.
		MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
		ResponseHeaderTimeout: 2 * time.Minute, ExpectContinueTimeout: 10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10, WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10,
		DisableCompression: true, // so that ranges and lengths are those of the object
	}
	if name := variable(env, "AWS_CA_BUNDLE"); name != "" {
		pem, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("AWS_CA_BUNDLE: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("AWS_CA_BUNDLE: %s has no certificate; give a PEM file", name)
		}
		t.TLSClientConfig = tlsConfig(pool)
	}
	return t, nil
}

// maxAnswer bounds the answers that are not the content of an object: a list of 1000 keys takes up to 5 MB.
const maxAnswer = 16 << 20

// bounds bounds answers, and how many requests a list takes.
type bounds struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounds) RoundTrip(r *http.Request) (*http.Response, error) {
	if left, ok := r.Context().Value(budget{}).(*atomic.Int32); ok && left.Add(-1) < 0 {
		return nil, fmt.Errorf("%w (a list without objects that does not end)", object.ErrAnswer)
	}
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	q := r.URL.Query()
	content := r.Method == http.MethodGet && resp.StatusCode/100 == 2 && !q.Has("list-type") && !q.Has("uploads")
	if !content && resp.Body != nil {
		resp.Body = &short{resp.Body, maxAnswer}
	}
	return resp, nil
}

// A short body ends with an error if it is too long.
type short struct {
	io.ReadCloser
	left int64
}

func (s *short) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if s.left -= int64(n); s.left < 0 {
		return 0, fmt.Errorf("%w (over %d bytes)", object.ErrAnswer, maxAnswer)
	}
	return n, err
}

// budget is the key of the number of requests that a list may still take.
type budget struct{}

// listRequests is how many requests one page of a list may take: some stores send fewer objects than asked for.
const listRequests = 20

func withBudget(ctx context.Context) context.Context {
	left := new(atomic.Int32)
	left.Store(listRequests)
	return context.WithValue(ctx, budget{}, left)
}
