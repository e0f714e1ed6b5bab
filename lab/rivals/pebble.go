package rivals

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// pebbleStore keeps the keys in an LSM tree.
type pebbleStore struct {
	db    *pebble.DB
	fresh fresh
	order []int // reused by Add
	isNew []int
	key   []byte
}

// quiet drops Pebble's log messages.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic("pebble: fatal: " + format)
}

func openPebble(c Config) (Store, error) {
	memory := c.memory()
	o := &pebble.Options{
		CacheSize: memory / 2,
		// Pebble fills one memtable while it writes up to three others.
		MemTableSize:                max(uint64(memory)/16, 256<<10),
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		LBaseMaxBytes:               max(memory/4, 4<<20),
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		DisableWAL:                  true, // a crawl has its own journal
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      quiet{},
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].BlockSize = 4 << 10 // a look-up reads one block
	}
	// Keys are random, so only their common prefixes could be compressed, and blocks omit
	// these already.
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionNone })
	db, err := pebble.Open(filepath.Join(c.Dir, "pebble"), o)
	if err != nil {
		return nil, wrap("pebble", err)
	}
	return &pebbleStore{db: db, fresh: fresh{emit: c.Emit}}, nil
}

func (s *pebbleStore) Add(items []Item) error {
	s.order = inOrder(s.order, len(items), func(i int) link.Key { return items[i].Key })
	s.isNew = s.isNew[:0]
	b := s.db.NewBatch()
	defer b.Close()
	for _, i := range s.order {
		s.key = appendKey(s.key[:0], items[i].Key)
		_, closer, err := s.db.Get(s.key)
		switch {
		case err == nil:
			err = closer.Close()
		case errors.Is(err, pebble.ErrNotFound):
			s.isNew = append(s.isNew, i)
			err = b.Set(s.key, nil, nil)
		}
		if err != nil {
			return wrap("pebble", err)
		}
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return wrap("pebble", err)
	}
	slices.Sort(s.isNew) // the order of arrival
	for _, i := range s.isNew {
		s.fresh.add(items[i])
	}
	return s.fresh.flush()
}

func (s *pebbleStore) Flush() error { return nil }

func (s *pebbleStore) Close() error { return wrap("pebble", s.db.Close()) }
