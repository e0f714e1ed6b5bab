package node

import (
	"context"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/input"
	"github.com/orbweaver/orbweaver/internal/web/near/index"
)

// The values of Config.NearDuplicates.
const (
	// NearOff does not look for near-duplicates. It is the default.
	NearOff = "off"
	// NearMark archives near-duplicates as any page, and marks them.
	NearMark = "mark"
	// NearDrop archives a note in place of a near-duplicate, and does not follow its links.
	NearDrop = "drop"
)

const nearDir = "state/near"

// looksForNear reports whether near-duplicates are looked for.
func (c *Config) looksForNear() bool { return c.NearDuplicates != "" && c.NearDuplicates != NearOff }

// openNear opens the index of near-duplicates if Config.NearDuplicates asks for it.
func (a *Agent) openNear() (err error) {
	switch a.cfg.NearDuplicates {
	case "", NearOff:
		return nil
	case NearDrop:
		a.cfg.Crawl.DropNear = true
	case NearMark:
	default:
		return input.Errorf("{near-duplicates} %s: this version knows off, mark and drop", a.cfg.NearDuplicates)
	}
	if a.near, err = index.Open(a.fs, a.dir(nearDir), index.Config{MemoryBytes: a.budget.of(shareNear)}); err != nil {
		return err
	}
	a.onClose(a.near.Close)
	a.parts.Near = a.near
	return nil
}

// withNear runs the crawl, and the index of near-duplicates beside it. If the index fails, it stops the crawl and
// returns the error of the index.
func (a *Agent) withNear(ctx context.Context) (crawl.Stop, error) {
	if a.near == nil {
		return a.crawl(ctx)
	}
	crawling, fail := context.WithCancel(ctx)
	defer fail()
	run, stop := context.WithCancel(context.WithoutCancel(ctx)) // visits that end after a stop still get answers
	defer stop()
	ended := make(chan error, 1)
	go func() {
		err := a.near.Run(run)
		if err != nil {
			fail()
		}
		ended <- err
	}()
	why, err := a.crawl(crawling)
	stop()
	if nearErr := <-ended; nearErr != nil {
		return why, nearErr
	}
	return why, err
}
