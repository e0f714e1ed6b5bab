// Package orbweaver holds no code: it is the place of the tests that keep the
// whole repository in order. Its parts are the folders beside this file, and
// DESIGN.md says what each of them does and which may import which.
package orbweaver
