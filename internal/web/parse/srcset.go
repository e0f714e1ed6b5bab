package parse

// srcset adds the image candidates of an attribute.
func (p *Page) srcset(s *scanner, a int, tag string) {
	v, ok := s.attr(a)
	if !ok {
		return
	}
	// Decode the whole value once: a character reference may stand for a space or a comma.
	text := append([]byte(nil), p.value(v)...)
	for ref, rest := nextCandidate(text); ref != nil; ref, rest = nextCandidate(rest) {
		p.addDecoded(ref, 'E', tag)
	}
}

// nextCandidate returns the next URL of a srcset (HTML, 4.8.4.3.10) and the rest. It ignores the
// descriptors. ref is nil at the end.
func nextCandidate(v []byte) (ref, rest []byte) {
	for len(v) > 0 && (space(v[0]) || v[0] == ',') {
		v = v[1:]
	}
	n := 0
	for n < len(v) && !space(v[n]) {
		n++
	}
	if n == 0 {
		return nil, nil
	}
	ref, v = v[:n], v[n:]
	if ref[n-1] == ',' {
		for n > 0 && ref[n-1] == ',' {
			n--
		}
		return ref[:n], v
	}
	// Skip the descriptors, up to a comma outside of parentheses.
	open := false
	for i, c := range v {
		switch {
		case c == '(':
			open = true
		case c == ')':
			open = false
		case c == ',' && !open:
			return ref, v[i+1:]
		}
	}
	return ref, nil
}
