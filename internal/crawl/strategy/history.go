package strategy

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A history is what Recrawl remembers of a page. Times are Unix milliseconds.
type history struct {
	visits, changes uint32
	seen            evidence
	last            int64         // the last visit whose result could be compared
	changed         int64         // the last known change; 0: none
	due             int64         // the next visit
	interval        time.Duration // until the next visit, a whole number of milliseconds
	before          visit.Before  // to compare the next response with
}

// stateRecrawl is the first byte of an encoded history and tells its version.
const stateRecrawl = 'R'

// appendTo appends the encoding of h to b:
//
//	byte      'R'
//	uvarint   visits, changes
//	6 float32 evidence, little-endian: visits, changes, unchanged, changed,
//	          undated, still
//	varint    last, changed, due
//	uvarint   interval in milliseconds
//	8 bytes   print, little-endian
//	str       ETag, Last-Modified: uvarint length and bytes
//	20 bytes  digest of the payload without chunk sizes
//	16 bytes  id of the record that has the payload
//	varint    date of that record, Unix milliseconds
//	str       URL of that record, as Original.Place has it; an empty URL: the page's own or, without an id and
//	          a date, none
func (h *history) appendTo(b []byte) []byte {
	b = append(b, stateRecrawl)
	b = binary.AppendUvarint(b, uint64(h.visits))
	b = binary.AppendUvarint(b, uint64(h.changes))
	for _, p := range h.seen.all() {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(*p))
	}
	for _, n := range [...]int64{h.last, h.changed, h.due} {
		b = binary.AppendVarint(b, n)
	}
	b = binary.AppendUvarint(b, uint64(h.interval.Milliseconds()))
	b = binary.LittleEndian.AppendUint64(b, h.before.Print)
	b = appendString(b, h.before.If.ETag)
	b = appendString(b, h.before.If.LastModified)
	b = append(b, h.before.Digest[:]...)
	o := &h.before.Original
	b = append(b, o.ID[:]...)
	b = binary.AppendVarint(b, unixMilli(o.Date))
	return appendString(b, o.Place())
}

// unixMilli returns t in Unix milliseconds, or 0 for the zero time.
func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// all returns the fields of e in the order of their encoding.
func (e *evidence) all() [6]*float32 {
	return [6]*float32{&e.visits, &e.changes, &e.unchanged, &e.changed, &e.undated, &e.still}
}

// appendString appends the length of s as a uvarint, then s.
func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decodeHistory reads what appendTo wrote. The error is errState.
func decodeHistory(b []byte) (*history, error) {
	d := decoder{b: b}
	h := &history{}
	if d.byte() != stateRecrawl {
		return nil, errState
	}
	h.visits, h.changes = d.uint32(), d.uint32()
	for _, p := range h.seen.all() {
		if *p = math.Float32frombits(binary.LittleEndian.Uint32(d.bytes(4))); !(*p >= 0 && *p < math.MaxFloat32) {
			d.bad = true
		}
	}
	h.last, h.changed, h.due = d.varint(), d.varint(), d.varint()
	h.interval = time.Duration(min(d.uvarint(), uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
	h.before.Print = binary.LittleEndian.Uint64(d.bytes(8))
	h.before.If.ETag, h.before.If.LastModified = d.string(), d.string()
	copy(h.before.Digest[:], d.bytes(20))
	o := warc.Original{ID: [16]byte(d.bytes(16))}
	if ms := d.varint(); ms != 0 {
		o.Date = time.UnixMilli(ms).UTC()
	}
	o.SetPlace(d.string())
	h.before.Original = o
	if d.bad || len(d.b) > 0 || h.visits == 0 {
		return nil, errState
	}
	return h, nil
}

// A decoder reads values from the front of b. If it cannot read one, it sets bad, and
// returns zero for that value and all others.
type decoder struct {
	b   []byte
	bad bool
}

var zeros [20]byte

func (d *decoder) bytes(n int) []byte {
	if n > len(d.b) {
		d.bad, d.b = true, nil
		return zeros[:min(n, len(zeros))]
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) byte() byte { return d.bytes(1)[0] }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) uint32() uint32 {
	v := d.uvarint()
	d.bad = d.bad || v > math.MaxUint32
	return uint32(v)
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return ""
	}
	return string(d.bytes(int(n)))
}
