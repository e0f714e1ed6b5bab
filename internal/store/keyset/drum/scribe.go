package drum

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"
)

// A sheet is a full frame on its way to its file.
type sheet struct {
	buf    []byte // as frameWriter packed it
	gen    *generation
	part   *part
	at     frame
	synced int64 // of its part, when the sheet was given away
	err    error
	done   bool // written, or not to be; under the scribe's mu
}

// A scribe packs and writes frames beside the intake, in their order: a write
// may take as long as the disk needs for a sync of the same file. The Store
// learns of what was written when it takes the sheets back. It has a goroutine
// only while there is something to write.
type scribe struct {
	most int // sheets on their way

	// Owned by the Store.
	away      int      // sheets that were given and not taken back
	awayBytes int64    // memory of their frames
	free      [][]byte // memory for frames

	// mu guards what is below; changed tells that a sheet was written.
	mu      sync.Mutex
	changed sync.Cond
	todo    []*sheet
	done    []*sheet
	busy    bool
	err     error // the first one, after which nothing is written

	// Its goroutine's.
	packed []byte
	// What octets of items cost lately, in ns each: to pack, and, as they came,
	// to write; and what share of them packing saves. A page cache takes them
	// several times as fast as they are packed, a busy disk does not.
	packs, writes, saves float64
}

func newScribe(most int) *scribe {
	w := &scribe{most: most, packs: 2, writes: 8, saves: 0.5}
	w.changed.L = &w.mu
	return w
}

// bytes is what the frames take that are on their way, and those that wait to
// be used again. Memory for a packed one comes on top.
func (w *scribe) bytes() int64 {
	n := w.awayBytes
	for _, b := range w.free {
		n += int64(cap(b))
	}
	return n
}

// pays says that packing an octet takes less time than it saves.
func (w *scribe) pays() bool { return w.saves*w.writes > w.packs }

// give has a sheet written.
func (s *Store) give(sh *sheet) {
	w := s.scribe
	w.away++
	w.awayBytes += int64(cap(sh.buf))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.todo = append(w.todo, sh)
	if w.busy {
		return
	}
	w.busy = true
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		s.write()
	}()
}

// write writes sheets until none is left.
func (s *Store) write() {
	w := s.scribe
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.todo) > 0 {
		sh := w.todo[0]
		w.todo = w.todo[1:]
		err := w.err
		w.mu.Unlock()
		if err == nil {
			err = s.writeSheet(sh)
		}
		makeWay()
		w.mu.Lock()
		w.err, sh.err, sh.done = err, err, true
		w.done = append(w.done, sh)
		w.changed.Broadcast()
	}
	w.busy = false
}

// writeSheet writes one frame, packed if that takes less time than it saves.
func (s *Store) writeSheet(sh *sheet) error {
	w := s.scribe
	b := sh.buf
	raw := 0
	if items := b[frameHead:]; len(items) >= packFrom && w.pays() {
		if need := frameHead + s2.MaxEncodedLen(len(items)); cap(w.packed) < need {
			w.packed = make([]byte, need)
		}
		start := time.Now()
		out := s2.Encode(w.packed[frameHead:cap(w.packed)], items)
		lately(&w.packs, perByte(time.Since(start), len(items)))
		lately(&w.saves, max(0.1, 1-float64(len(out))/float64(len(items))))
		if len(out) < len(items) {
			raw = len(items)
			b = w.packed[:frameHead+len(out)]
		}
	}
	sealFrame(b, sh.at.n, raw, sh.synced)
	p := sh.part
	start := time.Now()
	n, err := p.file.Write(b)
	if len(b) >= packFrom {
		lately(&w.writes, perByte(time.Since(start), len(b)))
	}
	s.vol.written.Add(int64(n))
	sh.at.off, sh.at.size = p.tail, uint32(len(b))
	p.tail += int64(n)
	if err != nil {
		return fmt.Errorf("write held items: %w", err)
	}
	return nil
}

// perByte is what an octet took, in ns, as far as that is believed: 50 ms for
// which a sync holds one write up say little of the next ones.
func perByte(d time.Duration, bytes int) float64 {
	return min(float64(d.Nanoseconds())/float64(bytes), 50)
}

// lately moves an average towards a new value.
func lately(average *float64, v float64) { *average += (v - *average) / 32 }

// packFrom is the size of items from which they are packed.
const packFrom = 1 << 10

// take takes back what was written, and waits until at most so many sheets are
// on their way.
func (s *Store) take(most int) error {
	w := s.scribe
	for w.away > 0 {
		w.mu.Lock()
		for len(w.done) == 0 && w.away > most {
			w.changed.Wait()
		}
		done := w.done
		w.done = nil
		w.mu.Unlock()
		for _, sh := range done {
			if sh.err != nil {
				return sh.err
			}
			w.away--
			w.awayBytes -= int64(cap(sh.buf))
			p := sh.part
			p.size = sh.at.off + int64(sh.at.size)
			p.end, p.items = p.size, p.items+int64(sh.at.n)
			p.away--
			sh.gen.frames = append(sh.gen.frames, sh.at)
			w.free = append(w.free, sh.buf)
		}
		if w.away <= most {
			return nil
		}
	}
	return nil
}

// wait returns when a sheet is written, and with it all that were given before.
func (w *scribe) wait(sh *sheet) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !sh.done {
		w.changed.Wait()
	}
	return sh.err
}

// takeAll waits until all frames of a generation are written.
func (s *Store) takeAll(g *generation) error {
	for _, p := range g.parts {
		if p.away > 0 {
			return s.take(0)
		}
	}
	return nil
}

// unpackFrame returns the items of a frame: where they are packed in buf, which
// grows.
func unpackFrame(b []byte, buf *[]byte) ([]byte, error) {
	items := b[frameHead:]
	raw := int(binary.LittleEndian.Uint32(b[24:]))
	if raw == 0 {
		return items, nil
	}
	if n, err := s2.DecodedLen(items); err != nil || n != raw || raw > maxFrame {
		return nil, errFrame
	}
	if cap(*buf) < raw {
		*buf = make([]byte, raw)
	}
	items, err := s2.Decode((*buf)[:raw], items)
	if err != nil {
		return nil, errFrame
	}
	return items, nil
}
