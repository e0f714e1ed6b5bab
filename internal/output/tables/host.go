package tables

import (
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A place is what a URL says: its parts, as the table has them.
type place struct {
	protocol, host, path string
	port                 int32 // -1: the URL does not say
	query                string
	hasQuery             bool
}

// placeOf splits a URL. It never fails: a URL without "//" has no host, except that of dns:, and the rest is its path.
func placeOf(url string) place {
	p := place{port: -1}
	if u, err := weburl.Parse(url); err == nil {
		url = u.String() // an IP address and an international name have one spelling
	}
	scheme, rest, ok := strings.Cut(url, ":")
	if !ok {
		p.path = url
		return p
	}
	p.protocol = strings.ToLower(scheme)
	rest, _, _ = strings.Cut(rest, "#")
	rest, p.query, p.hasQuery = strings.Cut(rest, "?")
	authority, ok := strings.CutPrefix(rest, "//")
	if !ok {
		if p.path = rest; p.protocol == "dns" {
			p.host, p.path = strings.ToLower(rest), ""
		}
		return p
	}
	if i := strings.IndexByte(authority, '/'); i >= 0 {
		authority, p.path = authority[:i], authority[i:]
	}
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		if n, err := strconv.ParseUint(authority[i+1:], 10, 16); err == nil {
			p.port = int32(n)
		}
		authority = authority[:i]
	}
	p.host = strings.TrimSuffix(strings.ToLower(authority), ".")
	return p
}

// A name is a host name, split as Common Crawl's table has it. A part that there is not is empty.
type name struct {
	parts                            [5]string // from the last one on: com, example, www
	reversed                         string
	registrySuffix, registeredDomain string
	privateSuffix, privateDomain     string
}

// nameOf splits a host name. An IP address has no parts. A name whose last part is in no list of public suffixes has
// no suffix and no domain, and a public suffix has no domain.
func nameOf(host string) (n name) {
	if host == "" || isAddress(host) {
		return n
	}
	labels := strings.Split(host, ".")
	for i := range labels {
		last := labels[len(labels)-1-i]
		if i < len(n.parts) {
			n.parts[i] = last
		}
		if i > 0 {
			n.reversed += "."
		}
		n.reversed += last
	}
	for _, l := range labels {
		if l == "" {
			return n
		}
	}
	suffix, listed := publicsuffix.PublicSuffix(host)
	if !listed && !strings.Contains(suffix, ".") {
		return n
	}
	n.privateSuffix, n.privateDomain = suffix, domainBelow(host, suffix)
	for !listed {
		// The suffix is of the private section of the list. The one of the registry is shorter.
		_, parent, more := strings.Cut(suffix, ".")
		if !more {
			return n
		}
		suffix, listed = publicsuffix.PublicSuffix(parent)
	}
	n.registrySuffix, n.registeredDomain = suffix, domainBelow(host, suffix)
	return n
}

// domainBelow returns the suffix with one more part of the host; empty if the host has no more.
func domainBelow(host, suffix string) string {
	below, ok := strings.CutSuffix(host, "."+suffix)
	if !ok {
		return ""
	}
	return below[strings.LastIndexByte(below, '.')+1:] + "." + suffix
}

func isAddress(host string) bool {
	if strings.HasPrefix(host, "[") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}
