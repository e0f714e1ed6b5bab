// Package weburl answers: what is this URL, and are two of them the same?
package weburl

import (
	"errors"
	"hash/fnv"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Errors of Parse and Resolve; test with errors.Is.
var (
	ErrScheme  = errors.New("not an http or https URL")
	ErrInvalid = errors.New("invalid URL")
	ErrTooLong = errors.New("URL too long")
)

// URL is an absolute http or https URL in canonical form. It is comparable;
// the zero URL stands for none.
type URL struct{ s string }

// Parse reads an absolute URL and returns its canonical form.
func Parse(raw string) (URL, error) { return URL{}.Resolve(raw) }

// Resolve reads ref as a reference found on a page at u (a zero u: ref must be absolute).
func (u URL) Resolve(ref string) (URL, error) {
	var p *url.URL
	var err error
	ref = strings.TrimSpace(ref)
	if u.s == "" {
		p, err = url.Parse(ref)
	} else {
		b, _ := url.Parse(u.s)
		p, err = b.Parse(ref)
	}
	if err != nil {
		return URL{}, ErrInvalid
	}
	if p.Scheme != "http" && p.Scheme != "https" {
		return URL{}, ErrScheme
	}
	if p.Hostname() == "" {
		return URL{}, ErrInvalid
	}
	p.Fragment, p.RawFragment, p.User = "", "", nil
	p.Host = strings.ToLower(p.Host)
	if p.Scheme == "http" {
		p.Host = strings.TrimSuffix(p.Host, ":80")
	} else {
		p.Host = strings.TrimSuffix(p.Host, ":443")
	}
	if p.Path == "" {
		p.Path = "/"
	}
	return URL{p.String()}, nil
}

func (u URL) std() *url.URL { p, _ := url.Parse(u.s); return p }

// String is the canonical form.
func (u URL) String() string { return u.s }

// IsZero says whether u stands for no URL.
func (u URL) IsZero() bool { return u.s == "" }

// Scheme is "http" or "https".
func (u URL) Scheme() string { return u.std().Scheme }

// Host is the host name in lower-case ASCII without the port; an IPv6 address keeps its brackets.
func (u URL) Host() string {
	h := u.std().Host
	if i := strings.LastIndexByte(h, ':'); i > strings.LastIndexByte(h, ']') {
		h = h[:i]
	}
	return h
}

// Port is the effective port, 80 or 443 where the URL names none.
func (u URL) Port() string {
	if p := u.std().Port(); p != "" {
		return p
	}
	if u.Scheme() == "https" {
		return "443"
	}
	return "80"
}

// Authority is the host, with ":port" where it is not the scheme's default: the Host header.
func (u URL) Authority() string { return u.std().Host }

// Origin is scheme://authority: what a robots.txt speaks for (RFC 9309, 2.3).
func (u URL) Origin() string { return u.Scheme() + "://" + u.Authority() }

// RequestURI is path and query as they stand in a request line.
func (u URL) RequestURI() string { return u.std().RequestURI() }

// Path begins with a slash and has no query.
func (u URL) Path() string { return u.std().EscapedPath() }

// Query is what follows the first question mark; ok is false where there is none.
func (u URL) Query() (q string, ok bool) {
	p := u.std()
	return p.RawQuery, p.RawQuery != "" || p.ForceQuery
}

// Site is the registered domain (public suffix and one label), or the host where there is none.
func (u URL) Site() string { return Site(u.Host()) }

// Site is the registered domain of host, or host itself (an address, a bare suffix).
func Site(host string) string {
	if s, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return s
	}
	return host
}

// SURT is the sort-friendly form, as CDXJ wants it.
func (u URL) SURT() string { return u.s }

// Key is a URL's fingerprint: host part and path part, so that the keys of a host are one range.
type Key struct{ Host, Path uint64 }

// Key returns u's fingerprint.
func (u URL) Key() Key { return Key{HostKey(u.Host()), sum(u.s)} }

// HostKey is the host part of the keys of host's URLs.
func HostKey(host string) uint64 { return sum(host) }

func sum(s string) uint64 { h := fnv.New64a(); h.Write([]byte(s)); return h.Sum64() }
