package testweb

import (
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
	m := new(dns.Msg)
	m.SetReply(q)
	m.Authoritative = true
	defer func() {
		if m != nil {
			rw.WriteMsg(m)
		}
	}()
	if len(q.Question) != 1 {
		m.Rcode = dns.RcodeFormatError
		return
	}
	name := q.Question[0].Name
	ttl := uint32(60)
	if d := w.cfg.TTL; d < 0 {
		ttl = 0
	} else if d > 0 {
		ttl = uint32(max(1, d/time.Second))
	}
	addr, fault := w.resolve(name)
	switch fault {
	case NoAnswer:
		m = nil
		return
	case ServerFail:
		m.Rcode = dns.RcodeServerFailure
		return
	case NoDomain:
		m.Rcode = dns.RcodeNameError
	case "":
		if t := q.Question[0].Qtype; t == dns.TypeA || t == dns.TypeANY {
			m.Answer = append(m.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: ttl},
				A:   net.IP(addr.AsSlice()),
			})
			return
		}
	}
	m.Ns = append(m.Ns, &dns.SOA{ // for negative caching (RFC 2308)
		Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: ttl},
		Ns:  "ns.testweb.", Mbox: "nobody.testweb.", Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, Minttl: ttl})
}
