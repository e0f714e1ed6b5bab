package node

import (
	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/lost"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/cluster/replicas"
	"github.com/orbweaver/orbweaver/internal/cluster/spare"
)

// openReplicas opens what this agent keeps of others: replicas, lists of lost archives and copies of archive files. It
// also opens the queues of records to ship.
func (a *Agent) openReplicas() (err error) {
	c := a.membership
	if c.cfg.Replicas < 2 {
		return nil
	}
	refetches := c.cfg.OnLoss == LossRefetch
	if c.lists, err = lost.Open(lost.Config{FS: a.fs, Dir: a.cfg.Dir, Clock: a.cfg.Clock, Events: a.parts.Events,
		Members: c.members, Refetches: refetches}); err != nil {
		return err
	}
	a.others.Names = c.lists
	if refetches {
		c.refetch = lost.NewRefetch(c.lists)
	}
	if c.cfg.ArchiveCopies == 2 {
		c.spares = spare.NewCopies(spare.Config{FS: a.fs, Dir: a.cfg.Dir, Events: a.parts.Events, Members: c.members,
			Lists: c.lists, Takeovers: c})
		spare.Call.Serve(c.server, c.spares.Answer)
	}
	if c.replicas, err = replicas.Open(replicas.Config{FS: a.fs, Dir: a.cfg.Dir, Clock: a.cfg.Clock,
		Events: a.parts.Events, MemoryBytes: a.budget.of(shareReplicas), Members: c.members,
		Owners: c, Lists: c.lists}); err != nil {
		return err
	}
	a.onClose(c.replicas.Close)
	replicas.Call.Serve(c.server, c.replicas.Receive)
	c.joining.endings = new(members.Endings)
	c.joining.endings.Kept(c.joining.who.Ended)
	out := &cluster.Copies{Shipper: c.replicas}
	memory := a.budget.of(shareShipping)
	if out.Out, err = outbox.Open(a.fs, a.dir("state", "shipping"), outbox.Config{MemoryBytes: memory}); err != nil {
		return err
	}
	a.onClose(out.Out.Close)
	if out.Waiting, err = outbox.OpenQueue(a.fs, a.dir("state", "shipping-ends"), memory); err != nil {
		return err
	}
	a.onClose(out.Waiting.Close)
	a.others.Copies = out
	return nil
}
