// Package keyset answers, in bulk: which of these URLs are new?
//
//	Add(batch) -> drum -> emit(new), now or in a later Add, Emit or Flush
//
// A key is emitted at most once, ever, and it is emitted if it is new. Nearly all new keys are emitted in the call that
// adds them. The few that cannot be told from known keys without reading the disk are held: they wait for a pass over
// the disk, which runs beside the crawl. Package drum implements this. Package keyset applies it to URLs, with the
// crawl's journal as the durable copy of the keys. The owner calls it in this order:
//
//	to survive a kill:           Commit, then write the journal, with Held at the end
//	to survive a power failure:  BeginSync, sync the journal, EndSync
//	at the start:                Open, Bind, check what is Missing, Restore what Mark does not cover
//
// The files of a Store are never ahead of the journal: a key is written to a run only after the sync that made its
// accept durable. If runs are damaged, Repair rebuilds them from the keys in the journal. One goroutine owns a Store.
//
// # Exactness
//
// Keys have 128 bits: 64 of the host and 64 of the whole URL. On disk, a key of a host with m URLs keeps about
// 38 + log2(m) bits of the second half. A new URL is taken for a known one with a probability of about 2^-38. Among
// 10^9 URLs, fewer than 0.01 are expected to be. Package drum shows the calculation.
//
// These figures hold for chance, not for an attack. The hash of link.Key is not cryptographic. A site can make its
// own URLs collide and so hide pages of its own, but not pages of other sites.
package keyset

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Config tunes a Store. The zero Config is valid.
type Config struct {
	// MemoryBytes limits the RAM of the Store. Zero means 256 MiB. Up to about 5 million keys per 256 MiB, the Store
	// answers without reading from disk.
	MemoryBytes int64
}

// An Item is a URL that Add checks. The crawl puts the link into Aux. Value and Known are not used.
type Item = drum.Item

// Stats describes a Store.
type Stats = drum.Stats

// A HeldFile names a file of held items and the position in it up to which it has unanswered items.
type HeldFile = drum.HeldFile

// A Crawl is the id of a crawl, as its journal records it. The zero Crawl means none.
type Crawl [16]byte

func (c Crawl) String() string { return hex.EncodeToString(c[:4]) }

// The errors of this package. Test for them with errors.Is.
var (
	// ErrVersion means that another version of this program wrote the Store.
	ErrVersion = errors.New("key set of another version")
	// ErrCrawl means that the Store belongs to another crawl.
	ErrCrawl = errors.New("key set of another crawl")
)

// A Store is the set of all keys that were ever added.
type Store struct {
	d    *drum.Store
	note []Item // reused by Note

	crawl Crawl
	mark  uint64
}

// Open opens the Store in dir, or creates an empty one. The Store calls emit with new items. The slice is valid until
// emit returns; emit must not call the Store. If the manifest is damaged, Open starts with an empty set, and Mark
// returns 0; held items are kept. Repair mends all other damage. Open reads all runs.
func Open(fs disk.FS, dir string, cfg Config, emit func([]Item) error) (*Store, error) {
	if cfg.MemoryBytes <= 0 {
		cfg.MemoryBytes = 256 << 20
	}
	s := &Store{}
	open := func() (err error) {
		s.d, err = drum.Open(fs, dir, drum.Config{MemoryBytes: cfg.MemoryBytes, Journal: true}, emit)
		return err
	}
	err := open()
	if errors.Is(err, drum.ErrManifest) {
		// The journal has all keys, and drum removes runs that no manifest names. Held items exist only here, and
		// drum keeps them.
		if err := fs.Remove(filepath.Join(dir, drum.ManifestName)); err != nil {
			return nil, fmt.Errorf("open key set: %w", err)
		}
		err = open()
	}
	if err != nil {
		return nil, fmt.Errorf("open key set: %w", err)
	}
	if m := s.d.Mark(); len(m) > 0 {
		if s.crawl, s.mark, err = parseMark(m); err != nil {
			s.d.Close()
			return nil, fmt.Errorf("open key set %s: %w", dir, err)
		}
	}
	return s, nil
}

// appendMark encodes how many accepts of a crawl's journal the runs cover: the crawl's id (16 bytes), then the number
// as a uvarint.
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

// Bind names the crawl to which the Store belongs. Call it once, before the first Restore or Add. If the Store was
// written for another crawl, the error is ErrCrawl.
func (s *Store) Bind(c Crawl) error {
	if s.crawl != c && s.crawl != (Crawl{}) {
		return fmt.Errorf("%w: %s, not %s", ErrCrawl, s.crawl, c)
	}
	s.crawl = c
	s.d.SetMark(appendMark(nil, c, 0))
	return nil
}

// Add checks items. It drops duplicates, also within items. New items reach emit in this call or in a later Add, Emit
// or Flush. The caller may change an Aux when Add returns. If the error is a *drum.Damage, the items are added, and the
// caller must call Repair. Any other error is final.
func (s *Store) Add(items []Item) error { return s.d.Add(items) }

// MayHave reports whether the Store may have a key. It does not read from disk: false is certain, except for an item
// without an answer; true may be wrong. Range tells.
func (s *Store) MayHave(k link.Key) bool { return s.d.MayHave(k) }

// Ready returns a channel that receives a value when a call of Emit would do something.
func (s *Store) Ready() <-chan struct{} { return s.d.Ready() }

// Emit emits held items that turned out to be new. It stops after a few milliseconds.
func (s *Store) Emit() error { return s.d.Emit() }

// Flush emits all new items of earlier calls. It blocks for a pass over the disk.
func (s *Store) Flush() error { return s.d.Flush() }

// Restore adds keys without emitting them: those that the owner accepted since Mark. Call it before the first Add and
// after Repair. If the error is a *drum.Damage, the keys are added, and the caller must call Repair.
func (s *Store) Restore(keys []link.Key) error { return s.d.Restore(keys) }

// Mark returns how many of the owner's accepts, counted from the first one, need no Restore.
func (s *Store) Mark() uint64 { return s.mark }

// Commit writes the held items to their files, so that they survive the death of the process. The owner calls it before
// each write of its journal.
func (s *Store) Commit() error { return s.d.Commit() }

// Holds reports whether some items are still without an answer.
func (s *Store) Holds() bool { return s.d.Holds() }

// Held appends the files of held items that were committed and have no answer yet. A file that it no longer names may
// be removed after the next EndSync. By then the last mark in the owner's journal must not name it either.
func (s *Store) Held(dst []HeldFile) []HeldFile { return s.d.Held(dst) }

// Missing returns, after Open, how many of the items in files are gone.
func (s *Store) Missing(files []HeldFile) (items int64) {
	for _, f := range files {
		items += s.d.Missing(f)
	}
	return items
}

// Lost returns where held items were found to be damaged since the last call. Damage.Items counts those that never
// reach emit; the Store treats them as if they had not been added. Missing, not Items, counts those that Open found.
func (s *Store) Lost() []drum.Damage { return s.d.Lost() }

// WantsSync reports whether a pass waits for BeginSync. It holds up the answers to held items.
func (s *Store) WantsSync() bool { return s.d.WantsSync() }

// A Syncing is a sync in progress. Another goroutine than the owner of the Store may call its Run.
type Syncing = drum.Syncing

// BeginSync starts to make the held items durable. Meanwhile the owner syncs its journal, including everything that it
// appended before this call.
func (s *Store) BeginSync() (*Syncing, error) { return s.d.BeginSync() }

// EndSync records the result of a Syncing and of the journal's sync. err is the first error of both. accepted is the
// number of accepts that the owner had made when it called BeginSync.
func (s *Store) EndSync(t *Syncing, err error, accepted uint64) error {
	return s.d.EndSync(t, err, appendMark(nil, s.crawl, accepted))
}

// Repair rebuilds all damaged buckets and returns what was damaged. For each of them it calls load, which must pass on
// all keys that were ever accepted (to keys) or inserted (to lists), in any order.
func (s *Store) Repair(
	load func(keys func([]link.Key) error, lists func(host uint64, l List) error) error,
) (repaired []drum.Damage, err error) {
	for _, d := range s.d.Damaged() {
		if err := s.d.Rebuild(d.Bucket, load); err != nil {
			return repaired, fmt.Errorf("rebuild key set after %w: %w", &d, err)
		}
		repaired = append(repaired, d)
	}
	return repaired, nil
}

// Len returns the approximate number of keys.
func (s *Store) Len() int64 { return s.d.Len() }

// Stats returns the current figures.
func (s *Store) Stats() Stats { return s.d.Stats() }

// Close waits for a running pass and frees the memory. What was not synced is in the same state as after a kill.
func (s *Store) Close() error { return s.d.Close() }
