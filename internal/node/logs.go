package node

import (
	"errors"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/node/past"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/journal"
)

// writeBroken writes the list of broken URLs.
func (a *Agent) writeBroken(stop crawl.Stop) error {
	if err := a.parts.Log.Flush(); err != nil {
		return err
	}
	hurry := stop == crawl.Signal || stop == crawl.ByOperator || stop == crawl.OutputClosed
	return past.WriteBroken(a.fs, a.cfg.Dir, hurry)
}

// openLogs opens the logs, and the link log if the crawl has one.
func (a *Agent) openLogs() (err error) {
	r := &a.parts
	if r.Log, err = report.OpenLog(a.fs, a.dir("logs", "crawl.log")); err != nil {
		return err
	}
	a.onClose(r.Log.Close)
	if r.Events, err = report.OpenEvents(a.fs, a.dir("logs", "events.jsonl"), a.cfg.Clock); err != nil {
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
		Dir: a.cfg.Dir, Prefix: a.cfg.Archive.Prefix, Agent: a.cfg.Archive.Agent, FS: a.fs, Clock: a.cfg.Clock,
	})
	if err != nil {
		return err
	}
	a.onClose(r.LinkLog.Close)
	return nil
}

// first has the files that are written before the journal. It implements journal.References.
type first struct {
	*crawl.Parts
	pages journal.References // for other agents
}

// Flush writes the events before the log: a kill between the two leaves no visit of a run that has not started.
func (f first) Flush() error {
	return errors.Join(f.Archive.Flush(), f.Events.Flush(), f.Log.Flush(), f.Skipped.Flush(), f.LinkLog.Flush(),
		f.Seen.Commit(), f.pages.Flush(), f.Delivery.Flush())
}

func (f first) Sync() error {
	return errors.Join(f.Archive.Sync(), f.Log.Sync(), f.LinkLog.Sync(), f.pages.Sync(), f.Delivery.Sync())
}
