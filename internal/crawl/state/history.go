package state

import (
	"encoding/binary"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/store/journal"
)

// A History is what one pass over a journal tells about accepted and finished links. Its handlers read the records
// of their kinds; then EachIn and EachLater return the links that are not finished.
type History struct {
	Last   uint64            // number of the last accept so far
	Before uint64            // number of the last accept before the segments
	Done   *roaring64.Bitmap // numbers of finished links that may still be among the pending ones
	Later  *Spool            // the accepts since the snapshot, and what else the caller adds

	piece   Pieces
	numbers []uint64 // reused memory
}

// NewHistory returns a History with an empty Spool.
func NewHistory(later *Spool) *History { return &History{Done: roaring64.New(), Later: later} }

// Number reads a Number.
func (h *History) Number(_ byte, p []byte) error {
	n, w := binary.Uvarint(p)
	if w <= 0 || w != len(p) || n > MaxNumber {
		return ErrRecord
	}
	h.Last, h.Before = n, n
	return nil
}

// Runs reads a Done.
func (h *History) Runs(_ byte, p []byte) error {
	whole, err := h.piece.Add(p)
	if err == nil && whole != nil {
		h.Done, err = DecodeRuns(whole, h.Last)
	}
	return err
}

// Accept reads an Accept, an Outgoing or a Passed.
func (h *History) Accept(kind byte, p []byte) error {
	h.Last++
	left := Pending
	if kind != Accept {
		left = PendingOut
	}
	return h.Later.Add(left, h.Last, p)
}

// Ended reads a Sent.
func (h *History) Ended(_ byte, p []byte) error {
	_, _, err := h.CountEnded(p)
	return err
}

// CountEnded is Ended, and returns the number of the links.
func (h *History) CountEnded(p []byte) (n int64, returned bool, err error) {
	h.numbers, returned, err = DecodeSent(h.numbers[:0], p, h.Last)
	if err == nil {
		h.Done.AddMany(h.numbers)
	}
	return int64(len(h.numbers)), returned, err
}

// Finish notes the finish of the link with a number. 0 stands for a URL that was finished before.
func (h *History) Finish(number uint64) error {
	switch {
	case number > h.Last:
		return ErrRecord
	case number > 0:
		h.Done.Add(number)
	}
	return nil
}

// EachIn calls fn for each link in a part of pending links that is not finished: Pending or PendingOut. It ignores
// other parts.
func (h *History) EachIn(f *journal.Files, p journal.Part, fn func(kind byte, number uint64, link []byte) error) error {
	if p.Label[0] != Pending {
		return nil
	}
	return f.Part(p, func(kind byte, p []byte) error {
		number, link, err := SplitPending(p)
		if err != nil || h.Done.Contains(number) {
			return err
		}
		return fn(kind, number, link)
	})
}

// EachLater calls fn like EachIn for the accepts after the snapshot, and other for what else is in the Spool.
func (h *History) EachLater(fn, other func(kind byte, number uint64, p []byte) error) error {
	return h.Later.Each(func(kind byte, number uint64, p []byte) error {
		switch {
		case kind != Pending && kind != PendingOut:
			return other(kind, number, p)
		case h.Done.Contains(number):
			return nil
		}
		return fn(kind, number, p)
	})
}

// PartsOf returns the parts of a snapshot whose labels can be read.
func PartsOf(f *journal.Files) ([]journal.Part, error) {
	parts, err := f.Parts()
	for _, p := range parts {
		if _, _, _, bad := ParseLabel(p.Label); bad != nil && err == nil {
			err = bad
		}
	}
	return parts, err
}
