package membership

import (
	"github.com/orbweaver/orbweaver/internal/cluster"
	"github.com/orbweaver/orbweaver/internal/cluster/lost"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/outbox"
	"github.com/orbweaver/orbweaver/internal/cluster/replicas"
)

// openReplicas opens what this agent keeps of others: replicas and lists of lost archives. It also opens the queues of
// records to ship.
func (c *Membership) openReplicas(p Parts) (err error) {
	if c.cfg.Replicas < 2 {
		return nil
	}
	m := p.Memory
	at, refetches := &c.joining.Place, c.cfg.OnLoss == LossRefetch
	restores := c.cfg.SavesState && p.Stored != nil && !p.Plans
	if c.lists, err = lost.Open(lost.Config{FS: at.FS, Dir: at.Dir, Clock: at.Clock, Events: c.events,
		Members: c.Members, Refetches: refetches, Restores: restores, Restored: c.joining.who.Origin != "",
		Stored: p.Stored}); err != nil {
		return err
	}
	c.parts.Names = c.lists
	if refetches || restores {
		c.refetch = lost.NewRefetch(c.lists)
	}
	if c.replicas, err = replicas.Open(replicas.Config{FS: at.FS, Dir: at.Dir, Clock: at.Clock, Events: c.events,
		MemoryBytes: m.Replicas, Members: c.Members, Owners: c.Division, Lists: c.lists}); err != nil {
		return err
	}
	c.Division.replicas = c.replicas
	c.closers = append(c.closers, c.replicas)
	replicas.Call.Serve(c.server, c.replicas.Receive)
	c.joining.endings = new(members.Endings)
	c.joining.endings.Kept(c.joining.who.Ended)
	out := &cluster.Copies{Shipper: c.replicas}
	if out.Out, err = outbox.Open(at.FS, at.path("state", "shipping"),
		outbox.Config{MemoryBytes: m.Shipping}); err != nil {
		return err
	}
	c.closers = append(c.closers, out.Out)
	if out.Waiting, err = outbox.OpenQueue(at.FS, at.path("state", "shipping-ends"), m.Shipping); err != nil {
		return err
	}
	c.closers = append(c.closers, out.Waiting)
	c.parts.Copies = out
	return nil
}
