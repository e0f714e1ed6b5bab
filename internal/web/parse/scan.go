package parse

import "bytes"

// scanner splits a body in an ASCII-compatible encoding into tags, by the states of HTML, 13.2.5.
// It does not allocate. It builds no tree: its user decides when the text after a tag is raw and
// whether CDATA sections count.
type scanner struct {
	b []byte
	i int // the next byte to read
	// xml switches to XML's rules: CDATA everywhere, processing instructions up to "?>", an
	// internal subset in the DOCTYPE.
	xml bool
	// cdata is set if CDATA sections count here, as in foreign content.
	cdata bool
	// spaces gets the declarations of namespaces; nil: nobody does.
	spaces *nesting

	// The last tag.
	at          int  // offset of its "<"
	end         bool // </name>
	selfClosing bool
	nameLen     uint8
	lowered     [maxName]byte // its name, nameLen bytes
	has         uint32        // which of attrs are set
	attrs       [nAttrs]span
}

// name returns the last tag's name in lower case. It is valid until the next tag. A name longer
// than maxName is cut.
func (s *scanner) name() []byte { return s.lowered[:s.nameLen] }

// maxName is a length in bytes; no element that matters here has a longer name.
const maxName = 24

type span struct{ from, to int }

// The attributes that are kept.
const (
	aOther = iota
	aHref
	aSrc
	aSrcset
	aRel
	aContent
	aName
	aHTTPEquiv
	aData
	aPoster
	aStyle
	aType
	aBackground
	aXlinkHref
	aShadowRootMode
	aImageSrcset
	aEncoding
	aFontLook // color, face or size: they make font an HTML element in foreign content
	aXMLBase
	aURL
	aIsPermaLink
	aCharset
	aAlt
	aSrcdoc
	aLang
	nAttrs
)

// four returns the first four bytes of n, with letters in lower case. It equals four lower-case
// letters only if n has these letters. n must have at least four bytes.
func four(n []byte) uint32 {
	_ = n[3]
	return (uint32(n[0]) | uint32(n[1])<<8 | uint32(n[2])<<16 | uint32(n[3])<<24) | 0x20202020
}

const nHref = 'h' | 'r'<<8 | 'e'<<16 | 'f'<<24

var attrNames = newNames([]string{
	aHref: "href", aSrc: "src", aSrcset: "srcset", aRel: "rel", aContent: "content", aName: "name",
	aHTTPEquiv: "http-equiv", aData: "data", aPoster: "poster", aStyle: "style", aType: "type",
	aBackground: "background", aXlinkHref: "xlink:href", aShadowRootMode: "shadowrootmode",
	aImageSrcset: "imagesrcset", aEncoding: "encoding", aFontLook: "color face size", aXMLBase: "xml:base", aURL: "url",
	aIsPermaLink: "ispermalink", aCharset: "charset", aAlt: "alt", aSrcdoc: "srcdoc", aLang: "lang xml:lang",
})

// attr returns the raw value of an attribute of the last tag.
func (s *scanner) attr(a int) (v []byte, ok bool) {
	if s.has&(1<<a) == 0 {
		return nil, false
	}
	sp := s.attrs[a]
	return s.b[sp.from:sp.to], true
}

// next moves to the end of the next tag. It returns false at the end of the body. A tag that the
// end cuts off does not count (HTML, 13.2.5, eof-in-tag).
func (s *scanner) next() bool {
	for {
		j := bytes.IndexByte(s.b[s.i:], '<')
		if j < 0 {
			break
		}
		p := s.i + j + 1
		if p >= len(s.b) {
			break
		}
		s.at = p - 1
		switch c := s.b[p]; {
		case letter(c):
			s.end = false
			return s.tag(p)
		case c == '/':
			if p+1 >= len(s.b) {
				s.i = len(s.b)
				return false
			}
			if letter(s.b[p+1]) {
				s.end = true
				return s.tag(p + 1)
			}
			s.skipPast(p+1, ">")
		case c == '!' || c == '?':
			s.markup(p)
		default:
			if s.xml && (c == '_' || c == ':' || c >= 0x80) {
				s.end = false
				return s.tag(p)
			}
			s.i = p
		}
	}
	s.i = len(s.b)
	return false
}

// upToTag returns the source from the scanner's position to the next tag.
func (s *scanner) upToTag() []byte {
	in := scanner{b: s.b, i: s.i, xml: s.xml, cdata: s.cdata}
	if !in.next() {
		return s.b[s.i:]
	}
	return s.b[s.i:in.at]
}

// skipPast moves past the first stop at or after p, or to the end.
func (s *scanner) skipPast(p int, stop string) {
	if j := bytes.Index(s.b[p:], []byte(stop)); j >= 0 {
		s.i = p + j + len(stop)
		return
	}
	s.i = len(s.b)
}

// markup skips a declaration, comment or instruction. p is the position of its "!" or "?".
func (s *scanner) markup(p int) {
	instruction := s.b[p] == '?'
	p++
	rest := s.b[p:]
	switch {
	case instruction && s.xml:
		s.skipPast(p, "?>")
	case instruction:
		s.skipPast(p, ">")
	case bytes.HasPrefix(rest, []byte("--")):
		s.comment(p + 2)
	case (s.cdata || s.xml) && bytes.HasPrefix(rest, []byte("[CDATA[")):
		s.skipPast(p+7, "]]>")
	case s.xml && foldPrefix(rest, "doctype"):
		s.doctype(p + 7)
	default:
		s.skipPast(p, ">")
	}
}

// doctype skips an XML document type declaration with its internal subset. It reads nothing from
// it, so a document cannot declare an entity.
func (s *scanner) doctype(p int) {
	j := bytes.IndexAny(s.b[p:], "[>")
	if j < 0 {
		s.i = len(s.b)
		return
	}
	if s.b[p+j] == '>' {
		s.i = p + j + 1
		return
	}
	for q := p + j + 1; ; {
		k := bytes.IndexByte(s.b[q:], ']')
		if k < 0 {
			s.i = len(s.b)
			return
		}
		for q += k + 1; q < len(s.b) && space(s.b[q]); q++ {
		}
		if q < len(s.b) && s.b[q] == '>' {
			s.i = q + 1
			return
		}
	}
}

// comment skips a comment. p is the position after "<!--". The comment ends at "-->" or "--!>". The
// dashes that open it count, so "<!-->" and "<!--->" are complete comments.
func (s *scanner) comment(p int) {
	if bytes.HasPrefix(s.b[p:], []byte(">")) {
		s.i = p + 1
		return
	}
	if bytes.HasPrefix(s.b[p:], []byte("->")) {
		s.i = p + 2
		return
	}
	for from := p; ; {
		j := bytes.IndexByte(s.b[p:], '>')
		if j < 0 {
			s.i = len(s.b)
			return
		}
		p += j + 1
		if c := s.b[from : p-1]; bytes.HasSuffix(c, []byte("--")) ||
			!s.xml && bytes.HasSuffix(c, []byte("--!")) {
			s.i = p
			return
		}
	}
}

// Classes of bytes within a tag.
const (
	cSpace    = 1 << iota // tab, LF, FF, CR, space
	cNameEnd              // ends a tag's name: space / >
	cAttrEnd              // ends an attribute's name: space / > =
	cValueEnd             // ends an unquoted value: space >
	cPlain                // stands for itself in a reference
)

var class = func() (t [256]byte) {
	for c := range t {
		switch {
		case space(byte(c)):
			t[c] = cSpace | cNameEnd | cAttrEnd | cValueEnd
		case c == '/':
			t[c] = cNameEnd | cAttrEnd
		case c == '>':
			t[c] = cNameEnd | cAttrEnd | cValueEnd
		case c == '=':
			t[c] = cAttrEnd
		}
		if c > ' ' && c < 0x7f && c != '&' && c != '#' {
			t[c] |= cPlain
		}
	}
	return t
}()

// tag reads a tag whose name begins at p.
func (s *scanner) tag(p int) bool {
	b := s.b
	from := p
	for p < len(b) && class[b[p]]&cNameEnd == 0 {
		p++
	}
	s.setName(b[from:p])
	return s.attributes(p, true)
}

// attributes reads the rest of a tag whose name ends at p. If keep is set, it keeps the attributes.
func (s *scanner) attributes(p int, keep bool) bool {
	b := s.b
	s.has = 0
	s.selfClosing = false
	for p < len(b) {
		c := b[p]
		if class[c]&cSpace != 0 {
			p++
			continue
		}
		if c == '>' {
			s.i = p + 1
			return true
		}
		if c == '/' {
			p++
			if p < len(b) && b[p] == '>' {
				s.selfClosing = true
			}
			continue
		}
		if keep && p+6 < len(b) && four(b[p:]) == nHref && b[p+4] == '=' && b[p+5] == '"' {
			// Most kept attributes have this form.
			p += 6
			j := bytes.IndexByte(b[p:], '"')
			if j < 0 {
				break
			}
			if s.has&(1<<aHref) == 0 {
				s.has |= 1 << aHref
				s.attrs[aHref] = span{p, p + j}
			}
			p += j + 1
			continue
		}
		// An equals sign at the front belongs to the name.
		name := p
		p++
		for p < len(b) && class[b[p]]&cAttrEnd == 0 {
			p++
		}
		nameEnd := p
		for p < len(b) && class[b[p]]&cSpace != 0 {
			p++
		}
		if p >= len(b) {
			break
		}
		value := span{p, p}
		if b[p] == '=' {
			for p++; p < len(b) && class[b[p]]&cSpace != 0; p++ {
			}
			if p >= len(b) {
				break
			}
			switch q := b[p]; q {
			case '"', '\'':
				p++
				j := bytes.IndexByte(b[p:], q)
				if j < 0 {
					s.i = len(b)
					return false
				}
				value = span{p, p + j}
				p += j + 1
			case '>':
				value = span{p, p}
			default:
				from := p
				for p < len(b) && class[b[p]]&cValueEnd == 0 {
					p++
				}
				value = span{from, p}
			}
		}
		if !keep {
			continue
		}
		a := attrNames.find(b[name:nameEnd])
		if s.spaces != nil {
			s.spaces.declare(b[name:nameEnd], b[value.from:value.to])
		}
		if a == aOther && s.xml && nameEnd-name > len(":href") && fold(b[nameEnd-len(":href"):nameEnd], ":href") {
			a = aXlinkHref // with another prefix
		}
		// Of several attributes with one name, the first counts.
		if a != aOther && s.has&(1<<a) == 0 {
			s.has |= 1 << a
			s.attrs[a] = value
		}
	}
	s.i = len(b)
	return false
}

func (s *scanner) setName(n []byte) {
	s.nameLen = uint8(copy(s.lowered[:], n))
	for i, c := range s.name() {
		s.lowered[i] = lower(c)
	}
}

// rawText moves to the end tag of name (13.2.5.9 to 13.2.5.14) and returns the text before it.
// Without an end tag it moves to the end of the body.
func (s *scanner) rawText(name string) []byte {
	from := s.i
	for p := s.i; ; {
		j := bytes.IndexByte(s.b[p:], '<')
		if j < 0 {
			s.i = len(s.b)
			return s.b[from:]
		}
		p += j + 1
		if s.endTagAt(p, name) {
			s.i = p - 1
			return s.b[from : p-1]
		}
	}
}

// endTagAt reports whether "/name" and the end of a tag's name stand at p.
func (s *scanner) endTagAt(p int, name string) bool {
	return p < len(s.b) && s.b[p] == '/' && s.nameAt(p+1, name)
}

func (s *scanner) nameAt(p int, name string) bool {
	q := p + len(name)
	return q < len(s.b) && class[s.b[q]]&cNameEnd != 0 && fold(s.b[p:q], name)
}

// script moves to the end tag of a script. It follows the escaped states (13.2.5.15 to 13.2.5.31):
// within "<!--", a "<script" makes the next "</script" part of the text.
func (s *scanner) script() {
	const (
		plain = iota
		escaped
		doubled
	)
	state, dashes := plain, 0
	for p := s.i; p < len(s.b); {
		if state == plain {
			j := bytes.IndexByte(s.b[p:], '<')
			if j < 0 {
				break
			}
			p += j
		}
		switch c := s.b[p]; c {
		case '-':
			dashes++
			p++
			continue
		case '>':
			if dashes >= 2 {
				state = plain
			}
			p++
		case '<':
			p++
			switch {
			case state != doubled && s.endTagAt(p, "script"):
				s.i = p - 1
				return
			case state == plain && bytes.HasPrefix(s.b[p:], []byte("!--")):
				state, dashes = escaped, 2
				p += 3
				continue
			case state == escaped && s.nameAt(p, "script"):
				state = doubled
				p += len("script") + 1
			case state == doubled && s.endTagAt(p, "script"):
				state = escaped
				p += len("/script") + 1
			}
		default:
			p++
		}
		dashes = 0
	}
	s.i = len(s.b)
}
