package image_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
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

// A bad network is that of one process: its requests hang, or arrive long after the process has given up, or their
// answers come late.
type badNetwork struct {
	object.Backend
	mu   sync.Mutex // guards draw and away
	draw *rand.Rand
	away time.Time // requests hang until then
}

// pass carries out a request, or not, or later.
func (b *badNetwork) pass(ctx context.Context, do func(context.Context) error) error {
	b.mu.Lock()
	dice, d := b.draw.IntN(100), time.Duration(b.draw.IntN(40_000))*time.Millisecond
	if dice == 0 && b.away.Before(time.Now()) {
		b.away = time.Now().Add(5 * d)
	}
	away := time.Until(b.away) > 0
	b.mu.Unlock()
	switch {
	case away: // it hangs
		<-ctx.Done()
		return ctx.Err()
	case dice < 5: // it arrives late, and nobody hears of it
		go func() {
			time.Sleep(2 * d)
			_ = do(context.WithoutCancel(ctx))
		}()
		return object.ErrAway
	case dice < 15: // its answer comes late
		err := do(ctx)
		select {
		case <-time.After(d):
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return do(ctx)
}

func (b *badNetwork) Put(ctx context.Context, key string, c object.Content, sum object.Sum,
	when object.Condition) error {
	return b.pass(ctx, func(ctx context.Context) error { return b.Backend.Put(ctx, key, c, sum, when) })
}

func (b *badNetwork) Get(ctx context.Context, key string, off, length int64) (r io.ReadCloser, n int64, err error) {
	type answer struct {
		r io.ReadCloser
		n int64
	}
	got := make(chan answer, 1)
	err = b.pass(ctx, func(ctx context.Context) error {
		r, n, err := b.Backend.Get(ctx, key, off, length)
		got <- answer{r, n}
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	a := <-got
	return a.r, a.n, nil
}

func (b *badNetwork) Stat(ctx context.Context, key string) (object.Info, error) {
	got := make(chan object.Info, 1)
	err := b.pass(ctx, func(ctx context.Context) error {
		i, err := b.Backend.Stat(ctx, key)
		got <- i
		return err
	})
	if err != nil {
		return object.Info{}, err
	}
	return <-got, nil
}

func (b *badNetwork) Delete(ctx context.Context, key string) error {
	return b.pass(ctx, func(ctx context.Context) error { return b.Backend.Delete(ctx, key) })
}

// An oddClock is of a machine whose clock is faster or slower.
type oddClock struct {
	began time.Time
	rate  float64
}

func (o oddClock) Now() time.Time {
	return o.began.Add(time.Duration(float64(time.Since(o.began)) * o.rate))
}

// A crawled notes when processes may fetch, and what they save.
type crawled struct {
	mu    sync.Mutex // guards all below
	spans []span
	cuts  []string // the content of the one file, one for each attempt to save
	saved int      // how many of them, at least, come before the newest image
}

// cut notes that an image with a content is about to be saved, and returns its number.
func (c *crawled) cut(x []byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cuts = append(c.cuts, string(x))
	return len(c.cuts)
}

// newest returns saved, which is at least n.
func (c *crawled) newest(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saved = max(c.saved, n)
	return c.saved
}

type span struct {
	from, to time.Time
	who      int
	run      string
}

// TestFence starts processes that take a crawl over from one another, on bad networks and with odd clocks. No two of
// them may fetch at once, and each begins with the last image that the one before has saved. Time is virtual.
func TestFence(t *testing.T) {
	first := testseed.New(t)
	for n := range testtier.Rounds(30, 1000) {
		seed := first + uint64(n)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { fence(t, seed) })
		})
	}
}

// processes is how many try to crawl in one case of TestFence.
const processes = 6

func fence(t *testing.T, seed uint64) {
	sim := teststore.NewSim(seed, teststore.Traits{})
	sim.Fail(teststore.Faults{Delay: time.Second, Busy: 0.05, Broken: 0.02, LostAnswer: 0.05, Lying: 0.02, Torn: 0.01,
		LateLists: time.Minute})
	var all crawled
	var wg sync.WaitGroup
	r := rand.New(&locked{of: rand.NewPCG(seed, 3)})
	for who := range processes {
		start := time.Duration(r.IntN(400)) * time.Second
		life := time.Duration(r.IntN(600)) * time.Second
		draw := rand.New(&locked{of: rand.NewPCG(seed, uint64(who)+10)})
		wg.Go(func() {
			time.Sleep(start)
			oneProcess(t, sim, draw, who, life, &all)
		})
	}
	wg.Wait()
	time.Sleep(10 * time.Minute) // late requests arrive
	slices.SortFunc(all.spans, func(a, b span) int { return a.from.Compare(b.from) })
	for i, b := range all.spans {
		for _, a := range all.spans[:i] {
			if b.from.Before(a.to) && a.run != b.run {
				t.Errorf("process %d fetches from %v to %v, and process %d from %v to %v", a.who, a.from, a.to, b.who,
					b.from, b.to)
			}
		}
	}
	t.Logf("%d of %d processes came to fetch", len(all.spans), processes)
}

// oneProcess claims, restores, waits, and fetches and saves until it is fenced or its life ends. It then stops as late
// as it may, or says that it has stopped.
func oneProcess(t *testing.T, sim *teststore.Sim, draw *rand.Rand, who int, life time.Duration, all *crawled) {
	net := &badNetwork{Backend: sim, draw: draw}
	p := image.Place{Store: object.New(net, "sim://store", object.Config{}), Prefix: "state/",
		Clock: oddClock{time.Now(), 0.95 + 0.1*draw.Float64()}}
	stop := time.Duration(10+draw.IntN(50)) * time.Second
	conf := image.Config{Holder: fmt.Sprint(who), Lease: time.Duration(10+draw.IntN(50)) * time.Second, Stop: stop}
	ctx, cancel := context.WithTimeout(t.Context(), life+5*time.Minute)
	defer cancel()
	saved := all.newest(0)
	s, err := image.Claim(ctx, p, conf)
	if err != nil {
		return // the store was away
	}
	m := testdisk.NewMem()
	must.Do(t, m.MkdirAll("c", 0o755))
	_, err = image.Restore(ctx, p, image.Target{FS: m, Dir: "c"})
	if err != nil && !errors.Is(err, image.ErrNone) {
		return
	}
	if err != nil && saved > 0 {
		t.Errorf("process %d: %v, after image %d", who, err, saved)
	} else if err == nil {
		x := must.Get(disk.ReadFile(m, "c/x", 1000))(t)
		all.mu.Lock()
		n := slices.Index(all.cuts, string(x)) + 1
		all.mu.Unlock()
		if n < saved || n == 0 {
			t.Errorf("process %d restores image %d after image %d", who, n, saved)
		}
	}
	if draw.IntN(6) == 0 { // it ends before it has begun
		_ = s.Release(ctx)
		return
	}
	if err := s.Await(ctx); err != nil {
		return
	}
	if err := s.Hold().Current(); err != nil {
		return
	}
	is := span{from: time.Now(), who: who, run: s.Hold().Run()}
	ctx, end := context.WithTimeout(ctx, life)
	defer end()
	watched := make(chan error, 1)
	go func() {
		watched <- s.Hold().Watch(ctx)
		end()
	}()
	w := &world{t: t, disk: m, is: map[string][]byte{}, r: draw}
	for ctx.Err() == nil {
		w.write("x", w.bytes(100))
		n := all.cut(w.is["x"])
		c := must.Get(s.Take(m, "c", picked{}))(t)
		_, err := s.Save(ctx, c)
		if err == nil {
			all.newest(n)
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, image.ErrFenced) {
			t.Logf("process %d: %v", who, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
		}
	}
	fenced := <-watched
	if errors.Is(fenced, context.DeadlineExceeded) && draw.IntN(2) == 0 { // it ends by itself, and says so
		is.to = time.Now()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = s.Release(last)
	} else {
		is.to = time.Now().Add(stop * 95 / 100) // its clock may be slow
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.spans = append(all.spans, is)
}

// TestJoin: a process goes on with its run in the same folder without waiting, and not after another run.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := place(t, teststore.NewSim(1, teststore.Traits{}))
		a := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
		b := must.Get(image.Join(t.Context(), p, image.Config{}, a.Hold().Run()))(t)
		if d := b.Waits(); d != 0 {
			t.Errorf("Join waits for %v", d)
		}
		w := newWorld(t, 1)
		if _, err := w.save(a); !errors.Is(err, image.ErrFenced) {
			t.Errorf("the process that was joined saves: %v", err)
		}
		follower := image.Follow(p, image.Config{}, a.Hold().Run())
		if err := follower.Current(); !errors.Is(err, image.ErrUnsure) {
			t.Errorf("a follower that has not asked yet: %v", err)
		}
		must.Do(t, follower.Holds(t.Context()))
		must.Do(t, follower.Current())
		c := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
		if d := c.Waits(); d < time.Minute || d > 70*time.Second {
			t.Errorf("Claim waits for %v", d)
		}
		// It is killed, and joined, before it has waited.
		d := must.Get(image.Join(t.Context(), p, image.Config{}, c.Hold().Run()))(t)
		if d := d.Waits(); d < time.Minute {
			t.Errorf("Join of a claim that has not waited waits for %v", d)
		}
		for _, h := range []*image.Hold{b.Hold(), follower, c.Hold()} {
			if err := h.Holds(t.Context()); !errors.Is(err, image.ErrFenced) {
				t.Errorf("an earlier claim: %v", err)
			}
		}
		if _, err := image.Join(t.Context(), p, image.Config{}, a.Hold().Run()); !errors.Is(err, image.ErrFenced) {
			t.Errorf("join an earlier run: %v", err)
		}
		must.Do(t, d.Await(t.Context()))
		must.Get(w.save(d))(t)
		must.Do(t, d.Release(t.Context()))
		e := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
		if d := e.Waits(); d != 0 {
			t.Errorf("Claim after a release waits for %v", d)
		}
	})
}

// A process that has waited for an earlier one says so in the store. One that goes on with its folder need not wait
// again, and can release the series at once.
func TestJoinAfterTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := image.Place{Store: object.New(teststore.NewSim(1, teststore.Traits{}), "s3://bucket/", object.Config{})}
		must.Get(image.Claim(t.Context(), p, image.Config{}))(t) // it is killed
		waited := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
		must.Do(t, waited.Await(t.Context()))
		joined := must.Get(image.Join(t.Context(), p, image.Config{}, waited.Hold().Run()))(t)
		if d := joined.Waits(); d != 0 {
			t.Errorf("Join waits for %v again", d)
		}
		must.Do(t, joined.Release(t.Context()))
		if d := must.Get(image.Claim(t.Context(), p, image.Config{}))(t).Waits(); d != 0 {
			t.Errorf("Claim after a release waits for %v", d)
		}
	})
}

// TestUnsure: a process whose store does not answer stops when the lease has passed, and not before.
func TestUnsure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := teststore.NewSim(1, teststore.Traits{})
		net := &badNetwork{Backend: sim, draw: rand.New(&locked{of: rand.NewPCG(1, 1)})}
		p := image.Place{Store: object.New(sim, "sim://store", object.Config{})}
		s := must.Get(image.Claim(t.Context(), p, image.Config{}))(t)
		follower := image.Follow(image.Place{Store: object.New(net, "sim://store", object.Config{})}, image.Config{},
			s.Hold().Run())
		for follower.Current() != nil {
			_ = follower.Holds(t.Context())
		}
		net.away = time.Now().Add(time.Hour)
		began := time.Now()
		err := follower.Watch(t.Context())
		if d := time.Since(began); !errors.Is(err, image.ErrUnsure) || d < 20*time.Second || d > 41*time.Second {
			t.Errorf("%v after %v", err, d)
		}
		time.Sleep(10 * time.Minute) // late requests arrive
	})
}

// slowAnswers has answers that come late.
type slowAnswers struct {
	object.Backend
	late time.Duration
}

func (s slowAnswers) Get(ctx context.Context, key string, off, length int64) (io.ReadCloser, int64, error) {
	r, n, err := s.Backend.Get(ctx, key, off, length)
	time.Sleep(s.late)
	return r, n, err
}

// TestLateAnswer: an answer counts from the moment at which the question was sent.
func TestLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := teststore.NewSim(1, teststore.Traits{})
		s := must.Get(image.Claim(t.Context(), place(t, sim), image.Config{}))(t)
		b := slowAnswers{sim, 9 * time.Second}
		h := image.Follow(image.Place{Store: object.New(b, "sim://store", object.Config{}), Prefix: "state/"},
			image.Config{}, s.Hold().Run())
		must.Do(t, h.Holds(t.Context()))
		time.Sleep(20 * time.Second)
		must.Do(t, h.Current())
		time.Sleep(time.Second)
		if err := h.Current(); !errors.Is(err, image.ErrUnsure) {
			t.Errorf("30 s after the question: %v", err)
		}
	})
}

// TestNoFence: a store without conditions is refused, unless the caller allows it.
func TestNoFence(t *testing.T) {
	for _, traits := range []teststore.Traits{{IgnoresConditions: true}, {RefusesConditions: true}} {
		p := image.Place{Store: object.New(teststore.NewSim(1, traits), "sim://store", object.Config{})}
		if _, err := image.Claim(t.Context(), p, image.Config{}); !errors.Is(err, image.ErrNoFence) {
			t.Errorf("%+v: %v", traits, err)
		}
		s := must.Get(image.Claim(t.Context(), p, image.Config{Unfenced: true}))(t)
		w := newWorld(t, 1)
		w.write("x", w.bytes(10))
		must.Get(w.save(s))(t)
		w.restore(p)
	}
}
