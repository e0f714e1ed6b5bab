package testweb

import "net/netip"

// ipHosts knows the hosts whose names are IPv4 addresses outside loopback. The name of such a host tells its clients
// where to connect, so the name server cannot lead them:
//
//	sockets of the Web's own    a loopback address stands for the host; ConnectTo and the proxy lead to it
//	Config.Sockets              the host has its own address there
type ipHosts struct {
	of  map[netip.Addr]netip.Addr // from the loopback address that stands for a host to its own
	own map[netip.Addr]bool       // the addresses of the hosts; nil if clients reach them at loopback addresses
}

// AddressHosts returns the hosts whose names are IPv4 addresses outside loopback.
func (c *Config) AddressHosts() []netip.Addr {
	var ips []netip.Addr
	known := map[netip.Addr]bool{}
	add := func(a netip.Addr) {
		if a.Is4() && !a.IsLoopback() && !known[a] {
			known[a] = true
			ips = append(ips, a)
		}
	}
	for _, s := range c.Sites {
		if a, err := netip.ParseAddr(s.Host); err == nil {
			add(a)
		}
	}
	for _, f := range c.Folders {
		if a, err := netip.ParseAddr(f.Host); err == nil {
			add(a)
		}
	}
	for _, a := range c.IPs {
		add(a)
	}
	return ips
}

// ipHosts finds the hosts. The table of sites is filled.
func (w *Web) ipHosts() ipHosts {
	h := ipHosts{of: map[netip.Addr]netip.Addr{}}
	if w.cfg.Sockets != nil {
		h.own = map[netip.Addr]bool{}
	}
	for _, ip := range w.cfg.AddressHosts() {
		if at, _ := w.resolve(ip.String()); at.IsLoopback() {
			h.of[at] = ip
			if h.own != nil {
				h.own[ip] = true
			}
		}
	}
	return h
}

// reach returns the address at which clients reach a host with the loopback address a.
func (h *ipHosts) reach(a netip.Addr) netip.Addr {
	if ip, ok := h.of[a]; ok && h.own != nil {
		return ip
	}
	return a
}

// name returns the address that the client of a connection to local asked for.
func (h *ipHosts) name(local netip.Addr) string {
	if ip, ok := h.of[local]; ok {
		return ip.String()
	}
	return local.String()
}

// isLoopback reports whether a host name is a loopback address.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}
