package inbound

import (
	"net"
	"net/netip"
	"strings"
)

// IsLocalHost reports whether the Host of a request is an IP address or localhost, and returns it without its port. A
// browser sends another name if a page of that name is to reach this server by an address that the name has got since
// (DNS rebinding).
func IsLocalHost(host string) (name string, ok bool) {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, err := netip.ParseAddr(host)
	return host, err == nil || strings.EqualFold(host, "localhost")
}
