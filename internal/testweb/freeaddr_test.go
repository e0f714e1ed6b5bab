package testweb

import (
	"net"
	"testing"
)

// Addresses that are found at once are others, and a server can listen there.
func TestFreeAddrs(t *testing.T) {
	addrs, err := FreeAddrs(50)
	if err != nil || len(addrs) != 50 {
		t.Fatal(len(addrs), err)
	}
	seen := map[string]bool{}
	for _, addr := range addrs {
		if seen[addr] {
			t.Errorf("%s twice", addr)
		}
		seen[addr] = true
	}
	// One after the other, lest the last find that a port was taken meanwhile.
	for range 50 {
		addrs, err := FreeAddrs(1)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", addrs[0])
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
}
