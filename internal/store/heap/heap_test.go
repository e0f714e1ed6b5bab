package heap

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/orbweaver/orbweaver/internal/testkit/testseed" // sets rapid's seed
)

type member struct{ key, at int }

func byKey(a, b *member) bool { return a.key < b.key }

// TestModel compares a Heap, whose members move and leave, with a slice.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := Heap[*member]{Less: byKey, Place: func(m *member) *int { return &m.at }}
		var in []*member
		out := &member{at: -1}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			key := rapid.IntRange(0, 30).Draw(t, "key")
			op := rapid.IntRange(0, 4).Draw(t, "op")
			if op < 2 || len(in) == 0 {
				m := &member{key: key}
				h.Push(m)
				in = append(in, m)
				continue
			}
			least := slices.MinFunc(in, func(a, b *member) int { return a.key - b.key }).key
			m := in[key%len(in)]
			switch op {
			case 2:
				if m = h.Pop(); m.key != least || m.at != -1 {
					t.Fatalf("got key %d at %d, want %d at -1", m.key, m.at, least)
				}
				in = slices.DeleteFunc(in, func(o *member) bool { return o == m })
			case 3:
				h.Remove(m)
				h.Remove(m) // does nothing, and so does Fix
				h.Fix(m)
				in = slices.DeleteFunc(in, func(o *member) bool { return o == m })
			case 4:
				m.key = key
				h.Fix(m)
			}
			h.Remove(out)
			if len(h.Items) != len(in) {
				t.Fatalf("%d members, want %d", len(h.Items), len(in))
			}
			for i, m := range h.Items {
				if m.at != i || i > 0 && byKey(m, h.Items[(i-1)/2]) {
					t.Fatalf("member %d of key %d believes to be at %d, or comes before its parent", i, m.key, m.at)
				}
			}
		}
	})
}

// TestInitSetsPlaces removes members of a heap that Init has made.
func TestInitSetsPlaces(t *testing.T) {
	for n := range 9 {
		h := Heap[*member]{Less: byKey, Place: func(m *member) *int { return &m.at }}
		for i := range n {
			h.Items = append(h.Items, &member{key: i * 5 % 9, at: 99})
		}
		h.Init()
		for i, m := range h.Items {
			if m.at != i {
				t.Fatalf("of %d, member %d believes to be at %d", n, i, m.at)
			}
		}
	}
}

// TestInit sorts numbers, which keep no index.
func TestInit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.Int()).Draw(t, "numbers")
		h := Heap[int]{Items: slices.Clone(want), Less: func(a, b int) bool { return a < b }}
		h.Init()
		slices.Sort(want)
		for _, n := range want {
			if got := h.Pop(); got != n {
				t.Fatalf("got %d, want %d", got, n)
			}
		}
	})
}
