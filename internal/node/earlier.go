package node

import (
	"cmp"
	"context"

	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node/past"
	"github.com/orbweaver/orbweaver/internal/store/disk"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// earlierCrawls are the payloads of earlier crawls; nil if the archive refers to no other crawl.
type earlierCrawls = past.Earlier

const earlierDir = past.EarlierDir

// checkEarlier returns an *input.ConfigError if the earlier crawls cannot be read.
func (c *Config) checkEarlier() error {
	return c.Earlier.Check(cmp.Or(c.FS, disk.OS), c.Store, c.Dir, c.Resume)
}

// archiveConfig returns the configuration of the archive. The archive asks for payloads of earlier crawls, which Run
// reads.
func (a *Agent) archiveConfig(ua string) warc.Config {
	c := a.cfg.Archive
	c.Dir, c.FS, c.Clock = a.cfg.Dir, a.fs, a.cfg.Clock
	c.Info = a.info(ua)
	if a.earlier = a.cfg.Earlier.New(a.fs, a.cfg.Store, a.cfg.Dir, a.budget.of(shareEarlier)); a.earlier != nil {
		c.Earlier = a.earlier
		a.onClose(a.earlier.Close)
	}
	return c
}

// withEarlier reads the earlier crawls, and then crawls.
func (a *Agent) withEarlier(ctx context.Context) (crawl.Stop, error) {
	if err := a.earlier.Read(ctx, a.cfg.Clock, a.parts.Events, noter(a.cfg.Note)); err != nil {
		return "", err
	}
	return a.withRepair(ctx)
}
