package urlfrontier

import (
	"context"
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

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/urlfrontier/pb"
)

const (
	// leastConns and mostConns bound the connections. They may take a quarter of the process's file descriptors.
	leastConns, mostConns = 16, 1024
	// strangers bounds the connections that have not sent a request yet.
	strangers     = 64
	headerTimeout = 5 * time.Second
	idleTimeout   = 5 * time.Minute
	closeTime     = time.Second
	// silence is the time after which the server asks a silent connection with open calls whether it still lives.
	silence = 30 * time.Second
	// maxMessage bounds a message of a client. A larger one ends its call.
	maxMessage = 1 << 20
)

// ErrAddr reports an address on which the server does not listen.
var ErrAddr = errors.New("other machines can reach it")

// A Server answers the API until Close.
type Server struct {
	ln   net.Listener
	http *http.Server
	done chan struct{}
}

// Listen opens a listener at addr, an IP address and a port. The API has no password. So the address must be loopback,
// unless remote is true; the error is ErrAddr.
func Listen(addr string, remote bool) (net.Listener, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen %q: not an IP address and a port; give such as 127.0.0.1:7071", addr)
	}
	if !ap.Addr().IsLoopback() && !remote {
		return nil, fmt.Errorf("listen %s: %w, and the API has no password", addr, ErrAddr)
	}
	ln, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen %s: the port is in use; choose another", addr)
	}
	if err != nil {
		return nil, fmt.Errorf("listen %s: %s", addr, inbound.NotOpened(err))
	}
	return ln, nil
}

// Serve answers the API for s at ln, which comes from Listen and which Close closes. by is the clock; nil
// means clock.System.
func Serve(s *Store, ln net.Listener, by clock.Clock) *Server {
	pool := inbound.New(inbound.Config{Strangers: strangers, Proven: inbound.Share(4, leastConns, mostConns)})
	v := &Server{ln: pool.Listen(ln), done: make(chan struct{}), http: &http.Server{
		Handler:           handler(&service{s: s, addr: ln.Addr().String(), clock: clock.Or(by)}),
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 16 << 10, Protocols: protocols(),
		HTTP2: &http.HTTP2Config{SendPingTimeout: silence, PingTimeout: headerTimeout},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ErrorLog: log.New(io.Discard, "", 0), // invalid requests are not shown to the operator
	}}
	go func() {
		defer close(v.done)
		v.http.Serve(v.ln)
	}()
	return v
}

// connKey is the context key of a request's connection.
type connKey struct{}

// cutKey is the context key of a request's *http.ResponseController.
type cutKey struct{}

// cut ends the wait for the next message of a request.
func cut(ctx context.Context) {
	if c, ok := ctx.Value(cutKey{}).(*http.ResponseController); ok {
		_ = c.SetReadDeadline(time.Unix(1, 0)) // without deadlines, the client's next message ends the wait
	}
}

// handler returns the handler of the API. If the server listens on loopback, the Host of a request must be an address
// or localhost.
func handler(v *service) http.Handler {
	ap, err := netip.ParseAddrPort(v.addr)
	local := err == nil && ap.Addr().IsLoopback()
	mux := http.NewServeMux()
	path, calls := pb.NewURLFrontierHandler(v, connect.WithReadMaxBytes(maxMessage), inbound.Codecs())
	mux.Handle(path, newRooms(v.s.cfg.MemoryBytes).bound(calls))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := inbound.IsLocalHost(r.Host); local && !ok {
			http.Error(w, fmt.Sprintf("the Host %.100q is no name of this server: call it by its IP address or by "+
				"localhost", r.Host), http.StatusMisdirectedRequest)
			return
		}
		if r.Header.Get("Origin") != "" {
			http.Error(w, "pages in a browser may not call this API", http.StatusForbidden)
			return
		}
		if c, ok := r.Context().Value(connKey{}).(*inbound.Conn); ok {
			c.Prove() // too many connections: this one is closed
		}
		mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), cutKey{}, http.NewResponseController(w))))
	})
}

// protocols are HTTP/1.1, for tools, and HTTP/2 without TLS, for gRPC.
func protocols() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	return p
}

// Addr returns the address and port on which the server listens.
func (v *Server) Addr() string { return v.ln.Addr().String() }

// Close ends the server. Calls in progress have a second to end.
func (v *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	_ = v.http.Shutdown(ctx) // what is left is closed below
	err := v.http.Close()
	<-v.done
	return err
}
