package disk

import (
	"runtime"
	"testing"
)

func TestSpace(t *testing.T) {
	free, size := Space(t.TempDir())
	if size == 0 && runtime.GOOS == "linux" || free > size {
		t.Errorf("free %d of %d bytes", free, size)
	}
	if free, size := Space("/no/such/directory"); free != 0 || size != 0 {
		t.Errorf("a directory that is missing: free %d of %d bytes", free, size)
	}
}
