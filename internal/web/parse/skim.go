package parse

import "bytes"

// skim is next for HTML outside of foreign content and templates, where end tags and most start
// tags do not matter. It moves past the next start tag in follows; with every, past the
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
				s.skipPast(p, ">")
				i = s.i
				continue
			}
		}
		name := p
		for p < len(b) && class[b[p]]&cNameEnd == 0 {
			p++
		}
		if c != '/' {
			if t = tagOf(b[name:p]); follows[t] || every {
				s.at, s.end = name-1, false
				s.setName(b[name:p])
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

// follows are the elements that matter outside of foreign content if no requisites are wanted: links, statements about
// the page, raw text, templates, and the start of foreign content.
var follows = [nTags]bool{tA: true, tSVG: true, tXmp: true, tArea: true, tBase: true, tLink: true, tMath: true,
	tMeta: true, tFrame: true, tStyle: true, tTitle: true, tIframe: true, tScript: true, tNoembed: true,
	tNoframes: true, tTemplate: true, tTextarea: true, tPlaintext: true}
