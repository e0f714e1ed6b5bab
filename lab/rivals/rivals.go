// Package rivals answers: what would other stores of the known URLs cost?
//
//	Kinds -> Kind.Open -> Store: Add(items) ... Flush -> emit(new)
//
// Each file is a whole store: ours, a common library, or a structure in memory. All stores answer the
// same question: they emit each key once, when it was never added before. So all of them can
// process the same stream. The stores serve an experiment and are not parts of a crawler: they
// do not survive a crash.
//
// One goroutine owns a Store. The Store calls emit on this goroutine, within Add or Flush.
package rivals

import (
	"fmt"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/lab/stream"
)

// An Item is a key with its link, as in package stream.
type Item = stream.Item

// A Store finds out which keys are new.
type Store interface {
	// Add checks items. The Store passes new items to emit, in this call or in a later Add or
	// Flush. The caller overwrites the Aux of items after the call.
	Add(items []Item) error
	// Flush returns when all new items of earlier calls have been emitted.
	Flush() error
	Close() error
}

// A Config configures a Store.
type Config struct {
	FS  disk.FS
	Dir string // an existing empty directory
	// Memory bounds the RAM of a Store whose memory can be bounded, in bytes. Zero means
	// 512 MB.
	Memory int64
	// Keys is the number of keys for a Store of fixed size.
	Keys int64
	// Emit receives new items. They are valid until it returns.
	Emit func([]Item) error
}

// A Kind is a kind of store.
type Kind struct {
	Name, Title string
	// How describes the store in a sentence or two.
	How  string
	Open func(Config) (Store, error)
	// Bounded reports that the store keeps to Config.Memory. Exact reports that the store gives
	// no wrong answers.
	Bounded, Exact bool
	// Ours reports that it is Orbweaver's own store.
	Ours bool
}

// Kinds lists all kinds, ours first.
var Kinds = []Kind{
	{Name: "drum", Title: "drum", How: "our package drum. A cache, a table and a filter in RAM answer most checks. " +
		"The other links wait on disk for a pass that reads sorted runs, beside the intake. As in a crawl, the " +
		"waiting links are synced once a second.", Open: openDrum, Bounded: true, Exact: true, Ours: true},
	{Name: "map", Title: "Go map", How: "`map[link.Key]struct{}`.", Open: openMap, Exact: true},
	{Name: "pebble", Title: "Pebble", How: "cockroachdb/pebble v2, an LSM tree, without its log. All levels have " +
		"10-bit Bloom filters. Half of the memory is the block cache, a quarter is for memtables. A batch is looked " +
		"up in key order, and its new keys are written as one batch.", Open: openPebble, Bounded: true, Exact: true},
	{Name: "bbolt", Title: "bbolt", How: "etcd-io/bbolt, a copy-on-write B+ tree in a mapped file, without fsync. " +
		"Each transaction has 65,536 links, in key order.", Open: openBolt, Bounded: true, Exact: true},
	{Name: "bloom", Title: "Bloom filter", How: "the method of the Internet Archive's crawler: 10 bits a key in RAM " +
		"and seven hash functions. When it is full, it takes one new URL in a hundred for known.", Open: openBloom},
	{Name: "nothing", Title: "no store", How: "discards every link. It shows the cost of the stream.",
		Open: openNothing},
}

// Find returns the Kind with a name.
func Find(name string) (Kind, bool) {
	for _, k := range Kinds {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

const defaultMemory = 512 << 20

func (c *Config) memory() int64 {
	if c.Memory <= 0 {
		return defaultMemory
	}
	return c.Memory
}

// fresh collects the new items of an Add.
type fresh struct {
	items []Item
	emit  func([]Item) error
}

func (f *fresh) add(it Item) { f.items = append(f.items, it) }

func (f *fresh) flush() error {
	if len(f.items) == 0 {
		return nil
	}
	err := f.emit(f.items)
	f.items = f.items[:0]
	return err
}

type nothing struct{}

func openNothing(Config) (Store, error) { return nothing{}, nil }
func (nothing) Add([]Item) error        { return nil }
func (nothing) Flush() error            { return nil }
func (nothing) Close() error            { return nil }

// wrap adds the name of the store to an error.
func wrap(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}
