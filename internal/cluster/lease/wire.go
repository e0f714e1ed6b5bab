package lease

import (
	"errors"
	"math"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/fields"
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

// AppendTo appends b's encoding to dst. It rounds waits up and lease times down to microseconds.
//
//	byte    wireVersion
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
	c := fields.Write(dst)
	b.fields(c)
	return c.Written()
}

func (b *Batch) fields(c *fields.Codec) {
	c.Tag(wireVersion)
	c.Flags(&b.Answer, &b.Survey)
	fields.Fixed64(c, &b.From)
	fields.Fixed64(c, &b.To)
	fields.Fixed64(c, &b.Stamp)
	fields.Fixed64(c, &b.View)
	fields.List(c, &b.Gives, maxItems, 11, func(g *Give) {
		fields.Fixed64(c, &g.Point)
		fields.Uint(c, &g.Serial)
		up(c, &g.Rest)
		noted(c, &g.Notes)
	})
	fields.List(c, &b.Asks, maxItems, 13, func(a *Ask) {
		fields.Fixed64(c, &a.Point)
		c.Flags(&a.Urgent, &a.Holding, &a.Stalled)
		fields.Uint(c, &a.Serial)
		up(c, &a.Quiet)
		up(c, &a.Rest)
		noted(c, &a.Notes)
	})
	fields.List(c, &b.Grants, maxItems, 15, func(g *Grant) {
		fields.Fixed64(c, &g.Point)
		c.Flags(&g.Shared, &g.Stalled, &g.Cold)
		fields.Uint(c, &g.Serial)
		fields.Uint(c, &g.Stamp)
		down(c, &g.Held)
		down(c, &g.Term)
		up(c, &g.Rest)
		if g.Cold {
			down(c, &g.Since)
		}
		noted(c, &g.Notes)
	})
	fields.List(c, &b.Recalls, maxItems, 10, func(r *Recall) {
		fields.Fixed64(c, &r.Point)
		c.Flags(&r.Stalled)
		fields.Uint(c, &r.Serial)
	})
	fields.List(c, &b.Refused, maxItems, 8, func(p *uint64) { fields.Fixed64(c, p) })
	if b.Survey {
		signed(c, &b.Lost)
	}
}

// up is a wait, which is rounded up.
func up(c *fields.Codec, d *time.Duration) { rounded(c, d, time.Microsecond-1) }

// down is a time for which a lease holds, which is rounded down.
func down(c *fields.Codec, d *time.Duration) { rounded(c, d, 0) }

func rounded(c *fields.Codec, d *time.Duration, more time.Duration) {
	us := (min(max(*d, 0), maxDuration) + more) / time.Microsecond
	if fields.Uint(c, &us); c.Reads() {
		c.Check(us >= 0 && us <= maxDuration/time.Microsecond)
		*d = us * time.Microsecond
	}
}

// signed is a duration that may be negative, which is rounded up.
func signed(c *fields.Codec, d *time.Duration) {
	us := time.Duration(math.Ceil(float64(min(max(*d, -maxDuration), maxDuration)) / float64(time.Microsecond)))
	if fields.Int(c, &us); c.Reads() {
		c.Check(us >= -maxDuration/time.Microsecond && us <= maxDuration/time.Microsecond)
		*d = us * time.Microsecond
	}
}

func noted(c *fields.Codec, ns *[]Note) {
	n := byte(min(len(*ns), maxNotes))
	fields.Byte(c, &n)
	if c.Check(n <= maxNotes && int(n) <= c.Left()/20); !c.Ok() {
		n = 0
	}
	if c.Reads() && n > 0 {
		*ns = make([]Note, n)
	}
	for i := range (*ns)[:n] {
		v := &(*ns)[i]
		fields.Fixed64(c, &v.Key)
		up(c, &v.Rest)
		up(c, &v.Delay)
		fields.Byte(c, &v.Slow)
		signed(c, &v.Pause)
		fields.Fixed64(c, &v.Print)
	}
}

// ParseBatch reads what AppendTo wrote. Further bytes are an error. It takes at most a few times
// the memory of src. The error is ErrBatch.
func ParseBatch(src []byte) (*Batch, error) {
	c, b := fields.Read(src), &Batch{}
	if b.fields(c); !c.Whole() {
		return nil, ErrBatch
	}
	return b, nil
}
