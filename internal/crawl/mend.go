package crawl

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/store/keyset/drum"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// bindSeen checks that the seen-set belongs to this crawl and is complete. accepted is the
// number of URLs in the journal.
func (c *Crawler) bindSeen(accepted uint64) error {
	const mend = "restore the whole folder state, or delete state/seen: the program rebuilds it from the journal"
	if err := c.Seen.Bind(c.id); err != nil {
		return fmt.Errorf("state/seen does not belong to state/journal: %w; %s", err, mend)
	}
	if accepted < c.Seen.Mark() {
		return fmt.Errorf("state/seen has the keys of %d accepted URLs, state/journal knows of %d: the journal is an "+
			"older copy; %s", c.Seen.Mark(), accepted, mend)
	}
	for _, d := range c.Seen.Lost() { // which the ledger knows of
		c.damaged(&d)
	}
	if err := c.rebuildSeen(); err != nil {
		return fmt.Errorf("seen: %w", err)
	}
	return nil
}

// damaged reports a damaged part of the seen-set.
func (c *Crawler) damaged(d *drum.Damage) {
	c.Events.Write("seen-damaged", report.F("file", d.File), report.F("offset", d.Offset), report.F("error", d.Err))
}

// restoreSeen adds keys that the seen-set does not have on disk.
func (c *Crawler) restoreSeen(keys []weburl.Key) error {
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

// restoreAccepted adds the key of the present accept to the seen-set, unless it is there on disk.
func (c *Crawler) restoreAccepted(kind byte, p []byte) error {
	if c.accepted <= c.Seen.Mark() {
		return nil
	}
	k, ok, err := c.cluster.Keys().Accept(kind, c.accepted, p)
	if err != nil || !ok {
		return err
	}
	return c.restoreSeen([]weburl.Key{k})
}

// rebuildSeen rebuilds the damaged parts of the seen-set from the journal.
func (c *Crawler) rebuildSeen() error {
	repaired, err := c.Seen.Repair(func(yield func([]weburl.Key) error, list func(uint64, keyset.List) error) error {
		var keys []weburl.Key
		number := uint64(0)
		_, err := journal.ReplayWithout(c.fs, c.dir, func(p journal.Part) bool {
			kind, _, _, err := parseLabel(p.Label)
			return err == nil && kind != kindKeys
		}, func(kind byte, p []byte) error {
			keys = keys[:0]
			switch kind {
			case kindKeys, kindForeignKeys, kindDoneKeys:
				var err error
				if keys, err = decodeKeys(keys, p); err != nil {
					return err
				}
			case kindNumber:
				number, _ = binary.Uvarint(p)
				return nil
			case kindAccept, kindForeign, kindPassed:
				number++
				k, ok, err := c.cluster.Keys().Accept(kind, number, p)
				if err != nil || !ok {
					return err
				}
				keys = append(keys, k)
			case kindList:
				host, l, err := decodeList(p)
				if err != nil {
					return err
				}
				return list(host, l)
			case kindFinish:
				f, err := decodeFinish(p)
				if err != nil || f.flags&flagRobots != 0 {
					return err
				}
				k, ok := c.cluster.Keys().Finish(f.link.URL.Key())
				if !ok {
					return nil
				}
				keys = append(keys, k)
			default:
				return nil
			}
			return yield(keys)
		})
		return err
	})
	for i := range repaired {
		c.damaged(&repaired[i])
	}
	return err
}

// restoreLists adds the lists of keys in the journal to the seen-set. lists reports that it may lack them.
func (c *Crawler) restoreLists(lists bool) error {
	if !lists {
		return nil
	}
	err := c.Seen.Insert(func(add func(uint64, keyset.List) error) error {
		_, err := journal.ReplayWithout(c.fs, c.dir, func(p journal.Part) bool {
			kind, _, _, err := parseLabel(p.Label)
			return err == nil && kind != kindKeys
		}, func(kind byte, p []byte) error {
			if kind != kindList {
				return nil
			}
			host, l, err := decodeList(p)
			if err != nil {
				return err
			}
			return add(host, l)
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("seen: %w", err)
	}
	c.append() // the batch that Accept has filled
	return c.fatal
}
