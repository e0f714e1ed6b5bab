package membership

import (
	"context"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// askFrom is the smallest batch for which the question takes fewer bytes than it saves.
const askFrom = 4

// known answers which URLs this agent has durably.
func (c *Membership) known(_ context.Context, _ rpc.Caller, fs []rpc.Fingerprint) ([]bool, error) {
	known := make([]bool, len(fs))
	for i, f := range fs {
		known[i] = c.parts.Durable.Has(uint64(f))
	}
	return known, nil
}

// Push implements cluster.Exchange.
func (c *Membership) Push(ctx context.Context, agent string, links []byte, count, hops int) error {
	to, ok := c.Members.Agent(agent)
	if !ok {
		return fmt.Errorf("agent %q is gone", agent)
	}
	peer := c.Members.To(to)
	if count >= askFrom && hops == 0 {
		var err error
		if links, count, err = c.unknown(ctx, peer, links, count); err != nil || count == 0 {
			return err
		}
	}
	return peer.Push(ctx, rpc.Links{Count: count, Data: links, Hops: hops})
}

// unknown returns those of the links that the agent does not know.
func (c *Membership) unknown(ctx context.Context, to *rpc.Peer, links []byte, count int) ([]byte, int, error) {
	ends, fs := make([]int, 0, count), make([]rpc.Fingerprint, 0, count)
	for at := 0; at < len(links); {
		l, n, err := link.Peek(links[at:])
		if err != nil {
			return nil, 0, fmt.Errorf("link to send: %w", err)
		}
		at += n
		ends, fs = append(ends, at), append(fs, rpc.Fingerprint(c.parts.Durable.Fingerprint(l.Key())))
	}
	known, err := to.Known(ctx, fs)
	if err != nil {
		return nil, 0, err
	}
	var left []byte
	n, from := 0, 0
	for i, end := range ends {
		if !known[i] {
			left = append(left, links[from:end]...)
			n++
		}
		from = end
	}
	return left, n, nil
}
