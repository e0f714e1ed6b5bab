package node_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/saving"
	"github.com/orbweaver/orbweaver/internal/store/image"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/stores"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// storedRecords returns how many records of each URL the committed segments of a store have. It reads the records.
func storedRecords(store *teststore.Sim) (map[string]int, error) {
	found := map[string]int{}
	for _, key := range store.Keys() {
		segment, ok := strings.CutSuffix(key, "/index.cdxj")
		if !ok || store.Content(segment+"/_SUCCESS") == nil {
			continue
		}
		for line := range strings.Lines(string(store.Content(key))) {
			_, object, _ := strings.Cut(line, "{")
			var l struct{ URL, Filename, Offset, Length string }
			if err := json.Unmarshal([]byte("{"+object), &l); err != nil {
				return nil, fmt.Errorf("%s: %w", key, err)
			}
			b, err := recordAt(store.Content(l.Filename), l.Offset, l.Length)
			if err != nil || !strings.Contains(b, "-URI: "+l.URL+"\r\n") {
				return nil, fmt.Errorf("%s: not a record of %s in %s: %.60q, %w", key, l.URL, l.Filename, b, err)
			}
			found[l.URL]++
		}
	}
	return found, nil
}

func recordAt(file []byte, offset, length string) (string, error) {
	from, err := strconv.Atoi(offset)
	n, bad := strconv.Atoi(length)
	if err = errors.Join(err, bad); err != nil || from+n > len(file) {
		return "", fmt.Errorf("%d bytes, %w", len(file), err)
	}
	z, err := gzip.NewReader(bytes.NewReader(file[from : from+n]))
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(z)
	return string(b), err
}

// withStates makes a configuration that saves states in a store.
func withStates(cfg node.Config, store *teststore.Sim) node.Config {
	cfg.Archive.Segments = warc.Segments{Crawl: "web", Bytes: 1 << 20}
	cfg.Store, cfg.StoreState = stores.Place{URL: "s3://bucket/", Backend: store}, 5*time.Second
	return cfg
}

// A deadStore is the store for a process that is killed at a request. It is never killed if at is 0.
type deadStore struct {
	*teststore.Sim
	at, n atomic.Int64
}

var errDead = errors.New("killed")

func (d *deadStore) request() error {
	if n, at := d.n.Add(1), d.at.Load(); at > 0 && n >= at {
		return errDead
	}
	return nil
}

func (d *deadStore) Get(ctx context.Context, key string, off, length int64) (io.ReadCloser, int64, error) {
	if err := d.request(); err != nil {
		return nil, 0, err
	}
	return d.Sim.Get(ctx, key, off, length)
}

func (d *deadStore) Stat(ctx context.Context, key string) (object.Info, error) {
	if err := d.request(); err != nil {
		return object.Info{}, err
	}
	return d.Sim.Stat(ctx, key)
}

func (d *deadStore) List(ctx context.Context, prefix, after string, most int) ([]object.Info, bool, error) {
	if err := d.request(); err != nil {
		return nil, false, err
	}
	return d.Sim.List(ctx, prefix, after, most)
}

func (d *deadStore) Put(ctx context.Context, key string, b object.Content, sum object.Sum,
	when object.Condition) error {
	if err := d.request(); err != nil {
		return err
	}
	return d.Sim.Put(ctx, key, b, sum, when)
}

// TestFetchKilled kills the process that brings a state at each operation of its disk and at each request to the store.
// The next start goes on. Then the index of the end has each page that a segment of the store has.
func TestFetchKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, store := newSmallWeb(t), teststore.NewSim(1, teststore.Traits{})
		cfg := withStates(w.config(t, testdisk.NewFaulty(testdisk.NewMem(), testdisk.FailFrom(1500, errDead))), store)
		cfg.Frontier.HostDelay = 10 * time.Second
		if _, err := life(cfg); !errors.Is(err, errDead) {
			t.Fatalf("the first process: %v", err)
		}
		pages := 0
		for at, of, live := int64(0), "disk", 0; ; {
			at += int64(testtier.Stride(5))
			mem, place := testdisk.NewMem(), &deadStore{Sim: store}
			hook := testdisk.FailFrom(at, errDead)
			if of == "store" {
				hook = nil
				place.at.Store(at)
			}
			series := saving.Series{Store: stores.Place{URL: "s3://bucket/", Backend: place}, Dir: "/crawl"}
			series.FS = testdisk.NewFaulty(mem, hook)
			killed := saving.Bring(t.Context(), series, true)
			if killed != nil && !errors.Is(killed, errDead) {
				t.Fatal(killed)
			}
			if at%7 == 0 {
				mem = mem.Crash(uint64(at))
			}
			series.FS = mem
			place.at.Store(0)
			_, err := mem.Stat("/crawl/crawl.yaml")
			begun := err == nil
			must.Do(t, saving.Bring(t.Context(), series, true))
			indexes := must.Get(mem.ReadDir("/crawl/state/index"))(t)
			manifests, segments := "", must.Get(mem.ReadDir("/crawl/crawl-data/web/segments"))(t)
			for _, s := range segments {
				name := "crawl-data/web/segments/" + s.Name() + "/"
				manifests += read(t, mem, name+"manifest.json") + read(t, mem, name+"_SUCCESS")
			}
			for _, e := range indexes {
				if base, ok := strings.CutSuffix(e.Name(), ".cdxj"); ok && !strings.Contains(manifests, base) {
					t.Fatalf("killed at %d of the %s: no segment has %s", at, of, base)
				}
			}
			if _, err := mem.Stat("/crawl/restoring"); err == nil {
				t.Errorf("killed at %d of the %s: folder restoring stays", at, of)
			}
			if len(segments) < 2 {
				t.Fatalf("%d segments", len(segments))
			}
			if begun || at%int64(testtier.Rounds(50, 1)) == 0 { // it goes on to the end
				if live++; live%testtier.Rounds(10, 1) == 0 {
					copied := store.Clone()
					cfg := withStates(w.config(t, mem), copied)
					cfg.Resume = true
					if res := must.Get(life(cfg))(t); res.Stop != crawl.Finished {
						t.Errorf("killed at %d of the %s: %s", at, of, res.Stop)
					}
					index := read(t, mem, "indexes/index.cdxj")
					for u, n := range must.Get(storedRecords(copied))(t) {
						if strings.Count(index, `"`+u+`"`) < n {
							t.Errorf("killed at %d of the %s: the index has not %d records of %s", at, of, n, u)
						}
						pages++
					}
				}
			}
			if killed == nil && of == "store" {
				t.Logf("%d requests, %d pages", at-1, pages)
				break
			}
			if killed == nil {
				t.Logf("%d operations", at-1)
				at, of = 0, "store"
			}
		}
	})
}

// bring brings the newest state of a store to a disk. The process that does so is killed at random operations.
func bring(t *testing.T, mem *testdisk.Mem, store *teststore.Sim, rng *rand.Rand) (v image.Saved, err error) {
	t.Helper()
	s := saving.Series{Store: stores.Place{URL: "s3://bucket/", Backend: store}, Dir: "/crawl"}
	p := image.Place{Store: must.Get(stores.Open(mem, s.Store, object.Config{}))(t),
		Prefix: "crawl-data/web/state/agent/"}
	for at := rng.Int64N(400) + 1; ; at += rng.Int64N(400) {
		s.FS = testdisk.NewFaulty(mem, testdisk.FailFrom(at, errDead))
		if v, err = image.Look(t.Context(), p); errors.Is(err, image.ErrDamaged) {
			err = nil // a claim mends it
		}
		if err != nil && !errors.Is(err, image.ErrNone) {
			return v, err
		}
		if err = saving.Bring(t.Context(), s, true); !errors.Is(err, errDead) {
			return v, err
		}
	}
}

// TestStatesOutliveDisks loses an agent and its disk up to three times, at random operations of the disk, and goes on
// from the store. The process that brings the state is killed, too. At the end each page is in a committed segment of
// the store, and the index of the agent has what the store has. No page that a state calls finished is fetched after
// that state was restored.
func TestStatesOutliveDisks(t *testing.T) {
	states := 0
	for seed := range uint64(testtier.Rounds(12/testtier.Stride(2), 300)) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			w, store := newSmallWeb(t), teststore.NewSim(seed, teststore.Traits{})
			store.Fail(teststore.Faults{Delay: 100 * time.Millisecond, Busy: 0.02, Broken: 0.02, LostRequest: 0.02,
				LostAnswer: 0.02, Lying: 0.02, Torn: 0.02, TornAnswer: 0.02})
			done := map[string]bool{} // by the state that was restored
			var since time.Time
			resume, taken, indexed := false, time.Time{}, ""
			var lost [][2]time.Time // times whose pages a state had not
			for lives := 0; ; lives++ {
				mem := testdisk.NewMem()
				if resume {
					v, err := bring(t, mem, store, rng)
					if _, none := errors.AsType[*input.ConfigError](err); none {
						resume = false
					} else if err != nil {
						t.Fatalf("seed %d, life %d: %v", seed, lives, err)
					}
					taken = v.Taken
					lost = append(lost, [2]time.Time{taken.Add(-time.Second), time.Now()})
				}
				if resume {
					states++
					since = time.Now()
					for line := range strings.Lines(read(t, mem, "logs/crawl.log")) { // it may be ahead of the journal
						at := must.Get(time.Parse(time.RFC3339, strings.Fields(line)[0]))(t)
						ahead := slices.ContainsFunc(lost, func(l [2]time.Time) bool {
							return at.After(l[0]) && at.Before(l[1])
						})
						if !ahead && at.Before(taken.Add(-time.Second)) {
							done[strings.Fields(line)[3]] = true
						}
					}
				}
				last := int64(1 << 40)
				if lives < 3 {
					last = 200 + rng.Int64N(1500)
				}
				faulty := testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
					if c.Change >= last {
						return testdisk.Fault{Err: errDead}
					}
					return testdisk.Fault{}
				})
				cfg := withStates(w.config(t, faulty), store)
				cfg.Frontier.HostDelay, cfg.Resume = 10*time.Second, resume
				res, err := life(cfg)
				if err == nil {
					if res.Stop != crawl.Finished {
						t.Errorf("seed %d: %s", seed, res.Stop)
					}
					indexed = read(t, mem, "indexes/index.cdxj")
					break
				}
				if !errors.Is(err, errDead) {
					t.Fatalf("seed %d, life %d: %v", seed, lives, err)
				}
				resume = true
			}
			records, err := storedRecords(store)
			must.Do(t, err)
			for _, u := range smallURLs() {
				if records[u] == 0 {
					t.Errorf("seed %d: %s is in no segment of the store", seed, u)
				}
				if !strings.Contains(indexed, `"`+u+`"`) {
					t.Errorf("seed %d: %s is not in the index", seed, u)
				}
			}
			for _, r := range w.since(since) {
				if !since.IsZero() && done[r.URL] {
					t.Errorf("seed %d: %s was finished, and is fetched again", seed, r.URL)
				}
			}
		})
	}
	if states < 5 {
		t.Errorf("only %d states were restored", states)
	}
}

// A cutOff is the store for a process that does not reach it any more once cut is set.
type cutOff struct {
	*teststore.Sim
	cut atomic.Bool
}

func (c *cutOff) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, int64, error) {
	if c.cut.Load() {
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	return c.Sim.Get(ctx, key, offset, length)
}

func (c *cutOff) Put(ctx context.Context, key string, b object.Content, sum object.Sum, when object.Condition) error {
	if c.cut.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return c.Sim.Put(ctx, key, b, sum, when)
}

// TestStatesFence resumes a crawl from its store while its process still crawls, with and without a way to the store.
// The process stops, and the other one begins to fetch after that.
func TestStatesFence(t *testing.T) {
	for _, c := range []struct{ cut, killed bool }{{false, false}, {true, false}, {true, true}} {
		synctest.Test(t, func(t *testing.T) {
			cut := c.cut
			w, store := newSmallWeb(t), teststore.NewSim(1, teststore.Traits{})
			first := &cutOff{Sim: store}
			old := withStates(w.config(t, testdisk.NewMem()), store)
			old.Store.Backend, old.Frontier.HostDelay = first, 10*time.Second
			old.Fetch.Dial = w.Dialer("old", func() bool { return false })
			ended := make(chan error, 1)
			go func() {
				_, err := life(old)
				ended <- err
			}()
			time.Sleep(50 * time.Second)
			first.cut.Store(cut)
			mem := testdisk.NewMem()
			place := stores.Place{URL: "s3://bucket/", Backend: store}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			if c.killed { // while it waits until the first process has stopped
				time.AfterFunc(10*time.Second, stop)
			}
			v, err := saving.Fetch(ctx, saving.Series{Store: place, FS: mem, Dir: "/crawl"})
			if (err != nil) != c.killed {
				t.Fatal(err)
			}
			cfg := withStates(w.config(t, mem), store)
			cfg.Resume, cfg.Fetch.Dial = true, w.Dialer("new", func() bool { return false })
			cfg.Frontier.HostDelay = 5 * time.Second
			res := must.Get(life(cfg))(t)
			first.cut.Store(false)
			if err := <-ended; !errors.Is(err, image.ErrFenced) || v.Number == 0 || res.Stop != crawl.Finished {
				t.Errorf("cut off: %v: the first process ends with %v, the other one: %s", cut, err, res.Stop)
			}
			begun := false
			for _, r := range w.Told() {
				begun = begun || r.By == "new"
				if begun && r.By == "old" {
					t.Errorf("%+v: the first process asks for %s after the other one has begun", c, r.URL)
				}
			}
			records := must.Get(storedRecords(store))(t)
			for _, u := range smallURLs() {
				if records[u] == 0 {
					t.Errorf("cut off: %v: %s is in no segment", cut, u)
				}
			}
			// The directory of the first process is out of date.
			old.Resume, old.Store.Backend = true, store
			if _, err := life(old); err == nil || !strings.Contains(err.Error(), "out of date") {
				t.Errorf("cut off: %v: the first directory is resumed: %v", cut, err)
			}
		})
	}
}

// TestStatesWait: while the store is away for some minutes, no visit begins, and then the crawl goes on.
func TestStatesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, store := newSmallWeb(t), teststore.NewSim(1, teststore.Traits{})
		cut := &cutOff{Sim: store}
		cfg := withStates(w.config(t, testdisk.NewMem()), store)
		cfg.Store.Backend, cfg.Frontier.HostDelay = cut, 10*time.Second
		var from, to time.Time
		back := make(chan struct{})
		go func() {
			defer close(back)
			time.Sleep(30 * time.Second)
			cut.cut.Store(true)
			from = time.Now()
			time.Sleep(5 * time.Minute)
			cut.cut.Store(false)
			to = time.Now()
		}()
		if res := must.Get(life(cfg))(t); res.Stop != crawl.Finished {
			t.Errorf("%s", res.Stop)
		}
		<-back
		for _, r := range w.since(from.Add(45 * time.Second)) {
			if w.Start.Add(r.At).Before(to) {
				t.Errorf("%s was asked for while the store was away", r.URL)
			}
		}
	})
}

// TestStatesAreReplaced begins a crawl anew whose name has a state in the store: it is refused, or says what it does.
// Its own state is the newest one then, and goes on.
func TestStatesAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, store := newSmallWeb(t), teststore.NewSim(1, teststore.Traits{})
		must.Get(life(withStates(w.config(t, testdisk.NewMem()), store)))(t)
		cfg := withStates(w.config(t, testdisk.NewMem()), store)
		if _, err := life(cfg); err == nil || !strings.Contains(err.Error(), "saved state of a crawl named web") {
			t.Errorf("the same name: %v", err)
		}
		var told []string
		cfg = withStates(w.config(t, testdisk.NewMem()), store)
		cfg.Overwrite, cfg.Note = true, func(text string) { told = append(told, text) }
		begun := time.Now()
		must.Get(life(cfg))(t)
		if all := strings.Join(told, "\n"); !strings.Contains(all, "This crawl begins anew: its first state replaces") {
			t.Errorf("told: %s", all)
		}
		if n := len(w.since(begun)); n < len(smallURLs()) {
			t.Errorf("the new crawl asked %d times, for %d pages", n, len(smallURLs()))
		}
		mem := testdisk.NewMem()
		v, err := saving.Fetch(t.Context(), saving.Series{Store: stores.Place{URL: "s3://bucket/", Backend: store},
			FS: mem, Dir: "/crawl"})
		if err != nil || v.Taken.Before(begun) {
			t.Errorf("the state is of %s, the crawl began at %s: %v", v.Taken, begun, err)
		}
	})
}

// A crawl that has just ended has no state to cut, and that is no failure: the end of the run saves the last one.
func TestNoCutAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mem := newSmallWeb(t), testdisk.NewMem()
		a := must.Get(node.Open(withStates(w.config(t, mem), teststore.NewSim(1, teststore.Traits{}))))(t)
		must.Get(a.Run(t.Context()))(t)
		if ok, err := a.Cut(t.Context()); ok || err != nil {
			t.Errorf("after the end a state was cut: %t, %v", ok, err)
		}
		must.Do(t, a.Close())
	})
}
