package weburl

import (
	"encoding/binary"
	"errors"
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

// AppendTo appends l's encoding to dst.
func (l Link) AppendTo(dst []byte) []byte {
	dst = append(dst, l.Level)
	for _, s := range [...]string{l.URL.s, l.Via, l.Hops, l.Seed} {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
		dst = append(dst, s...)
	}
	return dst
}

// DecodeLink reads one Link from the front of src and says how many bytes it took.
func DecodeLink(src []byte) (l Link, n int, err error) {
	if len(src) == 0 {
		return l, 0, ErrLink
	}
	l.Level, n = src[0], 1
	for _, p := range [...]*string{&l.URL.s, &l.Via, &l.Hops, &l.Seed} {
		k, w := binary.Uvarint(src[n:])
		if w <= 0 || k > uint64(len(src)-n-w) {
			return l, 0, ErrLink
		}
		*p = string(src[n+w : n+w+int(k)])
		n += w + int(k)
	}
	return l, n, nil
}
