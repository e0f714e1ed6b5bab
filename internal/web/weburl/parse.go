package weburl

import (
	"strconv"
	"strings"
)

// A layout is an assembled URL and the offsets of its parts:
//
//	https://user:pass@host:8080/path?query#hash
//	        |   |     |   |    |    |     |
//	        |   |     |   |    |    |     queryEnd
//	        |   |     |   |    |    pathEnd
//	        |   |     |   |    pathStart
//	        |   |     |   hostEnd
//	        |   passEnd; hostStart-1 if there are credentials, else hostStart
//	        |   userEnd
//	        userStart, follows from the scheme
type layout struct {
	s                                    string
	userEnd, passEnd, hostStart, hostEnd int
	pathStart, pathEnd, queryEnd         int
}

// parts returns the offsets that a URL keeps.
func (l *layout) parts() Parts {
	return Parts{uint16(l.hostEnd), uint16(l.pathStart), uint16(l.pathEnd)}
}

func (l *layout) https() bool { return l.s[4] == 's' }

// An assembler writes one URL from left to right.
type assembler struct {
	layout    // s is not set
	out       []byte
	canonical bool
}

// The results of schemeOf.
const (
	schemeNone = iota
	schemeHTTP
	schemeHTTPS
	schemeOther
)

// schemeOf reads the scheme at the front of in. rest is the text after its colon, or in if the
// scheme is not http or https.
func schemeOf(in string) (scheme int, rest string) {
	for i := 0; i < len(in); i++ {
		c := in[i]
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			continue
		case i == 0:
			return schemeNone, in
		case '0' <= c && c <= '9', c == '+', c == '-', c == '.':
			continue
		case c != ':':
			return schemeNone, in
		}
		switch {
		case i == 4 && strings.EqualFold(in[:4], "http"):
			return schemeHTTP, in[5:]
		case i == 5 && strings.EqualFold(in[:5], "https"):
			return schemeHTTPS, in[6:]
		}
		return schemeOther, in
	}
	return schemeNone, in
}

// trim drops C0 controls and spaces at both ends.
func trim(in string) string {
	for len(in) > 0 && in[0] <= ' ' {
		in = in[1:]
	}
	for len(in) > 0 && in[len(in)-1] <= ' ' {
		in = in[:len(in)-1]
	}
	return in
}

// unbreak drops tabs and newlines.
func unbreak(in string) string {
	if strings.IndexByte(in, '\n') < 0 && strings.IndexByte(in, '\t') < 0 && strings.IndexByte(in, '\r') < 0 {
		return in
	}
	dst := make([]byte, 0, len(in))
	for i := 0; i < len(in); i++ {
		if c := in[i]; c != '\n' && c != '\t' && c != '\r' {
			dst = append(dst, c)
		}
	}
	return string(dst)
}

// resolve implements the URL standard's basic URL parser for http and https. It writes the URL to
// a.out. A nil base means "no base".
func (a *assembler) resolve(in string, base *layout) error {
	in = trim(in)
	scheme, rest := schemeOf(in)
	if scheme == schemeOther {
		return ErrScheme // checked first: a data: URL may have megabytes
	}
	if len(in) > MaxParse {
		return ErrTooLong
	}
	if clean := unbreak(in); len(clean) < len(in) {
		in = clean
		if scheme, rest = schemeOf(in); scheme == schemeOther {
			return ErrScheme
		}
	}
	if scheme == schemeNone {
		if base == nil {
			return errRelative
		}
		return a.relative(in, base)
	}
	if base != nil && base.https() == (scheme == schemeHTTPS) && !strings.HasPrefix(rest, "//") {
		return a.relative(rest, base)
	}
	return a.authority(scheme == schemeHTTPS, rest)
}

func isSlash(c byte) bool { return c == '/' || c == '\\' }

func (a *assembler) relative(in string, base *layout) error {
	var c byte
	if in != "" {
		c = in[0]
	}
	if isSlash(c) && len(in) > 1 && isSlash(in[1]) {
		return a.authority(base.https(), in)
	}
	out := a.out
	a.layout = *base
	a.s = ""
	switch {
	case isSlash(c):
		a.out = append(out, base.s[:base.pathStart]...)
		in = a.path(in[1:])
	case c == '?':
		a.out = append(out, base.s[:base.pathEnd]...)
	case c == '#' || in == "":
		a.out = append(out, base.s[:base.queryEnd]...)
		a.fragment(in)
		return nil
	default:
		dir := base.s[:base.pathEnd]
		a.out = append(out, dir[:strings.LastIndexByte(dir, '/')]...)
		in = a.path(in)
	}
	a.pathEnd = len(a.out)
	a.query(in)
	return nil
}

// authority reads the text after the scheme's colon. It accepts any number of slashes.
func (a *assembler) authority(https bool, in string) error {
	for in != "" && isSlash(in[0]) {
		in = in[1:]
	}
	end := 0
	for end < len(in) && !is(in[end], segEnd) {
		end++
	}
	hostPort, in := in[:end], in[end:]
	a.out = append(a.out, "http"...)
	if https {
		a.out = append(a.out, 's')
	}
	a.out = append(a.out, "://"...)
	a.userEnd, a.passEnd = len(a.out), len(a.out)
	if at := strings.LastIndexByte(hostPort, '@'); at >= 0 {
		if !a.canonical {
			a.userinfo(hostPort[:at])
		}
		hostPort = hostPort[at+1:]
	}
	a.hostStart = len(a.out)
	host, port := splitPort(hostPort)
	if err := a.host(host); err != nil {
		return err
	}
	a.hostEnd = len(a.out)
	if err := a.port(https, port); err != nil {
		return err
	}
	a.pathStart = len(a.out)
	if in != "" && isSlash(in[0]) {
		in = in[1:]
	}
	in = a.path(in)
	a.pathEnd = len(a.out)
	a.query(in)
	return nil
}

// userinfo writes user:password@. It writes nothing if both are empty.
func (a *assembler) userinfo(in string) {
	user, pass, _ := strings.Cut(in, ":")
	if user == "" && pass == "" {
		return
	}
	a.out = appendEncoded(a.out, user, encUserinfo, false)
	a.userEnd = len(a.out)
	if pass != "" {
		a.out = appendEncoded(append(a.out, ':'), pass, encUserinfo, false)
	}
	a.passEnd = len(a.out)
	a.out = append(a.out, '@')
}

// splitPort cuts at the first colon outside of brackets.
func splitPort(in string) (host, port string) {
	if strings.IndexByte(in, ':') < 0 {
		return in, ""
	}
	inside := false
	for i := 0; i < len(in); i++ {
		switch in[i] {
		case '[':
			inside = true
		case ']':
			inside = false
		case ':':
			if !inside {
				return in[:i], in[i+1:]
			}
		}
	}
	return in, ""
}

func (a *assembler) port(https bool, in string) error {
	if in == "" {
		return nil
	}
	n := 0
	for i := 0; i < len(in); i++ {
		if in[i] < '0' || in[i] > '9' {
			return errPort
		}
		if n = n*10 + int(in[i]-'0'); n > 65535 {
			return errPort
		}
	}
	if https && n == 443 || !https && n == 80 {
		return nil
	}
	a.out = strconv.AppendInt(append(a.out, ':'), int64(n), 10)
	return nil
}

// path reads segments up to a query or a fragment and appends them. The caller has already taken
// the slash before the first segment. path returns the text that it did not read.
func (a *assembler) path(in string) string {
	for {
		end := 0
		for end < len(in) && !is(in[end], segEnd) {
			end++
		}
		seg := in[:end]
		last := end == len(in) || !isSlash(in[end])
		switch dots(seg) {
		case 0:
			a.out = appendEncoded(append(a.out, '/'), seg, encPath, a.canonical)
		case 2:
			for i := len(a.out) - 1; i >= a.pathStart; i-- {
				if a.out[i] == '/' {
					a.out = a.out[:i]
					break
				}
			}
			fallthrough
		case 1:
			if last {
				a.out = append(a.out, '/')
			}
		}
		if last {
			return in[end:]
		}
		in = in[end+1:]
	}
}

// dots returns 1 for a single-dot segment, 2 for a double-dot segment, and 0 for any other segment.
// A dot may be written as %2e.
func dots(seg string) int {
	if len(seg) == 0 || len(seg) > 6 || seg[0] != '.' && seg[0] != '%' {
		return 0
	}
	n := 0
	for ; seg != ""; n++ {
		switch {
		case seg[0] == '.':
			seg = seg[1:]
		case len(seg) >= 3 && seg[0] == '%' && seg[1] == '2' && seg[2]|0x20 == 'e':
			seg = seg[3:]
		default:
			return 0
		}
	}
	if n > 2 {
		return 0
	}
	return n
}

// query reads ?query, which may be missing, and the fragment after it.
func (a *assembler) query(in string) {
	if in != "" && in[0] == '?' {
		end := strings.IndexByte(in, '#')
		if end < 0 {
			end = len(in)
		}
		a.out = appendEncoded(append(a.out, '?'), in[1:end], encQuery, a.canonical)
		in = in[end:]
	}
	a.queryEnd = len(a.out)
	a.fragment(in)
}

// fragment reads #fragment, which may be missing. The canonical form drops it.
func (a *assembler) fragment(in string) {
	if in == "" || a.canonical {
		return
	}
	a.out = appendEncoded(append(a.out, '#'), in[1:], encFragment, false)
}
