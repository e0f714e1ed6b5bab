package keyset

import (
	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A List is keys of one host as far as they are known: the top Width bits of
// their paths. Those of Width 64 are known whole.
type List = drum.List

// WholeKey is the Width of a List whose keys are known whole.
const WholeKey = 64

// ValidWidth says whether there are Lists of a Width.
func ValidWidth(width uint) bool { return drum.ValidWidth(width) }

// Range reads out the keys of a host, some perhaps more than once, without what
// is held. The List is valid until fn returns, which must not call the Store.
func (s *Store) Range(host uint64, fn func(List) error) error { return s.d.Range(host, fn) }

// Insert makes keys known that another Store's Range read out. They are on disk
// when it returns, which takes a sync. It may emit. No sync of this Store is to
// be on its way.
func (s *Store) Insert(load func(add func(host uint64, l List) error) error) error {
	return s.d.Insert(load)
}

// Note makes keys known without asking whether they are, and without an answer.
// As with Add, the owner's journal is their durable copy.
func (s *Store) Note(keys []weburl.Key) error {
	s.ask = s.ask[:0]
	for _, k := range keys {
		s.ask = append(s.ask, drum.Item{Key: k})
	}
	return s.d.Update(s.ask)
}
