package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/store/object"
)

// A Saver saves images under a claim. One goroutine at a time calls Take, Save and Release.
type Saver struct {
	place   Place
	conf    Config
	hold    *Hold
	settled time.Time // when the holder before has stopped for certain; zero: it has
	at      stamped   // the pointer as this claim has written it last

	attempt int64
	newest  *list            // nil: none
	needed  map[string]bool  // the keys of the two newest images, below the prefix
	index   map[digest]piece // the pieces that the next image may refer to
	garbage map[string]bool  // keys that are to be deleted as soon as they are not needed
	files   map[string]*seen
	taken   bool // a Cut is open
	swept   bool // what other claims have left was looked for
	unsure  bool // the pointer may name an image that is newer than newest
}

// A digest is a SHA-256.
type digest [sha256.Size]byte

func newSaver(p Place, c Config, at stamped) *Saver {
	return &Saver{place: p, conf: c, at: at, needed: map[string]bool{},
		index: map[digest]piece{}, files: map[string]*seen{}, garbage: map[string]bool{},
		hold: &Hold{place: p, run: at.Run, claim: at.Claim, lease: c.lease()}}
}

// Hold returns the claim. Any goroutine may ask it.
func (s *Saver) Hold() *Hold { return s.hold }

// Image describes the newest image, which Restore would bring. ok is false if there is none.
func (s *Saver) Image() (v Saved, ok bool) {
	if s.newest == nil {
		return v, false
	}
	return s.newest.saved(), true
}

// Await blocks until no earlier holder can fetch any more, and says so in the store: a Join of this run need not wait
// again. It returns the error of Holds if this claim is lost.
func (s *Saver) Await(ctx context.Context) error {
	for {
		if err := s.hold.Holds(ctx); err != nil {
			return err
		}
		left := s.settled.Sub(s.place.now())
		if s.settled.IsZero() || left <= 0 && s.at.Settled {
			return nil
		}
		if left <= 0 {
			return s.move(ctx, s.at.pointer)
		}
		if !clock.Pause(ctx, min(left, s.conf.lease()/6)) {
			return ctx.Err()
		}
	}
}

// Waits returns how long Await would block now.
func (s *Saver) Waits() time.Duration {
	if s.settled.IsZero() {
		return 0
	}
	return max(0, s.settled.Sub(s.place.now()))
}

// load reads the lists of the two newest images. The one before the newest need not be whole: nobody needs it any more.
func (s *Saver) load(ctx context.Context) error {
	var previous *list
	if r := s.at.Previous; r != nil {
		if l, _, err := s.place.readList(ctx, *r); err == nil {
			previous = l
		} else if !errors.Is(err, ErrDamaged) && !errors.Is(err, object.ErrNotFound) {
			return err
		}
	}
	if r := s.at.Image; r != nil {
		l, _, err := s.place.readList(ctx, *r)
		if err != nil {
			return err
		}
		s.newest = l
		for _, f := range l.Files {
			s.files[f.Name] = &seen{pieces: f.pieces}
		}
	}
	s.remember(s.newest, previous)
	return nil
}

// remember makes the pieces of the two newest images known.
func (s *Saver) remember(newest, previous *list) {
	clear(s.needed)
	for _, r := range []*imageRef{s.at.Image, s.at.Previous} {
		if r != nil {
			s.needed[r.Key] = true
		}
	}
	clear(s.index)
	packs := map[string]*pack{} // two lists that were read have two values for one pack
	for _, l := range []*list{newest, previous} {
		if l == nil {
			continue
		}
		for _, p := range l.packs {
			s.needed[p.key] = true
			if packs[p.key] == nil {
				packs[p.key] = p
			}
		}
		for _, f := range l.Files {
			for _, p := range f.pieces {
				if _, ok := s.index[p.sum]; !ok {
					p.pack = packs[p.pack.key]
					s.index[p.sum] = p
				}
			}
		}
	}
	s.condemn(newest)
}

// move replaces the pointer of this claim.
func (s *Saver) move(ctx context.Context, want pointer) error {
	if !want.Settled && s.Waits() == 0 {
		want.Settled, want.EndsMillis = true, s.conf.ends().Milliseconds()
	}
	text := want.encode()
	for n := 1; ; n++ {
		i, err := s.place.writePointer(ctx, want, s.at.tag)
		if err == nil {
			s.at = stamped{want, text, i.Tag}
			return nil
		}
		if !replaced(err) {
			return err
		}
		there, rerr := s.place.readPointer(ctx)
		switch {
		case rerr == nil && there.tag == "":
			return fmt.Errorf("%s is gone: %w", s.place.Store.Location(s.place.Prefix+pointerName), ErrFenced)
		case rerr == nil && bytes.Equal(there.text, text): // the answer was lost
			s.at = there
			return nil
		case rerr == nil && there.Claim != s.at.Claim:
			s.hold.lose()
			return fmt.Errorf("%s: %w", s.place.Store.Location(s.place.Prefix), ErrFenced)
		case rerr == nil, errors.Is(rerr, ErrDamaged) && bytes.HasPrefix(text, there.text):
			s.at.tag = there.tag // the store has lost the write, or has a part of it: it is written again
		case !errors.Is(rerr, ErrDamaged) && !errors.Is(rerr, object.ErrNotFound):
			return rerr
		}
		if n == tries {
			return errors.Join(err, rerr)
		}
		if !clock.Pause(ctx, time.Duration(n)*100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// lose notes that another claim has the series.
func (h *Hold) lose() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fenced = true
}

// Release says in the store that the process has stopped to fetch: the next claim need not wait. Nothing can be saved
// afterwards. If Await would still block, an earlier holder may fetch, and Release says nothing.
func (s *Saver) Release(ctx context.Context) error {
	if s.Waits() > 0 {
		return nil
	}
	want := s.at.pointer
	want.Released = true
	return s.move(ctx, want)
}
