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
			case kindAccept, kindForeign, kindPassed, kindInherited:
				number++
				k, ok, err := ownedKey(kind, p, number, c.tenants.handed)
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
				if c.Tenancy == nil {
					return nil
				}
				f, err := decodeFinish(p)
				if err != nil || f.flags&flagRobots != 0 {
					return err
				}
				keys = append(keys, doneKey(f.link.URL.Key()))
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
