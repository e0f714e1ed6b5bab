package image_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/image"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// errDead is the error of all requests and calls of a process that was killed.
var errDead = fmt.Errorf("%w: the process was killed", object.ErrRefused)

// A dying store lets requests through until its process is killed: at request number at, before or after the store has
// carried it out.
type dying struct {
	object.Backend
	at, n int
	after bool
	mu    sync.Mutex     // guards n, calls and sent while requests are under way
	calls map[string]int // requests by kind
	sent  int64          // bytes
}

func (d *dying) call(kind string, do func() error) error {
	d.mu.Lock()
	d.n++
	n := d.n
	if d.calls != nil {
		d.calls[kind]++
	}
	d.mu.Unlock()
	switch {
	case d.at == 0 || n < d.at:
		return do()
	case n == d.at && d.after:
		_ = do()
	}
	return errDead
}

func (d *dying) Put(ctx context.Context, key string, c object.Content, sum object.Sum, when object.Condition) error {
	return d.call("put", func() error {
		d.mu.Lock()
		d.sent += c.Size()
		d.mu.Unlock()
		return d.Backend.Put(ctx, key, c, sum, when)
	})
}

func (d *dying) Get(ctx context.Context, key string, off, length int64) (r io.ReadCloser, n int64, err error) {
	err = d.call("get", func() error { r, n, err = d.Backend.Get(ctx, key, off, length); return err })
	return r, n, err
}

func (d *dying) Stat(ctx context.Context, key string) (i object.Info, err error) {
	err = d.call("stat", func() error { i, err = d.Backend.Stat(ctx, key); return err })
	return i, err
}

func (d *dying) List(ctx context.Context, prefix, after string, n int) (l []object.Info, more bool, err error) {
	err = d.call("list", func() error { l, more, err = d.Backend.List(ctx, prefix, after, n); return err })
	return l, more, err
}

func (d *dying) Delete(ctx context.Context, key string) error {
	return d.call("delete", func() error { return d.Backend.Delete(ctx, key) })
}

// place returns a place in a store behind a backend. It has probed the store.
func place(t testing.TB, b object.Backend) image.Place {
	s := object.New(b, "sim://store", object.Config{})
	must.Get(s.Abilities(t.Context()))(t)
	return image.Place{Store: s, Prefix: "state/"}
}

// TestKillAtEveryRequest kills a process at each request of a claim and two saves, before and after the store has
// carried it out. Then the newest image is that of one cut, and another process goes on with it.
func TestKillAtEveryRequest(t *testing.T) {
	seed := testseed.New(t)
	synctest.Test(t, func(t *testing.T) {
		for at := 1; ; at += testtier.Stride(5) {
			for _, after := range []bool{false, true} {
				if done := killRequest(t, seed, at, after); done && after {
					t.Logf("%d requests", at-1)
					return
				}
			}
		}
	})
}

// killRequest does one case of TestKillAtEveryRequest. done says that the process ended before.
func killRequest(t *testing.T, seed uint64, at int, after bool) (done bool) {
	sim := teststore.NewSim(seed, teststore.Traits{})
	w := newWorld(t, seed)
	w.write("big", w.bytes(100_000))
	w.change(10_000)
	s := must.Get(image.Claim(t.Context(), place(t, sim), image.Config{}))(t)
	must.Get(w.save(s))(t)
	// The process that is killed has the folder, too.
	d := &dying{Backend: sim}
	p := place(t, d)
	d.n, d.at, d.after = 0, at, after
	saved := int64(1)
	err := func() error {
		s, err := image.Join(t.Context(), p, image.Config{}, s.Hold().Run())
		if err != nil {
			return err
		}
		for i := range 2 {
			w.change(10_000)
			w.write("big", w.bytes(100_000+i*(4<<20)))
			v, err := w.save(s)
			if err != nil {
				return err
			}
			saved = v.Number
			if v.Removal != nil {
				return v.Removal
			}
		}
		return s.Release(t.Context())
	}()
	if err != nil && !errors.Is(err, errDead) {
		t.Fatalf("killed at request %d: %v", at, err)
	}
	healthy := place(t, sim)
	v := w.restore(healthy)
	if v.Number < saved || v.Number > saved+1 {
		t.Errorf("killed at request %d: number %d, saved was %d", at, v.Number, saved)
	}
	w.is = maps.Clone(w.ages[v.Number]) // on another machine
	w.disk = testdisk.NewMem()
	got := must.Get(image.Restore(t.Context(), healthy, image.Target{FS: w.disk, Dir: "c"}))(t)
	if got.Number != v.Number {
		t.Errorf("number %d, want %d", got.Number, v.Number)
	}
	must.Do(t, w.disk.MkdirAll("c/grow", 0o755))
	s = must.Get(image.Claim(t.Context(), healthy, image.Config{}))(t)
	must.Do(t, s.Await(t.Context()))
	w.change(10_000)
	w.write("more", w.bytes(10))
	if v := must.Get(w.save(s))(t); v.Removal != nil {
		t.Error(v.Removal)
	}
	w.restore(healthy)
	w.write("more", w.bytes(10))
	must.Get(w.save(s))(t)
	w.restore(healthy)
	onlyNeeded(t, sim)
	return err == nil
}

// TestDiskFaultAtEveryCall fails each call of the disk while a cut is taken and saved. The save after it is right.
func TestDiskFaultAtEveryCall(t *testing.T) {
	seed := testseed.New(t)
	errDisk := errors.New("the disk is broken")
	synctest.Test(t, func(t *testing.T) {
		sim := teststore.NewSim(seed, teststore.Traits{})
		p := place(t, sim)
		w := newWorld(t, seed)
		w.write("big", w.bytes(5<<20))
		s := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
		must.Get(w.save(s))(t)
		for at := int64(1); ; at += int64(testtier.Stride(5)) {
			w.change(200_000)
			w.write("new", w.bytes(100_000))
			var n int64
			f := testdisk.NewFaulty(w.disk, func(testdisk.Call) testdisk.Fault {
				if n++; n == at {
					return testdisk.Fault{Err: errDisk}
				}
				return testdisk.Fault{}
			})
			c, err := s.Take(f, "c", picked{})
			if err == nil {
				now, _ := s.Image()
				w.took(now.Number + 1)
				_, err = s.Save(t.Context(), c)
			}
			if err != nil && !errors.Is(err, errDisk) {
				t.Fatal(err)
			}
			w.restore(p)
			if err == nil {
				t.Logf("%d calls", n)
				return
			}
			if must.Get(w.save(s))(t); at%5 == 0 {
				w.restore(p)
			}
		}
	})
}

// TestKillRestoreAtEveryChange kills Restore at each change of the disk: by a kill, and by a power failure. There is
// a crawl only if all of it is there, and the next call makes it whole.
func TestKillRestoreAtEveryChange(t *testing.T) {
	first := testseed.New(t)
	sim := teststore.NewSim(1, teststore.Traits{})
	p := place(t, sim)
	w := newWorld(t, 1)
	w.write("crawl.yaml", []byte("marks a crawl"))
	w.write("big", w.bytes(5<<20))
	w.write("a/b/c/deep", w.bytes(100))
	w.write("empty", nil)
	w.write("deep-copy", w.is["a/b/c/deep"])
	s := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
	must.Get(w.save(s))(t)
	want := maps.Clone(w.is)
	want["identity"], want["beside"] = []byte("stays"), []byte("not in the image")
	for round := range uint64(testtier.Rounds(1, 30)) {
		for at := int64(1); ; at += int64(testtier.Stride(7)) {
			m := testdisk.NewMem()
			must.Do(t, m.MkdirAll("r", 0o755))
			must.Do(t, m.SyncDir("."))
			must.Do(t, disk.WriteFile(m, "r/identity", want["identity"]))
			f := testdisk.NewFaulty(m, func(c testdisk.Call) testdisk.Fault {
				if c.Change >= at {
					return testdisk.Fault{Err: errDead, Short: c.Bytes / 2}
				}
				return testdisk.Fault{}
			})
			_, err := image.Restore(t.Context(), p, target(f))
			if err != nil && !errors.Is(err, errDead) {
				t.Fatal(err)
			}
			seed := first + round*1000 + uint64(at)
			for _, after := range []*testdisk.Mem{m.Clone(), m.Crash(seed)} {
				goOn(t, p, after, want, err == nil)
			}
			if err == nil {
				t.Logf("%d changes", at-1)
				break
			}
		}
	}
}

// TestKillRestoreAtEveryRequest kills Restore at each request to the store. The next call goes on.
func TestKillRestoreAtEveryRequest(t *testing.T) {
	sim := teststore.NewSim(1, teststore.Traits{})
	w := newWorld(t, 1)
	w.write("crawl.yaml", []byte("marks a crawl"))
	w.write("big", w.bytes(13<<20))
	s := must.Get(image.Claim(t.Context(), place(t, sim), image.Config{}))(t)
	must.Get(w.save(s))(t)
	for at := 1; ; at += testtier.Stride(3) {
		d := &dying{Backend: sim}
		p := place(t, d)
		d.n, d.at = 0, at
		m := testdisk.NewMem()
		_, err := image.Restore(t.Context(), p, target(m))
		if err != nil && !errors.Is(err, errDead) {
			t.Fatal(err)
		}
		before := d.n
		d.n, d.at, d.calls = 0, 0, map[string]int{}
		want := maps.Clone(w.is)
		want["beside"] = []byte("not in the image")
		goOn(t, p, m, want, err == nil)
		if err == nil {
			t.Logf("%d requests", before)
			return
		}
		if packs := 2; at > 3 && d.calls["get"] > 2+packs { // the pointer, the list, and what is missing
			t.Errorf("killed at request %d, it reads again what it has: %v", at, d.calls)
		}
	}
}

// A beside brings a file that is not in the image.
type beside struct{ disk.FS }

func (b beside) Bring(context.Context) error {
	return disk.WriteFile(b, "r/beside", []byte("not in the image"))
}

func target(fsys disk.FS) image.Target {
	return image.Target{FS: fsys, Dir: "r", Last: "crawl.yaml", Rest: beside{fsys}}
}

// TestRestoreOutdated kills Restore at each change of the disk. Then another process takes over and saves. The next
// call has the files of the newer image and no others, or there was a crawl already, whose run is fenced.
func TestRestoreOutdated(t *testing.T) {
	for at := int64(1); ; at++ {
		sim := teststore.NewSim(1, teststore.Traits{})
		p := place(t, sim)
		w := newWorld(t, 1)
		w.write("crawl.yaml", []byte("marks a crawl"))
		w.write("a/old", w.bytes(1000))
		w.write("log", []byte("one"))
		must.Get(w.save(must.Get(image.Claim(t.Context(), p, image.Config{}))(t)))(t)
		m := testdisk.NewMem()
		_, killed := image.Restore(t.Context(), p, target(testdisk.NewFaulty(m, testdisk.FailFrom(at, errDead))))
		old := maps.Clone(w.is)
		must.Do(t, w.disk.Remove("c/a/old"))
		delete(w.is, "a/old")
		w.write("log", []byte("one and two"))
		must.Get(w.save(must.Get(image.Claim(t.Context(), p, image.Config{}))(t)))(t)
		want := maps.Clone(w.is)
		if _, err := m.Stat("r/crawl.yaml"); err == nil {
			want = old
		}
		want["beside"] = []byte("not in the image")
		_, err := m.Stat("r/crawl.yaml")
		if err == nil && !must.Get(image.Unfinished(target(m)))(t) { // killed in its last step
			same(t, m, "r", want)
			if killed == nil {
				t.Logf("%d changes", at-1)
				return
			}
			continue
		}
		for dies := int64(1); ; dies += 2 { // the next call is killed, too
			again := m.Clone()
			_, err := image.Restore(t.Context(), p, target(testdisk.NewFaulty(again, testdisk.FailFrom(dies, errDead))))
			if _, none := again.Stat("r/crawl.yaml"); none != nil || must.Get(image.Unfinished(target(again)))(t) {
				must.Get(image.Restore(t.Context(), p, target(again)))(t)
			}
			same(t, again, "r", want)
			if err == nil {
				break
			}
		}
	}
}

// goOn restores again after a kill.
func goOn(t *testing.T, p image.Place, m *testdisk.Mem, want map[string][]byte, whole bool) {
	t.Helper()
	to := target(m)
	unfinished := must.Get(image.Unfinished(to))(t)
	_, err := m.Stat("r/crawl.yaml")
	switch {
	case err == nil || whole:
		is := content(t, m, "r")
		for name := range is {
			if strings.HasPrefix(name, "restor") {
				delete(is, name)
			}
		}
		for name, b := range want {
			if string(is[name]) != string(b) {
				t.Fatalf("there is a crawl, and %s has %d bytes, want %d", name, len(is[name]), len(b))
			}
		}
	case !unfinished: // nothing was begun
	}
	if err != nil || unfinished {
		v := must.Get(image.Restore(t.Context(), p, to))(t)
		if v.Number != 1 || v.Files > len(want) {
			t.Errorf("restored %+v", v)
		}
	}
	same(t, m, "r", want)
	if must.Get(image.Unfinished(to))(t) {
		t.Error("it is unfinished")
	}
	same(t, m.Crash(1), "r", want)
}

// TestReaderMeetsHolder restores without a claim while a holder saves and removes.
func TestReaderMeetsHolder(t *testing.T) {
	first := testseed.New(t)
	for n := range testtier.Rounds(5, 100) {
		synctest.Test(t, func(t *testing.T) {
			sim := teststore.NewSim(first+uint64(n), teststore.Traits{})
			p := place(t, sim)
			w := newWorld(t, first+uint64(n))
			s := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
			w.write("x", w.bytes(100))
			must.Get(w.save(s))(t)
			sim.Fail(teststore.Faults{Delay: time.Second})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for range 20 {
					w.write("x", w.bytes(100))
					w.write("y", w.bytes(100))
					if _, err := w.save(s); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Second)
				}
			}()
			restored := 0
			for running := true; running; restored++ {
				to := testdisk.NewMem()
				v, err := image.Restore(t.Context(), p, image.Target{FS: to, Dir: "r"})
				if err != nil {
					t.Fatal(err)
				}
				got := content(t, to, "r")
				w.mu.Lock()
				ages := slices.Clone(w.ages)
				w.mu.Unlock()
				for i, age := range ages {
					if int64(i) == v.Number && !maps.EqualFunc(got, age, func(a, b []byte) bool {
						return string(a) == string(b)
					}) {
						t.Errorf("number %d is not as it was", v.Number)
					}
				}
				select {
				case <-ended:
					running = false
				default:
				}
			}
			t.Logf("restored %d times", restored)
		})
	}
}

// A met store does something before its first list.
type met struct {
	object.Backend
	meet func()
}

func (m *met) List(ctx context.Context, prefix, after string, n int) ([]object.Info, bool, error) {
	if meet := m.meet; meet != nil {
		m.meet = nil
		meet()
	}
	return m.Backend.List(ctx, prefix, after, n)
}

// TestFencedRemoves: a process that is fenced after its save, and then removes, leaves what the next one has sent.
func TestFencedRemoves(t *testing.T) {
	sim := teststore.NewSim(1, teststore.Traits{})
	w := newWorld(t, 1)
	b := &met{Backend: sim}
	first := must.Get(image.Claim(t.Context(), place(t, b), image.Config{}))(t)
	b.meet = func() {
		second := must.Get(image.Claim(t.Context(), place(t, sim), image.Config{}))(t)
		w.write("x", w.bytes(1000))
		must.Get(w.save(second))(t)
	}
	w.write("x", w.bytes(1000))
	v := must.Get(w.save(first))(t)
	if v.Removal != nil || b.meet != nil {
		t.Errorf("removal: %v; met: %v", v.Removal, b.meet == nil)
	}
	if v := w.restore(place(t, sim)); v.Number != 2 {
		t.Errorf("image %d is the newest, want 2", v.Number)
	}
}

// TestRequests counts what a save costs.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := teststore.NewSim(1, teststore.Traits{})
		d := &dying{Backend: sim}
		p := place(t, d)
		w := newWorld(t, 1)
		for i := range 300 {
			w.write(fmt.Sprintf("small/%d", i), w.bytes(2000))
		}
		w.write("grow/journal", w.bytes(10<<20))
		s := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
		for _, c := range []struct {
			what     string
			change   func()
			requests int
			bytes    int64
		}{
			{"everything", func() {}, 14, 12 << 20},
			{"nothing has changed", func() {}, 1, 0},
			{"1 MB was appended", func() {
				f := must.Get(w.disk.OpenFile("c/grow/journal", os.O_WRONLY|os.O_APPEND, 0))(t)
				b := w.bytes(1e6)
				must.Get(f.Write(b))(t)
				must.Do(t, f.Close())
				w.is["grow/journal"] = append(w.is["grow/journal"], b...)
			}, 6, 1.2e6},
			{"a small file was replaced", func() { w.write("small/7", w.bytes(2000)) }, 7, 80_000},
			{"nothing has changed", func() {}, 1, 0},
		} {
			time.Sleep(time.Minute)
			c.change()
			d.n, d.sent, d.calls = 0, 0, map[string]int{}
			must.Get(w.save(s))(t)
			t.Logf("%s: %d requests (%v), %d bytes", c.what, d.n, d.calls, d.sent)
			if d.n > c.requests || d.sent > c.bytes {
				t.Errorf("%s: %d requests with %d bytes, want at most %d and %d", c.what, d.n, d.sent, c.requests,
					c.bytes)
			}
		}
		w.restore(p)
	})
}
