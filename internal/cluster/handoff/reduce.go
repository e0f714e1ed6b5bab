package handoff

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// The classes of items, in the order in which a host's items are read. Control records come first,
// because the others depend on them.
const (
	classControl byte = iota
	classClock
	classKey
	classKnown
	classEnd
)

// Places of a snapshot's records; later records have greater places.
const (
	placeOlder = iota
	placeBegin
	placeSnapshot
)

// maxBegins bounds how many Begins without an End are kept apart for a host. Older states count as
// one.
const maxBegins = 4096

// readReserve is the memory for reading a journal and writing a snapshot, and for the buffers of the sorts' files.
const readReserve = 6 << 20

// An item is an element to sort: by host, class, path and place.
type item struct {
	host    uint64
	class   byte
	path    uint64
	place   uint64 // in the source's log
	kind    Kind
	payload []byte
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
	ctx    context.Context
	wanted func(host uint64) bool // nil: all

	all   *extsort.Queue // items of all hosts
	links *extsort.Queue // pending links of one host

	segments bool // all records of the snapshot have been read
	place    uint64
	read     int
	buf      []byte

	host   uint64
	class  byte // of the previous item
	cut    uint64
	begins []uint64
	marked bool // the host's Begin has been put
	clock  entry
	at     entry // the state of path so far
	path   uint64
	put    func(k Kind, host, path uint64, payload []byte) error
}

// An entry is the record that counts for a URL, or for a host's clock.
type entry struct {
	kind    Kind // 0: nothing
	place   uint64
	payload []byte
}

func (e *entry) set(k Kind, place uint64, payload []byte) {
	e.kind, e.place, e.payload = k, place, append(e.payload[:0], payload...)
}

func newReduction(ctx context.Context, fs disk.FS, prefix string, memory int64, wanted func(uint64) bool) *reduction {
	half := int(memory-readReserve) / 2
	return &reduction{
		ctx: ctx, wanted: wanted, place: placeSnapshot,
		all:   extsort.New(fs, prefix+"all", half, ctx.Err),
		links: extsort.New(fs, prefix+"links", half, ctx.Err),
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
	switch k {
	case kindVersion:
		return nil
	case kindBatch:
		r.segments = true
		return nil
	}
	place := uint64(placeSnapshot)
	if r.segments {
		r.place++
		place = r.place
	} else if k >= 'a' {
		k, place = k-older, placeOlder
	} else if k == Begin {
		place = placeBegin
	}
	host, path, class := uint64(0), uint64(0), classKey
	switch k {
	case Accept:
		_, w := binary.Uvarint(p)
		if w <= 0 {
			return unreadable(k)
		}
		l, _, err := weburl.PeekLink(p[w:])
		if err != nil {
			return unreadable(k)
		}
		key := l.URL.Key()
		host, path = key.Host, key.Path
	case Clock:
		n, w := binary.Uvarint(p)
		if w <= 0 || n > uint64(len(p)-w) {
			return unreadable(k)
		}
		host, class = weburl.HostKey(string(p[w:w+int(n)])), classClock
	default:
		if len(p) < 8 {
			return unreadable(k)
		}
		host = binary.BigEndian.Uint64(p)
	}
	if r.wanted != nil && !r.wanted(host) {
		return nil
	}
	switch k {
	case Accept, Clock:
	case Finish:
		if len(p) < 16 {
			return unreadable(k)
		}
		path = binary.BigEndian.Uint64(p[8:])
	case kindDone:
		for rest := p[8:]; len(rest) >= 8; rest = rest[8:] {
			if err := r.add(host, classKey, binary.BigEndian.Uint64(rest), place, k, nil); err != nil {
				return err
			}
		}
		return nil
	case Known:
		class = classKnown
	case Begin, End:
		class, p = classControl, nil
	default:
		return unreadable(k)
	}
	return r.add(host, class, path, place, k, p)
}

// unreadable reports a record that Append has checked and that cannot be decoded all the same.
func unreadable(k Kind) error {
	return fmt.Errorf("%w of kind %q in the journal", ErrRecord, rune(k))
}

func (r *reduction) add(host uint64, class byte, path, place uint64, k Kind, p []byte) error {
	return r.push(r.all, item{host, class, path, place, k, p})
}

func (r *reduction) push(q *extsort.Queue, it item) error {
	r.buf = it.appendTo(r.buf[:0])
	return q.Push(r.buf)
}

// tell passes the resulting state to put. For each host, put gets the clock, the finished URLs, the
// pending links by number, and the other known keys. Kinds in lower case are from before a Begin;
// the Begin comes first.
func (r *reduction) tell(put func(k Kind, host, path uint64, payload []byte) error) error {
	r.put, r.class = put, classEnd
	if err := r.all.Each(r.item); err != nil {
		return err
	}
	return r.advance(classEnd)
}

func (r *reduction) item(b []byte) error {
	it := parseItem(b)
	if err := r.count(); err != nil {
		return err
	}
	if r.class == classEnd || it.host != r.host {
		if err := r.advance(classEnd); err != nil {
			return err
		}
		r.host, r.class, r.cut, r.begins, r.marked = it.host, classControl, 0, r.begins[:0], false
	}
	k, p := it.kind, it.payload
	if it.class == classControl {
		r.control(k, it.place)
		return nil
	}
	if err := r.advance(it.class); err != nil {
		return err
	}
	if r.cut > 0 && it.place <= r.cut {
		return nil
	}
	switch it.class {
	case classClock:
		r.clock.set(k, it.place, p)
	case classKnown:
		return r.out(k, it.place, 0, p)
	default:
		if it.path != r.path {
			if err := r.endKey(); err != nil {
				return err
			}
			r.path = it.path
		}
		return r.key(k, it.place, p)
	}
	return nil
}

func (r *reduction) control(k Kind, place uint64) {
	switch {
	case k == Begin:
		if len(r.begins) == maxBegins {
			r.begins = slices.Delete(r.begins, 0, maxBegins/2)
		}
		r.begins = append(r.begins, place)
	case len(r.begins) > 0: // End
		r.cut, r.begins = r.begins[len(r.begins)-1], r.begins[:0]
	}
}

// epoch returns how many states of the host had begun before place.
func (r *reduction) epoch(place uint64) int {
	return sort.Search(len(r.begins), func(i int) bool { return r.begins[i] > place })
}

// key adds a record for the URL at r.path.
func (r *reduction) key(k Kind, place uint64, p []byte) error {
	if r.at.kind == 0 || r.epoch(r.at.place) != r.epoch(place) {
		r.at.set(k, place, p)
		return nil
	}
	switch {
	case k == Accept:
		// It is pending or finished already.
	case r.at.kind == Accept:
		r.at.set(k, place, p)
	case k == Finish:
		f, err := splitFinish(p)
		if err != nil {
			return err
		}
		if len(f.state) == 0 && r.at.kind == Finish {
			before, err := splitFinish(r.at.payload)
			if err != nil {
				return err
			}
			p = append(slices.Clone(p), before.state...)
		}
		r.at.set(k, place, p)
	}
	return nil
}

// splitFinish reads a Finish's payload without its key.
func splitFinish(p []byte) (f finished, err error) {
	var r Record
	if len(p) < 16 || r.decodeFinish(p[8:]) != "" {
		return f, unreadable(Finish)
	}
	return finished{r.Number, r.Disposition, r.State}, nil
}

// endKey puts the resulting state of the URL at r.path.
func (r *reduction) endKey() error {
	e := &r.at
	k := e.kind
	e.kind = 0
	switch k {
	case 0:
		return nil
	case Accept:
		number, _ := binary.Uvarint(e.payload)
		// All links are of one host, so the number can take the host's place in the order.
		return r.push(r.links, item{number, classKey, r.path, e.place, Accept, e.payload})
	case Finish:
		f, err := splitFinish(e.payload)
		if err != nil {
			return err
		}
		if f.bare() {
			return r.out(kindDone, e.place, r.path, nil)
		}
	}
	return r.out(k, e.place, r.path, e.payload)
}

// advance ends the classes before class.
func (r *reduction) advance(class byte) error {
	if r.class <= classClock && class > classClock && r.clock.kind != 0 {
		k := r.clock.kind
		r.clock.kind = 0
		if err := r.out(k, r.clock.place, 0, r.clock.payload); err != nil {
			return err
		}
	}
	if r.class <= classKey && class > classKey {
		if err := r.endKey(); err != nil {
			return err
		}
		if err := r.links.Each(func(b []byte) error {
			it := parseItem(b)
			return r.out(Accept, it.place, it.path, it.payload)
		}); err != nil {
			return err
		}
	}
	r.class = class
	return nil
}

// out passes one entry to put.
func (r *reduction) out(k Kind, place, path uint64, payload []byte) error {
	if n := len(r.begins); n > 0 && place < r.begins[n-1] {
		if !r.marked {
			r.marked = true
			if err := r.put(Begin, r.host, 0, nil); err != nil {
				return err
			}
		}
		k += older
	}
	return r.put(k, r.host, path, payload)
}
