// Package near answers: how similar are the texts of two pages?
//
//	text -> words -> shingles (5 words) -> Sketch -> bands: keys that similar texts share
//	                                    |        `-> Similarity of two Sketches
//	                                    `-> Least: a hash that similar texts probably share
//
// The similarity is the Jaccard coefficient of the two sets of shingles (Broder: "On the resemblance and containment
// of documents", 1997): the number of shingles that both texts have, divided by the number that either has. A Sketch
// has two parts: one finds texts that may be similar, the other estimates how similar they are.
//
// The bands are a MinHash by fast similarity sketching (Dahlgaard, Knudsen, Thorup: "Fast similarity sketching", FOCS
// 2017): the hash of a shingle chooses one of 192 places, and the least hash of each place counts. If places are left,
// another round of hashes fills them, so that short texts are found as well as long ones. Of each hash 4 bits remain
// (Li, König: "b-bit minwise hashing", WWW 2010).
//
// The estimate comes from an odd sketch (Mitzenmacher, Pagh, Pham: "Efficient estimation for high similarities using
// odd sketches", WWW 2014): each shingle flips one of 1,024 bits. So the shingles that both texts have leave no trace
// in the bits that differ, and the number of these bits tells how many shingles only one text has. Of a text with more
// than 2,048 shingles, those with the least hashes count. At a similarity of 0.9, the standard error is about 0.004 for
// 1,000 shingles and at most about 0.01.
//
// A word is a run of letters, marks and digits, in lower case. In scripts without spaces between words, each character
// is a word. For a Sketch, it is a word together with the characters before it, so that a shingle is about as long as
// five real words. For LeastHash it is a word alone.
//
// The hashes do not change between versions of the program, because indexes on disk have them, and because agents of
// two versions must agree on LeastHash. One change was made: earlier versions made the Sketch of a text in such a
// script of single characters. So an old Sketch of such a text matches no Sketch of this version.
//
// The package does no I/O. A Sketch is a value. A Scratch belongs to one goroutine.
package near

import (
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
)

const (
	// Width is the number of words in a shingle.
	Width = 5
	// Least is the number of shingles below which a text has no Sketch: in a short text, one word decides.
	Least = 24
	// Bytes is the size of a Sketch.
	Bytes = bandBytes + oddBytes + countBytes

	// A band is the hash of some places. Texts of similarity s share a band with probability p^bandRows, where
	// p = s + (1-s)/16, and one of all bands with probability 1 - (1-p^bandRows)^Bands: 0.997 at 0.9, 0.02 at 0.5.
	bandRows = 12
	// Bands is the number of bands.
	Bands     = 16
	places    = Bands * bandRows
	bandBytes = places / 2

	oddBytes   = 128
	oddBits    = oddBytes * 8
	countBytes = 4
	// sample is the number of shingles of a text that flip bits, at most. A difference of 10 % then flips about 200.
	sample = 2048
)

// A Sketch stands for the text of a page: the hashes of 192 places, 4 bits each; the 1,024 bits of the odd sketch; the
// number of different shingles, little-endian.
type Sketch [Bytes]byte

// A Scratch is memory for Of and LeastHash. The zero value is ready.
type Scratch struct {
	word     []byte
	shingles []uint64 // hashes
	known    []uint64 // a hash table of shingles; 0 is an empty slot
	least    [places]uint64
	round    [places]int // in which the place was filled
}

// maxKept bounds the shingles for which memory is kept.
const maxKept = 1 << 17

// Of returns the Sketch of a text in UTF-8. ok is false if the text has fewer shingles than Least.
func (m *Scratch) Of(text []byte) (s Sketch, ok bool) {
	if m.shingle(text, true); len(m.shingles) < Least {
		return s, false
	}
	m.dedupe()
	m.fill()
	for i, h := range m.least {
		s[i/2] |= byte(mix(h)&15) << (i % 2 * 4)
	}
	binary.LittleEndian.PutUint32(s[bandBytes+oddBytes:], uint32(len(m.shingles)))
	if len(m.shingles) > sample {
		slices.Sort(m.shingles)
		m.shingles = m.shingles[:sample]
	}
	odd := s[bandBytes : bandBytes+oddBytes]
	for _, h := range m.shingles {
		bit := mix(h+golden) % oddBits
		odd[bit/8] ^= 1 << (bit % 8)
	}
	return s, true
}

// LeastHash returns the least hash of the shingles of a text. Two texts have the same one with a probability that is
// their similarity (Broder). ok is false if the text has no shingle.
func (m *Scratch) LeastHash(text []byte) (h uint64, ok bool) {
	if m.shingle(text, false); len(m.shingles) == 0 {
		return 0, false
	}
	return mix(slices.Min(m.shingles)), true
}

// shingle sets the hashes of the shingles of a text. The method words says what joined means.
func (m *Scratch) shingle(text []byte, joined bool) {
	if m.shingles = m.shingles[:0]; cap(m.shingles) > maxKept {
		m.shingles, m.known = nil, nil
	}
	var last [Width]uint64 // hashes of the last words, a ring
	words := 0
	m.words(text, joined, func(w uint64) {
		last[words%Width] = w
		if words++; words < Width {
			return
		}
		h := uint64(0)
		for i := range Width {
			h = mix(h ^ last[(words+i)%Width])
		}
		m.shingles = append(m.shingles, h)
	})
}

// secret is of this process. So no page can be made of shingles that share a slot.
var secret = rand.Uint64()

// dedupe removes the hashes of shingles that occur again.
func (m *Scratch) dedupe() {
	slots := 1 << bits.Len(uint(2*len(m.shingles)))
	shift := 64 - bits.TrailingZeros(uint(slots))
	if cap(m.known) < slots {
		m.known = make([]uint64, slots)
	}
	known := m.known[:slots]
	clear(known)
	once := m.shingles[:0]
	for _, h := range m.shingles {
		h = max(h, 1)
		at := mix(h^secret) >> shift
		for known[at] != 0 && known[at] != h {
			at = (at + 1) % uint64(slots)
		}
		if known[at] == 0 {
			known[at] = h
			once = append(once, h)
		}
	}
	m.shingles = once
}

// fill fills all places. In round i it fills those that are left after the rounds before. From round `places` on, each
// round fills one place for certain.
func (m *Scratch) fill() {
	for i := range m.round {
		m.round[i] = 2 * places
	}
	left := places
	for round := 0; left > 0; round++ {
		for _, s := range m.shingles {
			h := s
			if round > 0 {
				h = mix(s + uint64(round)*golden)
			}
			hi, _ := bits.Mul64(h, places)
			place := int(hi)
			if round >= places {
				place = round - places
			}
			switch {
			case m.round[place] > round:
				m.round[place], m.least[place] = round, h
				left--
			case m.round[place] == round:
				m.least[place] = min(m.least[place], h)
			}
		}
	}
}

// words calls fn with the hash of each word of a text. If joined is true, the words of an unspaced script are joined
// with the characters before them.
func (m *Scratch) words(text []byte, joined bool, fn func(uint64)) {
	var last run
	end := func() {
		if len(m.word) > 0 {
			fn(mix(xxhash.Sum64(m.word)))
			m.word, last.script = m.word[:0], nil
		}
	}
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			i++
			switch {
			case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
				m.word = append(m.word, c)
			case 'A' <= c && c <= 'Z':
				m.word = append(m.word, c+'a'-'A')
			default:
				end()
			}
			continue
		}
		r, n := utf8.DecodeRune(text[i:])
		i += n
		script := scriptOf(r)
		if unicode.Is(longVowel, r) && !joined {
			script = nil
		}
		switch {
		case script != nil:
			end()
			c := mix(xxhash.Sum64(text[i-n : i]))
			if joined {
				c = last.add(script, c)
			}
			fn(c)
		case unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r):
			m.word = utf8.AppendRune(m.word, unicode.ToLower(r))
		default:
			end()
		}
	}
	end()
}

// An unspaced is a group of scripts without spaces between words. Their real words have about the same length.
type unspaced struct {
	tables []*unicode.RangeTable
	// joined is how many characters are joined in a word. If a real word of n characters changes, so do n+joined+3
	// shingles. Of shingles of five real words five would change, which are as many as 5n of ours. So joined is 4n-3.
	joined int
	// power is golden to the power of joined.
	power uint64
}

// maxJoined bounds joined.
const maxJoined = 17

// unspaceds are the scripts without spaces. Real words have 1.6 characters in Chinese, 1.7 in Japanese and 4.9 in Thai.
var unspaceds = []*unspaced{
	newUnspaced(4, unicode.Han, unicode.Hiragana, unicode.Katakana, longVowel),
	newUnspaced(maxJoined, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar),
}

// longVowel has the marks for a long vowel in kana, which belong to no script. LeastHash takes them for letters.
var longVowel = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 'ー', Hi: 'ー', Stride: 1}, {Lo: 'ｰ', Hi: 'ｰ', Stride: 1},
}}

func newUnspaced(joined int, tables ...*unicode.RangeTable) *unspaced {
	s := &unspaced{tables: tables, joined: joined, power: 1}
	for range joined {
		s.power *= golden
	}
	return s
}

// scriptOf returns the unspaced script of a character, or nil.
func scriptOf(r rune) *unspaced {
	for _, s := range unspaceds {
		if unicode.In(r, s.tables...) {
			return s
		}
	}
	return nil
}

// A run is the last characters of a text in an unspaced script.
type run struct {
	script *unspaced // nil: the last word was of another script
	n      int
	last   [maxJoined]uint64 // the hashes of the characters, a ring
	sum    uint64            // of the last ones, times powers of golden
}

// add returns the hash of the characters that end with one whose hash is c.
func (r *run) add(script *unspaced, c uint64) uint64 {
	if r.script != script {
		*r = run{script: script}
	}
	first := &r.last[r.n%script.joined]
	r.sum = r.sum*golden + c - *first*script.power
	*first = c
	r.n++
	return mix(r.sum)
}

// mix spreads the bits of a hash: the finalizer of MurmurHash3.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// golden is 2^64 divided by the golden ratio. Its multiples make other hashes of a hash.
const golden = 0x9E3779B97F4A7C15

// Similarity estimates the Jaccard coefficient of the shingles of two texts.
//
// If d of the sampled shingles belong to one text only, a share of (1 - exp(-2d/oddBits)) / 2 of the bits differ on
// average. A shingle that both texts have is in both samples if it is in that of the longer text, which is sparser.
func Similarity(a, b *Sketch) float64 {
	differ := 0
	for i := bandBytes; i < bandBytes+oddBytes; i++ {
		differ += bits.OnesCount8(a[i] ^ b[i])
	}
	na, nb := float64(a.shingles()), float64(b.shingles())
	if differ >= oddBits/2 || na+nb == 0 {
		return 0
	}
	d := -oddBits / 2 * math.Log1p(-2*float64(differ)/oddBits)
	common := (min(na, sample) + min(nb, sample) - d) / 2 * max(1, na/sample, nb/sample)
	common = min(common, na, nb)
	return max(0, common/(na+nb-common))
}

// shingles returns the number of different shingles of the text.
func (s *Sketch) shingles() uint32 { return binary.LittleEndian.Uint32(s[bandBytes+oddBytes:]) }

// Keys returns the keys of the bands. Texts that share a key may be similar. A key includes the number of its band.
func (s *Sketch) Keys() (keys [Bands]uint64) {
	for i := range keys {
		h := uint64(i + 1)
		for _, b := range s[i*bandRows/2 : (i+1)*bandRows/2] {
			h = bits.RotateLeft64(h, 8) ^ uint64(b)
		}
		keys[i] = mix(h)
	}
	return keys
}
