// Package testparts answers: how does a test open the parts of a crawl, wired as in package node?
package testparts

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"time"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/crawl/applications/delivery"
	"github.com/orbweaver/orbweaver/internal/frontier"
	"github.com/orbweaver/orbweaver/internal/linklog"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/store/journal"
	"github.com/orbweaver/orbweaver/internal/store/keyset"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
	"github.com/orbweaver/orbweaver/internal/web/robots"
	"github.com/orbweaver/orbweaver/internal/web/scope"
	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// Dir is the crawl directory by default.
const Dir = "/crawl"

// Config says how the parts are opened.
type Config struct {
	Dir       string // empty: Dir
	Frontier  frontier.Config
	Scope     scope.Config
	Seen      keyset.Config
	Fetch     fetch.Config
	Dial      func(ctx context.Context, network, addr string) (net.Conn, error)
	RetryWait time.Duration // of robots.txt
	// LinkLogBytes is the size of a file of the link log. Zero means no link log.
	LinkLogBytes int64
	ArchiveBytes int64 // size of a WARC file; 0: the usual one
	Earlier      warc.Earlier
	Seeds        []weburl.URL
	Accept       func(items []keyset.Item) error
}

// Parts are the parts of a crawl on one disk. They implement journal.References.
type Parts struct {
	Robots   *robots.Cache
	Tally    *report.Tally
	Queries  *scope.Queries
	Scope    *scope.Scope
	Fetch    *fetch.Fetcher
	Log      *report.Log
	LinkLog  *linklog.Writer
	Events   *report.Events
	Skipped  *report.Skipped
	Archive  *warc.Writer
	Frontier *frontier.Frontier
	Seen     *keyset.Store
	Journal  *journal.Journal
	Delivery *delivery.Store

	dir   string
	found warc.Recovered
}

// Open opens the parts.
func Open(fs disk.FS, cfg Config) (p *Parts, err error) {
	p = &Parts{Robots: robots.NewCache(robots.Config{Agent: "orbweaver", RetryWait: cfg.RetryWait}),
		Tally: report.NewTally(), Queries: scope.NewQueries(0, 0)}
	var e error
	fail := func(e error) { err = errors.Join(err, e) }
	if p.dir = cfg.Dir; p.dir == "" {
		p.dir = Dir
	}
	path := func(elem ...string) string { return filepath.Join(append([]string{p.dir}, elem...)...) }
	fail(fs.MkdirAll(p.JournalDir(), 0o755))
	cfg.Fetch.FS, cfg.Fetch.SpillDir, cfg.Fetch.Dial = fs, path("state"), cfg.Dial
	p.Fetch, e = fetch.New(cfg.Fetch)
	fail(e)
	p.Scope, e = scope.New(cfg.Scope, cfg.Seeds)
	fail(e)
	p.Log, e = report.OpenLog(fs, path("logs", "crawl.log"))
	fail(e)
	p.Events, e = report.OpenEvents(fs, path("logs", "events.jsonl"), clock.System)
	fail(e)
	p.Skipped, e = report.OpenSkipped(fs, path("logs", "skipped.jsonl"))
	fail(e)
	if cfg.LinkLogBytes > 0 {
		p.LinkLog, e = linklog.Open(linklog.Config{Dir: p.dir, FS: fs, MaxBytes: cfg.LinkLogBytes})
		fail(e)
	}
	p.Archive, p.found, e = warc.Open(warc.Config{Dir: p.dir, FS: fs, MaxBytes: cfg.ArchiveBytes,
		Earlier: cfg.Earlier})
	fail(e)
	p.Delivery, e = delivery.Open(fs, path("state", "applications"))
	fail(e)
	p.Frontier, e = frontier.Open(fs, path("state", "queues"), cfg.Frontier)
	fail(e)
	p.Seen, e = keyset.Open(fs, path("state", "seen"), cfg.Seen, cfg.Accept)
	fail(e)
	p.Journal, e = journal.Open(fs, p.JournalDir(), journal.Config{References: p})
	fail(e)
	return p, err
}

func (p *Parts) Flush() error {
	return errors.Join(p.Archive.Flush(), p.Log.Flush(), p.Events.Flush(), p.Skipped.Flush(), p.LinkLog.Flush(),
		p.Seen.Commit(), p.Delivery.Flush())
}

func (p *Parts) Sync() error {
	return errors.Join(p.Archive.Sync(), p.Log.Sync(), p.LinkLog.Sync(), p.Delivery.Sync())
}

// JournalDir returns the directory of the journal.
func (p *Parts) JournalDir() string { return filepath.Join(p.dir, "state", "journal") }

// Intact reports whether a WARC file still has all bytes up to end.
func (p *Parts) Intact(file string, end int64) bool {
	n, ok := p.found.Valid()[file]
	return !ok || end <= n
}

// Close closes the parts.
func (p *Parts) Close() error {
	return errors.Join(p.Journal.Close(), p.Seen.Close(), p.Frontier.Close(), p.Archive.Close(), p.Skipped.Close(),
		p.Events.Close(), p.LinkLog.Close(), p.Log.Close(), p.Fetch.Close(), p.Delivery.Close())
}
