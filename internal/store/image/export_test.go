package image

import "time"

// Longest is what a claim waits for another one at most.
const Longest = longest

// ReadList reads a list and writes it again.
func ReadList(b []byte) ([]byte, error) {
	l, err := parseList(b)
	if err != nil {
		return nil, err
	}
	return l.encode()
}

// ReadPointer reads a pointer, and returns how long its holder may fetch.
func ReadPointer(b []byte) (time.Duration, error) {
	p, err := parsePointer(b)
	return p.ends(), err
}
