package testweb

import (
	"bytes"
	"strings"
	"unsafe"
)

// A head is the part of a request's header that the front needs. Its strings refer to the read buffer.
type head struct {
	target, host string
	n            int // bytes of the header, including the empty line
	gzip         bool
	head         bool   // the method is HEAD
	file         bool   // a browser asks for a file of a page
	close        bool   // the client wants no further response on the connection
	none, since  string // If-None-Match and If-Modified-Since
}

// A verdict is the result of parseHead for the bytes read so far.
type verdict uint8

const (
	plainHead verdict = iota // an ordinary GET or HEAD without a body
	shortHead                // the end of the header has not been read yet
	oddHead                  // an unusual request, which net/http handles
)

// maxOwnHead is the largest header, in bytes, that the front reads; net/http reads larger ones.
const maxOwnHead = 8 << 10

var headEnd = []byte("\r\n\r\n")

// parseHead parses an ordinary request: a method, a target in origin form and simple fields. Everything else is odd:
// bodies, upgrades, folded lines, bare line feeds, control characters, and no or several Host fields.
func parseHead(b []byte) (h head, v verdict) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		if len(b) >= maxOwnHead || len(b) > 0 && b[0] != 'G' && b[0] != 'H' {
			return h, oddHead
		}
		return h, shortHead
	}
	h.n = end + len(headEnd)
	line, rest := cutLine(b[:end+2])
	switch {
	case len(line) > 4 && string(line[:4]) == "GET ":
		line = line[4:]
	case len(line) > 5 && string(line[:5]) == "HEAD ":
		line, h.head = line[5:], true
	default:
		return h, oddHead
	}
	space := bytes.IndexByte(line, ' ')
	if space < 1 || line[0] != '/' || !visible(line[:space]) {
		return h, oddHead
	}
	switch string(line[space+1:]) {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.close = true
	default:
		return h, oddHead
	}
	h.target = text(line[:space])
	hosts := 0
	for len(rest) > 0 {
		line, rest = cutLine(rest)
		colon := bytes.IndexByte(line, ':')
		if colon < 1 || !visible(line[:colon]) {
			return h, oddHead
		}
		for _, c := range line[colon:] {
			if c < ' ' && c != '\t' || c == 0x7f {
				return h, oddHead
			}
		}
		name, value := line[:colon], bytes.Trim(line[colon+1:], " \t")
		switch {
		case is(name, "host"):
			hosts++
			h.host = text(value)
		case is(name, "accept-encoding"):
			h.gzip = h.gzip || takesGzip(text(value))
		case is(name, "sec-fetch-dest"):
			h.file = isFile(text(value))
		case is(name, "connection"):
			for token := range strings.SplitSeq(text(value), ",") {
				switch token = strings.Trim(token, " \t"); {
				case strings.EqualFold(token, "close"):
					h.close = true
				case !strings.EqualFold(token, "keep-alive") && token != "":
					return h, oddHead
				}
			}
		case is(name, "if-none-match"):
			if h.none != "" {
				return h, oddHead
			}
			h.none = text(value)
		case is(name, "if-modified-since"):
			if h.since != "" {
				return h, oddHead
			}
			h.since = text(value)
		case is(name, "content-length"), is(name, "transfer-encoding"), is(name, "expect"), is(name, "upgrade"),
			is(name, "trailer"):
			return h, oddHead
		}
	}
	if hosts != 1 || h.host == "" {
		return h, oddHead
	}
	return h, plainHead
}

// cutLine splits b after its first line. b ends with CR LF. A line feed without carriage return stays in the line,
// whose check then fails.
func cutLine(b []byte) (line, rest []byte) {
	i := bytes.Index(b, headEnd[:2])
	return b[:i], b[i+2:]
}

// visible reports whether b has neither spaces nor control characters.
func visible(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

// is reports whether a field's name equals lower, which is lower case, in any case.
func is(name []byte, lower string) bool {
	return len(name) == len(lower) && strings.EqualFold(text(name), lower)
}

// text returns b as a string without a copy. It is valid until b is written to.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// takesGzip reports whether an Accept-Encoding field accepts gzip (RFC 9110, 12.5.3).
func takesGzip(value string) bool {
	for part := range strings.SplitSeq(value, ",") {
		coding, q, _ := strings.Cut(part, ";")
		if !strings.EqualFold(strings.Trim(coding, " \t"), "gzip") {
			continue
		}
		q = strings.TrimLeft(q, " \t")
		if len(q) < 2 || q[0]|0x20 != 'q' || q[1] != '=' {
			return true
		}
		return strings.ContainsAny(q[2:], "123456789")
	}
	return false
}

// hostName converts the value of a Host field to a name for look-ups: without port and final dot, in lower case.
func hostName(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host = host[:i]
	}
	host = strings.TrimSuffix(host, ".")
	for i := range len(host) {
		if c := host[i]; 'A' <= c && c <= 'Z' {
			return strings.ToLower(host)
		}
	}
	return host
}
