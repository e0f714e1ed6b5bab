package ledger

import (
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
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

// Offer gives links to the seen-set, which emits those that are new, at once or later, see keyset.Open. Offer repairs
// the seen-set if a part of it is damaged. So do all methods that change or read the seen-set.
func (l *Ledger) Offer(items []keyset.Item) error {
	if err := l.repair(l.seen.Add(items)); err != nil || l.run.Failed() {
		return err
	}
	l.holds()
	return nil
}

// Emit lets the seen-set give new links that it has held back, as far as it knows them to be new.
func (l *Ledger) Emit() error {
	if err := l.repair(l.seen.Emit()); err != nil {
		return err
	}
	return l.Append()
}

// Flush lets the seen-set give all new links that it holds back.
func (l *Ledger) Flush() error {
	err := l.seen.Flush()
	for tries := 0; err != nil && tries < flushTries; tries++ {
		if err := l.repair(err); err != nil || l.run.Failed() {
			return err
		}
		err = l.seen.Flush() // damage stopped it before all links were answered
	}
	if err := l.repair(err); err != nil {
		return err
	}
	return l.Append()
}

// Add adds a record to the present batch. The payload is copied.
func (l *Ledger) Add(kind byte, payload []byte) { l.batch.add(kind, payload) }

// Accept adds an accept to the present batch: kind is state.Accept, state.Outgoing or state.Passed, and enc the link's
// encoding. It returns the number of the accept.
func (l *Ledger) Accept(kind byte, enc []byte) (number uint64) {
	number = l.AcceptUnlisted(kind, enc)
	if b := &l.batch; b.lists {
		b.accepts = append(b.accepts, listedAccept{len(b.recs) - 1, number})
	}
	return number
}

// AcceptUnlisted is Accept for a link that Sealers must not look at: the caller does all that is to be done for it.
func (l *Ledger) AcceptUnlisted(kind byte, enc []byte) (number uint64) {
	l.batch.add(kind, enc)
	l.accepted++
	l.tally.Accepted(1)
	return l.accepted
}

// Finish adds a finish to the present batch, and tells the participants of it. It comes after the accepts of the links
// that the visit has brought, and may be in a later batch than the first of them. The caller does not change f until
// the batch is appended, except for Skips.
func (l *Ledger) Finish(f *state.Finish) {
	l.rec = f.AppendTo(l.rec[:0])
	l.batch.add(state.Finished, l.rec)
	tellFinish(l.told, f, false)
	if b := &l.batch; b.lists {
		b.finishes = append(b.finishes, listedFinish{len(b.recs) - 1, f})
	}
}

// AddHost adds to the present batch how long a host must rest.
func (l *Ledger) AddHost(st frontier.HostState) {
	l.rec = st.AppendTo(l.rec[:0])
	l.batch.add(state.Host, l.rec)
	if b := &l.batch; b.lists {
		b.hosts = append(b.hosts, st)
	}
}

// tellFinish tells finishers of a finish; see Finisher.
func tellFinish(fs []Finisher, f *state.Finish, before bool) {
	for _, p := range fs {
		p.Finished(f, before)
	}
}

// EndOutgoing adds that links which other agents have are ended, and appends the batch. returned reports that this
// agent has accepted them again.
func (l *Ledger) EndOutgoing(numbers []uint64, returned bool) error {
	l.rec = state.AppendSent(l.rec[:0], numbers, returned)
	l.batch.add(state.Sent, l.rec)
	countEnded(l.tally, int64(len(numbers)), returned)
	return l.Append()
}

// countEnded counts links that are ended; see Ledger.EndOutgoing.
func countEnded(t *report.Tally, n int64, returned bool) {
	if returned {
		t.Accepted(-n)
	} else {
		t.Sent(n)
	}
}
