package spare

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/report"
)

const (
	// sendEvery is how often an agent looks for finished files, and sendAgain how long it waits after a failure.
	sendEvery, sendAgain = 2 * time.Second, 10 * time.Second
	// stuckParts is how many parts in a row may change nothing at the keeper.
	stuckParts = 3
)

// keeperOf returns the agent of a view that gets the copies of an agent's files: the other agent that is up with the
// largest hash of both names.
func keeperOf(v *gossip.View, agent string) (keeper gossip.Agent, ok bool) {
	var most uint64
	for _, a := range v.Agents {
		h := fnv.New64a()
		_, _ = io.WriteString(h, agent+"\x00"+a.Name)
		if n := h.Sum64(); a.Name != agent && a.State == gossip.Up && (!ok || n > most) {
			keeper, ok, most = a, true, n
		}
	}
	return keeper, ok
}

// finished returns the names of the finished files of this agent's archive.
func (c *Copies) finished() (names []string, err error) {
	entries, err := c.cfg.FS.ReadDir(c.path(archiveDir))
	for _, e := range entries {
		if CheckName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// waiting returns the finished files that the keeper does not have.
func (c *Copies) waiting() (names []string) {
	all, err := c.finished()
	if err != nil {
		return nil // the crawl itself has the same trouble
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(all, func(name string) bool { return c.has[name] })
}

// Send copies finished files to the keeper until ctx is done.
func (c *Copies) Send(ctx context.Context) {
	for {
		wait, err := sendEvery, c.round(ctx)
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		failed := err != nil && !c.failing
		c.failing = err != nil
		keeper := c.keeper.Name
		c.mu.Unlock()
		if failed {
			c.cfg.Events.Write("copy-failed", report.F("agent", keeper), report.F("error", err))
		}
		if err != nil {
			wait = sendAgain
		}
		if !clock.Pause(ctx, wait) {
			return
		}
	}
}

// round sends all finished files that the keeper does not have.
func (c *Copies) round(ctx context.Context) error {
	v := c.cfg.Members.View()
	keeper, ok := keeperOf(v, c.cfg.Members.Self.Name)
	if !ok {
		return nil
	}
	peer := c.cfg.Members.To(keeper)
	c.mu.Lock()
	same := c.keeper.Name == keeper.Name && c.keeper.Instance == keeper.Instance && c.keeper.Boot == keeper.Boot
	if c.keeper = keeper; !same {
		c.has = nil
	}
	c.mu.Unlock()
	if !same {
		r, err := Call.Ask(ctx, peer, &pb.CopyRequest{Kind: kindList})
		if err != nil {
			c.forget()
			return err
		}
		c.mu.Lock()
		c.has = map[string]bool{}
		for _, f := range r.Files {
			if info, err := c.cfg.FS.Stat(c.path(archiveDir, f.Name)); err == nil && info.Size() == int64(f.Size) {
				c.has[f.Name] = true
			}
		}
		c.mu.Unlock()
	}
	for _, name := range c.waiting() {
		if now, ok := keeperOf(c.cfg.Members.View(), c.cfg.Members.Self.Name); !ok || now.Instance != keeper.Instance {
			return nil // the next round is for the new keeper
		}
		if err := c.file(ctx, peer, name); err != nil {
			c.forget()
			return err
		}
	}
	return c.tellOthers(ctx, v, keeper)
}

// forget lets the next round ask the keeper what it has.
func (c *Copies) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keeper.Instance = [16]byte{}
}

// file sends a file to the keeper.
func (c *Copies) file(ctx context.Context, peer *rpc.Peer, name string) (err error) {
	f, err := c.cfg.FS.OpenFile(c.path(archiveDir, name), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody has moved it away
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	is, err := DigestOf(name, f)
	if err != nil {
		return err
	}
	part := &pb.CopyRequest{Kind: kindPart, File: fileToWire(is)}
	have, stuck := int64(-1), 0
	for have < is.Size {
		began := time.Now()
		r, err := Call.Ask(ctx, peer, part)
		if err != nil {
			return err
		}
		if stuck++; int64(r.Have) > have {
			stuck = 0
		}
		if have = min(int64(r.Have), is.Size); stuck > stuckParts {
			return errors.New("the keeper stores no part of " + name)
		}
		part.Offset, part.Data = uint64(have), make([]byte, min(maxPart, is.Size-have))
		if _, err := f.ReadAt(part.Data, have); err != nil && err != io.EOF {
			return err
		}
		if !clock.Pause(ctx, time.Since(began)) {
			return ctx.Err()
		}
	}
	c.mu.Lock()
	c.has[name] = true
	c.mu.Unlock()
	c.cfg.Events.Write("copied", report.F("agent", peer.Name()), report.F("file", name), report.F("bytes", is.Size))
	return nil
}

// tellOthers lets all agents of a view but the keeper drop the copies that they have of this agent's files.
func (c *Copies) tellOthers(ctx context.Context, v *gossip.View, keeper gossip.Agent) error {
	c.mu.Lock()
	told := c.told == v.Digest()
	c.mu.Unlock()
	if told {
		return nil
	}
	for _, a := range v.Agents {
		if a.State != gossip.Up || a.Name == keeper.Name || a.Name == c.cfg.Members.Self.Name {
			continue
		}
		if _, err := Call.Ask(ctx, c.cfg.Members.To(a), &pb.CopyRequest{Kind: kindDrop}); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.told = v.Digest()
	c.mu.Unlock()
	return nil
}
