// Package testneed answers one question of a test that needs something of the
// machine, such as a program or a data file: what if the machine lacks it?
//
// The test is skipped. With CI=true, and in the soak, it fails, so that these run every test.
//
// Only tests import this package.
package testneed

import (
	"os"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
)

// Missing skips tb because the machine lacks something. With CI=true, and in the soak, it fails
// tb instead. The arguments say what is missing, as for tb.Skip.
func Missing(tb testing.TB, what ...any) {
	tb.Helper()
	what = append([]any{"missing:"}, what...)
	if os.Getenv("CI") == "true" || testtier.Soak() {
		tb.Fatal(what...)
	}
	tb.Skip(what...)
}
