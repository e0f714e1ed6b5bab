package lost

import (
	"errors"
	"fmt"

	"github.com/orbweaver/orbweaver/internal/cluster/gossip"
	"github.com/orbweaver/orbweaver/internal/cluster/members"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/web/link"
)

// divideAtOnce is the number of pages of which Divide asks at once.
const divideAtOnce = 1000

// errChanged reports that a list was written while it was divided.
var errChanged = errors.New("a list has changed meanwhile")

// Divide divides the lists of the archives that are not kept by a view: by which pages there are copies of.
//
//	reports/copied-NAME-INSTANCE.txt   in a copy
//	reports/lost-NAME-INSTANCE.txt     in none: fetched again with Refetch
//
// has reports that for pages of an archive. commits is what Commits has returned before; if a list was written since,
// Divide returns an error.
func (l *Lists) Divide(v *gossip.View, commits int64,
	has func(archive string, pages []link.Link) ([]bool, error)) error {
	entries, err := l.cfg.FS.ReadDir(l.path(listDir))
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, e := range entries {
		archive, is := lostOf(e.Name())
		if !is {
			archive, is = copiedOf(e.Name())
		}
		if !is || seen[archive] || members.FateOf(v, archive) == members.Kept {
			continue
		}
		seen[archive] = true
		ask := func(pages []link.Link) ([]bool, error) { return has(archive, pages) }
		if err := l.divide(archive, commits, ask); err != nil {
			return fmt.Errorf("list of %s: %w", archive, err)
		}
	}
	return nil
}

// divide divides the list of one lost archive.
func (l *Lists) divide(archive string, commits int64, has func([]link.Link) ([]bool, error)) (err error) {
	lost, copied := l.sorter("lost-"+archive, sortMemory), l.sorter("copied-"+archive, sortMemory)
	defer func() { err = errors.Join(err, lost.Close(), copied.Close()) }()
	var batch []link.Link
	ask := func() error {
		if len(batch) == 0 {
			return nil
		}
		has, err := has(batch)
		if err != nil {
			return err
		}
		for i, u := range batch {
			to := lost
			if has[i] {
				to = copied
			}
			if err := to.Push(listed(u)); err != nil {
				return err
			}
		}
		batch = batch[:0]
		return nil
	}
	for _, name := range []string{lostName(archive), copiedName(archive)} {
		err := l.each(l.path(listDir, name), func(u link.Link) error {
			if batch = append(batch, u); len(batch) < divideAtOnce {
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
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.commits.Load() != commits {
		return errChanged
	}
	agent, instance := members.SplitArchive(archive)
	was := (*l.listed.Load())[archive]
	if err := errors.Join(l.write(listDir, copiedName(archive), fmt.Sprintf(copiedHead, agent, instance), copied),
		l.write(listDir, lostName(archive), l.head(archive), lost), l.count()); err != nil {
		return err
	}
	if (*l.listed.Load())[archive] != was {
		l.cfg.Events.Write("sifted", report.F("agent", agent), report.F("copied", copied.Len()),
			report.F("lost", lost.Len()))
	}
	return nil
}
