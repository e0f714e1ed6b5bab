package warc

import (
	"encoding/binary"
	"slices"
	"time"
)

// RememberRecord is Remember for what EachRemembered gave.
func (w *Writer) RememberRecord(digest [20]byte, o Original) { w.table.add(&digest, o) }

// EachRemembered shows the payloads that the Writer would recognize, those met
// longest ago first and some of them twice, until fn fails: what a crawl keeps
// for its next run. Writes go on meanwhile; what they add may be missing.
func (w *Writer) EachRemembered(fn func(digest [20]byte, o Original) error) error {
	r := w.table
	r.mu.Lock()
	// Entries are only appended, so what lies before the end stays as it is.
	pieces := slices.Concat(r.old.pieces, r.young.pieces)
	r.mu.Unlock()
	for _, mem := range pieces {
		for len(mem) >= revisitHead {
			n := revisitHead + int(binary.LittleEndian.Uint16(mem[revisitHead-2:]))
			o := Original{
				URL:  string(mem[revisitHead:n]),
				Date: time.UnixMilli(int64(binary.LittleEndian.Uint64(mem[36:]))),
				ID:   [16]byte(mem[20:36]),
			}
			if err := fn([20]byte(mem[:20]), o); err != nil {
				return err
			}
			mem = mem[n:]
		}
	}
	return nil
}
