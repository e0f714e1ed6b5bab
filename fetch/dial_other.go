//go:build !linux

package fetch

import (
	"context"
	"net"
	"net/netip"
	"time"
)

func dialTCP(ctx context.Context, _ *leash, to netip.AddrPort, until time.Time) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1, Deadline: until}
	return d.DialContext(ctx, tcpFor(to), to.String())
}
