package e2e

import (
	"os"
	"path/filepath"
	"testing"

	_ "github.com/orbweaver/orbweaver/internal/node" // the program is built from it

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// watch makes "go test" record the files from which the program under test is built. A cached
// result is valid only as long as these files are the same. The import above covers the files below
// cmd.
func watch(t *testing.T) {
	t.Helper()
	names, err := filepath.Glob("../cmd/orbweaver/*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("the program's files: %d, %v", len(names), err)
	}
	for _, n := range names {
		must.Get(os.Stat(n))(t)
	}
}
