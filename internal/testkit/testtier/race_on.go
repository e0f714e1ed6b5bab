//go:build race

package testtier

// Raced reports whether the race detector is on. Everything then takes up to ten times as long.
const Raced = true
