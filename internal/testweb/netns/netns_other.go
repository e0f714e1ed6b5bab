//go:build !linux

package netns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
)

// A Namespace is not available on this system.
type Namespace struct {
	Sockets Sockets
	CA      string
}

// Open returns ErrUnsupported.
func Open(Config) (*Namespace, error) {
	return nil, fmt.Errorf("%w: only Linux has them, this is %s", ErrUnsupported, runtime.GOOS)
}

// Run cannot be called, because Open returns no Namespace.
func (*Namespace) Run(context.Context, []byte, <-chan os.Signal) (int, error) {
	return 0, errors.ErrUnsupported
}

// Close does nothing.
func (*Namespace) Close() {}

// Enter returns ErrUnsupported.
func Enter([]netip.Addr, []int, string, []string, []string) error { return ErrUnsupported }
