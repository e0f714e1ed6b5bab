package crawl

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
func (c *Crawler) bindSeen() error {
	if err := c.Seen.Bind(c.ledger.id); err != nil {
		return fmt.Errorf("state/seen does not belong to state/journal: %w; %s", err, mendSeen)
	}
	for _, d := range c.Seen.Lost() { // which the doubt knows of
		c.damaged(&d)
	}
	if err := c.rebuildSeen(); err != nil {
		return fmt.Errorf("seen: %w", err)
	}
	return nil
}

// checkSeen checks that the journal has what the seen-set has.
func (c *Crawler) checkSeen() error {
	if c.ledger.accepted >= c.Seen.Mark() {
		return nil
	}
	return fmt.Errorf("state/seen has the keys of %d accepted URLs, state/journal knows of %d: the journal is an "+
		"older copy; %s", c.Seen.Mark(), c.ledger.accepted, mendSeen)
}

// damaged reports a damaged part of the seen-set.
func (c *Crawler) damaged(d *drum.Damage) {
	c.Events.Write("seen-damaged", report.F("file", d.File), report.F("offset", d.Offset), report.F("error", d.Err))
}

// restoreSeen adds keys that the seen-set does not have on disk.
func (c *Crawler) restoreSeen(keys []link.Key) error {
	err := c.Seen.Restore(keys)
	for tries := 0; err != nil && tries < flushTries; tries++ {
		if _, damage := errors.AsType[*drum.Damage](err); !damage {
			break
		}
		if err = c.rebuildSeen(); err == nil {
			err = c.Seen.Restore(nil)
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
func (c *Crawler) rebuildSeen() error {
	repaired, err := c.Seen.Repair(func(yield func([]link.Key) error, add func(uint64, keyset.List) error) error {
		l := c.ledger
		_, err := journal.ReplayWithout(l.fs, l.dir, func(p journal.Part) bool { return p.Label[0] != state.Keys },
			table.Repair(&repair{keys: c.cluster.Keys(), yield: yield, add: add}))
		return err
	})
	for i := range repaired {
		c.damaged(&repaired[i])
	}
	return err
}

// restoreLists adds lists of keys in the journal to the seen-set.
func (c *Crawler) restoreLists(lists *state.Spool) error {
	if lists.Empty() {
		return nil
	}
	err := c.Seen.Insert(func(add func(uint64, keyset.List) error) error {
		return lists.Each(func(_ byte, _ uint64, p []byte) error {
			host, l, err := state.DecodeList(p)
			if err != nil {
				return err
			}
			return add(host, l)
		})
	})
	if err != nil {
		return fmt.Errorf("seen: %w", err)
	}
	c.append() // the batch that Accept has filled
	return c.fatal
}

// repair handles an error of the seen-set. If a part of the seen-set is damaged, it rebuilds the part from the journal
// and emits the new links again. It tries that three times. Any other error ends the run.
func (c *Crawler) repair(err error) {
	defer c.lostLinks()
	for tries := 0; err != nil; tries++ {
		if _, damage := errors.AsType[*drum.Damage](err); !damage || tries > 2 {
			c.fatal = fmt.Errorf("seen: %w", err)
			return
		}
		if c.append(); c.fatal != nil {
			return
		}
		// rebuildSeen writes the rebuilt part to disk at once. The seen-set must never be ahead of
		// the journal, so the journal is synced first. A sync in progress must end before, because
		// it names the seen-set's runs, too.
		if c.fatal = c.ledger.endSync(true); c.fatal != nil {
			return
		}
		if c.fatal = c.ledger.sync(); c.fatal != nil {
			return
		}
		if err = c.rebuildSeen(); err == nil {
			err = c.Seen.Emit()
		}
	}
}
