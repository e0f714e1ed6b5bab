package membership

import (
	"context"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// known answers which URLs this agent has durably.
func (c *Membership) known(_ context.Context, _ rpc.Caller, fs []rpc.Fingerprint) ([]bool, error) {
	known := make([]bool, len(fs))
	for i, f := range fs {
		known[i] = c.parts.Durable.Has(uint64(f))
	}
	return known, nil
}
