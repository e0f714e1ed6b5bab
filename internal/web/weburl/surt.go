package weburl

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// SURT returns the Sort-friendly URI Reordering Transform that archive indexes are sorted by:
// http://www.example.com/A?b=1&a -> com,example)/a?a&b=1. It equals what pywb's canonicalize
// returns for u, which is the index key of a CDXJ line. A replay tool therefore finds what the
// crawl has written.
//
// The rules are those of the Internet Archive's key maker (webarchive-commons, WaybackURLKeyMaker).
// Escapes are undone until none is left, then made anew. A leading www with its digits, empty
// segments, a last slash and session ids are dropped. Letters become lower case. Query arguments
// are sorted.
//
// Two URLs that a server may tell apart can have one SURT, so a SURT does not identify a resource.
func (u URL) SURT() string {
	if u.s == "" {
		return "-"
	}
	var space [512]byte
	dst := appendHostSURT(space[:0], u.Host())
	if port := u.s[u.hostEnd:u.pathStart]; port != ":0" { // the key maker treats port 0 as no port
		dst = append(dst, port...)
	}
	dst = append(dst, ')')
	var scratch [512]byte
	dst = appendPathSURT(dst, scratch[:0], u.Path())
	if q, ok := u.Query(); ok {
		dst = appendQuerySURT(dst, scratch[:0], q)
	}
	return string(dst)
}

// appendHostSURT writes the labels of host from last to first, separated by commas.
func appendHostSURT(dst []byte, host string) []byte {
	if host[0] == '[' {
		return append(dst, host[1:len(host)-1]...)
	}
	if rest, ok := strings.CutPrefix(host, "www"); ok {
		rest = strings.TrimLeft(rest, "0123456789")
		if rest != "" && rest[0] == '.' {
			host = rest[1:]
		}
	}
	for {
		dot := strings.LastIndexByte(host, '.')
		dst = append(dst, host[dot+1:]...)
		if dot < 0 {
			return dst
		}
		dst = append(dst, ',')
		host = host[:dot]
	}
}

// appendUnescaped undoes escapes until none is left, in one pass: an octet that completes an escape
// at the end of dst is decoded at once. Escapes cannot overlap, so any order gives the same result.
func appendUnescaped(dst []byte, s string) []byte {
	start := len(dst)
	for i := 0; i < len(s); i++ {
		dst = append(dst, s[i])
		for n := len(dst); n-start >= 3 && dst[n-3] == '%' && is(dst[n-2], isHex) && is(dst[n-1], isHex); n = len(dst) {
			dst[n-3] = unhex(dst[n-2])<<4 | unhex(dst[n-1])
			dst = dst[:n-2]
		}
	}
	return dst
}

// appendLowerEscaped writes s in lower case. It escapes #, % and everything that is not printable
// ASCII.
func appendLowerEscaped(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	for _, c := range s {
		switch {
		case c <= ' ' || c > '~' || c == '#' || c == '%':
			dst = append(dst, '%', hex[c>>4], hex[c&15])
		case 'A' <= c && c <= 'Z':
			dst = append(dst, c|0x20)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

var aspSession = []*regexp.Regexp{
	regexp.MustCompile(`^(.*/)(?:\((?:[a-z]\([0-9a-z]{24}\))+\)/)([^?]+\.aspx.*)$`),
	regexp.MustCompile(`^(.*/)(?:\([0-9a-z]{24}\)/)([^?]+\.aspx.*)$`),
}

func appendPathSURT(dst, scratch []byte, path string) []byte {
	start := len(dst)
	raw := appendUnescaped(scratch, path)
	// Unescaping may have made new dot segments. A .. with nothing before it counts as a segment.
	flat := make([]byte, 0, len(raw)+1)
	segs := 0
	for rest, more := raw[1:], true; more; {
		var seg []byte
		seg, rest, more = bytes.Cut(rest, []byte{'/'})
		switch {
		case string(seg) == ".":
		case string(seg) == ".." && segs > 0:
			flat = flat[:bytes.LastIndexByte(flat, '/')]
			segs--
		default:
			flat = append(append(flat, '/'), seg...)
			segs++
		}
	}
	dst = append(dst, '/')
	lower := flat
	if len(lower) > 0 {
		kept := lower[:0]
		last := bytes.LastIndexByte(lower, '/')
		for i, c := range lower[1 : last+1] {
			if c == '/' && lower[i] == '/' { // the segment before this slash is empty
				continue
			}
			kept = append(kept, c)
		}
		kept = append(kept, lower[last+1:]...)
		dst = appendLowerEscaped(dst, kept)
	}
	if bytes.Contains(dst[start:], []byte(".aspx")) {
		for _, re := range aspSession {
			// Clone, because a slice given to regexp escapes to the heap, and would take every
			// caller's buffer there with it.
			if m := re.FindSubmatch(bytes.Clone(dst[start:])); m != nil {
				dst = append(dst[:start], slices.Concat(m[1], m[2])...)
			}
		}
	}
	if len(dst)-start > 1 && dst[len(dst)-1] == '/' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

var querySession = []*regexp.Regexp{
	regexp.MustCompile(`^(.*)(?:jsessionid=[0-9a-z]{32})(?:&(.*))?$`),
	regexp.MustCompile(`^(.*)(?:phpsessid=[0-9a-z]{32})(?:&(.*))?$`),
	regexp.MustCompile(`^(.*)(?:sid=[0-9a-z]{32})(?:&(.*))?$`),
	regexp.MustCompile(`^(.*)(?:aspsessionid[a-z]{8}=[a-z]{24})(?:&(.*))?$`),
	regexp.MustCompile(`^(.*)(?:cfid=[^&]+&cftoken=[^&]+)(?:&(.*))?$`),
}

// sessionHints: each match of querySession contains at least one of these substrings.
var sessionHints = [][]byte{[]byte("sid="), []byte("sessionid"), []byte("cfid=")}

func appendQuerySURT(dst, scratch []byte, query string) []byte {
	raw := appendUnescaped(scratch, query)
	q := appendLowerEscaped(make([]byte, 0, len(raw)), raw)
	if slices.ContainsFunc(sessionHints, func(h []byte) bool { return bytes.Contains(q, h) }) {
		for _, re := range querySession {
			if m := re.FindSubmatch(q); m != nil {
				q = slices.Concat(m[1], m[2])
			}
		}
	}
	if len(q) == 0 {
		return dst
	}
	dst = append(dst, '?')
	if bytes.IndexByte(q, '&') < 0 {
		return append(dst, q...)
	}
	args := bytes.Split(q, []byte{'&'})
	slices.SortStableFunc(args, func(a, b []byte) int {
		ak, av, aok := bytes.Cut(a, []byte{'='})
		bk, bv, bok := bytes.Cut(b, []byte{'='})
		if c := bytes.Compare(ak, bk); c != 0 {
			return c
		}
		switch {
		case aok && bok:
			return bytes.Compare(av, bv)
		case aok:
			return 1
		case bok:
			return -1
		}
		return 0
	})
	for i, a := range args {
		if i > 0 {
			dst = append(dst, '&')
		}
		dst = append(dst, a...)
	}
	return dst
}
