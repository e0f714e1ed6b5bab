package rivals

import (
	"github.com/orbweaver/orbweaver/internal/web/link"
	"github.com/orbweaver/orbweaver/lab/stream"
)

// goMap keeps the keys in a Go map, the simplest store.
type goMap struct {
	known map[link.Key]struct{}
	fresh fresh
}

func openMap(c Config) (Store, error) {
	return &goMap{known: map[link.Key]struct{}{}, fresh: fresh{emit: c.Emit}}, nil
}

func (m *goMap) Add(items []Item) error {
	for i := range items {
		n := len(m.known)
		m.known[items[i].Key] = struct{}{}
		if len(m.known) > n {
			m.fresh.add(items[i])
		}
	}
	return m.fresh.flush()
}

func (m *goMap) Flush() error { return nil }
func (m *goMap) Close() error { return nil }

const (
	bloomBits   = 10 // per key
	bloomProbes = 7
)

// bloomStore is a Bloom filter (Bloom, 1970).
type bloomStore struct {
	bits  []uint64
	fresh fresh
}

func openBloom(c Config) (Store, error) {
	return &bloomStore{bits: make([]uint64, max(c.Keys, 1)*bloomBits/64+1), fresh: fresh{emit: c.Emit}}, nil
}

func (b *bloomStore) Add(items []Item) error {
	n := uint64(len(b.bits)) * 64
	for i := range items {
		k := items[i].Key
		at, step := stream.Mix(k.Host^k.Path), stream.Mix(k.Path+1)|1
		known := true
		for range bloomProbes {
			bit := at % n
			if b.bits[bit>>6]>>(bit&63)&1 == 0 {
				known = false
				b.bits[bit>>6] |= 1 << (bit & 63)
			}
			at += step
		}
		if !known {
			b.fresh.add(items[i])
		}
	}
	return b.fresh.flush()
}

func (b *bloomStore) Flush() error { return nil }
func (b *bloomStore) Close() error { return nil }
