package termination_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/cluster/termination"
)

// TestHostile: a reason beyond its bound is malformed, and one at its bound is not.
func TestHostile(t *testing.T) {
	for n, want := range map[int]error{0: nil, 64: nil, 65: rpc.ErrMalformed} {
		if err := termination.EndCall.Request(&pb.EndRequest{Reason: strings.Repeat("x", n)}); !errors.Is(err, want) {
			t.Errorf("%d octets: %v", n, err)
		}
	}
}
