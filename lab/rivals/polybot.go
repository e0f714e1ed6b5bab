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

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// A leaf is a key in a tree, with its link's place in the arena.
type leaf struct {
	key weburl.Key
	at  uint32
}

// leafBytes is about what one takes in a tree whose nodes are two thirds full.
const leafBytes = 24 * 3 / 2

// A collection is a tree that takes links in.
type collection struct {
	tree  *btree.BTreeG[leaf]
	links arena
}

// newCollection has room for links of so many bytes in all; it is used again,
// since what grows takes more than is in it.
func newCollection(bytes int64) *collection {
	c := &collection{tree: btree.NewG(32, func(a, b leaf) bool { return less(a.key, b.key) })}
	c.links.aux = make([]byte, 0, bytes*7/10)
	c.links.keys, c.links.ends = make([]weburl.Key, 0, bytes/180), make([]uint32, 0, bytes/180)
	return c
}

func (c *collection) reset() {
	c.tree.Clear(true)
	c.links.reset()
}

// bytes is the memory that it takes.
func (c *collection) bytes() int64 {
	return int64(c.tree.Len())*leafBytes + int64(len(c.links.aux)) + int64(c.links.len())*(keyBytes+4)
}

// insert says whether k was not there.
func (c *collection) insert(k weburl.Key, at uint32) bool {
	old, was := c.tree.ReplaceOrInsert(leaf{k, at})
	if was {
		c.tree.ReplaceOrInsert(old) // the first stays
	}
	return !was
}

// polybot merges a tree with a sorted file of all keys:
//
//	key    1 octet       how many octets it shares with the key before
//	       16 - as many  the others
//
// As long as all keys fit the memory they stay there, and answers come at
// once.
type polybot struct {
	cfg     Config
	half    int64
	bulk    bool // keys are on disk
	now     *collection
	spare   *collection
	merging chan merged // nil: no merge is under way
	name    string      // of the file
	round   int
	fresh   fresh
}

// merged is what a merge has found.
type merged struct {
	c     *collection
	isNew []uint32 // places of links
	name  string
	err   error
}

func openPolybot(c Config) (Store, error) {
	// One half is being merged while the other takes links in.
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

// begin starts a merge, behind the one that is under way.
func (p *polybot) begin() error {
	if err := p.wait(); err != nil {
		return err
	}
	c, from := p.now, p.name
	p.now = p.spare
	p.round++
	to := fmt.Sprintf("urls.%d", p.round)
	done := make(chan merged, 1)
	known := !p.bulk // what is in the tree was answered
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

// wait waits for the merge that is under way.
func (p *polybot) wait() error {
	if p.merging == nil {
		return nil
	}
	return p.end(<-p.merging)
}

// end takes over what a merge has found.
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
	slices.Sort(m.isNew) // as they arrived
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

// merge writes the file anew with c's keys, and says which were not in it.
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

// sorted reads a file of keys; a nil r has none.
type sorted struct {
	r     *bufio.Reader
	key   weburl.Key
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
		return fmt.Errorf("a key shares %d octets", shared)
	}
	if _, err := io.ReadFull(s.r, s.bytes[shared:]); err != nil {
		return err
	}
	s.key = weburl.Key{Host: binary.BigEndian.Uint64(s.bytes[:]), Path: binary.BigEndian.Uint64(s.bytes[8:])}
	return nil
}

// sortedWriter writes one; its errors come with Flush.
type sortedWriter struct {
	w    *bufio.Writer
	last [keyBytes]byte
	any  bool
}

func (s *sortedWriter) put(k weburl.Key) {
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
