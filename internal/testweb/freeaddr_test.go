package testweb

import (
	"net"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// TestFreeAddrs: the addresses of one call differ, and a server can listen on them.
func TestFreeAddrs(t *testing.T) {
	addrs, err := FreeAddrs(50)
	if err != nil || len(addrs) != 50 {
		t.Fatalf("got %d addresses, %v; want 50", len(addrs), err)
	}
	seen := map[string]bool{}
	for _, addr := range addrs {
		if seen[addr] {
			t.Errorf("%s was returned twice", addr)
		}
		seen[addr] = true
	}
	// Listen at once after each call, so that no other process takes the port in between.
	for range 50 {
		addrs, err := FreeAddrs(1)
		must.Do(t, err)
		l, err := net.Listen("tcp", addrs[0])
		must.Do(t, err)
		defer l.Close()
	}
}
