package lease

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrBatch reports bytes that are not an encoded Batch.
var ErrBatch = errors.New("damaged lease batch")

// An AgentID identifies one start of an agent: a hash of its instance and boot. 0 means none.
type AgentID uint64

// A Batch is the content of one call or answer between two agents. All its times are durations
// from when it was sent. None is negative.
type Batch struct {
	From, To AgentID
	// Stamp is the growing number of the call, by the caller's clock. The answer repeats it.
	// Other agents use only the order of stamps.
	Stamp  uint64
	Answer bool
	View   uint64 // digest of the sender's view

	// To a grantor.
	Gives []Give // before Asks
	Asks  []Ask

	// To a holder.
	Grants  []Grant
	Recalls []Recall
	// Refused are points of the call that the receiver neither grants nor queues. In the answer to
	// a recall they are points that the caller does not grant in the answering agent's view.
	Refused []uint64

	// Survey: in a call, a grantor asks whether the receiver has a lease of its points that the
	// grantor does not know (see survey.go). In an answer, the receiver says that it has none, in
	// the same view.
	Survey bool
	// Lost is how long agents that have left the answering agent's view may still send requests. If
	// negative, they have stopped that long ago. It is valid only in an answer with a Survey.
	Lost time.Duration
}

func (b *Batch) empty() bool {
	return !b.Survey && len(b.Gives)+len(b.Asks)+len(b.Grants)+len(b.Recalls) == 0
}

// An Ask requests the lease of a point, or more time for a lease.
type Ask struct {
	Point uint64
	Quiet time.Duration // the delay after each of the asker's requests
	Rest  time.Duration // the rest of the delay after its last request
	// Urgent reports that a host waits for the lease. If another agent holds the point, the
	// asker enters the queue and the grantor recalls the lease. A lease that is not urgent is
	// granted only if the point is free.
	Urgent bool
	// Holding reports that another grantor granted the lease before the view changed.
	Holding bool
	// Stalled reports that the asker has begun no request for a while, and that one of its
	// hosts waits for this lease. The holder then returns the point at once, without regard to
	// Config.PerPage.
	Stalled bool
	// Serial is the number of the lease that the asker has from this grantor; 0: none.
	Serial uint64
	// Notes are those of a holder, if the grantor must hear of them; otherwise none.
	Notes []Note
}

// A Give returns a lease. The sender may never have known that it had the lease.
type Give struct {
	Point  uint64
	Serial uint64
	Rest   time.Duration // the rest of the delay
	Notes  []Note        // none: as the grantor knows them
}

// A Grant is a lease.
type Grant struct {
	Point  uint64
	Serial uint64
	Stamp  uint64        // of the call that asked for the lease
	Held   time.Duration // since the grantor received that call
	Term   time.Duration // until the lease ends
	Rest   time.Duration // the rest of the delay after others' requests
	Shared bool          // other agents wait: return the lease after a Turn
	// Stalled reports that one of the waiting agents is stalled (see Ask).
	Stalled bool
	Notes   []Note // of the last holder
	// Cold reports that agents of which the grantor knows nothing, or no longer, may have used the
	// point until Since ago. Their notes are lost: each host must rest for its delay from then on.
	Cold  bool
	Since time.Duration
}

// A Recall asks the holder to return a lease after its Turn.
type Recall struct {
	Point   uint64
	Serial  uint64
	Stalled bool // as in Grant
}

// maxItems bounds each list of a Batch.
const maxItems = 1 << 12

// maxDuration bounds the durations in a Batch.
const maxDuration = 1000 * time.Hour

// wireVersion is the first byte of a Batch.
const wireVersion = 1

func flags(bs ...bool) (f byte) {
	for i, b := range bs {
		if b {
			f |= 1 << i
		}
	}
	return f
}

// AppendTo appends b's encoding to dst. It rounds waits up and lease times down to microseconds.
//
//	byte    version, 5
//	byte    flags: 1 answer, 2 survey
//	uint64  from, to, stamp, view; big-endian
//	uvarint number of gives, each:   uint64 point, uvarint serial, rest, notes
//	uvarint number of asks, each:    uint64 point, byte flags, uvarint serial, quiet, rest, notes
//	uvarint number of grants, each:  uint64 point, byte flags, uvarint serial, stamp, held, term, rest,
//	        since (if cold), notes
//	uvarint number of recalls, each: uint64 point, byte flags, uvarint serial
//	uvarint number of refused, each: uint64 point
//	varint  lost; only with a survey
//
//	notes:  byte number, at most 16, each: uint64 key, uvarint rest, delay, byte slow, varint pause, uint64 print
//
// Flags of items: 1 urgent, shared or stalled (recall); 2 holding or stalled (grant); 4 stalled (ask) or
// cold (grant).
func (b *Batch) AppendTo(dst []byte) []byte {
	up := func(d time.Duration) {
		dst = binary.AppendUvarint(dst, uint64((min(max(d, 0), maxDuration)+time.Microsecond-1)/time.Microsecond))
	}
	down := func(d time.Duration) {
		dst = binary.AppendUvarint(dst, uint64(min(max(d, 0), maxDuration)/time.Microsecond))
	}
	fixed := func(v uint64) { dst = binary.BigEndian.AppendUint64(dst, v) }
	signed := func(d time.Duration) {
		d = min(max(d, -maxDuration), maxDuration)
		dst = binary.AppendVarint(dst, int64(math.Ceil(float64(d)/float64(time.Microsecond))))
	}
	notes := func(ns []Note) {
		ns = ns[:min(len(ns), maxNotes)]
		dst = append(dst, byte(len(ns)))
		for _, n := range ns {
			fixed(n.Key)
			up(n.Rest)
			up(n.Delay)
			dst = append(dst, n.Slow)
			signed(n.Pause)
			fixed(n.Print)
		}
	}
	dst = append(dst, wireVersion, flags(b.Answer, b.Survey))
	fixed(uint64(b.From))
	fixed(uint64(b.To))
	fixed(b.Stamp)
	fixed(b.View)
	dst = binary.AppendUvarint(dst, uint64(len(b.Gives)))
	for _, g := range b.Gives {
		fixed(g.Point)
		dst = binary.AppendUvarint(dst, g.Serial)
		up(g.Rest)
		notes(g.Notes)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Asks)))
	for _, a := range b.Asks {
		fixed(a.Point)
		dst = append(dst, flags(a.Urgent, a.Holding, a.Stalled))
		dst = binary.AppendUvarint(dst, a.Serial)
		up(a.Quiet)
		up(a.Rest)
		notes(a.Notes)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Grants)))
	for _, g := range b.Grants {
		fixed(g.Point)
		dst = append(dst, flags(g.Shared, g.Stalled, g.Cold))
		dst = binary.AppendUvarint(dst, g.Serial)
		dst = binary.AppendUvarint(dst, g.Stamp)
		down(g.Held)
		down(g.Term)
		up(g.Rest)
		if g.Cold {
			down(g.Since)
		}
		notes(g.Notes)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Recalls)))
	for _, r := range b.Recalls {
		fixed(r.Point)
		dst = append(dst, flags(r.Stalled))
		dst = binary.AppendUvarint(dst, r.Serial)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Refused)))
	for _, p := range b.Refused {
		fixed(p)
	}
	if b.Survey {
		signed(b.Lost)
	}
	return dst
}

// A reader takes a Batch apart; after the first fault it gives zeros.
type reader struct {
	src []byte
	bad string
}

func (r *reader) fail(what string) {
	if r.bad == "" {
		r.bad = what
	}
	r.src = nil
}

func (r *reader) fixed(what string) uint64 {
	if len(r.src) < 8 {
		r.fail(what)
		return 0
	}
	v := binary.BigEndian.Uint64(r.src)
	r.src = r.src[8:]
	return v
}

func (r *reader) uvarint(what string) uint64 {
	v, n := binary.Uvarint(r.src)
	if n <= 0 {
		r.fail(what)
		return 0
	}
	r.src = r.src[n:]
	return v
}

func (r *reader) flags(what string, most byte) byte {
	if len(r.src) == 0 || r.src[0] > most {
		r.fail(what)
		return 0
	}
	f := r.src[0]
	r.src = r.src[1:]
	return f
}

func (r *reader) duration(what string) time.Duration {
	v := r.uvarint(what)
	if v > uint64(maxDuration/time.Microsecond) {
		r.fail(what)
		return 0
	}
	return time.Duration(v) * time.Microsecond
}

// signed reads a duration that may be negative.
func (r *reader) signed(what string) time.Duration {
	v, n := binary.Varint(r.src)
	if n <= 0 || max(v, -v) > int64(maxDuration/time.Microsecond) || v == math.MinInt64 {
		r.fail(what)
		return 0
	}
	r.src = r.src[n:]
	return time.Duration(v) * time.Microsecond
}

// count reads how many items of at least least bytes follow.
func (r *reader) count(what string, least int) int {
	n := r.uvarint(what)
	if n > maxItems || n*uint64(least) > uint64(len(r.src)) {
		r.fail(what)
		return 0
	}
	return int(n)
}

func (r *reader) notes() []Note {
	n := int(r.flags("notes", maxNotes))
	if n == 0 || n*20 > len(r.src) {
		if n > 0 {
			r.fail("notes")
		}
		return nil
	}
	ns := make([]Note, n)
	for i := range ns {
		v := &ns[i]
		v.Key = r.fixed("note")
		v.Rest, v.Delay = r.duration("note rest"), r.duration("note delay")
		v.Slow = r.flags("note slow", math.MaxUint8)
		v.Pause = r.signed("note pause")
		v.Print = r.fixed("note print")
	}
	return ns
}

// ParseBatch reads what AppendTo wrote. Further bytes are an error. It takes at most a few times
// the memory of src. The error is ErrBatch.
func ParseBatch(src []byte) (*Batch, error) {
	r := reader{src: src}
	if r.flags("version", wireVersion) != wireVersion {
		r.fail("version")
	}
	f := r.flags("flags", 3)
	b := &Batch{Answer: f&1 > 0, Survey: f&2 > 0}
	b.From, b.To, b.Stamp, b.View = AgentID(r.fixed("from")), AgentID(r.fixed("to")), r.fixed("stamp"), r.fixed("view")
	if n := r.count("gives", 11); n > 0 {
		b.Gives = make([]Give, n)
		for i := range b.Gives {
			b.Gives[i] = Give{r.fixed("give"), r.uvarint("give serial"), r.duration("give rest"), r.notes()}
		}
	}
	if n := r.count("asks", 13); n > 0 {
		b.Asks = make([]Ask, n)
		for i := range b.Asks {
			a := &b.Asks[i]
			a.Point = r.fixed("ask")
			f := r.flags("ask flags", 7)
			a.Urgent, a.Holding, a.Stalled = f&1 > 0, f&2 > 0, f&4 > 0
			a.Serial = r.uvarint("ask serial")
			a.Quiet, a.Rest = r.duration("ask quiet"), r.duration("ask rest")
			a.Notes = r.notes()
		}
	}
	if n := r.count("grants", 15); n > 0 {
		b.Grants = make([]Grant, n)
		for i := range b.Grants {
			g := &b.Grants[i]
			g.Point = r.fixed("grant")
			f := r.flags("grant flags", 7)
			g.Shared, g.Stalled, g.Cold = f&1 > 0, f&2 > 0, f&4 > 0
			g.Serial, g.Stamp = r.uvarint("grant serial"), r.uvarint("grant stamp")
			g.Held, g.Term, g.Rest = r.duration("grant held"), r.duration("grant term"), r.duration("grant rest")
			if g.Cold {
				g.Since = r.duration("grant since")
			}
			g.Notes = r.notes()
		}
	}
	if n := r.count("recalls", 10); n > 0 {
		b.Recalls = make([]Recall, n)
		for i := range b.Recalls {
			c := &b.Recalls[i]
			c.Point = r.fixed("recall")
			c.Stalled = r.flags("recall flags", 1) == 1
			c.Serial = r.uvarint("recall serial")
		}
	}
	if n := r.count("refused", 8); n > 0 {
		b.Refused = make([]uint64, n)
		for i := range b.Refused {
			b.Refused[i] = r.fixed("refused")
		}
	}
	if b.Survey {
		b.Lost = r.signed("lost")
	}
	if r.bad == "" && len(r.src) > 0 {
		r.bad = "end"
	}
	if r.bad != "" {
		return nil, fmt.Errorf("%w: %s", ErrBatch, r.bad)
	}
	return b, nil
}
