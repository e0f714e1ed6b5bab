package classify

import (
	"unicode"
	"unicode/utf8"
)

const (
	// maxGrams bounds what grams reads of a text, in bytes: more letters tell little more about its language.
	maxGrams = 512
	// pieces is the number of pieces that grams reads of a longer text.
	pieces = 4
)

// grams replaces the document by the runs of one, two, three and four characters of a text in UTF-8, by which a model
// tells its language. Letters count in lower case; everything else is one space. Of a text of more than maxGrams bytes
// it reads pieces of equal length at equal distances, from the beginning to the end: names or quotations in one place
// then decide less.
func (d *Document) grams(text []byte) {
	d.reset()
	if len(text) <= maxGrams {
		d.piece(text)
		return
	}
	for i := range pieces {
		at := (len(text) - maxGrams/pieces) * i / (pieces - 1)
		d.piece(text[at : at+maxGrams/pieces])
	}
}

// piece counts the runs of a piece of a text. Part of a character at its borders is a space.
func (d *Document) piece(text []byte) {
	r := runs{of: [4]uint64{gram(fnvOffset, ' ')}, n: 1}
	space := true
	for i := 0; i < len(text); {
		c, size := utf8.DecodeRune(text[i:])
		i += size
		switch isLetter := unicode.IsLetter(c) || unicode.IsMark(c); {
		case isLetter:
			space = false
			d.n++
			r.add(d, unicode.ToLower(c))
		case !space:
			space = true
			r.add(d, ' ')
		}
	}
	if !space {
		r.add(d, ' ')
	}
}

// runs are the hashes of the runs that end with the last character: of has those of one to n characters.
type runs struct {
	of [4]uint64
	n  int
}

// add adds a character to all runs, and counts them. A space alone does not count.
func (r *runs) add(d *Document, c rune) {
	for i := min(r.n, len(r.of)-1); i > 0; i-- {
		r.of[i] = gram(r.of[i-1], c)
	}
	r.of[0] = gram(fnvOffset, c)
	r.n = min(r.n+1, len(r.of))
	first := 0
	if c == ' ' {
		first = 1
	}
	for _, h := range r.of[first:r.n] {
		d.count(h)
	}
}

// gram returns the hash of a run of characters and one more: FNV-1a of its UTF-8.
func gram(h uint64, c rune) uint64 {
	if c < utf8.RuneSelf {
		return (h ^ uint64(c)) * fnvPrime
	}
	var b [utf8.UTFMax]byte
	for _, c := range b[:utf8.EncodeRune(b[:], c)] {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return h
}
