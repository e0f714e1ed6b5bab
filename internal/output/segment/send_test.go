package segment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/remote"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// sendAll sends all segments, as a crawl does.
func sendAll(ctx context.Context, fsys disk.FS, store IndexStore) error {
	c := Committer{FS: fsys, Dir: "/c", Crawl: "web"}
	names, err := c.Unsent(store)
	for _, name := range names {
		if _, err := c.Send(ctx, store, name); err != nil {
			return err
		}
	}
	return errors.Join(err, c.SendLists(ctx, store), c.SendIndex(ctx, store))
}

// inStore checks that each segment in a store that has _SUCCESS is equal to the one here, file by file. It returns
// the number of these segments.
func inStore(mem *testdisk.Mem, sim *teststore.Sim) (n int, err error) {
	const root = "crawl-data/web/segments/"
	keys := sim.Keys()
	for _, key := range keys {
		segment, ok := strings.CutSuffix(key, "/_SUCCESS")
		if !ok {
			continue
		}
		n++
		var want []string
		err := walk(mem, "/c/"+segment, &want)
		if err != nil {
			return n, err
		}
		var got []string
		for _, k := range keys {
			if strings.HasPrefix(k, segment+"/") {
				got = append(got, "/c/"+k)
				b, err := disk.ReadFile(mem, "/c/"+k, 1<<20)
				if err != nil || string(b) != string(sim.Content(k)) {
					return n, fmt.Errorf("%s: %d bytes in the store, %d here, %w", k, len(sim.Content(k)), len(b), err)
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) || !strings.HasPrefix(segment, root) {
			return n, fmt.Errorf("%s: the store has %q, want %q", segment, got, want)
		}
	}
	return n, nil
}

// mergedInStore checks that the merged index in a store has the lines of all segments here, and that nothing is left of
// its making.
func mergedInStore(ctx context.Context, mem *testdisk.Mem, store IndexStore) error {
	far := remote.New(ctx, store, "", remote.Config{})
	names, err := warc.SegmentNames(mem, "/c", "web")
	if err != nil {
		return err
	}
	m, err := warc.ReadMerged(far, "crawl-data/web/index.idx")
	if err != nil || !slices.Equal(m.Segments, names) {
		return fmt.Errorf("the merged index has %q, want %q: %w", m.Segments, names, err)
	}
	var lists [2][]warc.Line
	p := warc.Place{Merged: []string{"crawl-data/web/index.idx"}, Parts: []string{"none"}}
	for l, err := range warc.Lines(far, p, "") {
		if err != nil {
			return err
		}
		lists[0] = append(lists[0], l)
	}
	p = warc.Place{}
	for _, name := range names {
		p.Parts = append(p.Parts, "/c/crawl-data/web/segments/"+name+"/index.cdxj")
	}
	for l, err := range warc.Lines(mem, p, "") {
		if err != nil {
			return err
		}
		lists[1] = append(lists[1], l)
	}
	if len(lists[0]) == 0 || !slices.Equal(lists[0], lists[1]) {
		return fmt.Errorf("the merged index has %d lines, want %d", len(lists[0]), len(lists[1]))
	}
	if _, err := mem.Stat("/c/crawl-data/web/indexing"); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder of the merged index: %v", err)
	}
	return nil
}

// walk adds the files of a folder, but for the note that it was sent.
func walk(mem *testdisk.Mem, dir string, files *[]string) error {
	entries, err := mem.ReadDir(dir)
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		switch {
		case e.IsDir():
			err = errors.Join(err, walk(mem, name, files))
		case !strings.HasPrefix(e.Name(), "_STORED"):
			*files = append(*files, name)
		}
	}
	slices.Sort(*files)
	return err
}

// TestSend sends segments to a store that fails in all ways. A kill or a power failure comes at many operations of the
// disk, and cuts off requests. A segment with _SUCCESS is always whole in the store, and at the end all are there.
func TestSend(t *testing.T) {
	whole := testdisk.NewMem()
	archive(t, whole)
	must.Do(t, commitAll(whole))
	changes := int64(1)
	for n := int64(0); n < changes; n += int64(testtier.Rounds(2, 1)) {
		synctest.Test(t, func(t *testing.T) {
			mem, sim := whole.Clone(), teststore.NewSim(uint64(n), teststore.Traits{})
			sim.Fail(teststore.Faults{Delay: time.Second, Busy: 0.2, LostAnswer: 0.1, Lying: 0.05, Torn: 0.05})
			store := object.New(sim, "sim://store", object.Config{})
			faulty := testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
				if n > 0 && c.Change >= n {
					return testdisk.Fault{Err: errors.New("killed")}
				}
				return testdisk.Fault{}
			})
			err := sendAll(t.Context(), faulty, store)
			if n == 0 {
				must.Do(t, err)
				_, changes = faulty.Calls()
			}
			if _, err := inStore(mem, sim); err != nil {
				t.Errorf("killed at operation %d: %v", n, err)
			}
			mem = mem.Crash(uint64(n))
			must.Do(t, sendAll(t.Context(), mem, object.New(sim, "sim://store", object.Config{})))
			if k, err := inStore(mem, sim); err != nil || k < 2 {
				t.Errorf("killed at operation %d, sent again: %d segments, %v", n, k, err)
			}
			must.Do(t, mergedInStore(t.Context(), mem, store))
			c := Committer{FS: mem, Dir: "/c", Crawl: "web"}
			if left, err := c.Unsent(store); err != nil || len(left) > 0 {
				t.Errorf("not sent: %q, %v", left, err)
			}
			if left, err := c.Unsent(object.New(sim, "sim://other", object.Config{})); err != nil || len(left) < 2 {
				t.Errorf("another store lacks only %q, %v", left, err)
			}
		})
	}
}

// TestRemoveStored: a kill comes between the writing of _STORED and its sync, the next run removes the files of the
// segment, and then the power is cut. The segment has _STORED, or all its files.
func TestRemoveStored(t *testing.T) {
	mem := testdisk.NewMem()
	archive(t, mem)
	must.Do(t, commitAll(mem))
	written := false
	faulty := testdisk.NewFaulty(mem, func(c testdisk.Call) testdisk.Fault {
		if written = written || strings.HasSuffix(c.Name, "/_STORED.tmp") && c.Op == testdisk.OpRename; written &&
			c.Op == testdisk.OpSyncDir {
			return testdisk.Fault{Err: syscall.EIO}
		}
		return testdisk.Fault{}
	})
	store := object.New(teststore.NewSim(1, teststore.Traits{}), "sim://store", object.Config{})
	c := Committer{FS: faulty, Dir: "/c", Crawl: "web"}
	name := must.Get(c.Unsent(store))(t)[0]
	var before []string
	must.Do(t, walk(mem, c.path(name), &before))
	if _, err := c.Send(t.Context(), store, name); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	faulty.Heal()
	must.Do(t, c.RemoveStored(name))
	for seed := range uint64(50) {
		var left []string
		after := mem.Crash(seed)
		must.Do(t, walk(after, c.path(name), &left))
		if _, err := StoreOf(after, c.path(name)); err != nil && !slices.Equal(left, before) {
			t.Errorf("seed %d: %v, and %d of %d files", seed, err, len(left), len(before))
		}
	}
}
