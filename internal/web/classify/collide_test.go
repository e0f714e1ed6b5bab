package classify

import (
	"testing"
)

// TestCollidingTerms counts terms whose hashes share the low bits, as a page can have them that is made to be slow.
func TestCollidingTerms(t *testing.T) {
	const n = 1 << 14
	var d Document
	steps := 0
	for i := range uint64(n) {
		d.count(i<<44 ^ i<<12) // slot gives all of them less than 2^12 places
	}
	mask := uint64(len(d.table) - 1)
	for i, term := range d.terms {
		for s := secretSlot(term.hash) & mask; d.table[s] != uint32(i+1); s = (s + 1) & mask {
			steps++
		}
	}
	if len(d.terms) != n || steps > 4*n {
		t.Errorf("%d terms, %d steps beyond the first slot", len(d.terms), steps)
	}
}
