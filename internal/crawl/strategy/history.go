package strategy

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl/visit"
	"github.com/orbweaver/orbweaver/internal/store/fields"
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
	c := fields.Write(b)
	h.fields(c)
	return c.Written()
}

func (h *history) fields(c *fields.Codec) {
	c.Tag(stateRecrawl)
	fields.Uint(c, &h.visits)
	fields.Uint(c, &h.changes)
	for _, p := range h.seen.all() {
		var bits [4]byte
		binary.LittleEndian.PutUint32(bits[:], math.Float32bits(*p))
		c.Fixed(bits[:])
		if c.Reads() {
			*p = math.Float32frombits(binary.LittleEndian.Uint32(bits[:]))
			c.Check(*p >= 0 && *p < math.MaxFloat32)
		}
	}
	for _, n := range [...]*int64{&h.last, &h.changed, &h.due} {
		fields.Int(c, n)
	}
	c.Duration(&h.interval, time.Millisecond)
	b, o := &h.before, &h.before.Original
	var print [8]byte
	binary.LittleEndian.PutUint64(print[:], b.Print)
	c.Fixed(print[:])
	fields.Text(c, &b.If.ETag, math.MaxInt)
	fields.Text(c, &b.If.LastModified, math.MaxInt)
	c.Fixed(b.Digest[:])
	c.Fixed(o.ID[:])
	var ms int64 // 0 for the zero time
	if !o.Date.IsZero() {
		ms = o.Date.UnixMilli()
	}
	place := o.Place()
	fields.Int(c, &ms)
	fields.Text(c, &place, math.MaxInt)
	if c.Reads() {
		b.Print = binary.LittleEndian.Uint64(print[:])
		if ms != 0 {
			o.Date = time.UnixMilli(ms).UTC()
		}
		o.SetPlace(place)
	}
}

// all returns the fields of e in the order of their encoding.
func (e *evidence) all() [6]*float32 {
	return [6]*float32{&e.visits, &e.changes, &e.unchanged, &e.changed, &e.undated, &e.still}
}

// decodeHistory reads what appendTo wrote. The error is errState.
func decodeHistory(b []byte) (*history, error) {
	c, h := fields.Read(b), &history{}
	if h.fields(c); !c.Whole() || h.visits == 0 {
		return nil, errState
	}
	return h, nil
}
