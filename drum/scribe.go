package drum

import (
	"encoding/binary"
	"fmt"
	"sync"

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
	away int      // sheets that were given and not taken back
	free [][]byte // memory for frames

	// mu guards what is below; changed tells that a sheet was written.
	mu      sync.Mutex
	changed sync.Cond
	todo    []*sheet
	done    []*sheet
	busy    bool
	err     error // the first one, after which nothing is written
	packed  []byte
}

func newScribe(most int) *scribe {
	w := &scribe{most: most}
	w.changed.L = &w.mu
	return w
}

// give has a sheet written.
func (s *Store) give(sh *sheet) {
	w := s.scribe
	w.away++
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

// writeSheet writes one frame, packed if that makes it smaller.
func (s *Store) writeSheet(sh *sheet) error {
	w := s.scribe
	b := sh.buf
	raw := 0
	if items := b[frameHead:]; len(items) >= packFrom {
		if need := frameHead + s2.MaxEncodedLen(len(items)); cap(w.packed) < need {
			w.packed = make([]byte, need)
		}
		out := s2.Encode(w.packed[frameHead:cap(w.packed)], items)
		if len(out) < len(items)-len(items)/8 {
			raw = len(items)
			b = w.packed[:frameHead+len(out)]
		}
	}
	sealFrame(b, sh.at.n, raw, sh.synced)
	p := sh.part
	n, err := p.file.Write(b)
	s.vol.written.Add(int64(n))
	sh.at.off, sh.at.size = p.tail, uint32(len(b))
	p.tail += int64(n)
	if err != nil {
		return fmt.Errorf("write held items: %w", err)
	}
	return nil
}

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
