package fetch

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

// Causes of a Failure of the kind Refused. Another cause is a *NotPublicError. Test for them with
// errors.Is.
var (
	// ErrNotLoopback is an address that Config.LoopbackOnly forbids.
	ErrNotLoopback = errors.New("not a loopback address")
	// ErrPrivateName is a name that a proxy would look up in its own network.
	ErrPrivateName = errors.New("a name that only private networks resolve")
)

// A NotPublicError is an address that Config.AllowPrivate would permit.
type NotPublicError struct{ Addr netip.Addr }

func (e *NotPublicError) Error() string {
	kind, ip := "reserved", e.Addr.Unmap()
	switch {
	case ip.IsLoopback():
		kind = "loopback"
	case ip.IsPrivate():
		kind = "private"
	case ip.IsLinkLocalUnicast():
		kind = "link-local"
	case ip.IsMulticast():
		kind = "multicast"
	}
	return fmt.Sprintf("%s is a %s address", e.Addr, kind)
}

// check returns an error if ip must not be dialled. named is true if the operator gave the address.
func (d *dialer) check(ip netip.Addr, named bool) error {
	if d.cfg.LoopbackOnly && !ip.Unmap().IsLoopback() {
		return fmt.Errorf("%s is %w", ip, ErrNotLoopback)
	}
	if named || d.guard == nil || d.guard.SafeAddr(ip) == nil {
		return nil
	}
	return &NotPublicError{ip}
}

// checkLast returns check as a net.Dialer.Control, which runs just before the socket connects. It
// returns nil if every address is permitted.
func (d *dialer) checkLast(named bool) func(network, address string, _ syscall.RawConn) error {
	if !d.cfg.LoopbackOnly && (named || d.guard == nil) {
		return nil
	}
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err == nil {
			err = d.check(at.Addr(), named)
		}
		return err
	}
}

// isRefusal reports whether err comes from check.
func isRefusal(err error) bool {
	_, special := errors.AsType[*NotPublicError](err)
	return special || errors.Is(err, ErrNotLoopback)
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
		return fmt.Errorf("%s is %w", host, ErrPrivateName)
	}
	return nil
}
