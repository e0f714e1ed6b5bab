package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Config tunes a Fetcher. The zero Config is polite and safe.
type Config struct {
	// UserAgent is the User-Agent field. Empty means "Orbweaver".
	UserAgent string
	// From is the From field, the operator's mail address. Empty sends none.
	From string
	// Accept, AcceptLanguage and AcceptEncoding are the fields of these
	// names. Empty means HTML before others, none, and "gzip, br": what the
	// readers of our archives decode.
	Accept, AcceptLanguage, AcceptEncoding string
	// Header is sent with every request, in place of a field of the same
	// name above. Host, Connection, Content-Length and Transfer-Encoding
	// cannot be set.
	Header [][2]string

	// MaxHeader bounds the bytes of a header. Zero means 256 KiB.
	MaxHeader int
	// MaxBody bounds the bytes of a transfer-coded body; what is longer is
	// truncated. Zero means 256 MiB.
	MaxBody int64

	// ConnectTimeout bounds connecting to all of a host's addresses. Zero
	// means 15 s.
	ConnectTimeout time.Duration
	// TLSTimeout bounds a handshake with the server, or a CONNECT. Zero
	// means 15 s.
	TLSTimeout time.Duration
	// FirstByteTimeout runs from the request to the first byte of its
	// response; over a kept connection it may come up to an eighth early.
	// Zero means 30 s.
	FirstByteTimeout time.Duration
	// IdleTimeout bounds the silence between two reads; it may come up to an
	// eighth early. Zero means 20 s.
	IdleTimeout time.Duration
	// TotalTimeout bounds a fetch as a whole. Zero means 5 min.
	TotalTimeout time.Duration
	// MinRate is the lowest average rate of a response, header included, in bytes a
	// second. From SlowGrace after its first byte on, a slower response is cut off.
	// Zero means 100; negative means no bound.
	MinRate int64

	// IdleKeep is how long a connection is kept for the host's next request.
	// Zero means 5 s; negative keeps none.
	IdleKeep time.Duration
	// MaxIdle bounds the connections kept. Each takes a file descriptor and
	// half a KiB of memory, over TLS 16 KiB. Zero means a quarter of the
	// descriptors that the process may have (RLIMIT_NOFILE), from 16 to
	// 4,096; negative keeps none.
	MaxIdle int
	// TLSSessions bounds the TLS sessions kept for resumption, which spares
	// the next connection to a host half of its handshake; the hosts spoken
	// to longest ago are forgotten first. Each takes 5 to 9 KiB, most of it
	// the host's certificates; with more than 16 KiB of these none is kept.
	// Zero means 8,192; negative keeps none.
	TLSSessions int

	// Lookup finds a host's addresses, best first. Nil means the system's
	// resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an IP address and port. Nil means TCP. Addresses are
	// checked before it is called.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// ConnectTo are rules HOST:PORT:ADDR:PORT as curl's --connect-to: a
	// request to the first HOST:PORT goes to ADDR:PORT. An empty HOST or
	// first PORT matches all; an empty ADDR or second PORT changes nothing.
	// The first rule that matches counts.
	ConnectTo []string
	// Proxy is an http, socks5 or socks5h URL. With socks5 the fetcher looks
	// names up; with the others the proxy does.
	Proxy *url.URL
	// AllowPrivate allows to dial loopback, private, link-local and other
	// special addresses (IANA's special-purpose registries). What ConnectTo
	// and Proxy name is always allowed. If the proxy looks names up (http,
	// socks5h), the fetcher does not see their addresses. It then checks
	// literal addresses, and refuses localhost, names of a single label, and
	// names in .localhost, .local, .internal and .home.arpa. A public name
	// that leads to a private address is the proxy's to refuse.
	AllowPrivate bool
	// LoopbackOnly refuses every address but loopback, also those that
	// ConnectTo names. Loopback needs AllowPrivate as well. It excludes Proxy,
	// as a proxy connects from elsewhere.
	LoopbackOnly bool

	// CAFile is a PEM file of authorities trusted besides the system's; CA,
	// if set, takes the place of the system's.
	CAFile string
	CA     *x509.CertPool
	// Insecure accepts every certificate.
	Insecure bool
	// MinTLS is the lowest version spoken. Zero means tls.VersionTLS12.
	MinTLS uint16

	// SpillBytes is how much of a response rests in memory (at least its
	// header and 32 KiB); what is longer is written to a file in SpillDir.
	// Zero means 1 MiB and os.TempDir().
	SpillBytes int64
	SpillDir   string
	// FS holds SpillDir. Nil means disk.OS.
	FS disk.FS

	// Now is the clock by which connections keep their deadlines. Nil means
	// time.Now.
	Now func() time.Time
}

// SlowGrace is how long after its first byte a response may be slower than
// Config.MinRate.
const SlowGrace = 30 * time.Second

// Descriptors returns how many connections of a kind a process may have: a quarter
// of the descriptors that it has (RLIMIT_NOFILE), from 256 to 4,096.
func Descriptors() int { return idleDefault() }

func or[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

// LooksUp reports whether the fetcher finds the addresses of hosts: always but
// with a proxy that does.
func (c *Config) LooksUp() bool { return c.Proxy == nil || c.Proxy.Scheme == "socks5" }

// fill puts the defaults in and checks the rest.
func (c *Config) fill() error {
	or(&c.UserAgent, "Orbweaver")
	or(&c.Accept, "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	or(&c.AcceptEncoding, "gzip, br")
	or(&c.MaxHeader, 256<<10)
	or(&c.MaxBody, 256<<20)
	or(&c.ConnectTimeout, 15*time.Second)
	or(&c.TLSTimeout, 15*time.Second)
	or(&c.FirstByteTimeout, 30*time.Second)
	or(&c.IdleTimeout, 20*time.Second)
	or(&c.TotalTimeout, 5*time.Minute)
	or(&c.MinRate, 100)
	or(&c.IdleKeep, 5*time.Second)
	or(&c.MaxIdle, idleDefault())
	or(&c.TLSSessions, 8192)
	or(&c.SpillBytes, 1<<20)
	or(&c.SpillDir, os.TempDir())
	or(&c.MinTLS, tls.VersionTLS12)
	if c.FS == nil {
		c.FS = disk.OS
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.LoopbackOnly && c.Proxy != nil {
		return errors.New("fetch: LoopbackOnly with a Proxy: a proxy connects from elsewhere")
	}
	if c.MaxHeader < 0 || c.MaxBody < 0 || c.SpillBytes < 0 {
		return errors.New("fetch: negative size limit")
	}
	if min(c.ConnectTimeout, c.TLSTimeout, c.FirstByteTimeout, c.IdleTimeout, c.TotalTimeout) < 0 {
		return errors.New("fetch: negative timeout")
	}
	for _, f := range append([][2]string{
		{"User-Agent", c.UserAgent}, {"From", c.From}, {"Accept", c.Accept},
		{"Accept-Language", c.AcceptLanguage}, {"Accept-Encoding", c.AcceptEncoding},
	}, c.Header...) {
		if err := checkField(f); err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
	}
	return nil
}

// ErrHeader is a request field that must not be sent.
var ErrHeader = errors.New("bad request header field")

func checkField(f [2]string) error {
	for _, ours := range [...]string{"Host", "Connection", "Content-Length", "Transfer-Encoding"} {
		if strings.EqualFold(f[0], ours) {
			return fmt.Errorf("%w: %s is set by the fetcher", ErrHeader, ours)
		}
	}
	if f[0] == "" {
		return fmt.Errorf("%w: empty name", ErrHeader)
	}
	for i := range len(f[0]) {
		if b := f[0][i]; b <= ' ' || b >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, b) >= 0 {
			return fmt.Errorf("%w: name %q", ErrHeader, f[0])
		}
	}
	for i := range len(f[1]) {
		if b := f[1][i]; b < ' ' && b != '\t' || b == 0x7f {
			return fmt.Errorf("%w: value of %s has a control character", ErrHeader, f[0])
		}
	}
	return nil
}
