package testweb

import (
	"cmp"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// A DNSFault names a fault in the name server's response for a host.
type DNSFault string

// The faults.
const (
	NoDomain   DNSFault = "nxdomain" // the name does not exist
	ServerFail DNSFault = "servfail"
	NoAnswer   DNSFault = "timeout" // the server never responds
	NoData     DNSFault = "nodata"  // the name exists but has no address
)

// resolve returns the address of a host, or the fault of its name. It is NoDomain if there is no such host.
func (w *Web) resolve(name string) (netip.Addr, DNSFault) {
	lower := strings.ToLower(strings.TrimSuffix(name, "."))
	if st := w.sites[lower]; st != nil {
		return w.ips.reach(st.addr), st.DNS
	}
	if oh, ok := w.origin(lower); ok {
		return w.ips.reach(oh.Addr), oh.DNS
	}
	return netip.Addr{}, NoDomain
}

// answer is the name server. It knows addresses for the hosts of the Web, and responds NXDOMAIN to all other names.
func (w *Web) answer(rw dns.ResponseWriter, q *dns.Msg) {
	w.dnsQueries.Add(1)
	ttl := cmp.Or(w.cfg.TTL, time.Minute)
	if ttl > 0 {
		ttl = max(ttl, time.Second)
	}
	if m := Resolve(q, max(ttl, 0), w.resolve); m != nil {
		rw.WriteMsg(m)
	}
}

// Resolve answers a query to a name server that knows addresses for some names. resolve returns the address of a name,
// or the fault of it. The answer is nil if the server does not respond.
func Resolve(q *dns.Msg, ttl time.Duration, resolve func(name string) (netip.Addr, DNSFault)) *dns.Msg {
	m := new(dns.Msg).SetReply(q)
	m.Authoritative = true
	if len(q.Question) != 1 {
		m.Rcode = dns.RcodeFormatError
		return m
	}
	name, seconds := q.Question[0].Name, uint32(ttl/time.Second)
	addr, fault := resolve(name)
	switch fault {
	case NoAnswer:
		return nil
	case ServerFail:
		m.Rcode = dns.RcodeServerFailure
		return m
	case NoDomain:
		m.Rcode = dns.RcodeNameError
	case "":
		if t := q.Question[0].Qtype; t == dns.TypeA || t == dns.TypeANY {
			m.Answer = append(m.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: seconds},
				A:   net.IP(addr.AsSlice()),
			})
			return m
		}
	}
	m.Ns = append(m.Ns, &dns.SOA{ // for negative caching (RFC 2308)
		Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: seconds},
		Ns:  "ns.testweb.", Mbox: "nobody.testweb.", Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400,
		Minttl: seconds})
	return m
}
