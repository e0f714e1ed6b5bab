package members

import (
	"crypto/rand"
	"strings"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// An agent that is restored from a store has what its saved state has, and not what it did later. It draws another
// instance: only the first octets are new, so that the others see that it continues a former instance. The names of
// archives have these octets.

// drawn is the number of the octets of an instance that Renew draws.
const drawn = 4

// Renew returns an instance for the restored directory of another one.
func Renew(instance rpc.ID) rpc.ID {
	was := [drawn]byte(instance[:drawn])
	for [drawn]byte(instance[:drawn]) == was {
		rand.Read(instance[:drawn])
	}
	return instance
}

// Renewed reports whether one of two instances, in hexadecimal digits, was renewed from the other one, or both from a
// third one.
func Renewed(a, b string) bool {
	return len(a) == 2*len(rpc.ID{}) && len(b) == len(a) && a != b && strings.EqualFold(a[2*drawn:], b[2*drawn:])
}
