package node

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/orbweaver/orbweaver/internal/node/membership"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// makePrivate takes the permissions of other users from the existing directories of a crawl with --allow-private, and
// from what it keeps of its cluster: archive files of other agents have pages, too. If the crawl directory held no
// crawl before, it keeps the permissions that the operator gave it.
func (a *Agent) makePrivate() error {
	if !a.cfg.Fetch.AllowPrivate {
		return nil
	}
	dirs := append(layout[:len(layout):len(layout)], "state", nearDir, "state/outbox")
	dirs = append(dirs, membership.Files...)
	if a.cfg.Resume || a.cfg.Overwrite {
		dirs = append(dirs, ".")
	}
	for _, d := range dirs {
		if err := disk.MakePrivate(a.fs, a.dir(d)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("crawl directory: %w", err)
		}
	}
	return nil
}

// Relieve implements disk.Spare. It closes half of the idle connections, because the process has no file descriptor
// left.
func (a *Agent) Relieve() {
	a.shortages.Add(1)
	if a.fetcher != nil {
		a.fetcher.Relieve()
	}
}
