// Package admin answers: how do operators and monitoring systems talk to a running crawl?
//
//	GET /healthz          200 while the process lives; no token
//	GET /status           JSON: the crawl as it stands
//	GET /explain?host=H   text: why H is not being crawled now
//	POST /block?host=H    stop crawling H; the answer, text, says how many links wait
//	POST /unblock?host=H  crawl H again
//	POST /drop?host=H     discard the waiting links of H
//	POST /leave           hand all hosts to the other agents, and end
//	GET /metrics          Prometheus text
//
// The server listens on loopback only. All paths but /healthz require the token in the
// crawl directory (Authorization: Bearer): users who can read the directory may call, and
// a page in a browser cannot. Only POST changes a crawl. The number of connections is
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
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/orbweaver/orbweaver/internal/inbound"
)

// Config configures a Server. Its functions must be safe for concurrent use.
type Config struct {
	// Addr is a loopback address and port, such as 127.0.0.1:7480. It has no
	// effect if there is a Listener.
	Addr string
	// Listener comes from Reserve. The Server owns and closes it.
	Listener net.Listener
	// Token is the secret that callers must send. NewToken makes one.
	Token string
	// Status returns the value that /status encodes as JSON.
	Status func() any
	// Explain returns why a host is not crawled now. Block, Unblock and Drop change the
	// host, and return a message about the result. The error is an ErrHost if the name is
	// wrong, and an ErrElsewhere if another agent crawls the host and nothing has changed.
	// ctx ends after 10 s.
	Explain, Block, Unblock, Drop func(ctx context.Context, host string) (string, error)
	// Leave makes the agent hand its hosts to others and end. Nil: the agent cannot leave.
	Leave func(ctx context.Context) (string, error)
	// Metrics gathers the metrics for /metrics.
	Metrics prometheus.Gatherer
}

// ErrHost reports a string that is not a host name. The server answers 400 Bad Request.
var ErrHost = errors.New("not a host name")

// ErrElsewhere reports a command for a host that another agent crawls. The server answers
// 409 Conflict.
var ErrElsewhere = errors.New("this agent has changed nothing")

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
		IdleTimeout: idleTimeout, MaxHeaderBytes: 16 << 10,
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

// connKey is the context key of a request's connection.
type connKey struct{}

// Addr returns the address and port on which the server listens.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Close stops the server and closes its connections. It blocks until the server's
// goroutine has ended.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	return err
}

func handler(cfg Config) http.Handler {
	private := http.NewServeMux()
	private.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.Encode(cfg.Status())
	})
	private.HandleFunc("GET /explain", aboutHost(cfg.Explain))
	private.HandleFunc("POST /block", aboutHost(cfg.Block))
	private.HandleFunc("POST /unblock", aboutHost(cfg.Unblock))
	private.HandleFunc("POST /drop", aboutHost(cfg.Drop))
	if cfg.Leave != nil {
		private.HandleFunc("POST /leave", func(w http.ResponseWriter, r *http.Request) { say(w, r, cfg.Leave) })
	}
	private.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{}))
	want := []byte("Bearer " + cfg.Token)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
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

// aboutHost returns a handler that calls fn with the host of the request, and answers with its
// text.
func aboutHost(fn func(ctx context.Context, host string) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		host := r.URL.Query().Get("host")
		if host == "" {
			http.Error(w, "no host: add one, such as "+r.URL.Path+"?host=www.example.org", http.StatusBadRequest)
			return
		}
		say(w, r, func(ctx context.Context) (string, error) { return fn(ctx, host) })
	}
}

// say calls fn and answers with its text.
func say(w http.ResponseWriter, r *http.Request, fn func(ctx context.Context) (string, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	text, err := fn(ctx)
	switch {
	case errors.Is(err, ErrHost):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, ErrElsewhere):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintln(w, text)
	}
}
