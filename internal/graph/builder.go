package graph

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/orbweaver/orbweaver/internal/store/extsort"
)

// A BuildConfig says what becomes a node.
type BuildConfig struct {
	Sort extsort.Config
	// Kind is what the names are: Pages or Hosts.
	Kind Kind
	// Visited leaves out nodes that were not a page of Page, and the links to them.
	Visited bool
	// SelfLinks keeps the links of a node to itself.
	SelfLinks bool
}

// A Builder makes a graph of links between names. It numbers the names by external sorts, so its memory does not grow
// with their number:
//
//	names      (name, page) of pages and targets -> sorted: a number for each name, in the order of the names
//	numbered   (page, number of a name) -> sorted: the number of each page, then those of its targets
//	links      (number, number) -> sorted: the links of the first node, of the second, …
type Builder struct {
	c     BuildConfig
	names *extsort.Queue
	page  uint64 // the number of the last page
	rec   []byte
}

// NewBuilder returns an empty Builder. The caller closes it.
func NewBuilder(c BuildConfig) *Builder {
	return &Builder{c: c, names: c.Sort.Queue("names")}
}

// Close deletes the temporary files.
func (b *Builder) Close() error { return b.names.Close() }

// A record of names is the name's order (see appendOrder), a zero, the name, a zero, 1 byte role, 8 bytes number of the
// page, big-endian.
const (
	rolePage   = 0
	roleTarget = 1
)

// Page begins the next page, which Link then refers to. Several pages may have one name, such as all pages of a host.
func (b *Builder) Page(name string) error {
	b.page++
	return b.push(name, rolePage)
}

// Link adds a link of the last page.
func (b *Builder) Link(to string) error { return b.push(to, roleTarget) }

var errName = errors.New("a name with a zero or an empty name")

func (b *Builder) push(name string, role byte) error {
	if name == "" || strings.IndexByte(name, 0) >= 0 {
		return fmt.Errorf("%w: %q", errName, name)
	}
	b.rec = append(b.rec[:0], b.order(name)...)
	b.rec = append(append(append(b.rec, 0), name...), 0, role)
	b.rec = binary.BigEndian.AppendUint64(b.rec, b.page)
	return b.names.Push(b.rec)
}

// order returns what the names are sorted by before they are sorted by themselves: the reversed host of a URL. So the
// pages of a host, and the hosts of a domain, are next to each other.
func (b *Builder) order(name string) string {
	if b.c.Kind != Pages {
		return ""
	}
	return ReversedHost(name)
}

// ReversedHost returns the host of a URL in canonical form as the name of a node of Hosts: see Reverse. It is empty if
// the URL has no host.
func ReversedHost(url string) string { return Reverse(hostOf(url)) }

// hostOf returns the host of a URL in canonical form, or "".
func hostOf(url string) string {
	_, rest, ok := strings.Cut(url, "://")
	if !ok {
		return ""
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, ']') {
		rest = rest[:i]
	}
	return rest
}

// Reverse returns a host with its labels in reverse order, as Common Crawl's graphs have them: www.example.org becomes
// org.example.www. An IP address stays as it is.
func Reverse(host string) string {
	if strings.HasPrefix(host, "[") || strings.Trim(host, ".0123456789") == "" {
		return host
	}
	out := make([]byte, 0, len(host))
	for end := len(host); ; {
		dot := strings.LastIndexByte(host[:end], '.')
		out = append(out, host[dot+1:end]...)
		if dot < 0 {
			return string(out)
		}
		out = append(out, '.')
		end = dot
	}
}

// Write writes the graph. The Builder is then empty.
func (b *Builder) Write(w *Writer) (err error) {
	numbered := b.c.Sort.Queue("numbered")
	defer func() { err = errors.Join(err, numbered.Close()) }()
	if err := b.number(w, numbered); err != nil {
		return err
	}
	links := b.c.Sort.Queue("links")
	defer func() { err = errors.Join(err, links.Close()) }()
	if err := b.resolve(numbered, links); err != nil {
		return err
	}
	return writeLinks(w, links, w.names)
}

// number gives each name its number.
func (b *Builder) number(w *Writer, numbered *extsort.Queue) error {
	var key []byte // order and name of the current node, with their zeros
	var rec []byte
	number, left := int64(-1), false // left: the node is left out
	return b.names.Each(func(r []byte) error {
		if len(r) < 11 {
			return extsort.ErrDamaged
		}
		at := len(r) - 9
		if !bytes.Equal(r[:at], key) {
			key = append(key[:0], r[:at]...)
			if left = b.c.Visited && r[at] != rolePage; !left {
				_, name, _ := bytes.Cut(r[:at-1], []byte{0})
				if err := w.Name(name); err != nil {
					return err
				}
				number++
			}
		}
		if left {
			return nil
		}
		rec = append(append(rec[:0], r[at+1:]...), r[at])
		return numbered.Push(binary.BigEndian.AppendUint32(rec, uint32(number)))
	})
}

// resolve makes links between numbers.
func (b *Builder) resolve(numbered, links *extsort.Queue) error {
	var rec [8]byte
	var page uint64
	var from uint32
	return numbered.Each(func(r []byte) error {
		if len(r) != 13 {
			return extsort.ErrDamaged
		}
		number := binary.BigEndian.Uint32(r[9:])
		if r[8] == rolePage {
			page, from = binary.BigEndian.Uint64(r), number
			return nil
		}
		if page != binary.BigEndian.Uint64(r) || from == number && !b.c.SelfLinks {
			return nil
		}
		binary.BigEndian.PutUint32(rec[:], from)
		binary.BigEndian.PutUint32(rec[4:], number)
		return links.Push(rec[:])
	})
}

// writeLinks writes the lists of links, and empty ones up to the number of nodes.
func writeLinks(w *Writer, links *extsort.Queue, nodes uint64) error {
	var list []uint32
	next := uint64(0) // the node that list belongs to
	upTo := func(node uint64) error {
		for ; next < node; next++ {
			if err := w.List(list); err != nil {
				return err
			}
			list = list[:0]
		}
		return nil
	}
	err := links.Each(func(r []byte) error {
		if len(r) != 8 {
			return extsort.ErrDamaged
		}
		if err := upTo(uint64(binary.BigEndian.Uint32(r))); err != nil {
			return err
		}
		to := binary.BigEndian.Uint32(r[4:])
		if n := len(list); n == 0 || list[n-1] != to {
			list = append(list, to)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return upTo(max(nodes, next+uint64(min(len(list), 1))))
}

// A Numbered makes a graph of links between numbers, in any order.
type Numbered struct {
	links *extsort.Queue
	nodes uint64
}

// NewNumbered returns an empty Numbered. The caller closes it.
func NewNumbered(s extsort.Config) *Numbered { return &Numbered{links: s.Queue("links")} }

// Close deletes the temporary files.
func (b *Numbered) Close() error { return b.links.Close() }

// Link adds a link.
func (b *Numbered) Link(from, to uint32) error {
	if from == MaxNodes || to == MaxNodes {
		return errTooMany
	}
	b.nodes = max(b.nodes, uint64(from)+1, uint64(to)+1)
	var rec [8]byte
	binary.BigEndian.PutUint32(rec[:], from)
	binary.BigEndian.PutUint32(rec[4:], to)
	return b.links.Push(rec[:])
}

// Nodes returns the largest number of a link, and 1.
func (b *Numbered) Nodes() uint64 { return b.nodes }

// Write writes a graph of at least so many nodes, after any names. The Numbered is then empty.
func (b *Numbered) Write(w *Writer, nodes uint64) error {
	return writeLinks(w, b.links, max(nodes, b.nodes))
}
