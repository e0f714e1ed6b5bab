package image_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/image"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
)

// A series that is dropped has no image and no packs. Its folder can still be gone on with, and a claim that names an
// older generation is refused.
func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim, mem := teststore.NewSim(1, teststore.Traits{}), testdisk.NewMem()
		p := image.Place{Store: object.New(sim, "s3://bucket/", object.Config{}), Prefix: "s/"}
		if s, err := image.Stand(t.Context(), p); err != nil || s != (image.Standing{}) {
			t.Errorf("before: %+v, %v", s, err)
		}
		must.Do(t, mem.MkdirAll("c", 0o755))
		must.Do(t, disk.WriteFile(mem, "c/a", []byte("text")))
		first := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
		save := func(s *image.Saver) {
			t.Helper()
			must.Get(s.Save(t.Context(), must.Get(s.Take(mem, "c", picked{}))(t)))(t)
		}
		save(first)
		must.Do(t, first.Release(t.Context()))
		at := must.Get(image.Stand(t.Context(), p))(t)
		if at.Generation != 1 || at.Image != 1 || !at.Released || at.Run != first.Hold().Run() {
			t.Errorf("stands as %+v", at)
		}
		other := image.Config{Generation: at.Generation}
		s := must.Get(image.Join(t.Context(), p, other, at.Run))(t)
		must.Do(t, s.Drop(t.Context()))
		if _, err := image.Claim(t.Context(), p, other); !errors.Is(err, image.ErrFenced) {
			t.Errorf("a claim of an old generation: %v", err)
		}
		for _, key := range sim.Keys() {
			if !strings.HasSuffix(key, "current.json") {
				t.Errorf("%s stays", key)
			}
		}
		if _, err := image.Look(t.Context(), p); !errors.Is(err, image.ErrNone) {
			t.Errorf("it has an image: %v", err)
		}
		if at := must.Get(image.Stand(t.Context(), p))(t); at.Generation != 2 || at.Image != 0 || !at.Released {
			t.Errorf("stands as %+v", at)
		}
		again := must.Get(image.Join(t.Context(), p, image.Config{}, at.Run))(t)
		save(again)
		must.Get(image.Look(t.Context(), p))(t)
	})
}
