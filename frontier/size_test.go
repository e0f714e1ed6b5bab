package frontier

import (
	"testing"
	"unsafe"
)

// A crawl knows far more hosts than it asks: their size is a size class of the
// allocator, and the overhead that the budget counts holds it.
func TestHostSize(t *testing.T) {
	if n := unsafe.Sizeof(host{}); n > 96 {
		t.Errorf("a host takes %d bytes, want at most 96", n)
	}
	if n := unsafe.Sizeof(queue{}) + unsafe.Sizeof(block{}); n > blockOverhead {
		t.Errorf("a queue and its block take %d bytes", n)
	}
}
