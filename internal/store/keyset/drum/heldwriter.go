package drum

import (
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"
)

// A pendingFrame is a full frame that is not yet written.
type pendingFrame struct {
	buf    []byte // as frameWriter encoded it
	gen    *generation
	part   *part
	at     frame
	synced int64 // durable bytes of its part when the frame was handed over
	err    error
	done   bool // written or failed; guarded by the held writer's mu
}

// A heldWriter compresses and writes frames in a goroutine beside the intake, in order. A write may have to wait for a
// sync of the same file. The Store learns the positions of the frames when it collects them. The goroutine exists only
// while there is something to write.
type heldWriter struct {
	most int // limit of frames that are not yet collected

	// Owned by the Store.
	pending      int      // frames handed over and not yet collected
	pendingBytes int64    // memory of these frames
	free         [][]byte // memory to reuse for frames

	// mu guards the fields below, up to err. changed is signalled when a frame was written.
	mu      sync.Mutex
	changed sync.Cond
	todo    []*pendingFrame
	done    []*pendingFrame
	busy    bool
	err     error // the first error; after it nothing is written

	// Owned by the goroutine.
	packed []byte
	// Recent averages: the time in ns to compress a byte, the time in ns to write a byte, and the share of bytes that
	// compression saves. The page cache takes bytes several times as fast as they are compressed. A busy disk does not.
	packs, writes, saves float64
}

func newHeldWriter(most int) *heldWriter {
	w := &heldWriter{most: most, packs: 2, writes: 8, saves: 0.5}
	w.changed.L = &w.mu
	return w
}

// bytes returns the memory of pending and reusable frames. The buffer for a compressed frame is not included.
func (w *heldWriter) bytes() int64 {
	n := w.pendingBytes
	for _, b := range w.free {
		n += int64(cap(b))
	}
	return n
}

// packingPays reports whether compressing a byte takes less time than it saves.
func (w *heldWriter) packingPays() bool { return w.saves*w.writes > w.packs }

// enqueueFrame hands a frame over for writing.
func (s *Store) enqueueFrame(sh *pendingFrame) {
	w := s.heldWriter
	w.pending++
	w.pendingBytes += int64(cap(sh.buf))
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

// write writes frames until none is left.
func (s *Store) write() {
	w := s.heldWriter
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.todo) > 0 {
		sh := w.todo[0]
		w.todo = w.todo[1:]
		err := w.err
		w.mu.Unlock()
		if err == nil {
			err = s.writePending(sh)
		}
		yieldCPU()
		w.mu.Lock()
		w.err, sh.err, sh.done = err, err, true
		w.done = append(w.done, sh)
		w.changed.Broadcast()
	}
	w.busy = false
}

// writePending writes one frame, compressed if that takes less time than it saves.
func (s *Store) writePending(sh *pendingFrame) error {
	w := s.heldWriter
	b := sh.buf
	raw := 0
	if items := b[frameHead:]; len(items) >= packFrom && w.packingPays() {
		if need := frameHead + s2.MaxEncodedLen(len(items)); cap(w.packed) < need {
			w.packed = make([]byte, need)
		}
		start := time.Now()
		out := s2.Encode(w.packed[frameHead:cap(w.packed)], items)
		moveAverage(&w.packs, perByte(time.Since(start), len(items)))
		moveAverage(&w.saves, max(0.1, 1-float64(len(out))/float64(len(items))))
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
		moveAverage(&w.writes, perByte(time.Since(start), len(b)))
	}
	s.vol.written.Add(int64(n))
	sh.at.off, sh.at.size = p.tail, uint32(len(b))
	p.tail += int64(n)
	if err != nil {
		return fmt.Errorf("write held items: %w", err)
	}
	return nil
}

// perByte returns the time per byte in ns, at most 50. If a sync delays a write by 50 ms, that says little about the
// next writes.
func perByte(d time.Duration, bytes int) float64 {
	return min(float64(d.Nanoseconds())/float64(bytes), 50)
}

// moveAverage updates a moving average with a new value.
func moveAverage(average *float64, v float64) { *average += (v - *average) / 32 }

// packFrom is the minimum size in bytes of the items of a frame that is compressed.
const packFrom = 1 << 10

// collectFrames collects the written frames. It waits until at most this many frames are pending.
func (s *Store) collectFrames(most int) error {
	w := s.heldWriter
	for w.pending > 0 {
		w.mu.Lock()
		for len(w.done) == 0 && w.pending > most {
			w.changed.Wait()
		}
		done := w.done
		w.done = nil
		w.mu.Unlock()
		for _, sh := range done {
			if sh.err != nil {
				return sh.err
			}
			w.pending--
			w.pendingBytes -= int64(cap(sh.buf))
			p := sh.part
			p.size = sh.at.off + int64(sh.at.size)
			p.end, p.items = p.size, p.items+int64(sh.at.n)
			p.pending--
			sh.gen.frames = append(sh.gen.frames, sh.at)
			w.free = append(w.free, sh.buf)
		}
		if w.pending <= most {
			return nil
		}
	}
	return nil
}

// wait blocks until frame sh, and thus every earlier frame, is written.
func (w *heldWriter) wait(sh *pendingFrame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !sh.done {
		w.changed.Wait()
	}
	return sh.err
}

// collectAll waits until all frames of generation g are written.
func (s *Store) collectAll(g *generation) error {
	for _, p := range g.parts {
		if p.pending > 0 {
			return s.collectFrames(0)
		}
	}
	return nil
}

// unpackFrame returns the items of frame b. If they are packed, it unpacks them into buf, which it enlarges as needed.
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
