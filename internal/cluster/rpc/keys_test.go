package rpc_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testdisk"
)

// TestBundles: a reopened authority makes keys that the first agents accept. Nothing is
// overwritten, and only the owner may read the files.
func TestBundles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	now := time.Now()
	first, err := rpc.OpenAuthority(disk.OS, dir, now)
	if err != nil || !first.Made {
		t.Fatalf("Made = %v, %v", first.Made, err)
	}
	d1 := must.Get(first.Issue("a1"))(t)
	second, err := rpc.OpenAuthority(disk.OS, dir, now.Add(24*time.Hour))
	if err != nil || second.Made {
		t.Fatalf("Made = %v, %v", second.Made, err)
	}
	d2 := must.Get(second.Issue("a2"))(t)
	if _, err := second.Issue("a1"); !errors.Is(err, rpc.ErrExists) {
		t.Errorf("a1 again: %v", err)
	}
	for _, name := range []string{"authority", "../x", "", "A"} {
		if _, err := second.Issue(name); !errors.Is(err, rpc.ErrKeys) {
			t.Errorf("Issue(%q): %v", name, err)
		}
	}
	k1 := must.Get(rpc.LoadKeys(disk.OS, d1, nil))(t)
	k2 := must.Get(rpc.LoadKeys(disk.OS, d2, nil))(t)
	// What others have under the name of the temporary folder stays, also behind a link.
	theirs := t.TempDir()
	kept := filepath.Join(theirs, "kept")
	link := filepath.Join(dir, ".a3.tmp")
	must.Do(t, errors.Join(os.WriteFile(kept, nil, 0o600), os.Symlink(theirs, link)))
	if _, err := second.Issue("a3"); !errors.Is(err, disk.ErrForeign) {
		t.Errorf("a3 beside a foreign .a3.tmp: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("a file of others: %v", err)
	}
	if err := os.Remove(link); err != nil {
		t.Error(err)
	}
	if k1.Name() != "a1" || k2.Name() != "a2" || string(k1.Gossip()) != string(k2.Gossip()) || len(k1.Gossip()) != 32 {
		t.Errorf("names %q, %q; secrets of %d, %d octets", k1.Name(), k2.Name(), len(k1.Gossip()), len(k2.Gossip()))
	}
	files := 0
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil || files != 3+2*4 {
		t.Errorf("%d files, %v", files, err)
	}
	if _, err := os.Stat(filepath.Join(d1, "ca.key")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the agent has the authority's key: %v", err)
	}
}

// TestDamagedBundles: the error names the file that is missing, damaged or of another agent.
func TestDamagedBundles(t *testing.T) {
	mem := testdisk.NewMem()
	a := must.Get(rpc.OpenAuthority(mem, "keys", time.Now()))(t)
	b := must.Get(rpc.OpenAuthority(mem, "others", time.Now()))(t)
	other := must.Get(b.Issue("a1"))(t)
	for i, file := range []string{"ca.pem", "agent.pem", "agent.key", "gossip.key"} {
		dir := must.Get(a.Issue("a" + string(rune('1'+i))))(t)
		name := filepath.Join(dir, file)
		good := must.Get(disk.ReadFile(mem, name, 1<<20))(t)
		try := func(what string) {
			_, err := rpc.LoadKeys(mem, dir, nil)
			if !errors.Is(err, rpc.ErrKeys) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s %s: %v", file, what, err)
			}
		}
		must.Do(t, mem.Remove(name))
		try("missing")
		must.Do(t, disk.WriteFile(mem, name, good[:len(good)/2]))
		try("cut")
		if file == "gossip.key" {
			continue // any secret of the right length is valid
		}
		theirs := must.Get(disk.ReadFile(mem, filepath.Join(other, file), 1<<20))(t)
		must.Do(t, disk.WriteFile(mem, name, theirs))
		try("of another cluster")
	}
	must.Do(t, mem.Remove(filepath.Join("keys", "authority", "ca.key")))
	if _, err := rpc.OpenAuthority(mem, "keys", time.Now()); !errors.Is(err, rpc.ErrKeys) {
		t.Errorf("an authority without its key: %v", err)
	}
}

// TestBundlesAndCrashes: issued keys survive a power failure.
func TestBundlesAndCrashes(t *testing.T) {
	mem := testdisk.NewMem()
	a := must.Get(rpc.OpenAuthority(mem, "keys", time.Now()))(t)
	must.Get(a.Issue("a1"))(t)
	for seed := range uint64(50) {
		after := mem.Crash(seed)
		if a, err := rpc.OpenAuthority(after, "keys", time.Now()); err != nil || a.Made {
			t.Errorf("seed %d: made again %v, %v", seed, a.Made, err)
		}
		if _, err := rpc.LoadKeys(after, filepath.Join("keys", "a1"), nil); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}
