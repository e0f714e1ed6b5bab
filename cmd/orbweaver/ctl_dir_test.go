package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// Without ./crawl, ctl asks the crawl in the current directory.
func TestRunningDir(t *testing.T) {
	t.Chdir(t.TempDir())
	if got := runningDir(defaultDir); got != defaultDir {
		t.Errorf("nowhere: %s", got)
	}
	for _, dir := range []string{"state", filepath.Join("crawl", "state")} {
		must.Do(t, os.MkdirAll(dir, 0o755))
		want := "."
		must.Do(t, os.WriteFile(filepath.Join(filepath.Dir(dir), "crawl.yaml"), []byte("{}\n"), 0o644))
		if dir != "state" {
			want = defaultDir
		}
		if got := runningDir(defaultDir); got != want {
			t.Errorf("%s has a crawl: %s, want %s", dir, got, want)
		}
	}
	if got := runningDir("elsewhere"); got != "elsewhere" {
		t.Errorf("named: %s", got)
	}
}
