package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// Config tunes a Fetcher. The zero Config is polite and safe.
type Config struct {
	// UserAgent is the User-Agent field. Empty means "Orbweaver".
	UserAgent string
	// From is the From field, the operator's mail address. Empty sends no field.
	From string
	// Accept, AcceptLanguage and AcceptEncoding are the fields of these names. If they are empty,
	// the fetcher prefers HTML in Accept, sends no Accept-Language, and sends "gzip, br" as
	// Accept-Encoding, which the readers of our archives can decode.
	Accept, AcceptLanguage, AcceptEncoding string
	// Header is sent with every request. Its fields replace the fields above that have the same
	// name. Host, Connection, Content-Length and Transfer-Encoding cannot be set.
	Header [][2]string
	// Secret is like Header, but Response.Request has Redacted instead of the values. A field of Secret replaces a
	// field of Header with the same name.
	Secret [][2]string

	// MaxHeader is the maximum size of a header in bytes. Zero means 256 KiB.
	MaxHeader int
	// MaxBody is the maximum size of a transfer-coded body in bytes; longer bodies are truncated.
	// Zero means 256 MiB.
	MaxBody int64

	// ConnectTimeout limits the time for connecting: the lookup, all addresses of a host, and a
	// proxy's CONNECT. Zero means 15 s.
	ConnectTimeout time.Duration
	// TLSTimeout limits the time of a TLS handshake with the server. Zero means 15 s.
	TLSTimeout time.Duration
	// FirstByteTimeout limits the time from the request to the first byte of its response. On a
	// kept connection it may end up to an eighth early. Zero means 30 s.
	FirstByteTimeout time.Duration
	// IdleTimeout limits the time between two reads. It may end up to an eighth early. Zero means
	// 20 s.
	IdleTimeout time.Duration
	// TotalTimeout limits the time of a whole fetch. Zero means 5 min.
	TotalTimeout time.Duration
	// MinRate is the lowest average rate of a response in bytes a second, header included. A slower
	// response is cut off, but not before SlowGrace has passed since its first byte. Zero means
	// 100; negative means no limit.
	MinRate int64

	// IdleKeep is how long a connection is kept for the host's next request. Zero means 5 s;
	// negative keeps none.
	IdleKeep time.Duration
	// MaxIdle is the maximum number of kept connections. Each takes a file descriptor and half a
	// KiB of memory, or 16 KiB with TLS. Zero means a quarter of the process's file descriptors
	// (RLIMIT_NOFILE), but at least 16 and at most 4,096; it means 256 if that limit is unknown.
	// Negative keeps none.
	MaxIdle int
	// TLSSessions is the maximum number of TLS sessions to keep for resumption, which halves the
	// cost of the next handshake with a host. The least recently used sessions are dropped first.
	// Each takes 5 to 9 KiB, mostly the host's certificates; a session with more than 16 KiB of
	// certificates is not kept. Zero means 8,192; negative keeps none.
	TLSSessions int

	// Lookup returns a host's addresses, best first. Nil means the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an IP address and port. Nil means TCP. The fetcher checks an address before
	// it calls Dial.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// ConnectTo has rules of the form HOST:PORT:ADDR:PORT, as curl's --connect-to. A request to
	// HOST:PORT goes to ADDR:PORT. An empty HOST or first PORT matches all; an empty ADDR or second
	// PORT changes nothing. The first rule that matches applies.
	ConnectTo []string
	// Proxy is an http, socks5 or socks5h URL. With socks5 the fetcher looks up names; otherwise
	// the proxy does.
	Proxy *url.URL
	// AllowPrivate permits loopback, private, link-local and other special addresses (IANA's
	// special-purpose registries). An address that ConnectTo or Proxy names is always permitted.
	//
	// If the proxy looks up names (http, socks5h), the fetcher does not see their addresses.
	// Without AllowPrivate it then checks literal addresses, and refuses localhost, names of a
	// single label, and names in .localhost, .local, .internal and .home.arpa. Only the proxy can
	// refuse a public name that leads to a private address.
	AllowPrivate bool
	// LoopbackOnly refuses every address except loopback, also an address that ConnectTo names.
	// Loopback also needs AllowPrivate. LoopbackOnly excludes Proxy, because a proxy connects from
	// its own network.
	LoopbackOnly bool

	// CAFile is a PEM file with certificate authorities to trust in addition to CA. CA are the
	// authorities to trust; nil means the system's.
	CAFile string
	CA     *x509.CertPool
	// Insecure accepts every certificate.
	Insecure bool
	// MinTLS is the lowest TLS version. Zero means tls.VersionTLS12.
	MinTLS uint16

	// SpillBytes is how many bytes of a response stay in memory (at least its header and 32 KiB).
	// Longer responses go to a file in SpillDir. Zero means 1 MiB. An empty SpillDir means
	// os.TempDir().
	SpillBytes int64
	SpillDir   string
	// FS is the file system of SpillDir. Nil means disk.OS.
	FS disk.FS

	// Clock is the clock for all timeouts. Nil means clock.System.
	Clock clock.Clock
	// Phases measure how long the parts of fetches take.
	Phases Phases
}

// SlowGrace is how long after its first byte a response may be slower than Config.MinRate.
const SlowGrace = 30 * time.Second

// Descriptors returns how many connections of one kind a process may have: a quarter of its file
// descriptors (RLIMIT_NOFILE), but at least 16 and at most 4,096. It returns 256 if that limit is
// unknown.
func Descriptors() int { return idleDefault() }

func or[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

// LooksUp reports whether the fetcher looks up the addresses of hosts. With some proxies, the proxy
// does.
func (c *Config) LooksUp() bool { return c.Proxy == nil || c.Proxy.Scheme == "socks5" }

// fill sets the defaults and checks the values.
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
	c.FS = cmp.Or(c.FS, disk.OS)
	c.Clock = clock.Or(c.Clock)
	if c.LoopbackOnly && c.Proxy != nil {
		return errors.New("fetch: LoopbackOnly cannot be used with Proxy: a proxy connects from its own network")
	}
	if c.MaxHeader < 0 || c.MaxBody < 0 || c.SpillBytes < 0 {
		return fmt.Errorf("fetch: MaxHeader %d, MaxBody %d, SpillBytes %d: must not be negative",
			c.MaxHeader, c.MaxBody, c.SpillBytes)
	}
	if min(c.ConnectTimeout, c.TLSTimeout, c.FirstByteTimeout, c.IdleTimeout, c.TotalTimeout) < 0 {
		return fmt.Errorf("fetch: ConnectTimeout %s, TLSTimeout %s, FirstByteTimeout %s, IdleTimeout %s, "+
			"TotalTimeout %s: must not be negative",
			c.ConnectTimeout, c.TLSTimeout, c.FirstByteTimeout, c.IdleTimeout, c.TotalTimeout)
	}
	for _, f := range append([][2]string{
		{"User-Agent", c.UserAgent}, {"From", c.From}, {"Accept", c.Accept},
		{"Accept-Language", c.AcceptLanguage}, {"Accept-Encoding", c.AcceptEncoding},
	}, slices.Concat(c.Header, c.Secret)...) {
		if err := CheckField(f); err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
	}
	return nil
}

// ErrHeader means that a request field must not be sent.
var ErrHeader = errors.New("bad request header field")

// Redacted stands for the value of a secret field in Response.Request.
const Redacted = "[redacted]"

// CheckField returns ErrHeader if the fetcher cannot send a field.
func CheckField(f [2]string) error {
	for _, ours := range [...]string{"Host", "Connection", "Content-Length", "Transfer-Encoding"} {
		if strings.EqualFold(f[0], ours) {
			return fmt.Errorf("%w: %s is set by the fetcher", ErrHeader, ours)
		}
	}
	if f[0] == "" {
		return fmt.Errorf("%w: the name is empty", ErrHeader)
	}
	for i := range len(f[0]) {
		if b := f[0][i]; b <= ' ' || b >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, b) >= 0 {
			return fmt.Errorf("%w: the name %q has a character that is not allowed", ErrHeader, f[0])
		}
	}
	for i := range len(f[1]) {
		if b := f[1][i]; b < ' ' && b != '\t' || b == 0x7f {
			return fmt.Errorf("%w: the value of %s has a control character", ErrHeader, f[0])
		}
	}
	return nil
}
