package classify

import (
	"hash/fnv"
	"maps"
	"strings"
	"testing"
)

// hashOf returns the hash of a term by the standard library.
func hashOf(term string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(term))
	return h.Sum64()
}

// counts returns the counts of a document by hash.
func counts(d *Document) map[uint64]int {
	m := map[uint64]int{}
	for _, t := range d.terms {
		m[t.hash] += int(t.n)
	}
	return m
}

func TestDocument(t *testing.T) {
	long := strings.Repeat("x", maxTerm+1)
	var d Document
	for _, c := range []struct {
		text  string
		terms string // separated by spaces
	}{
		{"", ""},
		{"The cat, the CAT and the mp3-player of 1999!", "the cat the cat and the mp player of"},
		{"don't  e.g. x", "don t e g x"},
		{"Éa STRASSE straße Ωmega naïve", "éa strasse straße ωmega naïve"},
		{"e\u0301t\u00e9 हिन्दी 中文", "e\u0301t\u00e9 हिन्दी 中文"},
		{"a\xffb \xe4\xb8 c\x80", "a b c"},
		{"a " + long + " b", "a b"},
	} {
		d.words([]byte(c.text), false)
		want := map[uint64]int{}
		for _, term := range strings.Fields(c.terms) {
			want[hashOf(term)]++
		}
		if got := counts(&d); !maps.Equal(got, want) || d.Terms() != len(strings.Fields(c.terms)) {
			t.Errorf("%q: %d terms, %v, want %v", c.text, d.Terms(), got, want)
		}
	}
	d.words([]byte("a b a b. "+long+" b"), true)
	want := map[uint64]int{hashOf("a"): 2, hashOf("b"): 3, pairOf(hashOf("a"), hashOf("b")): 2,
		pairOf(hashOf("b"), hashOf("a")): 1}
	if got := counts(&d); !maps.Equal(got, want) || d.Terms() != 5 {
		t.Errorf("pairs: %d terms, %v, want %v", d.Terms(), got, want)
	}
}

// A document that was large does not keep its table for all small ones after it, and counts each of them afresh.
func TestDocumentReused(t *testing.T) {
	var text strings.Builder
	for i := range 60_000 {
		for n := i; ; n /= 26 {
			text.WriteByte('a' + byte(n%26))
			if n < 26 {
				break
			}
		}
		text.WriteByte(' ')
	}
	var d Document
	d.words([]byte(text.String()), true)
	if d.Terms() != 60_000 || len(d.terms) < 100_000 {
		t.Fatalf("%d terms, %d different", d.Terms(), len(d.terms))
	}
	for range 3 {
		d.words([]byte("one two one"), false)
		if want := map[uint64]int{hashOf("one"): 2, hashOf("two"): 1}; !maps.Equal(counts(&d), want) {
			t.Fatalf("%v", counts(&d))
		}
	}
	if len(d.table) > 1<<16 {
		t.Errorf("a table of %d for two terms", len(d.table))
	}
}

// FuzzDocument: no text breaks words, and no two readings differ.
func FuzzDocument(f *testing.F) {
	f.Add([]byte("some Words, \xff\xe4\xb8 ümlaut"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var a, b Document
		a.words(text, true)
		b.words(text, false)
		n := 0
		for _, t := range b.terms {
			n += int(t.n)
		}
		if a.Terms() != b.Terms() || n != b.Terms() || len(a.terms) < len(b.terms) {
			t.Errorf("%d and %d terms, %d counted", a.Terms(), b.Terms(), n)
		}
	})
}
