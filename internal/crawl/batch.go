package crawl

import (
	"time"

	"github.com/orbweaver/orbweaver/internal/store/journal"
)

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

// append appends the present batch to the journal.
func (l *ledger) append() error {
	if len(l.batch.recs) == 0 {
		return nil
	}
	err := l.journal.Append(l.batch.records())
	l.batch.reset()
	l.dirty = true
	return err
}

// append appends the present batch to the journal, unless the run has failed.
func (c *Crawler) append() {
	if c.fatal == nil {
		c.fatal = c.ledger.append()
	}
}

// save writes the journal when it is due, unless the run has failed.
func (c *Crawler) save(now time.Time) {
	if c.fatal != nil {
		return
	}
	if err := c.ledger.save(now); c.fatal == nil { // the cluster, which is told, may have failed the run
		c.fatal = err
	}
}
