package graph

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/orbweaver/orbweaver/internal/store/frames"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Writer writes a graph file. The caller calls Name for each node if the nodes have names, then List for each node,
// then Finish.
type Writer struct {
	w   io.Writer
	off int64

	info   Info
	names  uint64 // names so far
	linked bool   // List was called
	most   uint64 // the largest number in a list, and 1

	block   []byte // head and payload of the block of names
	last    []byte // the last name
	lists   encoder
	first   uint64 // the first node of the block
	in      uint64 // nodes in the block
	linksAt int64
}

// NewWriter returns a Writer that writes to w. It writes the header at once.
func NewWriter(w io.Writer, kind Kind) (*Writer, error) {
	g := &Writer{w: w, info: Info{Kind: kind}, block: make([]byte, blockHead)}
	return g, g.put([]byte(header))
}

func (g *Writer) put(b []byte) error {
	n, err := g.w.Write(b)
	g.off += int64(n)
	return err
}

// Name names the next node. The names need not be sorted, but take less space if they are.
func (g *Writer) Name(name []byte) error {
	if g.linked {
		panic("graph: a name after a list")
	}
	if g.names == MaxNodes {
		return errTooMany
	}
	same := 0
	if g.in > 0 {
		for same < len(name) && same < len(g.last) && name[same] == g.last[same] {
			same++
		}
	}
	g.block = binary.AppendUvarint(g.block, uint64(same))
	g.block = binary.AppendUvarint(g.block, uint64(len(name)-same))
	g.block = append(g.block, name[same:]...)
	g.last = append(g.last[:0], name...)
	g.names++
	g.in++
	if len(g.block) >= blockHead+blockBytes {
		return g.flushNames()
	}
	return nil
}

var errTooMany = fmt.Errorf("a graph has at most %d nodes", uint64(MaxNodes))

func (g *Writer) flushNames() error {
	if g.in == 0 {
		return nil
	}
	err := g.flush(g.block)
	g.block = g.block[:blockHead]
	return err
}

// flush writes a block, which begins with room for its head.
func (g *Writer) flush(b []byte) error {
	binary.LittleEndian.PutUint32(b[frames.Head:], uint32(g.first))
	binary.LittleEndian.PutUint32(b[frames.Head+4:], uint32(g.in))
	frames.Seal(b)
	g.first += g.in
	g.in = 0
	return g.put(b)
}

// List gives the next node its links: node numbers, ascending, each once. g keeps no reference to them.
func (g *Writer) List(to []uint32) error {
	if err := g.beginLinks(); err != nil {
		return err
	}
	if g.info.Nodes == MaxNodes {
		return errTooMany
	}
	if g.in == 0 {
		g.lists.reset()
		g.lists.bits.buf = append(g.lists.bits.buf, make([]byte, blockHead)...)
	}
	g.lists.add(uint32(g.info.Nodes), to)
	g.info.Nodes++
	g.in++
	g.info.Links += uint64(len(to))
	if len(to) > 0 {
		g.most = max(g.most, uint64(to[len(to)-1])+1)
	}
	if len(g.lists.bits.buf) >= blockHead+blockBytes {
		return g.flush(g.lists.bits.bytes())
	}
	return nil
}

// beginLinks ends the names before the first list.
func (g *Writer) beginLinks() error {
	if g.linked {
		return nil
	}
	g.linked = true
	err := g.flushNames()
	g.first, g.linksAt = 0, g.off
	return err
}

// Finish writes the end of the file and says what was written. It is an error if a list has a number that is no node,
// or if there are not as many lists as names.
func (g *Writer) Finish() (Info, error) {
	err := g.beginLinks()
	if err == nil && g.in > 0 {
		err = g.flush(g.lists.bits.bytes())
	}
	switch {
	case err != nil:
		return g.info, err
	case g.names > 0 && g.names != g.info.Nodes:
		return g.info, fmt.Errorf("%d names, but %d lists of links", g.names, g.info.Nodes)
	case g.most > g.info.Nodes:
		return g.info, fmt.Errorf("a link to node %d, but there are %d nodes, which begin with 0", g.most-1,
			g.info.Nodes)
	}
	g.info.Named = g.names > 0
	g.info.NameBytes, g.info.LinkBytes = g.linksAt-int64(len(header)), g.off-g.linksAt
	return g.info, g.put(g.trailer())
}

func (g *Writer) trailer() []byte {
	b := append(make([]byte, 0, trailerBytes), byte(g.info.Kind), 0, 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, g.info.Nodes)
	b = binary.LittleEndian.AppendUint64(b, g.info.Links)
	b = binary.LittleEndian.AppendUint64(b, uint64(g.linksAt))
	b = binary.LittleEndian.AppendUint64(b, uint64(g.off))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	b = append(b, 0, 0, 0, 0)
	return append(b, trailerMagic...)
}
