package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/orbweaver/orbweaver/internal/inbound"
)

const (
	callerHeader = "Orbweaver-Caller"
	reasonHeader = "Orbweaver-Reason"
	leaderHeader = "Orbweaver-Leader"
	// reasonRole refuses a call to an agent that is for coordinators, or the other way round.
	// reasonNotLeader refuses a call to a coordinator that does not lead.
	reasonRole, reasonNotLeader = "role", "not-leader"
	// servedBulk and servedQuick bound the calls served at once, and so the memory of requests.
	// Other callers are told to come back. Bulk calls do not delay quick ones.
	servedBulk, servedQuick = 16, 128
	// servedOperators is the same for the calls about operators' orders and requests, which wait for neither.
	servedOperators = 16
	// servedFollows is the same for Follow, and servedDiscovers for Discover. As many agents can have a
	// connection. Other bounds hold for each of them, see shares.
	servedFollows, servedDiscovers = maxConns, 64
	maxStreams                     = 64 // of one connection
	// stall bounds how long a caller may pause within a message.
	stall = 30 * time.Second
	// grace is how much longer than the caller's limit the server works on a call.
	grace = 2 * time.Second
)

// limits bound the whole time of each call.
var limits = [calls]time.Duration{
	CallHello: 10 * time.Second, CallPush: time.Minute, CallKnown: 5 * time.Second, CallShip: time.Minute,
	CallClaim: time.Minute, CallHand: time.Minute, CallLease: 5 * time.Second,
	CallPulse: 5 * time.Second, CallEnd: 10 * time.Second, CallBudget: 5 * time.Second, CallContents: 5 * time.Second,
	CallShare:  2 * time.Second,
	CallRecall: 10 * time.Second, CallOrders: 10 * time.Second, CallOperate: 15 * time.Second,
	CallPages:    10 * time.Minute,
	CallDiscover: 10 * time.Second, CallFollow: 30 * time.Second, CallFinish: 10 * time.Second,
	CallStatus: 5 * time.Second, CallForget: 10 * time.Second,
}

// sizes bound the messages of calls that need less than maxMessage, in octets. The checks of their fields allow no
// more.
var sizes = map[Call]int{
	CallHello: 64 << 10, CallKnown: 64 << 10, CallPulse: 4 << 10, CallEnd: 4 << 10, CallShare: 4 << 10,
	CallBudget: 512 << 10, CallContents: 640 << 10, CallFollow: 512 << 10, CallFinish: 4 << 10,
	CallStatus: 4 << 10, CallForget: 4 << 10,
}

// bulk reports calls with much data, which are answered when the data is on disk.
func (c Call) bulk() bool {
	return c == CallPush || c == CallShip || c == CallClaim || c == CallHand || c == CallRecall || c == CallPages ||
		c == CallDiscover
}

// operators reports calls about what operators want. They may wait for a disk and take long, and they must not wait
// for bulk calls.
func (c Call) operators() bool { return c == CallOrders || c == CallOperate }

// ErrAgain is the answer of an agent or a coordinator that is not ready or has another view. The call had no effect
// yet. The same call may succeed later.
var ErrAgain = errors.New("ask again later")

// A Refusal is a lasting refusal of a call. A coordinator refuses an agent that cannot be a part of its crawl.
type Refusal struct {
	// Reason is one word for programs, Text an explanation for people.
	Reason, Text string
}

func (r *Refusal) Error() string { return r.Text }

// ServerConfig configures a Server.
type ServerConfig struct {
	// Crawl returns the crawl of the agent. It is zero as long as the agent does not know it;
	// then the Server answers only Hello, Follow, Status and Forget. It must be safe for concurrent use.
	Crawl func() ID
	// Admitted reports whether the caller is an agent of the cluster. All other callers
	// may only call Hello, Follow, Status and Forget. They are told to ask again, because this agent may not have
	// heard of a new agent yet. Safe for concurrent use. Nil admits every caller with a
	// certificate of the cluster.
	Admitted func(Caller) bool
	// MemoryBytes is the memory of the large requests that are served at once, at least 30 MiB. Zero means 64 MiB.
	MemoryBytes int64
	// Panicked is told of a handler that panics, with the stack. The caller gets an error. Nil tells nobody.
	Panicked func(call string, value any, stack []byte)
}

// A Server answers the calls to an agent or a coordinator. Safe for concurrent use.
type Server struct {
	config      ServerConfig
	listener    *Listener
	counts      *counters
	http        *http.Server
	common      []connect.HandlerOption // of all calls
	handlers    [calls]http.Handler     // nil: answered with ErrAgain
	errors      *connect.ErrorWriter
	bulk, quick chan struct{}
	ships       chan struct{} // apart from bulk: Pushes at other agents wait for Ships
	follows     chan struct{} // apart from quick: each agent nearly always waits in a Follow
	discovers   chan struct{}
	operators   chan struct{} // apart from bulk and quick, see Call.operators
	shares      shares
	rooms       rooms
	running     sync.WaitGroup // calls
	ending      sync.RWMutex   // guards ended: a call may arrive while Run waits for the others
	ended       bool
}

// NewServer returns the server of a listener's calls. Calls wait until Run is called.
func NewServer(l *Listener, cfg ServerConfig) *Server {
	s := &Server{
		config: cfg, listener: l, counts: l.counts,
		bulk: make(chan struct{}, servedBulk), quick: make(chan struct{}, servedQuick),
		ships: make(chan struct{}, servedBulk), follows: make(chan struct{}, servedFollows),
		discovers: make(chan struct{}, servedDiscovers), operators: make(chan struct{}, servedOperators),
		rooms: newRooms(cfg.MemoryBytes),
	}
	s.common = []connect.HandlerOption{
		connect.WithCodec(codec{s.counts}), connect.WithSendMaxBytes(maxMessage),
		connect.WithCompression("gzip", nil, nil),
		connect.WithCompression(zstdName, newDecompressor, newCompressor), connect.WithCompressMinBytes(compressFrom),
		inbound.Recovering(cfg.Panicked),
	}
	s.errors = connect.NewErrorWriter(s.common...)
	s.http = &http.Server{
		Handler: asking(http.HandlerFunc(s.admit)), ReadHeaderTimeout: takeTimeout, IdleTimeout: 5 * time.Minute,
		MaxHeaderBytes: 8 << 10, Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second,
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, countedOf(c))
		},
		ErrorLog: log.New(io.Discard, "", 0), // invalid input is counted, not logged
	}
	s.http.Protocols.SetHTTP2(true)
	s.http.Protocols.SetUnencryptedHTTP2(l.keys == nil)
	return s
}

// connKey is the context key of a request's connection.
type connKey struct{}

// asking notes that a connection has brought a request.
func asking(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*counted); ok && c != nil {
			c.asked.Store(true)
		}
		next.ServeHTTP(w, r)
	})
}

// Run answers calls until ctx ends, and returns when the last call has been answered.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.http.Close() })
	defer stop()
	err := s.http.Serve(s.listener.calls)
	s.http.Close()
	s.ending.Lock()
	s.ended = true
	s.ending.Unlock()
	s.running.Wait()
	if ctx.Err() != nil || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve calls: %w", err)
}

// Counts returns the counts since the start. Its bytes include the streams of gossip.
func (s *Server) Counts() Counts { return s.counts.counts() }

type callerKey struct{}

// admit serves a request whose caller may make it. It checks the caller before the call is decoded.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) {
	w.Header()["Date"] = nil // it changes every second, and nobody reads it
	if !s.begin() {
		s.errors.Write(w, r, answer(ErrAgain))
		return
	}
	defer s.running.Done()
	call, ok := callOf(r)
	if !ok {
		s.counts.refuse(Malformed)
		http.Error(w, "no such call", http.StatusNotFound)
		return
	}
	caller, why, err := s.identify(r, call)
	if err != nil {
		s.counts.refuse(why)
		s.errors.Write(w, r, err)
		return
	}
	enter := func(r *http.Request) (func(), bool) { return s.enter(r, call, caller.Name) }
	inbound.Admit(enter, s.errors, "busy", s.serve(call, caller)).ServeHTTP(w, r)
}

// begin counts a call that runs. It returns false if Run waits for the last calls, or has ended.
func (s *Server) begin() bool {
	s.ending.RLock()
	defer s.ending.RUnlock()
	if !s.ended {
		s.running.Add(1)
	}
	return !s.ended
}

// serve serves a call that is admitted.
func (s *Server) serve(call Call, caller Caller) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end := time.Now().Add(limits[call] + grace)
		ctx, cancel := context.WithDeadline(context.WithValue(r.Context(), callerKey{}, caller), end)
		defer cancel()
		control := http.NewResponseController(w)
		control.SetWriteDeadline(end)
		r.Body = &pressed{body: r.Body, control: control, end: end}
		watch := &watched{ResponseWriter: w, counts: s.counts, call: call}
		if h := s.handlers[call]; h != nil {
			h.ServeHTTP(watch, r.WithContext(ctx))
		} else {
			s.errors.Write(watch, r.WithContext(ctx), answer(ErrAgain))
		}
	})
}

// enter takes a place and room for a call, unless too many or too large ones run. leave frees both.
func (s *Server) enter(r *http.Request, call Call, name string) (leave func(), ok bool) {
	defer func() {
		if !ok {
			s.counts.refuse(Busy)
		}
	}()
	lane := s.quick
	switch {
	case call == CallShip:
		lane = s.ships
	case call == CallFollow:
		lane = s.follows
	case call == CallDiscover:
		lane = s.discovers
	case call.operators():
		lane = s.operators
	case call.bulk():
		lane = s.bulk
	}
	if !s.shares.enter(call, name) {
		return nil, false
	}
	select {
	case lane <- struct{}{}:
		if free, ok := s.rooms.enter(r, call); ok {
			return func() { free(); <-lane; s.shares.leave(call, name) }, true
		}
		<-lane
	default:
	}
	s.shares.leave(call, name)
	return nil, false
}

// callOf returns the call of a request. Only Connect's POST requests in protobuf are calls; those of Pages are streams.
func callOf(r *http.Request) (Call, bool) {
	for c := range calls {
		if r.URL.Path == c.path() {
			kind := "application/proto"
			if c == CallPages {
				kind = "application/connect+proto"
			}
			return c, r.Method == http.MethodPost && r.Header.Get("Content-Type") == kind
		}
	}
	return 0, false
}

func (s *Server) identify(r *http.Request, call Call) (c Caller, why Refused, err error) {
	c, err = parseCaller(r.Header.Get(callerHeader))
	if err != nil {
		return c, Identity, connect.NewError(connect.CodeUnauthenticated, err)
	}
	if s.listener.keys != nil {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
			return c, Identity, connect.NewError(connect.CodeUnauthenticated, errors.New("no certificate"))
		}
		if name, err := nameOf(r.TLS.PeerCertificates[0]); err != nil || name != c.Name {
			return c, Identity, connect.NewError(connect.CodePermissionDenied,
				fmt.Errorf("caller %q has the certificate of %q", c.Name, name))
		}
		if err := checkRole(r.TLS.PeerCertificates[0], call.caller()); err != nil {
			return c, WrongRole, connect.NewError(connect.CodePermissionDenied,
				fmt.Errorf("caller %q may not call %s: %w", c.Name, call, err))
		}
	}
	if is := s.listener.role; is != call.answerer() {
		return c, WrongRole, answer(&Refusal{reasonRole, (&ForeignError{is.String(), is.other()}).Error()})
	}
	ours, open := s.config.Crawl(), call == CallHello || call == CallFollow // for agents that are not admitted yet
	switch {
	case call == CallStatus || call == CallForget:
	case open && (c.Crawl == ID{} || ours == ID{}):
	case ours == ID{}:
		return c, OtherCrawl, answer(ErrAgain)
	case c.Crawl != ours:
		text := "agent %q belongs to another crawl (%s, not %s): its crawl directory is not of this cluster"
		if s.listener.role == coordinatorRole {
			text = "agent %q belongs to crawl %s, and the coordinator's directory to crawl %s; give each crawl a " +
				"directory of its own, also at the coordinators"
		}
		return c, OtherCrawl, answer(&Refusal{"crawl", fmt.Sprintf(text, c.Name, c.Crawl, ours)})
	case !open && s.config.Admitted != nil && !s.config.Admitted(c):
		return c, NotAdmitted, answer(fmt.Errorf("%w: agent %q has not been admitted here", ErrAgain, c.Name))
	}
	return c, 0, nil
}

// answer converts a handler's error to the error that is sent.
func answer(err error) error {
	var refusal *Refusal
	var elsewhere *NotLeader
	var already *connect.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &elsewhere):
		e := connect.NewError(connect.CodeFailedPrecondition, err)
		e.Meta().Set(reasonHeader, reasonNotLeader)
		e.Meta().Set(leaderHeader, elsewhere.Leader)
		return e
	case errors.As(err, &refusal):
		e := connect.NewError(connect.CodeFailedPrecondition, err)
		e.Meta().Set(reasonHeader, refusal.Reason)
		return e
	case errors.Is(err, ErrAgain):
		return connect.NewError(connect.CodeAborted, err)
	case errors.Is(err, ErrMalformed):
		return connect.NewError(connect.CodeInvalidArgument, err)
	case errors.Is(err, ErrTooLarge):
		e := connect.NewError(connect.CodeResourceExhausted, err)
		e.Meta().Set(reasonHeader, "too-large")
		return e
	case errors.As(err, &already):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, err)
	}
	return connect.NewError(connect.CodeInternal, err)
}

// A pressed body does not wait longer than stall for the next octets.
type pressed struct {
	body    io.ReadCloser
	control *http.ResponseController
	end     time.Time
}

func (p *pressed) Read(b []byte) (int, error) {
	next := time.Now().Add(stall)
	if next.After(p.end) {
		next = p.end
	}
	p.control.SetReadDeadline(next)
	return p.body.Read(b)
}

func (p *pressed) Close() error { return p.body.Close() }

// A watched response counts its octets, and requests that the library refused as too large before our code saw
// them. Such a response has none of our reasons.
type watched struct {
	http.ResponseWriter
	counts *counters
	call   Call
	wrote  bool
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.counts.bodies[w.call].Add(uint64(n))
	return n, err
}

func (w *watched) WriteHeader(status int) {
	if !w.wrote && status == http.StatusTooManyRequests && w.Header().Get(reasonHeader) == "" {
		w.counts.refuse(TooLarge)
	}
	w.wrote = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
