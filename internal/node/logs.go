package node

import (
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
)

// openLogs opens the logs, and the link log if the crawl has one.
func (a *Agent) openLogs() (err error) {
	r := &a.parts
	if r.Log, err = report.OpenLog(a.fs, a.dir("logs", "crawl.log")); err != nil {
		return err
	}
	a.onClose(r.Log.Close)
	if r.Events, err = report.OpenEvents(a.fs, a.dir("logs", "events.jsonl"), a.now); err != nil {
		return err
	}
	a.onClose(r.Events.Close)
	if r.Skipped, err = report.OpenSkipped(a.fs, a.dir("reports", "skipped.jsonl")); err != nil {
		return err
	}
	a.onClose(r.Skipped.Close)
	if !a.cfg.Links {
		return nil
	}
	r.LinkLog, err = linklog.Open(linklog.Config{
		Dir: a.cfg.Dir, Prefix: a.cfg.Archive.Prefix, Agent: a.cfg.Archive.Agent, FS: a.fs, Now: a.now,
	})
	if err != nil {
		return err
	}
	a.onClose(r.LinkLog.Close)
	return nil
}
