package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Without ./crawl, ctl asks the crawl in the current directory.
func TestRunningDir(t *testing.T) {
	t.Chdir(t.TempDir())
	if got := runningDir(defaultDir); got != defaultDir {
		t.Errorf("nowhere: %s", got)
	}
	for _, dir := range []string{"state", filepath.Join("crawl", "state")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		want := "."
		if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "crawl.yaml"), []byte("{}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
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
