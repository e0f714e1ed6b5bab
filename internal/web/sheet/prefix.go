package sheet

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Prefix is a part of the web: a host or a domain with all hosts below it, and possibly only one scheme, one port,
// or the URLs whose path begins with a text. It is comparable.
type Prefix struct {
	Scheme string // http or https; "" means both
	Host   string // canonical
	Below  bool   // also all hosts below Host
	Port   string // "" means all ports
	Path   string // beginning of path and query; "" means all
}

// prefixHelp ends the error of a prefix that cannot be read.
const prefixHelp = "give a host (www.example.org), a domain with all its hosts (*.example.org), a URL " +
	"(https://example.org/docs/) or a SURT prefix (org,example,)"

// ParsePrefix reads a prefix in one of these forms:
//
//	example.org                     this host, with any scheme and port
//	example.org:8080                this host and port
//	*.example.org                   this host and all hosts below it
//	https://example.org/docs/       URLs that begin so; without a port, only the scheme's own
//	org,example,                    SURT: example.org and all hosts below it
//	(org,example,www,)/docs/        SURT: this host
//	https://(org,example,           SURT; "http://(" means any scheme, as in Heritrix
func ParsePrefix(s string) (Prefix, error) {
	text := strings.TrimSpace(s)
	p, err := parseURLPrefix(text)
	if strings.ContainsAny(before(text, "/"), ",(") || strings.Contains(text, "://(") {
		p, err = parseSURT(text)
	}
	if err != nil {
		return Prefix{}, fmt.Errorf("%q: %w; %s", s, err, prefixHelp)
	}
	return p, nil
}

func before(s, sep string) string {
	s, _, _ = strings.Cut(s, sep)
	return s
}

func parseURLPrefix(s string) (p Prefix, err error) {
	rest := s
	if scheme, after, ok := strings.Cut(s, "://"); ok {
		p.Scheme, rest = strings.ToLower(scheme), after
		if p.Scheme != "http" && p.Scheme != "https" {
			return p, fmt.Errorf("the scheme %q is neither http nor https", scheme)
		}
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, path := rest[:end], rest[end:]
	if strings.Contains(authority, "@") {
		return p, errors.New("a prefix has no user name or password")
	}
	if below, ok := strings.CutPrefix(authority, "*."); ok {
		p.Below, authority = true, below
	}
	return p, p.fill(authority, path)
}

// fill sets host, port and path.
func (p *Prefix) fill(authority, path string) error {
	switch {
	case authority == "":
		return errors.New("there is no host")
	case strings.ContainsAny(authority, "(),"):
		return errors.New("parentheses and commas belong to SURT prefixes alone")
	case strings.Contains(authority, "*"):
		return errors.New("* stands only at the front, before a dot")
	case path != "" && path[0] != '/':
		return errors.New("a path begins with /")
	case strings.Contains(path, "#"):
		return errors.New("a prefix has no fragment")
	}
	scheme := cmp.Or(p.Scheme, "http")
	u, err := weburl.Parse(scheme + "://" + authority + path)
	if err != nil {
		return err
	}
	p.Host = u.Host()
	if p.Below && (isAddr(p.Host)) {
		return errors.New("there are no hosts below an address")
	}
	if p.Scheme != "" {
		p.Port = u.Port()
	} else if i := strings.LastIndexByte(authority, ':'); i >= 0 && authority[len(authority)-1] != ']' {
		if p.Port = u.Port(); i == len(authority)-1 {
			return errors.New("there is no number after the colon")
		}
	}
	if path != "" {
		p.Path = u.RequestURI()
	}
	if p.Path == "/" {
		p.Path = "" // the whole host
	}
	return nil
}

func parseSURT(s string) (p Prefix, err error) {
	rest := s
	if scheme, after, ok := strings.Cut(s, "://"); ok {
		switch rest = after; strings.ToLower(scheme) {
		case "http": // Heritrix writes it for both
		case "https":
			p.Scheme = "https"
		default:
			return p, fmt.Errorf("the scheme %q is neither http nor https", scheme)
		}
	}
	rest = strings.TrimPrefix(rest, "(")
	labels, path, closed := strings.Cut(rest, ")")
	if !closed && strings.ContainsAny(labels, "/?") {
		return p, errors.New("a path follows after a closing parenthesis")
	}
	labels, port, hasPort := strings.Cut(labels, ":")
	if hasPort && (!closed || port == "") {
		return p, errors.New("a port stands before a closing parenthesis")
	}
	list := strings.Split(labels, ",")
	if last := len(list) - 1; list[last] == "" {
		list = list[:last]
	} else if !closed {
		return p, errors.New("end it with a comma for the host and all hosts below it, or with ,) for the host alone")
	}
	p.Below = !closed
	var host strings.Builder
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == "" {
			return p, errors.New("there is an empty label between two commas")
		}
		host.WriteString(list[i])
		if i > 0 {
			host.WriteByte('.')
		}
	}
	authority := host.String()
	if hasPort {
		authority += ":" + port
	} else if p.Scheme != "" {
		defer func() { p.Port = "" }() // a SURT without a port names all
	}
	return p, p.fill(authority, path)
}

// isAddr reports whether a host is an IP address.
func isAddr(host string) bool {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

// String returns p as a SURT prefix. If p is no SURT prefix, it returns another form that ParsePrefix reads.
func (p Prefix) String() string {
	var b strings.Builder
	if p.Scheme != "" {
		b.WriteString(p.Scheme + "://")
	}
	if isAddr(p.Host) || p.Scheme == "http" || p.Below && (p.Port != "" || p.Path != "") {
		if p.Below {
			b.WriteString("*.")
		}
		b.WriteString(p.Host)
		if p.Port != "" {
			b.WriteString(":" + p.Port)
		}
		return b.String() + p.Path
	}
	b.WriteByte('(')
	for rest := p.Host; rest != ""; {
		dot := strings.LastIndexByte(rest, '.')
		b.WriteString(rest[dot+1:] + ",")
		rest = rest[:max(dot, 0)]
	}
	if p.Port != "" {
		b.WriteString(":" + p.Port)
	}
	if !p.Below {
		b.WriteByte(')')
	}
	return b.String() + p.Path
}

// WholeHost reports that p holds for all URLs of a host.
func (p *Prefix) WholeHost() bool { return p.Scheme == "" && p.Port == "" && p.Path == "" }

// hasHost reports whether p holds for URLs of a host.
func (p *Prefix) hasHost(host string) bool {
	if !p.Below {
		return host == p.Host
	}
	rest, ok := strings.CutSuffix(host, p.Host)
	return ok && (rest == "" || rest[len(rest)-1] == '.')
}

// has reports whether p holds for u, whose host it has.
func (p *Prefix) has(u weburl.URL) bool {
	return (p.Scheme == "" || p.Scheme == u.Scheme()) && (p.Port == "" || p.Port == u.Port()) &&
		strings.HasPrefix(u.RequestURI(), p.Path)
}

// Has reports whether p holds for u.
func (p *Prefix) Has(u weburl.URL) bool { return p.hasHost(u.Host()) && p.has(u) }

// compare orders prefixes that hold for the same URL: the less specific one comes first. A longer host is more
// specific than a shorter one, then a host alone than one with all below it, a longer path, a port, and a scheme.
func (p *Prefix) compare(q *Prefix) int {
	rank := func(p *Prefix) [5]int {
		r := [5]int{len(p.Host), 1, len(p.Path), 0, 0}
		if p.Below {
			r[1] = 0
		}
		if p.Port != "" {
			r[3] = 1
		}
		if p.Scheme != "" {
			r[4] = 1
		}
		return r
	}
	a, b := rank(p), rank(q)
	for i := range a {
		if a[i] != b[i] {
			return a[i] - b[i]
		}
	}
	return 0
}
