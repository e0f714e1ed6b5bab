package testweb

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
)

// FreeAddrs uses ports below those that Linux, macOS and Windows assign to outgoing connections (32768 to 60999 and
// 49152 to 65535). An outgoing connection could take one of those before the caller listens on it.
const firstPort, endPort = 12000, 32000

// FreeAddrs returns n loopback addresses (host:port) that are free for TCP and UDP, for programs that are told where to
// listen. Nothing reserves them after the return.
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
			none := fmt.Errorf("only %d of %d loopback addresses are free for TCP and UDP", len(addrs), n)
			return nil, errors.Join(none, last)
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
