package frontier

import (
	"fmt"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A Side is a queue of links that wait beside the queues of hosts, as long as the caller wants. Next gives none of them
// out; they count as Pending. Like other queues, it spills to disk. It belongs to the goroutine of its Frontier, and
// takes no memory there while it is empty.
type Side struct {
	f  *Frontier
	q  *queue // nil: empty
	at int    // index among the Sides with links
}

// NewSide returns an empty Side of f.
func NewSide(f *Frontier) *Side { return &Side{f: f} }

// Len returns the number of links.
func (s *Side) Len() int64 {
	if s == nil || s.q == nil {
		return 0
	}
	return int64(s.q.n)
}

// Put appends a link that Next has given out, and for which Done was called without Again, with its request number.
func (s *Side) Put(l link.Link, number uint64) error {
	f := s.f
	if f.err != nil {
		return f.err
	}
	if s.q == nil {
		s.q = &queue{}
		f.queues.fixed += queueOverhead
		s.at = len(f.aside.sides)
		f.aside.sides = append(f.aside.sides, s)
	}
	f.enc = l.AppendTo(f.enc[:0])
	f.queues.add(s.q, number, f.enc)
	f.hosts.queued++
	return f.overflow()
}

// Take removes the first link, which the caller may keep. The Side must not be empty. See PutBack.
func (s *Side) Take() (l link.Link, number uint64, err error) {
	f := s.f
	if f.err != nil {
		return l, 0, f.err
	}
	e, err := f.queues.take(s.q)
	if err == nil {
		l, _, err = link.Decode(e.enc)
	}
	if err != nil {
		f.err = fmt.Errorf("read links that were set aside: %w", err)
		return l, 0, f.err
	}
	f.hosts.queued--
	if s.q.n == 0 {
		f.queues.fixed -= queueOverhead
		s.leave()
	}
	return l, e.number, nil
}

// Withdraw makes all links withdrawn ones, in a time that does not depend on their number.
func (s *Side) Withdraw() {
	if s.Len() == 0 {
		return
	}
	w := &s.f.withdrawn
	w.n += int64(s.q.n)
	w.qs = append(w.qs, s.q)
	s.leave()
}

// leave gives up the queue.
func (s *Side) leave() {
	s.q = nil
	all := s.f.aside.sides
	last := all[len(all)-1]
	all[s.at], last.at = last, s.at
	all[len(all)-1] = nil
	s.f.aside.sides = all[:len(all)-1]
}
