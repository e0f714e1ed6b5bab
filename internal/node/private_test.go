package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestMakePrivate: no other user of the machine can read what a crawl of private addresses keeps of its cluster, such
// as pages of other agents.
func TestMakePrivate(t *testing.T) {
	dir := t.TempDir()
	kept := []string{"archive", "state/outbox", "state/boundary", "state/replica"}
	for _, name := range kept {
		must.Do(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	a := &Agent{cfg: Config{Dir: dir}, fs: disk.OS}
	modes := func(want os.FileMode) {
		t.Helper()
		must.Do(t, a.makePrivate())
		for _, name := range kept {
			info := must.Get(os.Stat(filepath.Join(dir, name)))(t)
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s: %o, want %o", name, got, want)
			}
		}
	}
	modes(0o755)
	a.cfg.Fetch.AllowPrivate = true
	modes(0o700)
}
