package weburl

import (
	"errors"
	"strings"
)

// ErrCanonical means that a text is not a URL in canonical form.
var ErrCanonical = errors.New("not a canonical URL")

// Restore makes a URL of a canonical string and refuses any other string with ErrCanonical: s is accepted only if
// Parse(s) gives s. The URL keeps s. An empty string is the zero URL. Ordinary URLs are only checked, without an
// allocation. URLs with escapes, an IPv6 address or a name that ends in a number are parsed again.
func Restore(s string) (u URL, err error) {
	if s == "" {
		return URL{}, nil
	}
	if p, ok := plainParts(s); ok {
		return URL{s, p.hostEnd, p.pathStart, p.pathEnd}, nil
	}
	if len(s) > MaxParse {
		return URL{}, ErrCanonical
	}
	https := strings.HasPrefix(s, "https://")
	if !https && !strings.HasPrefix(s, "http://") {
		return URL{}, ErrCanonical
	}
	if strings.IndexByte(s, '%') >= 0 {
		return reparse(s)
	}
	u.s = s
	host := u.hostStart()
	i := host
	for i < len(s) && !is(s[i], badDomain) && (s[i] < 'A' || s[i] > 'Z') {
		i++
	}
	if i < len(s) && s[i] == '[' || i > host && endsInNumber(s[host:i]) {
		return reparse(s)
	}
	if checkName(s[host:i]) != nil {
		return URL{}, ErrCanonical
	}
	u.hostEnd = uint16(i)
	if i < len(s) && s[i] == ':' {
		port := 0
		for i++; i < len(s) && '0' <= s[i] && s[i] <= '9' && port <= 65535; i++ {
			port = port*10 + int(s[i]-'0')
		}
		digits := i - int(u.hostEnd) - 1
		leading := digits > 1 && s[u.hostEnd+1] == '0'
		if digits == 0 || leading || port > 65535 || https && port == 443 || !https && port == 80 {
			return URL{}, ErrCanonical
		}
	}
	if i == len(s) || s[i] != '/' {
		return URL{}, ErrCanonical
	}
	u.pathStart = uint16(i)
	for seg := i + 1; ; i++ {
		if i == len(s) || s[i] == '?' || s[i] == '/' {
			if i >= seg && dots(s[seg:i]) > 0 {
				return URL{}, ErrCanonical
			}
			seg = i + 1
			if i == len(s) || s[i] == '?' {
				break
			}
		} else if is(s[i], encPath) || s[i] == '\\' {
			return URL{}, ErrCanonical
		}
	}
	u.pathEnd = uint16(i)
	for i++; i < len(s); i++ {
		if is(s[i], encQuery) {
			return URL{}, ErrCanonical
		}
	}
	return u, nil
}

func reparse(s string) (URL, error) {
	u, err := Parse(s)
	if err != nil || u.s != s {
		return URL{}, ErrCanonical
	}
	u.s = s // drop Parse's copy
	return u, nil
}
