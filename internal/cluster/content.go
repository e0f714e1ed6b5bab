package cluster

import (
	"context"
	"time"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
)

// Contents answers, if the agents divide contents by their hash, which page with a content is
// archived in full (the baseline of X4, a topic-partitioned crawler: paper, section 3).
// Another page with the same content is a duplicate: the crawl archives it as a revisit of
// that page and follows none of its links.
//
//	First -> archive -> finish in the journal's batch -> Archived -> sync, links shipped -> Durable
//
// Safe for concurrent use.
type Contents interface {
	// First returns the page that is archived in full with the body of this digest
	// (warc.Written.BodyDigest), of size bytes, if there is one. It blocks for a bounded time.
	// Without an answer, duplicate is false, so that no content is lost.
	First(ctx context.Context, digest [20]byte, size int64, page warc.Original) (first warc.Original, duplicate bool)
	// Archived reports that page is in the archive in full, and that its finish precedes all
	// later finishes in the journal. A kill that undoes it undoes all later visits of this
	// process, too. So later visits of this process may refer to page; other agents may not.
	// It does not block.
	Archived(digest [20]byte, page warc.Original)
	// Durable reports that no kill and no power failure can undo page any more and, with
	// replication, that the loss of this machine loses none of its links. From now on all
	// agents may refer to it. It does not block.
	Durable(digest [20]byte, page warc.Original)
	// Counts returns the counts of this run.
	Counts() report.Contents
}

// sameContents are the questions about contents, and the answers of other agents to them.
type sameContents struct {
	*base
	shipping *shipping
	receipts *receipts
}

// First looks up whether another page has the content of x.
func (c *sameContents) First(ctx context.Context, x *warc.Exchange,
	size int64) (first warc.Original, duplicate, asked bool, err error) {
	body, stored, ok, err := warc.Digests(x)
	if err != nil || !ok {
		return first, false, false, err
	}
	page := warc.Original{URL: x.URL, Date: x.Began}
	if stored != body {
		page.Stored = stored
	}
	first, duplicate = c.Contents.First(ctx, body, size, page)
	return first, duplicate, true, nil
}

// archived reports a page to Contents: at once, and again when its finish, which is in the batch that Seal looks at, is
// durable and its links are safe.
func (c *sameContents) archived(digest [20]byte, page warc.Original) {
	c.Contents.Archived(digest, page)
	c.receipts.await(receipt{finish: c.shipping.begun(),
		then: func(time.Time) { c.Contents.Durable(digest, page) }})
}

// counts returns the counts of Contents, or nil without Contents.
func (c *sameContents) counts() *report.Contents {
	if c.Contents == nil {
		return nil
	}
	n := c.Contents.Counts()
	return &n
}
