// Package seen answers, in bulk: which of these URLs are new?
//
//	Add(batch) -> shard of the host -> segment of the URL -> emit(new)
//
// A key is emitted at most once, ever, and always if it is new; new keys are
// emitted in the order in which they arrived. A Store is the index of a crawl,
// not its memory: Restore fills it from the journal after a start, and the
// journal's checkpoints take the keys from its own files, not from here. Each
// reads them out. The keys of one host lie together, so
// that they can be read out, written in and dropped when the host changes
// hands. One goroutine owns a Store.
//
// # Exactness
//
// Keys are 128 bits, 64 of the host and 64 of the whole URL. Two URLs of
// different hosts are taken for one with probability 2^-128, so among n = 10^9
// URLs n²/2 · 2^-128 = 1.5e-21 pairs are expected to be. Two URLs of one host
// share the first half: a host of m URLs expects m²/2 · 2^-64 false
// duplicates. With 10^9 URLs that is 2.7e-8 on a million hosts of a thousand,
// 2.7e-4 with 10^8 of them on one host, and 0.027 if one host has them all: a
// crawl of that size loses one URL in forty crawls at the very worst.
//
// These figures hold for chance, not for malice: the hash of weburl.Key is not
// a cryptographic one, so a site can make its own URLs collide with each other
// and thereby hide pages of its own.
//
// # Memory
//
// This implementation keeps its keys in RAM, 19 to 23 bytes each; see
// DESIGN.md.
package seen

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/orbweaver/orbweaver/disk"
	"github.com/orbweaver/orbweaver/weburl"
)

// ErrMemory is a Store that has reached Config.MemoryBytes.
var ErrMemory = errors.New("seen: out of memory budget")

// Config tunes a Store. The zero Config is good.
type Config struct {
	// MemoryBytes bounds the RAM that keys take; over it Add and Restore
	// return ErrMemory. Zero means no bound.
	MemoryBytes int64
}

// An Item is a URL to check.
type Item struct {
	Key weburl.Key
	// Aux goes to emit with the key and is not looked at: the link's encoding.
	Aux []byte
}

const (
	shardBits  = 10 // a host's keys are found in 1/1024 of the store
	blockItems = 4096
)

// A Store is the set of keys that were ever added.
type Store struct {
	cfg    Config
	emit   func([]Item) error
	seed   uint64 // makes the places of keys unpredictable from outside
	shards [1 << shardBits]shard
	zero   bool // the zero key, which marks a free slot and so cannot lie in one
	len    int64
	bytes  int64
	fresh  []Item
	err    error // the first one; a Store does not work on after it
}

// Open returns an empty Store. dir belongs to it and is emptied, because what
// a Store must remember is in the journal. emit gets the new items of an Add;
// the slice is the Store's and valid until emit returns, and emit must not
// call the Store.
func Open(fs disk.FS, dir string, cfg Config, emit func([]Item) error) (*Store, error) {
	if err := fs.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("open seen: %w", err)
	}
	return &Store{cfg: cfg, emit: emit, seed: rand.Uint64()}, nil
}

// Add checks items. Duplicates vanish, also those within items; what is new
// reaches emit in the order of arrival, in this call or in a later Add or
// Flush. An Aux must stay unchanged until then. An error is final: some items
// may be in the Store that were never emitted, so it has to be rebuilt.
func (s *Store) Add(items []Item) error {
	if s.err != nil {
		return s.err
	}
	s.fresh = s.fresh[:0]
	for i := range items {
		if s.insert(items[i].Key) {
			s.fresh = append(s.fresh, items[i])
		}
	}
	if err := s.within(); err != nil {
		return err
	}
	if len(s.fresh) == 0 {
		return nil
	}
	if err := s.emit(s.fresh); err != nil {
		s.err = err
	}
	clear(s.fresh) // the Aux belong to others
	return s.err
}

// Flush returns when everything new of earlier calls has been emitted.
func (s *Store) Flush() error { return s.err }

// Restore adds keys without emitting them: from a snapshot, or a host that was
// handed over. Keys that are there already do no harm.
func (s *Store) Restore(keys []weburl.Key) error {
	if s.err != nil {
		return s.err
	}
	for _, k := range keys {
		s.insert(k)
	}
	return s.within()
}

func (s *Store) within() error {
	if max := s.cfg.MemoryBytes; max > 0 && s.MemoryBytes() > max {
		s.err = fmt.Errorf("%w (%d keys, %d bytes)", ErrMemory, s.len, max)
	}
	return s.err
}

// Len is the number of keys.
func (s *Store) Len() int64 { return s.len }

// MemoryBytes is the RAM that the Store takes.
func (s *Store) MemoryBytes() int64 {
	const fixed = 1 << shardBits * shardSize
	return fixed + s.bytes + int64(cap(s.fresh))*itemSize
}

// Each reads all keys out in blocks of at most 4096, each host's in a row of
// blocks that it may share with others. The block is valid until fn returns;
// fn must not call the Store.
func (s *Store) Each(fn func([]weburl.Key) error) error {
	if s.err != nil {
		return s.err
	}
	b := block{keys: make([]weburl.Key, 0, blockItems), fn: fn}
	if s.zero {
		b.add(weburl.Key{})
	}
	for i := range s.shards {
		s.shards[i].each(b.add)
	}
	return b.flush()
}

// Range reads the keys of one host out like Each.
func (s *Store) Range(host uint64, fn func([]weburl.Key) error) error {
	if s.err != nil {
		return s.err
	}
	b := block{keys: make([]weburl.Key, 0, blockItems), fn: fn}
	if s.zero && host == 0 {
		b.add(weburl.Key{})
	}
	s.shardOf(host).each(func(k weburl.Key) {
		if k.Host == host {
			b.add(k)
		}
	})
	return b.flush()
}

// Drop forgets the keys of one host and says how many there were.
func (s *Store) Drop(host uint64) int64 {
	var n int64
	if s.zero && host == 0 {
		s.zero = false
		n = 1
	}
	gone, bytes := s.shardOf(host).drop(host, s.seed)
	n += gone
	s.len -= n
	s.bytes += bytes
	return n
}

// Close gives the memory back. The Store cannot be used after it.
func (s *Store) Close() error {
	*s = Store{err: errors.New("seen: closed")}
	return nil
}

// insert says whether k is new.
func (s *Store) insert(k weburl.Key) bool {
	if k == (weburl.Key{}) {
		isNew := !s.zero
		s.zero = true
		if isNew {
			s.len++
		}
		return isNew
	}
	isNew, bytes := s.shardOf(k.Host).insert(k, s.seed)
	s.bytes += bytes
	if isNew {
		s.len++
	}
	return isNew
}

func (s *Store) shardOf(host uint64) *shard {
	return &s.shards[mix(host^s.seed)>>(64-shardBits)]
}

// A block gathers keys for a callback until the callback returns an error.
type block struct {
	keys []weburl.Key
	fn   func([]weburl.Key) error
	err  error
}

func (b *block) add(k weburl.Key) {
	if b.keys = append(b.keys, k); len(b.keys) == cap(b.keys) {
		_ = b.flush() // kept in b.err
	}
}

func (b *block) flush() error {
	if b.err == nil && len(b.keys) > 0 {
		b.err = b.fn(b.keys)
	}
	b.keys = b.keys[:0]
	return b.err
}
