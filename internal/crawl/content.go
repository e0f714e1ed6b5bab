package crawl

import (
	"context"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// Contents answers, if the agents divide contents by their hash, which page with a content is
// archived in full (the baseline of X4, a topic-partitioned crawler: paper, section 3).
// Another page with the same content is a duplicate: the crawl archives it as a revisit of
// that page and follows none of its links.
//
//	First -> archive -> finish in the journal -> Archived -> sync, links shipped -> Durable
//
// Safe for concurrent use.
type Contents interface {
	// First returns the page that is archived in full with this payload, of size bytes, if
	// there is one. It blocks for a bounded time. Without an answer, duplicate is false, so
	// that no content is lost.
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

// compare looks up whether another page has the content of r.
func (c *Crawler) compare(ctx context.Context, v *visit, r *fetch.Response) error {
	if v.failure != 0 || r.Status/100 != 2 {
		return nil
	}
	x := exchangeOf(v.asked, r)
	digest, ok, err := warc.PayloadDigest(&x)
	if err != nil || !ok {
		return err
	}
	v.judged = true
	page := warc.Original{URL: x.URL, Date: x.Began}
	v.first, v.duplicate = c.Contents.First(ctx, digest, r.Wire.Size()-int64(r.HeadLen), page)
	return nil
}

// hasContent reports a finished visit that archived its page in full to Contents: at once,
// and again when the finish is durable and the links of the page are safe. The finish is in
// the present batch.
func (c *Crawler) hasContent(v *visit) {
	if !v.judged || v.duplicate || !v.archived || c.fatal != nil {
		return
	}
	digest, page := v.written.PayloadDigest, v.written.Original
	c.Contents.Archived(digest, page)
	c.whenFinishesSafe(func() { c.Contents.Durable(digest, page) })
}

// contentCounts returns the counts of Contents, or nil without Contents.
func (c *Crawler) contentCounts() *report.Contents {
	if c.Contents == nil {
		return nil
	}
	n := c.Contents.Counts()
	return &n
}
