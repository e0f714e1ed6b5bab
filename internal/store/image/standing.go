package image

import "context"

// A Standing is what the store says of a series now. If it stays the same for longer than a process takes from one
// image to the next, no process saves. It says nothing about clocks.
type Standing struct {
	// Generation is that of the claim that holds; 0: there is none.
	Generation int64
	// Run is that of the claim, for Join.
	Run string
	// Image is the number of the newest image; 0: there is none.
	Image int64
	// Released means that the holder has said that it has stopped.
	Released bool
}

// Stand returns the Standing of a series, in two requests. The error is ErrDamaged if a writer was cut off, and no
// claim has mended that yet.
func Stand(ctx context.Context, p Place) (s Standing, err error) {
	at, err := p.readPointer(ctx)
	if err != nil || at.tag == "" {
		return s, err
	}
	s = Standing{Generation: at.Generation, Run: at.Run, Released: at.Released}
	if at.Image != nil {
		s.Image = at.Image.Number
	}
	return s, nil
}

// Drop removes the images of a series that nobody needs any more. Its pointer stays, so that a later claim has a later
// generation, and the folder of its run may still be gone on with. A kill in between leaves keys that the first save of
// the next claim deletes.
func (s *Saver) Drop(ctx context.Context) error {
	want := s.at.pointer
	want.Image, want.Previous = nil, nil
	if err := s.move(ctx, want); err != nil {
		return err
	}
	s.newest = nil
	s.remember(nil, nil)
	if err := s.remove(ctx); err != nil {
		return err
	}
	return s.Release(ctx)
}
