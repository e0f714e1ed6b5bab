package dns

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxChain is the maximum number of CNAMEs between a name and its addresses.
	maxChain = 16
	// maxRounds is the maximum number of questions for one chain of CNAMEs. Servers send the whole
	// chain with the answer, or at least its next part.
	maxRounds = 5
	// maxRecords is the maximum number of records that are read of a section.
	maxRecords = 256
)

// A finding is the servers' answer for a name and a type.
type finding struct {
	addrs []netip.Addr
	ttl   time.Duration
	none  bool // set with err: the name does not exist for any type
	err   error
}

// resolve asks the servers for name's addresses. For the answer of a server, ttl is within the
// configured limits; for a failure of the servers it is failureTTL.
func (r *Resolver) resolve(ctx context.Context, name string) (addrs []netip.Addr, ttl time.Duration, err error) {
	if name == "localhost" { // RFC 6761, 6.3
		addrs = append(addrs, netip.AddrFrom4([4]byte{127, 0, 0, 1}))
		if r.cfg.IPv6 {
			addrs = append(addrs, netip.IPv6Loopback())
		}
		return addrs, r.cfg.MaxTTL, nil
	}
	if !r.cfg.IPv6 {
		f := r.find(ctx, name, dns.TypeA)
		return f.addrs, f.ttl, f.err
	}
	var four, six finding
	var wg sync.WaitGroup
	wg.Go(func() { six = r.find(ctx, name, dns.TypeAAAA) })
	four = r.find(ctx, name, dns.TypeA)
	wg.Wait()
	f := r.merge(four, six)
	return f.addrs, f.ttl, f.err
}

// merge combines the findings of the two address families.
func (r *Resolver) merge(a, b finding) finding {
	switch {
	case a.err == nil && b.err == nil:
		list := append(append([]netip.Addr(nil), a.addrs...), b.addrs...)
		return finding{addrs: list[:min(len(list), maxAddrs)], ttl: min(a.ttl, b.ttl)}
	case a.err == nil || b.err == nil:
		if a.err != nil {
			a, b = b, a
		}
		if !errors.Is(b.err, ErrNotFound) {
			a.ttl = r.cfg.MinTTL // one family is unknown: ask again soon
		}
		return a
	case a.none:
		return a
	case b.none:
		return b
	case !errors.Is(a.err, ErrNotFound):
		return a
	case !errors.Is(b.err, ErrNotFound):
		return b
	}
	a.ttl = min(a.ttl, b.ttl)
	return a
}

// find asks for one type. It follows CNAMEs within the answer, and with further questions if the
// chain continues beyond it.
func (r *Resolver) find(ctx context.Context, name string, qtype uint16) finding {
	ttl := r.cfg.MaxTTL
	links := 0
	for range maxRounds {
		m, err := r.exchange(ctx, name, qtype)
		if err != nil {
			return finding{ttl: failureTTL, err: err}
		}
		c := follow(m, name, qtype, maxChain-links)
		links += c.links
		ttl = min(ttl, c.ttl)
		if links > maxChain {
			break
		}
		if m.Rcode == dns.RcodeNameError {
			return finding{ttl: r.negative(m, ttl), none: true, err: ErrNotFound}
		}
		if len(c.addrs) > 0 {
			return finding{addrs: c.addrs, ttl: max(ttl, r.cfg.MinTTL)}
		}
		if c.links == 0 || soa(m) != nil {
			return finding{ttl: r.negative(m, ttl), err: ErrNotFound}
		}
		name = c.owner
	}
	return finding{ttl: failureTTL, err: fmt.Errorf("%w: the chain of CNAMEs is too long", ErrServer)}
}

// negative returns how long a missing name or address is cached (RFC 2308, 5): as long as the SOA
// record says, but at least MinTTL and at most NegativeTTL. Without an SOA record it returns
// MinTTL, or NegativeTTL if that is shorter.
func (r *Resolver) negative(m *dns.Msg, ttl time.Duration) time.Duration {
	low := min(r.cfg.MinTTL, r.cfg.NegativeTTL)
	s := soa(m)
	if s == nil {
		return low
	}
	ttl = min(ttl, seconds(s.Hdr.Ttl), seconds(s.Minttl))
	return min(max(ttl, low), r.cfg.NegativeTTL)
}

func soa(m *dns.Msg) *dns.SOA {
	for _, rr := range m.Ns[:min(len(m.Ns), maxRecords)] {
		if s, ok := rr.(*dns.SOA); ok {
			return s
		}
	}
	return nil
}

// seconds reads a TTL. A TTL with the highest bit set counts as zero (RFC 2181, 8).
func seconds(ttl uint32) time.Duration {
	if ttl >= 1<<31 {
		return 0
	}
	return time.Duration(ttl) * time.Second
}

// A chain is the part of an answer section that starts at one name.
type chain struct {
	owner string // the last name; it owns the addresses, if there are any
	links int    // number of CNAMEs; limit+1 if there are too many
	addrs []netip.Addr
	ttl   time.Duration // the shortest TTL of the chain
}

// follow walks m's answer from name over at most limit CNAMEs. It ignores records of names outside
// of the chain.
func follow(m *dns.Msg, name string, qtype uint16, limit int) chain {
	c := chain{owner: name, ttl: math.MaxInt64}
	records := m.Answer[:min(len(m.Answer), maxRecords)]
	for {
		next := ""
		for _, rr := range records {
			h := rr.Header()
			if h.Class != dns.ClassINET || !sameName(h.Name, c.owner) {
				continue
			}
			var addr netip.Addr
			ok := false
			switch rr := rr.(type) {
			case *dns.A:
				addr, ok = netip.AddrFromSlice(rr.A)
				ok = ok && qtype == dns.TypeA
			case *dns.AAAA:
				addr, ok = netip.AddrFromSlice(rr.AAAA)
				ok = ok && qtype == dns.TypeAAAA
			case *dns.CNAME:
				if next == "" {
					next = rr.Target
					c.ttl = min(c.ttl, seconds(h.Ttl))
				}
			}
			if ok {
				c.addrs = insert(c.addrs, addr.Unmap())
				c.ttl = min(c.ttl, seconds(h.Ttl))
			}
		}
		if len(c.addrs) > 0 || next == "" {
			return c
		}
		c.links++
		if c.links > limit {
			return c
		}
		c.owner = next
	}
}

func sameName(a, b string) bool {
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, "."))
}
