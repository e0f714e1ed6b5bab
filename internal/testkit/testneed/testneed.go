// Package testneed answers one question of a test that needs something of the
// machine, such as a program or a data file: what if the machine lacks it?
//
// The test is skipped. With CI=true it fails, so that CI runs every test.
//
// Only tests import this package.
package testneed

import (
	"os"
	"testing"
)

// Missing skips tb because the machine lacks something. With CI=true it fails
// tb instead. The arguments say what is missing, as for tb.Skip.
func Missing(tb testing.TB, what ...any) {
	tb.Helper()
	what = append([]any{"missing:"}, what...)
	if os.Getenv("CI") == "true" {
		tb.Fatal(what...)
	}
	tb.Skip(what...)
}
