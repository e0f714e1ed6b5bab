package main

import (
	"io"
	"testing"
)

// Each command starts at once: the parser has its flags alone, and expands their help texts once.
func TestStartIsCheap(t *testing.T) {
	start := func() { run([]string{"version"}, io.Discard, io.Discard) }
	if n := testing.AllocsPerRun(1, start); n > 10_000 {
		t.Errorf("\"orbweaver version\" makes %.0f allocations, want at most 10,000", n)
	}
}
