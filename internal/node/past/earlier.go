package past

import (
	"context"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/output/crawls"
	"github.com/orbweaver/orbweaver/internal/output/wacz"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc/earlier"
)

// EarlierDir is the folder of a crawl directory that has what was read of earlier crawls.
const EarlierDir = earlier.Folder

// EarlierConfig says which earlier crawls may have the content of a page.
type EarlierConfig struct {
	// From are crawl directories, stores, segments, WACZ files and CDXJ files. None: the archive refers to no other
	// archive.
	From []string
	// Least is the smallest body that is looked for, in bytes.
	Least int64
}

// Check returns an *input.ConfigError if the earlier crawls cannot be read. dir is the crawl directory of this crawl.
// Stores are opened for the user of a place, whose URL does not count.
func (c *EarlierConfig) Check(fsys disk.FS, user Place, dir string, resumed bool) error {
	if len(c.From) == 0 {
		return nil
	}
	return earlier.Check(show(fsys, user), dir, c.From, resumed)
}

// shown is a file system in which earlier crawls may be in stores, and in WACZ files, which stay open. It implements
// earlier.Shower.
type shown struct {
	*wacz.FS
	in *crawls.FS
}

func show(fsys disk.FS, user Place) shown {
	in := crawls.New(context.Background(), fsys, crawls.Opener(user)) // each request ends by itself
	return shown{wacz.NewFS(in), in}
}

// Indexes returns the indexes of the segments of a store, or of a folder, and the index of a WACZ, whose program is not
// known.
func (s shown) Indexes(name string) (paths []string, ours bool, err error) {
	if info, err := s.in.Stat(name); wacz.Is(name) && err == nil && info.Mode().IsRegular() {
		index, err := s.IndexOf(context.Background(), name)
		return []string{index}, false, err
	}
	dir, err := s.in.Dir(name)
	if err != nil {
		return nil, false, err
	}
	p, err := s.in.Place(dir)
	return p.Parts, true, err
}

// Earlier are the payloads of earlier crawls.
type Earlier struct{ *earlier.Payloads }

// New returns the payloads of the earlier crawls, nil if there is none. Read must read them. The table takes about
// memory bytes.
func (c *EarlierConfig) New(fsys disk.FS, user Place, dir string, memory int64) *Earlier {
	if len(c.From) == 0 {
		return nil
	}
	return &Earlier{earlier.New(earlier.Config{FS: show(fsys, user), Dir: dir, Paths: c.From, LeastBytes: c.Least,
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
