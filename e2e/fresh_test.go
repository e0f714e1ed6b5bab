package e2e

import (
	"os"
	"path/filepath"
	"testing"

	_ "github.com/orbweaver/orbweaver/internal/node" // the program is made of it
)

// watch makes "go test" see what the program under test is built from: a
// result in its cache is good only as long as these files are the same. What
// lies below cmd is watched by the import above.
func watch(t *testing.T) {
	t.Helper()
	names, err := filepath.Glob("../cmd/orbweaver/*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("the program's files: %d, %v", len(names), err)
	}
	for _, n := range names {
		if _, err := os.Stat(n); err != nil {
			t.Fatal(err)
		}
	}
}
