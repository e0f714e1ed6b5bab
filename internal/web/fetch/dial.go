package fetch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"code.dny.dev/ssrf"
	"golang.org/x/net/proxy"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/message"
)

// target is where a request goes.
type target struct {
	host, port, origin string // from the URL
	tls                bool
	addr               netip.Addr // from the caller; may be invalid
	toAddr, toPort     string     // from a ConnectTo rule
	within             time.Duration
}

// dialPort returns the port to dial.
func (t *target) dialPort() string {
	if t.toPort != "" {
		return t.toPort
	}
	return t.port
}

// name returns the host to dial, without brackets.
func (t *target) name() string {
	if t.toAddr != "" {
		return t.toAddr
	}
	return strings.Trim(t.host, "[]")
}

type proxyMode uint8

const (
	noProxy proxyMode = iota
	httpProxy
	socksLocal  // the fetcher looks up names
	socksRemote // the proxy looks up names
)

// dialer makes connections.
type dialer struct {
	cfg   *Config
	rules []rule
	guard *ssrf.Guardian // nil: every address is permitted
	tls   *tls.Config
	mode  proxyMode
	proxy string // host:port
	auth  string // Proxy-Authorization
	socks socksClient
	idle  *idle // closes connections if file descriptors are short
}

// curves are the key exchanges that we offer. They leave out the post-quantum key exchange that
// crypto/tls adds by default. It would cost a quarter of a handshake and make a ClientHello of two
// packets, which some servers reject. The crawler fetches public content, so it does not need that
// protection.
var curves = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}

func (d *dialer) init(c *Config) error {
	d.cfg = c
	for _, s := range c.ConnectTo {
		r, err := parseConnectTo(s)
		if err != nil {
			return err
		}
		d.rules = append(d.rules, r)
	}
	if !c.AllowPrivate {
		d.guard = ssrf.New(ssrf.WithAnyPort())
	}
	roots := c.CA
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			if path, ok := errors.AsType[*fs.PathError](err); ok { // the message has the name already
				err = path.Err
			}
			return fmt.Errorf("ca %s: %w; name a PEM file of certificate authorities that this user may read",
				c.CAFile, err)
		}
		if roots == nil {
			if roots, err = x509.SystemCertPool(); err != nil {
				roots = x509.NewCertPool()
			}
		} else {
			roots = roots.Clone()
		}
		if !roots.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca %s: no PEM certificate in it; name a PEM file of certificate authorities", c.CAFile)
		}
	}
	d.tls = &tls.Config{
		RootCAs: roots, InsecureSkipVerify: c.Insecure, MinVersion: c.MinTLS,
		NextProtos:       []string{"http/1.1"},
		CurvePreferences: curves,
		Time:             c.Clock.Now,
	}
	if c.TLSSessions > 0 {
		d.tls.ClientSessionCache = tls.NewLRUClientSessionCache(c.TLSSessions)
	}
	return d.initProxy(c)
}

func (d *dialer) initProxy(c *Config) error {
	if c.Proxy == nil {
		return nil
	}
	port := c.Proxy.Port()
	switch c.Proxy.Scheme {
	case "http":
		d.mode, d.auth = httpProxy, basicAuth(c.Proxy.User)
		port = cmp.Or(port, "80")
	case "socks5", "socks5h":
		d.mode = socksLocal
		if c.Proxy.Scheme == "socks5h" {
			d.mode = socksRemote
		}
		port = cmp.Or(port, "1080")
	default:
		return fmt.Errorf("proxy %s: the scheme must be http, socks5 or socks5h", c.Proxy.Redacted())
	}
	if c.Proxy.Hostname() == "" {
		return fmt.Errorf("proxy %s: the URL has no host", c.Proxy.Redacted())
	}
	d.proxy = net.JoinHostPort(c.Proxy.Hostname(), port)
	if d.mode == httpProxy {
		return nil
	}
	var auth *proxy.Auth
	if u := c.Proxy.User; u != nil {
		pass, _ := u.Password()
		auth = &proxy.Auth{User: u.Username(), Password: pass}
	}
	s, err := proxy.SOCKS5("tcp", d.proxy, auth, nil)
	if err != nil {
		return fmt.Errorf("proxy %s: %w", c.Proxy.Redacted(), err)
	}
	d.socks = s.(socksClient)
	return nil
}

// socksClient asks the SOCKS proxy on c to connect to addr. Unlike a proxy.Dialer it leaves the
// connection with us, so that we can look at its socket.
type socksClient interface {
	DialWithConn(ctx context.Context, c net.Conn, network, addr string) (net.Addr, error)
}

// viaSOCKS connects to the proxy, and through it to addr.
func (d *dialer) viaSOCKS(ctx context.Context, addr string) (net.Conn, error) {
	c, err := d.dialProxy(ctx, "tcp", d.proxy)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProxyDown, err)
	}
	if _, err := d.socks.DialWithConn(ctx, c, "tcp", addr); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// A canceller ends a fetch when its context is cancelled: it aborts the connection that the fetch
// uses, even while the connection is still being made.
type canceller struct {
	mu        sync.Mutex // guards the fields below; the only I/O under it is Close
	held      net.Conn
	cancelled bool
}

// hold sets the connection to abort, in place of the earlier one. If the fetch is already
// cancelled, hold aborts c and returns false.
func (l *canceller) hold(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held = c; l.cancelled {
		abort(c)
	}
	return !l.cancelled
}

// cancel aborts the held connection and every connection that is held later.
func (l *canceller) cancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancelled = true
	if l.held != nil {
		abort(l.held)
	}
}

// connect makes a connection for t, and returns the time at which it can be used. It may take the time left from now,
// and at most ConnectTimeout and TLSTimeout, and t.within for both.
func (d *dialer) connect(
	ctx context.Context, l *canceller, t *target, now time.Time, left time.Duration,
) (c *conn, ready time.Time, fail *Failure) {
	if left <= 0 {
		return nil, now, &Failure{TotalTimeout, os.ErrDeadlineExceeded}
	}
	if t.within > 0 {
		left = min(left, t.within)
	}
	end := now.Add(min(left, d.cfg.ConnectTimeout))
	cancel := context.CancelFunc(nil)
	dctx := ctx
	if d.mode != noProxy || d.cfg.Dial != nil || t.toAddr != "" || !t.addr.IsValid() {
		// A lookup, a proxy or Config.Dial takes its time limit from a context.
		dctx, cancel = context.WithTimeout(ctx, min(left, d.cfg.ConnectTimeout))
	}
	c, fail = d.dialServer(dctx, t, end)
	if cancel != nil {
		cancel()
	}
	if fail != nil {
		return nil, now, fail
	}
	if !l.hold(c.raw) {
		return nil, now, &Failure{Connect, net.ErrClosed}
	}
	ready = d.cfg.Clock.Now()
	count(d.cfg.Phases.Connect, ready.Sub(now))
	if t.tls {
		began := ready
		left -= began.Sub(now)
		if fail = d.handshake(c, t, began.Add(max(min(left, d.cfg.TLSTimeout), time.Millisecond))); fail != nil {
			c.Close()
			return nil, now, fail
		}
		ready = d.cfg.Clock.Now()
		count(d.cfg.Phases.TLS, ready.Sub(began))
	}
	return c, ready, nil
}

// dialServer connects to the server, if need be through the proxy.
func (d *dialer) dialServer(ctx context.Context, t *target, end time.Time) (*conn, *Failure) {
	switch d.mode {
	case httpProxy, socksRemote:
		if t.toAddr == "" {
			if err := d.checkName(t.name()); err != nil {
				return nil, &Failure{Refused, err}
			}
		}
		at := net.JoinHostPort(t.name(), t.dialPort())
		if d.mode == socksRemote {
			raw, err := d.viaSOCKS(ctx, at)
			if err != nil {
				return nil, proxyFailure(err)
			}
			return &conn{raw: raw, rw: raw, named: true}, nil
		}
		raw, err := d.dialProxy(ctx, "tcp", d.proxy)
		if err != nil {
			return nil, proxyFailure(fmt.Errorf("%w: %w", ErrProxyDown, err))
		}
		c := &conn{raw: raw, rw: raw, named: true, forward: !t.tls}
		if t.tls {
			if err := d.tunnel(ctx, c, at); err != nil {
				c.Close()
				return nil, proxyFailure(err)
			}
		}
		return c, nil
	}
	addrs, named, fail := d.addresses(ctx, t)
	if fail != nil {
		return nil, fail
	}
	return d.dialAny(ctx, addrs, named, t.dialPort(), end)
}

func proxyFailure(err error) *Failure {
	if isTimeout(err) || errors.Is(err, context.DeadlineExceeded) {
		return &Failure{ConnectTimeout, fmt.Errorf("proxy: %w", err)}
	}
	return &Failure{Proxy, err}
}

// addresses returns the addresses to dial. named is true if a ConnectTo rule gave them.
func (d *dialer) addresses(ctx context.Context, t *target) (addrs []netip.Addr, named bool, fail *Failure) {
	if t.toAddr == "" && t.addr.IsValid() {
		return []netip.Addr{t.addr}, false, nil
	}
	name := t.name()
	named = t.toAddr != ""
	if ip, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{ip}, named, nil
	}
	lookup := d.cfg.Lookup
	if lookup == nil {
		lookup = systemLookup
	}
	addrs, err := lookup(ctx, name)
	if err == nil && len(addrs) == 0 {
		err = fmt.Errorf("the lookup of %s returned no address", name)
	}
	if err != nil {
		return nil, named, &Failure{DNS, err}
	}
	return addrs, named, nil
}

// systemLookup asks the system's resolver. That resolver returns IPv4 addresses in their
// IPv6-mapped form, which the address check would refuse, so systemLookup unmaps them.
func systemLookup(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, err
}

// maxDials is the maximum number of addresses to try for one request.
const maxDials = 4

// dialAny tries the addresses one after the other. Each gets an equal share of the time that is
// left until end.
func (d *dialer) dialAny(
	ctx context.Context, addrs []netip.Addr, named bool, port string, end time.Time,
) (*conn, *Failure) {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, &Failure{Connect, fmt.Errorf("port %q: %w", port, err)}
	}
	var fail *Failure
	addrs = addrs[:min(len(addrs), maxDials)]
	for i, ip := range addrs {
		if err := d.check(ip, named); err != nil {
			if fail == nil {
				fail = &Failure{Refused, err}
			}
			continue
		}
		until := end
		if more := len(addrs) - i; more > 1 {
			now := d.cfg.Clock.Now()
			until = now.Add(end.Sub(now) / time.Duration(more))
		}
		// A mapped address that is permitted is an IPv4 address.
		to := netip.AddrPortFrom(ip.Unmap(), uint16(number))
		raw, err := d.dial(ctx, to, named, until)
		if err == nil {
			return &conn{raw: raw, rw: raw, named: named, addr: to}, nil
		}
		switch {
		case isRefusal(err):
			fail = &Failure{Refused, err}
		case d.mode == socksLocal:
			fail = proxyFailure(err)
		case isTimeout(err) || errors.Is(err, context.DeadlineExceeded):
			fail = &Failure{ConnectTimeout, err}
		default:
			fail = &Failure{Connect, err}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fail
}

// dial connects to one address before the given time. A shortage of file descriptors is not the
// host's failure: dial then closes idle connections and tries again.
func (d *dialer) dial(ctx context.Context, to netip.AddrPort, named bool, until time.Time) (net.Conn, error) {
	for pause := shortagePause; ; pause = min(2*pause, 20*shortagePause) {
		c, err := d.dialOnce(ctx, to, named, until)
		if !disk.IsShortage(err) || !d.cfg.Clock.Now().Add(pause).Before(until) {
			return c, err
		}
		d.idle.relieve()
		if !clock.Pause(ctx, pause) {
			return nil, ctx.Err()
		}
	}
}

// shortagePause is the first pause after a shortage of file descriptors. The pause doubles up to 20
// times this value.
const shortagePause = 10 * time.Millisecond

func (d *dialer) dialOnce(ctx context.Context, to netip.AddrPort, named bool, until time.Time) (net.Conn, error) {
	if d.mode == noProxy && d.cfg.Dial == nil {
		return d.dialDirect(ctx, to, named, until)
	}
	ctx, cancel := context.WithTimeout(ctx, until.Sub(d.cfg.Clock.Now()))
	defer cancel()
	if d.mode == socksLocal {
		return d.viaSOCKS(ctx, to.String())
	}
	return d.cfg.Dial(ctx, tcpFor(to), to.String())
}

// dialDirect connects to an address. It checks the address again, also just before the socket
// connects. Without a proxy or a Config.Dial, every connection is made here.
func (d *dialer) dialDirect(ctx context.Context, to netip.AddrPort, named bool, until time.Time) (net.Conn, error) {
	if err := d.check(to.Addr(), named); err != nil {
		return nil, err
	}
	nd := net.Dialer{KeepAlive: -1, Deadline: until, Control: d.checkLast(named)}
	return nd.DialContext(ctx, tcpFor(to), to.String())
}

func tcpFor(to netip.AddrPort) string {
	if to.Addr().Is6() {
		return "tcp6"
	}
	return "tcp4"
}

// dialProxy dials the proxy, which the operator has named.
func (d *dialer) dialProxy(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.cfg.Dial != nil {
		return d.cfg.Dial(ctx, network, addr)
	}
	return (&net.Dialer{KeepAlive: -1}).DialContext(ctx, network, addr)
}

// maxProxyHead is the maximum size of a proxy's reply to CONNECT in bytes.
const maxProxyHead = 64 << 10

// tunnel asks the HTTP proxy on c to connect to at (RFC 9110, 9.3.6).
func (d *dialer) tunnel(ctx context.Context, c *conn, at string) error {
	stop := context.AfterFunc(ctx, c.Close)
	defer stop()
	if end, ok := ctx.Deadline(); ok {
		c.raw.SetDeadline(end)
	}
	ask := "CONNECT " + at + " HTTP/1.1\r\nHost: " + at + "\r\nUser-Agent: " + d.cfg.UserAgent + "\r\n"
	if d.auth != "" {
		ask += "Proxy-Authorization: " + d.auth + "\r\n"
	}
	if _, err := c.raw.Write([]byte(ask + "\r\n")); err != nil {
		return fmt.Errorf("proxy CONNECT: %w", err)
	}
	var b []byte
	var piece [1024]byte
	for {
		n, err := c.raw.Read(piece[:])
		b = append(b, piece[:n]...)
		if end := headEnd(b, len(b)-n); end >= 0 {
			line := firstLine(b)
			_, _, _, status, ok := message.ParseStatus(line)
			switch {
			case !ok || status/100 != 2:
				return fmt.Errorf("proxy CONNECT: the proxy replied %.80q", bytes.TrimSpace([]byte(line)))
			case end < len(b):
				return errors.New("proxy CONNECT: the proxy sent bytes after its reply")
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("proxy CONNECT: %w", noEOF(err))
		}
		if len(b) > maxProxyHead {
			return fmt.Errorf("proxy CONNECT: the reply is longer than %d bytes", maxProxyHead)
		}
	}
}

// maxChain is the maximum size in bytes of the certificates in a session to keep. Ordinary chains
// have a third of it; crypto/tls accepts up to 256 KiB.
const maxChain = 16 << 10

// smallSessions is a session cache that does not store a session with large certificates, because a
// session keeps the certificates of its server in memory. It implements tls.ClientSessionCache.
type smallSessions struct {
	tls.ClientSessionCache
	large bool
}

// measure is a tls.Config.VerifyConnection that only measures the certificates and accepts every
// connection.
func (s *smallSessions) measure(state tls.ConnectionState) error {
	n := 0
	for _, c := range state.PeerCertificates {
		n += len(c.Raw)
	}
	s.large = n > maxChain
	return nil
}

func (s *smallSessions) Put(key string, state *tls.ClientSessionState) {
	if s.large {
		state = nil // removes the session
	}
	s.ClientSessionCache.Put(key, state)
}

// handshake performs the TLS handshake before the given time. It sends and verifies the name in the
// URL, whatever address the connection has.
func (d *dialer) handshake(c *conn, t *target, until time.Time) *Failure {
	cfg := d.tls.Clone()
	cfg.ServerName = strings.Trim(t.host, "[]")
	if cfg.ClientSessionCache != nil {
		s := &smallSessions{ClientSessionCache: cfg.ClientSessionCache}
		cfg.ClientSessionCache, cfg.VerifyConnection = s, s.measure
	}
	c.tap = &tap{Conn: c.raw}
	tc := tls.Client(c.tap, cfg)
	c.raw.SetDeadline(until)
	if err := tc.Handshake(); err != nil {
		if isTimeout(err) {
			return &Failure{ConnectTimeout, fmt.Errorf("tls handshake: %w", err)}
		}
		return &Failure{TLS, err}
	}
	state := tc.ConnectionState()
	c.rw, c.resumed, c.secure = tc, state.DidResume, Secure{state.Version, state.CipherSuite}
	return nil
}
