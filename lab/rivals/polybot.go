package rivals

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/btree"

	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A leaf is a key in a tree, with the index of its link in the arena.
type leaf struct {
	key link.Key
	at  uint32
}

// leafBytes is about the memory of a leaf in a tree whose nodes are two thirds full.
const leafBytes = 24 * 3 / 2

// A collection is a tree of waiting keys with their links.
type collection struct {
	tree  *btree.BTreeG[leaf]
	links arena
}

// newCollection returns a collection for links of a number of bytes in all. The caller reuses
// it, because growing slices would take more memory.
func newCollection(bytes int64) *collection {
	c := &collection{tree: btree.NewG(32, func(a, b leaf) bool { return less(a.key, b.key) })}
	c.links.aux = make([]byte, 0, bytes*7/10)
	c.links.keys, c.links.ends = make([]link.Key, 0, bytes/180), make([]uint32, 0, bytes/180)
	return c
}

func (c *collection) reset() {
	c.tree.Clear(true)
	c.links.reset()
}

// bytes returns the memory of the collection.
func (c *collection) bytes() int64 {
	return int64(c.tree.Len())*leafBytes + int64(len(c.links.aux)) + int64(c.links.len())*(keyBytes+4)
}

// insert adds k, and reports whether it was not there.
func (c *collection) insert(k link.Key, at uint32) bool {
	old, was := c.tree.ReplaceOrInsert(leaf{k, at})
	if was {
		c.tree.ReplaceOrInsert(old) // keep the first link of a key
	}
	return !was
}

// polybot is the store of Polybot, a crawler (paper): a tree of waiting keys, merged from time to
// time with a sorted file of all keys:
//
//	key    1 byte        number of bytes in common with the key before
//	       16 - as many  the other bytes
//
// As long as all keys fit into memory, they stay there, and answers come at once.
type polybot struct {
	cfg     Config
	half    int64
	bulk    bool // the keys are on disk
	now     *collection
	spare   *collection
	merging chan merged // nil: no merge runs
	name    string      // of the sorted file
	round   int
	fresh   fresh
}

// merged is the result of a merge.
type merged struct {
	c     *collection
	isNew []uint32 // indices of links
	name  string
	err   error
}

func openPolybot(c Config) (Store, error) {
	// One collection is merged while the other one takes links.
	half := c.memory() * 2 / 5
	return &polybot{cfg: c, half: half, now: newCollection(half), spare: newCollection(half),
		fresh: fresh{emit: c.Emit}}, nil
}

func (p *polybot) Add(items []Item) error {
	if p.merging != nil {
		select {
		case m := <-p.merging:
			if err := p.end(m); err != nil {
				return err
			}
		default:
		}
	}
	for i := range items {
		if !p.bulk {
			if p.now.insert(items[i].Key, 0) {
				p.fresh.add(items[i])
			}
			continue
		}
		if p.now.insert(items[i].Key, uint32(p.now.links.len())) {
			p.now.links.add(items[i])
		}
	}
	if err := p.fresh.flush(); err != nil {
		return err
	}
	if p.now.bytes() < p.half {
		return nil
	}
	return p.begin()
}

// begin starts a merge. It waits for the merge that is running.
func (p *polybot) begin() error {
	if err := p.wait(); err != nil {
		return err
	}
	c, from := p.now, p.name
	p.now = p.spare
	p.round++
	to := fmt.Sprintf("urls.%d", p.round)
	done := make(chan merged, 1)
	known := !p.bulk // the keys in the tree have been answered already
	go func() {
		m := merged{c: c, name: to}
		m.isNew, m.err = p.merge(c, from, to)
		if known {
			m.isNew = nil
		}
		done <- m
	}()
	p.merging, p.bulk = done, true
	return nil
}

// wait waits for the running merge.
func (p *polybot) wait() error {
	if p.merging == nil {
		return nil
	}
	return p.end(<-p.merging)
}

// end emits the result of a merge.
func (p *polybot) end(m merged) error {
	p.merging = nil
	if m.err != nil {
		return wrap("polybot", m.err)
	}
	if p.name != "" {
		if err := p.cfg.FS.Remove(filepath.Join(p.cfg.Dir, p.name)); err != nil {
			return wrap("polybot", err)
		}
	}
	p.name, p.spare = m.name, m.c
	slices.Sort(m.isNew) // the order of arrival
	for len(m.isNew) > 0 {
		n := min(len(m.isNew), 1000)
		for _, at := range m.isNew[:n] {
			p.fresh.add(m.c.links.item(int(at)))
		}
		m.isNew = m.isNew[n:]
		if err := p.fresh.flush(); err != nil {
			return err
		}
	}
	m.c.reset()
	return nil
}

// merge writes a new file with all keys and those of c, and returns which keys of c are new.
func (p *polybot) merge(c *collection, from, to string) (isNew []uint32, err error) {
	var old sorted
	if from != "" {
		f, err := p.cfg.FS.OpenFile(filepath.Join(p.cfg.Dir, from), os.O_RDONLY, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		old.r = bufio.NewReaderSize(f, ioBytes)
	}
	w, err := p.cfg.create(to)
	if err != nil {
		return nil, err
	}
	out := sortedWriter{w: w.Writer}
	err = old.next()
	c.tree.Ascend(func(l leaf) bool {
		for err == nil && !old.over && less(old.key, l.key) {
			out.put(old.key)
			err = old.next()
		}
		if err != nil {
			return false
		}
		if old.over || old.key != l.key {
			out.put(l.key)
			isNew = append(isNew, l.at)
		}
		return true
	})
	for err == nil && !old.over {
		out.put(old.key)
		err = old.next()
	}
	return isNew, errors.Join(err, w.close())
}

// sorted reads a file of keys. If r is nil, there are none.
type sorted struct {
	r     *bufio.Reader
	key   link.Key
	bytes [keyBytes]byte
	over  bool
}

func (s *sorted) next() error {
	if s.r == nil {
		s.over = true
		return nil
	}
	shared, err := s.r.ReadByte()
	if err == io.EOF {
		s.over = true
		return nil
	}
	if err != nil {
		return err
	}
	if shared >= keyBytes {
		return fmt.Errorf("damaged file of keys: a key shares %d bytes with the key before", shared)
	}
	if _, err := io.ReadFull(s.r, s.bytes[shared:]); err != nil {
		return err
	}
	s.key = link.Key{Host: binary.BigEndian.Uint64(s.bytes[:]), Path: binary.BigEndian.Uint64(s.bytes[8:])}
	return nil
}

// sortedWriter writes a file of keys. Flush returns its errors.
type sortedWriter struct {
	w    *bufio.Writer
	last [keyBytes]byte
	any  bool
}

func (s *sortedWriter) put(k link.Key) {
	var b [keyBytes]byte
	binary.BigEndian.PutUint64(b[:], k.Host)
	binary.BigEndian.PutUint64(b[8:], k.Path)
	shared := 0
	for s.any && shared < keyBytes-1 && b[shared] == s.last[shared] {
		shared++
	}
	s.w.WriteByte(byte(shared))
	s.w.Write(b[shared:])
	s.last, s.any = b, true
}

func (p *polybot) Flush() error {
	if err := p.wait(); err != nil {
		return err
	}
	if !p.bulk || p.now.tree.Len() == 0 {
		return nil
	}
	if err := p.begin(); err != nil {
		return err
	}
	return p.wait()
}

func (p *polybot) Close() error { return p.wait() }
