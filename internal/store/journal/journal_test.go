package journal_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

var update = flag.Bool("update", false, "write the golden files")

func open(t testing.TB, fs disk.FS, dir string, cfg journal.Config) *journal.Journal {
	t.Helper()
	j, err := journal.Open(fs, dir, cfg)
	must.Do(t, err)
	return j
}

// one returns a batch of one record.
func one(s string) []journal.Record { return []journal.Record{{Kind: 'a', Payload: []byte(s)}} }

// replay returns the records of dir as "kind:payload".
func replay(fs disk.FS, dir string) ([]string, journal.Stats, error) {
	var got []string
	st, err := journal.Replay(fs, dir, func(kind byte, payload []byte) error {
		got = append(got, fmt.Sprintf("%c:%s", kind, payload))
		return nil
	})
	return got, st, err
}

func wantReplay(t *testing.T, fs disk.FS, dir string, want ...string) journal.Stats {
	t.Helper()
	got, st, err := replay(fs, dir)
	must.Do(t, err)
	if !slices.Equal(got, want) {
		t.Fatalf("replayed %q, want %q", got, want)
	}
	return st
}

func TestAppendAndReplay(t *testing.T) {
	m := testdisk.NewMem()
	if st := wantReplay(t, m, "state/j"); st.Segments != 0 {
		t.Errorf("Segments = %d without a journal, want 0", st.Segments)
	}
	must.Do(t, m.MkdirAll("state", 0o755))
	j := open(t, m, "state/j", journal.Config{})
	must.Do(t, j.Append([]journal.Record{{Kind: 'x', Payload: []byte("1")}, {Kind: 0},
		{Kind: 'y', Payload: []byte("22")}}))
	must.Do(t, j.Append(nil))
	wantReplay(t, m, "state/j") // still in RAM
	before := j.SegmentBytes()
	must.Do(t, j.Commit())
	if j.SegmentBytes() != before {
		t.Errorf("SegmentBytes() = %d before and %d after Commit", before, j.SegmentBytes())
	}
	st := wantReplay(t, m, "state/j", "x:1", "\x00:", "y:22")
	if want := (journal.Stats{Segments: 1, Batches: 1, Records: 3, Bytes: 3}); st != want {
		t.Errorf("Stats = %+v, want %+v", st, want)
	}
	must.Do(t, j.Append(one("z")))
	must.Do(t, j.Close())
	must.Do(t, j.Close())
	if err := j.Append(one("late")); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Append after Close: %v", err)
	}
	j = open(t, m, "state/j", journal.Config{})
	must.Do(t, j.Append(one("again")))
	must.Do(t, j.Close())
	wantReplay(t, m, "state/j", "x:1", "\x00:", "y:22", "a:z", "a:again")

	boom := errors.New("boom")
	if _, err := journal.Replay(m, "state/j", func(byte, []byte) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("Replay = %v, want the callback's error", err)
	}
}

func TestBufferBoundCommits(t *testing.T) {
	m := testdisk.NewMem()
	calls := 0
	j := open(t, m, "j", journal.Config{BufferBytes: 1000,
		References: files{flush: func() error { calls++; return nil }}})
	for range 100 {
		must.Do(t, j.Append(one(strings.Repeat("x", 100))))
	}
	got, _, err := replay(m, "j")
	must.Do(t, err)
	if len(got) < 90 || calls < 10 || calls > 13 {
		t.Errorf("%d of 100 batches on disk after %d commits; want at least 90 after 10 to 13", len(got), calls)
	}
	if err := j.Append(one(strings.Repeat("x", journal.MaxBatch))); !errors.Is(err, journal.ErrTooLarge) {
		t.Errorf("Append of a batch over MaxBatch: %v", err)
	}
	must.Do(t, j.Close())
}

// TestHooks checks the order of hooks, writes and syncs: the archive is written before the journal.
func TestHooks(t *testing.T) {
	var log []string
	fs := testdisk.NewFaulty(testdisk.NewMem(), func(c testdisk.Call) testdisk.Fault {
		if c.Op == testdisk.OpWrite || c.Op == testdisk.OpSync {
			log = append(log, string(c.Op))
		}
		return testdisk.Fault{}
	})
	var fail error
	j := open(t, fs, "j", journal.Config{
		References: files{
			flush: func() error { log = append(log, "before"); return fail },
			sync:  func() error { log = append(log, "beforesync"); return nil },
		},
	})
	log = nil
	must.Do(t, j.Commit())
	must.Do(t, j.Sync())
	must.Do(t, j.Append(one("1")))
	must.Do(t, j.Commit())
	must.Do(t, j.Append(one("2")))
	must.Do(t, j.Sync())
	must.Do(t, j.Sync())
	if got, want := strings.Join(log, " "), "before write before write beforesync sync"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	fail = errors.New("archive full")
	must.Do(t, j.Append(one("3")))
	for range 2 {
		if err := j.Sync(); err != fail {
			t.Errorf("Sync = %v, want the hook's error", err)
		}
	}
	if err := j.Append(one("4")); err != fail || j.Err() != fail {
		t.Errorf("Append = %v, Err = %v, want the hook's error again", err, j.Err())
	}
	if err := j.Close(); err != fail {
		t.Errorf("Close = %v, want the hook's error", err)
	}
	wantReplay(t, fs, "j", "a:1", "a:2")
}

func TestSnapshot(t *testing.T) {
	m := testdisk.NewMem()
	j := open(t, m, "j", journal.Config{})
	must.Do(t, j.Append(one("old")))
	must.Do(t, snapshot(j, func(add func(byte, []byte) error) error {
		for i := range 3 {
			must.Do(t, add('s', fmt.Append(nil, i)))
		}
		return nil
	}))
	must.Do(t, j.Append(one("new")))
	if got := j.SinceSnapshot(); got != j.SegmentBytes() {
		t.Errorf("SinceSnapshot() = %d after a snapshot, want SegmentBytes() = %d", got, j.SegmentBytes())
	}
	must.Do(t, j.Sync())
	st := wantReplay(t, m, "j", "s:0", "s:1", "s:2", "a:new")
	if st.Snapshot != 2 || st.Segments != 1 {
		t.Errorf("Stats = %+v, want snapshot 2 and one segment", st)
	}
	wantFiles(t, m, "journal-00000002.log", "snapshot-00000002.log")

	// A failed snapshot changes nothing else.
	boom := errors.New("boom")
	err := snapshot(j, func(add func(byte, []byte) error) error { must.Do(t, add('s', []byte("half"))); return boom })
	if !errors.Is(err, boom) || j.Err() != nil {
		t.Errorf("snapshot: %v, Err = %v; want boom and nil", err, j.Err())
	}
	must.Do(t, j.Append(one("more")))
	since := j.SinceSnapshot()
	must.Do(t, j.Close())
	wantReplay(t, m, "j", "s:0", "s:1", "s:2", "a:new", "a:more")
	wantFiles(t, m, "journal-00000002.log", "journal-00000003.log", "snapshot-00000002.log")

	j = open(t, m, "j", journal.Config{})
	if got := j.SinceSnapshot(); got != since {
		t.Errorf("SinceSnapshot() = %d after Open, %d before", got, since)
	}
	must.Do(t, snapshot(j, func(func(byte, []byte) error) error { return nil })) // of an empty state
	must.Do(t, j.Close())
	wantReplay(t, m, "j")
	wantFiles(t, m, "journal-00000004.log", "snapshot-00000004.log")
}

// snapshot writes and adopts a Checkpoint in one step.
func snapshot(j *journal.Journal, write func(add func(byte, []byte) error) error) error {
	c, err := j.Begin()
	if err != nil {
		return err
	}
	if err := write(c.Append); err != nil {
		c.Abandon()
		return err
	}
	return j.Adopt(c, c.Finish())
}

func wantFiles(t *testing.T, fs disk.FS, want ...string) {
	t.Helper()
	es, err := fs.ReadDir("j")
	must.Do(t, err)
	var got []string
	for _, e := range es {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

// build makes a journal of a snapshot, a part and three segments, and syncs each batch.
func build(t testing.TB, fs disk.FS, dir string) []string {
	j := open(t, fs, dir, journal.Config{})
	must.Do(t, j.Append(one("replaced")))
	c, err := j.Begin()
	must.Do(t, err)
	for _, s := range []string{"state", ""} {
		must.Do(t, c.Append('s', []byte(s)))
	}
	must.Do(t, put(c, "label", "in a part"))
	must.Do(t, j.Adopt(c, c.Finish()))
	want := []string{"s:state", "s:", "p:in a part"}
	for seg := range 3 {
		if seg > 0 {
			err := snapshot(j, func(func(byte, []byte) error) error { return os.ErrInvalid })
			if !errors.Is(err, os.ErrInvalid) {
				t.Fatal(err)
			}
		}
		for i := range 3 {
			s := fmt.Sprintf("%d.%d", seg, i)
			must.Do(t, j.Append([]journal.Record{{Kind: 'b', Payload: []byte(s)}, {Kind: 'c', Payload: []byte{}}}))
			must.Do(t, j.Sync())
			want = append(want, "b:"+s, "c:")
		}
	}
	must.Do(t, j.Close())
	return want
}

// TestEveryFlippedByteIsFound changes each byte of a journal in turn. The result must be an error that names the file
// or, in the very last frame, a torn tail.
func TestEveryFlippedByteIsFound(t *testing.T) {
	m := testdisk.NewMem()
	want := build(t, m, "j")
	wantReplay(t, m, "j", want...)
	es, err := m.ReadDir("j")
	must.Do(t, err)
	if len(es) != 5 {
		t.Fatalf("%d files, want 5", len(es))
	}
	const last = "journal-00000004.log"
	for _, e := range es {
		name := filepath.Join("j", e.Name())
		whole, err := disk.ReadFile(m, name, 1<<20)
		must.Do(t, err)
		lastFrame := len(whole) - 24 - 7 // b:2.2 and c:
		for i := range whole {
			c := m.Clone()
			b := bytes.Clone(whole)
			b[i] ^= 1 << (i % 8)
			must.Do(t, disk.WriteFile(c, name, b))
			got, st, err := replay(c, "j")
			var d *journal.DamageError
			switch {
			case e.Name() == last && i >= lastFrame:
				torn := st.TornFile == name && st.Torn == int64(len(whole)-lastFrame)
				if err != nil || !torn || !slices.Equal(got, want[:len(want)-2]) {
					t.Fatalf("%s byte %d: %q, %+v, %v; want the last batch torn", name, i, got, st, err)
				}
				open(t, c, "j", journal.Config{})
			case errors.Is(err, journal.ErrVersion):
				if i != 8 && i != 9 {
					t.Fatalf("%s byte %d: %v", name, i, err)
				}
			case !errors.As(err, &d) || !errors.Is(err, journal.ErrDamaged) || d.File != name || d.Offset > int64(i):
				t.Fatalf("%s byte %d: %q, %v; want damage at or before it", name, i, got, err)
			}
			if !slices.Equal(got, want[:len(got)]) {
				t.Fatalf("%s byte %d: %q is not a prefix of the records", name, i, got)
			}
			if e.Name() == last && err != nil {
				if _, err := journal.Open(c, "j", journal.Config{}); err == nil {
					t.Fatalf("%s byte %d: Open cut off damaged bytes as if they were torn", name, i)
				}
			}
		}
		// Cut the file short: only the last segment may be short.
		for size := range whole {
			c := m.Clone()
			must.Do(t, disk.WriteFile(c, name, whole[:size]))
			got, _, err := replay(c, "j")
			if e.Name() == last {
				must.Do(t, err)
			} else if !errors.Is(err, journal.ErrDamaged) {
				t.Fatalf("%s cut to %d bytes: %v", name, size, err)
			}
			if !slices.Equal(got, want[:len(got)]) {
				t.Fatalf("%s cut to %d bytes: %q is not a prefix of the records", name, size, got)
			}
		}
		c := m.Clone()
		must.Do(t, c.Remove(name))
		if _, _, err := replay(c, "j"); e.Name() != last && !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestGolden checks that the bytes of version 1 do not change.
func TestGolden(t *testing.T) {
	m := testdisk.NewMem()
	want := build(t, m, "j")
	dir := filepath.Join("testdata", "v1")
	es, err := m.ReadDir("j")
	must.Do(t, err)
	for _, e := range es {
		got, err := disk.ReadFile(m, filepath.Join("j", e.Name()), 1<<20)
		must.Do(t, err)
		golden := filepath.Join(dir, e.Name())
		if *update {
			must.Do(t, os.MkdirAll(dir, 0o755))
			must.Do(t, os.WriteFile(golden, got, 0o644))
		}
		b, err := os.ReadFile(golden)
		must.Do(t, err)
		if !bytes.Equal(got, b) {
			t.Errorf("%s: got\n%x\nwant\n%x", e.Name(), got, b)
		}
	}
	wantReplay(t, disk.OS, dir, want...)
}

func TestAppendAllocatesNothing(t *testing.T) {
	j := open(t, disk.OS, t.TempDir(), journal.Config{BufferBytes: 64 << 10})
	batch := make([]journal.Record, 62)
	for i := range batch {
		batch[i] = journal.Record{Kind: 1, Payload: make([]byte, 100)}
	}
	for range 20 {
		must.Do(t, j.Append(batch))
	}
	if n := testing.AllocsPerRun(200, func() { must.Do(t, j.Append(batch)) }); n != 0 {
		t.Errorf("%v allocations per Append, want 0", n)
	}
	must.Do(t, j.Close())
}

func BenchmarkAppend(b *testing.B) {
	j := open(b, disk.OS, b.TempDir(), journal.Config{})
	batch := make([]journal.Record, 7)
	for i := range batch {
		batch[i] = journal.Record{Kind: 1, Payload: make([]byte, 120)}
	}
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, j.Append(batch))
	}
	b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "records/s")
	must.Do(b, j.Close())
}

func BenchmarkReplay(b *testing.B) {
	dir := b.TempDir()
	j := open(b, disk.OS, dir, journal.Config{})
	batch := make([]journal.Record, 7)
	for i := range batch {
		batch[i] = journal.Record{Kind: 1, Payload: make([]byte, 120)}
	}
	for range 100_000 {
		must.Do(b, j.Append(batch))
	}
	must.Do(b, j.Close())
	var st journal.Stats
	for b.Loop() {
		var err error
		st, err = journal.Replay(disk.OS, dir, func(byte, []byte) error { return nil })
		must.Do(b, err)
	}
	b.ReportMetric(float64(b.N)*float64(st.Records)/b.Elapsed().Seconds(), "records/s")
}

// TestEndWith checks that the record of EndWith is written after all batches of a write, and only if ok is true.
func TestEndWith(t *testing.T) {
	m := testdisk.NewMem()
	writes := 0
	j := open(t, m, "j", journal.Config{BufferBytes: 100,
		References: files{flush: func() error { writes++; return nil }}})
	on := true
	j.EndWith(func() (journal.Record, bool) {
		return journal.Record{Kind: 'e', Payload: fmt.Append(nil, writes)}, on
	})
	must.Do(t, j.Append(one("1")))
	must.Do(t, j.Append(one("2")))
	must.Do(t, j.Commit())
	must.Do(t, j.Commit()) // nothing to write
	must.Do(t, j.Append(one(strings.Repeat("x", 100))))
	on = false
	must.Do(t, j.Append(one("3")))
	must.Do(t, j.Sync())
	on = true
	must.Do(t, j.Append(one("4")))
	must.Do(t, j.Close())
	wantReplay(t, m, "j", "a:1", "a:2", "e:1", "a:"+strings.Repeat("x", 100), "e:2", "a:3", "a:4", "e:4")
}

// TestSure: Open counts the records that a later frame calls durable.
func TestSure(t *testing.T) {
	fs := testdisk.NewMem()
	all := int64(0)
	for _, c := range []struct {
		commit, sync int // batches, written one by one, before the crash
		unsure       int64
	}{
		{0, 0, 0},
		{3, 0, 3},   // nothing was synced
		{2, 2, 2},   // no frame after the sync tells of it
		{1, 0, 1},   // the frame tells that those before it are durable: Open has synced them
		{4, 2, 2},   // a frame after the sync tells of it
		{70, 0, 70}, // of more than one buffer
	} {
		j := open(t, fs, "j", journal.Config{})
		for i := range c.commit {
			must.Do(t, j.Append(one("x")))
			must.Do(t, j.Commit())
			if i+1 == c.sync {
				must.Do(t, j.Sync())
			}
		}
		fs = fs.Clone()
		all += int64(c.commit)
		if got := all - open(t, fs, "j", journal.Config{}).Sure(); got != c.unsure {
			t.Errorf("after %d commits, a sync after %d: %d records are unsure, want %d", c.commit, c.sync, got,
				c.unsure)
		}
	}
}

// files are journal.References of two functions. A nil function does nothing.
type files struct{ flush, sync func() error }

func (f files) Flush() error { return f.flush() }

func (f files) Sync() error {
	if f.sync == nil {
		return nil
	}
	return f.sync()
}
