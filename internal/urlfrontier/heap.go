package urlfrontier

import "container/heap"

// A sorted gives its least element first. Each element knows its place, so that it can move and leave.
type sorted[T any] struct {
	items []T
	less  func(a, b T) bool
	place func(T) *int // where the element keeps its index; -1: not here
}

// Len, Less, Swap, Push and Pop are those of heap.Interface.
func (s *sorted[T]) Len() int           { return len(s.items) }
func (s *sorted[T]) Less(i, j int) bool { return s.less(s.items[i], s.items[j]) }
func (s *sorted[T]) Swap(i, j int) {
	s.items[i], s.items[j] = s.items[j], s.items[i]
	*s.place(s.items[i]), *s.place(s.items[j]) = i, j
}
func (s *sorted[T]) Push(x any) {
	*s.place(x.(T)) = len(s.items)
	s.items = append(s.items, x.(T))
}
func (s *sorted[T]) Pop() any {
	last := len(s.items) - 1
	x := s.items[last]
	var none T
	s.items[last] = none
	s.items = s.items[:last]
	*s.place(x) = -1
	return x
}

func (s *sorted[T]) add(x T) { heap.Push(s, x) }
func (s *sorted[T]) take() T { return heap.Pop(s).(T) }

// fix moves x after its order has changed.
func (s *sorted[T]) fix(x T) {
	if i := *s.place(x); i >= 0 {
		heap.Fix(s, i)
	}
}

// remove takes x out, if it is here.
func (s *sorted[T]) remove(x T) {
	if i := *s.place(x); i >= 0 {
		heap.Remove(s, i)
	}
}
