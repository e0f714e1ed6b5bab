package warc

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// unfinished returns a disk on which a crawl was killed: its WARC file has several sorted runs and records after them.
func unfinished(t *testing.T, span int64) (mem *testdisk.Mem, name string, size int64) {
	t.Helper()
	mem = testdisk.NewMem()
	cfg := testConfig("/c")
	cfg.FS, cfg.runSpan = mem, span
	w, _, err := Open(cfg)
	must.Do(t, err)
	for i := range 40 {
		body := fmt.Sprint(i, lorem[:700])
		url := fmt.Sprintf("http://example.com/%d", 40-i)
		at, err := w.Write(page(url, "HTTP/1.1 200 OK\nContent-Type: text/plain", body))
		must.Do(t, err)
		name, size = at.File, at.End
	}
	must.Do(t, w.Flush())
	return mem, name, size
}

// TestRecoveryReadsTheEnd opens archives whose sorted runs tell of most records, and of which some runs are missing or
// damaged. The index is always the one of a full scan.
func TestRecoveryReadsTheEnd(t *testing.T) {
	const span, short = 10_000, "the file is shorter than its runs tell"
	run := func(name string, n int) string { return "/c/state/index/" + runName(name, n) }
	for _, c := range []struct {
		title  string
		change func(mem *testdisk.Mem, name string) error
		most   int64 // bytes that Open reads; zero: all
	}{
		{"whole", func(*testdisk.Mem, string) error { return nil }, 2 * span},
		{"the last run is there", func(mem *testdisk.Mem, name string) error {
			last := "/c/state/index/" + runBase(name) + cdxjExt
			return disk.WriteFile(mem, last, []byte("com,example)/ 20260102150405 {}\n"))
		}, 2 * span},
		{"no first run", func(mem *testdisk.Mem, name string) error { return mem.Remove(run(name, 0)) }, 0},
		{"no second run", func(mem *testdisk.Mem, name string) error { return mem.Remove(run(name, 1)) }, 0},
		{"an empty run", func(mem *testdisk.Mem, name string) error {
			return disk.WriteFile(mem, run(name, 1), nil)
		}, 0},
		{"a run of other text", func(mem *testdisk.Mem, name string) error {
			return disk.WriteFile(mem, run(name, 0), []byte("no line\n"))
		}, 0},
		{"a run without an end", func(mem *testdisk.Mem, name string) error {
			b, err := disk.ReadFile(mem, run(name, 1), 1<<20)
			if err != nil {
				return err
			}
			return disk.WriteFile(mem, run(name, 1), b[:len(b)-1])
		}, 0},
		{"a run with an endless line", func(mem *testdisk.Mem, name string) error {
			return disk.WriteFile(mem, run(name, 0), bytes.Repeat([]byte("a"), lineLimit+1))
		}, 0},
		{"runs of an earlier program", func(mem *testdisk.Mem, name string) error {
			for n := range 2 {
				older := fmt.Sprintf("/c/state/index/%s%s.%d", runBase(name), cdxjExt, n)
				if err := mem.Rename(run(name, n), older); err != nil {
					return err
				}
			}
			return nil
		}, 0},
		{short, func(mem *testdisk.Mem, name string) error {
			f, err := mem.OpenFile("/c/archive/"+name+openSuffix, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			return f.Truncate(3000)
		}, 0},
	} {
		mem, name, size := unfinished(t, span)
		must.Do(t, c.change(mem, name))
		cfg := testConfig("/c")
		cfg.FS = mem
		w, rec, err := Open(cfg)
		must.Do(t, err)
		must.Do(t, w.Close())
		if len(rec.Files) != 1 {
			t.Fatalf("%s: recovered %+v, want one file", c.title, rec)
		}
		got := rec.Files[0]
		if got.Bytes+got.Cut != size && c.title != short {
			t.Errorf("%s: recovered %+v, want %d bytes", c.title, got, size)
		}
		switch {
		case c.most > 0 && (got.Read == 0 || got.Read > c.most):
			t.Errorf("%s: Open has read %d of %d bytes, want at most %d", c.title, got.Read, size, c.most)
		case c.most == 0 && c.title != "no second run" && got.Read != got.Bytes:
			t.Errorf("%s: Open has read %d of %d bytes, want all", c.title, got.Read, got.Bytes)
		}
		if err := checkReopened(mem, nil); err != nil {
			t.Errorf("%s: %v", c.title, err)
		}
	}
}
