package record

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/net/idna"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// An origin is a scheme and a port, 0 for the scheme's own. A host has a robots.txt for each.
type origin struct {
	secure bool
	port   uint16
}

// keyOf returns the key of a request target in its host. Spellings that servers treat alike have the same key: needless
// escapes, dot segments, an empty query and a fragment make no difference.
func keyOf(o origin, target string) uint64 {
	var buf [512]byte
	b := append(buf[:0], 'p')
	if o.secure {
		b[0] = 's'
	}
	if o.port != 0 {
		b = strconv.AppendInt(b, int64(o.port), 10)
	}
	return xxhash.Sum64(appendTarget(b, target))
}

// appendTarget appends the plain spelling of a request target.
func appendTarget(b []byte, target string) []byte {
	if i := strings.IndexByte(target, '#'); i >= 0 {
		target = target[:i]
	}
	path, query, _ := strings.Cut(target, "?")
	if path == "" || path[0] != '/' {
		b = append(b, '/')
	}
	start := len(b)
	if strings.IndexByte(path, '\\') >= 0 {
		path = strings.ReplaceAll(path, "\\", "/")
	}
	b = testweb.AppendPlain(b, path, testweb.Delimiters)
	if strings.Contains(string(b[start:]), "/.") {
		b = append(b[:start], dots(string(b[start:]))...)
	}
	if query != "" {
		b = testweb.AppendPlain(append(b, '?'), query, testweb.Delimiters)
	}
	return b
}

// dots resolves dot segments (RFC 3986, 5.2.4).
func dots(path string) string {
	var out []string
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, p := range parts {
		last := i == len(parts)-1
		switch p {
		case ".", "..":
			if p == ".." && len(out) > 0 {
				out = out[:len(out)-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, p)
		}
	}
	return "/" + strings.Join(out, "/")
}

// A location says where a URL is served. If it cannot be served, why is the reason for Summary.Skipped.
type location struct {
	host string
	origin
	target string
	why    string
}

// locate splits a recorded URL.
func locate(u string) location {
	scheme, rest, ok := strings.Cut(u, ":")
	l := location{origin: origin{secure: strings.EqualFold(scheme, "https")}}
	if !ok || !l.secure && !strings.EqualFold(scheme, "http") {
		return location{why: NotHTTP}
	}
	rest = strings.TrimLeft(rest, "/")
	end := strings.IndexAny(rest, "/?#\\")
	if end < 0 {
		end = len(rest)
	}
	authority := rest[:end]
	l.target = rest[end:]
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:]
	}
	name, port, _ := strings.Cut(authority, ":")
	switch {
	case strings.HasPrefix(authority, "["):
		return location{why: IPv6Addr}
	case port != "" && port != "80" && !l.secure, port != "" && port != "443" && l.secure:
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return location{why: BadURL}
		}
		l.port = uint16(n)
	}
	l.host = hostName(name)
	if l.host == "" {
		return location{why: BadURL}
	}
	return l
}

// hostName returns a host name or an IPv4 address as clients spell it; "" if s is neither.
func hostName(s string) string {
	if strings.IndexByte(s, '%') >= 0 {
		if plain, err := url.PathUnescape(s); err == nil {
			s = plain
		}
	}
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	ascii := true
	for i := range len(s) {
		ascii = ascii && s[i] < 0x80
	}
	if !ascii {
		name, err := idna.Lookup.ToASCII(s)
		if err != nil {
			return ""
		}
		s = name
	}
	if s == "" || len(s) > 253 {
		return ""
	}
	digits := true
	for i := range len(s) {
		c := s[i]
		digits = digits && (c >= '0' && c <= '9' || c == '.')
		if c != '-' && c != '.' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return ""
		}
	}
	if _, err := netip.ParseAddr(s); digits && err != nil {
		return ""
	}
	return s
}
