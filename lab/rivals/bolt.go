package rivals

import (
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// boltItems is the number of links per transaction. A transaction rewrites each page that it
// touches, so many links share one.
const boltItems = 65_536

var boltBucket = []byte("seen")

// boltStore keeps the keys in a B+ tree.
type boltStore struct {
	db    *bolt.DB
	held  arena
	most  int
	fresh fresh
	order []int
	isNew []int
}

func openBolt(c Config) (Store, error) {
	db, err := bolt.Open(filepath.Join(c.Dir, "bolt"), 0o644, &bolt.Options{
		NoSync: true, NoGrowSync: true, NoFreelistSync: true, FreelistType: bolt.FreelistMapType,
	})
	if err != nil {
		return nil, wrap("bbolt", err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket(boltBucket)
		return err
	})
	if err != nil {
		return nil, wrap("bbolt", err)
	}
	most := int(min(boltItems, c.memory()/1024))
	return &boltStore{db: db, most: most, fresh: fresh{emit: c.Emit}}, nil
}

func (s *boltStore) Add(items []Item) error {
	for _, it := range items {
		s.held.add(it)
	}
	if s.held.len() < s.most {
		return nil
	}
	return s.Flush()
}

func (s *boltStore) Flush() error {
	if s.held.len() == 0 {
		return nil
	}
	s.order = inOrder(s.order, s.held.len(), func(i int) link.Key { return s.held.keys[i] })
	s.isNew = s.isNew[:0]
	err := s.db.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(boltBucket)
		keys := make([]byte, 0, 16*len(s.order)) // bbolt refers to them until the transaction ends
		for _, i := range s.order {
			at := len(keys)
			keys = appendKey(keys, s.held.keys[i])
			if b.Get(keys[at:]) != nil {
				keys = keys[:at]
				continue
			}
			s.isNew = append(s.isNew, i)
			if err := b.Put(keys[at:], present); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return wrap("bbolt", err)
	}
	slices.Sort(s.isNew)
	for _, i := range s.isNew {
		s.fresh.add(s.held.item(i))
	}
	err = s.fresh.flush()
	s.held.reset()
	return err
}

// present is the value of all keys. bbolt returns an empty value like a missing key.
var present = []byte{1}

func (s *boltStore) Close() error { return wrap("bbolt", s.db.Close()) }
