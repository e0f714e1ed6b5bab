package frontier

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

type member struct {
	key uint64
	pos int32
}

func (m *member) heapPos() *int32 { return &m.pos }

// TestHeap compares a heap with a list.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h heap[*member]
		var all []*member
		// Keys are in any order, or most of them are ascending.
		most, ascending := rapid.SampledFrom([]uint64{3, 1000}).Draw(t, "most"), rapid.Bool().Draw(t, "ascending")
		floor := uint64(0)
		keys := rapid.Custom(func(t *rapid.T) uint64 {
			k := rapid.Uint64Range(0, most).Draw(t, "k")
			if ascending && rapid.IntRange(0, 9).Draw(t, "outlier") > 0 {
				floor++
				k = floor + k%3
			}
			return k
		})
		growing := rapid.IntRange(1, 4).Draw(t, "growing")
		drop := func(m *member) {
			if m.pos != -1 {
				t.Fatalf("pos is %d after removal, want -1", m.pos)
			}
			i := slices.Index(all, m)
			all = slices.Delete(all, i, i+1)
		}
		for range rapid.IntRange(1, 600).Draw(t, "steps") {
			if len(all) == 0 || rapid.IntRange(0, 4).Draw(t, "op") < growing {
				m := &member{key: keys.Draw(t, "key"), pos: -1}
				h.push(m, m.key)
				all = append(all, m)
			} else {
				m := rapid.SampledFrom(all).Draw(t, "member")
				switch rapid.IntRange(0, 2).Draw(t, "op") {
				case 0:
					h.remove(m)
					drop(m)
				case 1:
					m.key = keys.Draw(t, "key")
					h.fix(m, m.key)
				case 2:
					drop(h.pop())
				}
			}
			must.Do(t, h.check())
			if h.len() != len(all) {
				t.Fatalf("%d members, want %d", h.len(), len(all))
			}
			if len(all) == 0 {
				continue
			}
			least := slices.MinFunc(all, func(a, b *member) int { return int(a.key) - int(b.key) }).key
			if h.first() != least || h.top().key != least {
				t.Fatalf("first is %d, top %d, want %d", h.first(), h.top().key, least)
			}
			k, below, seen := keys.Draw(t, "below"), 0, 0
			for _, m := range all {
				if k, ok := h.has(m); !ok || k != m.key {
					t.Fatalf("member %d at %d is not found, or has key %d", m.key, m.pos, k)
				}
				if m.key < k {
					below++
				}
			}
			if n := h.before(k, func(m *member) { seen++ }); n != below || seen != below {
				t.Fatalf("before(%d) = %d, %d seen, want %d", k, n, seen, below)
			}
			most, shown := rapid.IntRange(0, 5).Draw(t, "most shown"), 0
			h.ahead(k, most, func(m *member) {
				if shown++; m.key > k || !h.holds(m) {
					t.Fatalf("ahead(%d) gives key %d", k, m.key)
				}
			})
			if shown > most || most > 0 && shown == 0 && least <= k {
				t.Fatalf("ahead gives %d members, want at most %d and at least one", shown, most)
			}
		}
	})
}

// has returns x's key, and whether x is at its position.
func (h *heap[T]) has(x T) (key uint64, ok bool) {
	i := int(*x.heapPos())
	if i < 0 || i >= len(h.tree) {
		return 0, false
	}
	it := h.tree[i]
	return it.key, it.x.heapPos() == x.heapPos()
}

func (h *heap[T]) holds(x T) bool { _, ok := h.has(x); return ok }

// check verifies the whole heap.
func (h *heap[T]) check() error {
	for i, it := range h.tree {
		if i > 0 && it.key < h.tree[(i-1)/heapWidth].key {
			return fmt.Errorf("key %d at %d of the tree is out of order", it.key, i)
		}
	}
	return nil
}

// TestOrder checks that the packed key has the order of key.ahead and contains the level.
func TestOrder(t *testing.T) {
	keys := rapid.Custom(func(t *rapid.T) key {
		return key{rapid.Uint8().Draw(t, "level"), rapid.Bool().Draw(t, "warm"),
			rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64Range(0, 1<<numberBits-1)).Draw(t, "number")}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
		if rapid.Bool().Draw(t, "same level") {
			b.level = a.level
		}
		if a.ahead(b) != (a.order() < b.order()) || b.ahead(a) != (b.order() < a.order()) {
			t.Fatalf("order of %+v is %x, of %+v is %x", a, a.order(), b, b.order())
		}
		if levelOf(a.order()) != a.level {
			t.Fatalf("levelOf the order of %+v is %d", a, levelOf(a.order()))
		}
	})
}
