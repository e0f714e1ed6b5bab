package message

import (
	"bytes"
	"net/http"
	"strings"
)

// Identify returns the media type that the first bytes of a body show, for WARC-Identified-Payload-Type. declared is
// the type that the header names. It counts only where the bytes confirm the format that it is a form of: text, XML,
// HTML or ZIP. The result is empty if the bytes show nothing, or if there are none.
func Identify(body []byte, declared string) string {
	if len(body) == 0 {
		return ""
	}
	body = body[:min(len(body), TypeBytes)]
	found, _, _ := strings.Cut(http.DetectContentType(body), ";")
	of := Type{Essence: declared}
	switch {
	case found == "text/html" && (isComment(body) && of.isText() || of.IsHTML()),
		found == "text/plain" && of.isText(),
		found == "text/xml" && (of.IsXML() || of.IsHTML() && containsFold(body, "<html")),
		found == "application/zip" && isZIP(declared):
		return declared
	case found == "application/octet-stream" && !of.isText():
		return ""
	}
	return found
}

// isText reports whether content of type t is text.
func (t Type) isText() bool {
	kind, sub, _ := strings.Cut(t.Essence, "/")
	if kind == "text" || t.IsXML() {
		return true
	}
	switch sub {
	case "javascript", "x-javascript", "ecmascript", "json", "x-ndjson", "xhtml+xml", "yaml", "x-sh", "sql":
		return kind == "application"
	}
	return strings.HasSuffix(sub, "+json")
}

// isComment reports whether a comment begins body: HTML, XML and style sheets may begin so.
func isComment(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n\f"), []byte("<!--")) && !containsFold(body, "<html")
}

// isZIP reports whether content of a media type is a ZIP file.
func isZIP(essence string) bool {
	switch essence {
	case "application/java-archive", "application/vnd.android.package-archive":
		return true
	}
	return strings.HasSuffix(essence, "+zip") || strings.HasPrefix(essence, "application/vnd.openxmlformats-") ||
		strings.HasPrefix(essence, "application/vnd.oasis.opendocument.")
}

// containsFold reports whether b contains want, which is in lower case and begins with "<", in any case of letters.
func containsFold(b []byte, want string) bool {
	for {
		i := bytes.IndexByte(b, want[0])
		if i < 0 || len(b)-i < len(want) {
			return false
		}
		if b = b[i:]; strings.EqualFold(string(b[:len(want)]), want) {
			return true
		}
		b = b[1:]
	}
}

// IsType reports whether s is a media type without parameters that can be registered (RFC 6838, 4.2).
func IsType(s string) bool {
	kind, sub, ok := strings.Cut(s, "/")
	return ok && len(s) <= maxType && isToken(kind) && isToken(sub)
}
