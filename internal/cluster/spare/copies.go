package spare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc/pb"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

const (
	// Dir is the folder of the Store in a crawl directory.
	Dir = "copies"
	// reserve is the free space that copies of other agents' files leave on the disk, for this agent's own crawl.
	reserve = 1 << 30
	// sortMemory bounds the memory for sorting the pages of copies.
	sortMemory = 4 << 20
)

// Copies are this agent's part in copying archive files. Another agent, the keeper, gets a copy of each finished
// archive file of this agent:
//
//	archive/*.warc.gz -> Send, part after part -> the keeper's copies/AGENT-INSTANCE/*.warc.gz
//
// The names of the agents in the view say which one is the keeper. When it changes, the new keeper gets all files, and
// then the others drop theirs. The agent sends one file at a time, and rests after each part for as long as the part
// took. After a restart of either agent the copy continues where its bytes end. When an agent is lost, Tend divides the
// list of its pages by what the copies have.
//
// A nil Copies copies nothing. Safe for concurrent use.
type Copies struct {
	cfg   Config
	store *Store

	mu      sync.Mutex // guards the fields below
	keeper  gossip.Agent
	has     map[string]bool // files that the keeper has
	failing bool            // the last attempt to send a file failed
	refused map[string]bool // agents whose last part this agent did not store
	told    uint64          // digest of the view whose other agents have dropped their copies
	divided division
	tries   int // failed attempts to divide the lists
}

// Config configures Copies.
type Config struct {
	FS        disk.FS
	Dir       string // of the crawl
	Events    *report.Events
	Members   *members.Members
	Lists     Lists
	Takeovers Takeovers
}

// Lists are the lists of lost archives.
type Lists interface {
	// Commits counts the writes of lists by others than Divide.
	Commits() int64
	// Divide divides the lists of the archives that are lost by a view: has reports of which pages of an archive there
	// are copies. The lists must not have been written since Commits has returned commits.
	Divide(v *gossip.View, commits int64, has func(archive string, pages []link.Link) ([]bool, error)) error
}

// Takeovers are what this agent takes over from lost agents.
type Takeovers interface {
	// TakenOver reports whether the agent has applied a view, and has taken over from all agents that are lost in it.
	TakenOver(v *gossip.View) bool
}

// NewCopies returns the Copies of an agent, which has a crawl directory.
func NewCopies(cfg Config) *Copies {
	return &Copies{cfg: cfg, store: New(cfg.FS, filepath.Join(cfg.Dir, Dir), sortMemory), refused: map[string]bool{}}
}

func (c *Copies) path(elem ...string) string {
	return filepath.Join(append([]string{c.cfg.Dir}, elem...)...)
}

// Settled reports whether the crawl may end: all finished files are copied, or cannot be, and the lists of lost
// archives are divided.
func (c *Copies) Settled() bool {
	if c == nil {
		return true
	}
	v := c.cfg.Members.View()
	keeper, ok := keeperOf(v, c.cfg.Members.Self.Name)
	c.mu.Lock()
	done := !ok || c.failing || c.keeper.Instance == keeper.Instance
	sending := ok && !c.failing
	done = done && (c.divided == c.now(v) || c.tries >= divideTries)
	c.mu.Unlock()
	return done && (!sending || len(c.waiting()) == 0)
}

// Answer stores a part of another agent's file, or answers which copies are here.
func (c *Copies) Answer(_ context.Context, from rpc.Caller, q *pb.CopyRequest) (*pb.CopyResponse, error) {
	if c.cfg.Members.Gossip() == nil {
		return nil, rpc.ErrAgain
	}
	of, r := Folder(from.Name, from.Instance), &pb.CopyResponse{}
	switch q.Kind {
	case kindList:
		files, err := c.store.Files(of)
		slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
		for _, f := range files[:min(len(files), maxFiles)] {
			r.Files = append(r.Files, fileToWire(f))
		}
		return r, err
	case kindPart:
		have, err := c.keep(of, q)
		r.Have = uint64(have)
		return r, c.kept(from.Name, err)
	case kindDrop:
		if files, err := c.store.Files(of); err != nil || len(files) == 0 {
			return r, err
		}
		c.cfg.Events.Write("copies-dropped", report.F("agent", from.Name))
		return r, c.store.Drop(of)
	}
	known, err := c.inCopies(Folder(q.Agent, [16]byte(q.Instance)), pagesFromWire(q.Pages))
	if errors.Is(err, ErrNotRead) {
		err = rpc.ErrAgain
	}
	r.Known = knownToWire(known)
	return r, err
}

// keep stores a part of another agent's file.
func (c *Copies) keep(of string, q *pb.CopyRequest) (have int64, err error) {
	room := disk.Volume(c.cfg.Dir).Space()
	if room.Size > 0 && len(q.Data) > 0 && room.Free < reserve+q.File.Size-q.Offset { // the whole rest must fit
		return 0, &rpc.Refusal{Reason: "full",
			Text: "agent " + c.cfg.Members.Self.Name + " has too little disk space left"}
	}
	have, err = c.store.Append(of, fileFromWire(q.File), int64(q.Offset), q.Data)
	if errors.Is(err, ErrName) {
		return 0, errors.Join(rpc.ErrMalformed, err)
	}
	if err != nil { // the crawl of this agent continues
		return 0, &rpc.Refusal{Reason: "disk",
			Text: fmt.Sprintf("agent %s cannot store the copy: %v", c.cfg.Members.Self.Name, err)}
	}
	return have, nil
}

// kept writes an event when an agent's parts begin not to be stored. It returns err.
func (c *Copies) kept(agent string, err error) error {
	c.mu.Lock()
	first := err != nil && !c.refused[agent]
	c.refused[agent] = err != nil
	c.mu.Unlock()
	if first {
		c.cfg.Events.Write("copy-not-kept", report.F("agent", agent), report.F("error", err))
	}
	return err
}

// Counts returns how many files are copied, wait, and are kept here for others. Nil: no files are copied.
func (c *Copies) Counts() *report.ArchiveCopies {
	if c == nil {
		return nil
	}
	n := &report.ArchiveCopies{Waiting: int64(len(c.waiting()))}
	c.mu.Lock()
	n.Keeper, n.Failing, n.Copied = c.keeper.Name, c.failing, int64(len(c.has))
	c.mu.Unlock()
	n.Held, n.HeldBytes, _ = c.store.Count() // an unreadable folder does not count
	return n
}
