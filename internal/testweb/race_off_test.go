//go:build !race

package testweb

const raceDetector = false
