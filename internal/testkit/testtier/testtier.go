// Package testtier answers: does a test run in the gate, or only in the soak?
//
// The gate is "go test ./..." and .ci/run: its verdict depends on the change alone, and it takes
// minutes. The soak is "make soak": it looks for what nobody has thought of yet, with random seeds,
// and takes an hour or more. CONTRIBUTING.md says which kind of test goes where.
//
// Only tests import this package.
package testtier

import (
	"os"
	"testing"
)

// Variable is the environment variable that makes a process of tests a part of the soak, with the
// value "true".
const Variable = "ORBWEAVER_SOAK"

// Soak reports whether the soak runs.
func Soak() bool { return os.Getenv(Variable) == "true" }

// OnlySoak skips tb in the gate. The reason says why the gate does without it.
func OnlySoak(tb testing.TB, why string) {
	tb.Helper()
	if !Soak() {
		tb.Skipf("only in the soak (%s=true): %s", Variable, why)
	}
}

// busyVariable is set by tools/soak, with the value "true", if other tests run at the same time.
const busyVariable = "ORBWEAVER_SOAK_BUSY"

// OnlyIdle skips tb in the gate, and in the soak while other tests run on the machine. A test that
// compares durations, or needs the machine to be idle for another reason, calls it first, in its own
// body: tools/soak searches the source for the call, and runs such tests alone. The reason says what
// the test compares.
func OnlyIdle(tb testing.TB, why string) {
	tb.Helper()
	OnlySoak(tb, why)
	if os.Getenv(busyVariable) == "true" {
		tb.Skipf("only on an idle machine: %s", why)
	}
}

// Rounds returns how many seeds, rounds or items a test has: in the gate and in the soak.
func Rounds(gate, soak int) int {
	if Soak() {
		return soak
	}
	return gate
}

// Stride returns the distance between the points at which a test kills or fails what it tests, or between its rounds:
// raced under the race detector in the gate, otherwise 1. The goroutines are much the same at all points, so the
// detector needs a sample; the gate also runs each test without it.
func Stride(raced int) int {
	if Raced && !Soak() {
		return raced
	}
	return 1
}

// OneGoroutine skips tb under the race detector in the gate. A test calls it if what it tests starts no goroutine: then
// the detector can find nothing.
func OneGoroutine(tb testing.TB) {
	tb.Helper()
	if Raced && !Soak() {
		tb.Skip("the race detector finds nothing in one goroutine")
	}
}
