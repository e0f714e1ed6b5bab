package image_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/image"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// picked picks as a crawl does: files below grow grow, files below left and *.tmp are left.
type picked struct{}

func (picked) Pick(path string) image.How {
	switch {
	case strings.HasPrefix(path, "left/"), strings.HasSuffix(path, ".tmp"):
		return image.Leave
	case strings.HasPrefix(path, "grow/"):
		return image.Grows
	case path == "runs/manifest":
		return image.First
	}
	return image.Whole
}

// A world is the folder of a crawl and what it is to contain.
type world struct {
	t    testing.TB
	disk *testdisk.Mem
	is   map[string][]byte
	r    *rand.Rand
	mu   sync.Mutex          // guards ages, if an image is restored while others are saved
	ages []map[string][]byte // what it contained, by the number of the image
}

func newWorld(t testing.TB, seed uint64) *world {
	w := &world{t: t, disk: testdisk.NewMem(), is: map[string][]byte{}, r: rand.New(&locked{of: rand.NewPCG(seed, 7)}),
		ages: []map[string][]byte{nil}}
	must.Do(t, w.disk.MkdirAll("c/left", 0o755))
	must.Do(t, w.disk.MkdirAll("c/grow", 0o755))
	must.Do(t, disk.WriteFile(w.disk, "c/left/secret", []byte("do not save")))
	must.Do(t, disk.WriteFile(w.disk, "c/x.tmp", []byte("do not save")))
	return w
}

// noise is random, and a part of it can be compressed.
var noise = sync.OnceValue(func() []byte {
	r, b := rand.NewChaCha8([32]byte{1}), make([]byte, 16<<20)
	_, _ = r.Read(b) // never fails
	for i := range b {
		if i%64 > 32 {
			b[i] = 'x'
		}
	}
	return b
})

// bytes draws n bytes.
func (w *world) bytes(n int) []byte {
	b := noise()
	return slices.Clone(b[w.r.IntN(len(b)-n):][:n])
}

// write sets a file.
func (w *world) write(name string, b []byte) {
	must.Do(w.t, w.disk.MkdirAll(filepath.Dir("c/"+name), 0o755))
	must.Do(w.t, disk.WriteFile(w.disk, "c/"+name, b))
	w.is[name] = b
}

// change changes some files.
func (w *world) change(most int) {
	for range 1 + w.r.IntN(4) {
		name := fmt.Sprintf("dir%d/file%d", w.r.IntN(3), w.r.IntN(5))
		switch w.r.IntN(8) {
		case 0:
			if w.is[name] != nil {
				must.Do(w.t, w.disk.Remove("c/"+name))
				delete(w.is, name)
			}
		case 1: // the same content elsewhere
			if b := w.is[name]; b != nil {
				w.write(name+"-copy", b)
			}
		case 2, 3, 4: // appended to
			name = fmt.Sprintf("grow/log%d", w.r.IntN(3))
			f := must.Get(w.disk.OpenFile("c/"+name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644))(w.t)
			b := w.bytes(w.r.IntN(most))
			must.Get(f.Write(b))(w.t)
			must.Do(w.t, f.Close())
			w.is[name] = append(slices.Clip(w.is[name]), b...)
		default:
			w.write(name, w.bytes(w.r.IntN(most)))
		}
	}
}

// took notes that an image was taken which may get a number.
func (w *world) took(number int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for int64(len(w.ages)) <= number {
		w.ages = append(w.ages, nil)
	}
	w.ages[number] = maps.Clone(w.is)
}

// content returns the files below a folder.
func content(t testing.TB, fsys disk.FS, dir string) map[string][]byte {
	t.Helper()
	is := map[string][]byte{}
	var walk func(at, name string)
	walk = func(at, name string) {
		for _, e := range must.Get(fsys.ReadDir(at))(t) {
			if below := name + e.Name(); e.IsDir() {
				walk(filepath.Join(at, e.Name()), below+"/")
			} else {
				is[below] = must.Get(disk.ReadFile(fsys, filepath.Join(at, e.Name()), 1<<30))(t)
			}
		}
	}
	walk(dir, "")
	return is
}

// same fails the test if a folder has other files than it is to have.
func same(t testing.TB, fsys disk.FS, dir string, want map[string][]byte) {
	t.Helper()
	got := content(t, fsys, dir)
	for name, b := range want {
		if g, ok := got[name]; !ok || !bytes.Equal(g, b) {
			t.Errorf("%s has %d bytes (there: %v), want %d; or others", name, len(g), ok, len(b))
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is not to be there", name)
	}
	if t.Failed() {
		t.FailNow()
	}
}

// restore restores the newest image into an empty folder, and compares it with the model.
func (w *world) restore(p image.Place) image.Saved {
	w.t.Helper()
	to := testdisk.NewMem()
	v, err := image.Restore(w.t.Context(), p, image.Target{FS: to, Dir: "r"})
	if err != nil {
		w.t.Fatal(err)
	}
	same(w.t, to, "r", w.ages[v.Number])
	return v
}

// save saves the folder.
func (w *world) save(s *image.Saver) (image.Saved, error) {
	c := must.Get(s.Take(w.disk, "c", picked{}))(w.t)
	number := int64(1)
	if v, ok := s.Image(); ok {
		number = v.Number + 1
	}
	w.took(number)
	return s.Save(w.t.Context(), c)
}

// TestModel saves and restores a folder that changes, in a store that fails as real ones do. Time is virtual.
func TestModel(t *testing.T) {
	first := testseed.New(t)
	for n := range testtier.Rounds(10/testtier.Stride(3), 200) {
		seed := first + uint64(n)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := teststore.NewSim(seed, teststore.Traits{})
				p := place(t, sim)
				if n%2 == 1 {
					sim.Fail(teststore.Faults{Delay: time.Second, Busy: 0.1, Broken: 0.05, LostRequest: 0.1,
						LostAnswer: 0.15, Lying: 0.05, Torn: 0.05, TornAnswer: 0.2, LateLists: time.Minute})
				}
				w := newWorld(t, seed)
				s := must.Get(image.Claim(t.Context(), p, image.Config{Holder: "a"}))(t)
				for i := range 12 {
					time.Sleep(time.Duration(w.r.IntN(10)) * time.Second)
					w.change(300_000)
					v := must.Get(w.save(s))(t)
					if got := w.restore(p); got.Number != v.Number {
						t.Errorf("restored number %d, want %d", got.Number, v.Number)
					}
					switch {
					case i%4 == 3:
						s = must.Get(image.Join(t.Context(), p, image.Config{}, s.Hold().Run()))(t)
					case i%4 == 1:
						s = must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
					}
				}
				must.Get(w.save(s))(t)
				sim.Fail(teststore.Faults{})
				time.Sleep(time.Hour)
				s = must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
				w.write("last", []byte("last"))
				v := must.Get(w.save(s))(t)
				if v.Removal != nil {
					t.Error(v.Removal)
				}
				w.restore(p)
				onlyNeeded(t, sim)
			})
		})
	}
}

// TestManySaves lets one claim save so often that small packs, and packs that are hardly needed, are replaced.
func TestManySaves(t *testing.T) {
	first := testseed.New(t)
	for n := range testtier.Rounds(1, 40) {
		seed := first + uint64(n)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := teststore.NewSim(seed, teststore.Traits{})
				p := place(t, sim)
				w := newWorld(t, seed)
				s := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
				for i := range testtier.Rounds(150, 240) {
					time.Sleep(10 * time.Second)
					w.write(fmt.Sprintf("stays/%d", i), w.bytes(500)) // each save has a pack of its own
					most := 2_000
					if i%40 > 30 {
						most = testtier.Rounds(300_000, 3_000_000)
					}
					w.change(most)
					must.Get(w.save(s))(t)
					if i%30 == 0 {
						w.restore(p)
					}
				}
				w.restore(p)
				onlyNeeded(t, sim)
				packs := 0
				for _, key := range sim.Keys() {
					if strings.HasPrefix(key, "state/packs/") {
						packs++
					}
				}
				if packs > 150 {
					t.Errorf("%d packs are left", packs)
				}
			})
		})
	}
}

// onlyNeeded fails the test if the store has lists or packs that the two newest images do not need.
func onlyNeeded(t *testing.T, sim *teststore.Sim) {
	t.Helper()
	lists := 0
	var all []byte
	for _, key := range sim.Keys() {
		if strings.HasPrefix(key, "state/images/") {
			lists++
			all = append(all, sim.Content(key)...)
		}
	}
	if lists != 2 {
		t.Errorf("%d lists are left: %q", lists, sim.Keys())
	}
	for _, key := range sim.Keys() {
		if pack, ok := strings.CutPrefix(key, "state/"); ok && strings.HasPrefix(pack, "packs/") &&
			!bytes.Contains(all, []byte(pack)) {
			t.Errorf("%s is left", key)
		}
	}
}

// TestPass takes cuts while another goroutine writes runs, and replaces the manifest that names them: at each call of
// the disk. The manifest of an image names files of the image, with the bytes that were written before.
func TestPass(t *testing.T) {
	for _, times := range []int{1, 3, 1000} {
		for at := 1; ; at++ {
			p := place(t, teststore.NewSim(1, teststore.Traits{}))
			w := newWorld(t, 1)
			runs := 0
			pass := func() {
				if runs++; runs > 1 {
					w.write(fmt.Sprintf("runs/%d", runs), w.bytes(100_000*(runs%2)+10))
				} else {
					w.write("runs/1", w.bytes(10))
				}
				w.write("runs/manifest", fmt.Appendf(nil, "runs/%d", runs))
				must.Do(t, w.disk.RemoveAll(fmt.Sprintf("c/runs/%d", runs-1)))
			}
			pass()
			s := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
			n := 0
			f := testdisk.NewFaulty(w.disk, nil)
			f.Break(func(testdisk.Call) testdisk.Fault {
				if n++; n >= at && n < at+times {
					pass()
				}
				return testdisk.Fault{}
			})
			c, err := s.Take(f, "c", picked{})
			if errors.Is(err, image.ErrBusy) && times == 1000 {
				break
			}
			must.Do(t, err)
			must.Get(s.Save(t.Context(), c))(t)
			to := testdisk.NewMem()
			must.Get(image.Restore(t.Context(), p, image.Target{FS: to, Dir: "r"}))(t)
			got := content(t, to, "r")
			if name := string(got["runs/manifest"]); !bytes.Equal(got[name], w.is[name]) || got[name] == nil {
				t.Fatalf("at call %d: the manifest names %s, which has %d bytes", at, name, len(got[name]))
			}
			if n < at {
				break
			}
		}
	}
}

// locked is a source of random numbers for several goroutines.
type locked struct {
	mu sync.Mutex
	of *rand.PCG
}

func (l *locked) Uint64() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of.Uint64()
}
