package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

const mendSeen = "restore the whole folder state, or delete state/seen: the program rebuilds it from the journal"

// bindSeen checks that the seen-set belongs to this crawl, and mends it.
func (l *Ledger) bindSeen() error {
	if err := l.seen.Bind(l.id); err != nil {
		return fmt.Errorf("state/seen does not belong to state/journal: %w; %s", err, mendSeen)
	}
	for _, d := range l.seen.Lost() { // which the doubt knows of
		l.damaged(&d)
	}
	if err := l.rebuildSeen(); err != nil {
		return fmt.Errorf("seen: %w", err)
	}
	return nil
}

// checkSeen checks that the journal has what the seen-set has.
func (l *Ledger) checkSeen() error {
	if l.accepted >= l.seen.Mark() {
		return nil
	}
	return fmt.Errorf("state/seen has the keys of %d accepted URLs, state/journal knows of %d: the journal is an "+
		"older copy; %s", l.seen.Mark(), l.accepted, mendSeen)
}

// damaged reports a damaged part of the seen-set.
func (l *Ledger) damaged(d *drum.Damage) {
	l.events.Write("seen-damaged", report.F("file", d.File), report.F("offset", d.Offset), report.F("error", d.Err))
}

// restoreSeen handles the error of adding keys to the seen-set, which accepts nothing yet. If a part of it is damaged,
// restoreSeen rebuilds the part from the journal, and calls again.
func (l *Ledger) restoreSeen(err error, again func() error) error {
	for tries := 0; err != nil && tries < flushTries; tries++ {
		if _, damage := errors.AsType[*drum.Damage](err); !damage {
			break
		}
		if err = l.rebuildSeen(); err == nil {
			err = again()
		}
	}
	if err != nil {
		return fmt.Errorf("seen: %w", err)
	}
	return nil
}

// A repair passes all keys in the journal to the seen-set.
type repair struct {
	keys   Keys
	number uint64 // of the last accept
	yield  func([]link.Key) error
	add    func(host uint64, l keyset.List) error
	buf    []link.Key
}

func (r *repair) last(_ byte, p []byte) error {
	r.number, _ = binary.Uvarint(p)
	return nil
}

func (r *repair) key(_ byte, p []byte) (err error) {
	if r.buf, err = state.DecodeKeys(r.buf[:0], p); err != nil {
		return err
	}
	return r.yield(r.buf)
}

func (r *repair) list(_ byte, p []byte) error {
	host, l, err := state.DecodeList(p)
	if err != nil {
		return err
	}
	return r.add(host, l)
}

func (r *repair) accept(kind byte, p []byte) error {
	r.number++
	k, ok, err := r.keys.Accept(kind, r.number, p)
	if err != nil || !ok {
		return err
	}
	return r.yield(append(r.buf[:0], k))
}

func (r *repair) finish(_ byte, p []byte) error {
	if _, ok := r.keys.Finish(link.Key{}); !ok {
		return nil
	}
	f, err := state.DecodeFinish(p)
	if err != nil || f.IsRobots() {
		return err
	}
	return r.yield(finishKeys(r.buf[:0], r.keys, &f))
}

// rebuildSeen rebuilds the damaged parts of the seen-set from the journal.
func (l *Ledger) rebuildSeen() error {
	repaired, err := l.seen.Repair(func(yield func([]link.Key) error, add func(uint64, keyset.List) error) error {
		_, err := journal.ReplayWithout(l.fs, l.dir, func(p journal.Part) bool { return p.Label[0] != state.Keys },
			l.ownOnly(table.Repair(&repair{keys: l.Keys(), yield: yield, add: add})))
		return err
	})
	for i := range repaired {
		l.damaged(&repaired[i])
	}
	return err
}

// restoreLists adds lists of keys in the journal to the seen-set, which accepts nothing yet: links that it holds back
// since an earlier run wait until this run offers links or asks for them.
func (l *Ledger) restoreLists(lists *state.Spool) error {
	if lists.Empty() {
		return nil
	}
	insert := func() error {
		return l.seen.Insert(func(add func(uint64, keyset.List) error) error {
			return lists.Each(func(_ byte, _ uint64, p []byte) error {
				host, keys, err := state.DecodeList(p)
				if err != nil {
					return err
				}
				return add(host, keys)
			})
		})
	}
	return l.restoreSeen(insert(), insert)
}

// repair handles an error of the seen-set. If a part of the seen-set is damaged, it rebuilds the part from the journal
// and emits the new links again. It tries that three times. It returns any other error. If the run has failed, it only
// reports lost links.
func (l *Ledger) repair(err error) error {
	defer l.lostLinks()
	if l.run.Failed() {
		return nil
	}
	for tries := 0; err != nil; tries++ {
		if _, damage := errors.AsType[*drum.Damage](err); !damage || tries > 2 {
			return fmt.Errorf("seen: %w", err)
		}
		if err := l.Append(); err != nil {
			return err
		}
		// rebuildSeen writes the rebuilt part to disk at once. The seen-set must never be ahead of
		// the journal, so the journal is synced first. A sync in progress must end before, because
		// it names the seen-set's runs, too.
		if err := l.endSync(true); err != nil {
			return err
		}
		if err := l.sync(); err != nil {
			return err
		}
		if err = l.rebuildSeen(); err == nil {
			err = l.seen.Emit()
		}
	}
	return nil
}
