package frontier

// A heap is a binary heap whose members know their place, so that one of
// them can be removed or moved without a search. pos is -1 outside a heap.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	pos   func(T) *int32
}

func (h *heap[T]) len() int { return len(h.items) }
func (h *heap[T]) top() T   { return h.items[0] }

func (h *heap[T]) push(x T) {
	h.items = append(h.items, x)
	*h.pos(x) = int32(len(h.items) - 1)
	h.up(len(h.items) - 1)
}

func (h *heap[T]) pop() T {
	x := h.items[0]
	h.remove(x)
	return x
}

func (h *heap[T]) remove(x T) {
	i, last := int(*h.pos(x)), len(h.items)-1
	if i != last {
		h.items[i] = h.items[last]
		*h.pos(h.items[i]) = int32(i)
	}
	var zero T
	h.items[last] = zero
	h.items = h.items[:last]
	*h.pos(x) = -1
	if i < last {
		h.fixAt(i)
	}
	if cap(h.items) > 64 && len(h.items) < cap(h.items)/4 {
		h.items = append(make([]T, 0, cap(h.items)/2), h.items...)
	}
}

// fix restores the order after x's key has changed.
func (h *heap[T]) fix(x T) { h.fixAt(int(*h.pos(x))) }

func (h *heap[T]) fixAt(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *heap[T]) up(i int) {
	x := h.items[i]
	for i > 0 {
		p := (i - 1) / 2
		if !h.less(x, h.items[p]) {
			break
		}
		h.items[i] = h.items[p]
		*h.pos(h.items[i]) = int32(i)
		i = p
	}
	h.items[i] = x
	*h.pos(x) = int32(i)
}

func (h *heap[T]) down(i int) bool {
	x, start, n := h.items[i], i, len(h.items)
	for {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && h.less(h.items[c+1], h.items[c]) {
			c++
		}
		if !h.less(h.items[c], x) {
			break
		}
		h.items[i] = h.items[c]
		*h.pos(h.items[i]) = int32(i)
		i = c
	}
	h.items[i] = x
	*h.pos(x) = int32(i)
	return i > start
}

// before counts the members for which ahead is true. ahead must be true for a
// parent wherever it is true for a child; only the members counted are visited
// and the edge around them.
func (h *heap[T]) before(ahead func(T) bool) (n int) {
	var walk func(i int)
	walk = func(i int) {
		if i < len(h.items) && ahead(h.items[i]) {
			n++
			walk(2*i + 1)
			walk(2*i + 2)
		}
	}
	walk(0)
	return n
}
