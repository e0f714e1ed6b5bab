package graph

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/store/frames"
)

// A File is a graph file that is read from its front. Its methods block while they read.
type File struct {
	// Stop is asked for each block, if it is not nil. Its error ends the reading.
	Stop extsort.Stop

	r    io.ReaderAt
	c    io.Closer
	info Info
	size int64
}

// Open opens a graph file and reads its ends. The error is a FormatError if it is not a graph of this version, or not
// whole.
func Open(fsys disk.FS, name string) (*File, error) {
	f, err := fsys.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	g, err := NewFile(f, st.Size())
	if err != nil {
		f.Close()
		return nil, err
	}
	g.c = f
	return g, nil
}

// NewFile returns the graph in the first size bytes of r. See Open.
func NewFile(r io.ReaderAt, size int64) (*File, error) {
	head := make([]byte, min(size, int64(len(header))))
	if err := readAt(r, head, 0); err != nil {
		return nil, err
	}
	if string(head) != header {
		rest, ok := strings.CutPrefix(string(head), magic)
		if version, _, whole := strings.Cut(rest, "\n"); ok && whole {
			return nil, damaged("it is a graph of version %q; this program reads version 1", version)
		}
		return nil, damaged("not a graph: it does not begin with %q", strings.TrimSpace(header))
	}
	if size < int64(len(header))+trailerBytes {
		return nil, damaged("it ends early: %d bytes are too few", size)
	}
	b := make([]byte, trailerBytes)
	if err := readAt(r, b, size-trailerBytes); err != nil {
		return nil, err
	}
	g := &File{r: r, size: size}
	return g, g.trailer(b)
}

// trailer checks the trailer.
func (g *File) trailer(b []byte) error {
	if string(b[44:]) != "\x00\x00\x00\x00"+trailerMagic {
		return damaged("it ends early: the end of a graph is missing after %d bytes", g.size)
	}
	if crc32.Checksum(b[:40], castagnoli) != binary.LittleEndian.Uint32(b[40:]) {
		return damaged("its end is damaged, at byte %d", g.size-trailerBytes)
	}
	links, end := binary.LittleEndian.Uint64(b[24:]), binary.LittleEndian.Uint64(b[32:])
	if end != uint64(g.size-trailerBytes) || links < uint64(len(header)) || links > end {
		return damaged("it has %d bytes before its end, but should have %d", g.size-trailerBytes, end)
	}
	g.info = Info{Kind: Kind(b[0]), Nodes: binary.LittleEndian.Uint64(b[8:]), Links: binary.LittleEndian.Uint64(b[16:]),
		Named: links > uint64(len(header)), NameBytes: int64(links) - int64(len(header)), LinkBytes: int64(end - links)}
	// A node takes a bit at least.
	if g.info.Kind > Hosts || g.info.Nodes > MaxNodes || g.info.Nodes > 8*uint64(g.info.LinkBytes) {
		return damaged("its end says that it has %d nodes of %s, which cannot be", g.info.Nodes, g.info.Kind)
	}
	return nil
}

// Info says what the file has.
func (g *File) Info() Info { return g.info }

// Nodes returns the number of nodes.
func (g *File) Nodes() uint64 { return g.info.Nodes }

// Close closes the file.
func (g *File) Close() error {
	if g.c == nil {
		return nil
	}
	return g.c.Close()
}

// readAt fills b. A file that is shorter than before is damaged.
func readAt(r io.ReaderAt, b []byte, off int64) error {
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		return damaged("it ends early, at byte %d", off+int64(n))
	}
	return err
}

// A block is a block that was read.
type block struct {
	at      int64 // offset in the file
	first   uint32
	nodes   uint64
	frame   []byte // from the file, with padBytes zeros behind it
	payload []byte // of links or names, with the zeros
}

// blocks calls fn for each block of a part of the file, which must have all nodes.
func (g *File) blocks(from, to int64, fn func(b *block) error) error {
	in := bufio.NewReaderSize(io.NewSectionReader(g.r, from, to-from), 1<<20)
	var b block
	var head [blockHead]byte
	next := uint64(0)
	for b.at = from; b.at < to; {
		if g.Stop != nil {
			if err := g.Stop.Err(); err != nil {
				return err
			}
		}
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return early(err, b.at)
		}
		n := frames.Size(head[:])
		if n < blockHead || n > to-b.at {
			return damaged("the block at byte %d is damaged: its length is %d bytes", b.at, n)
		}
		b.frame = append(slices.Grow(b.frame[:0], int(n)+padBytes), head[:]...)[:n]
		if _, err := io.ReadFull(in, b.frame[blockHead:]); err != nil {
			return early(err, b.at)
		}
		if _, err := frames.Payload(b.frame); err != nil {
			return damaged("the block at byte %d is damaged: its checksum is wrong", b.at)
		}
		b.first = binary.LittleEndian.Uint32(b.frame[frames.Head:])
		b.nodes = uint64(binary.LittleEndian.Uint32(b.frame[frames.Head+4:]))
		if uint64(b.first) != next || b.nodes > g.info.Nodes-next {
			return damaged("the block at byte %d has nodes %d to %d, want nodes from %d", b.at, b.first,
				uint64(b.first)+b.nodes, next)
		}
		b.frame = append(b.frame, make([]byte, padBytes)...)
		b.payload = b.frame[blockHead:]
		if err := fn(&b); err != nil {
			return err
		}
		next += b.nodes
		b.at += n
	}
	if next != g.info.Nodes {
		return damaged("it has %d of %d nodes", next, g.info.Nodes)
	}
	return nil
}

func early(err error, at int64) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return damaged("it ends early, in the block at byte %d", at)
	}
	return err
}

// Links calls fn for each node, in the order of their numbers. to has the node's links, ascending. It is valid until
// fn returns. Links returns the first error of fn.
func (g *File) Links(fn func(node uint32, to []uint32) error) error {
	from := int64(len(header)) + g.info.NameBytes
	d := decoder{nodes: g.info.Nodes}
	links := uint64(0)
	err := g.blocks(from, from+g.info.LinkBytes, func(b *block) error {
		d.reset(b.payload)
		for i := range b.nodes {
			x := b.first + uint32(i)
			to, ok := d.next(x)
			if links += uint64(len(to)); !ok || links > g.info.Links {
				return damaged("the block at byte %d is damaged: the links of node %d make no sense", b.at, x)
			}
			if err := fn(x, to); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && links != g.info.Links {
		return damaged("it has %d of %d links", links, g.info.Links)
	}
	return err
}

// Names calls fn for the name of each node, in the order of their numbers. The name is valid until fn returns. Without
// names Names does nothing.
func (g *File) Names(fn func(node uint32, name []byte) error) error {
	if !g.info.Named {
		return nil
	}
	from := int64(len(header))
	var name []byte
	return g.blocks(from, from+g.info.NameBytes, func(b *block) error {
		rest := b.payload[:len(b.payload)-padBytes]
		name = name[:0]
		for i := range b.nodes {
			same, n := binary.Uvarint(rest)
			if n <= 0 || same > uint64(len(name)) {
				return badName(b, i)
			}
			rest = rest[n:]
			more, n := binary.Uvarint(rest)
			if n <= 0 || more > uint64(len(rest)-n) {
				return badName(b, i)
			}
			name = append(name[:same], rest[n:n+int(more)]...)
			rest = rest[n+int(more):]
			if err := fn(b.first+uint32(i), name); err != nil {
				return err
			}
		}
		return nil
	})
}

func badName(b *block, i uint64) error {
	return damaged("the block at byte %d is damaged: the name of node %d makes no sense", b.at, uint64(b.first)+i)
}
