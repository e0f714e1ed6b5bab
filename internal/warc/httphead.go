package warc

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/orbweaver/orbweaver/internal/web/message"
)

// headEnd returns the length of the HTTP header at the front of b, which is where the payload begins. Like warcio, it
// ends the header after the first empty line. ok is false if there is no empty line. ok is also false if an earlier
// line has only control characters, blanks or bytes over 0x7e: some readers take such a line for empty, others not.
func headEnd(b []byte) (end int, ok bool) {
	for end < len(b) {
		n := bytes.IndexByte(b[end:], '\n') + 1
		if n == 0 {
			return 0, false
		}
		line := b[end : end+n]
		if len(line) == 1 || len(line) == 2 && line[0] == '\r' {
			return end + n, end > 0
		}
		if !visible(line) {
			return 0, false
		}
		end += n
	}
	return 0, false
}

func visible(line []byte) bool {
	for _, c := range line {
		if c > ' ' && c < 0x7f {
			return true
		}
	}
	return false
}

// blank reports whether warcio takes line for empty. warcio decodes it as UTF-8, or else as Latin-1, and Python's
// str.rstrip removes more characters than the blanks of HTTP.
func blank(line []byte) bool {
	if len(line) > 0 && line[0] > ' ' && line[0] < utf8.RuneSelf {
		return false // true of nearly every line
	}
	latin1 := !utf8.Valid(line)
	for len(line) > 0 {
		r, n := rune(line[0]), 1
		if !latin1 {
			r, n = utf8.DecodeRune(line)
		}
		if !unicode.IsSpace(r) && (r < 0x1c || r > 0x1f) {
			return false
		}
		line = line[n:]
	}
	return true
}

// statusOf returns the status for a CDXJ line: the word after the protocol in a status line, "" if there is none.
func statusOf(line []byte) string {
	_, rest, _ := bytes.Cut(trimRight(line), []byte{' '})
	rest = trimLeft(trimRight(rest))
	code, _, _ := bytes.Cut(rest, []byte{' '})
	if string(code) == "204" && bytes.Contains(rest, []byte("Error")) {
		return ""
	}
	return word(code)
}

// blanks are the bytes that Python's bytes.strip removes.
const blanks = " \t\r\n\v\f"

func trimRight(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] <= ' ' && strings.IndexByte(blanks, b[len(b)-1]) >= 0 {
		b = b[:len(b)-1]
	}
	return b
}

func trimLeft(b []byte) []byte {
	for len(b) > 0 && b[0] <= ' ' && strings.IndexByte(blanks, b[0]) >= 0 {
		b = b[1:]
	}
	return b
}

// word is string(b), without an allocation for the most frequent values.
func word(b []byte) string {
	switch string(b) {
	case "200":
		return "200"
	case "301":
		return "301"
	case "302":
		return "302"
	case "404":
		return "404"
	case "gzip":
		return "gzip"
	case "br":
		return "br"
	case "text/html":
		return "text/html"
	case "text/html; charset=utf-8":
		return "text/html; charset=utf-8"
	case "text/html; charset=UTF-8":
		return "text/html; charset=UTF-8"
	case "text/html;charset=utf-8":
		return "text/html;charset=utf-8"
	case "text/html;charset=UTF-8":
		return "text/html;charset=UTF-8"
	}
	return string(b)
}

// An httpHead is the part of an HTTP header that the index and the choice of compression need.
type httpHead struct {
	Status   string // "" if there is none
	Type     string // Content-Type: the first one, unchanged; of several values the media type that counts
	Encoding string // Content-Encoding, lower case
	Chunked  bool   // the body has chunk sizes, and no other transfer coding
	Bare     bool   // the header has neither a status nor a field
	Location string // of a redirect; empty: it is none
}

// MIME returns the media type without parameters, for a CDXJ line. It is "unk" if the header names none, or one that is
// longer than maxMIME.
func (h httpHead) MIME() string { return mimeOf(h.Type) }

// maxMIME is the length in bytes of the longest media type that can be registered (RFC 6838, 4.2).
const maxMIME = 255

func mimeOf(contentType string) string {
	if contentType == "" {
		return "unk"
	}
	if i := strings.IndexAny(contentType, "; "); i >= 0 {
		contentType = contentType[:i]
	}
	if len(contentType) > maxMIME {
		return "unk"
	}
	return contentType
}

// parseHead reads the HTTP header at the front of b. It never fails: it skips lines that it cannot read. The first
// Content-Encoding counts.
func parseHead(b []byte) (h httpHead) {
	line, rest := cutLine(b)
	h.Status = statusOf(line)
	h.Bare = h.Status == ""
	var room [2]message.Field // of the Content-Type fields
	types := message.Header(room[:0])
	seenEncoding, transfer, version := false, false, string(line[:min(len(line), len("HTTP/1.1"))])
	for {
		line, rest = cutLine(rest)
		if blank(line) {
			h.chooseType(types)
			return h
		}
		line = trimRight(line)
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok {
			continue
		}
		h.Bare = false
		name = bytes.TrimRight(name, " \t")
		switch {
		case fold(name, "content-type"):
			v := word(bytes.TrimLeft(value, " \t\v\f"))
			types = append(types, message.Field{Name: "Content-Type", Value: v})
		case h.Location == "" && fold(name, "location") && isRedirect(h.Status):
			h.Location = string(bytes.TrimSpace(value))
		case !seenEncoding && fold(name, "content-encoding"):
			h.Encoding, seenEncoding = lower(value), true
		case fold(name, "transfer-encoding"):
			h.Chunked = !transfer && version >= "HTTP/1.1" && fold(bytes.TrimSpace(value), "chunked")
			transfer = true
		}
	}
}

// isRedirect reports whether a crawl follows the Location of a response with this status.
func isRedirect(status string) bool {
	switch status {
	case "300", "301", "302", "303", "307", "308":
		return true
	}
	return false
}

// chooseType sets h.Type to the first of the Content-Type fields or, if they have several values, to the media type
// that counts.
func (h *httpHead) chooseType(types message.Header) {
	if len(types) == 0 {
		return
	}
	h.Type = types[0].Value
	if len(types) > 1 || strings.IndexByte(h.Type, ',') >= 0 {
		if t, _ := types.Type(); t.Essence != "" {
			h.Type = t.Essence
		}
	}
}

func lower(b []byte) string { return strings.ToLower(word(bytes.TrimSpace(b))) }

func cutLine(b []byte) (line, rest []byte) {
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i+1], b[i+1:]
	}
	return b, nil
}

// fold reports whether a header name equals want, which is lower case, regardless of case.
func fold(name []byte, want string) bool {
	if len(name) != len(want) {
		return false
	}
	for i := range name {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != want[i] {
			return false
		}
	}
	return true
}

// packedTypes are media types whose content is compressed already.
var packedTypes = map[string]bool{
	"application/zip": true, "application/gzip": true, "application/x-gzip": true,
	"application/x-7z-compressed": true, "application/x-rar-compressed": true, "application/vnd.rar": true,
	"application/x-bzip2": true, "application/x-bzip": true, "application/x-xz": true, "application/zstd": true,
	"application/x-compress": true, "application/x-compressed": true, "application/java-archive": true,
	"application/epub+zip": true, "application/font-woff": true, "application/font-woff2": true,
	"application/x-font-woff": true, "font/woff": true, "font/woff2": true,
	"application/x-debian-package": true, "application/vnd.debian.binary-package": true,
	"application/ogg": true, "application/x-shockwave-flash": true, "application/vnd.android.package-archive": true,
}

// incompressible reports whether a body under this header is stored without compression.
func (h httpHead) incompressible() bool {
	if h.Encoding != "" && h.Encoding != "identity" {
		return true
	}
	t := strings.ToLower(h.MIME())
	major, minor, _ := strings.Cut(t, "/")
	switch major {
	case "image":
		switch minor {
		case "svg+xml", "bmp", "x-icon", "vnd.microsoft.icon", "x-ms-bmp":
			return false
		}
		return true
	case "video":
		return true
	case "audio":
		return minor != "wav" && minor != "x-wav" && minor != "basic" && minor != "midi"
	}
	return packedTypes[t] || strings.HasPrefix(t, "application/vnd.openxmlformats")
}
