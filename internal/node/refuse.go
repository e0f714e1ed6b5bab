package node

import (
	"github.com/orbweaver/orbweaver/internal/store/crawldir"
	"github.com/orbweaver/orbweaver/internal/store/disk"
)

// vacant returns an error if another process has the crawl directory open.
func (a *Agent) vacant() error {
	if a.cfg.FS != disk.OS {
		return nil // only the machine's files tell the process; a.fs.Lock finds out the rest
	}
	return crawldir.Vacant(a.cfg.Dir)
}
