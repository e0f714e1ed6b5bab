package parse

import (
	"bytes"
	"strings"
)

// IsPlain reports whether a Content-Type is that of plain text, for AppendProse.
func IsPlain(contentType string) bool {
	essence, _ := mediaType(contentType)
	return essence == "text/plain"
}

// mediaType splits a Content-Type into its essence in lower case and the raw charset. It is
// lenient, because the web's values often break RFC 9110, 8.3.
func mediaType(field string) (essence, label string) {
	essence, params, _ := strings.Cut(field, ";")
	essence = strings.ToLower(strings.Trim(essence, " \t\r\n"))
	for params != "" {
		var p string
		params = strings.TrimLeft(params, " \t\r\n;")
		name, rest, ok := strings.Cut(params, "=")
		if !ok {
			break
		}
		if i := strings.IndexByte(name, ';'); i >= 0 {
			params = params[i+1:]
			continue
		}
		if strings.HasPrefix(rest, `"`) {
			p, params, _ = strings.Cut(rest[1:], `"`)
		} else {
			p, params, _ = strings.Cut(rest, ";")
		}
		if strings.EqualFold(strings.TrimSpace(name), "charset") {
			return essence, strings.Trim(p, " \t\r\n'\"")
		}
	}
	return essence, ""
}

// kindOf decides how to read a body. It trusts the server's type. If there is none, or one of the
// three types that stand for none, the first bytes decide (MIME Sniffing, 7). The root element
// decides between the kinds of XML. A text/html body may turn out to be a feed (MIME Sniffing,
// 7.3).
func kindOf(essence string, body []byte) Kind {
	switch essence {
	case "", "unknown/unknown", "application/unknown", "*/*":
		essence = sniff(body)
	}
	switch essence {
	case "text/html":
		if rootKind(body) == Feed {
			return Feed
		}
		return HTML
	case "application/xhtml+xml":
		return XHTML
	case "text/css":
		return CSS
	case "application/rss+xml", "application/atom+xml", "application/rdf+xml":
		return Feed
	}
	if essence == "text/xml" || essence == "application/xml" || strings.HasSuffix(essence, "+xml") {
		return rootKind(body)
	}
	return Other
}

// sniffed are the patterns of MIME Sniffing, 7.1, that matter here. They match in any letter case,
// and a space or a ">" must follow.
var sniffed = [...]string{
	"<!DOCTYPE HTML", "<HTML", "<HEAD", "<SCRIPT", "<IFRAME", "<H1", "<DIV",
	"<FONT", "<TABLE", "<A", "<STYLE", "<TITLE", "<B", "<BODY", "<BR", "<P", "<!--",
}

func sniff(body []byte) string {
	body = trimBOM(body)
	body = bytes.TrimLeft(body, "\t\n\f\r ")
	for _, s := range sniffed {
		if len(body) > len(s) && foldPrefix(body, s) && (body[len(s)] == ' ' || body[len(s)] == '>') {
			return "text/html"
		}
	}
	if bytes.HasPrefix(body, []byte("<?xml")) {
		return "text/xml"
	}
	return ""
}

// rootKind returns the kind for the first element of an XML body. It reads a body in UTF-16 through
// a small copy.
func rootKind(body []byte) Kind {
	body = narrow(body)
	s := scanner{b: body, xml: true}
	if !s.next() || s.end {
		return Other
	}
	name := s.name()
	if i := bytes.IndexByte(name, ':'); i >= 0 {
		name = name[i+1:]
	}
	switch string(name) {
	case "html":
		return XHTML
	case "rss", "feed", "rdf":
		return Feed
	case "urlset", "sitemapindex":
		return Sitemap
	case "svg":
		return SVG
	}
	return Other
}

// foldPrefix reports whether b begins with prefix. It ignores the case of ASCII letters.
func foldPrefix[T string | []byte](b T, prefix string) bool {
	if len(b) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		if lower(b[i]) != lower(prefix[i]) {
			return false
		}
	}
	return true
}

// fold reports whether b equals s. It ignores the case of ASCII letters.
func fold[T string | []byte](b T, s string) bool { return len(b) == len(s) && foldPrefix(b, s) }

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c |= 0x20
	}
	return c
}

func space(c byte) bool {
	return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f'
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
