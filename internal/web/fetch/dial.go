package fetch

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"code.dny.dev/ssrf"
	"golang.org/x/net/proxy"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// target is where a request wants to go.
type target struct {
	host, port, origin string // of the URL
	tls                bool
	addr               netip.Addr // of the caller; may be invalid
	toAddr, toPort     string     // of a ConnectTo rule
}

// dialPort is the port to dial.
func (t *target) dialPort() string {
	if t.toPort != "" {
		return t.toPort
	}
	return t.port
}

// name is the host to dial, without brackets.
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
	socksLocal  // we resolve
	socksRemote // the proxy resolves
)

// dialer makes connections.
type dialer struct {
	cfg   *Config
	rules []rule
	guard *ssrf.Guardian // nil: every address is allowed
	tls   *tls.Config
	mode  proxyMode
	proxy string // host:port
	auth  string // Proxy-Authorization
	socks socksClient
	// relieve closes connections that can be spared.
	relieve func()
}

// curves are the key exchanges that we offer: those without the post-quantum
// half that crypto/tls adds by itself. What is fetched is public anyway; it
// would cost a quarter of a handshake, and a ClientHello of two packets, at
// which some servers balk.
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
			return fmt.Errorf("fetch: read authorities: %w", err)
		}
		if roots == nil {
			if roots, err = x509.SystemCertPool(); err != nil {
				roots = x509.NewCertPool()
			}
		} else {
			roots = roots.Clone()
		}
		if !roots.AppendCertsFromPEM(pem) {
			return fmt.Errorf("fetch: no certificate in %s", c.CAFile)
		}
	}
	d.tls = &tls.Config{
		RootCAs: roots, InsecureSkipVerify: c.Insecure, MinVersion: c.MinTLS,
		NextProtos:       []string{"http/1.1"},
		CurvePreferences: curves,
		Time:             c.Now,
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
		if port == "" {
			port = "80"
		}
	case "socks5", "socks5h":
		d.mode = socksLocal
		if c.Proxy.Scheme == "socks5h" {
			d.mode = socksRemote
		}
		if port == "" {
			port = "1080"
		}
	default:
		return fmt.Errorf("fetch: proxy %s: want http, socks5 or socks5h", c.Proxy.Redacted())
	}
	if c.Proxy.Hostname() == "" {
		return fmt.Errorf("fetch: proxy %s: no host", c.Proxy.Redacted())
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
		return fmt.Errorf("fetch: proxy %s: %w", c.Proxy.Redacted(), err)
	}
	d.socks = s.(socksClient)
	return nil
}

// socksClient asks the SOCKS proxy on c for a way to addr. Unlike a
// proxy.Dialer it leaves us the connection itself, into whose socket we look.
type socksClient interface {
	DialWithConn(ctx context.Context, c net.Conn, network, addr string) (net.Addr, error)
}

// viaSOCKS connects to the proxy, and through it to addr.
func (d *dialer) viaSOCKS(ctx context.Context, addr string) (net.Conn, error) {
	c, err := d.free(ctx, "tcp", d.proxy)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProxyDown, err)
	}
	if _, err := d.socks.DialWithConn(ctx, c, "tcp", addr); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// aim applies the first ConnectTo rule that matches.
func (d *dialer) aim(t *target) {
	for i := range d.rules {
		if d.rules[i].matches(t) {
			t.toAddr, t.toPort = d.rules[i].toAddr, d.rules[i].toPort
			return
		}
	}
}

// A leash ends what a fetch waits for when the fetch is cancelled: the
// connection that it holds is closed, whether it is still being made or not.
type leash struct {
	mu   sync.Mutex // guards both; never held across I/O but Close
	held io.Closer
	cut  bool
}

// hold puts c on the leash, in place of what was. False means that c has been
// closed, for the fetch is over.
func (l *leash) hold(c io.Closer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held = c; l.cut {
		c.Close()
	}
	return !l.cut
}

// snap closes what is held, and all that will be.
func (l *leash) snap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	if l.held != nil {
		l.held.Close()
	}
}

// connect makes a connection for t within left from now on.
func (d *dialer) connect(ctx context.Context, l *leash, t *target, now time.Time, left time.Duration) (*conn, *Failure) {
	if left <= 0 {
		return nil, &Failure{TotalTimeout, os.ErrDeadlineExceeded}
	}
	end := now.Add(min(left, d.cfg.ConnectTimeout))
	cancel := context.CancelFunc(nil)
	dctx := ctx
	if d.mode != noProxy || d.cfg.Dial != nil || t.toAddr != "" || !t.addr.IsValid() {
		// Someone may have to be asked who knows contexts only.
		dctx, cancel = context.WithTimeout(ctx, min(left, d.cfg.ConnectTimeout))
	}
	c, fail := d.reach(dctx, t, end)
	if cancel != nil {
		cancel()
	}
	if fail != nil {
		return nil, fail
	}
	if !l.hold(c.raw) {
		return nil, &Failure{Connect, net.ErrClosed}
	}
	if t.tls {
		began := d.cfg.Now()
		left -= began.Sub(now)
		if fail = d.secure(c, t, began.Add(max(min(left, d.cfg.TLSTimeout), time.Millisecond))); fail != nil {
			c.Close()
			return nil, fail
		}
	}
	return c, nil
}

// reach connects to the server, or to the proxy.
func (d *dialer) reach(ctx context.Context, t *target, end time.Time) (*conn, *Failure) {
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
		raw, err := d.free(ctx, "tcp", d.proxy)
		if err != nil {
			return nil, proxyFailure(fmt.Errorf("%w: %w", ErrProxyDown, err))
		}
		c := &conn{raw: raw, rw: raw, named: true, fwd: !t.tls}
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

// addresses are those to dial; named means that the operator said so.
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
		err = errors.New("no address of " + name)
	}
	if err != nil {
		return nil, named, &Failure{DNS, err}
	}
	return addrs, named, nil
}

// systemLookup asks the system's resolver. It gives IPv4 addresses in their
// mapped form, which as such is refused.
func systemLookup(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, err
}

// maxDials bounds the addresses tried for one request.
const maxDials = 4

// dialAny tries the addresses one after the other, each for its share of the
// time that is left until end.
func (d *dialer) dialAny(ctx context.Context, addrs []netip.Addr, named bool, port string, end time.Time) (*conn, *Failure) {
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
			now := d.cfg.Now()
			until = now.Add(end.Sub(now) / time.Duration(more))
		}
		// An allowed mapped address is an IPv4 address.
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

// dial connects to one address until the given time. A want of file descriptors is
// not the host's failure: idle connections are closed, and dial tries again.
func (d *dialer) dial(ctx context.Context, to netip.AddrPort, named bool, until time.Time) (net.Conn, error) {
	for pause := shortagePause; ; pause = min(2*pause, 20*shortagePause) {
		c, err := d.dialOnce(ctx, to, named, until)
		if !disk.IsShortage(err) || !d.cfg.Now().Add(pause).Before(until) {
			return c, err
		}
		d.relieve()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// shortagePause is the first pause before an address is dialled again for which
// there was no file descriptor; the longest one is 20 times as long.
const shortagePause = 10 * time.Millisecond

func (d *dialer) dialOnce(ctx context.Context, to netip.AddrPort, named bool, until time.Time) (net.Conn, error) {
	if d.mode == noProxy && d.cfg.Dial == nil {
		return d.direct(ctx, to, named, until)
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if d.mode == socksLocal {
		return d.viaSOCKS(ctx, to.String())
	}
	return d.cfg.Dial(ctx, tcpFor(to), to.String())
}

// direct connects to an address. It checks the address once more, in the
// socket's last moment: without a proxy or a Config.Dial, no way leads to a
// connection but through here.
func (d *dialer) direct(ctx context.Context, to netip.AddrPort, named bool, until time.Time) (net.Conn, error) {
	if err := d.check(to.Addr(), named); err != nil {
		return nil, refused(to, err)
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

// free dials what the operator has named: a proxy.
func (d *dialer) free(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.cfg.Dial != nil {
		return d.cfg.Dial(ctx, network, addr)
	}
	return (&net.Dialer{KeepAlive: -1}).DialContext(ctx, network, addr)
}

// maxProxyHead bounds a proxy's answer to CONNECT.
const maxProxyHead = 64 << 10

// tunnel asks the proxy on c for a way to at (RFC 9110, 9.3.6).
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
			_, _, _, status, ok := parseStatus(line)
			switch {
			case !ok || status/100 != 2:
				return fmt.Errorf("proxy CONNECT: answer %.80q", bytes.TrimSpace([]byte(line)))
			case end < len(b):
				return errors.New("proxy CONNECT: bytes after the answer")
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("proxy CONNECT: %w", noEOF(err))
		}
		if len(b) > maxProxyHead {
			return errors.New("proxy CONNECT: answer too long")
		}
	}
}

// maxChain is the most that the certificates of a session may take to be kept:
// ordinary chains have a third of it, crypto/tls takes 256 KiB.
const maxChain = 16 << 10

// slender keeps the sessions of a connection out of the cache if its server
// has made them large: they hold on to its certificates.
type slender struct {
	tls.ClientSessionCache
	large bool
}

// weigh is tls.Config.VerifyConnection; it has nothing against any.
func (s *slender) weigh(state tls.ConnectionState) error {
	n := 0
	for _, c := range state.PeerCertificates {
		n += len(c.Raw)
	}
	s.large = n > maxChain
	return nil
}

// Put implements tls.ClientSessionCache.
func (s *slender) Put(key string, state *tls.ClientSessionState) {
	if s.large {
		state = nil // forgets
	}
	s.ClientSessionCache.Put(key, state)
}

// secure shakes hands until the given time. The server is verified by, and
// told, the URL's name, wherever the connection leads.
func (d *dialer) secure(c *conn, t *target, until time.Time) *Failure {
	cfg := d.tls.Clone()
	cfg.ServerName = strings.Trim(t.host, "[]")
	if cfg.ClientSessionCache != nil {
		s := &slender{ClientSessionCache: cfg.ClientSessionCache}
		cfg.ClientSessionCache, cfg.VerifyConnection = s, s.weigh
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
	c.rw, c.resumed = tc, tc.ConnectionState().DidResume
	return nil
}
