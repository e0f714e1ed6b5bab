package link

import (
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Session ids make a server's pages endless: each response names all pages anew. Two URLs that differ in session ids
// alone therefore have one Key, and the crawl fetches one of them, as it was found. Known are:
//
//	;jsessionid=...                                       any value, also as an argument
//	PHPSESSID, osCsid, zenid, sessionid, session_id = ... at least 16 letters, digits, commas, hyphens
//	sid=...                                               32 letters and digits
//	ASPSESSIONIDxxxxxxxx=...                              24 letters
//	CFID=...&CFTOKEN=...                                  any values, if both are there
//	/(S(...))/                                            24 letters and digits, also behind /(X(1)
//
// Parameters of the path and arguments of the query are treated alike. Letter case does not matter.

// pathKey returns the Path part of the key of a canonical URL.
func pathKey(s string, pathStart int) uint64 {
	if !mayHaveSession(s[pathStart:]) {
		return xxhash.Sum64String(s)
	}
	var space [512]byte
	return xxhash.Sum64(appendSessionless(append(space[:0], s[:pathStart]...), s[pathStart:]))
}

// mayHaveSession reports whether uri may contain a session id. It costs little for ordinary URLs.
func mayHaveSession(uri string) bool {
	path, query, _ := strings.Cut(uri, "?")
	if strings.IndexByte(path, ';') >= 0 || strings.Contains(path, "/(") {
		return true
	}
	for {
		i := strings.IndexByte(query, '=')
		if i < 0 {
			return false
		}
		if i > 2 && query[i-1]|0x20 == 'd' && query[i-2]|0x20 == 'i' || i >= 20 && isASPSession(query[i-20:i]) {
			return true
		}
		query = query[i+1:]
	}
}

// appendSessionless appends uri without its session ids.
func appendSessionless(dst []byte, uri string) []byte {
	path, query, _ := strings.Cut(uri, "?")
	cold := hasArgument(uri, "cfid") && hasArgument(uri, "cftoken")
	for rest, more := path, true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if more && isCookieless(segment) {
			continue
		}
		name, parameters, some := strings.Cut(segment, ";")
		dst = append(dst, name...)
		for some {
			var p string
			if p, parameters, some = strings.Cut(parameters, ";"); !isSession(p, cold) {
				dst = append(append(dst, ';'), p...)
			}
		}
		if more {
			dst = append(dst, '/')
		}
	}
	before := byte('?')
	for query != "" {
		i := strings.IndexAny(query, "&;")
		argument, after := query, byte(0)
		if i >= 0 {
			argument, after, query = query[:i], query[i], query[i+1:]
		} else {
			query = ""
		}
		if !isSession(argument, cold) {
			dst = append(append(dst, before), argument...)
			before = after
		}
	}
	return dst
}

// isSession reports whether an argument or parameter is a session id. cold reports that the URL has CFID and CFTOKEN.
func isSession(argument string, cold bool) bool {
	name, value, ok := strings.Cut(argument, "=")
	if !ok || len(name) > 20 {
		return false
	}
	switch strings.ToLower(name) {
	case "jsessionid":
		return true
	case "phpsessid", "oscsid", "zenid", "sessionid", "session_id":
		return len(value) >= 16 && isToken(value, ",-")
	case "sid":
		return len(value) == 32 && isToken(value, "")
	case "cfid", "cftoken":
		return cold
	}
	return isASPSession(name) && len(value) == 24 && isToken(value, "")
}

// isASPSession reports whether name is that of a session cookie of ASP: ASPSESSIONID and eight letters.
func isASPSession(name string) bool {
	return len(name) == 20 && strings.EqualFold(name[:12], "aspsessionid") && isToken(name[12:], "")
}

// isCookieless reports whether a segment of a path is a session of ASP.NET: (S(24 letters and digits)).
func isCookieless(segment string) bool {
	s, ok := strings.CutPrefix(segment, "(")
	if !ok {
		return false
	}
	if len(s) > 4 && s[1] == '(' && s[3] == ')' && s[0]|0x20 == 'x' {
		s = s[4:]
	}
	return len(s) == 28 && s[0]|0x20 == 's' && s[1] == '(' && s[26:] == "))" && isToken(s[2:26], "")
}

// hasArgument reports whether uri has an argument or parameter with a name in lower case.
func hasArgument(uri, name string) bool {
	ends := func(r rune) bool { return r == '?' || r == '&' || r == ';' || r == '/' }
	for a := range strings.FieldsFuncSeq(uri, ends) {
		if key, _, ok := strings.Cut(a, "="); ok && strings.EqualFold(key, name) {
			return true
		}
	}
	return false
}

// isToken reports whether s has letters, digits and the characters of more only.
func isToken(s, more string) bool {
	for i := range len(s) {
		b := s[i]
		if (b < '0' || b > '9') && (b|0x20 < 'a' || b|0x20 > 'z') && strings.IndexByte(more, b) < 0 {
			return false
		}
	}
	return true
}
