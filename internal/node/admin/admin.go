// Package admin answers: how do operators and monitoring systems talk to a running crawl?
//
//	GET /healthz  200 while the process lives; no token
//	GET /readyz   200 if the agent has joined and crawls, else 503; no token
//	GET /metrics  Prometheus text
//	GET /debug/pprof/
//	              profiles of the process, only over loopback
//	/orbweaver.operator.v1.Operator/METHOD
//	              the calls of package operate: Connect, gRPC and gRPC-Web, in JSON or protobuf
//
// The server listens on loopback only. All paths but /healthz and /readyz require the token in
// the crawl directory (Authorization: Bearer): users who can read the directory may call, and
// a page in a browser cannot. The number of connections is
// bounded, and connections without the token give way to others. So no other user of the
// machine can take the crawl's file descriptors or keep its operator out.
//
// A Server runs its own goroutines, and Close waits for them. It calls the functions of its
// Config concurrently.
package admin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// Config configures a Server. Operator and the functions must be safe for concurrent use.
type Config struct {
	// Addr is a loopback address and port, such as 127.0.0.1:7480. It has no
	// effect if there is a Listener.
	Addr string
	// Listener comes from Reserve. The Server owns and closes it.
	Listener net.Listener
	// Token is the secret that callers must send. NewToken makes one.
	Token string
	// Operator answers operators.
	Operator pb.OperatorHandler
	// Ready reports whether the agent has joined its cluster and crawls.
	Ready func() bool
	// Metrics gathers the metrics for /metrics.
	Metrics prometheus.Gatherer
}

// ErrAddr reports an address that Listen refuses.
var ErrAddr = errors.New("not a loopback address and port")

// NewToken returns a new secret of 130 random bits.
func NewToken() string { return rand.Text() }

const (
	// leastConns and maxConns bound the connections that have shown the token, and separately all
	// others. Each kind may take a thirty-second of the process's file descriptors.
	leastConns, maxConns = 8, 64
	// headerTimeout bounds the time for a request's header, from the start of the connection or the
	// end of the previous answer. readTimeout bounds the time for the whole request.
	headerTimeout, readTimeout = 5 * time.Second, 10 * time.Second
	writeTimeout               = 30 * time.Second
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = time.Minute
	// closeTime bounds the wait for calls in progress at the end.
	closeTime  = time.Second
	maxRequest = 1 << 20 // bytes of a call's message
)

// A Server answers HTTP requests from Listen until Close.
type Server struct {
	ln   net.Listener
	http *http.Server
	done chan struct{}
}

// CheckAddr reports whether addr is a loopback address and port. The error is an ErrAddr.
func CheckAddr(addr string) error {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil || !ap.Addr().IsLoopback() {
		return fmt.Errorf("api %q: %w; give one such as 127.0.0.1:7480", addr, ErrAddr)
	}
	return nil
}

// Reserve opens a listener on a loopback address and port, before there is a crawl to ask.
// Port 0 takes any free port. The error is an ErrAddr, or it names the address.
func Reserve(addr string) (net.Listener, error) {
	if err := CheckAddr(addr); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("api %s: the port is in use; choose another, or port 0 for any that is free", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("api %s: %s", addr, inbound.NotOpened(err))
	}
	return ln, nil
}

// Listen starts a server on cfg.Listener, or on cfg.Addr. The error is an ErrAddr, or it
// names the address.
func Listen(cfg Config) (*Server, error) {
	ln := cfg.Listener
	if ln == nil {
		var err error
		if ln, err = Reserve(cfg.Addr); err != nil {
			return nil, err
		}
	}
	share := inbound.Share(32, leastConns, maxConns)
	pool := inbound.New(inbound.Config{Strangers: share, Proven: share})
	s := &Server{ln: pool.Listen(ln), done: make(chan struct{}), http: &http.Server{
		Handler: handler(cfg), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: 16 << 10, Protocols: protocols(),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ErrorLog: log.New(io.Discard, "", 0), // invalid requests are not shown to the operator
	}}
	go func() {
		defer close(s.done)
		s.http.Serve(s.ln)
	}()
	return s, nil
}

// protocols are HTTP/1.1 and, for gRPC, HTTP/2 without TLS (RFC 9113, section 3.3: with prior knowledge).
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// connKey is the context key of a request's connection.
type connKey struct{}

// Addr returns the address and port on which the server listens.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Close stops the server and closes its connections. Calls in progress have closeTime to end: an operator who stops
// the crawl gets the answer. It blocks until the server's goroutine has ended.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = s.http.Shutdown(ctx) // what is left is closed below
	err := s.http.Close()
	<-s.done
	return err
}

func handler(cfg Config) http.Handler {
	private := http.NewServeMux()
	private.Handle(pb.NewOperatorHandler(cfg.Operator, connect.WithReadMaxBytes(maxRequest)))
	private.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{}))
	profiles(private)
	want := []byte("Bearer " + cfg.Token)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !cfg.Ready() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "no valid token: send the one in state/api.json of the crawl directory (Authorization: "+
				"Bearer)",
				http.StatusUnauthorized)
			return
		}
		if c, ok := r.Context().Value(connKey{}).(*inbound.Conn); ok {
			c.Prove() // too many proven connections: this one is closed first
		}
		private.ServeHTTP(w, r)
	})
	return mux
}
