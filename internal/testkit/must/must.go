// Package must answers: what if a step fails that a test needs?
//
// The test ends, with the error and the line of the step:
//
//	must.Do(t, os.Mkdir(dir, 0o755))
//	text := must.Get(os.ReadFile(name))(t)
//
// Only tests import this package.
package must

// TB is the part of testing.TB that is needed. Other runners of tests have it, too.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Do ends the test if there is an error.
func Do(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns a function that returns v, or ends the test if there is an error.
func Get[T any](v T, err error) func(TB) T {
	return func(t TB) T {
		t.Helper()
		Do(t, err)
		return v
	}
}
