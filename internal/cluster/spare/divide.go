package spare

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/handoff"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// An heir has a list of all pages of a lost archive. Most of them are in copies of its files. So the heir asks all
// agents which of the pages their copies have, and divides the list. It does so after each takeover and each change of
// the view, because the agent with the copies may be lost, too, or be back.

const (
	// divideEvery is how often an agent looks whether the lists must be divided, divideAgain the pause after a failure.
	divideEvery, divideAgain = 250 * time.Millisecond, 2 * time.Second
	// divideTries bounds the attempts to divide the lists.
	divideTries = 5
)

// A division identifies the view and the number of written lists after which the lists were divided.
type division struct {
	view    uint64
	commits int64
}

// now returns the present view and number of lists.
func (c *Copies) now(v *gossip.View) division { return division{v.Digest(), c.cfg.Lists.Commits()} }

// Tend divides the lists of lost archives whenever that is necessary, until ctx is done.
func (c *Copies) Tend(ctx context.Context) {
	for clock.Pause(ctx, divideEvery) {
		v := c.cfg.Members.View()
		if err := c.read(ctx, v); ctx.Err() != nil {
			return
		} else if err != nil {
			c.cfg.Events.Write("sift-failed", report.F("error", err))
			clock.Pause(ctx, divideAgain)
			continue
		}
		now := c.now(v)
		c.mu.Lock()
		done := c.divided == now
		c.mu.Unlock()
		if done || !c.cfg.Takeovers.TakenOver(v) {
			continue
		}
		err := c.cfg.Lists.Divide(v, now.commits, func(archive string, pages []link.Link) ([]bool, error) {
			return c.ask(ctx, v, archive, pages)
		})
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, rpc.ErrAgain) || errors.Is(err, ErrNotRead) { // an agent is reading its copies
			clock.Pause(ctx, divideAgain)
			continue
		}
		c.mu.Lock()
		if c.tries++; err == nil {
			c.divided, c.tries = now, 0
		}
		c.mu.Unlock()
		if err != nil {
			c.cfg.Events.Write("sift-failed", report.F("error", err))
			clock.Pause(ctx, divideAgain)
		}
	}
}

// read reads the copies of agents that are not in the view, before another agent asks for them.
func (c *Copies) read(ctx context.Context, v *gossip.View) error {
	folders, err := c.store.Folders()
	if err != nil {
		return err
	}
	for _, of := range folders {
		if members.IsThere(v, of) {
			continue
		}
		damaged, err := c.store.Read(ctx, of)
		for _, name := range damaged {
			c.cfg.Events.Write("copy-damaged", report.F("agent", of), report.F("file", name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ask asks all agents which pages of a lost archive their copies have.
func (c *Copies) ask(ctx context.Context, v *gossip.View, archive string, pages []link.Link) ([]bool, error) {
	if !handoff.IsArchive(archive) {
		return make([]bool, len(pages)), nil // somebody has made the file
	}
	agent, instance := members.SplitArchive(archive)
	q := &pb.CopyRequest{Kind: kindPages, Agent: agent, Instance: make([]byte, maxInstance), Pages: pagesToWire(pages)}
	if _, err := hex.Decode(q.Instance, []byte(instance)); err != nil {
		return nil, err
	}
	all, err := c.inCopies(archive, pagesFromWire(q.Pages))
	if err != nil {
		return nil, err
	}
	for _, a := range v.Agents {
		if a.Name == c.cfg.Members.Self.Name || a.State != gossip.Up {
			continue
		}
		r, err := Call.Ask(ctx, c.cfg.Members.To(a), q)
		if err != nil {
			return nil, err
		}
		for i := range all {
			all[i] = all[i] || isKnown(r, i)
		}
	}
	return all, nil
}

// inCopies reports which pages the copies have here: those in a folder, and those of all agents that are not there.
func (c *Copies) inCopies(of string, pages []link.Key) ([]bool, error) {
	folders, err := c.store.Folders()
	if err != nil {
		return nil, err
	}
	all := make([]bool, len(pages))
	v := c.cfg.Members.View()
	for _, folder := range folders {
		if folder != of && members.IsThere(v, folder) {
			continue
		}
		has, err := c.store.Has(folder, pages)
		if err != nil {
			return nil, err
		}
		for i := range has {
			all[i] = all[i] || has[i]
		}
	}
	return all, nil
}
