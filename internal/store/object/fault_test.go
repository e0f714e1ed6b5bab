package object_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

var allFaults = teststore.Faults{Delay: 2 * time.Second, Busy: 0.1, Broken: 0.05, LostRequest: 0.1, LostAnswer: 0.15,
	Lying: 0.05, Torn: 0.05, TornAnswer: 0.2, LateLists: time.Minute}

// randomContent draws a content, with up to some parts of 1000 bytes.
func randomContent(r *rand.Rand) []byte {
	b := make([]byte, r.IntN(3500))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestFaults: what Put has confirmed is there, whatever the store does. Time is virtual.
func TestFaults(t *testing.T) {
	first := testseed.New(t)
	for n := range testtier.Rounds(20, 500) {
		seed := first + uint64(n)
		for name, traits := range map[string]teststore.Traits{"all": {}, "refuses": {RefusesConditions: true},
			"no checksums": {IgnoresChecksums: true}} {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { stressStore(t, seed, traits) })
			})
		}
	}
}

func stressStore(t *testing.T, seed uint64, traits teststore.Traits) {
	sim := teststore.NewSim(seed, traits)
	sim.Fail(allFaults)
	s := object.New(sim, "sim://store", object.Config{PartSize: 1000})
	r := rand.New(rand.NewPCG(seed, 2))
	var wg sync.WaitGroup
	for w := range 4 {
		data := make([][]byte, 5)
		for i := range data {
			data[i] = randomContent(r)
		}
		wg.Go(func() {
			for i, b := range data {
				key := fmt.Sprintf("w%d/%d", w, i)
				_, err := s.Put(t.Context(), key, bytes.NewReader(b), object.Condition{IfAbsent: true})
				var exists *object.ExistsError
				if errors.As(err, &exists) && exists.Same {
					err = nil
				}
				if err != nil {
					t.Errorf("put %s: %v", key, err)
				} else if !bytes.Equal(sim.Content(key), b) {
					t.Errorf("%s: confirmed, and the store has %d bytes for %d", key, len(sim.Content(key)), len(b))
				}
				if got, err := s.Read(t.Context(), key, 0, 5000); err != nil || !bytes.Equal(got, b) {
					t.Errorf("read %s: %d bytes, %v", key, len(got), err)
				}
			}
		})
	}
	wg.Wait()
	sim.Fail(teststore.Faults{})
	must.Get(s.Abort(t.Context(), "", time.Now().Add(time.Hour)))(t)
	if n := sim.Pending(); n > 0 {
		t.Errorf("%d uploads are left", n)
	}
	time.Sleep(2 * time.Minute)
	var listed int
	for after := ""; ; {
		p := must.Get(s.List(t.Context(), "w", after, 7))(t)
		listed += len(p.Objects)
		if after = p.Next; after == "" {
			break
		}
	}
	if listed != 20 {
		t.Errorf("%d objects are listed, want 20", listed)
	}
}

// TestFence: of many writers that replace one object by its tag, each number is written by one, also if answers are
// lost.
func TestFence(t *testing.T) {
	first := testseed.New(t)
	for n := range testtier.Rounds(20, 500) {
		seed := first + uint64(n)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sim := teststore.NewSim(seed, teststore.Traits{})
				sim.Fail(teststore.Faults{Delay: time.Second, Busy: 0.1, LostRequest: 0.1, LostAnswer: 0.2})
				var won [200]atomic.Int32
				var wg sync.WaitGroup
				for w := range 4 {
					s := object.New(sim, "sim://store", object.Config{})
					wg.Go(func() {
						for range 10 {
							climb(t, s, w, &won)
						}
					})
				}
				wg.Wait()
				for i := range won {
					if n := won[i].Load(); n > 1 {
						t.Errorf("number %d was written %d times", i, n)
					}
				}
			})
		})
	}
}

// climb replaces the object by one with the next number, once.
func climb(t *testing.T, s *object.Store, writer int, won *[200]atomic.Int32) {
	when := object.Condition{IfAbsent: true, Mutable: true}
	n := 0
	if i, err := s.Stat(t.Context(), "fence"); err == nil {
		b := must.Get(s.ReadAll(t.Context(), "fence", 100))(t)
		if _, err := fmt.Sscan(string(b), &n); err != nil {
			t.Error(err)
		}
		if sum, err := object.SumOf(bytes.NewReader(b)); err != nil || sum != i.Sum { // replaced between the two
			return
		}
		when = object.Condition{IfTag: i.Tag, Mutable: true}
	}
	_, err := s.Put(t.Context(), "fence", strings.NewReader(fmt.Sprint(n+1, " ", writer)), when)
	var exists *object.ExistsError
	switch {
	case err == nil:
		won[n+1].Add(1)
	case !errors.Is(err, object.ErrChanged) && !errors.As(err, &exists) && !errors.Is(err, object.ErrConflict):
		t.Error(err)
	}
}

// A waiter notes the waits.
type waiter struct {
	why []error
	d   []time.Duration
}

func (w *waiter) Waits(why error, d time.Duration) { w.why, w.d = append(w.why, why), append(w.d, d) }

// TestBackoff: a store that is busy is asked more and more slowly, until the context ends.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := teststore.NewSim(1, teststore.Traits{})
		sim.Fail(teststore.Faults{Busy: 1})
		var w waiter
		s := object.New(sim, "sim://store", object.Config{Waits: &w})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		begin := time.Now()
		_, err := s.Stat(ctx, "a")
		if !errors.Is(err, object.ErrSlow) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		if d := time.Since(begin); d != 10*time.Minute {
			t.Errorf("it gave up after %v", d)
		}
		if n := len(w.d); n < 20 || n > 60 || w.d[0] > 200*time.Millisecond || w.d[n-1] < 15*time.Second {
			t.Errorf("%d waits: %v", n, w.d)
		}
		s = object.New(sim, "sim://store", object.Config{Tries: 3})
		if _, err := s.Stat(t.Context(), "a"); !errors.Is(err, object.ErrSlow) {
			t.Errorf("3 tries: %v", err)
		}
	})
}

// TestRate: all writers together keep the bandwidth.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := object.New(teststore.NewSim(1, teststore.Traits{}), "sim://store",
			object.Config{Rate: 1000, PartSize: 700})
		must.Get(s.Abilities(t.Context()))(t)
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				must.Get(s.Put(t.Context(), fmt.Sprint(i), bytes.NewReader(make([]byte, 2000)), object.Condition{}))(t)
			})
		}
		wg.Wait()
		if d := time.Since(begin); d < 9900*time.Millisecond || d > 10500*time.Millisecond {
			t.Errorf("10000 bytes at 1000 bytes/s took %v", d)
		}
	})
}

// hostileList answers lists with what a test says.
type hostileList struct {
	object.Backend
	list []object.Info
	more bool
}

func (h *hostileList) List(context.Context, string, string, int) ([]object.Info, bool, error) {
	return h.list, h.more, nil
}

// TestHostileLists: keys that are no paths are left out, and a list that does not advance is an error.
func TestHostileLists(t *testing.T) {
	of := func(keys ...string) (list []object.Info) {
		for _, k := range keys {
			list = append(list, object.Info{Key: k})
		}
		return list
	}
	many := make([]object.Info, 5000)
	for i := range many {
		many[i].Key = fmt.Sprintf("%06d", i)
	}
	for _, c := range []struct {
		list    []object.Info
		more    bool
		objects int
		strange int
		err     error
	}{
		{of("../../etc/passwd", "/etc/passwd", "a", "a//b", "b\x1b[2J", "c/../d", "e"), false, 2, 5, nil},
		{of("a", "a"), true, 0, 0, object.ErrAnswer},
		{of("b", "a"), false, 0, 0, object.ErrAnswer},
		{nil, true, 0, 0, object.ErrAnswer},
		{many, false, 0, 0, object.ErrAnswer},
		{[]object.Info{{Key: "a", Size: -5}}, false, 0, 1, nil},
	} {
		s := object.New(&hostileList{teststore.NewSim(1, teststore.Traits{}), c.list, c.more}, "sim://store",
			object.Config{})
		p, err := s.List(t.Context(), "", "", 1000)
		if !errors.Is(err, c.err) || len(p.Objects) != c.objects || p.Strange != c.strange {
			t.Errorf("%.60v: %d objects, %d strange, %v; want %d, %d, %v", c.list, len(p.Objects), p.Strange, err,
				c.objects, c.strange, c.err)
		}
	}
}

// FuzzValidKey: a valid key is a path below a directory.
func FuzzValidKey(f *testing.F) {
	for _, k := range []string{"a", "a/b", "../a", "/a", "a/./b", "a\x00", "ü/€", "a/..", "...", "a\u202eb"} {
		f.Add(k)
	}
	f.Fuzz(func(t *testing.T, k string) {
		if !object.ValidKey(k) {
			return
		}
		if len(k) > 900 || strings.HasPrefix(k, "/") || strings.Contains("/"+k+"/", "/../") ||
			strings.Contains("/"+k+"/", "/./") || strings.Contains("/"+k+"/", "//") ||
			strings.ContainsAny(k, "\x00\n\r\\") {
			t.Errorf("%q is valid", k)
		}
	})
}
