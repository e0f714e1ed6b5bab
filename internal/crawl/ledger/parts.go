package ledger

import (
	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// donePiece bounds a record of finished numbers. It is in memory several times while it is written or read.
const donePiece = 256 << 10

// Sizes of parts, in bytes. They are variables so that tests have many parts.
var (
	// SmallPart is the size below which a part of pending links is merged with its
	// neighbours.
	SmallPart int64 = 16 << 20
	// LargePart is the size at which a part is closed.
	LargePart int64 = 256 << 20
)

// An assembly writes the parts of a checkpoint.
type assembly struct {
	*journal.Checkpoint
	w     *journal.PartWriter // the open part, of keys or of pending links; nil: none
	first uint64              // first number in w
	last  uint64
	keys  [3][]link.Key // own keys, foreign keys and done keys
	buf   []byte
	kept  *roaring64.Bitmap // numbers of the pending parts that were taken over
	bytes int64             // written so far
}

// pending adds a link, of state.Pending or state.PendingOut.
func (a *assembly) pending(kind byte, number uint64, link []byte) error {
	if a.w == nil {
		w, err := a.NewPart()
		if err != nil {
			return err
		}
		a.w, a.first = w, number
	}
	a.last = number
	a.buf = state.AppendPending(a.buf[:0], number, link)
	if err := a.w.Append(kind, a.buf); err != nil {
		return err
	}
	if a.w.Bytes() >= LargePart {
		return a.endPending()
	}
	return nil
}

func (a *assembly) endPending() error {
	if a.w == nil {
		return nil
	}
	return a.end(state.Label(state.Pending, a.first, a.last))
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
func (a *assembly) key(k link.Key, foreign bool) error {
	if foreign {
		return a.addKey(&a.keys[1], k)
	}
	return a.addKey(&a.keys[0], k)
}

// done adds the key of a finished URL.
func (a *assembly) done(k link.Key) error { return a.addKey(&a.keys[2], k) }

func (a *assembly) addKey(ks *[]link.Key, k link.Key) error {
	if *ks = append(*ks, k); len(*ks) == state.KeysPiece {
		return a.flushKeys()
	}
	return nil
}

func (a *assembly) flushKeys() error {
	for i, kind := range [...]byte{state.Keys, state.OutgoingKeys, state.DoneKeys} {
		if len(a.keys[i]) == 0 {
			continue
		}
		a.buf = state.AppendKeys(a.buf[:0], a.keys[i])
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
	return a.end(state.Label(state.Keys, a.first, last))
}

// carryPending takes over the pending links of a part of the snapshot before. It rewrites a small part,
// and one whose links are mostly finished.
func (a *assembly) carryPending(f *journal.Files, p journal.Part, h *state.History) error {
	kind, first, last, err := state.ParseLabel(p.Label)
	if err != nil || kind != state.Pending {
		return err
	}
	left := p.Records - int64(h.Done.Rank(last)-h.Done.Rank(first-1))
	switch {
	case left <= 0:
		return nil
	case 2*left > p.Records && p.Bytes >= SmallPart:
		if err := a.endPending(); err != nil { // the order
			return err
		}
		a.Keep(p)
		a.kept.AddRange(first, last+1)
		return nil
	}
	return h.EachIn(f, p, a.pending)
}

// carryKeys takes over the keys of the snapshot before, and leaves a part open for the new
// keys, which take fresh bytes. It merges into that part the last parts that are together at
// most twice as large as the newer keys. So each key is rewritten only a few times, and there
// are few parts.
func (a *assembly) carryKeys(f *journal.Files, parts []journal.Part, fresh int64) error {
	var ks []journal.Part
	for _, p := range parts {
		if p.Label[0] == state.Keys {
			ks = append(ks, p)
		}
	}
	keep, sum := len(ks), fresh
	for keep > 0 && ks[keep-1].Bytes < LargePart && ks[keep-1].Bytes <= 2*sum {
		keep--
		sum += ks[keep].Bytes
	}
	a.first = 1
	for _, p := range ks[:keep] {
		a.Keep(p)
		_, _, last, err := state.ParseLabel(p.Label)
		if err != nil {
			return err
		}
		a.first = last + 1
	}
	for _, p := range ks[keep:] {
		if err := f.Part(p, a.keysRecord); err != nil {
			return err
		}
	}
	return nil
}
