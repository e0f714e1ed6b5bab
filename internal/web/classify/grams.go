package classify

import (
	"unicode"
	"unicode/utf8"
)

// maxGrams bounds the part of a text that grams reads, in bytes: more letters tell little more about its language.
const maxGrams = 512

// grams replaces the document by the runs of one, two, three and four characters of a text in UTF-8, by which a model
// tells its language. Letters count in lower case; everything else is one space. Only the first 512 bytes of the text
// are read.
func (d *Document) grams(text []byte) {
	d.reset()
	text = text[:min(len(text), maxGrams)]
	last := [3]rune{0, 0, ' '} // the characters before
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		i += size
		switch {
		case unicode.IsLetter(r) || unicode.IsMark(r):
			r = unicode.ToLower(r)
			d.n++
			d.count(gram(r))
		case last[2] == ' ':
			continue
		default:
			r = ' '
		}
		d.gramsTo(last, r)
		last = [3]rune{last[1], last[2], r}
	}
	if last[2] != ' ' {
		d.gramsTo(last, ' ')
	}
}

// gramsTo counts the runs of two to four characters that end with r.
func (d *Document) gramsTo(last [3]rune, r rune) {
	d.count(gram(last[2], r))
	if last[1] != 0 {
		d.count(gram(last[1], last[2], r))
		if last[0] != 0 {
			d.count(gram(last[0], last[1], last[2], r))
		}
	}
}

// gram returns the hash of a run of characters: FNV-1a of its UTF-8.
func gram(run ...rune) uint64 {
	h := uint64(fnvOffset)
	var b [utf8.UTFMax]byte
	for _, r := range run {
		for _, c := range b[:utf8.EncodeRune(b[:], r)] {
			h = (h ^ uint64(c)) * fnvPrime
		}
	}
	return h
}
