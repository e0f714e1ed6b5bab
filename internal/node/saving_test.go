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

// TestStatesOutliveDisks loses an agent and its disk up to three times, at random operations of the disk, and goes on
// from the store. At the end each page is in a committed segment of the store. No page that a state calls finished is
// fetched after that state was restored.
func TestStatesOutliveDisks(t *testing.T) {
	states := 0
	for seed := range uint64(testtier.Rounds(12, 300)) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			w, store := newSmallWeb(t), teststore.NewSim(seed, teststore.Traits{})
			store.Fail(teststore.Faults{Delay: 100 * time.Millisecond, Busy: 0.02, Broken: 0.02, LostRequest: 0.02,
				LostAnswer: 0.02, Lying: 0.02, Torn: 0.02, TornAnswer: 0.02})
			dead := errors.New("killed")
			done := map[string]bool{} // by the state that was restored
			var since time.Time
			resume, taken := false, time.Time{}
			var lost [][2]time.Time // times whose pages a state had not
			for lives := 0; ; lives++ {
				mem := testdisk.NewMem()
				if resume {
					v, err := saving.Fetch(t.Context(), saving.Series{Store: stores.Place{URL: "s3://bucket/",
						Backend: store}, FS: mem, Dir: "/crawl"}, nil)
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
						return testdisk.Fault{Err: dead}
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
					break
				}
				if !errors.Is(err, dead) {
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
			v, err := saving.Fetch(ctx, saving.Series{Store: place, FS: mem, Dir: "/crawl"}, nil)
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
