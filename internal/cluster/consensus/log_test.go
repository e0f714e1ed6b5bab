package consensus

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
	"github.com/orbweaver/orbweaver/internal/testkit/testseed"
)

// A modelLog is what a logStore has: an entry is a term and a text. Entries before low may be there or not.
type modelLog struct {
	low, next uint64
	entries   map[uint64]string
}

func entryText(l *raft.Log) string { return fmt.Sprintf("%d/%d/%s", l.Term, l.Type, l.Data) }

// check compares s with the model. Entries before low may be missing.
func (m *modelLog) check(s *logStore) error {
	first, _ := s.FirstIndex()
	last, _ := s.LastIndex()
	if m.next == m.low && last == 0 {
		return nil
	}
	if last != m.next-1 || first > m.low {
		return fmt.Errorf("the log has %d to %d, want %d (or less) to %d", first, last, m.low, m.next-1)
	}
	for i := first; i <= last; i++ {
		var l raft.Log
		if err := s.GetLog(i, &l); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		if got := entryText(&l); got != m.entries[i] || l.Index != i {
			return fmt.Errorf("entry %d is %q, want %q", i, got, m.entries[i])
		}
	}
	return nil
}

// step does one random change of s and m. If s fails, m stays as it was, and the second result is what m would be.
func (m *modelLog) step(rng *rand.Rand, s *logStore, term uint64) (*modelLog, error) {
	next := &modelLog{m.low, m.next, map[uint64]string{}}
	for i, e := range m.entries {
		next.entries[i] = e
	}
	switch k := rng.IntN(10); {
	case k < 7 || m.next-m.low < 3:
		var ls []*raft.Log
		for range 1 + rng.IntN(3) {
			l := &raft.Log{Index: next.next, Term: term, Type: raft.LogType(rng.IntN(2)),
				Data: []byte(strings.Repeat("x", rng.IntN(200)))}
			ls = append(ls, l)
			next.entries[l.Index] = entryText(l)
			next.next++
		}
		return next, s.StoreLogs(ls)
	case k < 9: // a suffix
		from := m.low + 1 + uint64(rng.IntN(int(m.next-m.low-1)))
		for i := from; i < m.next; i++ {
			delete(next.entries, i)
		}
		next.next = from
		return next, s.DeleteRange(from, m.next-1)
	default: // a prefix
		first, _ := s.FirstIndex()
		to := m.low + uint64(rng.IntN(int(m.next-m.low-1)))
		next.low = to + 1
		return next, s.DeleteRange(first, to)
	}
}

// TestLogAgainstModel fails the log at each of its writes in turn, and compares what a power failure leaves with a
// model: everything that a call had acknowledged, and all or nothing of the call that failed, or its first entries.
func TestLogAgainstModel(t *testing.T) {
	seed := testseed.New(t)
	for n := int64(1); ; n++ {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		mem := testdisk.NewMem()
		must.Do(t, errors.Join(mem.MkdirAll("d", 0o755), mem.SyncDir(".")))
		fs := testdisk.NewFaulty(mem, testdisk.FailFrom(n, syscall.EIO))
		s, err := openLog(fs, "d", 600, newHealth())
		must.Do(t, err)
		m := &modelLog{1, 1, map[uint64]string{}}
		next := m
		for i := range 60 {
			if next, err = m.step(rng, s, uint64(i+1)); err != nil {
				break
			}
			m = next
			if err := m.check(s); err != nil {
				t.Fatalf("n=%d: %v", n, err)
			}
		}
		failed := err != nil
		if failed && (!errors.Is(err, syscall.EIO) || s.health.err() == nil) {
			t.Fatalf("n=%d: the error is %v, want EIO, noted as a failure", n, err)
		}
		for _, left := range []*testdisk.Mem{mem.Clone(), mem.Crash(rng.Uint64()), mem.Crash(rng.Uint64())} {
			checkLeft(t, n, left, m, next)
		}
		_ = s.close() // fails on a failed disk
		if !failed {
			if n < 100 {
				t.Errorf("only %d writes failed", n)
			}
			return
		}
	}
}

// checkLeft opens a log after a crash between the states was and next, and appends to it.
func checkLeft(t *testing.T, n int64, left *testdisk.Mem, was, next *modelLog) {
	t.Helper()
	s, err := openLog(left, "d", 600, newHealth())
	if err != nil {
		t.Fatalf("n=%d: open after the crash: %v", n, err)
	}
	defer s.close()
	last, _ := s.LastIndex()
	if last == 0 && was.next > was.low {
		t.Fatalf("n=%d: the log is empty, want entries to %d", n, was.next-1)
	}
	m := was
	if next.next > was.next { // appending
		m = &modelLog{was.low, last + 1, next.entries}
	} else if last < was.next-1 { // deleting the suffix, from its end
		m = &modelLog{was.low, last + 1, was.entries}
	} else {
		m = &modelLog{max(was.low, next.low), was.next, was.entries}
	}
	if last > 0 && (last < min(was.next, next.next)-1 || last > max(was.next, next.next)-1) {
		t.Fatalf("n=%d: the log ends with %d, want between %d and %d", n, last, was.next-1, next.next-1)
	}
	if last > 0 {
		if err := m.check(s); err != nil {
			t.Fatalf("n=%d: after the crash: %v", n, err)
		}
	}
	if err := s.StoreLog(&raft.Log{Index: last + 1, Term: 99}); err != nil {
		t.Fatalf("n=%d: append after the crash: %v", n, err)
	}
}

// fillLog makes a log of several segments.
func fillLog(t *testing.T, fs disk.FS, entries int) {
	t.Helper()
	s := must.Get(openLog(fs, "d", 600, newHealth()))(t)
	for i := range entries {
		must.Do(t, s.StoreLog(&raft.Log{Index: uint64(i + 1), Term: 1, Data: make([]byte, 50)}))
	}
	must.Do(t, s.close())
}

// TestDamagedLog changes each byte of a log in turn. Open names the file, or it cuts off the last entry of the newest
// segment: no later entry says that it had been on disk.
func TestDamagedLog(t *testing.T) {
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("d", 0o755))
	const entries = 20
	fillLog(t, mem, entries)
	es, err := mem.ReadDir("d")
	if err != nil || len(es) < 3 {
		t.Fatalf("%d files, %v; want several segments", len(es), err)
	}
	for i, e := range es {
		name := "d/" + e.Name()
		b := must.Get(disk.ReadFile(mem, name, 1<<20))(t)
		newest := i == len(es)-1
		tail := 0 // where the last record begins
		if newest {
			tail = len(b) - (recordHead + entryHead + 50)
		}
		for k := range b {
			c := mem.Clone()
			broken := append([]byte(nil), b...)
			broken[k] ^= 0x10
			must.Do(t, disk.WriteFile(c, name, broken))
			s, err := openLog(c, "d", 600, newHealth())
			if err == nil {
				last, _ := s.LastIndex()
				s.close()
				if !newest || k < tail || last != entries-1 {
					t.Errorf("byte %d of %s: the log opens with %d entries", k, name, last)
				}
				continue
			}
			if !errors.Is(err, ErrDamaged) && !strings.Contains(err.Error(), "format version") ||
				!strings.Contains(err.Error(), e.Name()) {
				t.Errorf("byte %d of %s: %v; want an error that names the file", k, name, err)
			}
			if newest && k >= tail {
				t.Errorf("byte %d of the last entry: %v; want it cut off", k, err)
			}
		}
	}
	must.Do(t, mem.Remove("d/"+es[1].Name()))
	if _, err := openLog(mem, "d", 600, newHealth()); !errors.Is(err, ErrDamaged) {
		t.Errorf("a log without its second segment: %v", err)
	}
}

// TestReadFailure checks what raft gets for an entry that cannot be read: no error, because it would panic.
func TestReadFailure(t *testing.T) {
	mem := testdisk.NewMem()
	must.Do(t, mem.MkdirAll("d", 0o755))
	fillLog(t, mem, 5)
	fs := testdisk.NewFaulty(mem, nil)
	s := must.Get(openLog(fs, "d", 600, newHealth()))(t)
	defer s.close()
	var l raft.Log
	if err := s.GetLog(9, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("an entry that is not there: %v", err)
	}
	fs.Break(func(c testdisk.Call) testdisk.Fault {
		if c.Op == testdisk.OpRead {
			return testdisk.Fault{Err: syscall.EIO}
		}
		return testdisk.Fault{}
	})
	if err := s.GetLog(3, &l); err != nil || l.Type != raft.LogNoop || l.Index != 3 || l.Term != 1 {
		t.Errorf("an entry that cannot be read is %+v, %v; want nothing to do", l, err)
	}
	if err := s.health.err(); !errors.Is(err, syscall.EIO) {
		t.Errorf("the failure is %v, want EIO", err)
	}
	if err := s.GetLog(9, &l); err != nil || l.Type != raft.LogNoop {
		t.Errorf("after the failure, an entry that is not there is %+v, %v; want nothing to do", l, err)
	}
}

// TestLogBehindSnapshot asks a log that begins behind the newest snapshot for the entries before.
func TestLogBehindSnapshot(t *testing.T) {
	s := must.Get(openLog(testdisk.NewMem(), ".", 600, newHealth()))(t)
	s.retain(1, 612, 2)
	must.Do(t, s.StoreLog(&raft.Log{Index: 613, Term: 3, Data: []byte("x")}))
	var l raft.Log
	if err := s.GetLog(612, &l); err != nil || l.Index != 612 || l.Term != 2 {
		t.Errorf("entry 612 is %+v, %v; want term 2, that of the snapshot", l, err)
	}
	if err := s.GetLog(611, &l); err != raft.ErrLogNotFound {
		t.Errorf("entry 611 is %+v, %v; want %v", l, err, raft.ErrLogNotFound)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

// TestVotes writes votes at each fault, and changes each byte of the file.
func TestVotes(t *testing.T) {
	mem := testdisk.NewMem()
	for n := int64(1); n <= 12; n++ {
		fs := testdisk.NewFaulty(mem.Clone(), testdisk.FailFrom(n, syscall.ENOSPC))
		s := must.Get(openVotes(fs, ".", newHealth()))(t)
		for term := uint64(1); term < 4; term++ {
			if err := errors.Join(s.SetUint64([]byte(keyTerm), term), s.SetUint64([]byte(keyVotedTerm), term),
				s.Set([]byte(keyCandidate), []byte("m1"))); err != nil {
				t.Fatalf("n=%d: %v; raft would panic", n, err)
			}
		}
		if s.health.err() == nil {
			t.Errorf("n=%d: the failure is not noted", n)
		}
	}
	s, err := openVotes(mem, ".", newHealth())
	must.Do(t, err)
	want := votes{7, 6, []byte("m2:1"), 3, 4}
	s.change(func(v *votes) { *v = want })
	if s, err = openVotes(mem, ".", newHealth()); err != nil || fmt.Sprint(s.get()) != fmt.Sprint(want) {
		t.Errorf("votes %v, %v; want %v", s.get(), err, want)
	}
	if err := s.Set([]byte("other"), nil); err == nil {
		t.Error("an unknown key is stored")
	}
	b := must.Get(disk.ReadFile(mem, "vote", maxVoteFile))(t)
	for k := range b {
		broken := append([]byte(nil), b...)
		broken[k] ^= 1
		must.Do(t, disk.WriteFile(mem, "vote", broken))
		if _, err := openVotes(mem, ".", newHealth()); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d: %v", k, err)
		}
	}
}

// TestDamagedSnapshot changes each byte of a snapshot: reading it to its end fails, and names the file.
func TestDamagedSnapshot(t *testing.T) {
	mem := testdisk.NewMem()
	open := func() *snapshotStore {
		h := newHealth()
		l := must.Get(openLog(mem, ".", 600, h))(t)
		return &snapshotStore{fs: mem, dir: ".", health: h, log: l}
	}
	c := raft.Configuration{Servers: []raft.Server{{ID: "m1", Address: "m1"}}}
	for i := uint64(1); i <= 4; i++ {
		k := must.Get(open().Create(1, 10*i, i, c, 1, nil))(t)
		must.Get(fmt.Fprintf(k, "state %d", i))(t)
		must.Do(t, k.Close())
	}
	s := open()
	if names, err := s.names(); err != nil || len(names) != keepSnapshots {
		t.Fatalf("snapshots %v, %v; want %d", names, err, keepSnapshots)
	}
	metas, err := s.List()
	if err != nil || len(metas) != 1 || metas[0].Index != 40 || metas[0].Term != 4 || metas[0].Size != 7 {
		t.Fatalf("List: %+v, %v", metas, err)
	}
	name := metas[0].ID
	b := must.Get(disk.ReadFile(mem, name, 1<<20))(t)
	for k := range len(b) + 1 {
		broken := append([]byte(nil), b...)
		if k < len(b) {
			broken[k] ^= 1
		} else {
			broken = broken[:k-1]
		}
		must.Do(t, disk.WriteFile(mem, name, broken))
		s := open()
		_, r, err := s.Open(name)
		if err == nil {
			_, err = io.ReadAll(r)
		}
		if err == nil || !strings.Contains(err.Error(), name) || s.health.err() == nil {
			t.Errorf("byte %d: %v", k, err)
		}
	}
	if k, err := open().Create(1, 50, 5, c, 1, nil); err != nil {
		t.Error(err)
	} else if err := k.Cancel(); err != nil {
		t.Error(err)
	}
	if _, err := mem.Stat(snapshotName(".", 50, 5) + ".tmp"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Cancel: %v", err)
	}
	must.Do(t, disk.WriteFile(mem, "snapshot-x.tmp", nil))
	if err := s.clean(); err != nil {
		t.Error(err)
	}
	if _, err := mem.Stat("snapshot-x.tmp"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the rest of a crash is still there: %v", err)
	}
}
