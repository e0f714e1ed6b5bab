package testweb

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports below those that Linux, macOS and Windows give to connections that go
// out (32768 to 60999 and 49152 to 65535): what is free among those may be taken
// in the instant between the look and the start.
const firstPort, endPort = 12000, 32000

// FreeAddrs are addresses of loopback, each free for TCP and UDP, for programs
// that are to be told where they listen. Nobody holds them.
func FreeAddrs(n int) (addrs []string, err error) {
	var open []interface{ Close() error }
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	var last error
	for try := 0; len(addrs) < n; try++ {
		if try > 100+20*n {
			return nil, errors.Join(errors.New("no ports of loopback are free for TCP and UDP"), last)
		}
		addr := fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(endPort-firstPort))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			last = err
			continue
		}
		open = append(open, l)
		p, err := net.ListenPacket("udp", addr)
		if err != nil {
			last = err
			continue
		}
		open = append(open, p)
		addrs = append(addrs, addr)
	}
	return addrs, nil
}
