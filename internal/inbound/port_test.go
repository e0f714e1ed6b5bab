package inbound

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

func TestNotOpened(t *testing.T) {
	first := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer first.Close()
	_, inUse := net.Listen("tcp", first.Addr().String())
	_, notOurs := net.Listen("tcp", "192.0.2.1:0") // an address of documents (RFC 5737)
	bind := func(n syscall.Errno) error {
		return &net.OpError{Op: "listen", Net: "tcp", Addr: first.Addr(), Err: os.NewSyscallError("bind", n)}
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{inUse, "the port is in use; choose another"},
		{notOurs, "this machine does not have the address; choose one that it has"},
		{bind(syscall.EACCES), "this user may not open the port; choose one above 1023"},
		{bind(syscall.ENOBUFS), "bind: no buffer space available; choose another address or port"},
	} {
		if got := NotOpened(tt.err); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.err, got, tt.want)
		}
	}
}
