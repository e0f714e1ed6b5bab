package ledger

import "github.com/orbweaver/orbweaver/internal/store/journal"

// A batch collects the journal records of a visit, in one piece of memory that the next visit
// reuses.
type batch struct {
	arena []byte
	recs  []journal.Record
	ends  []int // in arena; the payload of a record begins at the end of the one before
}

// batchBytes is the size at which a batch is appended to the journal before its visit has
// ended. The records so far are accepts, which are valid by themselves; the finish still
// comes last.
const batchBytes = 16 << 20

func (b *batch) add(kind byte, payload []byte) {
	b.arena = append(b.arena, payload...)
	b.recs = append(b.recs, journal.Record{Kind: kind})
	b.ends = append(b.ends, len(b.arena))
}

// records returns the added records, valid until the next add or reset.
func (b *batch) records() []journal.Record {
	from := 0
	for i, end := range b.ends {
		b.recs[i].Payload = b.arena[from:end:end]
		from = end
	}
	return b.recs
}

func (b *batch) reset() {
	if cap(b.arena) > batchBytes {
		b.arena = nil
	}
	b.arena, b.recs, b.ends = b.arena[:0], b.recs[:0], b.ends[:0]
}

// Append appends the present batch to the journal, unless the run has failed.
func (l *Ledger) Append() error {
	if len(l.batch.recs) == 0 || l.run.Failed() {
		return nil
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
