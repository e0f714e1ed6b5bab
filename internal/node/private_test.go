package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// TestMakePrivate: no other user of the machine can read what a crawl of private addresses keeps of its cluster: pages
// of other agents, and copies of their archive files.
func TestMakePrivate(t *testing.T) {
	dir := t.TempDir()
	kept := []string{"archive", "state/outbox", "state/boundary", "copies", "state/replica"}
	for _, name := range kept {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a := &Agent{cfg: Config{Dir: dir}, fs: disk.OS}
	modes := func(want os.FileMode) {
		t.Helper()
		if err := a.makePrivate(); err != nil {
			t.Fatal(err)
		}
		for _, name := range kept {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s: %o, want %o", name, got, want)
			}
		}
	}
	modes(0o755)
	a.cfg.Fetch.AllowPrivate = true
	modes(0o700)
}
