package ledger

import (
	"errors"

	"github.com/orbweaver/orbweaver/internal/crawl/state"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// A Transfer reads the whole state of this agent's hosts from the journal, while the crawl continues. One
// goroutine, which need not be the dispatcher, calls Pending, then Finished, then Close.
type Transfer struct {
	*state.History              // its methods are handlers of the table
	done           *state.Spool // keys of finished URLs, and the states of a Planner
	states         lastStates
	ledger         *Ledger // only what never changes; Release is the exception
	keys           Keys
	files          *journal.Checkpoint
	read           *journal.Files
	parts          []journal.Part
	rests          func(frontier.HostState) error
}

// Transfer returns the journal's files as they are now. No checkpoint can replace them before the dispatcher has called
// Release. It returns nil if a checkpoint or another Transfer is in progress, or if the run is to
// stop or has failed.
func (l *Ledger) Transfer() (*Transfer, error) {
	if l.reading || l.checkpoint != nil || l.run.Halted() {
		return nil, nil
	}
	if err := l.endSync(true); err != nil {
		return nil, err
	}
	if err := l.sync(); err != nil || l.run.Failed() {
		return nil, err
	}
	files, err := l.journal.Begin()
	if err != nil {
		return nil, err
	}
	l.reading = true
	return &Transfer{History: state.NewHistory(l.spool(0)), done: l.spool(1),
		states: newLastStates(l.cfg.Planned), ledger: l, keys: l.Keys().Freeze(), files: files}, nil
}

// Release ends the use of the files. Only the dispatcher calls it, after Close.
func (t *Transfer) Release() { t.ledger.reading = false }

// Close closes the files.
func (t *Transfer) Close() error {
	t.files.Abandon()
	return errors.Join(t.Later.Close(), t.done.Close())
}

// Pending passes on the pending links of this agent, and how long hosts must rest. Arguments are valid
// until the function returns.
func (t *Transfer) Pending(link func(number uint64, enc []byte) error, rests func(frontier.HostState) error) error {
	files, err := t.files.Files()
	if err != nil {
		return err
	}
	if t.parts, err = state.PartsOf(files); err != nil {
		return err
	}
	t.read = files
	t.rests = rests
	one := t.ledger.ownOnly(table.Transfer(t))
	if err := files.Snapshot(one); err != nil {
		return err
	}
	if err := files.Segments(func(_ bool, kind byte, p []byte) error { return one(kind, p) }); err != nil {
		return err
	}
	own := func(kind byte, number uint64, enc []byte) error {
		if kind != state.Pending {
			return nil
		}
		return link(number, enc)
	}
	for _, p := range t.parts {
		if err := t.EachIn(files, p, own); err != nil {
			return err
		}
	}
	return t.EachLater(own, nil)
}

// Finished passes on the keys that stand for the finishes of URLs, see Keys, and the last state of each
// URL of which a Planner has one. Arguments are valid until the function returns.
func (t *Transfer) Finished(done func(host uint64, l keyset.List) error,
	planned func(l link.Link, planned []byte) error) error {
	whole := keyset.List{Width: keyset.WholeKey}
	each := func(kind byte, p []byte) error {
		switch kind {
		case state.DoneKeys:
			keys, err := state.DecodeKeys(nil, p)
			for i, k := range keys {
				whole.Paths = append(whole.Paths, k.Path)
				if err == nil && (i+1 == len(keys) || keys[i+1].Host != k.Host) {
					err = done(k.Host, whole)
					whole.Paths = whole.Paths[:0]
				}
			}
			return err
		case state.DoneList:
			host, l, err := state.DecodeList(p)
			if err == nil {
				err = done(host, l)
			}
			return err
		}
		return nil
	}
	for _, p := range t.parts {
		if p.Label[0] != state.Keys {
			continue
		}
		if err := t.read.Part(p, each); err != nil {
			return err
		}
	}
	return t.done.Each(func(kind byte, number uint64, p []byte) error {
		if kind == state.DoneKeys || kind == state.DoneList {
			return each(kind, p)
		}
		l, s, err := t.states.last(kind, number, p)
		if err != nil || s == nil {
			return err
		}
		return planned(l, s)
	})
}

func (t *Transfer) visited(kind byte, p []byte) error {
	if t.states == nil {
		return nil
	}
	return t.done.Add(kind, inSnapshot, p)
}

func (t *Transfer) told(_ byte, p []byte) error { return t.states.addTold(t.done, p) }

func (t *Transfer) again(_ byte, p []byte) error {
	l, _, err := link.Peek(p)
	if err != nil {
		return err
	}
	return t.states.addAgain(t.done, l)
}

func (t *Transfer) doneKeys(kind byte, p []byte) error { return t.done.Add(kind, 0, p) }

func (t *Transfer) host(_ byte, p []byte) error {
	st, err := frontier.DecodeHostState(p)
	if err != nil {
		return err
	}
	return t.rests(st)
}

func (t *Transfer) finish(_ byte, p []byte) error {
	f, err := state.DecodeFinish(p)
	if err != nil || f.IsRobots() || f.Imported() {
		return err
	}
	if err := t.Finish(f.Number); err != nil {
		return err
	}
	done, ok := t.keys.Finish(f.Link.Key())
	if !ok {
		return nil
	}
	if err := t.done.Add(state.DoneKeys, 0, state.AppendKeys(nil, []link.Key{done})); err != nil {
		return err
	}
	return t.states.add(t.done, &f)
}
