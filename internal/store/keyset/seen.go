// Package seen answers, in bulk: which of these URLs are new?
//
//	Add(batch) -> drum -> emit(new), now or in a later Add, Emit or Flush
//
// A key is emitted at most once, ever, and always if it is new. Nearly all new
// keys are emitted in the call that brings them; the few that cannot be told
// from known ones without the disk wait for a pass over it, beside the crawl.
// How that works is package drum's; this one is its use for URLs, with the
// crawl's journal as the durable copy.
//
//	owner: Commit, then write the journal, with Held at the end
//	                                           what is held outlives a kill
//	owner: BeginSync, sync the journal, EndSync     ... a power failure
//	start: Open, Bind, look for what is Missing, Restore what Mark does not cover
//
// What a Store has on disk is never ahead of the journal: keys come into its
// runs after the sync that made their accepts durable. If the runs are damaged
// Rebuild makes them anew from the journal's keys. One goroutine owns a Store.
//
// # Exactness
//
// Keys are 128 bits, 64 of the host and 64 of the whole URL; on disk a key of
// a host of m URLs keeps about 38 + log2(m) bits of the second half. A new URL
// is falsely taken for a known one with odds of some 2^-38, so among 10^9 URLs
// less than 0.01 are; package drum has the arithmetic.
//
// These figures hold for chance, not for malice: the hash of weburl.Key is not
// a cryptographic one, so a site can make its own URLs collide with each other
// and thereby hide pages of its own.
package keyset

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Config tunes a Store. The zero Config is good.
type Config struct {
	// MemoryBytes bounds the RAM of everything. Zero means 256 MiB. Up to about
	// 5 million keys for each 256 MiB nothing is ever read from disk.
	MemoryBytes int64
}

// An Item is a URL to check.
type Item struct {
	Key weburl.Key
	// Aux goes to emit with the key and is not looked at: the link's encoding.
	Aux []byte
}

// Stats counts what a Store holds and did.
type Stats = drum.Stats

// A HeldFile is a file of items that have no answer yet, as far as it has any.
type HeldFile = drum.HeldFile

// A Crawl is the id of a crawl, which is in its journal, too. The zero one is
// of none.
type Crawl [16]byte

func (c Crawl) String() string { return hex.EncodeToString(c[:4]) }

// Errors of this package; test with errors.Is.
var (
	// ErrVersion is a Store that another version of this program wrote.
	ErrVersion = errors.New("seen of another version")
	// ErrCrawl is a Store of another crawl.
	ErrCrawl = errors.New("of another crawl")
)

// A Store is the set of keys that were ever added.
type Store struct {
	d    *drum.Store
	emit func([]Item) error
	ask  []drum.Item
	out  []Item

	crawl Crawl
	mark  uint64
}

// Open opens the Store in dir, or makes an empty one. emit gets the new items;
// the slice is the Store's and valid until emit returns, and emit must not
// call the Store. With a damaged manifest the keys are begun anew: Mark is 0 then.
// Other damage waits for Repair.
func Open(fs disk.FS, dir string, cfg Config, emit func([]Item) error) (*Store, error) {
	if cfg.MemoryBytes <= 0 {
		cfg.MemoryBytes = 256 << 20
	}
	s := &Store{emit: emit}
	open := func() (err error) {
		s.d, err = drum.Open(fs, dir, drum.Config{MemoryBytes: cfg.MemoryBytes, Journal: true}, s.answers)
		return err
	}
	err := open()
	if errors.Is(err, drum.ErrManifest) {
		// The journal has all keys, and drum removes runs that no manifest
		// names. What is held is nowhere else, and stays.
		if err := fs.Remove(filepath.Join(dir, drum.ManifestName)); err != nil {
			return nil, fmt.Errorf("open seen: %w", err)
		}
		err = open()
	}
	if err != nil {
		return nil, fmt.Errorf("open seen: %w", err)
	}
	if m := s.d.Mark(); len(m) > 0 {
		if s.crawl, s.mark, err = parseMark(m); err != nil {
			s.d.Close()
			return nil, fmt.Errorf("open seen %s: %w", dir, err)
		}
	}
	return s, nil
}

// appendMark encodes how far a crawl's journal is covered: 16 bytes of the
// crawl's id, uvarint accepts.
func appendMark(dst []byte, c Crawl, accepted uint64) []byte {
	return binary.AppendUvarint(append(dst, c[:]...), accepted)
}

func parseMark(m []byte) (c Crawl, accepted uint64, err error) {
	n := copy(c[:], m)
	accepted, w := binary.Uvarint(m[n:])
	if w <= 0 || n+w != len(m) {
		return c, 0, fmt.Errorf("%w: mark %x", ErrVersion, m)
	}
	return c, accepted, nil
}

// Bind says whose the Store is, before the first Restore or Add. A Store that
// has been written for another crawl is an ErrCrawl.
func (s *Store) Bind(c Crawl) error {
	if s.crawl != c && s.crawl != (Crawl{}) {
		return fmt.Errorf("%w: %s, not %s", ErrCrawl, s.crawl, c)
	}
	s.crawl = c
	s.d.SetMark(appendMark(nil, c, 0))
	return nil
}

// Add checks items. Duplicates vanish, also those within items; what is new
// reaches emit, in this call or in a later Add, Emit or Flush. An Aux may
// change when Add returns. A *drum.Damage asks for Rebuild; the items are
// taken. Any other error is final.
func (s *Store) Add(items []Item) error {
	s.ask = s.ask[:0]
	for i := range items {
		s.ask = append(s.ask, drum.Item{Key: items[i].Key, Aux: items[i].Aux})
	}
	err := s.d.Add(s.ask)
	clear(s.ask) // the Aux belong to others
	return err
}

// answers is what drum emits to.
func (s *Store) answers(items []drum.Item) error {
	s.out = s.out[:0]
	for i := range items {
		s.out = append(s.out, Item{Key: items[i].Key, Aux: items[i].Aux})
	}
	err := s.emit(s.out)
	clear(s.out)
	return err
}

// Ready gets a value when Emit has something to do.
func (s *Store) Ready() <-chan struct{} { return s.d.Ready() }

// Emit hands out what was held and found to be new, for a few milliseconds at
// most.
func (s *Store) Emit() error { return s.d.Emit() }

// Flush returns when everything new of earlier calls has been emitted.
func (s *Store) Flush() error { return s.d.Flush() }

// Restore adds keys without emitting them, before the first Add and after
// Repair: what the owner has accepted since Mark. A *drum.Damage asks for
// Repair; the keys are taken.
func (s *Store) Restore(keys []weburl.Key) error { return s.d.Restore(keys) }

// Mark is how many of the owner's accepts, the first ones, need no Restore.
func (s *Store) Mark() uint64 { return s.mark }

// Commit writes what is held: it survives the death of the process. The owner
// calls it ahead of each write of its journal.
func (s *Store) Commit() error { return s.d.Commit() }

// Holds says that some items have no answer yet.
func (s *Store) Holds() bool { return s.d.Holds() }

// Held appends the files that have what is held, as far as it was committed. A
// file that it no longer names may go after the next EndSync, so that the
// owner's journal must not name it last by then.
func (s *Store) Held(dst []HeldFile) []HeldFile { return s.d.Held(dst) }

// Missing says, after Open, how many of the items that Held told of are gone.
func (s *Store) Missing(files []HeldFile) (items int64) {
	for _, f := range files {
		items += s.d.Missing(f)
	}
	return items
}

// Lost returns, once, where held items were found to be damaged. Those whose
// Items are counted never reach emit; it is as if they had not been added. The
// others, which Open found, Missing counts.
func (s *Store) Lost() []drum.Damage { return s.d.Lost() }

// WantsSync says that what is held waits for BeginSync.
func (s *Store) WantsSync() bool { return s.d.WantsSync() }

// A Syncing is a sync on its way; its Run may be called by another goroutine.
type Syncing = drum.Syncing

// BeginSync begins to make what is held durable. The owner's journal is synced
// meanwhile, all of it that was appended before this call.
func (s *Store) BeginSync() (*Syncing, error) { return s.d.BeginSync() }

// EndSync takes note of a Syncing that has run, beside the journal's, with this
// error. accepted is how many accepts the owner had made when it began.
func (s *Store) EndSync(t *Syncing, err error, accepted uint64) error {
	return s.d.EndSync(t, err, appendMark(nil, s.crawl, accepted))
}

// Repair rebuilds what is damaged, if anything is, from all keys that were ever
// accepted or inserted, which load gives to keys and lists in any order, once
// for each damage.
func (s *Store) Repair(load func(keys func([]weburl.Key) error, lists func(host uint64, l List) error) error) (repaired []drum.Damage, err error) {
	for _, d := range s.d.Damaged() {
		if err := s.d.RebuildLists(d.Bucket, load); err != nil {
			return repaired, fmt.Errorf("rebuild seen after %w: %w", &d, err)
		}
		repaired = append(repaired, d)
	}
	return repaired, nil
}

// Len is about how many keys there are.
func (s *Store) Len() int64 { return s.d.Len() }

// Stats returns the counts.
func (s *Store) Stats() Stats { return s.d.Stats() }

// Close waits for a pass under way and gives the memory back. What was not
// synced is as after a kill.
func (s *Store) Close() error { return s.d.Close() }
