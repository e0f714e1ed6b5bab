package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/object"
)

// inFlight is how many packs are sent at once. Each has at most maxPack bytes.
const inFlight = 3

func sum(b []byte) digest { return sha256.Sum256(b) }

// Save sends a cut: pieces that the store lacks, the list, and the pointer. If nothing has changed since the newest
// image, that one is the result. If it returns an error, the newest image is the one before, or, if the store's answer
// to the last request was lost, this one. It ends the cut.
func (s *Saver) Save(ctx context.Context, c *Cut) (Saved, error) {
	v, err := s.save(ctx, c)
	if err = errors.Join(err, c.Close()); err != nil {
		err = fmt.Errorf("save the state: %w", err)
	}
	return v, err
}

func (s *Saver) save(ctx context.Context, c *Cut) (v Saved, err error) {
	if len(c.Note) > maxNote {
		return v, fmt.Errorf("a note of %d bytes, at most %d", len(c.Note), maxNote)
	}
	s.attempt++
	w := &writing{s: s, name: name{s.at.Generation, s.at.Claim, s.attempt}}
	l := &list{Format: format, Generation: s.at.Generation, Number: 1, Taken: c.Taken.UTC().Round(0), Note: c.Note}
	if s.at.Image != nil {
		l.Number = s.at.Image.Number + 1
	}
	files, err := w.run(ctx, c, l)
	for _, p := range w.sent { // a save after a failed one refers to them
		for _, q := range p.pieces {
			s.index[q.sum] = q
		}
		p.pieces = nil
	}
	if err != nil {
		return v, err
	}
	if s.newest != nil && l.same(s.newest) && !s.unsure {
		if err := s.asks(ctx); err != nil {
			return v, err
		}
		s.files = files
		return s.newest.saved(), nil
	}
	text, err := l.encode()
	if err != nil {
		return v, err
	}
	ref := imageRef{Number: l.Number, Key: w.name.list(), Bytes: int64(len(text)), Taken: l.Taken}
	d := sum(text)
	ref.SHA256 = hex.EncodeToString(d[:])
	s.garbage[ref.Key] = true
	if err := s.put(ctx, ref.Key, text); err != nil {
		return v, err
	}
	want := s.at.pointer
	want.Image, want.Previous = &ref, want.Image
	s.unsure = true
	if err := s.move(ctx, want); err != nil {
		return v, err
	}
	s.unsure = false
	previous := s.newest
	s.newest, s.files = l, files
	s.remember(l, previous)
	v = l.saved()
	v.Moved = w.bytes + ref.Bytes
	v.Removal = s.remove(ctx)
	return v, nil
}

// asks returns ErrFenced if another claim has the series. Unlike Holds, it waits for the store.
func (s *Saver) asks(ctx context.Context) error {
	b, err := s.place.Store.ReadAll(ctx, s.place.Prefix+pointerName, maxPointer)
	if err != nil {
		return err
	}
	now, err := parsePointer(b)
	if err == nil && now.Claim != s.at.Claim {
		s.hold.lose()
		err = ErrFenced
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.place.Store.Location(s.place.Prefix), err)
	}
	return nil
}

// same reports whether two images have the same files and the same note.
func (l *list) same(o *list) bool {
	return bytes.Equal(l.Note, o.Note) && slices.EqualFunc(l.Files, o.Files, func(a, b *listedFile) bool {
		return a.Name == b.Name && slices.Equal(a.pieces, b.pieces)
	})
}

// put writes an object that nobody else writes.
func (s *Saver) put(ctx context.Context, key string, b []byte) error {
	for n := 1; ; n++ {
		_, err := s.place.Store.Put(ctx, s.place.Prefix+key, bytes.NewReader(b), object.Condition{Mutable: true})
		if !errors.Is(err, object.ErrChanged) || n == tries { // else the store has lost or damaged it
			return err
		}
		if !clock.Pause(ctx, time.Duration(n)*100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// A writing sends the pieces of one image.
type writing struct {
	s    *Saver
	name name
	pace clock.Pace
	zip  *zstd.Encoder
	raw  []byte // a piece

	fresh map[digest]piece // pieces of this image that the store lacked
	now   *pack            // is being filled
	buf   []byte           // its content
	count int              // of packs

	sending *errgroup.Group
	mu      sync.Mutex // guards the two below
	sent    []*pack
	bytes   int64
}

// run fills the list.
func (w *writing) run(ctx context.Context, c *Cut, l *list) (map[string]*seen, error) {
	zip, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	defer zip.Close()
	w.zip, w.fresh = zip, map[digest]piece{}
	w.pace = clock.Pace{Clock: clock.Or(w.s.place.Clock), Share: w.s.conf.Share, Every: 1}
	sending, gctx := errgroup.WithContext(ctx)
	sending.SetLimit(inFlight)
	w.sending = sending
	files, err := w.files(gctx, c, l)
	if err == nil {
		w.flush(gctx)
	}
	if serr := sending.Wait(); serr != nil {
		err = serr // it has ended the context of the others
	}
	return files, err
}

// files adds the files to the list, and returns what is now known of them.
func (w *writing) files(ctx context.Context, c *Cut, l *list) (map[string]*seen, error) {
	files := map[string]*seen{}
	for _, f := range c.files {
		known := f.known
		if known == nil {
			pieces, err := w.pieces(ctx, f, w.s.files[f.name])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			known = &seen{own: true, size: f.size, pieces: pieces}
			if f.mod.Before(c.Taken.Add(-racy)) {
				known.mod = f.mod
			}
			if known.edges, err = edgesOf(f.from, f.size); err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			if err := f.close(); err != nil {
				return nil, err
			}
		}
		files[f.name] = known
		l.Files = append(l.Files, &listedFile{Name: f.name, Bytes: f.size, pieces: known.pieces})
		l.bytes += f.size
	}
	return files, nil
}

// pieces returns the pieces of a file, and sends those that the store lacks. old is nil or an earlier state of it.
func (w *writing) pieces(ctx context.Context, f *cutFile, old *seen) (v []piece, err error) {
	var off int64
	ends := map[int64]int64{} // by the offset of an old piece: how long it is
	if old != nil {
		var at int64
		for _, p := range old.pieces {
			ends[at] = p.bytes
			at += p.bytes
		}
		if f.how == Grows && old.own && f.size >= old.size {
			is, err := edgesOf(f.from, old.size)
			if err != nil {
				return nil, err
			}
			if is == old.edges {
				v = w.kept(old.pieces)
			}
			for _, p := range v {
				off += p.bytes
			}
		}
	}
	if w.raw == nil {
		w.raw = make([]byte, maxPiece)
	}
	for off < f.size {
		b := w.raw[:min(maxPiece, f.size-off)]
		if err := readAt(f.from, b, off); err != nil {
			return nil, err
		}
		p, ok := piece{}, false
		if n := ends[off]; n > 0 && n < int64(len(b)) {
			p, ok = w.known(sum(b[:n]))
		}
		if !ok {
			p = w.add(ctx, b)
		}
		v = append(v, p)
		off += p.bytes
		if err := w.pace.Rest(ctx); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// kept returns the first pieces of a file that has grown. Its last pieces are read again with what was appended if they
// are many: so that a file of many small additions does not consist of many small pieces.
func (w *writing) kept(pieces []piece) []piece {
	n := len(pieces)
	for n > 0 && pieces[n-1].bytes < maxPiece {
		n--
	}
	if len(pieces)-n < maxTail {
		n = len(pieces)
	}
	for i, p := range pieces[:n] {
		if _, ok := w.s.index[p.sum]; !ok {
			n = i // its pack is to go
			break
		}
	}
	return slices.Clone(pieces[:n])
}

// maxTail bounds the pieces at the end of a file that are not full.
const maxTail = 16

// known returns the piece that has a checksum.
func (w *writing) known(d digest) (piece, bool) {
	p, ok := w.s.index[d]
	if !ok {
		p, ok = w.fresh[d]
	}
	return p, ok
}

// add returns the piece with the content b.
func (w *writing) add(ctx context.Context, b []byte) piece {
	d := sum(b)
	if p, ok := w.known(d); ok {
		return p
	}
	if w.now == nil {
		w.count++
		w.now = &pack{key: w.name.pack(w.count)}
		w.buf = make([]byte, 0, maxPack)
	}
	p := piece{sum: d, bytes: int64(len(b)), pack: w.now, at: int64(len(w.buf)), zstd: true}
	w.buf = w.zip.EncodeAll(b, w.buf)
	if p.stored = int64(len(w.buf)) - p.at; p.stored > p.bytes*9/10 { // it does not pay to unpack it
		w.buf = append(w.buf[:p.at], b...)
		p.stored, p.zstd = p.bytes, false
	}
	w.now.pieces = append(w.now.pieces, p)
	w.fresh[d] = p
	if len(w.buf) >= fullPack {
		w.flush(ctx)
	}
	return p
}

// flush sends the pack that is being filled.
func (w *writing) flush(ctx context.Context) {
	p, b := w.now, w.buf
	if p == nil {
		return
	}
	p.bytes = int64(len(b))
	w.now, w.buf = nil, nil
	w.s.garbage[p.key] = true // until an image needs it
	w.sending.Go(func() error {
		if err := w.s.put(ctx, p.key, b); err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sent = append(w.sent, p)
		w.bytes += p.bytes
		return nil
	})
}
