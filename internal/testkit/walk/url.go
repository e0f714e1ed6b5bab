package walk

import (
	"strings"

	"golang.org/x/net/idna"
)

// Resolve resolves ref on a page at base and returns the URL in normal form. base must be in normal form, or empty if
// ref is absolute. ok is false if ref is not an http or https URL.
//
// Resolve follows the URL standard. The normal form is that of the standard, without credentials and fragment, with
// escapes in upper case, and with unreserved characters unescaped (RFC 3986, 6.2.2). net/url cannot be used, because it
// refuses many URLs that browsers accept.
func Resolve(base, ref string) (u string, ok bool) {
	ref = strings.TrimFunc(ref, func(r rune) bool { return r <= ' ' }) // C0 controls and spaces
	ref = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(ref)
	ref, _, _ = strings.Cut(ref, "#")
	bScheme, bRest, _ := strings.Cut(base, "://")
	bHost, _, _ := strings.Cut(bRest, "/")

	if s, rest, ok := cutScheme(ref); ok {
		switch {
		case s != "http" && s != "https":
			return "", false
		case s != bScheme || len(rest) > 1 && slash(rest[0]) && slash(rest[1]):
			return absolute(s, strings.TrimLeft(rest, `/\`))
		}
		ref = rest // "http:page" is relative on an http page
	}
	if base == "" {
		return "", false
	}
	if len(ref) > 1 && slash(ref[0]) && slash(ref[1]) {
		return absolute(bScheme, strings.TrimLeft(ref, `/\`))
	}
	front := bScheme + "://" + bHost
	bPath, bQuery, bHasQuery := strings.Cut(pathOf(base), "?")
	path, query, hasQuery := strings.Cut(ref, "?")
	switch {
	case path == "" && !hasQuery:
		path, query, hasQuery = bPath, bQuery, bHasQuery
	case path == "":
		path = bPath
	case !slash(path[0]):
		path = bPath[:strings.LastIndexByte(bPath, '/')+1] + path
	}
	return finish(front, path, query, hasQuery), true
}

func slash(c byte) bool { return c == '/' || c == '\\' }

func cutScheme(s string) (scheme, rest string, ok bool) {
	for i := range len(s) {
		switch c := s[i] | 0x20; {
		case 'a' <= c && c <= 'z':
		case i > 0 && (s[i] >= '0' && s[i] <= '9' || s[i] == '+' || s[i] == '-' || s[i] == '.'):
		case i > 0 && s[i] == ':':
			return strings.ToLower(s[:i]), s[i+1:], true
		default:
			return "", "", false
		}
	}
	return "", "", false
}

// absolute resolves the part of an absolute URL behind "scheme://".
func absolute(scheme, s string) (string, bool) {
	end := strings.IndexAny(s, `/\?`)
	if end < 0 {
		end = len(s)
	}
	host, path := s[:end], s[end:]
	if i := strings.LastIndexByte(host, '@'); i >= 0 {
		host = host[i+1:]
	}
	port := ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], strings.TrimLeft(host[i+1:], "0")
		if len(host) < len(s) && host == "" || strings.Trim(port, "0123456789") != "" || len(port) > 5 ||
			len(port) == 5 && port > "65535" {
			return "", false
		}
	}
	host = unescape(host)
	if !strings.HasPrefix(host, "[") {
		a, err := idna.New(idna.MapForLookup(), idna.StrictDomainName(false), idna.Transitional(false)).ToASCII(host)
		if err != nil {
			return "", false
		}
		host = strings.TrimSuffix(a, ".")
		isControl := func(r rune) bool { return r < ' ' || r == 0x7F }
		if host == "" || strings.ContainsAny(host, " \"#%/:<>?@[\\]^`|") || strings.ContainsFunc(host, isControl) {
			return "", false
		}
	}
	if port != "" && !(scheme == "http" && port == "80") && !(scheme == "https" && port == "443") {
		host += ":" + port
	}
	path, query, hasQuery := strings.Cut(path, "?")
	return finish(scheme+"://"+host, path, query, hasQuery), true
}

// finish removes dot segments and escapes characters as needed.
func finish(front, path, query string, hasQuery bool) string {
	path = strings.ReplaceAll(path, `\`, "/")
	var out []string
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, s := range segments {
		last := i == len(segments)-1
		switch strings.ReplaceAll(strings.ToLower(s), "%2e", ".") {
		case ".":
			if last {
				out = append(out, "")
			}
		case "..":
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, escape(s, "\"<>`{}^"))
		}
	}
	u := front + "/" + strings.Join(out, "/")
	if hasQuery {
		u += "?" + escape(query, "\"<>'")
	}
	return u
}

const upperHex = "0123456789ABCDEF"

// escape escapes control characters, blanks, non-ASCII bytes and the given characters. It normalizes existing escapes.
func escape(s, more string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '%' && i+2 < len(s) && hexValue(s[i+1]) >= 0 && hexValue(s[i+2]) >= 0 {
			d := byte(hexValue(s[i+1])<<4 | hexValue(s[i+2]))
			if d >= 'a' && d <= 'z' || d >= 'A' && d <= 'Z' || d >= '0' && d <= '9' ||
				strings.IndexByte("-._~", d) >= 0 {
				b.WriteByte(d)
			} else {
				b.WriteString(strings.ToUpper(s[i : i+3]))
			}
			i += 2
			continue
		}
		if c <= 0x20 || c >= 0x7f || strings.IndexByte(more, c) >= 0 {
			b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && hexValue(s[i+1]) >= 0 && hexValue(s[i+2]) >= 0 {
			b.WriteByte(byte(hexValue(s[i+1])<<4 | hexValue(s[i+2])))
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// pathOf returns path and query of a URL in normal form.
func pathOf(u string) string {
	_, rest, _ := strings.Cut(u, "://")
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return "/"
}
