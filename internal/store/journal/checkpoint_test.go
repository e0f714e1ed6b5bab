package journal_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestCheckpointBesideAppends writes a checkpoint while the Journal goes on. Whenever the machine dies, Replay must
// return either the old records or the checkpoint, plus all records synced since.
func TestCheckpointBesideAppends(t *testing.T) {
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("/j", 0o755))
	j, err := journal.Open(mem, "/j", journal.Config{})
	must.Do(t, err)
	var all []string
	put := func(s string) {
		t.Helper()
		all = append(all, s)
		must.Do(t, j.Append([]journal.Record{{'a', []byte(s)}}))
	}
	for i := range 5 {
		put(fmt.Sprint("before ", i))
	}
	check := func(when string, fs disk.FS, want []string) {
		t.Helper()
		var got []string
		_, err := journal.Replay(fs, "/j", func(_ byte, p []byte) error { got = append(got, string(p)); return nil })
		if err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	both := func(when string, want []string) {
		t.Helper()
		check(when+", killed", mem.Clone(), want)
		check(when+", without power", mem.Crash(3), want)
	}

	c, err := j.Begin()
	must.Do(t, err)
	put("beside 1")
	must.Do(t, j.Sync())
	both("begun", all)
	var recent []string
	must.Do(t, c.Replay(true, func(_ byte, p []byte) error { recent = append(recent, string(p)); return nil }))
	if !slices.Equal(recent, all[:5]) {
		t.Errorf("Checkpoint.Replay gave %q, want %q", recent, all[:5])
	}
	must.Do(t, c.Append('s', []byte("state")))
	put("beside 2")
	// An fsync makes durable what was committed before it began.
	s, err := j.BeginSync()
	must.Do(t, err)
	put("beside 3")
	must.Do(t, j.Commit())
	must.Do(t, j.EndSync(s, s.Run()))
	check("synced", mem.Clone(), all)
	must.Do(t, c.Finish())
	must.Do(t, j.Sync())
	both("finished", all)
	must.Do(t, j.Adopt(c, nil))
	after := append([]string{"state"}, all[5:]...)
	both("adopted", after)
	if got := j.SinceSnapshot(); got != j.SegmentBytes() {
		t.Errorf("SinceSnapshot() = %d, want the segment's %d", got, j.SegmentBytes())
	}

	// An abandoned checkpoint changes nothing.
	c, err = j.Begin()
	must.Do(t, err)
	must.Do(t, c.Append('s', []byte("half")))
	put("beside 4")
	must.Do(t, j.Sync())
	c.Abandon()
	after = append(after, "beside 4")
	both("abandoned", after)
	must.Do(t, j.Close())
	j, err = journal.Open(mem, "/j", journal.Config{})
	must.Do(t, err)
	c, err = j.Begin()
	must.Do(t, err)
	must.Do(t, c.Replay(false, func(kind byte, p []byte) error { return c.Append(kind, p) }))
	must.Do(t, c.Finish())
	must.Do(t, j.Adopt(c, nil))
	both("replaced by itself", after)
	must.Do(t, j.Close())
}
