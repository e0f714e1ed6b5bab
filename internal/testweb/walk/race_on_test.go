//go:build race

package walk

// raceDetector is on: large webs take ten times as long.
const raceDetector = true
