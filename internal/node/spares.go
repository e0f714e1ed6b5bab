package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/spare"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// With ArchiveCopies 2 another agent, the keeper, gets a copy of each finished archive file of this agent:
//
//	archive/*.warc.gz -> Copy, part after part -> the keeper's copies/AGENT-INSTANCE/*.warc.gz
//
// The names of the agents in the view say which one is the keeper. When it changes, the new keeper gets all files, and
// then the others drop theirs. The agent sends one file at a time, and rests after each part for as long as the part
// took. After a restart of either agent the copy continues where its bytes end. For what becomes of the copies when the
// agent is lost, see sift.go.

const (
	sparesDir = "copies"
	// sparesEvery is how often an agent looks for finished files, and sparesAgain how long it waits after a failure.
	sparesEvery, sparesAgain = 2 * time.Second, 10 * time.Second
	// sparesReserve is the free space that copies of other agents' files leave on the disk, for this agent's own crawl.
	sparesReserve = 1 << 30
	// sparesMemory bounds the memory for sorting the pages of copies.
	sparesMemory = 4 << 20
	// sparesStuck is how many parts in a row may change nothing at the keeper.
	sparesStuck = 3
)

// CheckArchiveCopies returns an *input.Error if agents with this number of replicas cannot have n copies of each
// archive file. Zero means 1.
func CheckArchiveCopies(n, replicas int) error {
	switch {
	case n < 0 || n > 2:
		return input.Errorf("--archive-copies %d: give 1 or 2", n)
	case n == 2 && replicas < 2:
		return input.Errorf("--archive-copies 2: with --replicas 1 no agent knows which pages a lost archive had; " +
			"give --replicas 2")
	}
	return nil
}

// spares is this agent's part in copying archive files. A nil spares copies none.
type spares struct {
	c     *membership
	store *spare.Store
	wake  chan struct{} // for sift

	mu      sync.Mutex // guards the fields below
	keeper  gossip.Agent
	has     map[string]bool // files that the keeper has
	failing bool            // the last attempt to send a file failed
	refused map[string]bool // agents whose last part this agent did not store
	told    uint64          // digest of the view whose other agents have dropped their copies
	sifted  sifted
	tries   int // failed attempts to sift
}

func newSpares(c *membership) *spares {
	if c.cfg.ArchiveCopies < 2 {
		return nil
	}
	return &spares{c: c, store: spare.New(c.a.fs, c.a.dir(sparesDir), sparesMemory), wake: make(chan struct{}, 1),
		refused: map[string]bool{}}
}

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
func (s *spares) finished() (names []string, err error) {
	entries, err := s.c.a.fs.ReadDir(s.c.a.dir("archive"))
	for _, e := range entries {
		if spare.CheckName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// waiting returns the finished files that the keeper does not have.
func (s *spares) waiting() (names []string) {
	all, err := s.finished()
	if err != nil {
		return nil // the crawl itself has the same trouble
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(all, func(name string) bool { return s.has[name] })
}

// settled reports whether the crawl may end: all finished files are copied, or cannot be, and the lists of lost
// archives are divided.
func (s *spares) settled() bool {
	if s == nil {
		return true
	}
	v := s.c.members.View()
	keeper, ok := keeperOf(v, s.c.members.Self.Name)
	s.mu.Lock()
	done := !ok || s.failing || s.keeper.Instance == keeper.Instance
	sending := ok && !s.failing
	done = done && (s.sifted == s.now(v) || s.tries >= refetchTries)
	s.mu.Unlock()
	return done && (!sending || len(s.waiting()) == 0)
}

// send copies finished files to the keeper until ctx is done.
func (s *spares) send(ctx context.Context) {
	for {
		wait, err := sparesEvery, s.round(ctx)
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		failed := err != nil && !s.failing
		s.failing = err != nil
		keeper := s.keeper.Name
		s.mu.Unlock()
		if failed {
			s.c.a.parts.Events.Write("copy-failed", report.F("agent", keeper), report.F("error", err))
		}
		if err != nil {
			wait = sparesAgain
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// pause returns after d, or returns false when ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// round sends all finished files that the keeper does not have.
func (s *spares) round(ctx context.Context) error {
	v := s.c.members.View()
	keeper, ok := keeperOf(v, s.c.members.Self.Name)
	if !ok {
		return nil
	}
	peer := s.c.members.To(keeper)
	s.mu.Lock()
	same := s.keeper.Name == keeper.Name && s.keeper.Instance == keeper.Instance && s.keeper.Boot == keeper.Boot
	if s.keeper = keeper; !same {
		s.has = nil
	}
	s.mu.Unlock()
	if !same {
		a, err := peer.Copy(ctx, rpc.Copy{Kind: rpc.CopyList})
		if err != nil {
			s.forget()
			return err
		}
		s.mu.Lock()
		s.has = map[string]bool{}
		for _, f := range a.Files {
			if info, err := s.c.a.fs.Stat(s.c.a.dir("archive", f.Name)); err == nil && info.Size() == f.Size {
				s.has[f.Name] = true
			}
		}
		s.mu.Unlock()
	}
	for _, name := range s.waiting() {
		if now, ok := keeperOf(s.c.members.View(), s.c.members.Self.Name); !ok || now.Instance != keeper.Instance {
			return nil // the next round is for the new keeper
		}
		if err := s.file(ctx, peer, name); err != nil {
			s.forget()
			return err
		}
	}
	return s.tellOthers(ctx, v, keeper)
}

// forget lets the next round ask the keeper what it has.
func (s *spares) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper.Instance = [16]byte{}
}

// file sends a file to the keeper.
func (s *spares) file(ctx context.Context, peer *rpc.Peer, name string) (err error) {
	f, err := s.c.a.fs.OpenFile(s.c.a.dir("archive", name), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // somebody has moved it away
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	is, err := spare.DigestOf(name, f)
	if err != nil {
		return err
	}
	part := rpc.Copy{Kind: rpc.CopyPart, File: rpc.CopyFile(is)}
	have, stuck := int64(-1), 0
	for have < is.Size {
		began := time.Now()
		a, err := peer.Copy(ctx, part)
		if err != nil {
			return err
		}
		if stuck++; a.Have > have {
			stuck = 0
		}
		if have = min(a.Have, is.Size); stuck > sparesStuck {
			return errors.New("the keeper stores no part of " + name)
		}
		part.Offset, part.Data = have, make([]byte, min(rpc.MaxPart, is.Size-have))
		if _, err := f.ReadAt(part.Data, have); err != nil && err != io.EOF {
			return err
		}
		if !pause(ctx, time.Since(began)) {
			return ctx.Err()
		}
	}
	s.mu.Lock()
	s.has[name] = true
	s.mu.Unlock()
	s.c.a.parts.Events.Write("copied", report.F("agent", peer.Name()), report.F("file", name),
		report.F("bytes", is.Size))
	return nil
}

// tellOthers lets all agents of a view but the keeper drop the copies that they have of this agent's files.
func (s *spares) tellOthers(ctx context.Context, v *gossip.View, keeper gossip.Agent) error {
	s.mu.Lock()
	told := s.told == v.Digest()
	s.mu.Unlock()
	if told {
		return nil
	}
	for _, a := range v.Agents {
		if a.State != gossip.Up || a.Name == keeper.Name || a.Name == s.c.members.Self.Name {
			continue
		}
		if _, err := s.c.members.To(a).Copy(ctx, rpc.Copy{Kind: rpc.CopyDrop}); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.told = v.Digest()
	s.mu.Unlock()
	return nil
}

// answer stores a part of another agent's file, or answers which copies are here.
func (s *spares) answer(_ context.Context, from rpc.Caller, c rpc.Copy) (a rpc.CopyAnswer, err error) {
	of := spare.Folder(from.Name, from.Instance)
	switch c.Kind {
	case rpc.CopyList:
		files, err := s.store.Files(of)
		slices.SortFunc(files, func(a, b spare.File) int { return cmp.Compare(a.Name, b.Name) })
		for _, f := range files[:min(len(files), rpc.MaxFiles)] {
			a.Files = append(a.Files, rpc.CopyFile(f))
		}
		return a, err
	case rpc.CopyPart:
		a.Have, err = s.keep(of, c)
		return a, s.kept(from.Name, err)
	case rpc.CopyDrop:
		if files, err := s.store.Files(of); err != nil || len(files) == 0 {
			return a, err
		}
		s.c.a.parts.Events.Write("copies-dropped", report.F("agent", from.Name))
		return a, s.store.Drop(of)
	}
	a.Known, err = s.inCopies(spare.Folder(c.Agent, c.Instance), c)
	if errors.Is(err, spare.ErrNotRead) {
		err = rpc.ErrAgain
	}
	return a, err
}

// keep stores a part of another agent's file.
func (s *spares) keep(of string, c rpc.Copy) (have int64, err error) {
	free, size := disk.Space(s.c.a.cfg.Dir)
	if size > 0 && len(c.Data) > 0 && free < sparesReserve+uint64(c.File.Size-c.Offset) { // the whole rest must fit
		return 0, &rpc.Refusal{Reason: "full",
			Text: "agent " + s.c.members.Self.Name + " has too little disk space left"}
	}
	have, err = s.store.Append(of, spare.File(c.File), c.Offset, c.Data)
	if errors.Is(err, spare.ErrName) {
		return 0, errors.Join(rpc.ErrMalformed, err)
	}
	if err != nil { // the crawl of this agent continues
		return 0, &rpc.Refusal{Reason: "disk",
			Text: fmt.Sprintf("agent %s cannot store the copy: %v", s.c.members.Self.Name, err)}
	}
	return have, nil
}

// kept writes an event when an agent's parts begin not to be stored. It returns err.
func (s *spares) kept(agent string, err error) error {
	s.mu.Lock()
	first := err != nil && !s.refused[agent]
	s.refused[agent] = err != nil
	s.mu.Unlock()
	if first {
		s.c.a.parts.Events.Write("copy-not-kept", report.F("agent", agent), report.F("error", err))
	}
	return err
}

// counts returns how many files are copied, wait, and are kept here for others. Nil: no files are copied.
func (s *spares) counts() *report.ArchiveCopies {
	if s == nil {
		return nil
	}
	n := &report.ArchiveCopies{Waiting: int64(len(s.waiting()))}
	s.mu.Lock()
	n.Keeper, n.Failing, n.Copied = s.keeper.Name, s.failing, int64(len(s.has))
	s.mu.Unlock()
	n.Held, n.HeldBytes, _ = s.store.Count() // an unreadable folder does not count
	return n
}

// folderAgent returns the agent whose files a folder has copies of, and the beginning of its instance.
func folderAgent(of string) (agent, instance string) {
	at := strings.LastIndexByte(of, '-')
	if at < 0 {
		return of, ""
	}
	return of[:at], of[at+1:]
}
