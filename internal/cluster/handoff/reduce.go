package handoff

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
)

// The classes of items, in the order in which a host's items are read. Truncated keys of a width
// have the class classKey + width.
const (
	classNone byte = iota
	classClock
	classPages
	classKey
)

// readReserve is the memory for reading a journal and writing a snapshot, and for the buffers of the sorts' files.
const readReserve = 6 << 20

// An item is an element to sort: by host, class, path and place.
type item struct {
	host    uint64
	class   byte
	path    uint64
	place   uint64 // of a record, in the source's log; 0 for a key
	kind    Kind
	payload []byte // of an Accept, a Finish, a Named, a Clock or a Pages
}

const itemHead = 8 + 1 + 8 + 8 + 1

func (it *item) appendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, it.host)
	dst = append(dst, it.class)
	dst = binary.BigEndian.AppendUint64(dst, it.path)
	dst = binary.BigEndian.AppendUint64(dst, it.place)
	return append(append(dst, byte(it.kind)), it.payload...)
}

// parseItem decodes an item. The item shares the memory of b.
func parseItem(b []byte) item {
	return item{
		host: binary.BigEndian.Uint64(b), class: b[8], path: binary.BigEndian.Uint64(b[9:]),
		place: binary.BigEndian.Uint64(b[17:]), kind: Kind(b[25]), payload: b[itemHead:],
	}
}

// A reduction reads the records of a source in order, and computes the resulting state, host by
// host.
type reduction struct {
	ctx context.Context

	all   *extsort.Queue // items of all hosts
	links *extsort.Queue // pending links of one host, and then its names

	place uint64
	read  int
	paths []uint64 // reused
	buf   []byte   // reused

	// host and class are those of the previous item.
	host  uint64
	class byte
	path  uint64
	at    entry  // the state of path, or of the host's clock or a Counter, so far
	named entry  // the Named of path
	keys  Record // a Known that is not put yet
	put   func(k Kind, payload []byte) error
}

// An entry is the record that counts for a URL, or for a host's clock.
type entry struct {
	kind    Kind // 0: nothing
	payload []byte
}

func (e *entry) set(k Kind, payload []byte) { e.kind, e.payload = k, append(e.payload[:0], payload...) }

func newReduction(ctx context.Context, fs disk.FS, prefix string, memory int64) *reduction {
	half := int(memory-readReserve) / 2
	return &reduction{
		ctx:   ctx,
		all:   extsort.New(fs, prefix+"all", half, ctx),
		links: extsort.New(fs, prefix+"links", half, ctx),
	}
}

func (r *reduction) close() {
	_ = r.all.Close() // Open removes leftover files, too
	_ = r.links.Close()
}

// count counts the items, and sometimes checks whether ctx has ended.
func (r *reduction) count() error {
	if r.read++; r.read%1024 == 0 {
		return r.ctx.Err()
	}
	return nil
}

// record processes the next record of the journal.
func (r *reduction) record(kind byte, p []byte) error {
	if err := r.count(); err != nil {
		return err
	}
	k := Kind(kind)
	if k == kindVersion {
		return nil
	}
	var rec Record
	if rec.decode(k, p, r.paths) != "" {
		return unreadable(k)
	}
	r.place++
	switch k {
	case Clock:
		return r.push(r.all, item{rec.Host, classClock, 0, r.place, k, p})
	case Pages:
		return r.push(r.all, item{rec.Host, classPages, rec.Counter, r.place, k, p})
	case Known:
		r.paths = rec.Paths
		class := classKey
		if rec.Width < wholeKey {
			class += rec.Width
		}
		for _, path := range rec.Paths {
			if err := r.push(r.all, item{rec.Host, class, path, 0, k, nil}); err != nil {
				return err
			}
		}
		return nil
	}
	return r.push(r.all, item{rec.Host, classKey, rec.Path, r.place, k, p})
}

// unreadable reports a record that Append has checked and that cannot be decoded all the same.
func unreadable(k Kind) error {
	return fmt.Errorf("%w of kind %q in the journal", ErrRecord, rune(k))
}

func (r *reduction) push(q *extsort.Queue, it item) error {
	r.buf = it.appendTo(r.buf[:0])
	return q.Push(r.buf)
}

// tell passes the resulting state to put. For each host, put gets the clock, the numbers of pages, the finished
// URLs, the pending links by number, the names, and the truncated keys. A payload is valid until put returns.
func (r *reduction) tell(put func(k Kind, payload []byte) error) error {
	r.put = put
	if err := r.all.Each(r.item); err != nil {
		return err
	}
	return r.endClass()
}

func (r *reduction) item(b []byte) error {
	it := parseItem(b)
	if err := r.count(); err != nil {
		return err
	}
	if it.host != r.host || it.class != r.class {
		if err := r.endClass(); err != nil {
			return err
		}
		r.host, r.class = it.host, it.class
	}
	switch {
	case it.class == classClock:
		r.at.set(Clock, it.payload)
		return nil
	case it.class > classKey:
		return r.known(it.class-classKey, it.path)
	case it.path != r.path:
		if err := r.endPath(); err != nil {
			return err
		}
		r.path = it.path
	}
	return r.add(it.kind, it.payload)
}

// add adds a record to the state of r.path, or of a Counter.
func (r *reduction) add(k Kind, p []byte) error {
	switch {
	case k == Named:
		if r.named.kind == 0 || r.named.payload[0] < p[0] {
			r.named.set(k, p)
		}
	case k == Pages:
		var before, after Record
		if r.at.kind == Pages && (before.decode(k, r.at.payload, nil) != "" || after.decode(k, p, nil) != "") {
			return unreadable(k)
		}
		if r.at.kind == 0 || after.Pages > before.Pages {
			r.at.set(k, p)
		}
	case r.at.kind == 0, r.at.kind == Accept && k != Accept, r.at.kind == Known && k == Finish:
		r.at.set(k, p)
	case r.at.kind == Finish && k == Finish:
		var before, after Record
		if before.decode(k, r.at.payload, nil) != "" || after.decode(k, p, nil) != "" {
			return unreadable(k)
		}
		after.Disposition, after.Pages = max(after.Disposition, before.Disposition), max(after.Pages, before.Pages)
		if len(after.State) == 0 {
			after.State = before.State
		}
		r.at.payload = after.appendPayload(nil) // not in place: State may lie there
	}
	return nil
}

// endPath puts the state of r.path, or of the host's clock or a Counter.
func (r *reduction) endPath() error {
	k, p := r.at.kind, r.at.payload
	named := r.named.kind == Named && !(k == Finish && hasArchived(p))
	if r.at.kind, r.named.kind = 0, 0; named {
		// No link has a higher number, and those with the same one have a lower class.
		if err := r.push(r.links, item{math.MaxUint64, classKey + 1, r.path, 0, Named, r.named.payload}); err != nil {
			return err
		}
	}
	switch k {
	case 0:
		return nil
	case Known:
		return r.known(wholeKey, r.path)
	case Accept:
		number, _ := binary.Uvarint(p)
		// All links are of one host, so the number can take the host's place in the order.
		return r.push(r.links, item{number, classKey, r.path, 0, k, p})
	}
	return r.put(k, p)
}

// hasArchived reports whether a Finish with this payload names a URL that the archive has.
func hasArchived(finish []byte) bool {
	_, w := binary.Uvarint(finish)
	return finish[w]&^withPages != 0
}

// known adds a key to the ones to be put. Keys of a width come in ascending order.
func (r *reduction) known(width uint8, path uint64) error {
	k := &r.keys
	n := len(k.Paths)
	if n > 0 && k.Paths[n-1] == path {
		return nil
	}
	if n == MaxPaths {
		if err := r.endKnown(); err != nil {
			return err
		}
	}
	k.Kind, k.Host, k.Width, k.Paths = Known, r.host, width, append(k.Paths, path)
	return nil
}

func (r *reduction) endKnown() error {
	if len(r.keys.Paths) == 0 {
		return nil
	}
	r.buf = r.keys.appendPayload(r.buf[:0])
	r.keys.Paths = r.keys.Paths[:0]
	return r.put(Known, r.buf)
}

// endClass puts what is left of r.class.
func (r *reduction) endClass() error {
	if err := r.endPath(); err != nil {
		return err
	}
	if err := r.endKnown(); err != nil {
		return err
	}
	return r.links.Each(func(b []byte) error {
		if err := r.count(); err != nil {
			return err
		}
		it := parseItem(b)
		return r.put(it.kind, it.payload)
	})
}
