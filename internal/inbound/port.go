package inbound

import (
	"errors"
	"net"
	"syscall"
)

// NotOpened explains why a port could not be opened to listen on, and says what to do. It does not name the address.
func NotOpened(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "the port is in use; choose another"
	case errors.Is(err, syscall.EACCES):
		return "this user may not open the port; choose one above 1023"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "this machine does not have the address; choose one that it has"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok { // its text repeats the address
		err = op.Err
	}
	return err.Error() + "; choose another address or port"
}
