package ledger

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// Recovered has the counts that a restart found.
type Recovered struct {
	// Pending includes the links of blocked hosts.
	Accepted, Finished, Pending int64
	// Repeated counts the finishes whose WARC record, line in crawl.log, or held-back links a power
	// failure has destroyed. Their URLs are pending again.
	Repeated int64
	// Lost is the number of held-back links that may be lost, and whose pages are not known.
	Lost int64
}

// A Past takes what Recover reads in the journal, beside the records of participants. Accepted and Saw come first,
// in the order of the records. Then comes Read, then Dropped, Pending and Planned for each link and state, then Queued,
// then Restored.
type Past interface {
	// Accepted is told of an accept of this kind.
	Accepted(kind byte, l link.Link)
	// Saw is told of a finish, even if it does not count.
	Saw(f *state.Finish)
	// Read is told that all records are read, except for pending links and the states of a Planner.
	Read()
	// Dropped takes a link that is not finished, if the operator has dropped its host.
	Dropped(number uint64, l link.Link) (taken bool, err error)
	// Pending takes another link that is not finished, and that this agent is to visit.
	Pending(number uint64, l link.Link) error
	// Planned takes the last state that a Planner has had of a URL.
	Planned(l link.Link, state []byte) error
	// Queued is told that all pending links and states were given.
	Queued() error
	// Restored is told of the end of the reading, before a checkpoint may begin. planned reports that the journal has
	// states of a Planner. Restored sets Accepted, Finished and Pending of r.
	Restored(r *Recovered, planned bool)
}

// Evidence is what may tell, beside the journal and the archive, whether a finish counts.
type Evidence struct {
	Log    *report.Tail // of crawl.log
	Others []Witness
}

// A resume rebuilds a crawl from its journal. It reads each file once: the snapshot, the parts of keys,
// the segments, and the parts of pending links. The accepts in the segments wait in the History until
// all finishes are known. A finish that a power failure may have undone waits in the doubt.
type resume struct {
	*state.History
	ledger *Ledger
	past   Past
	result Recovered
	begun  bool // the first record was read
	// hasPlans reports that the journal has states of a Planner.
	hasPlans bool
	doubt    doubt
	states   lastStates
	lists    *state.Spool // key lists that the seen-set may lack

	keys []link.Key // of accepts and finishes, for the seen-set

	undone    map[link.Stored]struct{} // pages for other agents whose finishes do not count
	withdrawn []uint64                 // the numbers of such pages
}

// Recover rebuilds seen-set, participants and pending links from the journal in dir. It comes before Begin. A finish
// that a power failure may have undone counts only with the evidence for it. intact reports whether a WARC file still
// has all bytes up to end; nil means that all have.
func (l *Ledger) Recover(fs disk.FS, dir string, intact func(file string, end int64) bool, evidence Evidence,
	past Past) (Recovered, error) {
	l.fs, l.dir = fs, dir
	l.journal.EndWith(l.mark)
	r := &resume{
		History: state.NewHistory(l.spool(0)), lists: l.spool(1), ledger: l, past: past,
		states: newLastStates(l.cfg.Planned),
		doubt: doubt{verdict: verdict{intact: intact}, missing: l.seen.Missing, tail: evidence.Log,
			others: evidence.Others, sure: l.journal.Sure()},
	}
	if err := errors.Join(r.read(), r.Later.Close(), r.lists.Close()); err != nil {
		return r.result, err
	}
	past.Restored(&r.result, r.hasPlans)
	if len(r.withdrawn) > 0 {
		if err := l.EndOutgoing(r.withdrawn, true); err != nil {
			return r.result, err
		}
	}
	if r.result.Repeated > 0 || r.result.Lost > 0 || r.doubt.doubtful() {
		// A power failure has destroyed what these finishes refer to. But the next recovery could
		// take them for valid: their WARC file may grow past their ends or be deleted, and so may
		// the files of the seen-set. So a checkpoint removes these finishes from the journal now.
		l.holding.mute = true // no mark may confirm these finishes
		counts := r.doubt.verdict
		counts.n = 0
		if err := l.beginCheckpoint(counts); err != nil {
			return r.result, err
		}
		if err := l.endCheckpoint(true); err != nil {
			return r.result, err
		}
		l.holding.mute = false
	}
	if l.cluster != nil {
		l.cluster.Recovered()
	}
	return r.result, nil
}

// spool returns an empty Spool in the journal's directory. One reading of the journal at a time uses it. A file that a
// killed process has left there is overwritten or does no harm.
func (l *Ledger) spool(n int) *state.Spool {
	return state.NewSpool(l.fs, filepath.Join(l.dir, fmt.Sprintf("spool-%d.tmp", n)))
}

// read reads the journal.
func (r *resume) read() error {
	files, err := journal.List(r.ledger.fs, r.ledger.dir)
	if err != nil {
		return err
	}
	row := table.Resume(r)
	record := func(kind byte, p []byte) error { return r.record(row, kind, p) }
	if err := files.Snapshot(record); err != nil {
		return err
	}
	parts, err := state.PartsOf(files)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if p.Label[0] == state.Keys && !r.hasKeys(p) {
			if err := files.Part(p, record); err != nil {
				return err
			}
		}
	}
	if err := files.Segments(func(last bool, kind byte, p []byte) error {
		r.doubt.next(last)
		return record(kind, p)
	}); err != nil {
		return err
	}
	r.result.Lost = r.doubt.decide()
	r.ledger.holding.open = r.doubt.open
	if err := errors.Join(r.release(), r.restoreKeys()); err != nil {
		return err
	}
	if !r.begun {
		if err := r.begin(); err != nil {
			return err
		}
	}
	if err := r.ledger.checkSeen(); err != nil {
		return err
	}
	r.past.Read()
	for _, p := range parts {
		if err := r.EachIn(files, p, r.pending); err != nil {
			return err
		}
	}
	if err := r.EachLater(r.pending, r.planned); err != nil {
		return err
	}
	if err := r.past.Queued(); err != nil {
		return err
	}
	return r.ledger.restoreLists(r.lists)
}

// begin writes the first record of a journal.
func (r *resume) begin() error {
	rand.Read(r.ledger.id[:])
	r.ledger.batch.add(state.Crawl, state.AppendCrawl(nil, r.ledger.id))
	if err := r.ledger.Append(); err != nil {
		return err
	}
	return r.ledger.bindSeen()
}

// record reads a record, one of the ledger's own kinds by row. The first record names the crawl.
func (r *resume) record(row func(kind byte, p []byte) error, kind byte, p []byte) error {
	of := &r.ledger.of[kind]
	switch {
	case !r.begun:
		return r.crawlRecord(kind, p)
	case of.by == nil || table.Resumes(kind):
		return row(kind, p)
	}
	load := r.ordered
	if !of.Ordered {
		load = of.by.Load
	}
	if err := load(kind, p); err != nil {
		return fmt.Errorf("%s record: %w", of.Name, err)
	}
	return nil
}

// hasKeys reports that the seen-set has the keys of a part on disk.
func (r *resume) hasKeys(p journal.Part) bool {
	_, _, last, err := state.ParseLabel(p.Label)
	if _, ok := r.ledger.Keys().Finish(link.Key{}); ok { // finishes have keys in the seen-set, too
		last++
	}
	return err == nil && last <= r.ledger.seen.Mark()
}

// crawlRecord reads the first record.
func (r *resume) crawlRecord(kind byte, p []byte) (err error) {
	r.begun = true
	if r.ledger.id, err = state.DecodeCrawl(kind, p); err != nil {
		return err
	}
	return r.ledger.bindSeen()
}

func (r *resume) number(kind byte, p []byte) error {
	err := r.Number(kind, p)
	r.ledger.accepted, r.doubt.begun = r.Last, true
	return err
}

func (r *resume) accept(kind byte, p []byte) error {
	l, _, err := link.Peek(p)
	if err != nil {
		return err
	}
	r.ledger.tally.Accepted(1)
	r.past.Accepted(kind, l)
	if err := r.History.Accept(kind, p); err != nil {
		return err
	}
	if r.ledger.accepted = r.Last; r.ledger.accepted <= r.ledger.seen.Mark() {
		return nil
	}
	k, ok, err := r.ledger.Keys().Accept(kind, r.ledger.accepted, p)
	if err != nil || !ok {
		return err
	}
	return r.addKey(k)
}

func (r *resume) sent(_ byte, p []byte) error {
	n, returned, err := r.CountEnded(p)
	if err == nil {
		countEnded(r.ledger.tally, n, returned)
	}
	return err
}

// finish reads a finish.
func (r *resume) finish(kind byte, p []byte) error {
	f, err := state.DecodeFinish(p)
	if err != nil {
		return err
	}
	if f.Number > r.Last {
		return state.ErrRecord
	}
	r.past.Saw(&f)
	waits := r.doubt.finish(&f)
	if err := r.release(); err != nil {
		return err
	}
	if waits {
		r.doubt.hold(kind, p)
		return nil
	}
	return r.count(&f, r.doubt.lost(r.doubt.n, &f))
}

// count counts a finish, or notes that it does not count.
func (r *resume) count(f *state.Finish, lost bool) error {
	if lost {
		if !f.IsRobots() {
			r.result.Repeated++
		}
		if at, ok := f.Link.Stored(); ok { // its URL is fetched again, so no other agent need have this page
			if r.undone == nil {
				r.undone = map[link.Stored]struct{}{}
			}
			at.File = strings.Clone(at.File)
			r.undone[at] = struct{}{}
		}
		return nil
	}
	tellFinish(r.ledger.told, f, true)
	if !f.IsRobots() {
		if err := r.History.Finish(f.Number); err != nil {
			return err
		}
		if r.ledger.accepted >= r.ledger.seen.Mark() {
			for _, k := range finishKeys(nil, r.ledger.Keys(), f) {
				if err := r.addKey(k); err != nil {
					return err
				}
			}
		}
	}
	r.hasPlans = r.hasPlans || len(f.State) > 0
	return r.states.add(r.Later, f)
}

// ordered reads a record whose effect depends on the finishes before it.
func (r *resume) ordered(kind byte, p []byte) error {
	if r.doubt.doubtful() {
		r.doubt.hold(kind, p)
		return nil
	}
	return r.settle(r.doubt.n, kind, p)
}

// release processes the records that need not be held back any more.
func (r *resume) release() error {
	return r.doubt.release(func(nth uint64, kind byte, p []byte) error {
		err := r.settle(nth, kind, p)
		if err != nil {
			err = fmt.Errorf("%s record that was held back: %w", cmp.Or(r.ledger.of[kind].Name, table.Name(kind)), err)
		}
		return err
	})
}

// settle processes an ordered record. nth is the number of the last finish before it.
func (r *resume) settle(nth uint64, kind byte, p []byte) error {
	if kind == state.Finished {
		f, err := state.DecodeFinish(p)
		if err != nil {
			return err
		}
		return r.count(&f, r.doubt.lost(nth, &f))
	}
	of := &r.ledger.of[kind]
	if of.NamesLinks && nth > r.doubt.safe() {
		return nil
	}
	if of.by != nil {
		if err := of.by.Load(kind, p); err != nil {
			return err
		}
	}
	switch kind {
	case state.Again:
		l, _, err := link.Peek(p)
		if err != nil {
			return err
		}
		return r.states.addAgain(r.Later, l)
	case state.Told:
		r.hasPlans = true
		return r.states.addTold(r.Later, p)
	}
	return nil
}

// mark reads a mark about held-back links.
func (r *resume) mark(_ byte, p []byte) error {
	if err := r.doubt.mark(p); err != nil {
		return err
	}
	return r.release()
}

func (r *resume) key(_ byte, p []byte) (err error) {
	if r.keys, err = state.DecodeKeys(r.keys, p); err != nil {
		return err
	}
	return r.restoreKeys()
}

// addKey adds a key to the seen-set, which does not have it on disk.
func (r *resume) addKey(k link.Key) error {
	if r.keys = append(r.keys, k); len(r.keys) < state.KeysPiece {
		return nil
	}
	return r.restoreKeys()
}

func (r *resume) restoreKeys() error {
	seen := r.ledger.seen
	err := r.ledger.restoreSeen(seen.Restore(r.keys), func() error { return seen.Restore(nil) })
	r.keys = r.keys[:0]
	return err
}

func (r *resume) list(kind byte, p []byte) error {
	if r.ledger.accepted < r.ledger.seen.Mark() {
		return nil
	}
	return r.lists.Add(kind, 0, p)
}

func (r *resume) visited(kind byte, p []byte) error {
	r.hasPlans = true
	if r.states == nil {
		return nil
	}
	return r.Later.Add(kind, inSnapshot, p)
}

// planned gives the states of a Planner back.
func (r *resume) planned(kind byte, number uint64, p []byte) error {
	l, s, err := r.states.last(kind, number, p)
	if err != nil || s == nil {
		return err
	}
	return r.past.Planned(l, s)
}

// pending gives a link that is not finished. It leaves out a page for another agent whose finish does not count.
func (r *resume) pending(kind byte, number uint64, enc []byte) error {
	l, _, err := link.Decode(enc)
	if err != nil {
		return err
	}
	if at, page := l.Stored(); page {
		if _, undone := r.undone[at]; undone {
			r.withdrawn = append(r.withdrawn, number)
			return nil
		}
	}
	if taken, err := r.past.Dropped(number, l); taken || err != nil {
		return err
	}
	mine, again, err := r.isMine(kind, number, enc, l)
	if !mine || err != nil {
		return err
	}
	if again {
		r.result.Repeated++
		l = l.AsLink()
	}
	return r.past.Pending(number, l)
}

// isMine is Cluster.Pending for a link of state.Pending or state.PendingOut.
func (r *resume) isMine(kind byte, number uint64, enc []byte, l link.Link) (mine, again bool, err error) {
	switch outgoing := kind == state.PendingOut; {
	case r.ledger.cluster != nil:
		return r.ledger.cluster.Pending(number, l, enc, outgoing)
	case outgoing:
		return false, false, ErrAlone
	}
	return true, false, nil
}
