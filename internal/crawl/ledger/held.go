package ledger

import (
	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
)

// The links that the seen-set holds back are only in its files, until it has answered whether they
// are new. These files are written before the journal records the finish of the page. But a power
// failure may keep a later write and lose an earlier one. So while links are held back, each write
// of the journal ends with a mark (state.Held), which names these files and their ends. After a power
// failure, a finish counts only if a mark after it agrees with the files on disk, see doubt. The finish of
// a link that the operator dropped needs no mark, because it brought no links.
//
// One such mark is enough: every link of the pages before it is safe. Either a record before the
// mark accepts the link or shows that it was known, or the link is in a file that the mark names.
//
// A finish always counts once a sync has covered it, because the same sync covers a mark after it
// and all files that the mark names. The seen-set deletes a file only after a later sync, whose
// mark does not name the file any more.

// A holding is what the journal knows about the links that the seen-set holds back.
type holding struct {
	open  bool // the journal says that a mark must follow its finishes
	mute  bool // write no mark: the journal has finishes that do not count
	files []keyset.HeldFile
	buf   []byte
}

// holds adds a record to the present batch which says that a mark must follow the finishes
// from here on.
func (l *Ledger) holds() {
	if !l.holding.open && l.seen.Holds() {
		l.holding.open = true
		l.batch.add(state.Held, nil)
	}
}

// mark returns the last record of a write of the journal. ok is false if none is needed.
func (l *Ledger) mark() (r journal.Record, ok bool) {
	h := &l.holding
	if !h.open || h.mute {
		return r, false
	}
	return journal.Record{Kind: state.Held, Payload: l.holding.encode(l.seen)}, true
}

// encode returns a mark for the held links.
func (h *holding) encode(s *keyset.Store) []byte {
	h.files = s.Held(h.files[:0])
	h.buf = state.AppendHeld(h.buf[:0], h.files)
	h.open = len(h.files) > 0
	return h.buf
}

// markAnyway writes the journal with a mark even if there is nothing else to write. After the
// next sync, files that older marks name may be deleted.
func (l *Ledger) markAnyway() error {
	if !l.holding.open || l.holding.mute {
		return nil
	}
	return l.journal.Append([]journal.Record{{Kind: state.Held}})
}

// lostLinks reports held links that the seen-set could not read.
func (l *Ledger) lostLinks() {
	for _, d := range l.seen.Lost() {
		l.events.Write("seen-lost", report.F("file", d.File), report.F("offset", d.Offset), report.F("links", d.Items),
			report.F("error", d.Err))
		l.crawl.Lost(int(d.Items))
		if l.cluster != nil {
			l.cluster.Lost()
		}
	}
}
