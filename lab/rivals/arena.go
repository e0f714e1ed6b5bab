package rivals

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// An arena holds the links that wait for their answer, in the order of arrival.
type arena struct {
	keys []link.Key
	ends []uint32 // end of each link in aux
	aux  []byte
}

func (a *arena) add(it Item) {
	a.aux = append(a.aux, it.Aux...)
	a.keys = append(a.keys, it.Key)
	a.ends = append(a.ends, uint32(len(a.aux)))
}

func (a *arena) item(i int) Item {
	from := uint32(0)
	if i > 0 {
		from = a.ends[i-1]
	}
	return Item{Key: a.keys[i], Aux: a.aux[from:a.ends[i]]}
}

func (a *arena) len() int { return len(a.keys) }

func (a *arena) reset() { a.keys, a.ends, a.aux = a.keys[:0], a.ends[:0], a.aux[:0] }

// compare orders keys as their big-endian bytes do.
func compare(a, b link.Key) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Path, b.Path))
}

func appendKey(dst []byte, k link.Key) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, k.Host), k.Path)
}

// inOrder appends to order the indices of n keys, sorted by key. Of equal keys it appends only
// the first.
func inOrder(order []int, n int, key func(int) link.Key) []int {
	order = order[:0]
	for i := range n {
		order = append(order, i)
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Or(compare(key(i), key(j)), cmp.Compare(i, j)) })
	return slices.CompactFunc(order, func(i, j int) bool { return key(i) == key(j) })
}
