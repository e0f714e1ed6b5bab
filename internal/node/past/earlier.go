package past

import (
	"context"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc/earlier"
)

// EarlierDir is the folder of a crawl directory that has what was read of earlier crawls.
const EarlierDir = earlier.Folder

// EarlierConfig says which earlier crawls may have the content of a page.
type EarlierConfig struct {
	// From are crawl directories and CDXJ files. None: the archive refers to no other archive.
	From []string
	// Least is the smallest body that is looked for, in bytes.
	Least int64
}

// Check returns an *input.ConfigError if the earlier crawls cannot be read. dir is the crawl directory of this crawl.
func (c *EarlierConfig) Check(fsys disk.FS, dir string, resumed bool) error {
	if len(c.From) == 0 {
		return nil
	}
	return earlier.Check(fsys, dir, c.From, resumed)
}

// Earlier are the payloads of earlier crawls.
type Earlier struct{ *earlier.Payloads }

// New returns the payloads of the earlier crawls, nil if there is none. Read must read them. The table takes about
// memory bytes.
func (c *EarlierConfig) New(fsys disk.FS, dir string, memory int64) *Earlier {
	if len(c.From) == 0 {
		return nil
	}
	return &Earlier{earlier.New(earlier.Config{FS: fsys, Dir: dir, Paths: c.From, LeastBytes: c.Least,
		MemoryBytes: memory})}
}

// Read reads the earlier crawls, or what an earlier run has read of them. If ctx is done, it returns without an error:
// the crawl then stops at once. The other errors are those of earlier.Payloads.Open.
func (e *Earlier) Read(ctx context.Context, clk clock.Clock, events *report.Events, notes Notes) error {
	if e == nil {
		return nil
	}
	begun := clk.Now()
	read, err := e.Open(ctx, notes)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if read.Built {
		events.Write("earlier-read", report.F("payloads", read.Payloads), report.F("lines", read.Lines),
			report.F("passed_over", read.PassedOver), report.F("bad", read.Bad), report.F("bytes", read.Bytes),
			report.F("took_ms", clk.Now().Sub(begun).Milliseconds()))
	}
	notes.Note("a response with one of " + report.Count(read.Payloads, "payload") + " of earlier crawls becomes a " +
		"revisit record")
	return nil
}
