package ledger

import (
	"cmp"
	"errors"
	"slices"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// flushTries is more than the number of parts of the seen-set that may be damaged.
const flushTries = 100

// Range returns a range of the seen-set.
func (l *Ledger) Range(host uint64) (s keyset.Paths, err error) {
	for tries := 0; !l.run.Failed(); tries++ {
		s = keyset.Paths{}
		if err = l.seen.Range(host, func(list keyset.List) error { s.Add(list); return nil }); err == nil {
			break
		}
		if bad := l.repair(err); bad != nil || tries > 2 {
			return s, cmp.Or(bad, err)
		}
	}
	s.Order()
	return s, err
}

// EmptyRange reports that the seen-set has no key of a range.
func (l *Ledger) EmptyRange(host uint64) (empty bool, err error) {
	some := errors.New("some")
	err = l.seen.Range(host, func(keyset.List) error { return some })
	if err != nil && err != some {
		return false, l.repair(err)
	}
	return err == nil, nil
}

// Note adds keys to the seen-set whose records are in the journal.
func (l *Ledger) Note(keys []link.Key) error {
	if err := l.repair(l.seen.Note(keys)); err != nil {
		return err
	}
	return l.Append()
}

// A Ranged is a set of paths to add to a range of the seen-set.
type Ranged struct {
	Host uint64
	// Done reports that the range has finished URLs, see Keys.Finish.
	Done bool
	keyset.Paths
}

// kinds returns the kinds of the journal's records of whole and of truncated keys.
func (r *Ranged) kinds() (whole, truncated byte) {
	if r.Done {
		return state.DoneKeys, state.DoneList
	}
	return state.Keys, state.KeyList
}

// Learn adds keys to the seen-set, and then to the journal. So the seen-set has all truncated keys of the journal on
// disk.
func (l *Ledger) Learn(all []Ranged) error {
	narrow := false
	for i := range all {
		r := &all[i]
		for _, list := range r.Lists {
			if list.Width != keyset.WholeKey {
				narrow = true
			} else if err := l.learn(r, list.Paths); err != nil {
				return err
			}
		}
	}
	if !narrow || l.run.Failed() {
		return nil
	}
	if err := l.Append(); err != nil {
		return err
	}
	// Insert writes to disk at once, and names all runs.
	if err := l.endSync(true); err != nil || l.run.Failed() {
		return err
	}
	if err := l.insert(all); err != nil || l.run.Failed() {
		return err
	}
	for i := range all {
		r := &all[i]
		_, kind := r.kinds()
		for _, list := range r.Lists {
			if list.Width == keyset.WholeKey {
				continue
			}
			for part := range slices.Chunk(list.Paths, state.KeysPiece) {
				l.Add(kind, state.AppendList(nil, r.Host, keyset.List{Width: list.Width, Paths: part}))
			}
		}
		if err := l.AppendLarge(); err != nil {
			return err
		}
	}
	return l.Append()
}

// learn adds whole keys.
func (l *Ledger) learn(r *Ranged, paths []uint64) error {
	kind, _ := r.kinds()
	keys := make([]link.Key, 0, len(paths))
	for _, p := range paths {
		keys = append(keys, link.Key{Host: r.Host, Path: p})
	}
	for part := range slices.Chunk(keys, state.KeysPiece) {
		l.Add(kind, state.AppendKeys(nil, part))
	}
	if err := l.Append(); err != nil || l.run.Failed() {
		return err
	}
	return l.repair(l.seen.Note(keys))
}

// insert adds truncated keys.
func (l *Ledger) insert(all []Ranged) error {
	load := func(add func(uint64, keyset.List) error) error {
		for _, r := range all {
			for _, list := range r.Lists {
				if list.Width == keyset.WholeKey {
					continue
				}
				if err := add(r.Host, list); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := l.seen.Insert(load)
	for tries := 0; tries < flushTries; tries++ {
		if _, damage := errors.AsType[*drum.Damage](err); !damage {
			break
		}
		if err := l.repair(err); err != nil || l.run.Failed() {
			return err
		}
		err = l.seen.Insert(load)
	}
	return l.repair(err)
}
