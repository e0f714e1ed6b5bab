package parse

import (
	"bytes"
	"html"
	"unicode/utf8"
)

// appendCharRef reads a character reference of an attribute value. v begins with its "&". It
// appends the replacement and returns the number of bytes that it read. If v begins no reference,
// the replacement is an ampersand (HTML, 13.2.5.72 to 13.2.5.80).
func appendCharRef(dst, v []byte) ([]byte, int) {
	if len(v) > 2 && v[1] == '#' {
		return appendNumeric(dst, v)
	}
	n := 1
	for n < len(v) && n <= maxEntity && (letter(v[n]) || '0' <= v[n] && v[n] <= '9') {
		n++
	}
	name := v[1:n]
	if len(name) < 2 {
		return append(dst, '&'), 1
	}
	closed := n < len(v) && v[n] == ';'
	if !closed {
		// In attributes, a name without its semicolon counts only if it cannot be the name of a
		// query parameter.
		if n < len(v) && v[n] == '=' || !bare[string(name)] {
			return append(dst, '&'), 1
		}
	} else {
		n++
	}
	switch string(name) {
	case "amp", "AMP":
		return append(dst, '&'), n
	case "quot", "QUOT":
		return append(dst, '"'), n
	case "lt", "LT":
		return append(dst, '<'), n
	case "gt", "GT":
		return append(dst, '>'), n
	case "semi":
		return append(dst, ';'), n
	}
	ref := "&" + string(name) + ";"
	out := html.UnescapeString(ref)
	if out == ref || out[len(out)-1] == ';' {
		// The name is unknown, or only its beginning is known, which does not count in attributes.
		return append(dst, '&'), 1
	}
	return append(dst, out...), n
}

// maxEntity is the length of the longest name, CounterClockwiseContourIntegral.
const maxEntity = 31

func appendNumeric(dst, v []byte) ([]byte, int) {
	n, x := 2, rune(0)
	digits := n
	if v[n] == 'x' || v[n] == 'X' {
		n++
		digits = n
		for ; n < len(v); n++ {
			d := bytes.IndexByte([]byte("0123456789abcdef"), v[n]|0x20)
			if d < 0 || v[n] < '0' {
				break
			}
			x = min(x*16+rune(d), utf8.MaxRune+1)
		}
	} else {
		for ; n < len(v) && '0' <= v[n] && v[n] <= '9'; n++ {
			x = min(x*10+rune(v[n]-'0'), utf8.MaxRune+1)
		}
	}
	if n == digits {
		return append(dst, '&'), 1
	}
	if n < len(v) && v[n] == ';' {
		n++
	}
	if 0x80 <= x && x < 0xA0 {
		x = windows1252[x-0x80]
	}
	if x == 0 {
		x = utf8.RuneError
	}
	return utf8.AppendRune(dst, x), n
}

// windows1252 are the characters that references to C1 controls stand for (HTML, 13.2.5.80).
var windows1252 = [32]rune{
	0x20AC, 0x81, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
	0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D, 0x017D, 0x8F,
	0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
	0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D, 0x017E, 0x0178,
}

// bare are the names that count without a semicolon (HTML, 13.5).
var bare = func() map[string]bool {
	m := make(map[string]bool, 106)
	for _, n := range bytes.Fields([]byte(`
		AElig AMP Aacute Acirc Agrave Aring Atilde Auml COPY Ccedil ETH Eacute
		Ecirc Egrave Euml GT Iacute Icirc Igrave Iuml LT Ntilde Oacute Ocirc
		Ograve Oslash Otilde Ouml QUOT REG THORN Uacute Ucirc Ugrave Uuml Yacute
		aacute acirc acute aelig agrave amp aring atilde auml brvbar ccedil
		cedil cent copy curren deg divide eacute ecirc egrave eth euml frac12
		frac14 frac34 gt iacute icirc iexcl igrave iquest iuml laquo lt macr
		micro middot nbsp not ntilde oacute ocirc ograve ordf ordm oslash otilde
		ouml para plusmn pound quot raquo reg sect shy sup1 sup2 sup3 szlig
		thorn times uacute ucirc ugrave uml uuml yacute yen yuml`)) {
		m[string(n)] = true
	}
	return m
}()
