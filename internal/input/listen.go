package input

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// lookupPatience bounds the look-up of a name in --listen.
const lookupPatience = 5 * time.Second

// ListenAddr returns the IP address and port of --listen. In place of the IP address there may be an
// interface of this machine or a name of this machine. An IPv4 address is preferred, and one that
// other machines can reach.
func ListenAddr(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil || host == "" {
		return listen, nil // the agent says what is wrong
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return listen, nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return "", Errorf("{listen} %s: the addresses of this machine are unknown: %v", listen, err)
	}
	if iface, err := net.InterfaceByName(host); err == nil {
		addrs, err := iface.Addrs()
		if ip, ok := reachable(ipsOf(addrs)); err == nil && ok {
			return net.JoinHostPort(ip.String(), port), nil
		}
		return "", Errorf("{listen} %s: the interface %s has no address; give another one, or an IP address", listen,
			host)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupPatience)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", Errorf("{listen} %s: %s is no interface of this machine, and no name with an address (%v); "+
			"give an IP address of this machine, such as 192.0.2.1:7470", listen, host, lookupCause(err))
	}
	var ours []netip.Addr
	for i, ip := range ips {
		ips[i] = ip.Unmap()
		if ips[i].IsLoopback() || slices.Contains(ipsOf(own), ips[i]) {
			ours = append(ours, ips[i])
		}
	}
	ip, ok := reachable(ours)
	if !ok {
		return "", Errorf("{listen} %s: %s is %s, which is no address of this machine; give one of %s", listen,
			host, joined(ips), joined(ipsOf(own)))
	}
	return net.JoinHostPort(ip.String(), port), nil
}

// lookupCause returns what the resolver says of a name, without the name and the server.
func lookupCause(err error) string {
	if cause, ok := err.(*net.DNSError); ok {
		return cause.Err
	}
	return err.Error()
}

// ipsOf returns the IP addresses of an interface.
func ipsOf(addrs []net.Addr) (ips []netip.Addr) {
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			ips = append(ips, prefix.Addr().Unmap())
		}
	}
	return ips
}

// reachable returns the address that most others can reach. ok is false if there is none but
// link-local ones, which need a zone.
func reachable(ips []netip.Addr) (best netip.Addr, ok bool) {
	rank := func(ip netip.Addr) int {
		switch {
		case ip.IsLinkLocalUnicast() || !ip.IsValid():
			return 0
		case ip.IsLoopback():
			return 1
		case ip.Is6():
			return 2
		}
		return 3
	}
	for _, ip := range ips {
		if rank(ip) > rank(best) {
			best = ip
		}
	}
	return best, rank(best) > 0
}

func joined(ips []netip.Addr) string {
	var s []string
	for _, ip := range ips {
		s = append(s, fmt.Sprint(ip))
	}
	return strings.Join(s, ", ")
}
