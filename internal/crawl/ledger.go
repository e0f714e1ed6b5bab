package crawl

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Every accepted URL has a number: its position among all accepts of the crawl, from 1. An accept
// record does not contain its number, because the order of the records gives it. A finish record
// does. So the finished URLs are a set of numbers, which takes at most two bytes a URL.

// donePiece bounds a record of finished numbers, for the same reason as tallyPiece.
const donePiece = 256 << 10

// maxNumber is larger than the number of accepts of any crawl. Larger numbers are damage.
const maxNumber = 1 << 36

// appendRuns appends the encoding of a set of numbers as runs: for each run uvarint the gap
// before it, uvarint its length minus one. The set's own format is not used, because damaged
// bytes make its reader panic.
func appendRuns(dst []byte, done *roaring64.Bitmap) []byte {
	var buf [1024]uint64
	next, from, to := uint64(0), uint64(0), uint64(0) // the current run is [from, to)
	flush := func() {
		if to > from {
			dst = binary.AppendUvarint(dst, from-next)
			dst = binary.AppendUvarint(dst, to-from-1)
			next = to
		}
	}
	for it := done.ManyIterator(); ; {
		n := it.NextMany(buf[:])
		for _, v := range buf[:n] {
			if v != to || to == 0 {
				flush()
				from = v
			}
			to = v + 1
		}
		if n == 0 {
			flush()
			return dst
		}
	}
}

// longRun is the length from which a run is added as a range. Adding a range copies all runs of
// the set in the same block of 65,536 numbers, so short runs are added number by number.
const longRun = 1 << 12

// decodeRuns reads what appendRuns wrote. Numbers above last are damage.
func decodeRuns(p []byte, last uint64) (*roaring64.Bitmap, error) {
	done := roaring64.New()
	var short []uint64
	for next := uint64(0); len(p) > 0; {
		gap, n := binary.Uvarint(p)
		if n <= 0 || gap > last {
			return nil, errRecord
		}
		length, m := binary.Uvarint(p[n:])
		if m <= 0 || length > last || next+gap+length > last {
			return nil, errRecord
		}
		p = p[n+m:]
		from := next + gap
		next = from + length + 1
		if length >= longRun {
			done.AddRange(from, next)
			continue
		}
		for n := from; n < next; n++ {
			short = append(short, n)
		}
		if len(short) >= longRun {
			done.AddMany(short)
			short = short[:0]
		}
	}
	done.AddMany(short)
	return done, nil
}

// putPieces writes p in pieces, because it may be too large for one record. Before each piece
// is a byte, which is 1 if more pieces follow.
func putPieces(kind byte, p []byte, size int, put func(kind byte, p []byte) error) error {
	var buf []byte
	for {
		n := min(len(p), size)
		more := byte(0)
		if n < len(p) {
			more = 1
		}
		buf = append(append(buf[:0], more), p[:n]...)
		if err := put(kind, buf); err != nil {
			return err
		}
		if p = p[n:]; more == 0 {
			return nil
		}
	}
}

// pieces joins what putPieces wrote.
type pieces struct{ buf []byte }

// add adds a piece. whole is nil until the last piece.
func (s *pieces) add(p []byte) (whole []byte, err error) {
	if len(p) == 0 {
		return nil, errRecord
	}
	if s.buf = append(s.buf, p[1:]...); p[0] != 0 {
		return nil, nil
	}
	whole, s.buf = s.buf, nil
	if whole == nil {
		whole = []byte{}
	}
	return whole, nil
}

// A ledger holds what a sequence of journal records tells about accepts and finishes.
type ledger struct {
	last     uint64            // number of the last accept
	done     *roaring64.Bitmap // numbers of finished links that may still be among the pending ones
	repeated int64             // number of finishes that do not count
	states   lastStates        // of the finishes that count
	piece    pieces
	verdict  verdict
	numbers  []uint64 // reused memory

	// missing returns how many links that were held back in files are gone. With it the ledger
	// computes verdict.sure. Nil means that verdict.sure is known.
	missing func([]keyset.HeldFile) int64
	sure    uint64   // number of first finishes without lost links
	open    bool     // a mark must follow the later finishes
	unsure  []unsure // finishes that count if the mark follows
	gone    int64    // lost held links of finishes that count

	lines lineCheck
}

// An unsure is a finish that may turn out not to count, because its mark or its line in crawl.log is missing.
type unsure struct {
	nth    uint64 // among all finishes
	counts bool   // if the mark or the line is there
	number uint64
	key    weburl.Key
	state  bool // it has something to remember
}

// A lineCheck finds the finishes whose lines in crawl.log a power failure has destroyed. The crawl writes the lines
// before the finishes, and both in the same order. So if the log has the line of a finish, it has those of all
// finishes before it, and a power failure takes the lines of the last ones.
type lineCheck struct {
	tail     *report.Tail // nil: no check
	recent   int64        // number of last records that may be newer than the last sync
	records  int64        // read so far, of recent and all others
	begun    bool         // pages were finished before the recent records
	found    bool         // the tail has the line of a finish
	unlogged []unsure     // finishes after the last one with a line
	at       []int64      // the number of their records
}

// saw notes a finish.
func (l *lineCheck) saw(f *finish, u unsure) {
	if l.tail.Has(f.link.URL.String(), f.code, f.began) {
		l.found, l.unlogged, l.at = true, l.unlogged[:0], l.at[:0]
		return
	}
	l.forget()
	l.unlogged, l.at = append(l.unlogged, u), append(l.at, l.records)
}

// lost returns the finishes without a line. If the log has no line of any finish, only the recent ones can have lost
// theirs. If it has no lines at all and must have had some, somebody has removed it, and lost returns nothing.
func (l *lineCheck) lost() []unsure {
	l.forget()
	if !l.found && l.begun && l.tail.Empty() {
		return nil
	}
	return l.unlogged
}

// forget forgets the finishes that are not recent, until the log has the line of a finish.
func (l *lineCheck) forget() {
	for !l.found && len(l.at) > 0 && l.at[0] <= l.records-l.recent {
		l.unlogged, l.at, l.begun = l.unlogged[1:], l.at[1:], true
	}
}

// read reads a record of accepts or finishes. It ignores other kinds.
func (g *ledger) read(kind byte, p []byte) error {
	switch kind {
	case kindNumber:
		g.lines.begun = true
		n, w := binary.Uvarint(p)
		if w <= 0 || w != len(p) || n > maxNumber {
			return errRecord
		}
		g.last = n
	case kindDone:
		whole, err := g.piece.add(p)
		if err != nil || whole == nil {
			return err
		}
		g.done, err = decodeRuns(whole, g.last)
		return err
	case kindAccept, kindForeign, kindPassed:
		g.last++
	case kindAgain:
		l, _, err := weburl.PeekLink(p)
		if err == nil {
			g.states.sawAgain(l.URL.Key())
		}
		return err
	case kindSent:
		var err error
		if g.numbers, _, err = decodeSent(g.numbers[:0], p, g.last); err == nil {
			g.done.AddMany(g.numbers)
		}
		return err
	case kindFinish:
		f, err := decodeFinish(p)
		if err != nil {
			return err
		}
		lost := g.verdict.lost(&f)
		var u unsure
		if g.open || g.lines.tail != nil {
			counts := !lost && f.flags&flagRobots == 0
			u = unsure{g.verdict.n, counts, f.number, f.link.URL.Key(), len(f.state) > 0}
		}
		if g.lines.tail != nil {
			g.lines.saw(&f, u)
		}
		switch {
		case f.number > g.last:
			return errRecord
		case f.flags&flagRobots != 0:
		case lost:
			g.repeated++
		default:
			g.states.saw(&f)
			if f.number > 0 { // 0 stands for a URL that was finished before
				g.done.Add(f.number)
			}
			if g.open && !f.dropped() {
				g.unsure = append(g.unsure, u)
			}
		}
		if !g.open {
			g.sure = g.verdict.n
		}
	case kindHeld:
		return g.held(p)
	}
	return nil
}

// held reads a mark about held-back links.
func (g *ledger) held(p []byte) error {
	if g.missing == nil {
		return nil
	}
	files, mark, err := decodeHeld(p)
	if err != nil {
		return err
	}
	g.open = true
	if !mark {
		return nil
	}
	g.open = len(files) > 0
	switch n := g.missing(files); {
	case n == 0:
		g.sure, g.unsure, g.gone = g.verdict.n, g.unsure[:0], 0
	case g.verdict.n == 0: // of a snapshot, which does not tell the single finishes
		g.gone = n
	}
	return nil
}

// close removes the finishes without a mark or without a line in crawl.log, and returns the verdict.
func (g *ledger) close() verdict {
	v := all()
	v.intact, v.sure = g.verdict.intact, g.sure
	if g.lines.tail != nil {
		if us := g.lines.lost(); len(us) > 0 {
			v.logged = us[0].nth - 1
			later := func(u unsure) bool { return u.nth > v.logged }
			g.unsure = append(slices.DeleteFunc(g.unsure, later), us...)
		}
	}
	for _, u := range g.unsure {
		if !u.counts {
			continue
		}
		g.repeated++
		g.done.Remove(u.number)
		if u.state {
			g.states.unsaw(u.key)
		}
	}
	g.unsure = nil
	return v
}

// label returns the label of a part: the kind of its records, K or P, and as uvarints the first
// and the last number of their accepts. Keys are in the order of the numbers, without a gap.
func label(kind byte, first, last uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint([]byte{kind}, first), last)
}

func parseLabel(b []byte) (kind byte, first, last uint64, err error) {
	if len(b) == 0 || b[0] != kindKeys && b[0] != kindPending {
		return 0, 0, 0, fmt.Errorf("%w: label %x of a part", errRecord, b)
	}
	first, n := binary.Uvarint(b[1:])
	m := 0
	if n > 0 {
		last, m = binary.Uvarint(b[1+n:])
	}
	if m <= 0 || 1+n+m != len(b) || first == 0 || last < first-1 || last > maxNumber {
		return 0, 0, 0, fmt.Errorf("%w: label %x of a part", errRecord, b)
	}
	return b[0], first, last, nil
}

func anyPart(journal.Part) bool { return true }

// appendPending appends the encoding of a pending link.
func appendPending(dst []byte, number uint64, link []byte) []byte {
	return append(binary.AppendUvarint(dst, number), link...)
}

// splitPending returns the number and the encoded link of a pending record.
func splitPending(p []byte) (number uint64, link []byte, err error) {
	number, n := binary.Uvarint(p)
	if n <= 0 || number == 0 {
		return 0, nil, errRecord
	}
	return number, p[n:], nil
}

// Sizes of parts, in bytes. They are variables so that tests have many parts.
var (
	// smallPart is the size below which a part of pending links is merged with its
	// neighbours.
	smallPart int64 = 16 << 20
	// largePart is the size at which a part is closed.
	largePart int64 = 256 << 20
)

// An assembly writes the parts of a checkpoint.
type assembly struct {
	*journal.Checkpoint
	w     *journal.PartWriter // the open part, of keys or of pending links; nil: none
	first uint64              // first number in w
	last  uint64
	keys  [3][]weburl.Key // own keys, foreign keys and done keys
	buf   []byte
	kept  *roaring64.Bitmap // numbers of the pending parts that were taken over
	bytes int64             // written so far
}

// pending adds a link, of kindPending or kindOutward.
func (a *assembly) pending(kind byte, number uint64, link []byte) error {
	if a.w == nil {
		w, err := a.NewPart()
		if err != nil {
			return err
		}
		a.w, a.first = w, number
	}
	a.last = number
	a.buf = appendPending(a.buf[:0], number, link)
	if err := a.w.Append(kind, a.buf); err != nil {
		return err
	}
	if a.w.Bytes() >= largePart {
		return a.endPending()
	}
	return nil
}

func (a *assembly) endPending() error {
	if a.w == nil {
		return nil
	}
	return a.end(label(kindPending, a.first, a.last))
}

func (a *assembly) end(label []byte) error {
	w := a.w
	a.w = nil
	err := w.Close(label)
	a.bytes += w.Bytes()
	return err
}

// abandon closes and drops a part that was not completed.
func (a *assembly) abandon() {
	if a.w != nil {
		a.w.Abandon()
		a.w = nil
	}
}

// key adds a key to the part of keys.
func (a *assembly) key(k weburl.Key, foreign bool) error {
	if foreign {
		return a.addKey(&a.keys[1], k)
	}
	return a.addKey(&a.keys[0], k)
}

// done adds the key of a finished URL.
func (a *assembly) done(k weburl.Key) error { return a.addKey(&a.keys[2], k) }

func (a *assembly) addKey(ks *[]weburl.Key, k weburl.Key) error {
	if *ks = append(*ks, k); len(*ks) == keysPiece {
		return a.flushKeys()
	}
	return nil
}

// keysPiece is the number of keys per record.
const keysPiece = 4096

func (a *assembly) flushKeys() error {
	for i, kind := range [...]byte{kindKeys, kindForeignKeys, kindDoneKeys} {
		if len(a.keys[i]) == 0 {
			continue
		}
		a.buf = appendKeys(a.buf[:0], a.keys[i])
		a.keys[i] = a.keys[i][:0]
		if err := a.keysRecord(kind, a.buf); err != nil {
			return err
		}
	}
	return nil
}

// keysRecord adds an encoded record of keys.
func (a *assembly) keysRecord(kind byte, p []byte) error {
	if a.w == nil {
		w, err := a.NewPart()
		if err != nil {
			return err
		}
		a.w = w
	}
	return a.w.Append(kind, p)
}

// endKeys completes the part of the keys up to the number last.
func (a *assembly) endKeys(last uint64) error {
	if err := a.flushKeys(); err != nil || a.w == nil {
		return err
	}
	return a.end(label(kindKeys, a.first, last))
}

// carryPending takes over the pending links of the snapshot before. It rewrites small parts,
// and parts whose links are mostly finished.
func (a *assembly) carryPending(parts []journal.Part, done *roaring64.Bitmap) error {
	for _, p := range parts {
		kind, first, last, err := parseLabel(p.Label)
		if err != nil {
			return err
		}
		if kind != kindPending {
			continue
		}
		left := p.Records - int64(done.Rank(last)-done.Rank(first-1))
		switch {
		case left <= 0:
			continue
		case 2*left > p.Records && p.Bytes >= smallPart:
			if err := a.endPending(); err != nil { // the order
				return err
			}
			a.Keep(p)
			a.kept.AddRange(first, last+1)
			continue
		}
		if err := a.ReplayPart(p, func(kind byte, p []byte) error {
			number, link, err := splitPending(p)
			if err != nil || done.Contains(number) {
				return err
			}
			return a.pending(kind, number, link)
		}); err != nil {
			return err
		}
	}
	return nil
}

// carryKeys takes over the keys of the snapshot before, and leaves a part open for the new
// keys, which take fresh bytes. It merges into that part the last parts that are together at
// most twice as large as the newer keys. So each key is rewritten only a few times, and there
// are few parts.
func (a *assembly) carryKeys(parts []journal.Part, fresh int64) error {
	var ks []journal.Part
	for _, p := range parts {
		if p.Label[0] == kindKeys {
			ks = append(ks, p)
		}
	}
	keep, sum := len(ks), fresh
	for keep > 0 && ks[keep-1].Bytes < largePart && ks[keep-1].Bytes <= 2*sum {
		keep--
		sum += ks[keep].Bytes
	}
	a.first = 1
	for _, p := range ks[:keep] {
		a.Keep(p)
		_, _, last, err := parseLabel(p.Label)
		if err != nil {
			return err
		}
		a.first = last + 1
	}
	for _, p := range ks[keep:] {
		if err := a.ReplayPart(p, a.keysRecord); err != nil {
			return err
		}
	}
	return nil
}

// acceptedKey returns the key of the link of an accept.
func acceptedKey(link []byte) (weburl.Key, error) {
	l, _, err := weburl.PeekLink(link)
	if err != nil {
		return weburl.Key{}, err
	}
	return l.URL.Key(), nil
}
