package report

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"slices"
	"strings"
)

// A names is a table of counts by name, for a million names and more. Only its index is ever moved, and the garbage
// collector sees few pointers. A host of 17 letters takes 40 bytes of counts, 19 of name and 11 to 21 of index. The
// table can hold 4 GB of names. It keeps the order in which names were added.
type names[V any] struct {
	// A slot has the upper half of the hash and, in the lower half, the number of the entry plus one; 0: free. The
	// number of slots is a power of two.
	slots   []uint64
	entries [][]entry[V] // pieces of namesPiece entries
	count   int
	text    [][]byte // pieces of textPiece bytes: for each name its length in two bytes, and its bytes
}

type entry[V any] struct {
	name uint32 // place in text: the number of the piece, and in the lowest textBits the offset in it
	v    V
}

const (
	namesPiece = 1 << 10
	textBits   = 16
	textPiece  = 1 << textBits
	longName   = 4 << 10 // bytes; a longer name is cut
)

var namesSeed = maphash.MakeSeed()

func (t *names[V]) entry(i int) *entry[V] { return &t.entries[i/namesPiece][i%namesPiece] }

func (t *names[V]) name(i int) []byte {
	place := t.entry(i).name
	b := t.text[place>>textBits][place&(textPiece-1):]
	return b[2 : 2+binary.LittleEndian.Uint16(b)]
}

// slot returns the place of name in slots and its entry's number. If the name is not there, ok is false and at is the
// place that it would get.
func (t *names[V]) slot(name string, h uint64) (at, number int, ok bool) {
	mask := len(t.slots) - 1
	for at = int(h) & mask; t.slots[at] != 0; at = (at + 1) & mask {
		if s := t.slots[at]; s>>32 == h>>32 {
			if i := int(uint32(s)) - 1; string(t.name(i)) == name {
				return at, i, true
			}
		}
	}
	return at, 0, false
}

// find returns name's counts, or nil if the name is not in the table.
func (t *names[V]) find(name string) *V {
	if t.count == 0 {
		return nil
	}
	name = name[:min(len(name), longName)]
	if _, i, ok := t.slot(name, maphash.String(namesSeed, name)); ok {
		return &t.entry(i).v
	}
	return nil
}

// findOrAdd returns name's counts. It adds the name if it is not in the table.
func (t *names[V]) findOrAdd(name string) *V {
	if 4*(t.count+1) > 3*len(t.slots) {
		t.grow()
	}
	name = name[:min(len(name), longName)]
	h := maphash.String(namesSeed, name)
	at, i, ok := t.slot(name, h)
	if ok {
		return &t.entry(i).v
	}
	i = t.count
	t.count++
	if i%namesPiece == 0 {
		t.entries = append(t.entries, make([]entry[V], namesPiece))
	}
	last := len(t.text) - 1
	if last < 0 || len(t.text[last])+2+len(name) > textPiece {
		t.text = append(t.text, make([]byte, 0, textPiece))
		last++
	}
	e := t.entry(i)
	e.name = uint32(last<<textBits | len(t.text[last]))
	t.text[last] = append(binary.LittleEndian.AppendUint16(t.text[last], uint16(len(name))), name...)
	t.slots[at] = h&^(1<<32-1) | uint64(i+1)
	return &e.v
}

func (t *names[V]) grow() {
	t.slots = make([]uint64, max(2*len(t.slots), 64))
	mask := len(t.slots) - 1
	for i := range t.count {
		h := maphash.Bytes(namesSeed, t.name(i))
		at := int(h) & mask
		for t.slots[at] != 0 {
			at = (at + 1) & mask
		}
		t.slots[at] = h&^(1<<32-1) | uint64(i+1)
	}
}

// all iterates over the names in the order in which they were added. A name is valid as long as t.
func (t *names[V]) all() iter.Seq2[[]byte, *V] {
	return func(yield func([]byte, *V) bool) {
		for i := range t.count {
			if !yield(t.name(i), &t.entry(i).v) {
				return
			}
		}
	}
}

// descending iterates over the numbers of the entries, sorted by descending count and then by name.
func (t *names[V]) descending(n func(*V) int64) iter.Seq2[int, int] {
	type key struct {
		n     int64
		entry uint32
	}
	keys := make([]key, t.count)
	for i := range keys {
		keys[i] = key{n(&t.entry(i).v), uint32(i)}
	}
	slices.SortFunc(keys, func(a, b key) int {
		if a.n != b.n {
			return cmp.Compare(b.n, a.n)
		}
		return bytes.Compare(t.name(int(a.entry)), t.name(int(b.entry)))
	})
	return func(yield func(int, int) bool) {
		for i, k := range keys {
			if !yield(i, int(k.entry)) {
				return
			}
		}
	}
}

// MIME returns type and subtype of a Content-Type in lower case. It returns "unknown" if there is none, and "invalid"
// if it does not have the form of RFC 9110, 8.3.1.
func MIME(contentType string) string {
	s, _, _ := strings.Cut(contentType, ";")
	s = strings.ToLower(strings.TrimSpace(s))
	if s == "" || s == "unknown" {
		return "unknown"
	}
	kind, sub, ok := strings.Cut(s, "/")
	if !ok || !token(kind) || !token(sub) || len(s) > maxName {
		return "invalid"
	}
	return s
}

func token(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != "" && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= '0' && s[0] <= '9')
}
