package ledger

import (
	"bytes"
	"maps"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
)

// A Witness is a log that is written before the journal. After a power failure, a finish that no sync is known to have
// covered counts only if crawl.log and all Witnesses have its line. Besides, each finish needs its record in the
// archive.
type Witness interface {
	// Has reports that the log has the line of f, or keeps no line of such a finish. all reports that crawl.log and the
	// Witnesses have the lines of all finishes before f. synced reports that a sync has covered f.
	Has(f *state.Finish, all, synced bool) bool
}

// A verdict decides which finishes of a journal count. It must see all of them, in their
// order.
type verdict struct {
	intact func(file string, end int64) bool // of WARC files; nil: all are
	marked uint64                            // number of first finishes whose links are not lost
	logged uint64                            // number of first finishes whose lines in the logs are not lost
	n      uint64                            // number of finishes seen so far
}

// all returns the verdict by which all finishes count.
func all() verdict { return verdict{marked: 1<<64 - 1, logged: 1<<64 - 1} }

// next reports that the next finish does not count.
func (v *verdict) next(f *state.Finish) bool {
	v.n++
	return v.lost(v.n, f)
}

// safe returns the number of first finishes whose links and lines are not lost.
func (v *verdict) safe() uint64 { return min(v.marked, v.logged) }

// doubtful reports that the links or the line of the last finish may be gone.
func (v *verdict) doubtful() bool { return v.n > v.safe() }

// lost reports that the nth finish does not count, because its WARC record or its line in crawl.log is
// gone, or because its held links may be gone.
func (v *verdict) lost(nth uint64, f *state.Finish) bool {
	return nth > v.logged || nth > v.marked && !f.Dropped() ||
		f.File != "" && v.intact != nil && !v.intact(f.File, f.End)
}

// A doubt makes up the verdict while a journal is read. It holds records back from the first finish on
// that may not count, until a mark or the end decides.
//
// A mark decides for a finish before it if all files that it names are whole. Of those that are not, the seen-set
// may have deleted some since, because it had answered all links in them. Then a later mark does not name them.
//
// A finish that no sync is known to have covered needs its line in crawl.log, and in the link log if there is one.
// The crawl writes the lines before the finishes, and all in the same order. So if the logs have the lines of a
// finish, they have those of all finishes before it, and a power failure takes the lines of the last ones.
type doubt struct {
	verdict
	missing func([]keyset.HeldFile) int64 // links that were held back in files and are gone
	tail    *report.Tail                  // of crawl.log
	others  []Witness
	sure    int64 // number of first records of the last segment that a sync has covered

	records int64 // of the last segment
	recent  bool  // the present record is not one of the sure ones
	open    bool  // a mark must follow the later finishes
	found   bool  // the tail has the line of a finish
	begun   bool  // pages were finished before the recent records
	waiting []unmarked
	held    []heldBack
}

// An unmarked is a number of finishes that wait for files to be answered.
type unmarked struct {
	last  uint64 // the last of these finishes
	files map[uint64]bool
	gone  int64 // links in these files; only of a snapshot, which does not tell the single finishes
}

// A heldBack is a record that was held back.
type heldBack struct {
	nth  uint64 // of the last finish, this one included
	kind byte
	p    []byte
}

// next begins a record of a segment.
func (d *doubt) next(last bool) {
	if last {
		d.records++
		d.recent = d.records > d.sure
	}
}

// finish reads a finish. waits reports that it must be held back.
func (d *doubt) finish(f *state.Finish) (waits bool) {
	d.n++
	if !d.open {
		d.marked = d.n
	}
	switch {
	case d.tail == nil:
		d.logged = d.n
	case d.tail.Has(f.Link.URL.String(), f.Code, f.Began) && d.witnessed(f):
		d.found, d.logged = true, d.n
	case !d.found && !d.recent:
		d.begun, d.logged = true, d.n
	}
	return d.doubtful()
}

// witnessed reports that all logs but crawl.log have the line of a finish, or keep none.
func (d *doubt) witnessed(f *state.Finish) bool {
	for _, w := range d.others {
		if !w.Has(f, d.logged == d.n-1, !d.recent) {
			return false
		}
	}
	return true
}

// hold holds a copy of a record back.
func (d *doubt) hold(kind byte, p []byte) {
	d.held = append(d.held, heldBack{d.n, kind, bytes.Clone(p)})
}

// mark reads a mark about held-back links.
func (d *doubt) mark(p []byte) error {
	files, mark, err := state.DecodeHeld(p)
	if err != nil {
		return err
	}
	d.open = len(files) > 0 || !mark
	if !mark {
		return nil
	}
	named, gone := unmarked{last: d.n, files: map[uint64]bool{}}, map[uint64]bool{}
	for _, f := range files {
		n := d.missing([]keyset.HeldFile{f})
		if gone[f.Num] = n > 0; n > 0 {
			named.files[f.Num] = true
			named.gone += n
		}
	}
	for i := range d.waiting {
		maps.DeleteFunc(d.waiting[i].files, func(num uint64, _ bool) bool { _, ok := gone[num]; return !ok })
	}
	for len(d.waiting) > 0 && len(d.waiting[0].files) == 0 {
		d.marked = max(d.marked, d.waiting[0].last)
		d.waiting = d.waiting[1:]
	}
	switch {
	case len(named.files) == 0:
		d.marked, d.waiting = d.n, nil
	case d.n == 0:
		d.waiting = []unmarked{named}
	case len(d.waiting) == 0 || d.waiting[len(d.waiting)-1].last < d.n:
		named.gone = 0
		d.waiting = append(d.waiting, named)
	}
	return nil
}

// release passes on the records that need not be held back any more. nth is the number of the last finish.
func (d *doubt) release(fn func(nth uint64, kind byte, p []byte) error) error {
	safe := d.safe()
	for len(d.held) > 0 && (d.held[0].nth <= safe || d.missing == nil) {
		h := d.held[0]
		d.held = d.held[1:]
		if err := fn(h.nth, h.kind, h.p); err != nil {
			return err
		}
	}
	return nil
}

// decide ends the doubt: release passes on all records. It returns the number of held-back links that are lost and
// whose pages are not known. If crawl.log has no lines at all and must have had some, somebody has removed it. Then no
// line is lost.
func (d *doubt) decide() (gone int64) {
	if !d.found && d.begun && d.tail != nil && d.tail.Empty() {
		d.logged = d.n
	}
	if len(d.waiting) > 0 {
		gone = d.waiting[0].gone
	}
	d.missing = nil
	return gone
}
