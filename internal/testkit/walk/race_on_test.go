//go:build race

package walk

// raceDetector reports whether the race detector is on. Large webs then take ten times as long.
const raceDetector = true
