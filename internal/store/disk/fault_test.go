package disk_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

func pidText() string { return fmt.Sprintf("process %d", os.Getpid()) }

// TestCrashKeepsWhatWasSynced writes a file in steps and checks what 400 different power failures leave of it.
func TestCrashKeepsWhatWasSynced(t *testing.T) {
	m := testdisk.NewMem()
	must.Do(t, m.MkdirAll("d", 0o755))
	must.Do(t, m.SyncDir("."))
	f := open(t, m, "d/log", os.O_WRONLY|os.O_CREATE)
	must.Do(t, write(f, "synced-"))
	must.Do(t, f.Sync())
	must.Do(t, m.SyncDir("d"))
	must.Do(t, write(f, "later-"))
	must.Do(t, write(f, "latest"))
	put(t, m, "d/new", "x")
	must.Do(t, m.Rename("d/log", "d/moved"))

	const full = "synced-later-latest"
	found := map[string]int{}
	for seed := range uint64(400) {
		c := m.Crash(seed)
		name := "d/log"
		if _, err := c.Stat(name); err != nil {
			name = "d/moved" // a rename happens completely or not at all
			found["moved"]++
		} else if _, err := c.Stat("d/moved"); err == nil {
			t.Fatalf("seed %d: both the old and the new name of a renamed file exist", seed)
		}
		b, err := disk.ReadFile(c, name, 100)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !strings.HasPrefix(string(b), "synced-") || len(b) > len(full) {
			t.Fatalf("seed %d: the file holds %q, want %q and a part of the rest", seed, b, "synced-")
		}
		switch rest := string(b[len("synced-"):]); {
		case rest == "":
			found["nothing"]++
		case string(b) == full:
			found["all"]++
		case strings.HasPrefix(full, string(b)):
			found["prefix"]++
		default:
			found["hole"]++
		}
		if _, err := c.Stat("d/new"); err == nil {
			found["new"]++
		}
	}
	for _, what := range []string{"moved", "nothing", "all", "prefix", "hole", "new"} {
		if n := found[what]; n == 0 || n == 400 {
			t.Errorf("%q in %d of 400 crashes; want some, but not all", what, n)
		}
	}
	if got, err := disk.ReadFile(m.Clone(), "d/moved", 100); string(got) != full || err != nil {
		t.Errorf("a kill left %q, %v; want everything", got, err)
	}
	a, _ := disk.ReadFile(m.Crash(7), "d/log", 100)
	b, _ := disk.ReadFile(m.Crash(7), "d/log", 100)
	if string(a) != string(b) {
		t.Errorf("the same seed gave two crashes: %q and %q", a, b)
	}
}

// TestCrashLosesUnsyncedEntries checks that the Sync of a file does not make its directory entry durable.
func TestCrashLosesUnsyncedEntries(t *testing.T) {
	m := testdisk.NewMem()
	f := open(t, m, "a", os.O_WRONLY|os.O_CREATE)
	must.Do(t, write(f, "x"))
	must.Do(t, f.Sync())
	there := 0
	for seed := range uint64(100) {
		if _, err := m.Crash(seed).Stat("a"); err == nil {
			there++
		}
	}
	if there == 0 || there == 100 {
		t.Errorf("the unsynced name survived %d of 100 crashes; want some, but not all", there)
	}
	must.Do(t, m.SyncDir("."))
	must.Do(t, m.Remove("a"))
	must.Do(t, m.SyncDir("/"))
	for seed := range uint64(20) {
		if _, err := m.Crash(seed).Stat("a"); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("seed %d: a file came back after a synced removal: %v", seed, err)
		}
	}
}

// TestWriteFileIsAtomic crashes and fails WriteFile at each of its operations.
func TestWriteFileIsAtomic(t *testing.T) {
	for n := int64(1); ; n++ {
		m := testdisk.NewMem()
		must.Do(t, disk.WriteFile(m, "a", []byte("old")))
		f := testdisk.NewFaulty(m, testdisk.FailFrom(n, syscall.ENOSPC))
		err := disk.WriteFile(f, "a", []byte("newer"))
		if err != nil && !disk.IsFull(err) {
			t.Fatalf("n=%d: %v is not ENOSPC", n, err)
		}
		for seed := range uint64(50) {
			for _, c := range []*testdisk.Mem{m.Clone(), m.Crash(seed)} {
				b, rerr := disk.ReadFile(c, "a", 100)
				if rerr != nil || string(b) != "old" && string(b) != "newer" {
					t.Fatalf("n=%d seed %d: the file holds %q, %v; want \"old\" or \"newer\"", n, seed, b, rerr)
				}
				if err == nil && string(b) != "newer" {
					t.Fatalf("seed %d: the file holds %q after success; want \"newer\"", seed, b)
				}
			}
		}
		if err == nil {
			if n < 5 {
				t.Fatalf("only %d operations failed; want at least 4", n-1)
			}
			return
		}
		f.Heal()
		must.Do(t, disk.WriteFile(f, "a", []byte("healed")))
		wantFile(t, m, "a", "healed")
	}
}

func TestFullAfter(t *testing.T) {
	m := testdisk.NewMem()
	fsys := testdisk.NewFaulty(m, testdisk.FullAfter(5))
	f := open(t, fsys, "a", os.O_WRONLY|os.O_CREATE)
	must.Do(t, write(f, "123"))
	n, err := f.Write([]byte("4567"))
	if n != 2 || !disk.IsFull(err) {
		t.Errorf("Write = %d, %v; want 2, ENOSPC", n, err)
	}
	if _, err := f.Write([]byte("x")); !disk.IsFull(err) {
		t.Errorf("Write on a full disk: %v", err)
	}
	if _, err := fsys.OpenFile("b", os.O_CREATE|os.O_WRONLY, 0o644); !disk.IsFull(err) {
		t.Errorf("create on a full disk: %v", err)
	}
	must.Do(t, f.Sync())
	fsys.Heal()
	must.Do(t, write(f, "x"))
	must.Do(t, f.Close())
	wantFile(t, m, "a", "12345x")
}

func TestFaultyCounts(t *testing.T) {
	var calls []string
	fsys := testdisk.NewFaulty(testdisk.NewMem(), func(c testdisk.Call) testdisk.Fault {
		calls = append(calls, fmt.Sprintf("%d/%d %s %s %d", c.N, c.Change, c.Op, c.Name, c.Bytes))
		return testdisk.Fault{}
	})
	f := open(t, fsys, "a", os.O_RDWR|os.O_CREATE)
	must.Do(t, write(f, "xyz"))
	_, err := f.ReadAt(make([]byte, 2), 0)
	must.Do(t, err)
	must.Do(t, f.Close())
	must.Do(t, fsys.Rename("a", "b"))
	got, want := strings.Join(calls, "; "), "1/1 create a 0; 2/2 write a 3; 3/0 read a 2; 4/0 close a 0; 5/3 rename a 0"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if all, changes := fsys.Calls(); all != 5 || changes != 3 {
		t.Errorf("Calls() = %d, %d; want 5, 3", all, changes)
	}
}

// TestLockAcrossProcesses runs this test binary again; the second process must find the directory locked.
func TestLockAcrossProcesses(t *testing.T) {
	if dir := os.Getenv("DISK_TEST_LOCK"); dir != "" {
		_, err := disk.Lock(disk.OS, dir)
		fmt.Println("got:", err)
		return
	}
	dir := t.TempDir()
	l, err := disk.Lock(disk.OS, dir)
	must.Do(t, err)
	defer l.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockAcrossProcesses$")
	cmd.Env = append(os.Environ(), "DISK_TEST_LOCK="+dir)
	out, err := cmd.CombinedOutput()
	must.Do(t, err)
	if want := "in use by " + pidText(); !strings.Contains(string(out), want) {
		t.Errorf("the other process printed %q; want it to contain %q", out, want)
	}
}

// TestCrashOf checks that CrashOf drops the unsynced bytes and names of the chosen files and keeps all others.
func TestCrashOf(t *testing.T) {
	m := testdisk.NewMem()
	must.Do(t, m.MkdirAll("d", 0o755))
	for _, name := range []string{"d/kept", "d/lost"} {
		f := open(t, m, name, os.O_WRONLY|os.O_CREATE)
		must.Do(t, write(f, "synced-"))
		must.Do(t, f.Sync())
		must.Do(t, m.SyncDir("d"))
		must.Do(t, write(f, "later"))
	}
	put(t, m, "d/kept-new", "x")
	put(t, m, "d/lost-new", "x")
	c := m.CrashOf(func(name string) bool { return strings.HasPrefix(name, "/d/lost") })
	for name, want := range map[string]string{"d/kept": "synced-later", "d/lost": "synced-", "d/kept-new": "x"} {
		if b, err := disk.ReadFile(c, name, 100); err != nil || string(b) != want {
			t.Errorf("%s is %q, %v; want %q", name, b, err, want)
		}
	}
	if _, err := c.Stat("d/lost-new"); err == nil {
		t.Error("an unsynced name survived")
	}
	if b, err := disk.ReadFile(m, "d/lost", 100); err != nil || string(b) != "synced-later" {
		t.Errorf("after CrashOf the original holds %q, %v; want it unchanged", b, err)
	}
}
