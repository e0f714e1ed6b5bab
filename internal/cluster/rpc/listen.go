package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/input"
)

const (
	// leastConns and maxConns bound the open connections of callers that have proved
	// their identity: a quarter of the process's descriptors. leastShaking and
	// maxShaking bound the other connections, separately for members' addresses and
	// for all others: each a sixteenth of the descriptors.
	leastConns, maxConns     = 64, 1024
	leastShaking, maxShaking = 16, 256
	// shakeTimeout bounds a handshake. A caller waits as long.
	shakeTimeout = dialTimeout
	// takeTimeout is how long a proven caller waits for an agent that is not ready.
	takeTimeout = 10 * time.Second
	// gossipMark and raftMark are the first octets of a stream of gossip, and of one between
	// coordinators, without TLS. They tell the stream from a call, because no HTTP request begins
	// with them.
	gossipMark, raftMark = 0xF6, 0xF7
	// http2Preface begins a connection of calls (RFC 9113, section 3.4).
	http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	// udpBuffer holds the packets of a burst while the processor is busy.
	udpBuffer = 1 << 20
)

// ErrPlain reports an address other than loopback without keys.
var ErrPlain = errors.New("agents on other machines need keys: make them with \"orbweaver cluster keys\"")

// A Listener is the port of an agent or a coordinator. TCP carries calls. With an agent, TCP also
// carries streams of gossip, and UDP packets of gossip. With a coordinator, TCP also carries
// streams between coordinators.
type Listener struct {
	keys     *Keys
	role     role
	tcp      net.Listener
	udp      net.PacketConn // nil: of a coordinator
	calls    *connListener
	streams  *connListener // of gossip, or between coordinators
	counts   *counters
	pool     *inbound.Pool
	ctx      context.Context
	stop     context.CancelFunc
	wg       sync.WaitGroup
	closeOne sync.Once
}

// CheckListen returns an error unless addr is an IP address and a port. Without keys the address
// must be a loopback address.
func CheckListen(addr string, keys *Keys) error {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return fmt.Errorf("listen %q: an IP address and a port are needed, such as 127.0.0.1:7470", addr)
	}
	if keys == nil && !ap.Addr().IsLoopback() {
		return fmt.Errorf("listen %s: %w", addr, ErrPlain)
	}
	return nil
}

// A Network makes an agent's connections with others. It is safe for concurrent use.
type Network interface {
	// Listen opens addr, an IP address and a port, for TCP and for UDP. Port 0 chooses a
	// port that is free for both.
	Listen(addr string) (net.Listener, net.PacketConn, error)
	// Dial connects to addr, as net.Dialer's DialContext does.
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
}

// System is the machine's network.
var System Network = system{}

type system struct{}

func (system) Listen(addr string) (net.Listener, net.PacketConn, error) { return ports(addr) }

func (system) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// Listen opens an agent's port of a network. Without keys, addr must be a loopback address. Keys of
// a coordinator are an ErrKeys. The caller closes the Listener.
func Listen(network Network, addr string, keys *Keys) (*Listener, error) {
	return listen(network, addr, keys, agentRole)
}

// ListenCoordinator opens a coordinator's port. Keys of an agent are an ErrKeys.
func ListenCoordinator(network Network, addr string, keys *Keys) (*Listener, error) {
	return listen(network, addr, keys, coordinatorRole)
}

func listen(network Network, addr string, keys *Keys, is role) (*Listener, error) {
	if err := CheckListen(addr, keys); err != nil {
		return nil, err
	}
	if keys != nil && keys.role != is {
		return nil, fmt.Errorf("%w: these are the keys of %s, not of %s", ErrKeys, keys.role, is)
	}
	tcp, udp, err := network.Listen(addr)
	if err != nil {
		return nil, err
	}
	if is == coordinatorRole { // it has no use for packets
		udp.Close()
		udp = nil
	}
	if b, ok := udp.(*net.UDPConn); ok {
		_ = b.SetReadBuffer(udpBuffer) // on an error, the system's own size will do
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Listener{
		keys: keys, role: is, udp: udp, counts: new(counters), ctx: ctx, stop: stop,
		calls: newConnListener(ctx, tcp.Addr()), streams: newConnListener(ctx, tcp.Addr()),
	}
	shaking := inbound.Share(16, leastShaking, maxShaking)
	l.pool = inbound.New(inbound.Config{
		Strangers: shaking, Members: shaking, Proven: inbound.Share(4, leastConns, maxConns),
		Evicted: func() { l.counts.refuse(Busy) },
	})
	l.tcp = l.pool.Listen(tcp)
	l.wg.Go(l.accept)
	return l, nil
}

// ports opens one port for TCP and for UDP.
func ports(addr string) (net.Listener, net.PacketConn, error) {
	for try := 0; ; try++ {
		tcp, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, nil, notTaken(addr, err)
		}
		udp, err := net.ListenPacket("udp", tcp.Addr().String())
		if err == nil {
			return tcp, udp, nil
		}
		tcp.Close()
		// Another port may be tried only if the system chose this one.
		if netip.MustParseAddrPort(addr).Port() != 0 || try == 20 {
			return nil, nil, notTaken(addr, err)
		}
	}
}

// notTaken explains why the port could not be opened.
func notTaken(addr string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return input.Errorf("{listen} %s: the port is in use; choose another with {listen}", addr)
	}
	return fmt.Errorf("listen %s: %s", addr, inbound.NotOpened(err))
}

// Addr returns the address and the actual port.
func (l *Listener) Addr() string { return l.tcp.Addr().String() }

// SetMembers sets the IP addresses of known agents and coordinators. Handshakes from these addresses have reserved
// places, which other addresses cannot take. Safe for concurrent use.
func (l *Listener) SetMembers(addrs []netip.Addr) { l.pool.SetMembers(addrs) }

// Gossip returns a listener for the streams of gossip that other agents open. The Listener must be
// an agent's.
func (l *Listener) Gossip() net.Listener { return l.streams }

// Raft returns a listener for the streams that other coordinators open. The Listener must be a
// coordinator's.
func (l *Listener) Raft() net.Listener { return l.streams }

// Packets returns the connection for packets of gossip. The reader decrypts them with Keys.Gossip.
// The Listener must be an agent's.
func (l *Listener) Packets() net.PacketConn { return packets{l.udp, l.counts} }

// packets counts the octets of packets.
type packets struct {
	net.PacketConn
	counts *counters
}

func (p packets) ReadFrom(b []byte) (int, net.Addr, error) {
	n, from, err := p.PacketConn.ReadFrom(b)
	p.counts.received.Add(uint64(n))
	return n, from, err
}

func (p packets) WriteTo(b []byte, to net.Addr) (int, error) {
	n, err := p.PacketConn.WriteTo(b, to)
	p.counts.sent.Add(uint64(n))
	p.counts.packets.Add(uint64(n))
	return n, err
}

// RefusedGossip counts a packet or stream of gossip that its reader could not read.
func (l *Listener) RefusedGossip() { l.counts.refuse(Gossip) }

// Close closes the port and all its connections. It blocks until its goroutines have ended.
func (l *Listener) Close() error {
	var err error
	l.closeOne.Do(func() {
		l.stop()
		err = l.tcp.Close()
		if l.udp != nil {
			err = errors.Join(err, l.udp.Close())
		}
		l.wg.Wait()
	})
	return err
}

func (l *Listener) accept() {
	for {
		conn, err := l.tcp.Accept()
		if err != nil {
			if l.ctx.Err() != nil {
				return
			}
			// The caller may have hung up. Go on.
			if !clock.Pause(l.ctx, 50*time.Millisecond) {
				return
			}
			continue
		}
		l.wg.Go(func() { l.sort(&counted{Conn: conn, counts: l.counts}, conn.(*inbound.Conn)) })
	}
}

// sort finds out what kind of connection this is, and gives it to the server of calls or to the
// reader of streams.
func (l *Listener) sort(raw *counted, in *inbound.Conn) {
	stop := context.AfterFunc(l.ctx, func() { raw.Close() })
	defer stop()
	raw.SetDeadline(time.Now().Add(shakeTimeout))
	var conn net.Conn
	var to *connListener
	why := Malformed // a TLS caller without a known protocol, or bytes that are no call
	if l.keys != nil {
		secure := tls.Server(raw, l.keys.server())
		if err := secure.HandshakeContext(l.ctx); err != nil {
			switch {
			case in.Evicted(): // it is counted already
			case errors.Is(err, errRole):
				l.counts.refuse(WrongRole)
			default:
				l.counts.refuse(Stranger)
			}
			if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil {
				sayNoHandshake(raw)
			}
			raw.Close()
			return
		}
		conn = secure
		switch secure.ConnectionState().NegotiatedProtocol {
		case protoCalls:
			to = l.calls
		case l.role.stream():
			to = l.streams
		case l.role.other().stream():
			why = WrongRole
		}
	} else {
		var first [1]byte
		if _, err := io.ReadFull(raw, first[:]); err != nil {
			raw.Close()
			return
		}
		switch first[0] {
		case l.role.mark():
			conn, to = raw, l.streams
		case l.role.other().mark():
			why = WrongRole
		case recordHandshake:
			sayNoHandshake(raw)
		case http2Preface[0]:
			// Every call of an agent begins like this. Any other connection is closed without an
			// answer.
			begin := make([]byte, len(http2Preface))
			begin[0] = first[0]
			if _, err := io.ReadFull(raw, begin[1:]); err == nil && string(begin) == http2Preface {
				conn, to = &peeked{Conn: raw, first: begin}, l.calls
			}
		}
	}
	if to == nil {
		l.counts.refuse(why)
		raw.Close()
		return
	}
	if !in.Prove() { // too many connections, or evicted
		if !in.Evicted() {
			l.counts.refuse(Busy)
		}
		raw.Close()
		return
	}
	raw.SetDeadline(time.Time{})
	raw.calls.Store(to == l.calls)
	if !to.give(conn) {
		raw.calls.Store(false)
		conn.Close()
	}
}

// DialGossip opens a stream of gossip to the agent called name, or to any agent of the cluster if
// name is empty. dial opens the connection; nil means the system's network.
func DialGossip(ctx context.Context, keys *Keys, dial Dialer, addr, name string) (net.Conn, error) {
	return dialStream(ctx, keys, dial, addr, name, agentRole)
}

// DialRaft opens a stream to the coordinator called name, or to any coordinator of the cluster if
// name is empty. Keys of an agent are an ErrKeys, because the other side would refuse them.
func DialRaft(ctx context.Context, keys *Keys, dial Dialer, addr, name string) (net.Conn, error) {
	return dialStream(ctx, keys, dial, addr, name, coordinatorRole)
}

// dialStream opens a stream between two processes with the role r.
func dialStream(ctx context.Context, keys *Keys, dial Dialer, addr, name string, r role) (net.Conn, error) {
	if keys != nil && keys.role != r {
		return nil, fmt.Errorf("%w: these are the keys of %s, not of %s", ErrKeys, keys.role, r)
	}
	raw, err := reach(ctx, keys, dial, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	if keys == nil {
		_, err = raw.Write([]byte{r.mark()})
	} else {
		secure := tls.Client(raw, keys.client(r.stream(), name, r))
		if err = secure.HandshakeContext(ctx); err == nil {
			return secure, nil
		}
	}
	if err != nil {
		raw.Close()
		what := "gossip"
		if r == coordinatorRole {
			what = "raft"
		}
		return nil, fmt.Errorf("%s with %s: %w", what, addr, err)
	}
	return raw, nil
}

// A Dialer opens connections, as DialContext of net.Dialer does.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// reach opens a connection for one use. Without keys it reaches only loopback addresses.
func reach(ctx context.Context, keys *Keys, dial Dialer, addr string) (net.Conn, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	// Check the address that was reached, because a name may resolve to any address.
	if keys == nil {
		if to, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err != nil || !to.Addr().Unmap().IsLoopback() {
			conn.Close()
			return nil, fmt.Errorf("call %s: %w", addr, ErrPlain)
		}
	}
	return conn, nil
}

// A connListener is a net.Listener for connections from give.
type connListener struct {
	ctx    context.Context
	stop   context.CancelFunc
	addr   net.Addr
	queued chan net.Conn
}

func newConnListener(ctx context.Context, addr net.Addr) *connListener {
	in := &connListener{addr: addr, queued: make(chan net.Conn)}
	in.ctx, in.stop = context.WithCancel(ctx)
	return in
}

// give passes conn to a caller of Accept, and reports whether there was one.
func (in *connListener) give(conn net.Conn) bool {
	select {
	case in.queued <- conn:
		return true
	case <-in.ctx.Done():
		return false
	case <-time.After(takeTimeout): // the agent is not ready
		return false
	}
}

// Accept waits for the next connection.
func (in *connListener) Accept() (net.Conn, error) {
	select {
	case conn := <-in.queued:
		return conn, nil
	case <-in.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (in *connListener) Close() error {
	in.stop()
	return nil
}

// Addr returns the listener's address.
func (in *connListener) Addr() net.Addr { return in.addr }

// A peeked connection returns again the bytes that were read to identify it.
type peeked struct {
	net.Conn
	first []byte
}

func (p *peeked) Read(b []byte) (int, error) {
	if len(p.first) > 0 {
		n := copy(b, p.first)
		p.first = p.first[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// A counted connection counts its octets and reports its end. If this side closes a connection for
// calls before its first request, the caller sent something malformed: frames that are too large,
// or no HTTP/2.
type counted struct {
	net.Conn
	counts      *counters
	gone        func()
	calls       atomic.Bool // it is for calls
	asked, left atomic.Bool // a request has come; the caller has hung up
}

// countedOf returns the counted connection below a connection for calls.
func countedOf(c net.Conn) *counted {
	switch k := c.(type) {
	case *tls.Conn:
		return countedOf(k.NetConn())
	case *peeked:
		return countedOf(k.Conn)
	case *counted:
		return k
	}
	return nil
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.counts.received.Add(uint64(n))
	if err != nil {
		c.left.Store(true)
	}
	return n, err
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.counts.sent.Add(uint64(n))
	if err != nil {
		c.left.Store(true)
	}
	return n, err
}

func (c *counted) Close() error {
	if c.calls.Swap(false) && !c.asked.Load() && !c.left.Load() {
		c.counts.refuse(Malformed)
	}
	err := c.Conn.Close()
	if c.gone != nil {
		c.gone()
	}
	return err
}
