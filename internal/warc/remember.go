package warc

import (
	"encoding/binary"
	"slices"
	"time"
)

// RememberRecord restores one payload that EachRemembered reported: Write then archives a payload with this digest of
// its body (Written.BodyDigest) as a revisit of the record o. Safe for concurrent use.
func (w *Writer) RememberRecord(digest [20]byte, o Original) { w.table.add(&digest, o) }

// Remembered returns how many payloads the Writer would recognize, and the memory that their table takes, in bytes. A
// payload may count twice. Safe for concurrent use.
func (w *Writer) Remembered() (n int, bytes int64) {
	r := w.table
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range []*generation{&r.old, &r.young} {
		n += g.count
		bytes += int64(g.bytes) + int64(8*len(g.slots))
	}
	return n, bytes
}

// EachRemembered calls fn for every payload that the Writer would recognize, so that a crawl can save them for its
// next run. The least recently seen come first; some come twice. It stops at the first error of fn and returns it.
// Other goroutines may write meanwhile; payloads that they add may be missing.
func (w *Writer) EachRemembered(fn func(digest [20]byte, o Original) error) error {
	r := w.table
	r.mu.Lock()
	// Entries are only appended, so the bytes before the current end do not change.
	pieces := slices.Concat(r.old.pieces, r.young.pieces)
	r.mu.Unlock()
	for _, mem := range pieces {
		for len(mem) >= revisitHead {
			n := revisitHead + int(binary.LittleEndian.Uint16(mem[revisitHead-2:]))
			o := Original{
				Date: time.UnixMilli(int64(binary.LittleEndian.Uint64(mem[36:]))),
				ID:   [16]byte(mem[20:36]),
			}
			o.SetPlace(string(mem[revisitHead:n]))
			if err := fn([20]byte(mem[:20]), o); err != nil {
				return err
			}
			mem = mem[n:]
		}
	}
	return nil
}
