package fetch

import (
	"crypto/tls"
	"errors"
	"net"
)

// Kind says why there is no HTTP response.
type Kind uint8

const (
	// DNS: the name has no address, or nobody would tell.
	DNS Kind = iota + 1
	// Connect: no TCP connection (refused, unreachable).
	Connect
	// TLS: the handshake failed or the certificate is not trusted.
	TLS
	// Refused: all addresses are ones that Orbweaver does not dial (private, loopback, ...).
	Refused
	// Broken: the connection was closed or reset before a complete header came.
	Broken
	// BadResponse: what came is not HTTP/1.
	BadResponse
	// HeaderTooLarge: the header passed Config.MaxHeader or 5000 fields.
	HeaderTooLarge
	// ConnectTimeout: no connection, or no TLS session, within its time.
	ConnectTimeout
	// FirstByteTimeout: connected, but no byte came.
	FirstByteTimeout
	// IdleTimeout: silence within the header.
	IdleTimeout
	// TotalTimeout: Config.TotalTimeout passed within the header or before.
	TotalTimeout
	// Proxy: the proxy did not connect us.
	Proxy
	// RateTimeout: the header came slower than Config.MinRate, or is slow while
	// there is no memory for it, see Watch.
	RateTimeout
)

var kindNames = [...]string{
	"", "dns", "connect", "tls", "refused-address", "broken", "bad-response", "header-too-large",
	"timeout-connect", "timeout-first-byte", "timeout-idle", "timeout-total", "proxy", "timeout-rate",
}

// String is the kind's name in logs and reports.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// ErrProxyDown, in a Failure, is a proxy that cannot be reached at all: the
// operator's trouble, not that of the URL or its host.
var ErrProxyDown = errors.New("the proxy cannot be reached")

// Failure is why a fetch brought no HTTP response. It is data about the web,
// though it can be read as an error.
type Failure struct {
	Kind Kind
	Err  error // never nil
}

// Error is the kind and its cause.
func (f *Failure) Error() string { return f.Kind.String() + ": " + f.Err.Error() }

// Unwrap is the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Retryable says whether the same request may well succeed later.
func (f *Failure) Retryable() bool {
	switch f.Kind {
	case Refused, BadResponse, HeaderTooLarge:
		return false
	case DNS:
		var d *net.DNSError
		return !(errors.As(f.Err, &d) && d.IsNotFound)
	case TLS:
		var cert *tls.CertificateVerificationError
		var plain tls.RecordHeaderError
		var op *net.OpError // of crypto/tls: one side has sent an alert
		alert := errors.As(f.Err, &op) && (op.Op == "remote error" || op.Op == "local error")
		return !errors.As(f.Err, &cert) && !errors.As(f.Err, &plain) && !alert
	}
	return true
}

// CrawlLogCode is the status that Heritrix writes to crawl.log: -1 DNS, -2 no
// connection, -3 connection broken, -4 timeout, -5001 blocked by the
// operator's setting.
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
