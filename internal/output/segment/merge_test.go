package segment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// merge merges all segments into one.
func merge(fsys disk.FS) error {
	done, err := MergeIn(context.Background(), fsys, "/c", "test/1", 1<<30)
	if err == nil && len(done) != 1 {
		err = fmt.Errorf("merged %+v", done)
	}
	return err
}

// urlsIn returns the lines of the index of each WARC file that a reader of the crawl directory finds, sorted.
func urlsIn(fsys disk.FS) (lines []string, err error) {
	files, err := warc.Files(fsys, "/c")
	for _, f := range files {
		in, bad := fsys.OpenFile(f.Path, 0, 0)
		if bad != nil {
			return nil, bad
		}
		err = errors.Join(err, warc.Index(in, f.Name, func(line []byte) error {
			lines = append(lines, string(line))
			return nil
		}), in.Close())
	}
	slices.Sort(lines)
	return lines, err
}

// judgeAll checks that one committed segment has everything.
func judgeAll(fsys disk.FS, want []string, most int) error {
	done, err := judge(fsys)
	err = errors.Join(err, judgeLogs(fsys, done, true), judgeTables(fsys, done))
	got, bad := urlsIn(fsys)
	if err = errors.Join(err, bad); err == nil && (!slices.Equal(got, want) || len(done) > most) {
		err = fmt.Errorf("%d segments with %d records, want %d with %d", len(done), len(got), most, len(want))
	}
	if _, left := fsys.Stat("/c/crawl-data/web/merging"); !errors.Is(left, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("the folder for merging is still there: %w", left))
	}
	for _, name := range done {
		rep, bad := Verify(fsys, Folder{"/c/crawl-data/web/segments/" + name, "/c"})
		if err = errors.Join(err, bad); bad == nil && rep.Errors+rep.Warnings > 0 {
			err = errors.Join(err, fmt.Errorf("verify: %q", rep.Problems))
		}
	}
	return err
}

// TestMerge merges segments, and those that have been merged before. What a store has, and what is not complete, stays.
func TestMerge(t *testing.T) {
	mem := testdisk.NewMem()
	archive(t, mem)
	must.Do(t, commitAll(mem))
	want := must.Get(urlsIn(mem))(t)
	names := segmentsOf(t, mem)
	must.Do(t, merge(mem))
	must.Do(t, judgeAll(mem, want, 1))
	if got := segmentsOf(t, mem); !slices.Equal(got, []string{fmt.Sprintf("%s-m%d", names[0], len(names))}) {
		t.Errorf("the segments are %q", got)
	}
	before := mem.Clone()
	must.Do(t, merge(mem)) // nothing is left to merge
	if a, b := segmentsOf(t, before), segmentsOf(t, mem); !slices.Equal(a, b) {
		t.Errorf("merged again: %q became %q", a, b)
	}

	appendLogs(t, mem, 5)
	_, _, err := committer(mem).CommitLogs(context.Background())
	must.Do(t, err)
	must.Do(t, merge(mem))
	must.Do(t, judgeAll(mem, want, 1))
	if got := segmentsOf(t, mem); !strings.HasSuffix(got[0], fmt.Sprintf("-m%d", len(names)+1)) {
		t.Errorf("the segments are %q", got)
	}
	appendLogs(t, mem, 5)
	m, _, err := committer(mem).CommitLogs(context.Background())
	must.Do(t, err)
	must.Do(t, disk.WriteFile(mem, "/c/crawl-data/web/segments/"+m.Segment+"/"+StoredName, []byte("s3://bucket/\n")))
	if must.Do(t, merge(mem)); len(segmentsOf(t, mem)) != 2 {
		t.Errorf("with a segment that a store has: %q", segmentsOf(t, mem))
	}
	lock := must.Get(disk.Lock(mem, "/c/state"))(t)
	if err := merge(mem); !errors.Is(err, disk.ErrLocked) {
		t.Errorf("while a crawl runs: %v", err)
	}
	must.Do(t, lock.Close())
}

// TestMergeKilled lets the disk fail at each change while segments are merged, then kills the process or cuts the
// power. A reader finds each record once at that moment already. The next merge, or the end of the next run, completes
// what was begun.
func TestMergeKilled(t *testing.T) {
	whole := testdisk.NewMem()
	archive(t, whole)
	must.Do(t, commitAll(whole))
	want := must.Get(urlsIn(whole))(t)
	many := len(segmentsOf(t, whole))
	counted := testdisk.NewFaulty(whole.Clone(), nil)
	must.Do(t, merge(counted))
	_, changes := counted.Calls()
	for n := int64(1); n <= changes; n += int64(testtier.Rounds(9, 1)) {
		mem := whole.Clone()
		if err := merge(testdisk.NewFaulty(mem, testdisk.FailFrom(n, syscall.ENOSPC))); !disk.IsFull(err) {
			t.Errorf("change %d: merge ended with %v", n, err)
		}
		for name, after := range map[string]*testdisk.Mem{"killed": mem, "power lost": mem.Crash(uint64(n))} {
			if got, err := urlsIn(after); err != nil || !slices.Equal(got, want) {
				t.Errorf("change %d, %s: a reader finds %d records, want %d, %v", n, name, len(got), len(want), err)
			}
			again := after.Clone()
			must.Do(t, committer(again).FinishMerges())
			must.Do(t, commitAll(again))
			if err := judgeAll(again, want, many); err != nil {
				t.Errorf("change %d, %s, then a run: %v", n, name, err)
			}
			must.Do(t, merge(after))
			if err := judgeAll(after, want, 1); err != nil {
				t.Errorf("change %d, %s, merged again: %v", n, name, err)
			}
		}
	}
}

// TestMergeDamaged merges nothing if a file is not what its manifest says.
func TestMergeDamaged(t *testing.T) {
	mem := testdisk.NewMem()
	archive(t, mem)
	must.Do(t, commitAll(mem))
	names := segmentsOf(t, mem)
	page := must.Get(warc.SegmentFiles(mem, "/c/crawl-data/web/segments/"+names[1]))(t)[0].Path
	must.Do(t, disk.WriteFile(mem, page, []byte("damaged")))
	if err := merge(mem); !errors.Is(err, warc.ErrDamaged) || !strings.Contains(err.Error(), page) {
		t.Errorf("the error is %v", err)
	}
	must.Do(t, committer(mem).FinishMerges())
	if got := segmentsOf(t, mem); !slices.Equal(got, names) {
		t.Errorf("the segments are %q, want %q", got, names)
	}
}
