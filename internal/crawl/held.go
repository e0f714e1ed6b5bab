package crawl

import (
	"encoding/binary"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
)

// The links that the seen-set holds back are only in its files, until it has answered whether they
// are new. These files are written before the journal records the finish of the page. But a power
// failure may keep a later write and lose an earlier one. So while links are held back, each write
// of the journal ends with a mark (kindHeld), which names these files and their ends. After a power
// failure, a finish counts only if some mark after it agrees with the files on disk. The finish of
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

// appendHeld appends the encoding of a mark: uvarint number of files, and for each file the
// uvarints number, end, and number of links.
func appendHeld(dst []byte, files []keyset.HeldFile) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(files)))
	for _, f := range files {
		for _, n := range [...]uint64{f.Num, uint64(f.End), uint64(f.Items)} {
			dst = binary.AppendUvarint(dst, n)
		}
	}
	return dst
}

// decodeHeld reads what appendHeld wrote. An empty record is not a mark; it says that a mark
// must follow the finishes after it.
func decodeHeld(p []byte) (files []keyset.HeldFile, mark bool, err error) {
	if len(p) == 0 {
		return nil, false, nil
	}
	next := func() uint64 {
		n, w := binary.Uvarint(p)
		if w <= 0 {
			p, err = nil, errRecord
			return 0
		}
		p = p[w:]
		return n
	}
	for n := next(); n > 0 && err == nil; n-- {
		f := keyset.HeldFile{Num: next(), End: int64(next()), Items: int64(next())}
		if f.End < 0 || f.Items < 0 {
			err = errRecord
		}
		files = append(files, f)
	}
	if len(p) > 0 {
		err = errRecord
	}
	return files, true, err
}

// holds adds a record to the present batch which says that a mark must follow the finishes
// from here on.
func (c *Crawler) holds() {
	if !c.holding.open && c.Seen.Holds() {
		c.holding.open = true
		c.batch.add(kindHeld, nil)
	}
}

// mark returns the last record of a write of the journal. ok is false if none is needed.
func (c *Crawler) mark() (r journal.Record, ok bool) {
	h := &c.holding
	if !h.open || h.mute {
		return r, false
	}
	return journal.Record{Kind: kindHeld, Payload: c.holding.encode(c.Seen)}, true
}

// encode returns a mark for the held links.
func (h *holding) encode(s *keyset.Store) []byte {
	h.files = s.Held(h.files[:0])
	h.buf = appendHeld(h.buf[:0], h.files)
	h.open = len(h.files) > 0
	return h.buf
}

// markAnyway writes the journal with a mark even if there is nothing else to write. After the
// next sync, files that older marks name may be deleted.
func (c *Crawler) markAnyway() error {
	if !c.holding.open || c.holding.mute {
		return nil
	}
	return c.Journal.Append([]journal.Record{{Kind: kindHeld}})
}

// reasonLost is the reason for a link that was held back in a file which is damaged or gone.
const reasonLost = "seenLost"

// lostLinks reports held links that the seen-set could not read.
func (c *Crawler) lostLinks() {
	for _, d := range c.Seen.Lost() {
		c.Events.Write("seen-lost", report.F("file", d.File), report.F("offset", d.Offset), report.F("links", d.Items),
			report.F("error", d.Err))
		for range d.Items {
			c.skipCounted(reasonLost)
		}
		// Accept them again when a page names them.
		c.known.forget()
	}
}

// A verdict decides which finishes of a journal count. It must see all of them, in their
// order.
type verdict struct {
	intact func(file string, end int64) bool // of WARC files; nil: all are
	sure   uint64                            // number of first finishes whose links are not lost
	logged uint64                            // number of first finishes whose lines in crawl.log are not lost
	n      uint64                            // number of finishes seen so far
}

// all returns the verdict by which all finishes count.
func all() verdict { return verdict{sure: 1<<64 - 1, logged: 1<<64 - 1} }

// lost reports that a finish does not count, because its WARC record or its line in crawl.log is
// gone, or because its held links may be gone.
func (v *verdict) lost(f *finish) bool {
	v.n++
	return v.n > v.logged || v.doubtful() && !f.dropped() || f.file != "" && v.intact != nil && !v.intact(f.file, f.end)
}

// dropped reports that the operator dropped the URL. Then no links can be lost.
func (f *finish) dropped() bool { return f.code == report.CodeDeletedByUser }

// doubtful reports that the links or the line of the last finish may be gone.
func (v *verdict) doubtful() bool { return v.n > min(v.sure, v.logged) }
