package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// put writes a part whose records have kind 'p'.
func put(c *journal.Checkpoint, label string, records ...string) error {
	w, err := c.NewPart()
	if err != nil {
		return err
	}
	defer w.Abandon()
	for _, r := range records {
		if err := w.Append('p', []byte(r)); err != nil {
			return err
		}
	}
	return w.Close([]byte(label))
}

func namesIn(t *testing.T, fs disk.FS, prefix string) (names []string) {
	t.Helper()
	es, err := fs.ReadDir("j")
	must.Do(t, err)
	for _, e := range es {
		if strings.HasPrefix(e.Name(), prefix) {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestParts(t *testing.T) {
	m := testdisk.NewMem()
	j := open(t, m, "j", journal.Config{})
	must.Do(t, j.Append(one("old")))
	c, err := j.Begin()
	must.Do(t, err)
	files := func() *journal.Files {
		f, err := c.Files()
		must.Do(t, err)
		return f
	}
	if ps, err := files().Parts(); err != nil || len(ps) != 0 {
		t.Fatalf("Parts without an older snapshot: %v, %v; want none", ps, err)
	}
	must.Do(t, c.Append('s', []byte("state")))
	must.Do(t, put(c, "keys", "k1", "k2"))
	w, err := c.NewPart()
	must.Do(t, err)
	must.Do(t, w.Append('p', []byte("given up")))
	w.Abandon()
	must.Do(t, put(c, "links", "l1"))
	must.Do(t, j.Append(one("beside")))
	must.Do(t, j.Adopt(c, c.Finish()))
	must.Do(t, j.Sync())
	wantReplay(t, m, "j", "s:state", "p:k1", "p:k2", "p:l1", "a:beside")

	// The next snapshot keeps one part and leaves out the other.
	c, err = j.Begin()
	must.Do(t, err)
	ps, err := files().Parts()
	must.Do(t, err)
	if len(ps) != 2 || string(ps[0].Label) != "keys" || ps[0].Records != 2 || string(ps[1].Label) != "links" {
		t.Fatalf("Parts() = %+v", ps)
	}
	var got []string
	must.Do(t, files().Part(ps[1], func(_ byte, p []byte) error { got = append(got, string(p)); return nil }))
	if !slices.Equal(got, []string{"l1"}) {
		t.Errorf("Part gave %q", got)
	}
	got = nil
	must.Do(t, files().Snapshot(func(_ byte, p []byte) error { got = append(got, string(p)); return nil }))
	must.Do(t, files().Segments(func(last bool, _ byte, p []byte) error {
		got = append(got, fmt.Sprint(string(p), " ", last))
		return nil
	}))
	if want := []string{"state", "beside true"}; !slices.Equal(got, want) {
		t.Errorf("snapshot and segments gave %q, want %q", got, want)
	}
	must.Do(t, c.Append('s', []byte("state 2")))
	must.Do(t, put(c, "links", "l2"))
	c.Keep(ps[0])
	must.Do(t, j.Adopt(c, c.Finish()))
	must.Do(t, j.Sync())
	wantReplay(t, m, "j", "s:state 2", "p:l2", "p:k1", "p:k2")
	if names := namesIn(t, m, "part-"); len(names) != 2 {
		t.Errorf("parts on disk: %q, want the kept one and the new one", names)
	}

	// Abandon deletes the new parts.
	c, err = j.Begin()
	must.Do(t, err)
	must.Do(t, put(c, "links", "l3"))
	c.Abandon()
	must.Do(t, j.Close())
	if names := namesIn(t, m, "part-"); len(names) != 2 {
		t.Errorf("parts on disk after Abandon: %q, want two", names)
	}
	// Open deletes what a crash left, but no file with a foreign name.
	must.Do(t, disk.WriteFile(m, "j/part-00000009-0001.log", []byte("half")))
	must.Do(t, disk.WriteFile(m, "j/part-9-1.log", []byte("not ours")))
	must.Do(t, open(t, m, "j", journal.Config{}).Close())
	if names := namesIn(t, m, "part-"); len(names) != 3 || !slices.Contains(names, "part-9-1.log") {
		t.Errorf("parts on disk after Open: %q, want two and part-9-1.log", names)
	}
	wantReplay(t, m, "j", "s:state 2", "p:l2", "p:k1", "p:k2")
}

// TestDamagedParts checks that each changed byte of a part is damage, and that another part under its name is too.
func TestDamagedParts(t *testing.T) {
	m := testdisk.NewMem()
	j := open(t, m, "j", journal.Config{})
	c, err := j.Begin()
	must.Do(t, err)
	must.Do(t, put(c, "a", "first", "second"))
	must.Do(t, put(c, "b", "third", "fourth"))
	must.Do(t, j.Adopt(c, c.Finish()))
	must.Do(t, j.Close())
	damaged := func(what string, fs disk.FS, file string) {
		t.Helper()
		_, _, err := replay(fs, "j")
		var d *journal.DamageError
		if !errors.As(err, &d) || filepath.Base(d.File) != file {
			t.Fatalf("%s: %v, want damage in %s", what, err, file)
		}
	}
	names := append(namesIn(t, m, "part-"), namesIn(t, m, "snapshot-")...)
	for _, name := range names {
		whole, err := disk.ReadFile(m, "j/"+name, 1<<20)
		must.Do(t, err)
		for i := range whole {
			if i == 8 || i == 9 {
				continue // the version
			}
			fs := m.Clone()
			b := bytes.Clone(whole)
			b[i] ^= 1 << (i % 8)
			must.Do(t, disk.WriteFile(fs, "j/"+name, b))
			damaged(fmt.Sprint(name, " byte ", i), fs, name)
		}
		for n := range whole {
			fs := m.Clone()
			must.Do(t, disk.WriteFile(fs, "j/"+name, whole[:n]))
			damaged(fmt.Sprint(name, " cut to ", n), fs, name)
		}
	}
	fs := m.Clone()
	must.Do(t, fs.Remove("j/"+names[1]))
	damaged("missing", fs, names[1])
	other, err := disk.ReadFile(m, "j/"+names[0], 1<<20)
	must.Do(t, err)
	fs = m.Clone()
	must.Do(t, disk.WriteFile(fs, "j/"+names[1], other))
	damaged("exchanged", fs, names[1])
}

// TestPartsOverCrashes imitates a crawl: it appends numbers, and checkpoints move them into parts that later
// checkpoints keep, merge or write anew. At each operation the disk fails or the machine dies. Everything synced must
// then be replayed once and in order.
func TestPartsOverCrashes(t *testing.T) {
	for seed := range uint64(testtier.Rounds(1, 12)) {
		for n := int64(1); ; n++ {
			rng := rand.New(rand.NewPCG(seed, 7))
			mem := testdisk.NewMem()
			hook := testdisk.FailFrom(n, syscall.EIO)
			if n%2 == 0 {
				hook = testdisk.FailAt(n, syscall.ENOSPC)
			}
			fs := testdisk.NewFaulty(mem, hook)
			appended, synced, err := runParts(fs, rng)
			_, changes := fs.Calls()
			fs.Heal()
			for how, fs := range map[string]disk.FS{"killed": mem.Clone(), "without power": mem.Crash(uint64(n))} {
				for again := range 2 {
					got := 0
					if _, err := journal.Replay(fs, "j", func(_ byte, p []byte) error {
						if string(p) != fmt.Sprint(got) {
							return fmt.Errorf("record %q, want %d", p, got)
						}
						got++
						return nil
					}); err != nil {
						t.Fatalf("seed %d n=%d, %s, replay %d: %v", seed, n, how, again, err)
					}
					if got < synced || got > appended {
						t.Fatalf("seed %d n=%d, %s: %d records, want %d to %d", seed, n, how, got, synced, appended)
					}
					j, err := journal.Open(fs, "j", journal.Config{})
					if err != nil {
						t.Fatalf("seed %d n=%d, %s: %v", seed, n, how, err)
					}
					must.Do(t, j.Close())
				}
			}
			if changes < n {
				must.Do(t, err)
				break
			}
		}
	}
}

func runParts(fs disk.FS, rng *rand.Rand) (appended, synced int, err error) {
	j, err := journal.Open(fs, "j", journal.Config{BufferBytes: 64})
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = j.Close() }()
	for range 25 {
		for range rng.IntN(4) {
			appended++
			if err := j.Append(one(fmt.Sprint(appended - 1))); err != nil {
				return appended, synced, err
			}
		}
		switch rng.IntN(3) {
		case 0:
			if err := j.Sync(); err != nil {
				return appended, synced, err
			}
			synced = appended
		case 1:
			c, err := j.Begin()
			if err != nil {
				return appended, synced, err
			}
			synced = appended
			if err := checkpointParts(c, rng); err != nil {
				c.Abandon()
				if j.Err() != nil {
					return appended, synced, err
				}
				continue
			}
			if err := j.Adopt(c, c.Finish()); err != nil {
				return appended, synced, err
			}
		}
	}
	return appended, synced, j.Close()
}

func checkpointParts(c *journal.Checkpoint, rng *rand.Rand) error {
	f, err := c.Files()
	if err != nil {
		return err
	}
	ps, err := f.Parts()
	if err != nil {
		return err
	}
	var merged []string
	take := func(_ byte, p []byte) error { merged = append(merged, string(p)); return nil }
	from := rng.IntN(len(ps) + 1)
	for _, p := range ps[:from] {
		c.Keep(p)
	}
	for _, p := range ps[from:] {
		if err := f.Part(p, take); err != nil {
			return err
		}
	}
	if err := c.Replay(true, take); err != nil {
		return err
	}
	return put(c, "some", merged...)
}
