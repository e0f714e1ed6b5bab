package rivals

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"path/filepath"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	pageBytes  = 4096
	keyBytes   = 16
	pageKeys   = pageBytes/keyBytes - 1 // the first slot holds the number of keys
	firstPages = 64
	cacheWays  = 8
)

// mercator is the store of Mercator, a crawler (paper): a cache of keys in front of a hash file
// of pages.
//
//	page   8 octets  number of keys, little-endian; 8 octets zero
//	       255 x 16  keys: host and path, little-endian
//
// The high bits of a key's hash choose its page. If that page is full, the key is in one of
// the next pages.
type mercator struct {
	cfg   Config
	file  disk.File
	shift uint // 64 - log2(number of pages)
	pages uint64
	keys  uint64
	page  [pageBytes]byte
	sets  []set
	fresh fresh
	round int // number in the file's name
}

// A set is a few cached keys, the most recently used first.
type set [cacheWays]link.Key

func openMercator(c Config) (Store, error) {
	m := &mercator{cfg: c, fresh: fresh{emit: c.Emit}}
	m.sets = make([]set, max(c.memory()*7/8/(cacheWays*keyBytes), 1))
	if err := m.create(firstPages); err != nil {
		return nil, wrap("mercator", err)
	}
	return m, nil
}

// create creates an empty file.
func (m *mercator) create(pages uint64) error {
	w, err := m.cfg.create(fmt.Sprintf("keys.%d", m.round))
	if err != nil {
		return err
	}
	m.round++
	var empty [pageBytes]byte
	for range pages {
		w.Write(empty[:]) // Flush returns the errors
	}
	if err := w.Flush(); err != nil {
		w.f.Close()
		return err
	}
	m.file, m.pages, m.shift = w.f, pages, uint(64-bits.TrailingZeros64(pages))
	return nil
}

func place(k link.Key) uint64 { return mix(k.Path ^ bits.RotateLeft64(k.Host, 32)) }

func (m *mercator) Add(items []Item) error {
	for i := range items {
		k := items[i].Key
		if m.cached(k) {
			continue
		}
		isNew, err := m.insert(k)
		if err != nil {
			return wrap("mercator", err)
		}
		if isNew {
			m.fresh.add(items[i])
		}
	}
	return m.fresh.flush()
}

// cached reports whether the cache has k, and makes k the most recently used key. The zero key
// stands for a free slot and is never reported.
func (m *mercator) cached(k link.Key) bool {
	at, _ := bits.Mul64(place(k)*0x9e3779b97f4a7c15, uint64(len(m.sets)))
	s := &m.sets[at]
	i := 0
	for i < cacheWays-1 && s[i] != k {
		i++
	}
	known := s[i] == k && k != link.Key{}
	copy(s[1:i+1], s[:i])
	s[0] = k
	return known
}

// insert adds k to the file and reports whether it is new.
func (m *mercator) insert(k link.Key) (bool, error) {
	p := place(k) >> m.shift
	for {
		if _, err := m.file.ReadAt(m.page[:], int64(p)*pageBytes); err != nil {
			return false, err
		}
		n, known := find(&m.page, k)
		if known {
			return false, nil
		}
		if n < pageKeys {
			putKey(&m.page, n, k)
			break
		}
		p = (p + 1) & (m.pages - 1)
	}
	if err := writeAt(m.file, m.page[:], int64(p)*pageBytes); err != nil {
		return false, err
	}
	if m.keys++; m.keys > m.pages*pageKeys*4/5 {
		return true, m.double()
	}
	return true, nil
}

// find returns the number of keys of a page, and whether k is one of them.
func find(page *[pageBytes]byte, k link.Key) (n int, known bool) {
	n = int(binary.LittleEndian.Uint64(page[:]))
	for i := 1; i <= n; i++ {
		b := page[i*keyBytes : (i+1)*keyBytes]
		if binary.LittleEndian.Uint64(b[8:]) == k.Path && binary.LittleEndian.Uint64(b) == k.Host {
			return n, true
		}
	}
	return n, false
}

// putKey adds k to a page with n keys.
func putKey(page *[pageBytes]byte, n int, k link.Key) {
	b := page[(n+1)*keyBytes : (n+2)*keyBytes]
	binary.LittleEndian.PutUint64(b, k.Host)
	binary.LittleEndian.PutUint64(b[8:], k.Path)
	binary.LittleEndian.PutUint64(page[:], uint64(n+1))
}

// double moves the keys to a file of twice the size, in one pass: the keys of page p go to
// pages 2p and 2p+1. Afterwards it inserts the keys that were on a later page because their own
// page was full.
func (m *mercator) double() error {
	old, oldName := m.file, filepath.Join(m.cfg.Dir, fmt.Sprintf("keys.%d", m.round-1))
	if _, err := old.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(old, ioBytes)
	w, err := m.cfg.create(fmt.Sprintf("keys.%d", m.round))
	if err != nil {
		return err
	}
	m.round++
	pages, shift := m.pages*2, m.shift-1
	var from [pageBytes]byte
	var spare []link.Key
	for p := range m.pages {
		if _, err := io.ReadFull(r, from[:]); err != nil {
			return err
		}
		var to [2][pageBytes]byte
		for i := range int(binary.LittleEndian.Uint64(from[:])) {
			b := from[(i+1)*keyBytes:]
			k := link.Key{Host: binary.LittleEndian.Uint64(b), Path: binary.LittleEndian.Uint64(b[8:])}
			at := place(k) >> shift
			if at>>1 != p {
				spare = append(spare, k)
				continue
			}
			page := &to[at&1]
			if n := int(binary.LittleEndian.Uint64(page[:])); n < pageKeys {
				putKey(page, n, k)
			} else {
				spare = append(spare, k)
			}
		}
		w.Write(to[0][:]) // Flush returns the errors
		w.Write(to[1][:])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	old.Close()
	if err := m.cfg.FS.Remove(oldName); err != nil {
		return err
	}
	m.file, m.pages, m.shift = w.f, pages, shift
	m.keys -= uint64(len(spare))
	for _, k := range spare {
		if _, err := m.insert(k); err != nil {
			return err
		}
	}
	return nil
}

func (m *mercator) Flush() error { return nil }

func (m *mercator) Close() error { return wrap("mercator", m.file.Close()) }
