package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// When an agent is gone, its heirs take over its hosts from their replicas. An heir learns the records
// of a replica like those that an agent sends; see learner. It accepts the pending links like links
// from another agent. A takeover may be repeated: what the agent knows already does not change.
//
// A host may have another owner by then: an agent that has joined since, or that this agent does
// not know yet. The heir sends pending links of such a host on to the owner. It keeps the finished
// URLs, and the owner asks for them (Exchange.Claim). Until the takeover is done, the heir answers
// every Claim with "ask again", and starts no new host itself.

// Taken reports what TakeOver imported.
type Taken struct {
	// Pending counts the links of hosts that this agent owns now, Passed the links of other hosts.
	// Known counts the finished URLs of all hosts, Named those of which the lost agent's archive had a
	// record, or an archive that was lost before.
	Pending, Known, Passed, Named int64
}

// A LostReplica holds the records that sources have shipped: a handoff.Store.
type LostReplica interface {
	Import(ctx context.Context, source handoff.Source, fn func(*handoff.Record) error) (handoff.Mark, error)
	DropSource(ctx context.Context, mark handoff.Mark) error
	Reset(ctx context.Context, source handoff.Source) error
}

// TakeOver imports the state that a lost source has shipped to store, and deletes it there once it
// is durable here. Before that, it writes the list of the URLs that were in the lost archive; see Names.
// ours reports whether this agent owns a host from now on; the links of other hosts go to the outbox. Until
// TakeOver has returned, the Placement must report the owner of such a host as not known. If the error is a
// handoff.ErrNewer, call TakeOver again.
func (cl *Clustered) TakeOver(ctx context.Context, store LostReplica, source handoff.Source,
	ours func(host string) bool) (n Taken, err error) {
	in := newLearner(ctx, cl.tenants, "", func(l link.Link) bool { return ours(l.URL.Host()) })
	in.counter, in.archive = source.Counter(), source.Archive()
	if cl.Names != nil {
		if in.list, in.whole, err = cl.Names.List(source); err != nil {
			return n, fmt.Errorf("take over from %v: %w", source, err)
		}
		defer func() { err = errors.Join(err, in.list.Close()) }()
	}
	mark, err := store.Import(ctx, source, func(r *handoff.Record) error {
		if err := in.add(r); !errors.Is(err, handoff.ErrRecord) {
			return err
		}
		return nil // the others count
	})
	damage := err
	if err != nil && !errors.Is(err, handoff.ErrDamaged) {
		return in.n, fmt.Errorf("take over: %w", err)
	}
	if err := in.end(); err != nil {
		return in.n, fmt.Errorf("take over from %v: %w", source, err)
	}
	if in.list != nil {
		if err := in.list.Commit(); err != nil {
			return in.n, fmt.Errorf("take over from %v: %w", source, err)
		}
	}
	if damage != nil { // damaged: there is no more to read
		return in.n, store.Reset(ctx, source)
	}
	return in.n, store.DropSource(ctx, mark)
}
