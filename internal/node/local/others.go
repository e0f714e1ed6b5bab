package local

import (
	"context"
	"errors"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/operation"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
)

// Others are the other agents of a cluster. They implement operate.Others.
type Others struct{ Members *members.Members }

// Names implements operate.Others. An agent that leaves is named until it has ended: it still has its archive, and the
// pages that applications have to collect.
func (o Others) Names() (names []string) {
	m := o.Members.Gossip()
	if m == nil {
		return nil
	}
	for _, a := range m.View().Agents {
		if (a.State == gossip.Up || a.State == gossip.Leaving) && a.Name != o.Members.Self.Name {
			names = append(names, a.Name)
		}
	}
	return names
}

func (o Others) Ask(ctx context.Context, agent, method string, request []byte) ([]byte, error) {
	p, err := o.Members.Peer(agent)
	if err != nil {
		return nil, err
	}
	response, err := operation.Ask(ctx, p, method, request)
	if _, failed := errors.AsType[operation.Failure](err); err != nil && !failed {
		return nil, &silent{agent, err}
	}
	return response, err
}

// A silent error says for people why an agent does not answer.
type silent struct {
	agent string
	err   error
}

func (s *silent) Error() string { return "agent " + s.agent + " does not answer: " + rpc.Why(s.err) }

func (s *silent) Unwrap() error { return s.err }
