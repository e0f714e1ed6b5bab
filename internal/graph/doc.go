// Package graph answers: how do pages or hosts link to each other, and which of them are important?
//
//	links by name -> Builder (external sort) -> Writer -> a graph file
//	a graph file -> File.Links, File.Names -> PageRank, Measure, text files
//	two lists of ranks -> Joiner (external sort) -> Kendall
//	links in memory -> FromLinks -> Induced (a part of the nodes) -> PageRank -> Pairs -> Kendall
//
// Nodes have numbers from 0. A node's links are a list of node numbers, ascending, each once. The numbers follow the
// order of the names, so that the links of a page lead to numbers close to its own.
//
// The lists are coded as in WebGraph (Boldi and Vigna, WWW 2004): a list copies a part of one of the lists before it,
// then has intervals of successive numbers, then the gaps between the others.
//
// The file has a header, blocks of names, blocks of links, and a trailer. Numbers are little-endian:
//
//	header    18 bytes  "orbweaver-graph 1\n"; the number is the version
//	blocks of names, none if the nodes have no names
//	blocks of links
//	trailer   uint8     kind: 0 numbers, 1 pages, 2 hosts
//	          7 bytes   zero
//	          uint64    nodes
//	          uint64    links
//	          uint64    offset of the first block of links
//	          uint64    offset of the trailer
//	          uint32    CRC-32C of the 40 bytes before it
//	          4 bytes   zero
//	          16 bytes  "orbweaver-graph\n"
//
//	block     uint32    CRC-32C of what follows
//	          uint32    length of what follows in bytes: the two make a frame of package frames
//	          uint32    number of its first node
//	          uint32    how many nodes it has
//	          bytes     payload
//
// The payload of names has for each node: uvarint, how many bytes it shares with the name before; uvarint, the length
// of the rest; the rest. The first name of a block shares nothing. The payload of links is a string of bits: list.go.
//
// Invariants:
//   - A File is whole, or Open or the call that meets the damage returns a FormatError.
//   - Memory does not grow with the links, except in Load. A File holds one block and eight lists.
//
// One goroutine owns a Builder, a Writer or a File.
package graph

import (
	"fmt"

	"github.com/orbweaver/orbweaver/internal/store/frames"
)

// MaxNodes is the largest number of nodes of a graph.
const MaxNodes = 1<<32 - 1

// A Kind says what the nodes are.
type Kind uint8

// The kinds. The names of Hosts are reversed: org.example.www.
const (
	Numbers Kind = iota
	Pages
	Hosts
)

func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

var kinds = [...]string{"numbers", "pages", "hosts"}

// An Info describes a graph file.
type Info struct {
	Kind         Kind
	Named        bool // the nodes have names
	Nodes, Links uint64
	// NameBytes and LinkBytes are the sizes of the two parts of the file.
	NameBytes, LinkBytes int64
}

// A FormatError says that a file is not a graph of this version, or is damaged. Its text says where.
type FormatError struct{ Text string }

func (e *FormatError) Error() string { return e.Text }

func damaged(format string, args ...any) error { return &FormatError{fmt.Sprintf(format, args...)} }

const (
	magic        = "orbweaver-graph "
	header       = magic + "1\n"
	trailerMagic = "orbweaver-graph\n"
	trailerBytes = 64
	blockHead    = frames.Head + 8
	blockBytes   = 64 << 10 // a payload ends with the first node that makes it as long
)
