package crawl

import (
	"context"

	"github.com/orbweaver/orbweaver/archive"
	"github.com/orbweaver/orbweaver/fetch"
	"github.com/orbweaver/orbweaver/report"
)

// Contents says, among agents that share out contents by their hash, which page
// had one first (X4, section 3: the second of two agents that a page has to do
// with). A page that is not the first with its content is a duplicate: it is
// archived as a revisit of the first one, and none of its links are followed. Safe
// for concurrent use.
type Contents interface {
	// First asks of a page with this payload, of size octets, whether another one
	// had it before. Without an answer the page is taken to be the first: of what
	// is asked nothing may be lost.
	First(ctx context.Context, digest [20]byte, size int64, page archive.Original) (first archive.Original, duplicate bool)
	// Counts are those of this run.
	Counts() report.Contents
}

// compare asks whether another page had the content of r first.
func (c *Crawler) compare(ctx context.Context, v *visit, r *fetch.Response) error {
	if v.failure != 0 || r.Status/100 != 2 {
		return nil
	}
	x := exchangeOf(v.asked, r)
	digest, ok, err := archive.PayloadDigest(&x)
	if err != nil || !ok {
		return err
	}
	v.judged = true
	v.first, v.duplicate = c.Contents.First(ctx, digest, r.Wire.Size()-int64(r.HeadLen), archive.Original{URL: x.URL, Date: x.Began})
	return nil
}

// contentCounts is what Contents has to tell of this run; nil without.
func (c *Crawler) contentCounts() *report.Contents {
	if c.Contents == nil {
		return nil
	}
	n := c.Contents.Counts()
	return &n
}
