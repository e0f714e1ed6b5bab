package link

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unsafe"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A Link is a URL and how the crawl discovered it.
type Link struct {
	URL weburl.URL
	// Via is the canonical URL of the page that named this URL; empty for a seed.
	Via string
	// Hops is the discovery path in Heritrix's letters, one letter a step: L link, E embed, R
	// redirect, P prerequisite, M manifest (sitemap), X speculative, I inferred. Empty for a seed.
	Hops string
	// Seed is the source tag: the host of the seed that this link descends from.
	Seed string
	// Ext has the rarer properties of the link, see AppendTo: Bare, HostDepth, Destination, Stored, Version, Refetches,
	// App, Steps, Sitemap, and those of versions of this program to come, which this version keeps. It has at most
	// MaxExt octets.
	Ext string
	// Level is the priority. Zero is the ordinary priority.
	Level uint8
}

// MaxExt is the limit of Link.Ext in octets.
const MaxExt = 1 << 10

// ErrDamaged means that the encoding of a Link cannot be read.
var ErrDamaged = errors.New("damaged link encoding")

// The tags of the fields of an Ext.
const (
	tagBare        = 1 // empty
	tagHostDepth   = 2 // uvarint
	tagDestination = 3 // uvarint category, 8 octets hash
	tagStored      = 4 // uvarint from, uvarint length, name of the file
	tagImported    = 5 // empty
	tagVersion     = 6 // 8 octets
	tagRefetches   = 7 // 1 octet
	tagApp         = 8 // name, and perhaps a zero octet and the root
	// tagSteps    = 9, see steps.go
	tagSitemap = 10 // 1 octet: 1 if it is a guess, else 0
)

// maxHostDepth bounds HostDepth. A larger number can only come from elsewhere.
const maxHostDepth = 1 << 30

// field returns the value of the field of l.Ext with a tag.
func (l Link) field(tag byte) (value string, ok bool) {
	for s := l.Ext; s != ""; {
		size, n := binary.Uvarint([]byte(s[1:min(len(s), 1+binary.MaxVarintLen16)]))
		if n <= 0 || size > uint64(len(s)-1-n) {
			return "", false
		}
		if s[0] == tag {
			return s[1+n : 1+n+int(size)], true
		}
		s = s[1+n+int(size):]
	}
	return "", false
}

// Bare reports that the URL was given without a scheme, and that https is only assumed.
func (l Link) Bare() bool {
	_, is := l.field(tagBare)
	return is
}

// SetBare makes a link without an Ext Bare.
func (l *Link) SetBare() { l.Ext = string([]byte{tagBare, 0}) }

// HostDepth returns the number of hops that Depth counts since the crawl entered the host: 0 for a seed, and for
// the first URL of a host on the way to this one. It is known only if the finder has set it; otherwise it is 0.
func (l Link) HostDepth() int {
	if l.Ext == "" {
		return 0
	}
	value, _ := l.field(tagHostDepth)
	n, w := binary.Uvarint([]byte(value[:min(len(value), binary.MaxVarintLen64)]))
	if w <= 0 {
		return 0
	}
	return int(min(n, maxHostDepth))
}

// SetHostDepth sets the HostDepth, at least 0, of a link without an Ext.
func (l *Link) SetHostDepth(n int) {
	if n <= 0 {
		return
	}
	value := binary.AppendUvarint(make([]byte, 2, 4), uint64(min(n, maxHostDepth)))
	value[0], value[1] = tagHostDepth, byte(len(value)-2)
	l.Ext = string(value)
}

// Depth counts the hops that a depth limit counts: L, M and X. Redirects, embeds, prerequisites and
// inferred URLs do not count.
func (l Link) Depth() int {
	n := 0
	for i := 0; i < len(l.Hops); i++ {
		if Deeper(l.Hops[i]) {
			n++
		}
	}
	return n
}

// maxEmbeds bounds the steps from a page to what it embeds: a frame, its style, the style's import, its font.
const maxEmbeds = 4

// IsFile reports that a URL with these Hops is a part of a page, and no page itself: the page embeds it, directly or
// by at most three other embeds, with redirects between them. So no server can hide endless pages from the limits.
func IsFile(hops string) bool {
	way := hops[len(strings.TrimRight(hops, "ER")):]
	embeds := strings.Count(way, "E")
	return 0 < embeds && embeds <= maxEmbeds
}

// IsFile reports that the URL is a part of a page, or a sitemap, and no page itself.
func (l Link) IsFile() bool { return IsFile(l.Hops) || l.IsSitemap() }

// Deeper reports whether a depth limit counts this hop.
func Deeper(hop byte) bool { return hop == 'L' || hop == 'M' || hop == 'X' }

// AppendTo appends l's encoding to dst:
//
//	1 octet     level
//	4 times     uvarint length, then as many octets:
//	            URL, via, hops, seed
//
// Each of the four has at most weburl.MaxParse octets. If the link has an Ext, the hops are followed by a zero
// octet and the Ext, within their length. An Ext consists of fields: 1 octet tag, uvarint length, as many
// octets. The tags ascend. Tag 1, without octets, is Bare. Tag 2 is HostDepth, a uvarint; 0 has no field. Tag 3 is
// Destination: uvarint category, 8 octets hash, big-endian. Tag 4 is Stored: uvarint From, uvarint To-From, and the
// name of the file. Tag 5, without octets, is Imported. Tag 6 is Version: 8 octets,
// big-endian. Tag 7 is Refetches: 1 octet, not 0. Tag 8 is App: a name, and if there is a Root, a zero octet and the
// Root. Tag 9 is Steps, see AddStep. Tag 10 is Sitemap: 1 octet, 1 for a guess. A reader keeps the fields whose tags it
// does not know.
func (l Link) AppendTo(dst []byte) []byte {
	dst = append(slices.Grow(dst, l.encodedLen()), l.Level)
	dst = appendString(dst, l.URL.String())
	return l.AppendTail(dst)
}

// AppendTail appends the part of l's encoding that follows the URL. This part is the same for all
// links of a page that were found by the same kind of step.
func (l Link) AppendTail(dst []byte) []byte {
	dst = appendString(dst, l.Via)
	if l.Ext == "" {
		dst = appendString(dst, l.Hops)
	} else {
		dst = binary.AppendUvarint(dst, uint64(len(l.Hops)+1+len(l.Ext)))
		dst = append(append(append(dst, l.Hops...), 0), l.Ext...)
	}
	return appendString(dst, l.Seed)
}

// encodedLen returns an upper bound for the length of l's encoding.
func (l *Link) encodedLen() int {
	return 1 + 4*3 + len(l.URL.String()) + len(l.Via) + len(l.Hops) + 1 + len(l.Ext) + len(l.Seed)
}

func appendString(dst []byte, s string) []byte {
	if len(s) < 0x80 {
		dst = append(dst, byte(len(s)))
	} else {
		dst = binary.AppendUvarint(dst, uint64(len(s)))
	}
	return append(dst, s...)
}

// Decode reads one Link from the front of src and returns the number of bytes that it read. The
// Link shares no memory with src; its strings share one allocation. Decode accepts
// untrusted input: the URL must be canonical (an empty one is the zero URL), or the error is
// ErrDamaged.
func Decode(src []byte) (l Link, n int, err error) { return decode(src, false) }

// Peek is Decode without the copy: the strings of the Link lie in src and are valid only
// until src changes. A caller that keeps one of them must clone it. Use it to look at a link and
// pass on its encoding.
func Peek(src []byte) (l Link, n int, err error) { return decode(src, true) }

// PeekHost returns the host of the link whose encoding is at the front of src. The host lies in
// src. PeekHost checks nothing else, so use it only on output of AppendTo that a checksum protects.
// ok is false if src cannot hold a link.
func PeekHost(src []byte) (host string, ok bool) {
	if len(src) == 0 {
		return "", false
	}
	k, w := binary.Uvarint(src[1:])
	if w <= 0 || k > uint64(len(src)-1-w) {
		return "", false
	}
	text := src[1+w : 1+w+int(k)]
	s := unsafe.String(unsafe.SliceData(text), len(text))
	if s == "" {
		return "", true // the zero URL
	}
	if len(s) <= len("https://") {
		return "", false
	}
	from := len("http://")
	if s[4] == 's' {
		from++
	}
	end := from
	if s[from] == '[' {
		end += strings.IndexByte(s[from:], ']') + 1
	}
	for end < len(s) && s[end] != '/' && s[end] != ':' {
		end++
	}
	return s[from:end], end < len(s)
}

func decode(src []byte, share bool) (l Link, n int, err error) {
	if len(src) == 0 {
		return l, 0, ErrDamaged
	}
	var at [4]struct{ from, to int }
	n = 1
	for i := range at {
		k, w := uint64(0), 0
		if n < len(src) && src[n] < 0x80 { // nearly all lengths fit one octet
			k, w = uint64(src[n]), 1
		} else {
			k, w = binary.Uvarint(src[n:])
		}
		if w <= 0 || k > weburl.MaxParse || int(k) > len(src)-n-w {
			return l, 0, ErrDamaged
		}
		at[i].from = n + w
		n += w + int(k)
		at[i].to = n
	}
	first := at[0].from
	var all string
	if share {
		all = unsafe.String(unsafe.SliceData(src[first:n]), n-first)
	} else {
		all = string(src[first:n])
	}
	if l.URL, err = weburl.Restore(all[:at[0].to-first]); err != nil {
		return Link{}, 0, ErrDamaged
	}
	l.Level = src[0]
	l.Via = all[at[1].from-first : at[1].to-first]
	l.Hops = all[at[2].from-first : at[2].to-first]
	if i := strings.IndexByte(l.Hops, 0); i >= 0 {
		l.Hops, l.Ext = l.Hops[:i], l.Hops[i+1:]
		if !validExt(l.Ext) {
			return Link{}, 0, ErrDamaged
		}
	}
	l.Seed = all[at[3].from-first : at[3].to-first]
	return l, n, nil
}

// validExt reports that s consists of fields with ascending tags.
func validExt(s string) bool {
	if s == "" || len(s) > MaxExt {
		return false
	}
	for last := -1; s != ""; {
		size, n := binary.Uvarint([]byte(s[1:min(len(s), 1+binary.MaxVarintLen16)]))
		if n <= 0 || int(s[0]) <= last || size > uint64(len(s)-1-n) {
			return false
		}
		last, s = int(s[0]), s[1+n+int(size):]
	}
	return true
}
