// Package heap answers: which of these comes first?
package heap

// A Heap has its least member at Items[0]. Its fields are set before the first call, and no method may be called while
// Items is not a heap, except Init.
type Heap[T any] struct {
	Items []T
	// Less reports whether a comes before b.
	Less func(a, b T) bool
	// Place returns where a member keeps its index in Items, which is -1 outside the heap. Nil: members keep no index.
	Place func(T) *int
}

// Init makes a heap of Items in any order, and sets their places.
func (h *Heap[T]) Init() {
	for i := len(h.Items) - 1; i >= 0; i-- {
		h.down(i, h.Items[i])
	}
}

// Push adds x.
func (h *Heap[T]) Push(x T) {
	h.Items = append(h.Items, x)
	h.up(len(h.Items)-1, x)
}

// Pop removes the least member and returns it. The heap must have members.
func (h *Heap[T]) Pop() T {
	x := h.Items[0]
	h.remove(0)
	return x
}

// FixFirst moves the first member, whose order has changed.
func (h *Heap[T]) FixFirst() { h.down(0, h.Items[0]) }

// Fix moves x, whose order has changed, if it is in the heap. The heap must have a Place.
func (h *Heap[T]) Fix(x T) {
	if i := *h.Place(x); i >= 0 {
		h.put(i, x)
	}
}

// Remove removes x, if it is in the heap. The heap must have a Place.
func (h *Heap[T]) Remove(x T) {
	if i := *h.Place(x); i >= 0 {
		h.remove(i)
	}
}

func (h *Heap[T]) remove(i int) {
	var none T
	n := len(h.Items) - 1
	x, last := h.Items[i], h.Items[n]
	h.Items[n] = none
	if h.Items = h.Items[:n]; i < n {
		h.put(i, last)
	}
	if h.Place != nil {
		*h.Place(x) = -1
	}
}

// put moves x to its position. Index i is free.
func (h *Heap[T]) put(i int, x T) {
	if i > 0 && h.Less(x, h.Items[(i-1)/2]) {
		h.up(i, x)
	} else {
		h.down(i, x)
	}
}

func (h *Heap[T]) up(i int, x T) {
	for i > 0 && h.Less(x, h.Items[(i-1)/2]) {
		h.set(i, h.Items[(i-1)/2])
		i = (i - 1) / 2
	}
	h.set(i, x)
}

func (h *Heap[T]) down(i int, x T) {
	for {
		c := 2*i + 1
		if c+1 < len(h.Items) && h.Less(h.Items[c+1], h.Items[c]) {
			c++
		}
		if c >= len(h.Items) || !h.Less(h.Items[c], x) {
			break
		}
		h.set(i, h.Items[c])
		i = c
	}
	h.set(i, x)
}

func (h *Heap[T]) set(i int, x T) {
	h.Items[i] = x
	if h.Place != nil {
		*h.Place(x) = i
	}
}
