package upload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/upload"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An owner removes a file when it is stored, as a crawl does, and notes it.
type owner struct {
	fs disk.FS

	mu     sync.Mutex // guards stored and failed
	stored map[string]object.Info
	failed map[string]error
}

func (o *owner) Stored(f upload.File, i object.Info) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stored[f.Key] = i
	return o.fs.Remove(f.Name)
}

func (o *owner) Failed(f upload.File, why error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failed[f.Key] = why
	return nil
}

// TestKills: a process that uploads files is killed at any moment, again and again. The store fails in all ways. At the
// end each file is in the store, as it was, and no upload is left.
func TestKills(t *testing.T) {
	first := testseed.New(t)
	for n := range testtier.Rounds(20, 500) {
		seed := first + uint64(n)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { killUploads(t, seed) })
		})
	}
}

func killUploads(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	fsys, sim := testdisk.NewMem(), teststore.NewSim(seed, teststore.Traits{})
	sim.Fail(teststore.Faults{Delay: time.Second, Busy: 0.1, Broken: 0.05, LostRequest: 0.05, LostAnswer: 0.1,
		Lying: 0.03, Torn: 0.03, LateLists: time.Minute})
	want := map[string][]byte{}
	for i := range 15 {
		b := make([]byte, r.IntN(5000))
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		name := fmt.Sprintf("f%02d", i)
		must.Do(t, disk.WriteFile(fsys, name, b))
		want["warc/"+name] = b
	}
	o := &owner{fs: fsys, stored: map[string]object.Info{}, failed: map[string]error{}}
	for kills := 0; ; kills++ {
		life := time.Duration(r.IntN(20000)) * time.Millisecond
		if kills >= 20 {
			life = time.Hour
		}
		ctx, cancel := context.WithTimeout(t.Context(), life)
		u := upload.New(fsys, object.New(sim, "sim://store", object.Config{PartSize: 1000}), o, upload.Config{})
		_, _ = u.Clean(ctx, "warc/", time.Now())
		for _, e := range must.Get(fsys.ReadDir("."))(t) { // what is not stored yet
			must.Do(t, u.Add(t.Context(), upload.File{Name: e.Name(), Key: "warc/" + e.Name()}))
		}
		u.Close()
		err := u.Run(ctx)
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // what was under way has ended
	}
	sim.Fail(teststore.Faults{})
	u := upload.New(fsys, object.New(sim, "sim://store", object.Config{}), o, upload.Config{})
	must.Get(u.Clean(t.Context(), "", time.Now().Add(time.Second)))(t)
	if n := sim.Pending(); n > 0 {
		t.Errorf("%d uploads are left", n)
	}
	if len(o.failed) > 0 {
		t.Errorf("failed: %v", o.failed)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !bytes.Equal(sim.Content(key), want[key]) || o.stored[key].Size != int64(len(want[key])) {
			t.Errorf("%s: the store has %d bytes, want %d", key, len(sim.Content(key)), len(want[key]))
		}
	}
	if left := must.Get(fsys.ReadDir("."))(t); len(left) > 0 {
		t.Errorf("%d files are left", len(left))
	}
}

// TestOtherObject: a file whose name another object has stays, and the others are sent.
func TestOtherObject(t *testing.T) {
	fsys, sim := testdisk.NewMem(), teststore.NewSim(1, teststore.Traits{})
	s := object.New(sim, "sim://store", object.Config{})
	must.Get(s.Put(t.Context(), "a", strings.NewReader("of another crawl"), object.Condition{}))(t)
	must.Get(s.Put(t.Context(), "b", strings.NewReader("b"), object.Condition{}))(t)
	o := &owner{fs: fsys, stored: map[string]object.Info{}, failed: map[string]error{}}
	u := upload.New(fsys, s, o, upload.Config{})
	for _, name := range []string{"a", "b", "c"} {
		must.Do(t, disk.WriteFile(fsys, name, []byte(name)))
		must.Do(t, u.Add(t.Context(), upload.File{Name: name, Key: name}))
	}
	u.Close()
	must.Do(t, u.Run(t.Context()))
	var exists *object.ExistsError
	if !errors.As(o.failed["a"], &exists) || len(o.failed) != 1 || len(o.stored) != 2 {
		t.Errorf("stored %v, failed %v", o.stored, o.failed)
	}
	b := must.Get(disk.ReadFile(fsys, "a", 10))(t)
	if string(b) != "a" || string(sim.Content("a")) != "of another crawl" {
		t.Errorf("the file has %q, the store %q", b, sim.Content("a"))
	}
}
