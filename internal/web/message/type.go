package message

import (
	"bytes"
	"net/http"
	"strings"
)

// A Type is a media type.
type Type struct {
	Essence string // type and subtype in lower case, such as "text/html"; empty: unknown
	Charset string // the value of its parameter charset; empty: none
}

// IsHTML reports whether t is a type of HTML pages.
func (t Type) IsHTML() bool { return t.Essence == "text/html" || t.Essence == "application/xhtml+xml" }

// IsXML reports whether t is a type of XML documents (MIME Sniffing, 4.6), or that of XSLT style sheets in browsers.
func (t Type) IsXML() bool {
	return t.Essence == "text/xml" || t.Essence == "application/xml" || t.Essence == "text/xsl" ||
		strings.HasSuffix(t.Essence, "+xml")
}

const (
	// maxType is the length in bytes of the longest media type that can be registered (RFC 6838, 4.2).
	maxType = 255
	// maxTypes bounds the Content-Type fields that are read.
	maxTypes = 100
	// TypeBytes is the length of the beginning of a body that decides about its type (MIME Sniffing, 5).
	TypeBytes = 1445
)

// Type returns the media type that the Content-Type fields name: "extract a MIME type" of the Fetch standard. The
// values of all fields are split at commas, and the last one that is a media type counts. sure is false if the body
// decides; see TypeOf.
func (h Header) Type() (t Type, sure bool) {
	all, last, n := "", "", 0
	for i := range h {
		if len(h[i].Name) != len("Content-Type") || !strings.EqualFold(h[i].Name, "Content-Type") {
			continue
		}
		if last = h[i].Value; n == 0 {
			all = last
		} else if n < maxTypes {
			all += ", " + last // also within quotation marks
		}
		n++
	}
	for all != "" {
		var v string
		v, all = cutElement(all)
		one, ok := parseType(v)
		if !ok || one.Essence == "*/*" {
			continue
		}
		if one.Essence == t.Essence && one.Charset == "" {
			one.Charset = t.Charset
		}
		t = one
	}
	switch t.Essence {
	case "", "unknown/unknown", "application/unknown":
		return Type{}, false
	}
	return t, !maybeBinary(last)
}

// TypeOf returns the media type of a response whose body begins with body, without codings. If the fields name no type,
// or one that stands for none, the bytes decide, and so do they whether text/plain is text (MIME Sniffing, 7).
func (h Header) TypeOf(body []byte) Type {
	t, sure := h.Type()
	if sure || len(body) == 0 {
		return t
	}
	body = bytes.TrimPrefix(body[:min(len(body), TypeBytes)], []byte("\xEF\xBB\xBF"))
	// The library has the tables of the standard, and reads 512 bytes.
	found := http.DetectContentType(bytes.TrimLeft(body, "\t\n\f\r "))
	found, _, _ = strings.Cut(found, ";")
	isText := strings.HasPrefix(found, "text/") || found == "application/pdf" || found == "application/postscript"
	switch {
	case t.Essence != "" && isText:
		return t
	case t.Essence != "":
		return Type{Essence: "application/octet-stream"}
	case isText && found != "application/postscript" && h.noSniff():
		return Type{Essence: "text/plain"} // it must not become a page
	}
	return Type{Essence: found}
}

// noSniff reports whether X-Content-Type-Options forbids to find pages in a body (Fetch, "determine nosniff").
func (h Header) noSniff() bool {
	v, _, _ := strings.Cut(h.Get("X-Content-Type-Options"), ",")
	return strings.EqualFold(trim(v), "nosniff")
}

// maybeBinary reports whether a Content-Type is one that servers give to files of an unknown type (MIME Sniffing, 5.1).
func maybeBinary(v string) bool {
	switch v {
	case "text/plain", "text/plain; charset=ISO-8859-1", "text/plain; charset=iso-8859-1", "text/plain; charset=UTF-8":
		return true
	}
	return false
}

// cutElement returns the first element of a list, and what follows its comma. A comma between quotation marks ends none
// (Fetch, "get, decode, and split").
func cutElement(v string) (first, rest string) {
	quoted := false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == ',' && !quoted:
			return v[:i], v[i+1:]
		}
	}
	return v, ""
}

// blanks is the white space of HTTP (Fetch).
const blanks = " \t\r\n"

// parseType reads a media type (MIME Sniffing, 4.4).
func parseType(v string) (t Type, ok bool) {
	switch v { // the most frequent ones, without an allocation
	case "text/html":
		return Type{Essence: "text/html"}, true
	case "text/html; charset=utf-8", "text/html; charset=UTF-8", "text/html;charset=utf-8", "text/html;charset=UTF-8":
		return Type{"text/html", "utf-8"}, true
	}
	essence, params, _ := strings.Cut(strings.Trim(v, blanks), ";")
	essence = strings.TrimRight(essence, blanks)
	kind, sub, ok := strings.Cut(essence, "/")
	if !ok || !isToken(kind) || !isToken(sub) || len(essence) > maxType {
		return Type{}, false
	}
	t.Essence = strings.ToLower(essence)
	for params != "" && t.Charset == "" {
		params = strings.TrimLeft(params, blanks)
		i := strings.IndexAny(params, ";=")
		if i < 0 {
			break
		}
		name, value := params[:i], ""
		if rest := params[i+1:]; params[i] == ';' {
			params = rest
			continue
		} else if strings.HasPrefix(rest, `"`) {
			value, rest = unquote(rest[1:])
			_, params, _ = strings.Cut(rest, ";")
		} else {
			value, params, _ = strings.Cut(rest, ";")
			value = strings.TrimRight(value, blanks)
		}
		if strings.EqualFold(name, "charset") {
			t.Charset = value
		}
	}
	return t, true
}

// unquote returns the value of a quoted string without its first quotation mark, and what follows the string.
func unquote(v string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			return b.String(), v[i+1:]
		case c == '\\' && i+1 < len(v):
			i++
		}
		b.WriteByte(v[i])
	}
	return b.String(), ""
}

// isToken reports whether s is a token (RFC 9110, 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}
