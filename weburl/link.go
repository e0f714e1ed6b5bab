package weburl

import (
	"encoding/binary"
	"errors"
	"strings"
)

// A Link is a URL and how the crawl came to it.
type Link struct {
	URL URL
	// Via is the canonical URL of the page that named it; empty for a seed.
	Via string
	// Hops is the discovery path in Heritrix's letters, one a step: L link,
	// E embed, R redirect, P prerequisite, M manifest (sitemap), X speculative.
	// Empty for a seed.
	Hops string
	// Seed is the source tag: the host of the seed it descends from.
	Seed string
	// Level is the priority, 0 the ordinary one.
	Level uint8
}

// ErrLink is a Link's encoding that cannot be read.
var ErrLink = errors.New("damaged link encoding")

// Depth counts the hops that a depth limit bounds: L, M and X, not redirects, embeds or prerequisites.
func (l Link) Depth() int {
	n := 0
	for i := 0; i < len(l.Hops); i++ {
		switch l.Hops[i] {
		case 'L', 'M', 'X':
			n++
		}
	}
	return n
}

// AppendTo appends l's encoding to dst:
//
//	1 octet     level
//	4 times     uvarint length, then as many octets:
//	            URL, via, hops, seed
//
// None of the four is longer than MaxParse.
func (l Link) AppendTo(dst []byte) []byte {
	dst = append(dst, l.Level)
	for _, s := range [...]string{l.URL.s, l.Via, l.Hops, l.Seed} {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	return dst
}

// DecodeLink reads one Link from the front of src and says how many bytes it
// took. What it returns shares no memory with src; its four strings share one
// allocation. It trusts nothing: the URL must have the shape of a canonical
// one (an empty one is the zero URL), or the error is ErrLink.
func DecodeLink(src []byte) (l Link, n int, err error) {
	if len(src) == 0 {
		return l, 0, ErrLink
	}
	var ends [4]int
	n = 1
	for i := range ends {
		k, w := binary.Uvarint(src[n:])
		if w <= 0 || k > MaxParse || int(k) > len(src)-n-w {
			return l, 0, ErrLink
		}
		n += w + int(k)
		ends[i] = n
	}
	all := string(src[:n])
	part := func(i int) string {
		from := 1
		if i > 0 {
			from = ends[i-1]
		}
		_, w := binary.Uvarint(src[from:])
		return all[from+w : ends[i]]
	}
	l.URL, err = restore(part(0))
	if err != nil {
		return Link{}, 0, err
	}
	l.Level, l.Via, l.Hops, l.Seed = src[0], part(1), part(2), part(3)
	return l, n, nil
}

// restore makes a URL of a canonical string, and refuses any other: s passes
// just when Parse(s) gives s. Ordinary ones are only checked, which takes no
// allocation; those with escapes, an IPv6 address or a name that ends in a
// number are parsed again.
func restore(s string) (u URL, err error) {
	if s == "" {
		return URL{}, nil
	}
	if len(s) > MaxParse {
		return URL{}, ErrLink
	}
	https := strings.HasPrefix(s, "https://")
	if !https && !strings.HasPrefix(s, "http://") {
		return URL{}, ErrLink
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
		return URL{}, ErrLink
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
			return URL{}, ErrLink
		}
	}
	if i == len(s) || s[i] != '/' {
		return URL{}, ErrLink
	}
	u.pathStart = uint16(i)
	for seg := i + 1; ; i++ {
		if i == len(s) || s[i] == '?' || s[i] == '/' {
			if i >= seg && dots(s[seg:i]) > 0 {
				return URL{}, ErrLink
			}
			seg = i + 1
			if i == len(s) || s[i] == '?' {
				break
			}
		} else if is(s[i], encPath) || s[i] == '\\' {
			return URL{}, ErrLink
		}
	}
	u.pathEnd = uint16(i)
	for i++; i < len(s); i++ {
		if is(s[i], encQuery) {
			return URL{}, ErrLink
		}
	}
	return u, nil
}

func reparse(s string) (URL, error) {
	u, err := Parse(s)
	if err != nil || u.s != s {
		return URL{}, ErrLink
	}
	u.s = s // one copy is enough
	return u, nil
}
