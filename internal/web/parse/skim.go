package parse

import "bytes"

// skim is next for HTML outside of foreign content and templates, where end tags and most start
// tags do not matter. It moves past the next start tag that followed knows; with every, past the
// next start tag of any name. It finds the end of every other tag as next does, but reads nothing
// else of it.
func (s *scanner) skim(every bool) (t tag, ok bool) {
	b := s.b
	i := s.i
	for {
		// Tags often stand next to each other.
		if i >= len(b) || b[i] != '<' {
			j := bytes.IndexByte(b[i:], '<')
			if j < 0 {
				break
			}
			i += j
		}
		p := i + 1
		if p >= len(b) {
			break
		}
		c := b[p]
		if !letter(c) {
			if c != '/' {
				if c == '!' || c == '?' {
					s.markup(p)
					i = s.i
				} else {
					i = p
				}
				continue
			}
			if p++; p >= len(b) {
				break
			}
			if !letter(b[p]) {
				s.skipTo(p, '>')
				i = s.i
				continue
			}
		}
		name := p
		for p < len(b) && class[b[p]]&cNameEnd == 0 {
			p++
		}
		if c != '/' {
			if t = followed(b[name:p]); t != tOther || every {
				s.at, s.end = name-1, false
				s.setName(b[name:p])
				if every {
					t = tagOf(s.name())
				}
				return t, s.attributes(p, true)
			}
		}
		if p < len(b) && b[p] == '>' {
			i = p + 1
			continue
		}
		if !s.attributes(p, false) {
			break
		}
		i = s.i
	}
	s.i = len(b)
	return tOther, false
}

// followed is tagOf for a name in any letter case. It knows only the elements that matter outside
// of foreign content if no requisites are wanted: links, statements about the page, raw text,
// templates, and the start of foreign content.
func followed(n []byte) tag {
	switch len(n) {
	case 1:
		if n[0]|0x20 == 'a' {
			return tA
		}
	case 3:
		switch {
		case fold(n, "svg"):
			return tSVG
		case fold(n, "xmp"):
			return tXmp
		}
	case 4:
		switch four(n) {
		case nArea:
			return tArea
		case nBase:
			return tBase
		case nLink:
			return tLink
		case nMath:
			return tMath
		case nMeta:
			return tMeta
		}
	case 5:
		switch four(n) {
		case nFram:
			if n[4]|0x20 == 'e' {
				return tFrame
			}
		case nStyl:
			if n[4]|0x20 == 'e' {
				return tStyle
			}
		case nTitl:
			if n[4]|0x20 == 'e' {
				return tTitle
			}
		}
	case 6:
		switch {
		case fold(n, "iframe"):
			return tIframe
		case fold(n, "script"):
			return tScript
		}
	case 7:
		if fold(n, "noembed") {
			return tNoembed
		}
	case 8:
		switch {
		case fold(n, "noframes"):
			return tNoframes
		case fold(n, "template"):
			return tTemplate
		case fold(n, "textarea"):
			return tTextarea
		}
	case 9:
		if fold(n, "plaintext") {
			return tPlaintext
		}
	}
	return tOther
}
