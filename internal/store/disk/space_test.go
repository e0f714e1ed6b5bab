package disk

import (
	"runtime"
	"testing"
)

func TestSpace(t *testing.T) {
	s := Volume(t.TempDir()).Space()
	if s.Size == 0 && runtime.GOOS == "linux" || s.Free > s.Size {
		t.Errorf("free %d of %d bytes", s.Free, s.Size)
	}
	if s := Volume("/no/such/directory").Space(); s != (Space{}) || s.IsScarce() {
		t.Errorf("a directory that is missing: free %d of %d bytes", s.Free, s.Size)
	}
	if (Space{100, 1000}).IsScarce() || !(Space{99, 1000}).IsScarce() {
		t.Error("a disk is scarce if less than a tenth is free")
	}
}
