package fetch

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
)

// Kind is the reason why there is no HTTP response.
type Kind uint8

const (
	// DNS: the name has no address, or the lookup failed.
	DNS Kind = iota + 1
	// Connect: no TCP connection (refused, unreachable).
	Connect
	// TLS: the handshake failed or the certificate is not trusted.
	TLS
	// Refused: Orbweaver does not dial any of the addresses (private, loopback, ...).
	Refused
	// Broken: the connection was closed or reset before the header was complete.
	Broken
	// BadResponse: the received bytes are not HTTP/1.
	BadResponse
	// HeaderTooLarge: the header is larger than Config.MaxHeader or has more than 5000 fields.
	HeaderTooLarge
	// ConnectTimeout: no connection, or no TLS session, within the time limit.
	ConnectTimeout
	// FirstByteTimeout: connected, but no byte came.
	FirstByteTimeout
	// IdleTimeout: the server paused too long within the header.
	IdleTimeout
	// TotalTimeout: Config.TotalTimeout passed before the header was complete.
	TotalTimeout
	// Proxy: the proxy did not connect us to the server.
	Proxy
	// RateTimeout: the header came more slowly than Config.MinRate, or a slow header needed memory
	// that was not free; see Watch.Slow.
	RateTimeout
)

var kindNames = [...]string{
	"", "dns", "connect", "tls", "refused-address", "broken", "bad-response", "header-too-large",
	"timeout-connect", "timeout-first-byte", "timeout-idle", "timeout-total", "proxy", "timeout-rate",
}

// String returns the kind's name in logs and reports.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// ErrProxyDown is in a Failure if the proxy cannot be reached. It is a problem of the operator, not
// of the URL or its host.
var ErrProxyDown = errors.New("the proxy cannot be reached")

// Failure is why a fetch got no HTTP response. It is a result of the crawl, though it implements
// error.
type Failure struct {
	Kind Kind
	Err  error // never nil
}

// Error returns the kind and the cause. The kind is not repeated if the cause begins with it, as in crypto/tls.
func (f *Failure) Error() string {
	return f.Kind.String() + ": " + strings.TrimPrefix(f.Err.Error(), f.Kind.String()+": ")
}

// NoTLS reports that the server answered a TLS handshake with something else, as a plain HTTP server does.
func (f *Failure) NoTLS() bool {
	_, plain := errors.AsType[tls.RecordHeaderError](f.Err)
	return plain
}

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Retryable reports whether the same request is likely to succeed later.
func (f *Failure) Retryable() bool {
	switch f.Kind {
	case Refused, BadResponse, HeaderTooLarge:
		return false
	case DNS:
		var d *net.DNSError
		return !(errors.As(f.Err, &d) && d.IsNotFound)
	case TLS:
		var cert *tls.CertificateVerificationError
		var op *net.OpError // from crypto/tls: one side has sent an alert
		alert := errors.As(f.Err, &op) && (op.Op == "remote error" || op.Op == "local error")
		return !errors.As(f.Err, &cert) && !f.NoTLS() && !alert
	}
	return true
}

// NoConnection reports that no connection could be made to the server, TLS included. The server got
// no request.
func (f *Failure) NoConnection() bool {
	switch f.Kind {
	case Connect, ConnectTimeout, TLS, Proxy:
		return !errors.Is(f.Err, ErrProxyDown)
	}
	return false
}

// CrawlLogCode returns the status that Heritrix writes to crawl.log: -1 DNS, -2 no connection, -3
// connection broken, -4 timeout, -5001 blocked by the operator's setting.
func (f *Failure) CrawlLogCode() int {
	switch f.Kind {
	case DNS:
		return -1
	case Connect, TLS, ConnectTimeout, Proxy:
		return -2
	case FirstByteTimeout, IdleTimeout, TotalTimeout, RateTimeout:
		return -4
	case Refused:
		return -5001
	}
	return -3
}
