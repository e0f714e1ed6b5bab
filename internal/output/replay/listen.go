package replay

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/orbweaver/orbweaver/internal/inbound"
	"github.com/orbweaver/orbweaver/internal/input"
)

// Listen listens on addr, which must be the loopback address of IPv4 or IPv6, and on the same
// port of the other one: a browser that looks up a name below localhost may try either first.
func Listen(addr string) ([]net.Listener, error) {
	refuse := func(text string) ([]net.Listener, error) { return nil, input.Errorf("{listen} %s: %s", addr, text) }
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		return refuse("not an IP address with a port, such as 127.0.0.1:8080")
	}
	four, six := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	other := six
	switch a.Addr() {
	case four:
	case six:
		other = four
	default:
		return refuse("the replay is for this machine alone; give 127.0.0.1 or [::1] and a port")
	}
	for try := 0; ; try++ {
		first, err := net.Listen("tcp", addr)
		if err != nil {
			return refuse(inbound.NotOpened(err) + ", or port 0 for any that is free")
		}
		port := first.Addr().(*net.TCPAddr).Port
		second, err := net.Listen("tcp", netip.AddrPortFrom(other, uint16(port)).String())
		switch {
		case err == nil:
			return []net.Listener{first, second}, nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return []net.Listener{first}, nil // the machine has one of the two only
		}
		if err := first.Close(); err != nil {
			return nil, err
		}
		if a.Port() != 0 || try == 10 {
			return refuse("another program listens on " + net.JoinHostPort(other.String(), strconv.Itoa(port)) +
				", and browsers might ask it for the pages; choose another port, or 0 for a free one")
		}
	}
}
