// Package admin answers: how do people and monitors talk to a running crawl?
//
//	GET /healthz          200 while the process lives; no token
//	GET /status           JSON: the crawl as it stands
//	GET /explain?host=H   text: why H is not being crawled now
//	POST /block?host=H    let H alone; the answer, text, says how many links wait
//	POST /unblock?host=H  take that back
//	POST /drop?host=H     give up the links of H that wait
//	POST /leave           give all hosts to the other agents, and end
//	GET /metrics          Prometheus text
//
// It listens on loopback only, and all but /healthz want the token that stands
// in the crawl directory (Authorization: Bearer), so that who may read the
// directory may ask, and no page in a browser can. Only what is POSTed changes
// a crawl. Connections are bounded, and those without the token make room for others,
// so that no other user of the machine can take the crawl's descriptors or keep its
// operator out.
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

// Config is what a Server shows.
type Config struct {
	// Addr is a loopback address and port, such as 127.0.0.1:7480. It has no
	// effect with a Listener.
	Addr string
	// Listener, from Reserve, is where the Server answers. The Server owns it.
	Listener net.Listener
	// Token is what callers must know. NewToken makes one.
	Token string
	// Status returns what /status encodes as JSON. Safe for concurrent use.
	Status func() any
	// Explain says why a host is not crawled now; the others do to it what
	// their names say, and tell what came of it. Safe for concurrent use. An
	// ErrHost is the caller's mistake; an ErrElsewhere says that another agent
	// crawls the host, and that nothing has changed.
	Explain, Block, Unblock, Drop func(ctx context.Context, host string) (string, error)
	// Leave has the agent give its hosts away and end; nil: it cannot. Safe for
	// concurrent use.
	Leave func(ctx context.Context) (string, error)
	// Metrics gathers for /metrics.
	Metrics prometheus.Gatherer
}

// ErrHost is a host name that is none.
var ErrHost = errors.New("not a host name")

// ErrElsewhere is an order that another agent has to be given. Its answer is
// 409 Conflict.
var ErrElsewhere = errors.New("another agent has to be told")

// ErrAddr is an address that Listen refuses.
var ErrAddr = errors.New("not a loopback address and port")

// NewToken returns a new secret of 130 random bits.
func NewToken() string { return rand.Text() }

const (
	// leastConns and maxConns bound the connections that have shown the token, and as
	// many others: a thirty-second of the process's descriptors each.
	leastConns, maxConns = 8, 64
	// headerTimeout is for the header of a request, from its connection's beginning or
	// the end of the answer before; readTimeout for all of it.
	headerTimeout, readTimeout = 5 * time.Second, 10 * time.Second
	writeTimeout               = 30 * time.Second
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = time.Minute
)

// Server answers until it is closed.
type Server struct {
	ln   net.Listener
	http *http.Server
	done chan struct{}
}

// CheckAddr refuses what Listen would refuse for its form. The error is an ErrAddr.
func CheckAddr(addr string) error {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil || !ap.Addr().IsLoopback() {
		return fmt.Errorf("api %q: %w, such as 127.0.0.1:7480", addr, ErrAddr)
	}
	return nil
}

// Reserve takes a loopback address and port, 0 for any, before there is
// anything to answer. The error is an ErrAddr or names the address.
func Reserve(addr string) (net.Listener, error) {
	if err := CheckAddr(addr); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("api %s: the port is in use; choose another, or port 0 for any that is free", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("api: %w", err)
	}
	return ln, nil
}

// Listen begins to answer on cfg.Listener, or on cfg.Addr.
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
		ErrorLog: log.New(io.Discard, "", 0), // what strangers send is not for the operator's terminal
	}}
	go func() {
		defer close(s.done)
		s.http.Serve(s.ln)
	}()
	return s, nil
}

// connKey is the context's key of a request's connection.
type connKey struct{}

// Addr is where it listens.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Close ends all answers and returns when none is left.
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
			http.Error(w, "a token is needed: it stands in state/api.json of the crawl directory",
				http.StatusUnauthorized)
			return
		}
		if c, ok := r.Context().Value(connKey{}).(*inbound.Conn); ok {
			c.Prove() // if there are too many such already, it is the first to be closed
		}
		private.ServeHTTP(w, r)
	})
	return mux
}

// aboutHost answers with what fn says about a host.
func aboutHost(fn func(ctx context.Context, host string) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		host := r.URL.Query().Get("host")
		if host == "" {
			http.Error(w, "no host: ask "+r.URL.Path+"?host=www.example.org", http.StatusBadRequest)
			return
		}
		say(w, r, func(ctx context.Context) (string, error) { return fn(ctx, host) })
	}
}

// say answers with what fn says.
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
