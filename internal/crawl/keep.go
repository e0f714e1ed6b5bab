package crawl

import (
	"github.com/orbweaver/orbweaver/internal/warc"
	"github.com/orbweaver/orbweaver/internal/web/fetch"
)

// leaves reports whether the archive does not get a response, by Config.Keep. A redirect is kept if its own URL or its
// target is to be kept. A response that confirms an earlier one is kept if the earlier one was.
func (c *Crawler) leaves(v *visit, r *fetch.Response) bool {
	keep := c.cfg.Keep
	if k := c.Sheets.Table().URL(v.asked.URL).Keep; k != nil {
		keep = k
	}
	if keep.All() || r.Wire.Size() == 0 {
		return false
	}
	if v.confirmed() && v.outcome == Fetched {
		return v.before.Original.URL == ""
	}
	if keep.URL(v.asked.URL.String()) || r.Failure == nil && keep.Type(v.mime) {
		return false
	}
	if to, ok := fetch.Redirect(r); ok && r.Failure == nil {
		if u, err := v.asked.URL.Resolve(to); err == nil && keep.URL(u.String()) {
			return false
		}
	}
	return true
}

// leave records that the archive does not get x.
func (v *visit) leave(x *warc.Exchange) error {
	v.notes = append(v.notes, "not-kept")
	if v.cut {
		digest, ok, err := warc.PayloadDigest(x)
		if err != nil {
			return err
		}
		if ok {
			v.print = printOf(200, digest[:])
		}
	}
	return nil
}
