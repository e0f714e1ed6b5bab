package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/past"
	"github.com/orbweaver/orbweaver/internal/output/moved"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// A mortalStore is a store whose client dies at a request.
type mortalStore struct {
	*teststore.Sim
	writes atomic.Int64
	last   int64 // that is made; 0: none is the last
	dies   func()
}

var errKilled = errors.New("killed")

func (s *mortalStore) alive() error {
	if n := s.writes.Add(1); s.last > 0 && n > s.last {
		s.dies()
		return errKilled
	}
	return nil
}

func (s *mortalStore) Put(ctx context.Context, key string, c object.Content, sum object.Sum, w object.Condition) error {
	if err := s.alive(); err != nil {
		return err
	}
	return s.Sim.Put(ctx, key, c, sum, w)
}

func (s *mortalStore) Stat(ctx context.Context, key string) (object.Info, error) {
	if err := s.alive(); err != nil {
		return object.Info{}, err
	}
	return s.Sim.Stat(ctx, key)
}

// archiveBytes returns what the segments' WARC files and logs take, and what the largest segment had, as far as its
// manifest says.
func archiveBytes(fs disk.FS) (bytes int64) {
	const root = "/crawl/crawl-data/web/segments"
	segments, _ := fs.ReadDir(root)
	for _, s := range segments {
		for _, part := range []string{"warc", "robotstxt", "crawldiagnostics"} {
			files, _ := fs.ReadDir(path.Join(root, s.Name(), part))
			for _, f := range files {
				if info, err := f.Info(); err == nil {
					bytes += info.Size()
				}
			}
		}
	}
	return bytes
}

// withStore returns a copy of the disk that also has the objects of the store, at their places in the crawl directory.
func withStore(t *testing.T, mem *testdisk.Mem, s *teststore.Sim) *testdisk.Mem {
	t.Helper()
	all := mem.Clone()
	for _, key := range s.Keys() {
		name := "/crawl/" + key
		if _, err := all.Stat(name); errors.Is(err, fs.ErrNotExist) {
			must.Do(t, all.MkdirAll(path.Dir(name), 0o755))
			must.Do(t, disk.WriteFile(all, name, s.Content(key)))
		}
	}
	return all
}

const (
	roomSegment = 12 << 10
	roomMost    = 30 << 10
	// roomOver is what may come on top: a segment, a file of 20,000 bytes that ends it, and visits in progress.
	roomOver = roomSegment + 3*21_000
)

// roomConfig is that of a crawl with segments, a store and a small local archive.
func roomConfig(t *testing.T, w *smallWeb, mem disk.FS, s object.Backend) node.Config {
	cfg := w.config(t, mem)
	cfg.Frontier.HostDelay = 700 * time.Millisecond
	cfg.Archive.Segments = warc.Segments{Crawl: "web", Bytes: roomSegment}
	most := int64(roomMost)
	cfg.LocalArchive, cfg.Store = &most, past.Place{URL: "sim://store/", Backend: s}
	return cfg
}

// TestLocalArchiveKilled kills a crawl with a bounded archive and a bad store at operations of the disk and of the
// store, and goes on. At the end each page is in one committed segment or more, the store has all segments, and the
// disk never had more than its bound, a segment and the open files.
func TestLocalArchiveKilled(t *testing.T) {
	rounds := testtier.Rounds(24/testtier.Stride(3), 400)
	changes, writes := int64(0), int64(0)
	for round := 0; round <= rounds; round++ {
		synctest.Test(t, func(t *testing.T) {
			w, mem := newSmallWeb(t), testdisk.NewMem()
			sim := teststore.NewSim(uint64(round), teststore.Traits{})
			sim.Fail(teststore.Faults{Delay: time.Second, Busy: 0.1, Broken: 0.05, LostRequest: 0.05, LostAnswer: 0.05,
				Lying: 0.03, Torn: 0.03, TornAnswer: 0.05})
			var dead atomic.Bool
			store := &mortalStore{Sim: sim, dies: func() { dead.Store(true) }}
			at, inStore := int64(0), round%2 == 1
			if round > 0 && inStore {
				at = writes * int64(round) / int64(rounds+1)
				store.last = at
			} else if round > 0 {
				at = changes * int64(round) / int64(rounds+1)
			}
			faulty := testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
				if dead.Load() || at > 0 && !inStore && c.Change >= at {
					dead.Store(true)
					return testdisk.Fault{Err: errKilled}
				}
				return testdisk.Fault{}
			})
			what := fmt.Sprintf("round %d, killed at %d (in the store: %v)", round, at, inStore)
			most := watchArchive(t, mem)
			cfg := roomConfig(t, w, faulty, store)
			_, err := life(cfg)
			if round == 0 {
				must.Do(t, err)
				_, changes = faulty.Calls()
				writes = store.writes.Load()
			} else if err != nil && !errors.Is(err, errKilled) {
				t.Errorf("%s: %v", what, err)
			}
			first := most()
			if round%4 > 1 {
				mem = mem.Crash(uint64(round))
			}
			_, err = mem.Stat("/crawl/crawl.yaml")
			cfg = roomConfig(t, w, mem, sim)
			cfg.Resume, cfg.Effective = err == nil, nil
			most = watchArchive(t, mem)
			res := must.Get(life(cfg))(t)
			if n := max(first, most()); n > roomMost+roomOver {
				t.Errorf("%s: the archive had %d bytes here, at most %d are allowed", what, n, roomMost)
			}
			if left := archiveBytes(mem); left > roomMost {
				t.Errorf("%s: the archive has %d bytes at the end, at most %d are allowed", what, left, roomMost)
			}
			records, segments, err := inSegments(withStore(t, mem, sim))
			if err != nil || res.Stop != crawl.Finished || segments < 3 {
				t.Errorf("%s: %s, %d segments, %v", what, res.Stop, segments, err)
			}
			for _, u := range smallURLs() {
				if records[u] == 0 {
					t.Errorf("%s: %s is in no segment", what, u)
				}
			}
			names, _ := mem.ReadDir("/crawl/crawl-data/web/segments")
			for _, d := range names {
				if sim.Content("crawl-data/web/segments/"+d.Name()+"/_SUCCESS") == nil {
					t.Errorf("%s: the store lacks the segment %s", what, d.Name())
				}
			}
			readThrough(t, mem, sim, what)
		})
	}
}

// watchArchive looks at the disk ten times a second until the returned function is called. That returns the most that
// the archive took.
func watchArchive(t *testing.T, mem *testdisk.Mem) (most func() int64) {
	end, ended := make(chan struct{}), make(chan int64)
	go func() {
		n := int64(0)
		for {
			select {
			case <-time.After(100 * time.Millisecond):
				n = max(n, archiveBytes(mem))
			case <-end:
				ended <- n
				return
			case <-t.Context().Done():
				return
			}
		}
	}()
	return func() int64 { close(end); return <-ended }
}

// readThrough reads each record that the index names, wherever its file is. A store that is away is an error of its
// own.
func readThrough(t *testing.T, mem *testdisk.Mem, sim *teststore.Sim, what string) {
	t.Helper()
	sim.Fail(teststore.Faults{})
	fsys := past.Moved(mem, past.Place{Backend: sim})
	gone := warc.Line{}
	for line := range strings.Lines(read(t, mem, "indexes/index.cdxj")) {
		l := must.Get(warc.ParseLine([]byte(strings.TrimSpace(line))))(t)
		rec, f, err := warc.OpenRecord(fsys, "/crawl", l)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if rec.URL() != l.URL {
			t.Errorf("%s: the record at %s %d is of %s, not of %s", what, l.File, l.Offset, rec.URL(), l.URL)
		}
		if _, err := io.Copy(io.Discard, rec); err != nil {
			t.Errorf("%s: %s: %v", what, l.URL, err)
		}
		must.Do(t, f.Close())
		if _, _, err := warc.OpenRecord(mem, "/crawl", l); err != nil {
			gone = l
		}
	}
	if gone.File == "" {
		t.Errorf("%s: no file was removed", what)
		return
	}
	sim.Fail(teststore.Faults{LostRequest: 1})
	fsys = past.Moved(mem, past.Place{Backend: sim})
	_, _, err := warc.OpenRecord(fsys, "/crawl", gone)
	if _, ok := errors.AsType[*moved.Unavailable](err); !ok || errors.Is(err, fs.ErrNotExist) ||
		!errors.Is(err, object.ErrAway) {
		t.Errorf("%s: the store is away, and the error is %v", what, err)
	}
}

// TestStoreAway: while the store is away, a crawl with a bounded archive waits, and says so. It goes on when the store
// is back, and loses nothing.
func TestStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mem := newSmallWeb(t), testdisk.NewMem()
		sim := teststore.NewSim(1, teststore.Traits{})
		sim.Fail(teststore.Faults{LostRequest: 1})
		cfg := roomConfig(t, w, mem, sim)
		a := must.Get(node.Open(cfg))(t)
		most := watchArchive(t, mem)
		stopped := make(chan node.Result, 1)
		go func() {
			res, err := a.Run(context.Background())
			if err != nil {
				t.Error(err)
			}
			stopped <- res
		}()
		time.Sleep(5 * time.Minute)
		before := len(w.Told())
		time.Sleep(30 * time.Minute)
		s := a.Status()
		if len(w.Told()) != before || s.Stop != "" {
			t.Errorf("%d requests were made while the store was away, stop %q", len(w.Told())-before, s.Stop)
		}
		const waits = "the store, which does not have "
		if !strings.HasPrefix(s.WaitsFor, waits) || !strings.Contains(s.WaitsFor, "it has not answered for ") {
			t.Errorf("the crawl waits for %q", s.WaitsFor)
		}
		if d := s.Disk; d.Unsent <= roomMost || d.Here < d.Unsent || d.Away.IsZero() {
			t.Errorf("the status says %+v", d)
		}
		if events := read(t, mem, "logs/events.jsonl"); !strings.Contains(events, `"event":"archive-full","unsent":`) {
			t.Errorf("no event:\n%s", events)
		}
		sim.Fail(teststore.Faults{})
		res := <-stopped
		must.Do(t, a.Close())
		if n := most(); res.Stop != crawl.Finished || n > roomMost+roomOver {
			t.Errorf("%s with %d bytes", res.Stop, n)
		}
		records, _, err := inSegments(withStore(t, mem, sim))
		for _, u := range smallURLs() {
			if records[u] != 1 {
				err = errors.Join(err, fmt.Errorf("%s has %d records", u, records[u]))
			}
		}
		events := read(t, mem, "logs/events.jsonl")
		if err != nil || !strings.Contains(events, `"event":"archive-room"`) ||
			!strings.Contains(events, `"event":"segment-removed"`) {
			t.Errorf("%v\n%s", err, events)
		}
	})
}

// TestNoRoom: an archive that may keep nothing here waits for the store after each segment, which the setting asks for.
// The first wait is told, and the next ones are not.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mem := newSmallWeb(t), testdisk.NewMem()
		sim := teststore.NewSim(1, teststore.Traits{})
		sim.Fail(teststore.Faults{Delay: 3 * time.Second})
		cfg := roomConfig(t, w, mem, sim)
		*cfg.LocalArchive = 0
		if res := must.Get(life(cfg))(t); res.Stop != crawl.Finished {
			t.Errorf("the crawl ended as %s", res.Stop)
		}
		events := read(t, mem, "logs/events.jsonl")
		full, room := strings.Count(events, `"archive-full"`), strings.Count(events, `"archive-room"`)
		if n := strings.Count(events, `"segment-committed"`); n < 3 || full != 1 || room != 1 {
			t.Errorf("%d segments: archive-full %d times, archive-room %d times; want once", n, full, room)
		}
	})
}
