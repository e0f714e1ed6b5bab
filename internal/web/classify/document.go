package classify

import (
	"math/rand/v2"
	"unicode"
	"unicode/utf8"
)

// FNV-1a with 64 bits (RFC 9923): the hash of a term, which model files have in its place.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// letters has the lower case of each ASCII letter, and zero for all other bytes.
var letters = func() (t [utf8.RuneSelf]byte) {
	for c := byte('a'); c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = c, c
	}
	return t
}()

// A Document is a text as features with their counts, as Model.Read makes it. The order of the features is that of
// their first occurrence.
//
// The features of topics are terms. A term is a run of letters in lower case; everything else separates terms. So
// numbers are no terms (paper, section 5). Terms of more than maxTerm bytes, which no language has, count as one
// separator.
type Document struct {
	terms []counted
	table []uint32 // open addressing: index in terms plus one; 0: free
	n     int      // occurrences of all terms, or of letters
	known []numbered
}

// numbered is a term of a document by its number.
type numbered struct{ term, n uint32 }

// counted is a term in a document.
type counted struct {
	hash uint64
	n    uint32
}

// maxTerm bounds the length of a term in bytes of UTF-8.
const maxTerm = 64

// Terms returns the number of occurrences of terms in the text, pairs not included. Of a document for Grams it returns
// the number of letters.
func (d *Document) Terms() int { return d.n }

// words replaces the document by a text in UTF-8. With pairs, it also counts each two adjacent terms as one.
func (d *Document) words(text []byte, pairs bool) {
	d.reset()
	last := uint64(0) // the term before; 0: none
	for i := 0; i < len(text); {
		h, n, from := uint64(fnvOffset), 0, i
		for i < len(text) {
			if c := text[i]; c < utf8.RuneSelf {
				if c = letters[c]; c == 0 {
					break
				}
				h = (h ^ uint64(c)) * fnvPrime
				i++
				continue
			}
			r, size := utf8.DecodeRune(text[i:])
			if !unicode.IsLetter(r) && !unicode.IsMark(r) {
				break
			}
			var b [utf8.UTFMax]byte
			for _, c := range b[:utf8.EncodeRune(b[:], unicode.ToLower(r))] {
				h = (h ^ uint64(c)) * fnvPrime
			}
			i += size
		}
		if n = i - from; n == 0 {
			i++
			for i < len(text) && text[i] >= utf8.RuneSelf && !utf8.RuneStart(text[i]) {
				i++
			}
			continue
		}
		if n > maxTerm {
			last = 0
			continue
		}
		d.n++
		d.count(h)
		if pairs && last != 0 {
			d.count(pairOf(last, h))
		}
		last = h
	}
}

// pairOf returns the hash of two adjacent terms.
func pairOf(a, b uint64) uint64 {
	h := (a ^ b>>1 ^ 0x9E3779B97F4A7C15) * fnvPrime
	return h ^ h>>29 ^ b
}

func (d *Document) reset() {
	if len(d.table) > 1<<16 && len(d.terms) < 1<<10 {
		d.table = nil // of one large page
	}
	clear(d.table)
	d.terms, d.n = d.terms[:0], 0
}

// count counts a term.
func (d *Document) count(h uint64) {
	if 2*len(d.terms) >= len(d.table) {
		d.grow()
	}
	mask := uint64(len(d.table) - 1)
	for s := secretSlot(h) & mask; ; s = (s + 1) & mask {
		switch i := d.table[s]; {
		case i == 0:
			d.terms = append(d.terms, counted{h, 1})
			d.table[s] = uint32(len(d.terms))
			return
		case d.terms[i-1].hash == h:
			d.terms[i-1].n++
			return
		}
	}
}

func (d *Document) grow() {
	d.table = make([]uint32, max(1<<11, 2*len(d.table)))
	mask := uint64(len(d.table) - 1)
	for i, t := range d.terms {
		s := secretSlot(t.hash) & mask
		for d.table[s] != 0 {
			s = (s + 1) & mask
		}
		d.table[s] = uint32(i + 1)
	}
}

// slot spreads a hash: the low bits of FNV depend on the last letters most.
func slot(h uint64) uint64 { return h ^ h>>32 }

// secret is of this process. So no page can be made of terms that share a slot of Document.table.
var secret = rand.Uint64()

func secretSlot(h uint64) uint64 {
	h = (h ^ secret) * 0x9fb21c651e98df25
	return h ^ h>>32
}
