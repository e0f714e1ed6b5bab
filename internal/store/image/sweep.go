package image

import (
	"context"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/object"
)

const (
	// smallPack and manyPacks: if an image needs more than manyPacks packs that are smaller than smallPack, their
	// pieces are sent again, together.
	smallPack, manyPacks = 1 << 20, 64
	// slack is how many bytes of packs no image needs before pieces are sent again. It is more if the image is larger.
	slack = 16 << 20
	// maxSweep bounds the keys of other claims that one save looks at.
	maxSweep = 100_000
)

// condemn forgets the pieces of packs that are worth to be replaced: those of which the image needs less than half, if
// together the packs are more than twice what the image needs; and small ones, if they are many. The next save reads
// their files again.
func (s *Saver) condemn(newest *list) {
	if newest == nil {
		return
	}
	type place struct {
		pack *pack
		at   int64
	}
	live, counted := map[*pack]int64{}, map[place]bool{}
	var all, needed int64
	small := 0
	for _, f := range newest.Files {
		for _, p := range f.pieces {
			if at := (place{p.pack, p.at}); !counted[at] {
				counted[at] = true
				live[p.pack] += p.stored
				needed += p.stored
			}
		}
	}
	for p := range live {
		all += p.bytes
		if p.bytes < smallPack {
			small++
		}
	}
	gone := map[*pack]bool{}
	for p, n := range live {
		gone[p] = all > 2*needed+slack && 2*n < p.bytes || small > manyPacks && p.bytes < smallPack
	}
	for d, p := range s.index {
		if gone[p.pack] {
			delete(s.index, d)
		}
	}
	for _, f := range s.files {
		for _, p := range f.pieces {
			if gone[p.pack] {
				f.mod = time.Time{} // the next save does not take it as unchanged
			}
		}
	}
}

// remove deletes what the two newest images do not need: what was theirs, and, once in a claim, what other claims have
// left. Nobody will refer to it: see DESIGN.md.
func (s *Saver) remove(ctx context.Context) error {
	if !s.swept {
		for _, dir := range []string{imagesDir, packsDir} {
			if err := s.sweep(ctx, dir); err != nil {
				return err
			}
		}
		s.swept = true
	}
	for key := range s.garbage {
		if !s.needed[key] {
			if err := s.place.Store.Delete(ctx, s.place.Prefix+key); err != nil {
				return err
			}
		}
		delete(s.garbage, key)
	}
	for key := range s.needed {
		s.garbage[key] = true // when it is not needed any more
	}
	return nil
}

// sweep finds what earlier claims have left.
func (s *Saver) sweep(ctx context.Context, dir string) error {
	for after, n := "", 0; n < maxSweep; {
		page, err := s.place.Store.List(ctx, s.place.Prefix+dir, after, object.MaxList)
		if err != nil {
			return err
		}
		for _, i := range page.Objects {
			key := strings.TrimPrefix(i.Key, s.place.Prefix)
			if name, ok := parseName(key); ok && name.generation < s.at.Generation {
				s.garbage[key] = true
			}
		}
		n += len(page.Objects)
		if after = page.Next; after == "" {
			break
		}
	}
	return nil
}
