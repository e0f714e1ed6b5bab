package parse

import (
	"bytes"

	"github.com/orbweaver/orbweaver/internal/web/message"
)

// kindOf decides how to read a body of a media type. The root element decides between the kinds of
// XML. A text/html body may turn out to be a feed (MIME Sniffing, 7.3).
func kindOf(essence string, body []byte) Kind {
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
	if (message.Type{Essence: essence}).IsXML() {
		return rootKind(body)
	}
	return Other
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
	return XML
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
