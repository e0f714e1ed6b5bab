package fetch

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// ErrConnectTo means that a ConnectTo rule cannot be read. Its text begins the error.
var ErrConnectTo = errors.New("connect-to")

// rule is one HOST:PORT:ADDR:PORT. An empty HOST or first PORT matches all; an empty ADDR or second
// PORT changes nothing.
type rule struct {
	host, port     string
	toAddr, toPort string // toAddr without brackets
}

func parseConnectTo(s string) (r rule, err error) {
	bad := func(why string) (rule, error) {
		return rule{}, fmt.Errorf("%w %q: %s; write HOST:PORT:ADDR:PORT", ErrConnectTo, s, why)
	}
	var part [4]string
	rest := s
	for i := range part {
		n := strings.IndexByte(rest, ':')
		if strings.HasPrefix(rest, "[") {
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return bad("missing ] after [")
			}
			if n = end + 1; n < len(rest) && rest[n] != ':' {
				return bad("missing : after ]")
			}
			if _, err := netip.ParseAddr(rest[1:end]); err != nil {
				return bad("the text in brackets is not an IPv6 address")
			}
		}
		last := i == len(part)-1
		switch {
		case n >= 0 && n < len(rest) && last:
			return bad("more than four parts; put an IPv6 address in brackets")
		case (n < 0 || n == len(rest)) && !last:
			return bad("fewer than four parts")
		}
		if last {
			part[i] = rest
			break
		}
		part[i], rest = rest[:n], rest[n+1:]
	}
	for _, i := range [...]int{1, 3} {
		if part[i] == "" {
			continue
		}
		if n, err := strconv.ParseUint(part[i], 10, 16); err != nil || n == 0 {
			return bad("port " + strconv.Quote(part[i]) + " is not a number from 1 to 65535")
		}
	}
	return rule{strings.ToLower(part[0]), part[1], strings.Trim(part[2], "[]"), part[3]}, nil
}

func (r *rule) matches(t *target) bool {
	return (r.host == "" || r.host == t.host) && (r.port == "" || r.port == t.port)
}

// applyConnectTo applies the first ConnectTo rule that matches t. If none does, but a rule leads another port of the
// host elsewhere, t.addr may be the address of that rule, so the name is looked up.
func (d *dialer) applyConnectTo(t *target) {
	for i := range d.rules {
		if d.rules[i].matches(t) {
			t.toAddr, t.toPort = d.rules[i].toAddr, d.rules[i].toPort
			return
		}
	}
	if d.leads(t.host) {
		t.addr = netip.Addr{}
	}
}

// leads reports whether a ConnectTo rule leads requests for some port of host to another address.
func (d *dialer) leads(host string) bool {
	return slices.ContainsFunc(d.rules, func(r rule) bool {
		return r.toAddr != "" && (r.host == "" || r.host == host)
	})
}

// Leads reports whether a ConnectTo rule leads requests for some port of host to another address. Then host need not
// have an address.
func (f *Fetcher) Leads(host string) bool { return f.dialer.leads(host) }

// DialName returns what a request to u has to look up: the host of u, or what a ConnectTo rule names in its place. It
// is a name, or an address without brackets.
func (f *Fetcher) DialName(u weburl.URL) string {
	t := target{host: u.Host(), port: u.Port()}
	f.dialer.applyConnectTo(&t)
	return t.name()
}
