package ledger

import (
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/journal"
)

// A Batch collects the journal records of a visit, in one piece of memory that the next visit reuses. If there is a
// Sealer, the batch also lists what Sealers look at. The accepts of a visit may be in several batches. Its finish is in
// the last of them.
type Batch struct {
	arena []byte
	recs  []journal.Record
	ends  []int // in arena; the payload of a record begins at the end of the one before

	lists    bool // there is a Sealer
	accepts  []listedAccept
	finishes []listedFinish
	hosts    []frontier.HostState
}

// A listedAccept is an accept in a Batch, and a listedFinish a finish. rec is the index of the record.
type listedAccept struct {
	rec    int
	number uint64
}

type listedFinish struct {
	rec int
	of  *state.Finish
}

// batchBytes is the size at which a batch is appended to the journal before its visit has
// ended. The records so far are accepts, which are valid by themselves; the finish still
// comes last.
const batchBytes = 16 << 20

func (b *Batch) add(kind byte, payload []byte) {
	b.arena = append(b.arena, payload...)
	b.recs = append(b.recs, journal.Record{Kind: kind})
	b.ends = append(b.ends, len(b.arena))
}

// EachAccept passes the accepts to fn, in their order, until fn returns an error: their arguments and results of
// Ledger.Accept. enc is valid until fn returns.
func (b *Batch) EachAccept(fn func(kind byte, number uint64, enc []byte) error) error {
	for _, a := range b.accepts {
		if err := fn(b.recs[a.rec].Kind, a.number, b.payload(a.rec)); err != nil {
			return err
		}
	}
	return nil
}

// EachFinish passes the finishes to fn, in their order. A finish is valid until fn returns. It has no Skips.
func (b *Batch) EachFinish(fn func(f *state.Finish)) {
	for _, l := range b.finishes {
		if n := len(l.of.State); n > 0 { // the Planner may have used its memory again
			p := b.payload(l.rec)
			l.of.State = p[len(p)-n:]
		}
		fn(l.of)
	}
}

// Hosts returns the states of AddHost.
func (b *Batch) Hosts() []frontier.HostState { return b.hosts }

// payload returns the payload of a record.
func (b *Batch) payload(i int) []byte {
	from, end := 0, b.ends[i]
	if i > 0 {
		from = b.ends[i-1]
	}
	return b.arena[from:end:end]
}

// records returns the added records, valid until the next add or reset.
func (b *Batch) records() []journal.Record {
	for i := range b.recs {
		b.recs[i].Payload = b.payload(i)
	}
	return b.recs
}

func (b *Batch) reset() {
	if cap(b.arena) > batchBytes {
		b.arena = nil
	}
	b.arena, b.recs, b.ends = b.arena[:0], b.recs[:0], b.ends[:0]
	clear(b.finishes)
	clear(b.hosts)
	b.accepts, b.finishes, b.hosts = b.accepts[:0], b.finishes[:0], b.hosts[:0]
}

// A Sealer is a Participant that looks at each batch when it is about to be appended to the journal.
type Sealer interface {
	// Seal may look at the lists of b until it returns. It must not append, write or sync, nor read or change the
	// seen-set. The ledger does not call it after the run has failed. After an error, the batch is not appended.
	//
	// An answer to another agent about an accept or a finish must wait for the Seal that lists it. So code of the
	// dispatcher that makes such answers appends the batch before.
	Seal(b *Batch) error
}

// Append appends the present batch to the journal, unless the run has failed.
func (l *Ledger) Append() error {
	if len(l.batch.recs) == 0 || l.run.Failed() {
		return nil
	}
	for _, s := range l.sealers {
		if err := s.Seal(&l.batch); err != nil {
			return err
		}
	}
	err := l.journal.Append(l.batch.records())
	l.batch.reset()
	l.dirty = true
	return err
}

// AppendLarge is Append if the present batch is large.
func (l *Ledger) AppendLarge() error {
	if len(l.batch.arena) <= batchBytes {
		return nil
	}
	return l.Append()
}

// AppendForSync is Append for a batch that is synced soon, even if only the seen-set has links to write.
func (l *Ledger) AppendForSync() error {
	l.dirty = true
	return l.Append()
}
