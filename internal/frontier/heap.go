package frontier

// A heap returns its member with the lowest key. Members know their position, so that one of them can be removed or
// moved without a search; pos is -1 outside a heap. Keys are stored beside the members, so that a comparison reads no
// member.
//
// Most members arrive in the order of their keys: times that end ever later, and hosts with ever higher request
// numbers. These are in the run, which is sorted, so that nothing has to be moved for them. The others are in a tree
// with four children per node. Compared with two children, it has half the levels and as many writes of positions.
type heap[T comparable] struct {
	tree []heapItem[T]
	run  []heapItem[T] // from head on; a member that has left is a hole
	key  func(T) uint64
	pos  func(T) *int32

	head, holes int   // the first and the last item of the run are not holes
	base        int32 // the position of run[0] within the run's numbering
}

type heapItem[T any] struct {
	key uint64
	x   T
}

const (
	// heapWidth is the number of children of a node.
	heapWidth = 4
	// runPlaces is the number at which positions in the run wrap around.
	runPlaces = 1 << 30
)

func (h *heap[T]) len() int { return len(h.tree) + len(h.run) - h.head - h.holes }

// best returns the item with the lowest key.
func (h *heap[T]) best() *heapItem[T] {
	if h.head == len(h.run) || len(h.tree) > 0 && h.tree[0].key < h.run[h.head].key {
		return &h.tree[0]
	}
	return &h.run[h.head]
}

func (h *heap[T]) top() T { return h.best().x }

// first returns the lowest key.
func (h *heap[T]) first() uint64 { return h.best().key }

func (h *heap[T]) push(x T) {
	it := heapItem[T]{h.key(x), x}
	n := len(h.run)
	if n == h.head || h.run[n-1].key <= it.key {
		h.extend(it)
		return
	}
	if n-1 == h.head || h.run[n-2].key <= it.key {
		// A member far behind the others, such as a host that must wait for a day, must not stay at the end of the
		// run.
		last := h.run[n-1]
		h.leaveRun(n - 1)
		h.extend(it)
		it = last
	}
	h.tree = append(h.tree, heapItem[T]{})
	h.up(len(h.tree)-1, it)
}

// extend appends it to the run.
func (h *heap[T]) extend(it heapItem[T]) {
	h.run = append(h.run, it)
	*h.pos(it.x) = (h.base+int32(len(h.run)-1))%runPlaces<<1 | 1
}

func (h *heap[T]) pop() T {
	x := h.top()
	h.remove(x)
	return x
}

// place returns the index of x in the run or in the tree.
func (h *heap[T]) place(x T) (i int, inRun bool) {
	p := *h.pos(x)
	if p&1 == 0 {
		return int(p >> 1), false
	}
	return int((p>>1 - h.base + runPlaces) % runPlaces), true
}

func (h *heap[T]) remove(x T) {
	i, inRun := h.place(x)
	*h.pos(x) = -1
	if inRun {
		h.leaveRun(i)
		return
	}
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

// leaveRun makes a hole at index i.
func (h *heap[T]) leaveRun(i int) {
	var none T
	h.run[i].x = none
	h.holes++
	n := len(h.run)
	for ; h.head < n && h.run[h.head].x == none; h.head++ {
		h.holes--
	}
	for ; n > h.head && h.run[n-1].x == none; n-- {
		h.holes--
	}
	h.run = h.run[:n]
	switch left := n - h.head; {
	case left == 0 && cap(h.run) <= 64:
		h.run, h.head = h.run[:0], 0
	case n > 64 && 2*left < n:
		// More than half of the slice is unused: copy the others, which keep their positions.
		h.base = (h.base + int32(h.head)) % runPlaces
		h.run, h.head = append(make([]heapItem[T], 0, 2*left), h.run[h.head:]...), 0
	case left > 64 && 2*h.holes > left:
		run := make([]heapItem[T], 0, left)
		for _, it := range h.run[h.head:] {
			if it.x != none {
				*h.pos(it.x) = int32(len(run))<<1 | 1
				run = append(run, it)
			}
		}
		h.run, h.head, h.holes, h.base = run, 0, 0, 0
	}
}

// fix restores the order after the key of x has changed.
func (h *heap[T]) fix(x T) {
	if i, inRun := h.place(x); !inRun {
		h.put(i, heapItem[T]{h.key(x), x})
	} else if k := h.key(x); h.len() == 1 {
		h.run[i].key = k
	} else if h.run[i].key != k {
		h.remove(x)
		h.push(x)
	}
}

// ahead calls see for up to n members of the run that come next and have keys up to k.
func (h *heap[T]) ahead(k uint64, n int, see func(T)) {
	var none T
	for _, it := range h.run[h.head:min(h.head+n, len(h.run))] {
		if it.key > k {
			return
		}
		if it.x != none {
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
	*h.pos(it.x) = int32(i) << 1
}

// before counts the members with a key below k and calls see for each, if see is not nil. It visits only these and
// their neighbours.
func (h *heap[T]) before(k uint64, see func(T)) (n int) {
	var none T
	count := func(x T) {
		if x == none {
			return
		}
		n++
		if see != nil {
			see(x)
		}
	}
	for _, it := range h.run[h.head:] {
		if it.key >= k {
			break
		}
		count(it.x)
	}
	var walk func(i int)
	walk = func(i int) {
		if i >= len(h.tree) || h.tree[i].key >= k {
			return
		}
		count(h.tree[i].x)
		for j := range heapWidth {
			walk(heapWidth*i + 1 + j)
		}
	}
	walk(0)
	return n
}
