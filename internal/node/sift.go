package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/rpc"
	"github.com/orbweaver/orbweaver/internal/cluster/spare"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/extsort"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// An heir has the names of all pages of a lost archive (see names.go). With ArchiveCopies 2 most of them are in copies
// of its files. So the heir asks all agents which of the pages their copies have, and divides the list:
//
//	reports/copied-NAME-INSTANCE.txt   in a copy
//	reports/lost-NAME-INSTANCE.txt     in none: fetched again with LossRefetch
//
// It does so after each takeover and each change of the view, because the agent with the copies may be lost, too, or be
// back.

const (
	// siftEvery is how often an agent looks whether the lists must be divided, siftAgain the pause after a failure.
	siftEvery, siftAgain = 250 * time.Millisecond, 2 * time.Second
	// siftAtOnce is the number of pages in one question.
	siftAtOnce = 1000
)

// sifted identifies the view and the number of written lists after which the lists were divided.
type sifted struct {
	view  uint64
	lists int64
}

// now returns the present view and number of lists.
func (s *spares) now(v *gossip.View) sifted { return sifted{v.Digest(), s.c.copies.commits.Load()} }

// tend divides the lists whenever that is necessary, until ctx is done.
func (s *spares) tend(ctx context.Context) {
	for pause(ctx, siftEvery) {
		v := s.c.members.View()
		if err := s.read(ctx, v); ctx.Err() != nil {
			return
		} else if err != nil {
			s.c.a.parts.Events.Write("sift-failed", report.F("error", err))
			pause(ctx, siftAgain)
			continue
		}
		now := s.now(v)
		s.mu.Lock()
		done := s.sifted == now
		s.mu.Unlock()
		if done || !s.c.copies.settled() || s.c.saw.Load() != v.Digest() {
			continue
		}
		err := s.sift(ctx, v, now)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, rpc.ErrAgain) || errors.Is(err, spare.ErrNotRead) { // an agent is reading its copies
			pause(ctx, siftAgain)
			continue
		}
		s.mu.Lock()
		if s.tries++; err == nil {
			s.sifted, s.tries = now, 0
		}
		s.mu.Unlock()
		if err != nil {
			s.c.a.parts.Events.Write("sift-failed", report.F("error", err))
			pause(ctx, siftAgain)
		}
	}
}

// read reads the copies of agents that are not in the view, before anybody asks for them.
func (s *spares) read(ctx context.Context, v *gossip.View) error {
	folders, err := s.store.Folders()
	if err != nil {
		return err
	}
	for _, of := range folders {
		if isThere(v, of) {
			continue
		}
		damaged, err := s.store.Read(ctx, of)
		for _, name := range damaged {
			s.c.a.parts.Events.Write("copy-damaged", report.F("agent", of), report.F("file", name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errLists reports that a list was written while it was divided.
var errLists = errors.New("a list has changed meanwhile")

// sift divides the lists of the agents that are not in the view.
func (s *spares) sift(ctx context.Context, v *gossip.View, now sifted) error {
	entries, err := s.c.a.fs.ReadDir(s.c.a.dir("reports"))
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, e := range entries {
		of, is := listOf(e.Name())
		if !is {
			of, is = copiedOf(e.Name())
		}
		if !is || seen[of] || fateOf(v, of) == kept {
			continue
		}
		seen[of] = true
		if err := s.divide(ctx, v, of, now); err != nil {
			return fmt.Errorf("list of %s: %w", of, err)
		}
	}
	return nil
}

// isThere reports whether a view has the agent of a list or folder: it is back, with its archive.
func isThere(v *gossip.View, of string) bool {
	agent, instance := folderAgent(of)
	a, ok := v.Agent(agent)
	return ok && hex.EncodeToString(a.Instance[:4]) == instance && (a.State == gossip.Up || a.State == gossip.Leaving)
}

// divide divides the list of one lost archive.
func (s *spares) divide(ctx context.Context, v *gossip.View, of string, now sifted) (err error) {
	a := s.c.a
	n := names{a}
	sorted := func(name string) *extsort.Queue {
		return extsort.New(a.fs, a.dir(namesDir, name+of), namesMemory, nil)
	}
	lost, copied := sorted("lost-"), sorted("copied-")
	defer func() { err = errors.Join(err, lost.Close(), copied.Close()) }()
	var batch []link.Link
	ask := func() error {
		if len(batch) == 0 {
			return nil
		}
		has, err := s.ask(ctx, v, of, batch)
		if err != nil {
			return err
		}
		for i, l := range batch {
			to := lost
			if has[i] {
				to = copied
			}
			if err := to.Push(listed(l)); err != nil {
				return err
			}
		}
		batch = batch[:0]
		return nil
	}
	for _, name := range []string{listName(of), copiedName(of)} {
		err := n.each(a.dir("reports", name), func(l link.Link) error {
			if batch = append(batch, l); len(batch) < siftAtOnce {
				return nil
			}
			return ask()
		})
		if err != nil {
			return err
		}
	}
	if err := ask(); err != nil {
		return err
	}
	k := s.c.copies
	k.lists.Lock()
	defer k.lists.Unlock()
	if k.commits.Load() != now.lists {
		return errLists
	}
	agent, instance := folderAgent(of)
	was := (*k.listed.Load())[of]
	if err := errors.Join(n.write(listDir, copiedName(of), fmt.Sprintf(copiedHead, agent, instance), copied),
		n.write(listDir, listName(of), n.head(of), lost), n.count()); err != nil {
		return err
	}
	if (*k.listed.Load())[of] != was {
		a.parts.Events.Write("sifted", report.F("agent", agent), report.F("copied", copied.Len()),
			report.F("lost", lost.Len()))
	}
	return nil
}

// ask asks all agents which pages of a lost archive their copies have.
func (s *spares) ask(ctx context.Context, v *gossip.View, of string, links []link.Link) ([]bool, error) {
	agent, instance := folderAgent(of)
	c := rpc.Copy{Kind: rpc.CopyPages, Agent: agent}
	if _, err := hex.Decode(c.Instance[:4], []byte(instance)); err != nil {
		return make([]bool, len(links)), nil // not the name of a list: somebody has made the file
	}
	for _, l := range links {
		c.Pages = append(c.Pages, link.KeyOf(l.URL))
	}
	all, err := s.inCopies(of, c)
	if err != nil {
		return nil, err
	}
	for _, a := range v.Agents {
		if a.Name == s.c.members.Self.Name || a.State != gossip.Up {
			continue
		}
		answer, err := s.c.members.To(a).Copy(ctx, c)
		if err != nil {
			return nil, err
		}
		for i, has := range answer.Known {
			all[i] = all[i] || has
		}
	}
	return all, nil
}

// inCopies reports which pages the copies have here: those in a folder, and those of all agents that are not there.
func (s *spares) inCopies(of string, c rpc.Copy) ([]bool, error) {
	folders, err := s.store.Folders()
	if err != nil {
		return nil, err
	}
	all := make([]bool, len(c.Pages))
	v := s.c.members.View()
	for _, folder := range folders {
		if folder != of && isThere(v, folder) {
			continue
		}
		has, err := s.store.Has(folder, c.Pages)
		if err != nil {
			return nil, err
		}
		for i := range has {
			all[i] = all[i] || has[i]
		}
	}
	return all, nil
}

func copiedName(of string) string { return "copied-" + of + ".txt" }

// copiedOf returns of which archive a file in reports is the list of the pages in copies.
func copiedOf(file string) (of string, is bool) {
	of, is = strings.CutPrefix(file, "copied-")
	of, txt := strings.CutSuffix(of, ".txt")
	return of, is && txt
}

const copiedHead = `# URLs of the pages that were in the archive of agent %[1]s (instance %[2]s), and that copies have:
# the files in the folder copies/%[1]s-%[2]s of another agent. If that agent is lost, too, they go back to the list
# lost-%[1]s-%[2]s.txt.
`

// remove removes a list that may be missing.
func (n names) remove(dir, name string) error {
	err := n.a.fs.Remove(n.a.dir(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, n.a.fs.SyncDir(n.a.dir(dir)))
}
