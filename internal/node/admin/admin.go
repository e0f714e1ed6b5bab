// Package admin answers: how do operators and monitoring systems talk to a running crawl?
//
//	GET /healthz  200 while the process lives; no token
//	GET /readyz   200 if the agent has joined and crawls, else 503; no token
//	GET /metrics  Prometheus text
//	GET /debug/pprof/
//	              profiles of the process, only over loopback
//	/orbweaver.operator.v1.Operator/METHOD
//	              the calls of package operate: Connect, gRPC and gRPC-Web, in JSON or protobuf
//	/             the console; no token, because it shows nothing before its user has logged in
//	/archive/     archived pages for a frame of the console; their key is in the path
//	/session      the role of a browser; POST logs it in with a token, DELETE logs it out
//
// Without TLS the server listens on loopback only. The calls and the metrics require one of two tokens in the crawl
// directory (Authorization: Bearer), or the cookie of a browser that has logged in with one. The reader's token permits
// only calls that change nothing. The file access.go has what else is checked.
//
// The number of connections is bounded, and connections without a token give way to others. So no stranger can take
// the crawl's file descriptors or keep its operator out.
//
// A Server runs its own goroutines, and Close waits for them. It calls the functions of its
// Config concurrently.
package admin

import (
	"context"
	"crypto/rand"
	"crypto/tls"
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

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
)

// Config configures a Server. Operator and the functions must be safe for concurrent use.
type Config struct {
	// Addr is an address and port, such as 127.0.0.1:7480. It has no effect if there is a Listener.
	Addr string
	// Listener comes from Reserve. The Server owns and closes it.
	Listener net.Listener
	// Cert is the certificate for TLS. Nil means no TLS, on loopback only.
	Cert *tls.Certificate
	// Token is the secret that callers must send. ReaderToken permits only calls that change nothing; empty: none
	// does. NewToken makes one.
	Token, ReaderToken string
	// Console serves the pages of the console; nil: there is none.
	Console http.Handler
	// Archive serves the archived pages below /archive/. It checks the key in the path by itself, because their frame
	// has no cookie. Nil: there is none.
	Archive http.Handler
	// Settings are those of the crawl, without secrets, for /settings.
	Settings []Setting
	// Clock is the clock for the limit of wrong tokens; nil means clock.System.
	Clock clock.Clock
	// Operator answers operators.
	Operator pb.OperatorHandler
	// Ready reports whether the agent has joined its cluster and crawls.
	Ready func() bool
	// Metrics gathers the metrics for /metrics.
	Metrics prometheus.Gatherer
	// MemoryBytes bounds the memory of the calls and archived pages that are served at once. Zero means 16 MiB.
	MemoryBytes int64
	// Panicked is told of a call that panics, with the stack. Its caller gets an error. Nil tells nobody.
	Panicked func(call string, value any, stack []byte)
}

// A Setting is one of the settings of the crawl, as people write it.
type Setting struct {
	Group   string `json:"group"`
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
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
	closeTime = time.Second
	// maxRequest bounds the bytes of a call's message, and maxQuestion that of a call that changes nothing.
	maxRequest, maxQuestion = 1 << 20, 128 << 10
	// pagesTime bounds a call that waits for pages of an application, and pagesPath is its path.
	pagesTime = 90 * time.Second
	pagesPath = "/orbweaver.operator.v1.Operator/Pages"
	// archivePath begins the paths of archived pages.
	archivePath = "/archive/"
)

// A Server answers HTTP requests from Listen until Close.
type Server struct {
	ln   net.Listener
	http *http.Server
	end  context.CancelFunc // ends streams
	done chan struct{}
}

// CheckAddr reports whether addr is an address and port, on loopback unless the server uses TLS. The error is an
// ErrAddr.
func CheckAddr(addr string, secure bool) error {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil || !secure && !ap.Addr().IsLoopback() {
		return fmt.Errorf("api %q: %w; give one such as 127.0.0.1:7480, or none", addr, ErrAddr)
	}
	return nil
}

// Reserve opens a listener on an address and port, before there is a crawl to ask. Port 0 takes any free port. secure
// is as in CheckAddr. The error is an ErrAddr, or it names the address.
func Reserve(addr string, secure bool) (net.Listener, error) {
	if err := CheckAddr(addr, secure); err != nil {
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
	g, err := newGate(cfg)
	if err != nil {
		return nil, err
	}
	ln := cfg.Listener
	if ln == nil {
		if ln, err = Reserve(cfg.Addr, cfg.Cert != nil); err != nil {
			return nil, err
		}
	} else if err := CheckAddr(ln.Addr().String(), cfg.Cert != nil); err != nil {
		return nil, err
	}
	share := inbound.Share(32, leastConns, maxConns)
	pool := inbound.New(inbound.Config{Strangers: share, Proven: share})
	s := &Server{ln: pool.Listen(ln), done: make(chan struct{}), http: &http.Server{
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: 16 << 10, Protocols: protocols(cfg.Cert != nil),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if secure, ok := c.(*tls.Conn); ok {
				c = secure.NetConn()
			}
			return context.WithValue(ctx, connKey{}, c)
		},
		ErrorLog: log.New(io.Discard, "", 0), // invalid requests are not shown to the operator
	}}
	var ending context.Context
	ending, s.end = context.WithCancel(context.Background())
	s.http.Handler = handler(cfg, g, ending)
	serve := func() error { return s.http.Serve(s.ln) }
	if cfg.Cert != nil {
		s.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*cfg.Cert}}
		serve = func() error { return s.http.ServeTLS(s.ln, "", "") }
	}
	go func() {
		defer close(s.done)
		_ = serve() // it ends with Close
	}()
	return s, nil
}

// protocols are HTTP/1.1 and, for gRPC, HTTP/2: over TLS, or without it (RFC 9113, section 3.3: with prior knowledge).
func protocols(secure bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetHTTP2(secure)
	p.SetUnencryptedHTTP2(!secure)
	return p
}

// connKey is the context key of a request's connection.
type connKey struct{}

// Addr returns the address and port on which the server listens.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Close stops the server and closes its connections. Streams end at once. Calls in progress have closeTime to end: an
// operator who stops the crawl gets the answer. It blocks until the server's goroutine has ended.
func (s *Server) Close() error {
	s.end()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = s.http.Shutdown(ctx) // what is left is closed below
	err := s.http.Close()
	<-s.done
	return err
}

func handler(cfg Config, g *gate, ending context.Context) http.Handler {
	private := http.NewServeMux()
	path, calls := pb.NewOperatorHandler(cfg.Operator, options(cfg)...)
	rooms := newRooms(cfg.MemoryBytes, g.refuse)
	private.Handle(path, rooms.bound(signed(streams(calls, ending))))
	private.Handle("GET /metrics", promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{}))
	private.HandleFunc("GET /settings", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(cfg.Settings) // else the caller has gone
	})
	profiles(private)
	guarded := http.NewServeMux() // the paths whose requests must name this server
	guarded.HandleFunc("/session", g.session)
	guarded.Handle("/", g.admit(private))
	if cfg.Console != nil {
		for _, path := range []string{"GET /{$}", "GET /console/"} {
			guarded.Handle(path, cfg.Console)
		}
	}
	if cfg.Archive != nil {
		guarded.Handle("GET "+archivePath, rooms.bound(cfg.Archive))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !cfg.Ready() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.Handle("/", g.named(guarded))
	return mux
}

// options returns how messages are read, and how a call ends that panics.
func options(cfg Config) []connect.HandlerOption {
	return []connect.HandlerOption{inbound.Recovering(cfg.Panicked), inbound.Codecs(),
		connect.WithConditionalHandlerOptions(func(s connect.Spec) []connect.HandlerOption {
			if changing[s.Procedure] {
				return []connect.HandlerOption{connect.WithReadMaxBytes(maxRequest)}
			}
			return []connect.HandlerOption{connect.WithReadMaxBytes(maxQuestion)}
		})}
}

// streams lets calls that are streams last: without the times for a whole request and its answer, until ending is done.
// A call for pages of an application lasts for pagesTime.
func streams(next http.Handler, ending context.Context) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if waits := r.URL.Path == pagesPath; waits || streaming[r.URL.Path] {
			var end time.Time
			if waits {
				end = time.Now().Add(pagesTime)
			}
			c := http.NewResponseController(w)
			if err := errors.Join(c.SetReadDeadline(end), c.SetWriteDeadline(end)); err != nil {
				http.Error(w, "this connection cannot carry a stream", http.StatusInternalServerError)
				return
			}
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(ending, cancel)()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}
