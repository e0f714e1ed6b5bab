package cluster

import (
	"sort"
	"time"
)

// An epoch is the set of accepts and finishes between two writes of the journal.
type epoch struct {
	from   uint64    // the number of its first accept, if it has any
	began  time.Time // zero: nothing has happened in it
	closed bool

	copies int    // accepts that heirs must get
	away   int    // links that other agents must get
	pages  int    // pages that other agents must get
	ends   int    // finishes that heirs must get
	held   uint64 // the last file with links that the seen-set held back at its end; 0: none
	until  uint64 // the last epoch that must be safe before its finishes are released; 0: unknown
}

// safe reports that no link of the epoch depends on this machine. The loss of a page makes its URL pending again, so
// pages do not count here: two agents may send each other pages, and each acknowledges them when its links are safe.
func (e *epoch) safe() bool { return e.copies == 0 && e.away == 0 }

// now returns the id of the open epoch.
func (s *shipping) now() uint64 { return s.first + uint64(max(len(s.epochs), 1)) - 1 }

// closed returns the id of the last epoch that gets no more records.
func (s *shipping) closed() uint64 { return max(s.now(), 1) - 1 }

// begun returns the id of the last epoch with a record.
func (s *shipping) begun() uint64 {
	if n := len(s.epochs); n > 0 && s.epochs[n-1].began.IsZero() {
		return s.now() - 1
	}
	return s.now()
}

// openEpoch returns the open epoch, which receives a record.
func (s *shipping) openEpoch() *epoch {
	e := &s.epochs[len(s.epochs)-1]
	if e.began.IsZero() {
		e.began = s.loop.Config.Clock.Now()
	}
	return e
}

// epoch returns the epoch with this id, or nil if it is over.
func (s *shipping) epoch(id uint64) *epoch {
	if id < s.first || id >= s.first+uint64(len(s.epochs)) {
		return nil
	}
	return &s.epochs[id-s.first]
}

// epochOf returns the index of the epoch in which a link was accepted; negative: it is over.
func (s *shipping) epochOf(number uint64) int {
	return sort.Search(len(s.epochs), func(i int) bool { return s.epochs[i].from > number }) - 1
}

// copied reports that the heirs have all own links accepted up to an epoch.
func (s *shipping) copied(id uint64) bool {
	for i := range s.epochs {
		if s.first+uint64(i) > id {
			break
		}
		if s.epochs[i].copies > 0 {
			return false
		}
	}
	return true
}

// named reports that the heirs have all finishes up to an epoch, and the names of the pages of an earlier run.
func (s *shipping) named(id uint64) bool {
	if s.whole.unnamed {
		return false
	}
	for i := range s.epochs {
		if s.first+uint64(i) > id {
			break
		}
		if s.epochs[i].ends > 0 {
			return false
		}
	}
	return true
}

// safe reports that an epoch and all before it are safe.
func (s *shipping) safe(id uint64) bool {
	return s.safeTo >= id || s.safeTo+1 == id && id == s.now() && s.epoch(id).safe()
}
