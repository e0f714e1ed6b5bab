package consensus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/orbweaver/orbweaver/internal/clock"
)

// A Network connects the members of the group. Its connections are authenticated: only members reach each other.
type Network interface {
	// Accept waits for a connection of another member. It returns an error after Close.
	Accept() (net.Conn, error)
	// Dial connects to the member with this address, as it is in Config.Members.
	Dial(ctx context.Context, addr string) (net.Conn, error)
	// Close ends Accept. It leaves the connections open.
	Close() error
}

// A connection starts with a hello of the dialer: magic and version, the purpose, and a checksum of the members.
const (
	helloMagic = "owraft\x01"
	helloSize  = len(helloMagic) + 1 + 4

	purposeRaft = 'r' // raft's calls follow
	purposeAsk  = 'a' // the other side answers with its standing
)

const (
	// slowest is how long a member may be silent in the middle of a message.
	slowest = 10 * time.Second
	// maxAnswer bounds the response to a call of raft.
	maxAnswer = 64 << 10
	// maxMessage bounds a call of raft. A snapshot follows its call, and has no limit but the disk's.
	maxMessage = maxAppend*(MaxCommand+1<<10) + maxConfiguration + maxAnswer
	// maxConns bounds the connections from each other member. Raft uses about five.
	maxConns = 16
)

var errCut = errors.New("this coordinator has stopped, because its disk failed")

// A voter knows what it has on its disk, and whether it may vote.
type voter interface {
	standing() standing
	// barred reports whether the member is catching up, and so has no vote.
	barred() bool
}

// refused notes that a connection or a call of another member was refused.
func refused(to Events, from, cause string) {
	to.Event("consensus-refused", "from", from, "cause", cause)
}

// A layer is the raft.StreamLayer on top of a Network. It bounds connections and messages. It closes the boundary of
// a member whose disk has failed: from then on nothing is sent. It implements net.Listener.
type layer struct {
	network Network // nil: a group of one
	self    string
	group   uint32 // checksum of the members
	most    int    // connections that others may open
	health  *health
	voter   voter
	events  Events

	ctx      context.Context
	cancel   context.CancelFunc
	incoming chan net.Conn // connections for raft
	running  sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	conns  map[*conn]struct{}
	theirs int
	closed bool
	ready  bool // raft runs
}

// serve accepts connections until close.
func (l *layer) serve() {
	defer l.running.Done()
	wait := 5 * time.Millisecond
	for {
		c, err := l.network.Accept()
		if l.ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return
		}
		if err != nil {
			clock.Pause(l.ctx, wait)
			wait = min(2*wait, time.Second)
			continue
		}
		wait = 5 * time.Millisecond
		k := l.add(c, true)
		if k == nil {
			c.Close()
			continue
		}
		l.running.Add(1)
		go func() {
			defer l.running.Done()
			if !l.receive(k) {
				k.Close()
			}
		}()
	}
}

// add wraps c. It returns nil if the layer is closed or has too many connections.
func (l *layer) add(c net.Conn, theirs bool) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if theirs {
		if l.theirs >= l.most {
			refused(l.events, c.RemoteAddr().String(), "too many connections")
			return nil
		}
		l.theirs++
		l.running.Add(1)
	}
	k := &conn{Conn: c, layer: l, theirs: theirs}
	l.conns[k] = struct{}{}
	return k
}

// receive reads the hello of k and passes k on. It reports whether raft has k now.
func (l *layer) receive(k *conn) bool {
	var b [helloSize]byte
	_ = k.Conn.SetDeadline(time.Now().Add(slowest))
	if _, err := io.ReadFull(k.Conn, b[:]); err != nil {
		return false
	}
	from := k.RemoteAddr().String()
	n := len(helloMagic)
	switch {
	case string(b[:n]) != helloMagic:
		refused(l.events, from, "another protocol or version")
		return false
	case le.Uint32(b[n+1:]) != l.group:
		refused(l.events, from, "it has another list of coordinators")
		return false
	}
	switch b[n] {
	case purposeAsk:
		if l.health.err() == nil {
			_, _ = k.Conn.Write(l.voter.standing().appendTo(nil))
		}
		return false
	case purposeRaft:
		_ = k.Conn.SetDeadline(time.Time{})
		l.mu.Lock()
		ready := l.ready
		l.mu.Unlock()
		if !ready {
			return false
		}
		select {
		case l.incoming <- k:
			return true
		case <-l.ctx.Done():
		}
		return false
	}
	refused(l.events, from, fmt.Sprintf("unknown purpose %q", b[n]))
	return false
}

// dial opens a connection for a purpose.
func (l *layer) dial(ctx context.Context, addr string, purpose byte) (*conn, error) {
	if err := l.health.err(); err != nil {
		return nil, errCut
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	c, err := l.network.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	k := l.add(c, false)
	if k == nil {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	b := append([]byte(helloMagic), purpose)
	b = le.AppendUint32(b, l.group)
	_ = c.SetDeadline(time.Now().Add(slowest))
	if _, err := k.Write(b); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

func (l *layer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	k, err := l.dial(ctx, string(addr), purposeRaft)
	if err != nil {
		return nil, err
	}
	return k, nil
}

func (l *layer) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l *layer) Addr() net.Addr { return address(l.self) }

// An address is the name of a member as a net.Addr.
type address string

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return string(a) }

// Close implements net.Listener. It ends all connections, but does not wait: see wait.
func (l *layer) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	cs := slices.Collect(maps.Keys(l.conns))
	l.mu.Unlock()
	l.cancel()
	var err error
	if l.network != nil {
		err = l.network.Close()
	}
	for _, c := range cs {
		c.Conn.Close()
	}
	for { // connections that raft has not taken
		select {
		case c := <-l.incoming:
			c.Close()
			continue
		default:
		}
		return err
	}
}

// wait waits until all connections from others have been let go.
func (l *layer) wait() { l.running.Wait() }

// A conn bounds the messages of a connection. Calls and responses take turns on it. It implements net.Conn.
type conn struct {
	net.Conn
	layer  *layer
	theirs bool // the other member opened it
	once   sync.Once

	got   int64 // bytes read since the last write
	limit int64 // of these bytes; 0: none
}

// Read implements net.Conn. The first byte of a call says what it is.
func (c *conn) Read(p []byte) (int, error) {
	if c.theirs {
		var until time.Time // between calls, silence is no fault
		if c.got > 0 {
			until = time.Now().Add(slowest)
		}
		_ = c.SetReadDeadline(until)
	}
	n, err := c.Conn.Read(p)
	if n > 0 && c.got == 0 {
		switch {
		case !c.theirs:
			c.limit = maxAnswer
		case p[0] == callInstallSnapshot:
			c.limit = 0
		default:
			c.limit = maxMessage
		}
	}
	c.got += int64(n)
	if c.limit > 0 && c.got > c.limit {
		refused(c.layer.events, c.RemoteAddr().String(), fmt.Sprintf("a message of more than %d bytes", c.limit))
		return 0, fmt.Errorf("a message of more than %d bytes", c.limit)
	}
	return n, err
}

// callInstallSnapshot is the first byte of raft's call with a snapshot.
const callInstallSnapshot = 2

func (c *conn) Write(p []byte) (int, error) {
	if c.layer.health.err() != nil {
		return 0, errCut
	}
	c.got = 0
	if c.theirs {
		_ = c.SetWriteDeadline(time.Now().Add(slowest))
	}
	return c.Conn.Write(p)
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		l := c.layer
		l.mu.Lock()
		delete(l.conns, c)
		if c.theirs {
			l.theirs--
		}
		l.mu.Unlock()
		if c.theirs {
			l.running.Done()
		}
	})
	return err
}
