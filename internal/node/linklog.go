package node

import "github.com/orbweaver/orbweaver/internal/linklog"

// openLinkLog opens the link log if the crawl has one.
func (a *Agent) openLinkLog() (err error) {
	if !a.cfg.Links {
		return nil
	}
	a.parts.LinkLog, err = linklog.Open(linklog.Config{
		Dir: a.cfg.Dir, Prefix: a.cfg.Archive.Prefix, Agent: a.cfg.Archive.Agent, FS: a.fs, Now: a.now,
	})
	if err != nil {
		return err
	}
	a.onClose(a.parts.LinkLog.Close)
	return nil
}
