package linklog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/orbweaver/orbweaver/internal/store/extsort"
)

// Visits choose, of several visits of a page, the newest one and the one with the links that count. They sort on disk,
// so their memory does not grow with their number.
type Visits struct {
	queue *extsort.Queue
	rec   []byte
}

// NewVisits returns no visits. The caller closes them.
func NewVisits(s extsort.Config) *Visits { return &Visits{queue: s.Queue("pages")} }

// Close deletes the temporary files.
func (v *Visits) Close() error { return v.queue.Close() }

// A record is a visit: 16 bytes hash of the URL, 8 bytes time in Unix milliseconds, 8 bytes number of the visit, all
// big-endian, 1 byte 1 if an earlier visit has its links. Therefore the visits of a page are next to each other, the
// newest last.
const visitBytes = 16 + 8 + 8 + 1

// Add adds a visit. The caller gives each visit a number; of two visits at the same time, the one with the higher
// number is newer. elsewhere says that another visit has the page's links.
func (v *Visits) Add(url string, at time.Time, number uint64, elsewhere bool) error {
	h := sha256.Sum256([]byte(url))
	v.rec = append(v.rec[:0], h[:16]...)
	v.rec = binary.BigEndian.AppendUint64(v.rec, uint64(max(at.UnixMilli(), 0)))
	v.rec = binary.BigEndian.AppendUint64(v.rec, number)
	if elsewhere {
		v.rec = append(v.rec, 1)
	} else {
		v.rec = append(v.rec, 0)
	}
	return v.queue.Push(v.rec)
}

// Current returns the numbers of the visits that have the newest status of their page, and of those that have its
// links: the newest without elsewhere. Then there are no visits left.
func (v *Visits) Current() (statuses, links *roaring64.Bitmap, err error) {
	statuses, links = roaring64.New(), roaring64.New()
	var page [16]byte
	var newest, linked uint64
	var any, hasLinks bool
	end := func() {
		if any {
			statuses.Add(newest)
		}
		if hasLinks {
			links.Add(linked)
		}
	}
	err = v.queue.Each(func(rec []byte) error {
		if len(rec) != visitBytes {
			return extsort.ErrDamaged
		}
		if !any || !bytes.Equal(page[:], rec[:16]) {
			end()
			page, any, hasLinks = [16]byte(rec), true, false
		}
		newest = binary.BigEndian.Uint64(rec[24:])
		if rec[32] == 0 {
			linked, hasLinks = newest, true
		}
		return nil
	})
	end()
	return statuses, links, err
}
