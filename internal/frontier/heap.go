package frontier

// A heap returns its member with the lowest key. Members know their position, so that one of them can be removed or
// moved without a search; pos is -1 outside a heap. Keys are stored beside the members, so that a comparison reads no
// member.
//
// A node has four children. Compared with two children, the tree has half the levels and as many writes of positions.
type heap[T interface{ heapPos() *int32 }] struct{ tree []heapItem[T] }

type heapItem[T any] struct {
	key uint64
	x   T
}

// heapWidth is the number of children of a node.
const heapWidth = 4

func (h *heap[T]) len() int { return len(h.tree) }

func (h *heap[T]) top() T { return h.tree[0].x }

// first returns the lowest key.
func (h *heap[T]) first() uint64 { return h.tree[0].key }

func (h *heap[T]) push(x T, key uint64) {
	h.tree = append(h.tree, heapItem[T]{})
	h.up(len(h.tree)-1, heapItem[T]{key, x})
}

func (h *heap[T]) pop() T {
	x := h.top()
	h.remove(x)
	return x
}

func (h *heap[T]) remove(x T) {
	i := int(*x.heapPos())
	*x.heapPos() = -1
	n := len(h.tree) - 1
	last := h.tree[n]
	h.tree[n] = heapItem[T]{}
	h.tree = h.tree[:n]
	if i < n {
		h.put(i, last)
	}
	if cap(h.tree) > 64 && n < cap(h.tree)/4 {
		h.tree = append(make([]heapItem[T], 0, cap(h.tree)/2), h.tree...)
	}
}

// fix changes the key of x.
func (h *heap[T]) fix(x T, key uint64) { h.put(int(*x.heapPos()), heapItem[T]{key, x}) }

// ahead calls see for up to n of the members that come next, if they have keys up to k.
func (h *heap[T]) ahead(k uint64, n int, see func(T)) {
	for _, it := range h.tree[:min(n, len(h.tree))] {
		if it.key <= k {
			see(it.x)
		}
	}
}

// put moves it to its position in the tree. Index i is free.
func (h *heap[T]) put(i int, it heapItem[T]) {
	if i > 0 && it.key < h.tree[(i-1)/heapWidth].key {
		h.up(i, it)
	} else {
		h.down(i, it)
	}
}

func (h *heap[T]) up(i int, it heapItem[T]) {
	for i > 0 {
		p := (i - 1) / heapWidth
		if it.key >= h.tree[p].key {
			break
		}
		h.set(i, h.tree[p])
		i = p
	}
	h.set(i, it)
}

func (h *heap[T]) down(i int, it heapItem[T]) {
	for {
		c := heapWidth*i + 1
		if c >= len(h.tree) {
			break
		}
		least := c
		for j, o := range h.tree[c:min(c+heapWidth, len(h.tree))] {
			if o.key < h.tree[least].key {
				least = c + j
			}
		}
		if it.key <= h.tree[least].key {
			break
		}
		h.set(i, h.tree[least])
		i = least
	}
	h.set(i, it)
}

func (h *heap[T]) set(i int, it heapItem[T]) {
	h.tree[i] = it
	*it.x.heapPos() = int32(i)
}

// before counts the members with a key below k and calls see for each, if see is not nil. It visits only these and
// their neighbours.
func (h *heap[T]) before(k uint64, see func(T)) (n int) {
	var walk func(i int)
	walk = func(i int) {
		if i >= len(h.tree) || h.tree[i].key >= k {
			return
		}
		n++
		if see != nil {
			see(h.tree[i].x)
		}
		for j := range heapWidth {
			walk(heapWidth*i + 1 + j)
		}
	}
	walk(0)
	return n
}
