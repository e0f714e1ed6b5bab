package orders

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Limits of a Set; see the package comment.
const (
	// MaxStanding bounds the orders that Give lets stand.
	MaxStanding = 10_000
	// MaxPast bounds the superseded orders that a set keeps.
	MaxPast = 1000
	// MaxLatest bounds the latest orders that are kept although they are Off: those of the MaxLatest pairs of Verb
	// and About with the newest orders.
	MaxLatest = 20_000
	// MaxPage bounds the orders that Page returns.
	MaxPage = 4096
)

// ErrFull reports that too many orders would stand.
var ErrFull = errors.New("too many orders stand")

type bounds struct{ standing, past, latest int }

// A Set is the orders that an agent knows. Safe for concurrent use.
type Set struct {
	bounds bounds
	// mu guards the fields below. The slices are replaced, and never changed.
	mu       sync.Mutex
	past     []Order // by Mark
	standing []Order // by Mark
	digest   *[32]byte
}

// NewSet returns an empty set.
func NewSet() *Set { return newSet(bounds{MaxStanding, MaxPast, MaxLatest}) }

func newSet(b bounds) *Set { return &Set{bounds: b} }

// Give adds an order that an operator gives to the agent at now, and returns it with Clock, Agent and At. The error
// is an ErrOrder of Check, or ErrFull if the order would be one too many. An order that is Off or that supersedes a
// standing one is never too many.
func (s *Set) Give(o Order, agent string, now time.Time) (Order, error) {
	given, err := s.GiveTogether([]Order{o}, agent, now)
	if err != nil {
		return Order{}, err
	}
	return given[0], nil
}

// GiveTogether is Give for several orders. If the error is not nil, nothing has changed.
func (s *Set) GiveTogether(os []Order, agent string, now time.Time) (given []Order, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stand := map[subject]bool{}
	for _, o := range s.standing {
		stand[o.subject()] = true
	}
	for _, o := range os {
		about := o.subject()
		switch {
		case o.Off:
			delete(stand, about)
			continue
		case stand[about]:
			continue
		}
		if stand[about] = true; len(stand) > s.bounds.standing {
			return nil, fmt.Errorf("%w: at most %d can; take back those that are not needed", ErrFull,
				s.bounds.standing)
		}
	}
	return s.add(os, agent, now)
}

// add adds orders; s.mu is held.
func (s *Set) add(os []Order, agent string, now time.Time) (given []Order, err error) {
	union := slices.Clip(s.past)
	for _, o := range os {
		o = stamp(o, union, agent, now)
		if err := o.Check(); err != nil {
			return nil, err
		}
		union, given = append(union, o), append(given, o)
	}
	s.replace(union)
	return given, nil
}

// stamp returns an order with its Clock, Agent and At, to follow those of past.
func stamp(o Order, past []Order, agent string, now time.Time) Order {
	o.Agent, o.At = agent, whole(now)
	o.Clock = uint64(max(0, o.At.UnixMilli())) << 16
	if n := len(past); n > 0 {
		o.Clock = max(o.Clock, past[n-1].Clock+1) // the newest order is never discarded
	}
	return o
}

// whole returns t as an order has it.
func whole(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// Merge adds orders that another agent has sent, and returns those that the set did not have, ordered by Clock, then
// Agent. It skips orders that do not pass Check, and those that the bounds discard at once.
func (s *Set) Merge(os []Order) (added []Order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	union := slices.Clip(s.past)
	for _, o := range os {
		o.At = whole(o.At)
		if o.Check() != nil {
			continue
		}
		if known, ok := find(s.past, o.Mark()); !ok || known != o {
			union = append(union, o)
		}
	}
	before := s.past
	if len(union) == len(before) {
		return nil
	}
	slices.SortFunc(union, compare)
	// Of several orders with one mark, the last one is kept.
	slices.Reverse(union)
	union = slices.CompactFunc(union, func(a, b Order) bool { return a.Mark() == b.Mark() })
	slices.Reverse(union)
	s.replace(union)
	for _, o := range s.past {
		if known, ok := find(before, o.Mark()); !ok || known != o {
			added = append(added, o)
		}
	}
	return added
}

// compare orders by Mark, and different orders with the same Mark by their encoding.
func compare(a, b Order) int {
	if c := a.Mark().Compare(b.Mark()); c != 0 || a == b {
		return c
	}
	return bytes.Compare(a.AppendTo(nil), b.AppendTo(nil))
}

// find returns the order at a mark in orders that are sorted.
func find(os []Order, m Mark) (Order, bool) {
	i, ok := slices.BinarySearchFunc(os, m, func(o Order, m Mark) int { return o.Mark().Compare(m) })
	if !ok {
		return Order{}, false
	}
	return os[i], true
}

// replace makes the set one of these orders, which are sorted, and discards those beyond the bounds. The caller
// holds mu.
func (s *Set) replace(union []Order) {
	s.past, s.standing = s.bounds.keep(union)
	s.digest = nil
}

// keep returns which of the sorted orders are kept, and which of them stand.
//
// It goes from the newest order to the oldest. So it first meets each subject at its latest order. Once it has met
// b.latest subjects, it keeps only orders that stand. So no order outlives the Off that took it back. The orders that
// it discards do not count for any newer order. So keep(keep(x) + y) is keep(x + y), unless y has an order that was
// taken back by an Off of x that keep(x) has discarded.
func (b bounds) keep(union []Order) (kept, standing []Order) {
	met := make(map[subject]bool, len(union))
	superseded := 0
	for _, o := range slices.Backward(union) {
		switch {
		case !met[o.subject()]:
			met[o.subject()] = true
			if !o.Off {
				standing = append(standing, o)
			} else if len(met) > b.latest {
				continue
			}
		case superseded == b.past || len(met) >= b.latest:
			continue
		default:
			superseded++
		}
		kept = append(kept, o)
	}
	slices.Reverse(kept)
	slices.Reverse(standing)
	return kept, standing
}

// Standing returns the orders that hold, ordered by Clock, then Agent: for each Verb and About the latest order, if
// it is not Off.
func (s *Set) Standing() []Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.standing)
}

// Past returns all orders that the set keeps, ordered by Clock, then Agent. It includes those that stand.
func (s *Set) Past() []Order { return slices.Clone(s.all()) }

// all returns the orders that the set keeps. The caller must not change them.
func (s *Set) all() []Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.past
}

// Find returns the order with an ID.
func (s *Set) Find(id string) (Order, bool) {
	m, ok := parseID(id)
	if !ok {
		return Order{}, false
	}
	return find(s.all(), m)
}

// Digest returns a SHA-256 of the orders that the set keeps. Sets with equal digests are equal.
func (s *Set) Digest() [32]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.digest == nil {
		h := sha256.New()
		var b []byte
		for _, o := range s.past {
			b = o.AppendTo(b[:0])
			h.Write(b)
		}
		s.digest = (*[32]byte)(h.Sum(nil))
	}
	return *s.digest
}

// Page returns the next orders after a mark, ordered by Clock, then Agent. Their encodings have together at most max
// bytes, but there is at least one order if any is left. There are at most MaxPage. next is the mark to go on from,
// and more reports whether orders are left after it. An order that is merged between two pages may be in none.
func (s *Set) Page(after Mark, max int) (os []Order, next Mark, more bool) {
	next = after
	rest := s.all()
	i, found := slices.BinarySearchFunc(rest, after, func(o Order, m Mark) int { return o.Mark().Compare(m) })
	if found {
		i++
	}
	var b []byte
	size := 0
	for _, o := range rest[i:] {
		b = o.AppendTo(b[:0])
		size += len(b)
		if len(os) == MaxPage || len(os) > 0 && size > max {
			return os, next, true
		}
		os, next = append(os, o), o.Mark()
	}
	return os, next, false
}
