package rpc

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
)

const (
	// askedBulk, askedQuick, askedContents, askedFollows and askedOperators bound the calls to one process that
	// run at once.
	askedBulk, askedQuick, askedContents, askedFollows, askedOperators = 4, 16, 4, 2, 4
	// dialTimeout is shorter than the failure detector's patience. So a call to a dead agent ends
	// before its hosts get other owners.
	dialTimeout = 3 * time.Second
	pingEvery   = 5 * time.Second
	pingTimeout = 5 * time.Second
)

// ErrUnreachable reports an agent that did not answer. The call may have been executed.
var ErrUnreachable = errors.New("agent unreachable")

// ErrRejected reports a call that the other agent found malformed, too large or not permitted.
// Repeating the call does not help.
var ErrRejected = errors.New("call rejected")

// ClientConfig configures a Client.
type ClientConfig struct {
	// Keys are the same as the Listener's. Nil allows loopback only.
	Keys *Keys
	// Self returns the identity of the caller. It must be safe for concurrent use.
	Self func() Caller
	// Dial opens connections. Nil means the system's network.
	Dial Dialer
	// Seed is the random seed of the jitter. Zero means a random seed.
	Seed uint64
}

// A Client calls other agents, and coordinators. Safe for concurrent use.
type Client struct {
	config ClientConfig
	counts *counters
	// mu guards peers.
	mu    sync.Mutex
	peers map[string]*Peer // by the name of an agent, or by the address of a coordinator
}

// NewClient returns a client without connections.
func NewClient(cfg ClientConfig) *Client {
	if cfg.Seed == 0 {
		var b [8]byte
		rand.Read(b[:])
		cfg.Seed = binary.LittleEndian.Uint64(b[:])
	}
	return &Client{config: cfg, counts: new(counters), peers: map[string]*Peer{}}
}

// Peer returns the Peer for the agent called name, which listens on addr. It returns the same
// value until the address changes; then calls of the old Peer fail.
func (c *Client) Peer(name, addr string) *Peer { return c.known(name, name, addr, agentRole) }

// known returns the Peer with a key, and makes it if it is not known at the address.
func (c *Client) known(key, name, addr string, r role) *Peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.peers[key]
	if p == nil || p.addr != addr {
		if p != nil {
			p.Close()
		}
		p = c.peer(name, addr, r)
		c.peers[key] = p
	}
	return p
}

// Forget ends the calls to the agent called name, or to the coordinator at the address name, and
// closes its connection. Later calls open a new one.
func (c *Client) Forget(name string) {
	c.mu.Lock()
	p := c.peers[name]
	delete(c.peers, name)
	c.mu.Unlock()
	if p != nil {
		p.Close()
	}
}

// Close ends all calls and connections.
func (c *Client) Close() error {
	c.mu.Lock()
	peers := c.peers
	c.peers = map[string]*Peer{}
	c.mu.Unlock()
	for _, p := range peers {
		p.Close()
	}
	return nil
}

// Counts returns the counts since the start.
func (c *Client) Counts() Counts { return c.counts.counts() }

// Unnamed returns what calls the agent at addr, of any name, which its certificate proves. The caller closes it.
func (c *Client) Unnamed(addr string) *Peer { return c.peer("", addr, agentRole) }

// A Peer calls one other agent. Calls wait for their turn: few run at once, and none begins while
// its lane waits after a failure. So a caller may repeat a failed call at once. All calls block
// until the answer, an error or the end of ctx.
type Peer struct {
	name, addr  string
	role        role // of the process that answers
	client      *Client
	transport   *http.Transport
	url         string
	options     []connect.ClientOption
	clients     [calls]atomic.Value // of *connect.Client, made by the first call of a kind
	bulk, quick *lane
	follows     *lane                 // apart from quick: they wait long
	contents    *lane                 // apart from bulk and quick: they may wait for a disk, and leases must not
	operators   *lane                 // apart from bulk and quick, see Call.operators
	apart       atomic.Pointer[error] // why the last connection cannot be used
	stage       atomic.Int32          // of the last connection
	ctx         context.Context
	stop        context.CancelFunc
}

func (c *Client) peer(name, addr string, r role) *Peer {
	most := backoffMost
	if r == coordinatorRole {
		most = coordinatorMost
	}
	p := &Peer{
		name: name, addr: addr, role: r, client: c,
		bulk: newLane(askedBulk, most, c.config.Seed^1), quick: newLane(askedQuick, most, c.config.Seed^2),
		contents: newLane(askedContents, most, c.config.Seed^3), follows: newLane(askedFollows, most, c.config.Seed^4),
		operators: newLane(askedOperators, most, c.config.Seed^5),
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.transport = &http.Transport{
		Protocols: new(http.Protocols), DisableCompression: true, MaxResponseHeaderBytes: 8 << 10,
		TLSHandshakeTimeout: dialTimeout, IdleConnTimeout: 5 * time.Minute,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			p.apart.Store(nil)
			p.stage.Store(unreached)
			raw, err := reach(ctx, c.config.Keys, c.config.Dial, addr)
			if err != nil {
				return nil, err
			}
			// Closing a Peer closes its connection at once, even if it is not idle.
			stop := context.AfterFunc(p.ctx, func() { raw.Close() })
			p.stage.Store(reached)
			conn := &answered{Conn: raw, peer: p}
			return &counted{Conn: conn, counts: c.counts, gone: func() { stop() }}, nil
		},
		// Only pings detect an agent that is cut off without closing the connection.
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingEvery, PingTimeout: pingTimeout, WriteByteTimeout: stall},
	}
	p.url = "http://agent"
	if c.config.Keys != nil {
		p.url = "https://agent"
		p.transport.TLSClientConfig = c.config.Keys.client(protoCalls, name, r)
		p.transport.Protocols.SetHTTP2(true)
	} else {
		p.transport.Protocols.SetUnencryptedHTTP2(true)
	}
	p.options = []connect.ClientOption{
		connect.WithCodec(codec{c.counts}),
		connect.WithReadMaxBytes(maxMessage), connect.WithSendMaxBytes(maxMessage),
		connect.WithAcceptCompression("gzip", nil, nil),
		connect.WithAcceptCompression(zstdName, newDecompressor, newCompressor),
		connect.WithSendCompression(zstdName), connect.WithCompressMinBytes(compressFrom),
	}
	return p
}

// Do adds the identity of the caller. Only the Connect library calls it.
func (p *Peer) Do(r *http.Request) (*http.Response, error) {
	r.Header.Set(callerHeader, p.client.config.Self().header())
	r.Header["User-Agent"] = []string{""}
	// The server has its own limits. A header that changes from call to call takes many more bytes
	// than one that repeats (HPACK, RFC 7541).
	r.Header.Del("Connect-Timeout-Ms")
	call := max(0, slices.Index(callNames[:], r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]))
	if r.Body != nil {
		r.Body = &countedBody{r.Body, &p.client.counts.bodies[call]}
	}
	if Call(call) == CallFollow {
		ctx, cancel := context.WithCancelCause(r.Context()) // ends with its parent, which call ends
		defer time.AfterFunc(followSilence, func() { cancel(ErrSilent) }).Stop()
		r = r.WithContext(ctx)
	}
	res, err := p.transport.RoundTrip(r)
	if err == nil && p.name == "" {
		if err = notAnswer(res, p.role); err != nil {
			res.Body.Close()
			return nil, p.setApart(err)
		}
	}
	if err == nil {
		res.Body = &countedBody{res.Body, &p.client.counts.answers[call]}
	}
	return res, err
}

// A countedBody counts its octets.
type countedBody struct {
	io.ReadCloser
	count *atomic.Uint64
}

func (c *countedBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.count.Add(uint64(n))
	return n, err
}

// Name returns the name of the agent.
func (p *Peer) Name() string { return p.name }

// Addr returns the address of the agent.
func (p *Peer) Addr() string { return p.addr }

// Close ends the calls, and closes the connection.
func (p *Peer) Close() {
	p.stop()
	p.transport.CloseIdleConnections()
}

// call runs fn in its lane and with its time limit, and counts it.
func (p *Peer) call(ctx context.Context, call Call, fn func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	lane := p.quick
	switch {
	case call.bulk():
		lane = p.bulk
	case call.operators():
		lane = p.operators
	case call == CallContents:
		lane = p.contents
	case call == CallFollow:
		lane = p.follows
	}
	if err := lane.enter(ctx); err != nil {
		return p.wrap(call, err)
	}
	timed, stop := context.WithTimeout(ctx, limits[call])
	p.client.counts.calls[call].Add(1)
	err := p.whyApart(p.understand(fn(timed)))
	stop()
	if err != nil {
		p.client.counts.errors[call].Add(1)
	}
	lane.leave(err == nil, ctx.Err() != nil)
	return p.wrap(call, err)
}

func (p *Peer) wrap(call Call, err error) error {
	if err == nil {
		return nil
	}
	if p.ctx.Err() != nil {
		err = fmt.Errorf("%w: gone", ErrUnreachable)
	}
	if p.name == "" {
		return fmt.Errorf("%s %s: %w", call, p.addr, err)
	}
	return fmt.Errorf("%s %s (%s): %w", call, p.name, p.addr, err)
}

// understand converts an error from the other agent to the error that its handler returned.
func (p *Peer) understand(err error) error {
	var wire *connect.Error
	var tlsAlert tls.AlertError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &wire):
		return err
	case errors.As(err, &tlsAlert), !connect.IsWireError(err) && wire.Code() == connect.CodeUnavailable:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	switch wire.Code() {
	case connect.CodeFailedPrecondition:
		switch reason := wire.Meta().Get(reasonHeader); reason {
		case reasonRole:
			return &ForeignError{p.role.other().String(), p.role}
		case reasonNotLeader:
			return notLeader(wire.Meta().Get(leaderHeader))
		default:
			return &Refusal{Reason: reason, Text: wire.Message()}
		}
	case connect.CodeAborted:
		if detail, ok := strings.CutPrefix(wire.Message(), ErrAgain.Error()+": "); ok {
			return fmt.Errorf("%w: %s", ErrAgain, detail)
		}
		return ErrAgain
	case connect.CodeInvalidArgument:
		return fmt.Errorf("%w: %w: %w", ErrRejected, ErrMalformed, err)
	case connect.CodeResourceExhausted, connect.CodePermissionDenied,
		connect.CodeUnauthenticated, connect.CodeUnimplemented, connect.CodeOutOfRange:
		return fmt.Errorf("%w: %w", ErrRejected, err)
	case connect.CodeInternal:
		if connect.IsWireError(err) {
			return err // the other agent has failed
		}
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}
