package crawl

import (
	"context"

	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// Contents says, among agents that share out contents by their hash, which page
// with a content is archived in full (X4, section 3: the second of two agents that a
// page has to do with). Another page with the content is a duplicate: it is archived
// as a revisit of that page, and none of its links are followed.
//
//	First -> archive -> finish in the journal -> Archived -> sync, links shipped -> Durable
//
// Safe for concurrent use.
type Contents interface {
	// First asks whether another page is archived with this payload, of size
	// octets. It blocks for a bounded time. Without an answer the page is no
	// duplicate: nothing may be lost of a page that asks.
	First(ctx context.Context, digest [20]byte, size int64, page warc.Original) (first warc.Original, duplicate bool)
	// Archived says that page is in the archive in full, and that its finish comes
	// before all later ones in the journal. If a kill undoes it, it undoes all
	// later visits of this process, too. So later visits of this process may refer
	// to page, and nobody else. It does not block.
	Archived(digest [20]byte, page warc.Original)
	// Durable says that neither a kill nor a power failure can undo page any more and,
	// with copies, that the loss of this machine loses none of its links. All agents
	// may refer to it. It does not block.
	Durable(digest [20]byte, page warc.Original)
	// Counts are those of this run.
	Counts() report.Contents
}

// compare asks whether another page has the content of r.
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

// hasContent tells Contents of a finished visit that archived its page in full, now
// and when the finish is durable and the links of the page are safe. The finish is in
// the batch.
func (c *Crawler) hasContent(v *visit) {
	if !v.judged || v.duplicate || !v.archived || c.fatal != nil {
		return
	}
	digest, page := v.written.PayloadDigest, v.written.Original
	c.Contents.Archived(digest, page)
	c.oweFinish(func() { c.Contents.Durable(digest, page) })
}

// contentCounts is what Contents has to tell of this run; nil without.
func (c *Crawler) contentCounts() *report.Contents {
	if c.Contents == nil {
		return nil
	}
	n := c.Contents.Counts()
	return &n
}
