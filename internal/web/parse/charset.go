package parse

import (
	"bytes"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// charset is a document's encoding, as far as the scan needs it.
type charset struct {
	name string
	enc  encoding.Encoding
	// utf8 is set if the scanned body is in UTF-8, from the start or after a conversion.
	utf8 bool
	// legacy is set if queries must be encoded in enc (URL, 4.4). UTF-16 and replacement use UTF-8
	// instead.
	legacy bool
	// tentative is set if nothing has declared the encoding yet, so that a later meta element may
	// (HTML, 13.2.3.4).
	tentative bool
}

// prescanned is how many bytes are searched for a declaration (HTML, 13.2.3.2).
const prescanned = 1024

var utf8Charset = charset{name: "utf-8", enc: unicode.UTF8, utf8: true}

// charsetOf returns a body's encoding and the body without its byte order mark. It skips unknown
// labels. These sources count, in this order:
//
//   - HTML (13.2.3.2): byte order mark, transport, declaration within the first 1024 bytes, and
//     windows-1252, which is tentative.
//   - XML (RFC 7303, 3): byte order mark, transport, XML declaration, UTF-8.
//   - CSS (CSS Syntax, 3.2): byte order mark, transport, @charset, UTF-8.
func charsetOf(kind Kind, body []byte, label string) (cs charset, rest []byte) {
	switch {
	case bytes.HasPrefix(body, []byte("\xEF\xBB\xBF")):
		return utf8Charset, body[3:]
	case bytes.HasPrefix(body, []byte("\xFE\xFF")):
		cs, _ = lookup("utf-16be")
		return cs, body[2:]
	case bytes.HasPrefix(body, []byte("\xFF\xFE")):
		cs, _ = lookup("utf-16le")
		return cs, body[2:]
	}
	if cs, ok := lookup(label); ok {
		return cs, body
	}
	head := body[:min(len(body), prescanned)]
	switch {
	case bytes.HasPrefix(head, []byte("<\x00?\x00x\x00")):
		cs, _ = lookup("utf-16le")
		return cs, body
	case bytes.HasPrefix(head, []byte("\x00<\x00?\x00x")):
		cs, _ = lookup("utf-16be")
		return cs, body
	}
	fallback := "utf-8"
	switch kind {
	case HTML:
		if cs, ok := prescan(head); ok {
			return cs, body
		}
		fallback = "windows-1252"
		if cs, ok := declared(xmlEncoding(head)); ok {
			return cs, body
		}
	case XHTML, SVG, XML, Feed, Sitemap:
		if cs, ok := declared(xmlEncoding(head)); ok {
			return cs, body
		}
	case CSS:
		const intro = `@charset "`
		if bytes.HasPrefix(head, []byte(intro)) {
			if v, _, ok := bytes.Cut(head[len(intro):], []byte(`";`)); ok {
				if cs, ok := declared(v); ok {
					return cs, body
				}
			}
		}
	}
	cs, _ = lookup(fallback)
	cs.tentative = kind == HTML
	return cs, body
}

// lookup returns the encoding with the given label.
func lookup(label string) (cs charset, ok bool) {
	if label == "" {
		return charset{}, false
	}
	if fold(label, "utf-8") || fold(label, "utf8") {
		return utf8Charset, true
	}
	e, err := htmlindex.Get(label)
	if err != nil {
		return charset{}, false
	}
	name, err := htmlindex.Name(e)
	if err != nil {
		return charset{}, false
	}
	cs = charset{name: name, enc: e}
	switch name {
	case "utf-8":
		return utf8Charset, true
	case "utf-16le", "utf-16be", "replacement":
	case "iso-2022-jp":
		// An escape would have to continue from one run of characters to the next, so such queries
		// stay in UTF-8.
	default:
		cs.legacy = true
	}
	return cs, true
}

// declared is lookup for a label in the body itself. The body could be read byte by byte to find
// it, so it is not in UTF-16.
func declared(label []byte) (charset, bool) {
	if len(label) == 0 || len(label) > 64 {
		return charset{}, false
	}
	cs, ok := lookup(string(bytes.TrimSpace(label)))
	switch cs.name {
	case "utf-16le", "utf-16be":
		cs = utf8Charset
	case "x-user-defined":
		cs, ok = lookup("windows-1252")
	}
	return cs, ok
}

// prescan searches for a meta element that declares the encoding.
func prescan(head []byte) (charset, bool) {
	s := scanner{b: head}
	for s.next() {
		if s.end || string(s.name()) != "meta" {
			continue
		}
		label, ok := s.attr(aCharset)
		if !ok {
			label = contentCharset(&s)
		}
		if cs, ok := declared(label); ok {
			return cs, true
		}
	}
	return charset{}, false
}

// contentCharset returns the label in a meta element's content, if the element stands for the
// header field Content-Type.
func contentCharset(s *scanner) []byte {
	equiv, _ := s.attr(aHTTPEquiv)
	if !fold(equiv, "content-type") {
		return nil
	}
	content, _ := s.attr(aContent)
	return labelIn(content)
}

// lateCharset reads a meta element after the prescanned bytes. If it declares an encoding, that
// encoding applies to the whole document (HTML, 13.2.3.4 and 13.2.6.4.4). lateCharset returns true
// if it differs from the encoding in use; the scan must then start again.
func (p *Page) lateCharset(s *scanner) bool {
	w := &p.work
	label, _ := s.attr(aCharset)
	cs, ok := declared(label)
	if !ok {
		cs, ok = declared(contentCharset(s))
	}
	if !ok {
		return false
	}
	if cs.name == w.cs.name {
		w.cs.tentative = false
		return false
	}
	w.cs, p.Charset = cs, cs.name
	p.Base, w.haveURL, w.based = w.self, false, noBase // a base element was decoded wrongly
	return true
}

// labelIn returns the label in the content of a meta element (HTML, 2.6.5).
func labelIn(v []byte) []byte {
	for {
		i := 0
		for i < len(v) && !foldPrefix(v[i:], "charset") {
			i++
		}
		if i == len(v) {
			return nil
		}
		v = bytes.TrimLeft(v[i+len("charset"):], "\t\n\f\r ")
		if len(v) > 0 && v[0] == '=' {
			break
		}
	}
	v = bytes.TrimLeft(v[1:], "\t\n\f\r ")
	if len(v) == 0 {
		return nil
	}
	if q := v[0]; q == '"' || q == '\'' {
		label, _, ok := bytes.Cut(v[1:], []byte{q})
		if !ok {
			return nil
		}
		return label
	}
	if i := bytes.IndexAny(v, "\t\n\f\r ;"); i >= 0 {
		v = v[:i]
	}
	return v
}

// xmlEncoding returns the encoding that an XML declaration at the very start names.
func xmlEncoding(head []byte) []byte {
	if !bytes.HasPrefix(head, []byte("<?xml")) {
		return nil
	}
	decl, _, ok := bytes.Cut(head, []byte(">"))
	if !ok {
		return nil
	}
	_, v, ok := bytes.Cut(decl, []byte("encoding"))
	if !ok {
		return nil
	}
	v = bytes.TrimLeft(v, "\t\n\r ")
	if len(v) == 0 || v[0] != '=' {
		return nil
	}
	v = bytes.TrimLeft(v[1:], "\t\n\r ")
	if len(v) == 0 || v[0] != '"' && v[0] != '\'' {
		return nil
	}
	label, _, ok := bytes.Cut(v[1:], v[:1])
	if !ok {
		return nil
	}
	return label
}

// scannable converts a body so that it can be scanned byte by byte. In most encodings the bytes
// that delimit tags and attributes have no other meaning, so only values need decoding. Bodies in
// the other encodings are converted as a whole.
func (cs charset) scannable(body []byte) ([]byte, charset) {
	switch cs.name {
	case "utf-16le", "utf-16be", "iso-2022-jp", "replacement":
		cs.utf8 = true
		return cs.decode(body), cs
	}
	return body, cs
}

// decode returns v in UTF-8. Bytes that are invalid in the encoding become U+FFFD.
func (cs charset) decode(v []byte) []byte {
	out, err := cs.enc.NewDecoder().Bytes(v)
	if err != nil {
		return nil // the replacement encoding refuses all input
	}
	return out
}

// appendQuery appends q, which is in UTF-8, with non-ASCII characters percent-encoded in the
// document's encoding (URL, 1.3, percent-encode after encoding). A character that the encoding
// lacks becomes a decimal character reference.
func (cs charset) appendQuery(dst, q []byte) []byte {
	const hex = "0123456789ABCDEF"
	enc := encoding.HTMLEscapeUnsupported(cs.enc.NewEncoder())
	for i := 0; i < len(q); {
		if q[i] < utf8.RuneSelf {
			dst = append(dst, q[i])
			i++
			continue
		}
		j := i
		for j < len(q) && q[j] >= utf8.RuneSelf {
			j++
		}
		run, err := enc.Bytes(q[i:j])
		if err != nil {
			run = q[i:j]
		}
		for _, c := range run {
			if letter(c) || '0' <= c && c <= '9' {
				dst = append(dst, c)
			} else {
				dst = append(dst, '%', hex[c>>4], hex[c&15])
			}
		}
		i = j
	}
	return dst
}

func trimBOM(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\xEF\xBB\xBF")) }

// narrow returns the beginning of an XML body in a form in which ASCII can be read, in any
// encoding.
func narrow(b []byte) []byte {
	b = trimBOM(b)
	if !bytes.HasPrefix(b, []byte("\xFE\xFF")) && !bytes.HasPrefix(b, []byte("\xFF\xFE")) &&
		bytes.IndexByte(b[:min(len(b), 4)], 0) < 0 {
		return b
	}
	b = b[:min(len(b), 4<<10)]
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if c != 0 {
			out = append(out, c)
		}
	}
	return out
}
