//go:build !race

package walk

const raceDetector = false
