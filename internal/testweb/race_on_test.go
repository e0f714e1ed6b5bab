//go:build race

package testweb

// raceDetector is on: large webs take ten times as long.
const raceDetector = true
