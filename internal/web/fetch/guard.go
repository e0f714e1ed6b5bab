package fetch

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// Causes of a Failure of the kind Refused. Another cause is an address that Config.AllowPrivate
// would permit. Test for them with errors.Is.
var (
	// ErrNotLoopback is an address that Config.LoopbackOnly forbids.
	ErrNotLoopback = errors.New("not a loopback address")
	// ErrPrivateName is a name that a proxy would look up in its own network.
	ErrPrivateName = errors.New("a name that only private networks resolve")
)

// check returns an error if ip must not be dialled. named is true if the operator gave the address.
func (d *dialer) check(ip netip.Addr, named bool) error {
	if d.cfg.LoopbackOnly && !ip.Unmap().IsLoopback() {
		return fmt.Errorf("%w: %s", ErrNotLoopback, ip)
	}
	if named || d.guard == nil {
		return nil
	}
	return d.guard.SafeAddr(ip)
}

// checkLast returns check as a net.Dialer.Control, which runs just before the socket connects. It
// returns nil if every address is permitted.
func (d *dialer) checkLast(named bool) func(network, address string, _ syscall.RawConn) error {
	switch {
	case d.cfg.LoopbackOnly:
		return func(network, address string, rc syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err == nil {
				err = d.check(at.Addr(), named)
			}
			return err
		}
	case !named && d.guard != nil:
		return d.guard.Safe
	}
	return nil
}

// isRefusal reports whether err comes from check.
func isRefusal(err error) bool {
	return errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ErrNotLoopback)
}

// privateSuffixes are the suffixes of names that only private networks resolve: RFC 6761, RFC 6762,
// RFC 8375, and ICANN's resolution 2024.07.29.06.
var privateSuffixes = []string{".localhost", ".local", ".internal", ".home.arpa"}

// checkName returns an error if a proxy that looks up names must not be asked for host: host is an
// address that must not be dialled, or a name in the proxy's own network. It cannot detect a public
// name with a private address.
func (d *dialer) checkName(host string) error {
	if d.guard == nil {
		return nil
	}
	name := strings.ToLower(strings.TrimRight(host, "."))
	if ip, err := netip.ParseAddr(name); err == nil {
		return d.check(ip, false)
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	private := last == name // a single label
	for _, suffix := range privateSuffixes {
		private = private || strings.HasSuffix(name, suffix)
	}
	// No public name ends in a number, but some resolvers read such a name as an address.
	if private || last[0] >= '0' && last[0] <= '9' {
		return fmt.Errorf("%w: %s", ErrPrivateName, host)
	}
	return nil
}

// refused returns the error for an address that check has refused.
func refused(to netip.AddrPort, err error) error {
	return &net.OpError{Op: "dial", Net: tcpFor(to), Addr: net.TCPAddrFromAddrPort(to), Err: err}
}
