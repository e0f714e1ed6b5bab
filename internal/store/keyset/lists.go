package keyset

import (
	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A List holds keys of one host, of which the top Width bits of the path are known. With Width 64 the keys are whole.
type List = drum.List

// WholeKey is the Width of a List that holds whole keys.
const WholeKey = 64

// ValidWidth reports whether a List can have this Width.
func ValidWidth(width uint) bool { return drum.ValidWidth(width) }

// Range calls fn with all keys of host, in one or more Lists; it may report a key more than once. It leaves out held
// items. The List is valid until fn returns. fn must not call the Store. Range reads from disk.
func (s *Store) Range(host uint64, fn func(List) error) error { return s.d.Range(host, fn) }

// Insert adds the keys that another Store's Range reported, without emitting them; load passes them to add. When Insert
// returns nil, the keys are durable. It blocks for a sync and may emit items of earlier calls. No sync of this Store
// may be in progress.
func (s *Store) Insert(load func(add func(host uint64, l List) error) error) error {
	return s.d.Insert(load)
}

// Note adds keys, whether they are known or not, and emits nothing for them. As with Add, the durable copy of the keys
// is the owner's journal.
func (s *Store) Note(keys []link.Key) error {
	s.note = s.note[:0]
	for _, k := range keys {
		s.note = append(s.note, Item{Key: k})
	}
	return s.d.Update(s.note)
}
